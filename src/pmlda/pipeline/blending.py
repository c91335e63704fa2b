"""Known documents → memberships of every pixel, strip by strip; documents are blended so that borders do not show.

A document with a large scale pulls all of its words towards its own proportions, so that borders between documents
become visible. With blending, the prior of every pixel is a weighted mean of the documents around it (in ln sπ, with
Gaussian weights), while topics stay as learnt.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmlda.types import DocumentPosterior, FloatArray, IntArray, Labels

if TYPE_CHECKING:
    from pmlda.recipe import Model

# Number of pixels per strip of up to four topics, fewer for more: pictures need little more memory than their maps.
STRIP_PIXELS, STRIP_TOPICS = 2**20, 4
# Pixels of a square cell share one prior: two pixels less than a quarter of the field's own width, and at most eight,
# because 64 words fill a block of the kernels. A whole quarter left steps between the cells of small windows, of 1.8
# times the noise where they coincide with the borders of documents; single pixels cost little there.
WIDEST_CELL = 8
# A smaller concentration means that a topic is absent; how small it is must not influence the neighbours.
LEAST_CONCENTRATION = 1e-3

Rows = NDArray[np.float32]


def infer_pixels(
    model: Model,
    words: NDArray[np.floating],
    labels: IntArray,
    prior: FloatArray,
    valid: NDArray[np.bool_],
    told: Labels | None = None,
) -> tuple[Rows, Rows]:
    """(N, K) memberships and their standard deviations of the valid pixels of one tile.

    labels : (H, W) the row of the prior that applies to each pixel
    prior : (n, K) s·π, or (1 + B, n, K) with those under each of B refits
    told : what was said of the words
    """
    prior = prior if prior.ndim == 3 else prior[None]
    memberships, std = (np.empty((len(words), prior.shape[2]), np.float32) for _ in range(2))
    first = 0
    for rows in strips(labels.shape, n_topics=prior.shape[2]):
        last = first + int(valid[rows].sum())
        if last > first:
            groups = labels[rows][valid[rows]]
            used = np.flatnonzero(np.bincount(groups))
            said = None if told is None else told._replace(row=told.row[first:last])
            seen = model.infer_memberships(words[first:last], said, groups=groups, priors=prior[:, used])
            memberships[first:last], std[first:last] = seen.memberships, seen.std
        first = last
    return memberships, std


class Blur(NamedTuple):
    """Parameters of blending: σ of the Gaussian in cells, and the side of a cell in pixels."""

    sigma: float
    side: int

    @property
    def reach(self) -> int:
        """Maximum distance, in pixels, of documents that influence a pixel."""
        return (int(4.0 * self.sigma + 0.5) + 1) * self.side

    @classmethod
    def between(cls, n_pixels: int, n_documents: int, width: float) -> Blur:
        """For a picture with this many pixels and documents; width : σ in document widths"""
        sigma = width * float(np.sqrt(n_pixels / n_documents))
        side = int(np.clip(sigma / 4.0 - 2.0, 1.0, WIDEST_CELL))
        return cls(sigma / side, side)


def concentrations(found: DocumentPosterior) -> FloatArray:
    """(1 + B, D, K) s·π under the topics and under each of B refits, bounded away from zero."""
    own = (found.proportions * found.scales[:, None])[None]
    return np.maximum(own if found.concentrations is None else found.concentrations, 1e-8)


def blend(a: FloatArray, labels: IntArray, blur: Blur) -> tuple[IntArray, FloatArray]:
    """The cell of each pixel (H, W), and the blended prior (…, cells, K) of documents with a = sπ (…, D, K)."""
    return cell_numbers(labels.shape, blur.side), smooth_field(a, labels, blur)


def smooth_field(a: FloatArray, labels: IntArray, blur: Blur) -> FloatArray:
    """(…, cells, K) blended a: ln a averaged over pixels with data, with Gaussian weights."""
    from scipy.ndimage import gaussian_filter
    from scipy.sparse import coo_array

    side, n_documents = blur.side, a.shape[-2]
    grid = (-(-labels.shape[0] // side), -(-labels.shape[1] // side))
    # ln a and 1 for every pixel, added up over cells; pixels without data add nothing.
    log_a = np.log(np.maximum(np.moveaxis(a, -2, 0).reshape(n_documents, -1), LEAST_CONCENTRATION))
    values = np.column_stack([log_a, np.ones(n_documents)])
    sums = np.empty((grid[0] * grid[1], values.shape[1]))
    for rows in strips(labels.shape, side):
        inside = labels[rows]
        cells, first = cell_numbers(inside.shape, side), rows.start // side * grid[1]
        valid, n_cells = inside >= 0, int(cells[-1, -1]) + 1
        where = (cells[valid], inside[valid])
        counts = coo_array((np.ones(len(where[0])), where), shape=(n_cells, n_documents)).tocsr()
        sums[first : first + n_cells] = counts @ values
    smooth = [gaussian_filter(column.reshape(grid), blur.sigma, mode="nearest").ravel() for column in sums.T]
    field = np.exp(np.stack(smooth[:-1], axis=1) / np.maximum(smooth[-1], 1e-12)[:, None])
    return np.ascontiguousarray(np.moveaxis(field.reshape(len(field), *a.shape[:-2], a.shape[-1]), 0, -2))


def strip_pixels(n_topics: int) -> int:
    """Number of pixels per strip."""
    return STRIP_PIXELS * STRIP_TOPICS // max(STRIP_TOPICS, n_topics)


def strips(shape: tuple[int, ...], side: int = 1, n_topics: int = 1) -> Iterator[slice]:
    """Row ranges of a picture of about strip_pixels(n_topics) pixels each, a multiple of the cell side high.

    >>> [(rows.start, rows.stop) for rows in strips((1000, 2**19))][:2]
    [(0, 2), (2, 4)]
    """
    height = side * max(1, strip_pixels(n_topics) // (side * shape[1]))
    for first in range(0, shape[0], height):
        yield slice(first, min(first + height, shape[0]))


def cell_numbers(shape: tuple[int, ...], side: int) -> IntArray:
    """(H, W) the cell of each pixel, row by row.

    >>> cell_numbers((2, 5), 2).tolist()
    [[0, 0, 1, 1, 2], [0, 0, 1, 1, 2]]
    """
    rows, columns = np.arange(shape[0])[:, None] // side, np.arange(shape[1]) // side
    return rows * (-(-shape[1] // side)) + columns
