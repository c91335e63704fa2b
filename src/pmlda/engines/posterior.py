"""The posterior of memberships: of single words under known topics; from concentrations or draws, how sure it is.

Single words are weighed on one fixed set of points on the simplex, and none influences another.
A(Σ z_k η_k) belongs to the point z, not to the word, so for S points and any family the work is one matrix product
ℓ(x)·z and one exponential per word and point: log w = z·ℓ(x) − A(z) + ln p(z)/q(z).
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, logsumexp, ndtri, xlogy

from pmlda.families.base import Family
from pmlda.model import draw_log_dirichlet, log_dirichlet
from pmlda.parallel.threads import Workers, chunks
from pmlda.types import FloatArray, IntArray, Topics

# Memory for weights: this many words and all points at a time.
WORDS_AT_ONCE = 1024
# More documents than this are represented by a systematic sample of them.
MOST_DOCUMENTS = 256
# Draws from which the probability of dominating is counted.
DOMINANCE_DRAWS = 128
# Ends of beta intervals are read from a table with this step in the logarithms of both shapes. Shapes that add up to
# more than MOST_SHAPE are nearly normal; those that add up to less than LEAST_SHAPE are rare, and quantiles change too
# suddenly there for a table.
TABLE_STEP, LEAST_SHAPE, MOST_SHAPE = 0.05, 0.5, 2000.0
# No beta distribution is less sure than this: its shapes add up to no less.
SMALLEST_SHAPE = 1e-3
# Steps of bisection for the ends in the table, to an error of 0.0001 in probability.
BISECTIONS = 12
TINY = 1e-300
# Values of a map whose intervals are found together, so that what lies between stays in cache.
VALUES_AT_ONCE = 2**16


class Nodes(NamedTuple):
    """Points on the simplex and how much prior each stands for.

    memberships : (S, K)
    log_weight : (S,) ln p(z)/(S q(z)), for points drawn from q
    """

    memberships: FloatArray
    log_weight: FloatArray


class WordPosterior(NamedTuple):
    """For each word: mean memberships and probability of dominating, both (N, K), and ln p(x), (N,)."""

    memberships: FloatArray
    dominance: FloatArray
    log_evidence: FloatArray


def draw_nodes(
    rng: np.random.Generator, proportions: FloatArray, scales: FloatArray, sizes: IntArray, n_nodes: int
) -> Nodes:
    """Points for a word of an unknown document: the prior is the mixture of Dir(s_d π_d) over documents by size.

    Half of the points come from that prior and half are uniform on the simplex, so that neither a corner nor the
    inside is without points whatever the scales are.
    """
    chosen, weights = np.arange(len(sizes)), sizes / np.sum(sizes)
    if len(sizes) > MOST_DOCUMENTS:
        chosen, weights = systematic(weights, MOST_DOCUMENTS), np.full(MOST_DOCUMENTS, 1.0 / MOST_DOCUMENTS)
    a = np.maximum(scales[chosen, None] * proportions[chosen], 1e-300)
    uniform = draw_log_dirichlet(rng, np.ones((n_nodes - n_nodes // 2, proportions.shape[1])))
    from_prior = draw_log_dirichlet(rng, a[systematic(weights, n_nodes // 2)])
    log_z = np.concatenate([uniform, from_prior])
    log_densities = [log_dirichlet(log_z, np.broadcast_to(one, log_z.shape)) for one in a]
    log_prior = np.asarray(logsumexp(log_densities, axis=0, b=weights[:, None]))
    log_uniform = log_dirichlet(log_z, np.ones_like(log_z))
    log_q = np.logaddexp(log_uniform, log_prior) - np.log(2.0)
    return Nodes(np.exp(log_z), log_prior - log_q - np.log(n_nodes))


def systematic(weights: FloatArray, n: int) -> IntArray:
    """(n,) indices, each as often as its weight says, to within one.

    >>> systematic(np.array([0.5, 0.25, 0.25]), 4).tolist()
    [0, 0, 1, 2]
    """
    edges = np.cumsum(weights)
    return np.searchsorted(edges / edges[-1], (np.arange(n) + 0.5) / n)


def weigh_words(
    words: NDArray[np.floating], topics: Topics, family: Family, nodes: Nodes, workers: Workers
) -> WordPosterior:
    """Posterior mean, probability of dominating and evidence of every word."""
    offset = topics.means.mean(axis=0) if family.has_location else np.zeros(1)
    centred = Topics(topics.means - offset, topics.spread)
    z = nodes.memberships
    partition = None if family.additive else family.log_partition(z @ family.natural(centred), centred)
    dominates = (np.argmax(z, axis=1)[:, None] == np.arange(z.shape[1])).astype(np.float64)
    targets = np.hstack([z, dominates])

    def of_chunk(chunk: slice) -> tuple[FloatArray, FloatArray]:
        x = words[chunk] - offset if family.has_location else words[chunk]
        own = family.partitions_at(x, centred, z) if partition is None else partition
        log_weight = family.scores(x, centred) @ z.T + (nodes.log_weight - own)
        top = log_weight.max(axis=1, keepdims=True)
        weight = np.exp(log_weight - top)
        total = weight.sum(axis=1, keepdims=True)
        evidence = (top + np.log(total))[:, 0] + family.log_base(x, centred)
        return (weight @ targets) / total, evidence

    starts = range(0, len(words), WORDS_AT_ONCE)
    parts = workers.map(of_chunk, [slice(start, start + WORDS_AT_ONCE) for start in starts])
    values = np.concatenate([part[0] for part in parts])
    n_topics = z.shape[1]
    return WordPosterior(values[:, :n_topics], values[:, n_topics:], np.concatenate([part[1] for part in parts]))


# ── how sure ───────────────────────────────────────────────────────────────────────────────────────────────────────
def beta_interval(
    mean: NDArray[np.floating], std: NDArray[np.floating], level: float, *, few: bool = False
) -> tuple[FloatArray, FloatArray]:
    """Ends of the shortest intervals that hold this probability, for beta variables with these means and deviations.

    A shortest interval begins at 0 where the density is highest there, and ends at 1 likewise. That matters: how
    small a membership near 0 is, neither the mean nor the standard deviation tells. NaN (no data) gives NaN. A
    deviation larger than a membership with this mean can have counts as the largest.

    few : they are so few that each is computed; a table for any number of them takes as long as for ten thousand

    >>> [end.round(2).tolist() for end in beta_interval(np.array([0.5, 0.1, 1.0]), np.array([0.1, 0.1, 0.0]), 0.9)]
    [[0.34, 0.0, 1.0], [0.66, 0.24, 1.0]]
    """
    means, deviations = (np.asarray(values, dtype=np.float64).ravel() for values in (mean, std))
    low, high = np.empty_like(means), np.empty_like(means)
    for first in range(0, len(means), VALUES_AT_ONCE):
        here = slice(first, first + VALUES_AT_ONCE)
        low[here], high[here] = _beta_ends(means[here], deviations[here], level, few)
    return low.reshape(np.shape(mean)), high.reshape(np.shape(mean))


def _beta_ends(mean: FloatArray, std: FloatArray, level: float, few: bool) -> tuple[FloatArray, FloatArray]:
    """beta_interval of some values, (n,) each."""
    mean = np.clip(mean, 0.0, 1.0)  # NaN stays
    spread = mean * (1.0 - mean)
    with np.errstate(all="ignore"):  # a deviation of 0, and NaN
        total = spread / (std * std) - 1.0
    reach = ndtri(0.5 * (1.0 + level)) * np.minimum(std, np.sqrt(spread))
    low, high = np.maximum(mean - reach, 0.0), np.minimum(mean + reach, 1.0)
    known = (total <= MOST_SHAPE) & (spread > 0.0)  # False for NaN
    total = np.maximum(total[known], SMALLEST_SHAPE)
    a, b = mean[known] * total, (1.0 - mean[known]) * total
    rare = np.ones(len(total), bool) if few else total < LEAST_SHAPE
    ends = [np.empty_like(total), np.empty_like(total)] if few else _from_table(a, b, level)
    if rare.any():
        ends[0][rare], ends[1][rare] = (
            _shortest_low(*pair, level) for pair in ((a[rare], b[rare]), (b[rare], a[rare]))
        )
    low[known], high[known] = ends[0], np.maximum(1.0 - ends[1], ends[0])  # not in the wrong order by rounding
    return low, high


def _from_table(a: FloatArray, b: FloatArray, level: float) -> list[FloatArray]:
    """Of Beta(a, b), the lower end and how far the upper one is from 1, (n,) each."""
    from scipy.ndimage import map_coordinates  # late: a run may never need it

    table, first = _beta_table(level)
    smallest = np.exp(first * TABLE_STEP)
    at = [np.log(np.maximum(shape, smallest)) / TABLE_STEP - first for shape in (a, b)]
    return [map_coordinates(table, pair, order=1, mode="nearest") for pair in (at, at[::-1])]


@lru_cache(maxsize=8)
def _beta_table(level: float) -> tuple[FloatArray, int]:
    """Lower ends for shapes e^(TABLE_STEP·i), i from the number that is returned, of both kinds; 1 is among them."""
    first = int(np.floor(np.log((1.0 - level) / 100.0) / TABLE_STEP))
    last = int(np.ceil(np.log(MOST_SHAPE) / TABLE_STEP)) + 1
    shapes = np.exp(TABLE_STEP * np.arange(first, last + 1))
    a, b = (shape.ravel() for shape in np.meshgrid(shapes, shapes, indexing="ij"))
    return _shortest_low(a, b, level).reshape(len(shapes), len(shapes)), first


def _shortest_low(a: FloatArray, b: FloatArray, level: float) -> FloatArray:
    """(n,) the lower end of the shortest interval of Beta(a, b).

    Inside, both ends have the same density, and the probability below the lower one is found by bisection. Where the
    density is unbounded at both ends, no interval is shortest in a sensible way, and both tails share what is left out.
    """
    out = 1.0 - level
    down, up = np.maximum(1.0 - a, 0.0), np.maximum(1.0 - b, 0.0)
    tail = out * np.where(b > 1.0, 0.0, np.where(a > 1.0, 1.0, (up + TINY) / (down + up + 2.0 * TINY)))
    inside = np.flatnonzero((a > 1.0) & (b > 1.0))
    a_in, b_in = a[inside], b[inside]
    least, most = np.zeros(len(inside)), np.full(len(inside), out)
    for _ in range(BISECTIONS):
        middle = 0.5 * (least + most)
        low, high = betaincinv(a_in, b_in, middle), betaincinv(a_in, b_in, middle + level)
        rises = xlogy(a_in - 1.0, low / high) + xlogy(b_in - 1.0, (1.0 - low) / (1.0 - high)) < 0.0
        least, most = np.where(rises, middle, least), np.where(rises, most, middle)
    tail[inside] = 0.5 * (least + most)
    return np.asarray(betaincinv(a, b, tail))


def dirichlet_dominance(concentrations: FloatArray, seed: int, workers: Workers) -> FloatArray:
    """(N, K) the probability that each membership is the largest, from DOMINANCE_DRAWS draws."""

    def of_chunk(chunk: slice) -> FloatArray:
        rng = np.random.default_rng([seed, chunk.start])
        shapes = concentrations[chunk]
        counts = np.zeros_like(shapes)
        rows = np.arange(len(shapes))
        for _ in range(DOMINANCE_DRAWS):
            # Logarithms, because gammas of a tiny shape are all zero; ln Γ(a + 1) + ln(u) / a.
            log_gamma = np.log(rng.standard_gamma(shapes + 1.0)) + np.log(1.0 - rng.random(shapes.shape)) / shapes
            counts[rows, np.argmax(log_gamma, axis=1)] += 1.0
        return counts / DOMINANCE_DRAWS

    return np.concatenate(workers.map(of_chunk, chunks(len(concentrations))))


def draws_interval(draws: NDArray[np.floating], level: float) -> tuple[FloatArray, FloatArray]:
    """(N, K) lower and upper ends of central intervals, from draws (S, N, K)."""
    tail = 0.5 * (1.0 - level)
    low, high = np.quantile(draws, [tail, 1.0 - tail], axis=0)
    return np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)


def variance_between(answers: FloatArray, *, drawn: bool) -> FloatArray:
    """(…) the variance of one more answer like these (1 + B, …): what was found, and refits or draws of a sampler.

    Few refits do not tell their own variance well: that is Student's distribution, as in variational_refits.Spread.
    """
    if drawn:
        return np.asarray(answers[1:].var(axis=0, ddof=1))
    n = len(answers)
    return np.asarray(answers.var(axis=0) * (n + 1.0) / (n - 3.0))
