"""Levels (H, W) of a grey image → entropy of the levels around every pixel, by a histogram that slides along rows."""

import numpy as np
from numpy.typing import NDArray

from pmlda.kernels.jit import kernel
from pmlda.types import FloatArray, IntArray

N_LEVELS = 256

# c·log2 c is kept in whole multiples of 2⁻³⁶: whole numbers add up without error, however far the window slides,
# so a flat window has entropy 0 exactly and no result depends on how rows are shared among threads.
ONE_BIT = 2.0**36


def plogp_table(n_pixels: int) -> IntArray:
    """(n_pixels + 1,) c·log2 c for every count c that a window can hold, in units of 2⁻³⁶."""
    counts = np.arange(1, n_pixels + 1, dtype=np.float64)
    return np.concatenate(([0], np.rint(counts * np.log2(counts) * ONE_BIT))).astype(np.int64)


@kernel
def entropy_rows(
    padded: NDArray[np.uint8], window: int, table: IntArray, first: int, last: int, out: FloatArray
) -> None:
    """out[first:last] = log2 n − Σ c·log2 c / n, where n = window² and c counts each level in the window.

    padded : (H + window − 1, W + window − 1) the levels with a border on every side
    table : plogp_table(window²)
    out : (H, W) bits

    Twin: tests.features.twins.local_entropy.
    """
    n_pixels = window * window
    for row in range(first, last):
        counts = np.zeros(N_LEVELS, np.int64)
        total = 0
        for i in range(row, row + window):
            for j in range(window):
                counts[padded[i, j]] += 1
        for level in range(N_LEVELS):
            total += table[counts[level]]
        out[row, 0] = (table[n_pixels] - total) / (n_pixels * ONE_BIT)
        for column in range(1, out.shape[1]):
            for i in range(row, row + window):
                old, new = padded[i, column - 1], padded[i, column + window - 1]
                if old != new:
                    c = counts[old]
                    total += table[c - 1] - table[c]
                    counts[old] = c - 1
                    c = counts[new]
                    total += table[c + 1] - table[c]
                    counts[new] = c + 1
            out[row, column] = (table[n_pixels] - total) / (n_pixels * ONE_BIT)
