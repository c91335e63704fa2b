"""Rows of counts that are mostly zero: a SciPy sparse matrix → rows that families of counts take in place of an array.

SparseRows offers what engines ask of words: length, slices, products. The functions below take rows of either kind.
"""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pmlda.types import FloatArray, IntArray


class SparseRows:
    """Rows of numbers of which only those that are not zero are stored.

    starts : (N + 1,) the numbers of row n are entries starts[n] to starts[n + 1] − 1
    features : (entries,) 32-bit, the column of each
    values : (entries,)
    shape : (N, p)
    """

    __array_ufunc__ = None  # array @ rows is then ours

    def __init__(
        self, starts: IntArray, features: NDArray[np.int32], values: NDArray[np.floating], n_features: int
    ) -> None:
        self.starts, self.features, self.values = starts, features, values
        self.shape = len(starts) - 1, n_features

    @classmethod
    def from_matrix(cls, matrix: Any) -> Self:
        """The rows of a matrix in CSR format, which stays as it is."""
        if not matrix.has_canonical_format or bool((matrix.data == 0).any()):
            matrix = matrix.copy()
            matrix.sum_duplicates()
            matrix.eliminate_zeros()
        starts, features = np.asarray(matrix.indptr, np.int64), np.asarray(matrix.indices, np.int32)
        return cls(starts, features, matrix.data, matrix.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.values.dtype

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice | IntArray) -> "SparseRows":
        """Some of the rows. Neighbouring ones share the memory of all."""
        if isinstance(rows, slice) and rows.step in (None, 1):
            first, last, _ = rows.indices(len(self))
            return SparseRows(self.starts[first : max(last, first) + 1], self.features, self.values, self.shape[1])
        return SparseRows.from_matrix(self.to_matrix()[rows])

    def to_matrix(self) -> Any:
        """The same as a SciPy sparse array."""
        stored = slice(int(self.starts[0]), int(self.starts[-1]))
        return sparse.csr_array(
            (self.values[stored], self.features[stored], self.starts - self.starts[0]), shape=self.shape
        )

    def __matmul__(self, other: FloatArray) -> FloatArray:
        return np.asarray(self.to_matrix() @ other)

    def __rmatmul__(self, other: FloatArray) -> FloatArray:
        return np.asarray((self.to_matrix().T @ other.T).T)


def as_sparse(rows: Any) -> SparseRows:
    """Rows of either kind as sparse ones."""
    return rows if isinstance(rows, SparseRows) else SparseRows.from_matrix(sparse.csr_array(rows))


def dense(rows: Any) -> FloatArray:
    """Rows of either kind as an array of floats."""
    return np.asarray(rows.to_matrix().toarray() if isinstance(rows, SparseRows) else rows, dtype=np.float64)


def as_floats(rows: Any) -> Any:
    """Rows of either kind as they are, in 64-bit floats."""
    if isinstance(rows, SparseRows):
        return SparseRows(rows.starts, rows.features, rows.values.astype(np.float64, copy=False), rows.shape[1])
    return np.asarray(rows, dtype=np.float64)


def contiguous(rows: Any) -> Any:
    """Rows of either kind in memory of their own, one after the other."""
    return rows if isinstance(rows, SparseRows) else np.ascontiguousarray(rows)


def stored(rows: Any) -> NDArray[np.floating]:
    """The numbers in rows of either kind; of sparse ones, those that are not zero."""
    if isinstance(rows, SparseRows):
        return rows.values[rows.starts[0] : rows.starts[-1]]
    return np.asarray(rows)


def column_sums(rows: Any) -> FloatArray:
    """(p,) sums of the columns of rows of either kind."""
    return np.asarray(np.ones(len(rows)) @ rows if isinstance(rows, SparseRows) else rows.sum(axis=0, dtype=np.float64))


def row_sums(function: Callable[[FloatArray], FloatArray], rows: Any) -> FloatArray:
    """(N,) Σ_j function(x_nj) for a function that is 0 at 0."""
    if not isinstance(rows, SparseRows):
        return np.asarray(function(np.asarray(rows, dtype=np.float64)).sum(axis=1))
    each = function(np.asarray(stored(rows), dtype=np.float64))
    row = np.repeat(np.arange(len(rows)), np.diff(rows.starts))
    return np.asarray(np.bincount(row, each, minlength=len(rows)), dtype=np.float64)


def stored_per_row(rows: Any) -> int:
    """How many numbers are stored for a row, on average, and at least 1."""
    if isinstance(rows, SparseRows):
        return max(int(rows.starts[-1] - rows.starts[0]) // max(len(rows), 1), 1)
    return int(rows.shape[1])
