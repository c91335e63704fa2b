"""Counts split among topics: the kernel equals its twin, and draws have the distributions that they should have."""

import numpy as np
import pytest
from numba import njit
from scipy import stats
from scipy.special import digamma

from pmlda.engines.corpus import to_counts
from pmlda.kernels import additive, streams
from pmlda.kernels.arguments import ADDITIVE, LogPartition, SweepKey
from tests.contracts.agreement import agree, blank, make_case
from tests.twins import additive as twins

KEY = SweepKey(np.uint64(8), np.uint64(3))


@njit
def binomials(key, n_draws, n, p):
    out, stream = np.empty(n_draws, np.int64), np.empty(streams.STREAM_SIZE, np.uint64)
    for i in range(n_draws):
        streams.point(stream, key, np.uint64(0), np.uint64(i), streams.PURPOSE_SPLIT)
        out[i] = additive.binomial(stream, n, p)
    return out


@pytest.mark.parametrize(("n", "p"), [(1, 0.3), (12, 0.5), (13, 0.02), (40, 0.9), (1000, 0.35), (10**6, 1e-6)])
def test_binomial_draws_have_their_distribution(n, p):
    """Chi-squared tests at 1e-6 each: false alarm 6e-6."""
    drawn = binomials(KEY, 20_000, n, p)
    edges = np.unique(stats.binom(n, p).ppf(np.linspace(0.0, 1.0, 12)[1:-1]))
    cells = np.diff(np.concatenate([[0.0], stats.binom(n, p).cdf(edges), [1.0]]))
    found = np.bincount(np.searchsorted(edges, drawn), minlength=len(cells))
    kept = cells * len(drawn) > 1.0
    assert found[~kept].sum() < 20
    assert stats.chisquare(found[kept], cells[kept] / cells[kept].sum() * found[kept].sum()).pvalue > 1e-6


def test_a_binomial_draw_of_certain_trials_takes_them_all():
    assert (binomials(KEY, 50, 1000, 1.0) == 1000).all()
    assert (binomials(KEY, 50, 1000, 1e-300) == 0).all()


@pytest.mark.parametrize("n_topics", [1, 2, 3])
def test_counts_are_split_as_their_twin_does(n_topics):
    case = make_case("additive poisson", n_topics)
    case.log_partition.counts.values[::7] *= 50.0  # some with more trials than are made one by one
    z, split = case.latents.memberships.copy(), blank(n_topics, 2)
    for first, last in ((0, 3), (1, 2)):
        places = case.places._replace(segments=case.segments_of(first, last))
        rows = slice(places.segments[0, 0], places.segments[-1, 1])
        own = case.partition_from(rows.start, rows.stop)
        agree(additive.split_counts, twins, own, z, places, KEY, split)
        np.testing.assert_array_equal(split.sum(axis=0), np.bincount(own.counts.features, own.counts.values))
        assert (split == np.floor(split)).all()


def test_expected_parts_equal_their_twin():
    case = make_case("additive poisson", 3)
    for low, high in ((1e-4, 1e4), (0.3, 30.0)):
        gamma = case.gamma(low, high, even=False)
        agree(additive.split_expected, twins, case.log_partition, gamma, 60, 200, blank(2), blank(3, 2), rtol=1e-7)


@pytest.mark.parametrize("size", [3.0, 40.0])
def test_expected_logarithms_of_rates_lie_between_jensens_bound_and_the_truth(size):
    """The truth from 50,000 draws, whose standard error is below 0.01; half of Jensen's gap or more is gone on average.

    That is so of words that know something: where γ adds up to 0.5, some are below Jensen's bound.
    """
    rng = np.random.default_rng(0)
    gamma, rates = size * rng.dirichlet([2.0, 2.0, 2.0], 10), rng.gamma(1.0, 5.0, (3, 4))
    log_partition = LogPartition.of(ADDITIVE, rates, 0.0, to_counts(np.ones((1, 4))))
    gaps = []
    for row in gamma:
        truth = np.log(rng.dirichlet(row, 50_000) @ rates).mean(axis=0)
        values, split = np.empty(4), np.empty((3, 4))
        additive.split_expected(log_partition, row[None].copy(), 0, 1, values, split)
        found, jensen = values - digamma(row.sum()), np.log(np.exp(digamma(row) - digamma(row.sum())) @ rates)
        assert (found < truth + 0.05).all()
        assert (found > jensen).all()
        np.testing.assert_allclose(split.sum(axis=0), 1.0)
        gaps.append([(truth - found).mean(), (truth - jensen).mean()])
    gap, jensens = np.mean(gaps, axis=0)
    assert gap < 0.5 * jensens


def test_expected_logarithms_are_exact_for_topics_alike_and_for_one_topic_alone():
    gamma = np.array([[0.7, 2.0, 0.1]])
    rates = np.array([[3.0, 1e-290], [3.0, 5.0], [3.0, 1e-290]])
    values, split = np.empty(2), np.empty((3, 2))
    log_partition = LogPartition.of(ADDITIVE, rates, 0.0, to_counts(np.ones((1, 2))))
    additive.split_expected(log_partition, gamma, 0, 1, values, split)
    np.testing.assert_allclose(values, [np.log(3.0) + digamma(2.8), np.log(5.0) + digamma(2.0)])


def test_parts_of_counts_are_in_proportion_to_memberships_and_rates():
    """Means of 2,000 splits of all words at 5 standard errors, six numbers: false alarm 3e-6."""
    case = make_case("additive poisson", 3)
    counts, z, table = case.log_partition.counts, case.latents.memberships, case.log_partition.table
    total = np.zeros((3, 2))
    for sweep in range(2000):
        split = np.empty((3, 2))
        additive.split_counts(case.log_partition, z, case.places, SweepKey(np.uint64(1), np.uint64(sweep)), split)
        total += split
    parts = z[:, :, None] * table
    parts /= parts.sum(axis=1, keepdims=True)
    x = twins.to_array(counts, 2)[:, None]
    expected, variance = (x * parts).sum(axis=0), (x * parts * (1.0 - parts)).sum(axis=0)
    assert (np.abs(total / 2000 - expected) < 5.0 * np.sqrt(variance / 2000) + 1e-9).all()
