"""Known documents → memberships of every pixel, strip by strip; documents blended so that their borders do not show.

A document with a large scale pulls all of its words towards its own proportions, so that neighbouring documents show
as tiles. Where blending is asked for, every pixel takes its prior from a weighted mean of the documents around it
instead (in ln sπ, weights falling off like a Gaussian), topics as they were learnt.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from pmlda.estimator import PMLDA
from pmlda.types import FloatArray, Image, IntArray

# Words are weighed so many at a time: large pictures need little more memory than their maps.
STRIP_PIXELS = 2**20
# Pixels of a square tile share one prior: a quarter of the field's own width, over which it hardly changes, and at most
# eight pixels, because 64 words fill a block of the kernels.
WIDEST_TILE = 8
# ln a below this is a topic that is absent; how absent it is must not reach into the neighbours.
LEAST_CONCENTRATION = 1e-3

Rows = NDArray[np.float32]


def weigh(
    model: PMLDA, words: NDArray[np.floating], labels: list[IntArray], images: list[Image], a: FloatArray, width: float
) -> tuple[Rows, Rows]:
    """(N, K) memberships and their standard deviations, of all pixels that have data.

    labels : the document of each pixel; those of later pictures are numbered on in a
    a : (D, K) s·π of each document
    width : how far documents are blended, in units of their own width; 0 is not at all
    """
    memberships, std = np.empty((len(words), a.shape[1]), np.float32), np.empty((len(words), a.shape[1]), np.float32)
    first_document = first_word = 0
    for each, image in zip(labels, images, strict=True):
        n_documents = int(each.max()) + 1
        prior = a[first_document : first_document + n_documents]
        if width > 0 and n_documents > 1:
            each, prior = blend(prior, each, width)
        for rows in strips(each.shape):
            valid = image.valid[rows]
            last_word = first_word + int(valid.sum())
            if last_word > first_word:
                here = slice(first_word, last_word)
                groups = each[rows][valid]
                used = np.flatnonzero(np.bincount(groups))
                seen = model.describe(words[here], groups=groups, concentrations=prior[used])
                memberships[here], std[here] = seen.memberships, seen.std
            first_word = last_word
        first_document += n_documents
    return memberships, std


def blend(a: FloatArray, labels: IntArray, width: float) -> tuple[IntArray, FloatArray]:
    """The tile of each pixel, and a blended prior for every tile."""
    sigma = width * float(np.sqrt((labels >= 0).sum() / len(a)))
    side = int(np.clip(sigma / 4.0, 1.0, WIDEST_TILE))
    field = smooth_field(np.log(np.maximum(a, LEAST_CONCENTRATION)), labels, sigma / side, side)
    return tile_numbers(labels.shape, side), np.exp(field)


def smooth_field(log_a: FloatArray, labels: IntArray, sigma: float, side: int) -> FloatArray:
    """(tiles, K) ln a of the documents, averaged over pixels with data: Gaussian weights, sigma in tiles."""
    from scipy.ndimage import gaussian_filter

    grid = (-(-labels.shape[0] // side), -(-labels.shape[1] // side))
    # ln a and 1 for every pixel, added up over tiles; pixels without data add nothing.
    values = np.vstack([np.column_stack([log_a, np.ones(len(log_a))]), np.zeros(log_a.shape[1] + 1)])
    sums = np.empty((grid[0] * grid[1], values.shape[1]))
    for rows in strips(labels.shape, side):
        inside = labels[rows]
        tiles = tile_numbers(inside.shape, side).ravel()
        first = rows.start // side * grid[1]
        for j, value in enumerate(values.T):
            found = np.bincount(tiles, value[inside].ravel())
            sums[first : first + len(found), j] = found
    smooth = [gaussian_filter(column.reshape(grid), sigma, mode="nearest").ravel() for column in sums.T]
    return np.stack(smooth[:-1], axis=1) / np.maximum(smooth[-1], 1e-12)[:, None]


def strips(shape: tuple[int, ...], side: int = 1) -> Iterator[slice]:
    """Rows of a picture, about STRIP_PIXELS pixels together, a whole number of tiles high.

    >>> [(rows.start, rows.stop) for rows in strips((1000, 2**19))][:2]
    [(0, 2), (2, 4)]
    """
    height = side * max(1, STRIP_PIXELS // (side * shape[1]))
    for first in range(0, shape[0], height):
        yield slice(first, min(first + height, shape[0]))


def tile_numbers(shape: tuple[int, ...], side: int) -> IntArray:
    """(H, W) the tile of each pixel, row by row.

    >>> tile_numbers((2, 5), 2).tolist()
    [[0, 0, 1, 1, 2], [0, 0, 1, 1, 2]]
    """
    rows, columns = np.arange(shape[0])[:, None] // side, np.arange(shape[1]) // side
    return rows * (-(-shape[1] // side)) + columns
