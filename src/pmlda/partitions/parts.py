"""How to cut a picture that is seen tile by tile: documents end at the borders of tiles, windows where they would.

Whoever cuts a tile finds the same documents. Numbers of superpixels are those of the whole picture, and a tile gets
its share of them.
"""

from typing import NamedTuple

import numpy as np

from pmlda.partitions.common import Seed, number, renumber
from pmlda.partitions.windows import parse_window, window_numbers
from pmlda.types import Image, IntArray
from pmlda.validate import require

SPELLINGS = "'windows:64', 'windows:64x128', 'slic:20000', 'ncuts:1000' or 'whole'"


class Cutting(NamedTuple):
    """A way to cut a picture of any size.

    spec : as a user writes it
    kind : "whole", "windows", "slic" or "ncuts"
    window : rows and columns of each window
    n_regions : in the whole picture
    """

    spec: str
    kind: str
    window: tuple[int, int] = (1, 1)
    n_regions: int = 1


def parse_cutting(spec: str) -> Cutting:
    """What a spelling means for a picture in tiles.

    >>> parse_cutting("windows:64x128").window
    (64, 128)
    """
    kind, _, argument = spec.strip().lower().partition(":")
    known = kind in ("whole", "windows", "slic", "ncuts") and not any(sign in argument for sign in "/*")
    require(
        known,
        f"documents={spec!r} cannot be cut tile by tile: use {SPELLINGS}; or write to a folder, for pictures that "
        "fit in memory.",
    )
    if kind == "windows":
        return Cutting(spec, kind, window=parse_window(argument, spec))
    if kind == "whole":
        require(not argument, f"partition {spec!r} has {argument!r} where nothing was expected: write 'whole'.")
        return Cutting(spec, kind)
    return Cutting(spec, kind, n_regions=number(argument, spec, f"{kind}:200"))


def cut_part(
    cutting: Cutting, image: Image, rows: slice, columns: slice, shape: tuple[int, int], seed: Seed
) -> tuple[IntArray, IntArray]:
    """(h, w) labels 0 … n−1 of a tile, −1 where it has no data; and (n,) the number of each in the whole picture.

    rows, columns, shape : where the tile lies, in a picture of which size
    The numbers are those of windows, from left to right and from top to bottom; of superpixels they mean nothing.
    """
    if cutting.kind == "windows":
        labels = window_numbers(cutting.window, shape, rows, columns)
        return renumber(labels, image.valid), np.unique(labels[image.valid])
    if cutting.kind == "whole":
        return renumber(np.zeros(image.valid.shape, np.int64), image.valid), np.zeros(1, np.int64)
    from pmlda.partitions import partition  # the table of all kinds, which knows this module too

    n_valid = int(image.valid.sum())
    each = shape[0] * shape[1] / cutting.n_regions
    count = int(np.clip(round(n_valid / each), 1, n_valid))
    labels = partition(f"{cutting.kind}:{count}", image, random_state=seed)[0]
    return labels, np.arange(labels.max() + 1) + (rows.start * shape[1] + columns.start)
