"""Rows in blocks → their number, mean and covariance, in one pass and in float64."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmlda.types import FloatArray

# In each block: so many rows, fewer if they are long.
BLOCK_ROWS, BLOCK_VALUES = 2**16, 2**21


def blocks(rows: NDArray[np.generic]) -> Iterator[FloatArray]:
    """The rows in float64, some at a time, so that no copy of all of them is made."""
    length = min(BLOCK_ROWS, max(1, BLOCK_VALUES // max(1, rows.shape[1])))
    for first in range(0, len(rows), length):
        yield rows[first : first + length].astype(np.float64)


class Moments(NamedTuple):
    """Of some rows: how many, (p,) their mean, and (p, p) the sum of outer products of what differs from it."""

    n: int
    mean: FloatArray
    scatter: FloatArray

    @property
    def covariance(self) -> FloatArray:
        return self.scatter / max(self.n, 1)


def moments(parts: Iterable[FloatArray]) -> Moments:
    """Of all rows, which come in blocks.

    >>> found = moments([np.array([[1.0], [2.0]]), np.array([[6.0]])])
    >>> found.n, float(found.mean[0]), round(float(found.covariance[0, 0]), 3)
    (3, 3.0, 4.667)
    """
    return join_moments(_of_rows(rows) for rows in parts if len(rows))


def join_moments(parts: Iterable[Moments]) -> Moments:
    """Of all rows, from those of some rows each, joined so that no large numbers cancel (Chan et al. 1979)."""
    total = Moments(0, np.zeros(0), np.zeros((0, 0)))
    for part in parts:
        if part.n == 0:
            continue
        if total.n == 0:
            total = part
            continue
        n, gap = total.n + part.n, part.mean - total.mean
        scatter = total.scatter + part.scatter + np.outer(gap, gap) * (total.n * part.n / n)
        total = Moments(n, total.mean + gap * (part.n / n), scatter)
    return total


def _of_rows(rows: FloatArray) -> Moments:
    mean = rows.mean(axis=0)
    centred = rows - mean
    return Moments(len(rows), mean, centred.T @ centred)
