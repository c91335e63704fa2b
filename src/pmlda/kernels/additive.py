"""Counts whose means add, x_j ~ Poisson(Σ_k z_k r_kj): A of a word, and its counts split among topics.

Here A belongs to the word as well as to z: A(z) = −Σ_j x_j ln Σ_k z_k r_kj, beside scores −Σ_j r_kj. Counts of zero add
nothing, so that all this costs K operations and a logarithm for each count that is not zero.
"""

import math

import numpy as np

from pmlda.kernels.arguments import Counts, DirichletBlock, FitBlock, LineBlock, LogPartition, Places, SweepKey
from pmlda.kernels.jit import inner, kernel
from pmlda.kernels.special import gamma_functions, log
from pmlda.kernels.streams import PURPOSE_SPLIT, STREAM_SIZE, UIntArray, log_gamma, point, uniform
from pmlda.types import FloatArray

# Logarithms are of no less than this; where exchanges lead outside the simplex, what is logged does not matter.
SMALLEST_RATE = 1e-300
# Trials of a binomial distribution that are made one by one; more of them are first halved.
FEW_TRIALS = 12


@inner
def counted_logs(counts: Counts, row: int, table: FloatArray, z: FloatArray) -> float:
    """−Σ_j x_j ln Σ_k z_k r_kj of one word."""
    starts, features, values = counts
    total = 0.0
    for i in range(starts[row], starts[row + 1]):
        rate = 0.0
        for k in range(len(z)):
            rate += z[k] * table[k, features[i]]
        total -= values[i] * log(max(rate, SMALLEST_RATE))
    return total


# ── variational ────────────────────────────────────────────────────────────────────────────────────────────────────
@inner
def _two_sums(table: FloatArray, feature: int, gamma: FloatArray) -> tuple[float, float]:
    """Σ_k γ_k r_k and Σ_k γ_k r_k² of one feature."""
    one, two = 0.0, 0.0
    for k in range(len(gamma)):
        rate = table[k, feature]
        own = gamma[k] * rate
        one += own
        two += own * rate
    return max(one, SMALLEST_RATE), max(two, SMALLEST_RATE)


@inner
def additive_fit(
    log_partition: LogPartition,
    score: FloatArray,
    q: DirichletBlock,
    row: int,
    n_words: int,
    gamma_functions_0: tuple[FloatArray, FloatArray],
    out: FitBlock,
) -> None:
    """f with E[ln Σ_k z_k r_k] = ψ(κ) + ln(V/M) − ψ(γ₀), where M = Σ γ_k r_k, V = Σ γ_k r_k² and κ = M²/V.

    With z_k = g_k/Σg, Σ g_k r_k is a sum of gamma variables, for which one of the same mean and variance stands. That
    is exact where one topic has all of the rate, and where all topics have the same.

    out.pull becomes the slopes of these logarithms along γ, out.slope those of the rest along m. score : (K, B); row :
    of the first word in log_partition.counts; gamma_functions_0 : (B,) ψ(γ₀) and ψ'(γ₀)
    """
    table, counts = log_partition.table, log_partition.counts
    starts, features, values = counts
    n_topics = len(table)
    gamma = np.empty(n_topics)
    for j in range(n_words):
        total, n_counts = 0.0, 0.0
        for k in range(n_topics):
            gamma[k] = q.gamma[k, j]
            total += q.m[k, j] * score[k, j]
            out.slope[k, j] = score[k, j]
            out.pull[k, j] = 0.0
        for i in range(starts[row + j], starts[row + j + 1]):
            one, two = _two_sums(table, features[i], gamma)
            kappa = one / two * one
            _, digamma, trigamma = gamma_functions(kappa)
            total += values[i] * (digamma + log(two) - log(one))
            n_counts += values[i]
            bent = trigamma * kappa
            by_one, by_two = values[i] * (2.0 * bent - 1.0) / one, values[i] * (1.0 - bent) / two
            for k in range(n_topics):
                rate = table[k, features[i]]
                out.pull[k, j] += rate * (by_one + by_two * rate)
        for k in range(n_topics):
            out.pull[k, j] -= n_counts * gamma_functions_0[1][j]
        out.fit[j] = total - n_counts * gamma_functions_0[0][j]
        out.slope_c[j] = 0.0


@kernel
def split_expected(
    log_partition: LogPartition, gamma: FloatArray, first: int, last: int, values: FloatArray, split: FloatArray
) -> None:
    """values (p,) = Σ_n x_nj (E[ln Σ_k z_k r_kj] + ψ(γ₀)) over words first to last − 1, and its slopes along ln r.

    These slopes, split (K, p), add up to the counts of each feature: they are how many of them each topic gets. gamma :
    (N, K); log_partition.counts has rows for the same words. Twin: tests.twins.additive.split_expected.
    """
    table, counts = log_partition.table, log_partition.counts
    values[:] = 0.0
    split[:] = 0.0
    for n in range(first, last):
        for i in range(counts.starts[n], counts.starts[n + 1]):
            feature = counts.features[i]
            one, two = _two_sums(table, feature, gamma[n])
            kappa = one / two * one
            _, digamma, trigamma = gamma_functions(kappa)
            bent = trigamma * kappa
            values[feature] += counts.values[i] * (digamma + log(two) - log(one))
            by_one, by_two = counts.values[i] * (2.0 * bent - 1.0) / one, counts.values[i] * 2.0 * (1.0 - bent) / two
            for k in range(len(table)):
                rate = table[k, feature]
                split[k, feature] += gamma[n, k] * rate * (by_one + by_two * rate)


