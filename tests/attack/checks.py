"""What is checked with the package itself, in a child of the server: results that load, readings that agree."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from pmlda.errors import PmldaError
from pmlda.images import read_image
from pmlda.images.windowed import open_windowed
from pmlda.segmentation import Segmentation
from pmlda.storage.digest import digest
from pmlda.types import Image

# Memberships are stored as float32.
ROUNDING = 1e-4
# Damaged headers may claim any size; larger pictures than this are not read twice.
MOST_VALUES = 2**22
NOTHING_LEFT = "no pixel with data"


def shares(result: Path) -> str:
    """The digest of the maps, which are shares of every pixel that has data; an AssertionError otherwise."""
    found = Segmentation.load(result)
    maps = [np.asarray(each) for each in (found.memberships if found.several else [found.memberships])]
    for each in maps:
        has_data = np.isfinite(each).all(axis=2)
        assert has_data.any(), "no pixel has a membership"
        assert np.isnan(each[~has_data]).all(), "some pixels have only some memberships"
        numbers = each[has_data]
        assert numbers.min() >= 0.0, "a membership is negative"
        assert numbers.max() <= 1.0 + ROUNDING, "a membership is above 1"
        assert np.abs(numbers.sum(axis=1) - 1.0).max() <= ROUNDING, "memberships do not sum to 1"
    return digest([np.ascontiguousarray(each) for each in maps])


def disagreement(path: Path) -> str:
    """How a picture that is read whole differs from the same picture read in windows; nothing if it does not."""
    whole, parts = _tried(lambda: read_image(path)), _tried(lambda: _in_windows(path))
    if isinstance(whole, PmldaError) and isinstance(parts, PmldaError):
        return ""
    if isinstance(parts, PmldaError):
        return f"read whole, but refused in windows: {parts}"
    if parts is None:
        return ""
    if isinstance(whole, PmldaError):
        is_empty = NOTHING_LEFT in str(whole) and not parts.valid.any()
        return "" if is_empty else f"read in windows, but refused whole: {whole}"
    if whole.pixels.shape != parts.pixels.shape:
        return f"shape {whole.pixels.shape} whole, {parts.pixels.shape} in windows"
    if not np.array_equal(whole.valid, parts.valid):
        return f"{whole.valid.sum()} pixels have data whole, {parts.valid.sum()} in windows"
    if not np.array_equal(whole.pixels[whole.valid], parts.pixels[whole.valid]):
        return "numbers differ between the whole and windows"
    if whole.bands != parts.bands:
        return f"bands {whole.bands} whole, {parts.bands} in windows"
    return ""


def _tried(read: Any) -> Any:
    """What was read, or the error that a user would see."""
    try:
        return read()
    except PmldaError as error:
        return error


def _in_windows(path: Path) -> Image | None:
    """The picture put together from six windows; None if it claims to be too large for that."""
    source = open_windowed(path)
    if int(np.prod(source.shape)) > MOST_VALUES:
        return None
    rows, columns = ([0, length // 3, length] for length in source.shape[:2])
    spans = [[slice(a, b) for a, b in pairwise(cuts) if a < b] for cuts in (rows, columns)]
    windows = [[source.read(row, column) for column in spans[1]] for row in spans[0]]
    pixels = np.concatenate([np.concatenate([each.pixels for each in line], axis=1) for line in windows])
    valid = np.concatenate([np.concatenate([each.valid for each in line], axis=1) for line in windows])
    return windows[0][0]._replace(pixels=pixels, valid=valid)
