"""How many neighbouring pixels repeat each other: sums over a tile → the design effect of a picture.

Words of a document are drawn independently in the model, and pixels are not: a document of a thousand nearly equal
pixels is perhaps ten witnesses. How many pixels tell what one would is the integral over the plane of the correlation ρ
of features inside documents; here it is the product of the integrals 2∫ρ(h) dh along rows and along columns. Noise
between neighbouring pixels, which does not repeat itself, is left out of ρ by extrapolating from lags 1 and 2 to 0.
docs/pictures.md has the measurements.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pmlda.parallel.threads import each_in_turn
from pmlda.types import FloatArray, IntArray

# Lags in pixels, denser where correlations change most; farther ones are beyond any document.
LAGS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 18, 22, 27, 33, 40, 50, 62, 76, 93, 114)
# Of the picture, every so many rows and columns are enough.
STEP = 4
# Rows of a tile whose features are added up at a time.
ROWS_AT_ONCE = 256
# Side of the windows in place of a single document: tiles begin at multiples of it.
SQUARE = 8
# Correlations below this are chance: a tail of them would add up, and features with less are noise alone.
VANISHED = 0.05
# The design effect is rounded to so many digits, so that rounding errors of sums do not change a fit.
DIGITS = 2


def survey_lags(
    values: NDArray[np.floating], labels: IntArray, first: tuple[int, int], n_jobs: int | None = 1
) -> FloatArray:
    """(2, 1 + lags, p) along columns and along rows, sums of products of residuals at lag 0 and at LAGS.

    values, labels : (h, w, p) features and (h, w) documents of a tile, −1 where there are none
    first : (row, column) of the tile in its picture, which decide on the rows and columns that are used

    Only pairs of pixels in the same document add to the sums, so that tiles which no document crosses add up to the
    picture.
    """
    means = _means(values, labels)
    sums = np.zeros((2, 1 + len(LAGS), values.shape[2]))

    def along(axis: int) -> None:
        kept = slice(-first[1 - axis] % STEP, None, STEP)
        turned, labelled = np.swapaxes(values, 0, axis)[:, kept], np.swapaxes(labels, 0, axis)[:, kept]
        residual = means[labelled]
        np.subtract(turned, residual, out=residual)
        residual[labelled < 0] = 0.0
        for number, lag in enumerate((0, *LAGS)):
            here, there = slice(None, max(len(turned) - lag, 0)), slice(lag, None)
            alike = (labelled[here] == labelled[there]) & (labelled[here] >= 0)
            sums[axis, number] = np.einsum("ijk,ijk,ij->k", residual[here], residual[there], alike.astype(np.float64))

    each_in_turn(along, (0, 1), n_jobs)
    return sums


def _means(values: NDArray[np.floating], labels: IntArray) -> FloatArray:
    """(D, p) mean features of each document."""
    n_documents, n_features = int(labels.max()) + 1, values.shape[2]
    sums, sizes = np.zeros((n_documents, n_features)), np.zeros(n_documents)
    for top in range(0, len(labels), ROWS_AT_ONCE):
        inside = labels[top : top + ROWS_AT_ONCE] >= 0
        groups, rows = labels[top : top + ROWS_AT_ONCE][inside], values[top : top + ROWS_AT_ONCE][inside]
        sizes += np.bincount(groups, minlength=n_documents)
        for j in range(n_features):
            sums[:, j] += np.bincount(groups, rows[:, j], n_documents)
    return sums / np.maximum(sizes, 1.0)[:, None]


def squares(shape: tuple[int, int], first: tuple[int, int]) -> IntArray:
    """(h, w) small square windows, in place of a document that is larger than a tile."""
    row, column = (np.arange(start, start + length) // SQUARE for start, length in zip(first, shape, strict=True))
    return np.asarray((row - row[0])[:, None] * (column[-1] - column[0] + 1) + column - column[0])


def design_effect(surveys: Sequence[FloatArray]) -> float:
    """How many pixels repeat each other, at least 1, from the sums of all tiles.

    >>> sums = np.ones((2, 1 + len(LAGS), 1)); sums[:, 5:] = 0.0          # correlation 1 up to a lag of 4, then 0
    >>> design_effect([sums])
    64.0
    """
    along_columns, along_rows = (_integral(each) for each in np.sum(surveys, axis=0))
    return float(f"{along_columns * along_rows:.{DIGITS}g}")


def _integral(sums: FloatArray) -> float:
    """2∫ρ(h) dh along one axis, at least 1, from sums (1 + lags, p)."""
    used = sums[0] > 0
    if not used.any():
        return 1.0
    profile = (sums[:, used] / sums[0, used]).mean(axis=1)
    sill = min(1.0, max(2.0 * profile[1] - profile[2], profile[1]))
    if sill <= VANISHED:
        return 1.0
    rho, lags = np.concatenate([[1.0], profile[1:] / sill]), np.array([0, *LAGS], dtype=np.float64)
    vanished = np.flatnonzero(rho <= VANISHED)
    end = int(vanished[0]) if len(vanished) else len(rho)
    return max(1.0, 2.0 * float(np.trapezoid(np.minimum(rho[:end], 1.0), lags[:end])))
