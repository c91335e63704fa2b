"""Windows: the whole picture as one document, a grid of windows, or all grids shifted by a stride."""

from itertools import product

import numpy as np

from pmlda.partitions.common import MOST_PARTITIONS, Kind, Seed, number
from pmlda.types import Image, IntArray
from pmlda.validate import require

EXAMPLE = "windows:64"


def _whole(spec: str, argument: str, image: Image, seed: Seed) -> list[IntArray]:
    require(not argument, f"partition {spec!r} has {argument!r} where nothing was expected: write 'whole'.")
    return [np.zeros(image.valid.shape, np.int64)]


def _windows(spec: str, argument: str, image: Image, seed: Seed) -> list[IntArray]:
    """One grid of windows, or all grids shifted by a stride."""
    size, slash, step = argument.partition("/")
    window = parse_window(size, spec)
    stride = parse_window(step, spec) if slash else window
    _check_windows(window, stride, spec, image)
    height, width = image.valid.shape
    return [
        _stripes(height, window[0], top)[:, None] * width + _stripes(width, window[1], left)
        for top, left in product(range(0, window[0], stride[0]), range(0, window[1], stride[1]))
    ]


def parse_window(text: str, spec: str) -> tuple[int, int]:
    """'64' or '64x128'."""
    rows, times, columns = text.partition("x")
    return number(rows, spec, EXAMPLE), number(columns if times else rows, spec, EXAMPLE)


def window_numbers(window: tuple[int, int], shape: tuple[int, int], rows: slice, columns: slice) -> IntArray:
    """(h, w) the window of each pixel in a part of a picture of this shape."""
    down, right = _stripes(shape[0], window[0], 0)[rows], _stripes(shape[1], window[1], 0)[columns]
    return down[:, None] * shape[1] + right


def _check_windows(window: tuple[int, int], stride: tuple[int, int], spec: str, image: Image) -> None:
    size, step = (" × ".join(map(str, pair)) for pair in (window, stride))
    height, width = image.valid.shape
    require(
        window[0] <= height and window[1] <= width,
        f"partition {spec!r} has windows of {size} pixels but the picture has {height} × {width}: "
        "take smaller windows, or 'whole'.",
    )
    require(
        stride[0] <= window[0] and stride[1] <= window[1],
        f"partition {spec!r} has stride {step}, larger than its window {size}: take a stride that divides the window.",
    )
    require(
        window[0] % stride[0] == 0 and window[1] % stride[1] == 0,
        f"partition {spec!r} has stride {step}, which does not divide its window {size}: "
        "take a half or a quarter of the window.",
    )
    n_grids = (window[0] // stride[0]) * (window[1] // stride[1])
    require(
        n_grids <= MOST_PARTITIONS,
        f"partition {spec!r} makes {n_grids} shifted grids and at most {MOST_PARTITIONS} are allowed: "
        "take a larger stride.",
    )


def _stripes(length: int, window: int, first: int) -> IntArray:
    """(length,) the number of the stripe of each row or column, when the grid has a line at `first`."""
    edges = [0, *range(first or window, length, window), length]
    # A narrow strip would be a document of few pixels; it joins its neighbour.
    if len(edges) > 2 and 2 * (edges[1] - edges[0]) < window:
        del edges[1]
    if len(edges) > 2 and 2 * (edges[-1] - edges[-2]) < window:
        del edges[-2]
    return np.searchsorted(edges[1:-1], np.arange(length), side="right").astype(np.int64)


WHOLE = Kind(_whole, [("whole", "the whole picture is one document")])
WINDOWS = Kind(
    _windows,
    [
        (EXAMPLE, "windows of 64 × 64 pixels; windows:64x128 for rows × columns"),
        ("windows:64/32", "the same, averaged over all grids shifted by multiples of 32 pixels"),
    ],
)