@inner
def _others(
    log_partition: LogPartition, row: int, k: int, shares: FloatArray, rates: FloatArray, spreads: FloatArray
) -> None:
    """Rates of all topics but k together, and Σ_i u_i r_ij² less their square, for every count of a word."""
    table, counts = log_partition.table, log_partition.counts
    first = counts.starts[row]
    for i in range(first, counts.starts[row + 1]):
        mean, square = 0.0, 0.0
        for o in range(len(table)):
            rate = table[o, counts.features[i]]
            mean += shares[o] * rate
            square += shares[o] * rate * rate
        rates[i - first] = mean
        spreads[i - first] = max(square - mean * mean, 0.0)


@inner
def _line_fit(
    log_partition: LogPartition, row: int, k: int, z: float, c: float, rates: FloatArray, spreads: FloatArray
) -> float:
    """E[Σ_j x_j ln(z r_kj + (1 − z) Σ_i u_i r_ij)], to second order in u: what the spread of u takes away."""
    starts, features, values = log_partition.counts
    first, total = starts[row], 0.0
    for i in range(first, starts[row + 1]):
        rate = max(z * log_partition.table[k, features[i]] + (1.0 - z) * rates[i - first], SMALLEST_RATE)
        off = (1.0 - z) / rate
        total += values[i] * (log(rate) - 0.5 * c * off * off * spreads[i - first])
    return total


@inner
def additive_line(
    log_partition: LogPartition, score: FloatArray, k: int, row: int, n_words: int, nodes: int, line: LineBlock
) -> None:
    """line.slope and bend of the parabola through φ at 0, ½ and 1 if nodes is 0; otherwise log_weight += φ − φ(0).

    row : of the first word in log_partition.counts
    """
    face, starts = line.face, log_partition.counts.starts
    most = 0
    for j in range(n_words):
        most = max(most, starts[row + j + 1] - starts[row + j])
    rates, spreads = np.empty(most), np.empty(most)
    for j in range(n_words):
        shares, c, step = face.shares[:, j], 1.0 / (face.total[j] + 1.0), 0.0
        for i in range(len(score)):
            step += shares[i] * (score[k, j] - score[i, j])
        _others(log_partition, row + j, k, shares, rates, spreads)
        base = _line_fit(log_partition, row + j, k, 0.0, c, rates, spreads)
        if nodes == 0:
            middle = 0.5 * step + _line_fit(log_partition, row + j, k, 0.5, c, rates, spreads) - base
            end = step + _line_fit(log_partition, row + j, k, 1.0, c, rates, spreads) - base
            line.slope[j] = 4.0 * middle - end
            line.bend[j] = 8.0 * middle - 4.0 * end
        for i in range(nodes):
            z = line.z[i, j]
            line.log_weight[i, j] += step * z + _line_fit(log_partition, row + j, k, z, c, rates, spreads) - base


# ── the exact sampler ──────────────────────────────────────────────────────────────────────────────────────────────
@inner
def binomial(stream: UIntArray, n: int, p: float) -> int:
    """A draw from the binomial distribution. Twin: tests.twins.additive.binomial.

    Of many trials, the middle one in size of n uniform numbers is a beta variable; whichever side of it p lies, half
    of the trials are decided.
    """
    if p >= 1.0:
        return n
    taken = 0
    while n > FEW_TRIALS:
        middle = (n + 1) // 2
        one, other = log_gamma(stream, float(middle)), log_gamma(stream, float(n + 1 - middle))
        beta = 1.0 / (1.0 + math.exp(other - one))
        if beta <= p:
            taken += middle
            n -= middle
            p = (p - beta) / (1.0 - beta)
        else:
            n = middle - 1
            p = p / beta
    for _ in range(n):
        taken += 1 if uniform(stream) < p else 0
    return taken


@kernel
def split_counts(
    log_partition: LogPartition, z: FloatArray, places: Places, sweep_key: SweepKey, split: FloatArray
) -> None:
    """split (K, p) = how many counts of each feature each topic gets: draws given memberships and rates.

    Each count is multinomial with probabilities in proportion to z_k r_kj. z : (N, K); log_partition.counts has a row
    for each word of the segments. Twin: tests.twins.additive.split_counts.
    """
    table, counts = log_partition.table, log_partition.counts
    starts, features, values = counts
    segments = places.segments
    n_topics = len(table)
    part, rest, stream = np.empty(n_topics), np.empty(n_topics + 1), np.empty(STREAM_SIZE, np.uint64)
    split[:] = 0.0
    rest[n_topics] = 0.0
    for segment in range(len(segments)):
        d = segments[segment, 2]
        for n in range(segments[segment, 0], segments[segment, 1]):
            point(stream, sweep_key, np.uint64(d), np.uint64(n - places.starts[d]), PURPOSE_SPLIT)
            row = n - segments[0, 0]
            for i in range(starts[row], starts[row + 1]):
                left = int(values[i])
                for k in range(n_topics - 1, -1, -1):  # added up from the last, so that no digits are lost
                    part[k] = z[n, k] * table[k, features[i]]
                    rest[k] = rest[k + 1] + part[k]
                for k in range(n_topics):
                    if left > 0 and part[k] > 0.0:
                        taken = binomial(stream, left, part[k] / rest[k])
                        split[k, features[i]] += taken
                        left -= taken
