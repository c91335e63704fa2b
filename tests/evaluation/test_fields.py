"""Families on noise of their own, and topics of a picture with saturated pixels: benchmarks/fields.py in small."""

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from pmlda import segment
from pmlda.evaluation.scenes import lambda_stack, mixed_means, photon_counts, speckle
from pmlda.metrics import membership_rmse

QUICK = {"documents": "windows:8", "refits": 0}


@pytest.mark.parametrize("mean", [2, 20])
def test_family_poisson_has_a_smaller_error_than_the_gaussian_on_photons(mean):
    picture, truth = photon_counts(32, mean, "geometric", 0)
    poisson = segment(picture, 3, family="poisson", n_init=2, sweeps=60, **QUICK)
    rivals = [{"features": "spectral:raw"}, {}, {"features": lambda pixels: np.sqrt(pixels.astype(float))}]
    gaussian = [membership_rmse(segment(picture, 3, **more, **QUICK).memberships, truth) for more in rivals]
    assert membership_rmse(poisson.memberships, truth) < min(gaussian)


def test_family_additive_poisson_has_a_smaller_error_than_poisson_where_photons_add():
    picture, truth = photon_counts(32, 20, "arithmetic", 0)
    additive, poisson = (
        membership_rmse(segment(picture, 3, family=family, n_init=2, sweeps=60, **QUICK).memberships, truth)
        for family in ("additive-poisson", "poisson")
    )
    assert additive < poisson


@pytest.mark.parametrize("looks", [1, 4])
def test_family_gamma_has_a_smaller_error_than_the_gaussian_on_logarithms_of_speckle(looks):
    picture, truth = speckle(32, looks, "harmonic", 0)
    gamma = segment(picture, 3, family="gamma", looks=looks, n_init=2, sweeps=60, **QUICK)
    gaussian = segment(picture, 3, features=np.log, **QUICK)
    assert membership_rmse(gamma.memberships, truth) < membership_rmse(gaussian.memberships, truth)


def test_shapes_of_topics_without_saturated_pixels_are_those_of_the_picture_before_it_was_clipped():
    """Spectra of length one: their height is that of the pixels that are left. Nearer than with clipped pixels, too."""
    picture, _ = lambda_stack(64, 0)
    level = int(np.quantile(picture.max(axis=2), 0.97))
    clipped = np.minimum(picture, level)
    whole, left_out, left_in = (
        segment(pixels, 3, refits=0, **more).topics
        for pixels, more in ((picture, {}), (clipped, {"ignore_saturated": level}), (clipped, {}))
    )
    assert distance(left_out, whole) < 0.02
    assert distance(left_out, whole) < 0.7 * distance(left_in, whole)


def distance(topics, others) -> float:
    a, b = (each / np.linalg.norm(each, axis=1, keepdims=True) for each in (topics, others))
    gaps = np.linalg.norm(a[:, None] - b[None], axis=2)
    return float(np.sqrt((gaps[linear_sum_assignment(gaps)] ** 2).mean()))


def test_means_mix_in_three_ways():
    found = [
        mixed_means(np.array([0.5, 0.5]), np.array([[1.0], [4.0]]), kind)[0]
        for kind in ("arithmetic", "geometric", "harmonic")
    ]
    np.testing.assert_allclose(found, [2.5, 2.0, 1.6])
