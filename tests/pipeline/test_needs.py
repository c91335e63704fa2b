"""Memory of runs in memory: the estimate is above what was measured, and not far above."""

import numpy as np
import pytest

from pmlda.features import find_features
from pmlda.pipeline.needs import Size, memory_of_pictures
from pmlda.settings import make_settings

MEGAPIXEL = Size((1024, 1024, 3), np.dtype(np.uint8))
# Megabytes at the peak of `pmlda segment` for a smooth scene of this size with three topics.
MEASURED = {
    "variational": ({}, 680),
    "variational, small windows": ({"documents": "windows:8"}, 1272),
    "gibbs": ({"engine": "gibbs", "sweeps": 20}, 685),
    "gibbs, small windows": ({"engine": "gibbs", "sweeps": 20, "documents": "windows:8"}, 2788),
    "gibbs, every pixel": ({"engine": "gibbs", "sweeps": 20, "design_effect": 1}, 2258),
    "gibbs, every pixel, small windows": (
        {"engine": "gibbs", "sweeps": 20, "design_effect": 1, "documents": "windows:8"},
        2281,
    ),
    "paper": ({"engine": "paper", "sweeps": 20}, 1299),
    "kmeans": ({"model": "kmeans"}, 591),
    "fcm": ({"model": "fcm"}, 578),
    "gmm": ({"model": "gmm"}, 622),
    "lda": ({"model": "lda"}, 601),
}


def estimated(**settings):
    chosen = make_settings({"topics": 3, "refits": 6}, settings)
    return memory_of_pictures([MEGAPIXEL], chosen, find_features("color"))


@pytest.mark.parametrize(("settings", "megabytes"), MEASURED.values(), ids=MEASURED.keys())
def test_a_run_in_memory_takes_no_more_than_was_told_and_not_half_of_it_either(settings, megabytes):
    assert megabytes * 1e6 <= estimated(**settings) <= 2 * megabytes * 1e6


def test_candidates_and_draws_of_a_sampler_are_counted():
    variational, sampler = estimated(), estimated(engine="gibbs", design_effect=1)
    state, candidates, draws = 2 * 2**20 * 8 * (9 * 3 + 1), 2 * 2**20 * 8 * 3 * (2 * 3 + 3), 2**28
    assert sampler > variational + state + candidates + draws
    assert variational < estimated(engine="gibbs") < sampler


def test_small_documents_have_a_blended_prior_for_every_pixel():
    """Under the topics, and under those of each refit or draw."""
    prior = 2**20 * 8 * 3
    assert estimated(documents="windows:8", refits=6) - estimated(documents="windows:8", refits=0) >= 6 * prior
    assert estimated(documents="windows:8", engine="gibbs") > estimated(documents="windows:8", refits=6) + 14 * prior


def test_covariances_of_topics_need_products_of_features():
    cube = Size((1024, 1024, 200), np.dtype(np.float32))
    raw = find_features("spectral:raw")
    shared, own = (
        memory_of_pictures([cube], make_settings({"covariance": covariance}), raw)
        for covariance in ("full", "topic-full")
    )
    assert own - shared >= 2**17 // 200 * 200**2 * 8


def test_counts_are_cut_into_small_windows():
    windows, counts = estimated(documents="windows:16"), estimated(family="poisson")
    assert counts == windows > estimated()


@pytest.mark.parametrize("documents", ["labels.png", "windows:64/32", "slic:200*3", "windows:0", "ncuts:no"])
def test_documents_of_any_spelling_have_an_estimate(documents):
    assert 5e8 < estimated(documents=documents) < 2e9
