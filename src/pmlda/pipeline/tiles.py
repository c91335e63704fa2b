"""Pictures + settings → tiles: a photograph is one tile, a list is tiles without neighbours, a survey tiles with them.

Tiles depend on the settings and the pictures alone, never on the machine, so that every machine gets the same result.
"""

from itertools import pairwise
from math import lcm
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmlda.partitions import Cutting, cut_part, parse_cutting, partition
from pmlda.partitions.automatic import auto_documents
from pmlda.pipeline.blending import WIDEST_CELL
from pmlda.settings import Settings
from pmlda.types import Image, IntArray
from pmlda.validate import require

# Offset between the places of one picture and the next, larger than any picture.
PICTURE_PLACES = 2**44


class Tile(NamedTuple):
    """A rectangle of a picture that is processed independently.

    number : index among all tiles
    picture : index of its picture
    """

    number: int
    picture: int
    rows: slice
    columns: slice

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows.stop - self.rows.start, self.columns.stop - self.columns.start

    @property
    def n_pixels(self) -> int:
        return self.shape[0] * self.shape[1]


class Plan(NamedTuple):
    """How pictures are divided into tiles and documents.

    shapes : (H, W) of each picture
    documents : for each picture, how it is divided into documents: a spelling such as "slic:200", or labels
    side : side of a tile; the last ones may be larger by half. None if every picture is one tile
    """

    shapes: tuple[tuple[int, int], ...]
    documents: tuple[Any, ...]
    side: int | None = None

    @property
    def tiles(self) -> list[Tile]:
        """All tiles, picture by picture, row by row."""
        found: list[Tile] = []
        for picture, shape in enumerate(self.shapes):
            found += self._of_picture(picture, slice(0, shape[0]), slice(0, shape[1]), len(found))
        return found

    def touching(self, tile: Tile, rows: slice, columns: slice) -> list[Tile]:
        """The tiles of the same picture that overlap a rectangle."""
        first = sum(len(self._stripes(i, 0)) * len(self._stripes(i, 1)) for i in range(tile.picture))
        return self._of_picture(tile.picture, rows, columns, first)

    def is_whole(self, tile: Tile) -> bool:
        """Whether the tile is its whole picture."""
        return tile.shape == self.shapes[tile.picture]

    def _stripes(self, picture: int, axis: int) -> list[slice]:
        length = self.shapes[picture][axis]
        return [slice(0, length)] if self.side is None else stripes_of(length, self.side)

    def _of_picture(self, picture: int, rows: slice, columns: slice, first: int) -> list[Tile]:
        down, across = self._stripes(picture, 0), self._stripes(picture, 1)
        return [
            Tile(first + i * len(across) + j, picture, each_rows, each_columns)
            for i, each_rows in enumerate(down)
            if _overlap(each_rows, rows)
            for j, each_columns in enumerate(across)
            if _overlap(each_columns, columns)
        ]


def plan_whole(documents: Any, images: list[Image], n_topics: int, *, small: bool = False) -> Plan:
    """Every picture as one tile.

    documents : a spelling or labels for all pictures, or a list with one for each
    small : whether "auto" is small windows, see auto_documents
    """
    given = documents if isinstance(documents, list | tuple) else [documents] * len(images)
    require(len(given) == len(images), f"{len(given)} partitions for {len(images)} pictures. Give one for each.")
    shapes = tuple((image.valid.shape[0], image.valid.shape[1]) for image in images)
    specs = [
        auto_documents(shape, n_topics, int(image.valid.sum()), small=small)
        if isinstance(spec, str) and spec == "auto"
        else spec
        for spec, shape, image in zip(given, shapes, images, strict=True)
    ]
    return Plan(shapes, tuple(specs))


