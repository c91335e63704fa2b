"""Weighing points on the simplex gives the posterior of a word."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import betaincinv

from pmlda.engines.posterior import LEAST_SHAPE, MOST_SHAPE, beta_interval, draw_nodes, weigh_words
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


def beta_std(mean, total):
    """Of a beta distribution whose shapes add up to total."""
    return np.sqrt(mean * (1.0 - mean) / (total + 1.0))


@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
def test_intervals_are_the_shortest_of_beta_distributions(level):
    """Against the best of 2,000 tails. Near Beta(1, 1) all are equally short: there, the probability must be right."""
    rng = np.random.default_rng(0)
    total = np.exp(rng.uniform(np.log(LEAST_SHAPE), np.log(2.0 * MOST_SHAPE), 300))
    mean = np.concatenate([rng.uniform(size=150), 1.0 / (1.0 + np.exp(rng.uniform(-8.0, 8.0, 150)))])
    low, high = beta_interval(mean, beta_std(mean, total), level)
    a, b = mean * total, (1.0 - mean) * total
    cdf, slack = stats.beta(a, b).cdf, 0.002  # near a pole, much probability lies within a little slack
    assert (cdf(high + slack) - cdf(low - slack) > level - 0.01).all()
    assert (cdf(high - slack) - cdf(low + slack) < level + 0.01).all()
    tails = np.linspace(0.0, 1.0 - level, 2001)[:, None]
    ends = betaincinv(a, b, tails), betaincinv(a, b, np.minimum(tails + level, 1.0))
    best = np.argmin(ends[1] - ends[0], axis=0)
    clear = ((a > 1.2) | (b > 1.2)) & (np.minimum(a, b) > 0.0)
    for ours, exact in zip((low, high), ends, strict=True):
        # What is looked for among 2,000 tails is found to about this.
        assert np.abs(ours - np.take_along_axis(exact, best[None], axis=0)[0])[clear].max() < 0.01
    assert ((high - low) - (ends[1] - ends[0]).min(axis=0))[clear].max() < 0.002


@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
def test_intervals_from_the_table_are_those_of_betaincinv(level):
    """Where an edge has the highest density, there is no other end to look for."""
    rng = np.random.default_rng(1)
    a, b = np.exp(rng.uniform(-4.0, -0.1, 2000)), np.exp(rng.uniform(0.1, 7.0, 2000))
    mean, std = a / (a + b), beta_std(a / (a + b), a + b)
    low, high = beta_interval(mean, std, level)
    np.testing.assert_array_equal(low, 0.0)
    np.testing.assert_allclose(high, betaincinv(a, b, level), atol=0.002)
    low, high = beta_interval(1.0 - mean, std, level)
    np.testing.assert_allclose(low, 1.0 - betaincinv(a, b, level), atol=0.002)
    np.testing.assert_array_equal(high, 1.0)


def test_intervals_at_the_edges():
    mean = np.array([0.0, 1.0, 0.3, 0.5, 0.5, 1e-30, 0.0, 1.0])
    std = np.array([0.0, 0.0, 0.0, 0.5, 9.0, 1e-30, 0.1, 0.1])
    low, high = beta_interval(mean, std, 0.9)
    np.testing.assert_array_equal(low[:3], mean[:3])
    np.testing.assert_array_equal(high[:3], mean[:3])
    np.testing.assert_allclose(low[3:5], 0.0, atol=1e-12)  # as unsure as can be, and more than can be
    np.testing.assert_allclose(high[3:5], 1.0)
    assert ((low >= 0) & (low <= mean) & (mean <= high) & (high <= 1)).all()


def test_intervals_of_maps_with_holes():
    rng = np.random.default_rng(0)
    mean = rng.dirichlet([0.5, 0.5, 0.5], (300, 300)).astype(np.float32)
    std = (0.3 * np.sqrt(mean * (1.0 - mean))).astype(np.float32)
    mean[:40], std[:40] = np.nan, np.nan
    low, high = beta_interval(mean, std, 0.9)
    assert low.shape == high.shape == mean.shape
    assert np.isnan(low[:40]).all()
    assert np.isnan(high[:40]).all()
    assert ((low <= high) & (low >= 0) & (high <= 1))[40:].all()
    np.testing.assert_array_equal(low[50], beta_interval(mean[50], std[50], 0.9)[0])
