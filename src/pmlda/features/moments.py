"""Rows in blocks → their number, mean and covariance, in one pass and in float64."""

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from pmlda.types import FloatArray

BLOCK_ROWS = 65536


def blocks(rows: NDArray[np.generic]) -> Iterator[FloatArray]:
    """The rows in float64, some at a time, so that no copy of all of them is made."""
    for first in range(0, len(rows), BLOCK_ROWS):
        yield rows[first : first + BLOCK_ROWS].astype(np.float64)


def moments(parts: Iterable[FloatArray]) -> tuple[int, FloatArray, FloatArray]:
    """(n, (p,) mean, (p, p) covariance) of all rows. Blocks are joined so that no large numbers cancel.

    >>> n, mean, covariance = moments([np.array([[1.0], [2.0]]), np.array([[6.0]])])
    >>> n, float(mean[0]), round(float(covariance[0, 0]), 3)
    (3, 3.0, 4.667)
    """
    n, mean, scatter = 0, np.zeros(0), np.zeros((0, 0))
    for rows in parts:
        here = rows.mean(axis=0)
        centred = rows - here
        if n == 0:
            n, mean, scatter = len(rows), here, centred.T @ centred
            continue
        total, gap = n + len(rows), here - mean
        scatter = scatter + centred.T @ centred + np.outer(gap, gap) * (n * len(rows) / total)
        mean = mean + gap * (len(rows) / total)
        n = total
    return n, mean, scatter / max(n, 1)