def plan_tiles(shape: tuple[int, int], settings: Settings, *, small: bool = False) -> Plan:
    """Tiles of about settings.block pixels a side, such that no document crosses a border between tiles."""
    height, width = shape
    wanted = settings.documents
    if wanted == "auto":
        wanted = auto_documents(shape, settings.n_topics, small=small)
    cutting = parse_cutting(wanted)
    require(
        cutting.window[0] <= height and cutting.window[1] <= width,
        f"documents={wanted!r} are larger than the picture, which has {height} × {width} pixels: take smaller windows.",
    )
    # Tiles start at multiples of the widest cell of blending.
    step = lcm(WIDEST_CELL, *cutting.window)
    side = max(settings.block // step, 1) * step
    require(
        side <= 2 * settings.block,
        f"documents={wanted!r} need tiles of a multiple of {step} pixels, and block={settings.block}. "
        "Choose windows whose sides are powers of two, or a larger block.",
    )
    require(
        cutting.n_regions <= height * width,
        f"documents={wanted!r} are more than the picture has pixels, {height * width}: ask for fewer.",
    )
    return Plan((shape,), (wanted,), side)


class Layer(NamedTuple):
    """One partition of a tile into documents.

    labels : (h, w) 0 … n−1, −1 for pixels in no document
    numbers : (n,) number of each document in the whole picture; None if documents are numbered tile by tile
    """

    labels: IntArray
    numbers: IntArray | None


def cut_tile(plan: Plan, tile: Tile, image: Image, seed: int) -> list[Layer]:
    """All partitions of a tile: those of the user for a whole picture, one that fits the neighbours for a part of one.

    Memberships are averaged over partitions.
    """
    spec = plan.documents[tile.picture]
    if plan.is_whole(tile):
        return [Layer(labels, None) for labels in partition(spec, image, random_state=seed)]
    cutting = parse_cutting(spec)
    labels, numbers = cut_part(cutting, image, tile.rows, tile.columns, plan.shapes[tile.picture], seed)
    return [Layer(labels, numbers if cutting.kind in ("whole", "windows") else None)]


def spans_tiles(plan: Plan) -> bool:
    """Whether a single document spans a picture of several tiles."""
    return plan.side is not None and len(plan.tiles) > 1 and cutting_of(plan).kind == "whole"


def cutting_of(plan: Plan) -> Cutting:
    """How the picture of a plan with several tiles is divided into documents."""
    return parse_cutting(plan.documents[0])


def stripes_of(length: int, side: int) -> list[slice]:
    """Row or column ranges of tiles; a remainder of less than half a tile is added to the last one.

    >>> [(each.start, each.stop) for each in stripes_of(100, 30)]
    [(0, 30), (30, 60), (60, 100)]
    """
    n = max(1, length // side + (2 * (length % side) >= side))
    edges = [*range(0, n * side, side), length]
    return [slice(a, b) for a, b in pairwise(edges)]


def widen(tile: Tile, halo: int, shape: tuple[int, int], multiple: int = 1) -> tuple[slice, slice]:
    """The tile with a margin, clipped to the picture; its first row and column are multiples of `multiple`."""

    def wider(side: slice, length: int) -> slice:
        first = max(side.start - halo, 0)
        return slice(first - first % multiple, min(side.stop + halo, length))

    return wider(tile.rows, shape[0]), wider(tile.columns, shape[1])


def inside(tile: Tile, rows: slice, columns: slice) -> tuple[slice, slice]:
    """The position of the tile within a rectangle around it."""
    return (
        slice(tile.rows.start - rows.start, tile.rows.stop - rows.start),
        slice(tile.columns.start - columns.start, tile.columns.stop - columns.start),
    )


def shared(tile: Tile, rows: slice, columns: slice) -> tuple[tuple[slice, slice], tuple[slice, slice]]:
    """The overlap of a tile and a rectangle, in coordinates of the rectangle and of the tile."""
    top, bottom = max(tile.rows.start, rows.start), min(tile.rows.stop, rows.stop)
    left, right = max(tile.columns.start, columns.start), min(tile.columns.stop, columns.stop)

    def within(first_row: int, first_column: int) -> tuple[slice, slice]:
        return slice(top - first_row, bottom - first_row), slice(left - first_column, right - first_column)

    return within(rows.start, columns.start), within(tile.rows.start, tile.columns.start)


def places_of(tile: Tile, width: int) -> IntArray:
    """(h, w) the place of every pixel: its index in the picture, row by row, offset by the picture."""
    rows, columns = np.arange(tile.rows.start, tile.rows.stop), np.arange(tile.columns.start, tile.columns.stop)
    return rows[:, None] * width + columns + tile.picture * PICTURE_PLACES


def among(valid: NDArray[np.bool_], pixels: IntArray) -> IntArray:
    """(N,) numbers of the valid pixels, from those of all (h, w); not copied where all are valid."""
    return pixels.ravel() if valid.all() else pixels[valid]


def _overlap(one: slice, other: slice) -> bool:
    return bool(one.start < other.stop and other.start < one.stop)
