"""Settings + size of a picture → blocks, halos, documents of each block, and what a run will need.

Blocks follow from the settings and the picture alone, never from the machine: that is why every machine finds the same.
"""

from itertools import pairwise
from math import lcm
from typing import NamedTuple

import numpy as np

from pmlda.partitions import Cutting, parse_cutting
from pmlda.settings import Settings
from pmlda.types import IntArray
from pmlda.validate import require

# Blocks begin where tiles of blended documents may: these are at most 8 pixels wide.
TILE_MULTIPLE = 8
# Superpixels of about this many pixels, as in a photograph of a megapixel that is cut into 200.
DOCUMENT_PIXELS = 5000


class Block(NamedTuple):
    """A rectangle of a picture."""

    number: int
    rows: slice
    columns: slice

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows.stop - self.rows.start, self.columns.stop - self.columns.start

    @property
    def n_pixels(self) -> int:
        return self.shape[0] * self.shape[1]


class Plan(NamedTuple):
    """How a picture is worked on.

    shape : (H, W)
    side : of a block; the last ones may be larger by half
    documents : how each block is cut
    """

    shape: tuple[int, int]
    side: int
    documents: Cutting

    @property
    def blocks(self) -> list[Block]:
        """From left to right, from top to bottom."""
        return self.touching(*(slice(0, length) for length in self.shape))

    def touching(self, rows: slice, columns: slice) -> list[Block]:
        """The blocks that share pixels with a rectangle."""
        down, across = stripes_of(self.shape[0], self.side), stripes_of(self.shape[1], self.side)
        return [
            Block(i * len(across) + j, each_rows, each_columns)
            for i, each_rows in enumerate(down)
            if _overlap(each_rows, rows)
            for j, each_columns in enumerate(across)
            if _overlap(each_columns, columns)
        ]


def make_plan(shape: tuple[int, int], settings: Settings) -> Plan:
    """Blocks of about settings.block pixels a side, such that no document crosses their borders."""
    height, width = shape
    require(
        settings.model == "pmlda" and settings.engine in ("variational", "gibbs"),
        f"model={settings.model!r} with engine={settings.engine!r} cannot work block by block. "
        "Use model='pmlda' with engine 'variational' or 'gibbs'; or write to a folder, if the picture fits in memory.",
    )
    wanted = settings.documents
    if wanted == "auto":
        count = round(height * width / DOCUMENT_PIXELS)
        wanted = f"slic:{count}" if count > 1 else "whole"
    cutting = parse_cutting(wanted)
    require(
        cutting.window[0] <= height and cutting.window[1] <= width,
        f"documents={wanted!r} are larger than the picture, which has {height} × {width} pixels: take smaller windows.",
    )
    step = lcm(TILE_MULTIPLE, *cutting.window)
    side = max(settings.block // step, 1) * step
    require(
        side <= 2 * settings.block,
        f"documents={wanted!r} need blocks of a multiple of {step} pixels, and block={settings.block}. "
        "Choose windows whose sides are powers of two, or a larger block.",
    )
    require(
        cutting.n_regions <= height * width,
        f"documents={wanted!r} are more than the picture has pixels, {height * width}: ask for fewer.",
    )
    return Plan(shape, side, cutting)


def stripes_of(length: int, side: int) -> list[slice]:
    """Rows or columns of blocks; what is left at the end joins the last one if it is less than half a block.

    >>> [(each.start, each.stop) for each in stripes_of(100, 30)]
    [(0, 30), (30, 60), (60, 100)]
    """
    n = max(1, length // side + (2 * (length % side) >= side))
    edges = [*range(0, n * side, side), length]
    return [slice(a, b) for a, b in pairwise(edges)]


def widen(block: Block, halo: int, shape: tuple[int, int], multiple: int = 1) -> tuple[slice, slice]:
    """The block with a margin, as far as the picture goes; its first row and column are multiples of `multiple`."""

    def wider(side: slice, length: int) -> slice:
        first = max(side.start - halo, 0)
        return slice(first - first % multiple, min(side.stop + halo, length))

    return wider(block.rows, shape[0]), wider(block.columns, shape[1])


def inside(block: Block, rows: slice, columns: slice) -> tuple[slice, slice]:
    """Where the block lies in a rectangle around it."""
    return (
        slice(block.rows.start - rows.start, block.rows.stop - rows.start),
        slice(block.columns.start - columns.start, block.columns.stop - columns.start),
    )


def places_of(block: Block, width: int) -> IntArray:
    """(h, w) the number of every pixel in the whole picture, row by row."""
    rows, columns = np.arange(block.rows.start, block.rows.stop), np.arange(block.columns.start, block.columns.stop)
    return rows[:, None] * width + columns


def _overlap(one: slice, other: slice) -> bool:
    return bool(one.start < other.stop and other.start < one.stop)
