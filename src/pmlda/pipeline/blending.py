"""Known documents → memberships of every pixel, strip by strip; documents are blended so that borders do not show.

A document with a large scale pulls all of its words towards its own proportions, so that borders between documents
become visible. With blending, the prior of every pixel is a weighted mean of the documents around it (in ln sπ, with
Gaussian weights), while topics stay as learnt.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmlda.parallel.threads import each_in_turn
from pmlda.types import DocumentPosterior, FloatArray, IntArray, Labels

if TYPE_CHECKING:
    from pmlda.features.scaling import Scaling
    from pmlda.recipe import Model

# Number of pixels per strip of up to four topics, fewer for more: pictures need little more memory than their maps, and
# a picture of a megapixel has enough strips for several threads.
STRIP_PIXELS, STRIP_TOPICS = 2**17, 4
# Pixels of a square cell share one prior: two pixels less than a quarter of the field's own width, and at most eight,
# because 64 words fill a block of the kernels. A whole quarter left steps between the cells of small windows, of 1.8
# times the noise where they coincide with the borders of documents; single pixels cost little there.
WIDEST_CELL = 8
# A smaller concentration means that a topic is absent; how small it is must not influence the neighbours.
LEAST_CONCENTRATION = 1e-3

Rows = NDArray[np.float32]


@dataclass(frozen=True)
class Scaled:
    """Words (N, p) that are computed from features (N, q) when some of them are asked for."""

    values: NDArray[np.floating]
    scaling: Scaling

    def __getitem__(self, rows: Any) -> NDArray[np.floating]:
        return self.scaling.apply(self.values[rows])


def infer_pixels(
    model: Model,
    words: Scaled | NDArray[np.floating],
    labels: IntArray,
    prior: FloatArray,
    valid: NDArray[np.bool_],
    told: Labels | None = None,
) -> tuple[Rows, Rows]:
    """(N, K) memberships and their standard deviations of the valid pixels of one tile.

    Strips are independent, and each is computed on one thread.

    labels : (H, W) the row of the prior that applies to each pixel
    prior : (n, K) s·π, or (1 + B, n, K) with those under each of B refits
    told : what was said of the words
    """
    prior = prior if prior.ndim == 3 else prior[None]
    rows_of_strips = list(strips(labels.shape, WIDEST_CELL, prior.shape[2]))
    ends = np.cumsum([np.count_nonzero(valid[rows]) for rows in rows_of_strips])
    memberships, std = (np.empty((int(ends[-1]), prior.shape[2]), np.float32) for _ in range(2))
    alone = with_jobs(model, 1)

    def of_strip(strip: tuple[slice, int, int]) -> None:
        rows, first, last = strip
        groups = labels[rows][valid[rows]]
        used = np.flatnonzero(np.bincount(groups))
        said = None if told is None else told._replace(row=told.row[first:last])
        seen = alone.infer_memberships(words[first:last], said, groups=groups, priors=prior[:, used])
        memberships[first:last], std[first:last] = seen.memberships, seen.std

    pieces = zip(rows_of_strips, [0, *ends[:-1].tolist()], ends.tolist(), strict=True)
    each_in_turn(of_strip, [piece for piece in pieces if piece[2] > piece[1]], model.n_jobs)
    return memberships, std


def with_jobs(model: Model, n_jobs: int) -> Model:
    """The same model on so many threads."""
    other = copy(model)
    other.n_jobs = n_jobs
    return other


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

    >>> [(rows.start, rows.stop) for rows in strips((1000, 2**16))][:2]
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
    down, across = -(-shape[0] // side), -(-shape[1] // side)
    small: Any = np.int32 if down * across < 2**31 else np.int64  # of every pixel
    rows, columns = ((np.arange(length) // side).astype(small) for length in shape)
    return np.asarray(rows[:, None] * small(across) + columns)
