"""Starts lie near the corners of the data, not at the centres of its clusters."""

import numpy as np

from pmlda.engines.collect import match_topics
from pmlda.engines.documents import group_rows
from pmlda.engines.initial import start_latents, start_means, start_topics
from pmlda.families import Categorical, Gaussian
from pmlda.model import simulate
from pmlda.parallel.threads import Workers
from pmlda.types import Topics
from tests.problems import triangle


def test_gaussian_starts_lie_near_the_corners():
    words, document, _ = simulate(np.random.default_rng(0), Gaussian(), triangle(), [200] * 20)
    family = Gaussian().informed_by(words)
    means = start_means(np.random.default_rng(1), group_rows(words, document), family, 3)
    means = means[match_topics(triangle(), Topics(means, np.empty(0)))]
    assert np.abs(means - triangle().means).max() < 2.0
    topics = start_topics(np.random.default_rng(1), words, family, means)
    assert 0.5 < float(topics.spread) < 2.0


def test_starting_latents_are_sound():
    words, document, _ = simulate(np.random.default_rng(0), Gaussian(), triangle(), [1, 30, 2])
    documents = group_rows(words, document)
    with Workers(1) as workers:
        latents = start_latents(np.random.default_rng(0), documents, Gaussian(), triangle(), 0.25, workers)
    np.testing.assert_allclose(latents.memberships.sum(axis=1), 1.0)
    np.testing.assert_allclose(np.exp(latents.log_memberships), latents.memberships)
    np.testing.assert_allclose(np.exp(latents.log_proportions).sum(axis=1), 1.0)
    assert (latents.scales == 4.0).all()


def test_categorical_starts_are_unlike_documents():
    theta = np.array([[0.48, 0.48, 0.02, 0.02], [0.02, 0.02, 0.48, 0.48]])
    family = Categorical(1.0, 4)
    words, document, _ = simulate(
        np.random.default_rng(3), family, Topics(theta, np.empty(0)), [300] * 12, scales=5.0, alpha=0.3
    )
    means = start_means(np.random.default_rng(1), group_rows(words, document), family, 2)
    means = means[match_topics(Topics(theta, np.empty(0)), Topics(means, np.empty(0)))]
    assert np.abs(means - theta).max() < 0.15


def test_fewer_distinct_documents_than_topics_start_from_the_prior():
    family = Categorical(1.0, 4)
    documents = group_rows(np.array([[0.0], [1.0], [2.0], [3.0]]), None)
    means = start_means(np.random.default_rng(1), documents, family, 3)
    assert means.shape == (3, 4)
    np.testing.assert_allclose(means.sum(axis=1), 1.0)
