"""Counts that are split among topics, in plain NumPy with the same arguments, as in tests.twins.paper."""

import math

import numpy as np
from scipy.special import digamma, polygamma

from pmlda.kernels.additive import FEW_TRIALS
from pmlda.kernels.arguments import LogPartition, Places, SweepKey
from pmlda.kernels.streams import PURPOSE_SPLIT
from pmlda.types import FloatArray
from tests.twins.counts import take, to_array
from tests.twins.paper import Stream


def matched(log_partition: LogPartition, gamma: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """(N, p) mean and variance of Σ_k g_k r_kj with g_k ~ Gamma(γ_k), and the shape of the gamma variable like it."""
    mean, variance = gamma @ log_partition.table, gamma @ log_partition.table**2
    return mean, variance, mean**2 / variance


def expected_logs_of_rates(log_partition: LogPartition, gamma: FloatArray) -> FloatArray:
    """(N, p) E[ln Σ_k g_k r_kj] of that gamma variable."""
    mean, variance, shape = matched(log_partition, gamma)
    return np.asarray(digamma(shape) + np.log(variance / mean))


def slopes_of_logs(log_partition: LogPartition, gamma: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(N, p) slopes of that along the mean and along the variance."""
    mean, variance, shape = matched(log_partition, gamma)
    along_shape = polygamma(1, shape)
    return along_shape * 2.0 * mean / variance - 1.0 / mean, 1.0 / variance - along_shape * (mean / variance) ** 2


def fits_of_logs(log_partition: LogPartition, gamma: FloatArray) -> FloatArray:
    """(N,) Σ_j x_j E[ln Σ_k z_k r_kj]."""
    x = to_array(log_partition.counts, log_partition.table.shape[1])
    return np.asarray(
        (x * (expected_logs_of_rates(log_partition, gamma) - digamma(gamma.sum(axis=1))[:, None])).sum(axis=1)
    )


def gradient_of_logs(log_partition: LogPartition, gamma: FloatArray) -> FloatArray:
    """(N, K) slopes of fits_of_logs along γ."""
    table = log_partition.table
    x = to_array(log_partition.counts, table.shape[1])
    along_mean, along_variance = slopes_of_logs(log_partition, gamma)
    total = x.sum(axis=1) * polygamma(1, gamma.sum(axis=1))
    return np.asarray((x * along_mean) @ table.T + (x * along_variance) @ (table**2).T - total[:, None])


def split_expected(
    log_partition: LogPartition, gamma: FloatArray, first: int, last: int, values: FloatArray, split: FloatArray
) -> None:
    """Σ_n x_nj E[ln Σ_k g_k r_kj], and its slopes along ln r."""
    own, here = take(log_partition, slice(first, last)), gamma[first:last]
    x = to_array(own.counts, own.table.shape[1])
    along_mean, along_variance = slopes_of_logs(own, here)
    values[:] = (x * expected_logs_of_rates(own, here)).sum(axis=0)
    split[:] = own.table * (here.T @ (x * along_mean)) + 2.0 * own.table**2 * (here.T @ (x * along_variance))


def line_logs(log_partition: LogPartition, shares: FloatArray, rest: FloatArray, k: int, z: FloatArray) -> FloatArray:
    """(N, P) E[Σ_j x_j ln η_j] to second order in the spread of the other topics, for z_k = z (N, P)."""
    table = log_partition.table
    x = to_array(log_partition.counts, table.shape[1])[:, None]
    others = shares @ table
    variance = (shares @ table**2 - others**2) / (rest + 1.0)[:, None]
    rate = z[:, :, None] * table[k] + (1.0 - z)[:, :, None] * others[:, None]
    relative = ((1.0 - z)[:, :, None] / rate) ** 2 * variance[:, None]
    return np.asarray((x * (np.log(rate) - 0.5 * relative)).sum(axis=2))


def binomial(stream: Stream, n: int, p: float) -> int:
    """A binomial draw: of many trials, the middle one of n sorted uniform numbers tells how half of them come out."""
    if p >= 1.0:
        return n
    taken = 0
    while n > FEW_TRIALS:
        middle = (n + 1) // 2
        one, other = stream.log_gamma(float(middle)), stream.log_gamma(float(n + 1 - middle))
        beta = math.exp(one) / (math.exp(one) + math.exp(other))
        if beta <= p:
            taken, n, p = taken + middle, n - middle, (p - beta) / (1.0 - beta)
        else:
            n, p = middle - 1, p / beta
    return taken + sum(stream.uniform() < p for _ in range(n))


def split_counts(
    log_partition: LogPartition, z: FloatArray, places: Places, sweep_key: SweepKey, split: FloatArray
) -> None:
    """Every count goes to the first topic with its part of the whole, what is left to the second, and so on."""
    table, split[:] = log_partition.table, 0.0
    first_word = places.segments[0, 0]
    for first, last, d, _ in places.segments:
        for n in range(first, last):
            stream = Stream(sweep_key, int(d), int(n - places.starts[d]), PURPOSE_SPLIT)
            x = to_array(take(log_partition, slice(n - first_word, n - first_word + 1)).counts, table.shape[1])[0]
            for j in np.flatnonzero(x):
                part, left = z[n] * table[:, j], int(x[j])
                for k in range(len(part)):
                    if left and part[k] > 0.0:
                        taken = binomial(stream, left, float(part[k] / part[k:][::-1].sum()))
                        split[k, j] += taken
                        left -= taken
