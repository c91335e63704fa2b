"""Counts of words as kernels take them: some of the words, as an array, and what A is of them."""

import numpy as np

from pmlda.kernels.arguments import Counts, LogPartition
from pmlda.types import FloatArray, IntArray


def to_array(counts: Counts, n_features: int) -> FloatArray:
    """(N, p) counts, with zeros."""
    x = np.zeros((len(counts.starts) - 1, n_features))
    row = np.repeat(np.arange(len(x)), np.diff(counts.starts))
    entries = slice(counts.starts[0], counts.starts[-1])
    x[row, counts.features[entries]] = counts.values[entries]
    return x


def take(log_partition: LogPartition, rows: IntArray | slice) -> LogPartition:
    """The same of some of the words, as often as their rows are named."""
    counts = log_partition.counts
    if len(counts.starts) == 1:  # of a family whose A knows nothing of words
        return log_partition
    chosen = np.arange(len(counts.starts) - 1)[rows]
    entries = [np.arange(counts.starts[n], counts.starts[n + 1]) for n in chosen]
    starts = np.concatenate([[0], np.cumsum([len(each) for each in entries])]).astype(np.int64)
    every = np.concatenate([np.empty(0, np.int64), *entries])
    return log_partition._replace(counts=Counts(starts, counts.features[every], counts.values[every]))


def counted_logs(log_partition: LogPartition, z: FloatArray) -> FloatArray:
    """(N,) −Σ_j x_nj ln Σ_k z_nk r_kj."""
    x = to_array(log_partition.counts, log_partition.table.shape[1])
    return np.asarray(-(x * np.log(np.maximum(z @ log_partition.table, 1e-300))).sum(axis=1))
