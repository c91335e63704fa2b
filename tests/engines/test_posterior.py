"""Weighing points on the simplex gives the posterior of a word."""

import numpy as np
import pytest
from scipy import stats

from pmlda.engines.posterior import draw_nodes, weigh_words
from pmlda.families import Gaussian, Poisson
from pmlda.model import simulate
from pmlda.parallel.threads import Workers
from pmlda.types import Topics
from tests.problems import triangle


def weighed(words, topics, family, proportions, scales, sizes=None, n_nodes=4096, n_jobs=1):
    sizes = np.ones(len(scales), np.int64) if sizes is None else sizes
    nodes = draw_nodes(np.random.default_rng(0), proportions, scales, sizes, n_nodes)
    with Workers(n_jobs) as workers:
        return weigh_words(words, topics, family, nodes, workers)


@pytest.mark.parametrize("scale", [0.3, 2.0, 40.0])
def test_two_topics_match_integration_on_a_grid(scale):
    """K = 2 is a line: the midpoint rule with 200,000 points, in the quantiles of the prior, is exact enough."""
    topics = Topics(np.array([[0.0], [4.0]]), np.array(1.0))
    pi = np.array([[0.3, 0.7]])
    x = np.array([[-0.5], [1.0], [2.0], [4.2]])
    posterior = weighed(x, topics, Gaussian(), pi, np.array([scale]), n_nodes=200_000)
    z0 = stats.beta(scale * 0.3, scale * 0.7).ppf((np.arange(200_000) + 0.5) / 200_000)
    density = stats.norm(4.0 * (1 - z0), 1.0).pdf(x)
    evidence = density.mean(axis=1)
    np.testing.assert_allclose(posterior.memberships[:, 0], (density * z0).mean(axis=1) / evidence, atol=0.006)
    np.testing.assert_allclose(posterior.dominance[:, 0], (density * (z0 > 0.5)).mean(axis=1) / evidence, atol=0.02)
    np.testing.assert_allclose(posterior.log_evidence, np.log(evidence), atol=0.02)


def test_a_corpus_is_the_mixture_of_its_documents_by_size():
    topics = Topics(np.array([[0.0], [4.0]]), np.array(1.0))
    pi, s = np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([3.0, 3.0])
    x = np.linspace(-1, 5, 7)[:, None]
    both = weighed(x, topics, Gaussian(), pi, s, sizes=np.array([30, 10]), n_nodes=50_000)
    alone = [weighed(x, topics, Gaussian(), pi[[d]], s[[d]], n_nodes=50_000).log_evidence for d in range(2)]
    np.testing.assert_allclose(np.exp(both.log_evidence), 0.75 * np.exp(alone[0]) + 0.25 * np.exp(alone[1]), rtol=0.03)


def test_many_documents_are_represented_by_a_sample_of_them():
    topics = Topics(np.array([[0.0], [4.0]]), np.array(1.0))
    x = np.linspace(-1, 5, 7)[:, None]
    pi = np.repeat([[0.9, 0.1], [0.2, 0.8]], [600, 200], axis=0)
    many = weighed(x, topics, Gaussian(), pi, np.full(800, 3.0), n_nodes=20_000)
    two = weighed(x, topics, Gaussian(), pi[[0, -1]], np.full(2, 3.0), sizes=np.array([3, 1]), n_nodes=20_000)
    np.testing.assert_allclose(many.log_evidence, two.log_evidence, atol=0.05)


def test_words_do_not_influence_each_other_and_threads_do_not_matter():
    words, _, _ = simulate(np.random.default_rng(1), Gaussian(), triangle(), [3000])
    arguments = (triangle(), Gaussian(), np.full((1, 3), 1 / 3), np.array([3.0]))
    together = weighed(words, *arguments, n_nodes=512)
    np.testing.assert_array_equal(weighed(words, *arguments, n_nodes=512, n_jobs=2).memberships, together.memberships)
    np.testing.assert_allclose(weighed(words[7:9], *arguments, n_nodes=512).memberships, together.memberships[7:9])


def test_memberships_are_probabilities_even_far_from_all_topics():
    far = np.array([[1e6, -1e6, 0.0], [0.0, 0.0, 0.0]])
    posterior = weighed(far, triangle(), Gaussian(), np.full((1, 3), 1 / 3), np.array([0.01]))
    np.testing.assert_allclose(posterior.memberships.sum(axis=1), 1.0)
    assert np.isfinite(posterior.log_evidence).all()


def test_other_families_are_weighed_too():
    topics = Topics(np.array([[1.0, 20.0], [20.0, 1.0]]), np.empty(0))
    words, _, latents = simulate(np.random.default_rng(2), Poisson(), topics, [500], scales=1.0, proportions=[0.5, 0.5])
    posterior = weighed(words, topics, Poisson(), np.full((1, 2), 0.5), np.array([1.0]))
    assert np.sqrt(((posterior.memberships - latents.memberships) ** 2).mean()) < 0.15
