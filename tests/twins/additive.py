"""Counts that are split among topics, in plain NumPy with the same arguments, as in tests.twins.paper."""

import math

import numpy as np
from scipy.special import digamma

from pmlda.kernels.additive import FEW_TRIALS
from pmlda.kernels.arguments import LogPartition, Places, SweepKey
from pmlda.kernels.streams import PURPOSE_SPLIT
from pmlda.types import FloatArray
from tests.twins.counts import take, to_array
from tests.twins.paper import Stream


def parts(log_partition: LogPartition, gamma: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(N, K, p) the counts that each topic gets under Dir(γ), and (N,) Σ_j x_j ln Σ_k exp(E[ln z_k]) r_kj."""
    log_z = digamma(gamma) - digamma(gamma.sum(axis=1, keepdims=True))
    top = log_z.max(axis=1)
    rates = np.exp(log_z - top[:, None])[:, :, None] * log_partition.table
    total = np.maximum(rates.sum(axis=1), 1e-300)
    x = to_array(log_partition.counts, log_partition.table.shape[1])
    return x[:, None] * rates / total[:, None], np.asarray((x * (np.log(total) + top[:, None])).sum(axis=1))


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
