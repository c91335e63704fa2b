"""Facts about the rows of X that NumPy finds slowly: means of a few features of a million rows, and different rows."""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from pmlda.families.sparse import SparseRows
from pmlda.types import FloatArray, IntArray

ROWS_TOGETHER = 64
FEW_ROWS = 1000


def column_means(X: NDArray[np.floating]) -> FloatArray:
    """(p,) mean of each feature: 64 rows are added as one long one, which the processor does many times faster.

    >>> column_means(np.arange(300.0).reshape(100, 3)).tolist()
    [148.5, 149.5, 150.5]
    """
    n_rows, p = X.shape
    n_long = n_rows // ROWS_TOGETHER
    long = X[: n_long * ROWS_TOGETHER].reshape(n_long, ROWS_TOGETHER * p).sum(axis=0, dtype=np.float64)
    rest = X[n_long * ROWS_TOGETHER :].sum(axis=0, dtype=np.float64)
    return np.asarray((long.reshape(ROWS_TOGETHER, p).sum(axis=0) + rest) / n_rows)


def count_distinct(X: NDArray[np.floating], enough: int) -> int:
    """How many rows differ; where a part of them, evenly spaced, shows enough, only how many that part shows.

    >>> count_distinct(np.array([[1.0], [2.0], [1.0]]), 5)
    2
    """
    if isinstance(X, SparseRows):
        return _count_distinct_sparse(X, enough)
    step = len(X) // FEW_ROWS
    while step > 1:  # sorting all rows of a large picture takes a minute
        found = len(np.unique(X[::step], axis=0))
        if found >= enough:
            return found
        step //= 16
    return len(np.unique(X, axis=0))


def group_equal_rows(X: NDArray[np.floating]) -> tuple[IntArray, IntArray]:
    """(M,) rows that all differ, and (N,) which of them each row of X equals; all rows where too few are equal to gain.

    Rows are compared by a hash first, since sorting them takes long; equal rows are exactly equal.

    >>> X = np.array([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0], [1.0, 2.0], [3.0, 4.0]])
    >>> rows, which = group_equal_rows(X)
    >>> len(rows), X[rows[which]].tolist() == X.tolist()
    (2, True)
    """
    n = len(X)
    every = np.arange(n)
    bits: NDArray[np.uint64] = np.ascontiguousarray(X).view(f"u{X.itemsize}").astype(np.uint64)
    key = np.zeros(n, np.uint64)
    for column in bits.T:  # FNV-1a, for 64 bits in place of 8, and shifts, without which high bits stay where they are
        key = (key ^ column) * np.uint64(0x100000001B3)
        key ^= key >> np.uint64(29)
    _, rows, which = np.unique(key, return_index=True, return_inverse=True)
    if len(rows) > n // 2 or not np.array_equal(X[rows[which]], X):
        return every, every
    return rows, which


def _count_distinct_sparse(X: SparseRows, enough: int) -> int:
    """The same of sparse rows: rows are looked at until enough of them differ."""
    found: set[tuple[bytes, bytes]] = set()
    for first, last in pairwise(X.starts.tolist()):
        found.add((X.features[first:last].tobytes(), X.values[first:last].tobytes()))
        if len(found) >= enough:
            break
    return len(found)
