"""Arrays (…, H, W) → half as high and wide: the levels of pyramids and overviews."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def halve(array: NDArray[Any]) -> NDArray[Any]:
    """(…, H, W) → (…, ⌈H/2⌉, ⌈W/2⌉): means of 2 × 2 pixels with data; of whole numbers, which name things, the first.

    >>> halve(np.array([[0.0, 1.0, 5.0], [np.nan, 2.0, np.nan]])).tolist()
    [[1.0, 5.0]]
    >>> halve(np.array([[3, 1, 5], [2, 2, 2]])).tolist()
    [[3, 5]]
    """
    if array.dtype.kind != "f":
        return np.ascontiguousarray(array[..., ::2, ::2])
    odd = [length % 2 for length in array.shape[-2:]]
    if any(odd):
        around = [(0, 0)] * (array.ndim - 2) + [(0, each) for each in odd]
        array = np.pad(array, around, constant_values=np.nan)
    corners = [array[..., row::2, column::2].astype(np.float32) for row in (0, 1) for column in (0, 1)]
    total = corners[0] + corners[1] + corners[2] + corners[3]
    means = total * np.float32(0.25)
    if np.isnan(total).any():
        with_data = [np.isfinite(corner) for corner in corners]
        count = np.sum(with_data, axis=0, dtype=np.float32)
        known = np.sum([np.where(*each, 0.0) for each in zip(with_data, corners, strict=True)], axis=0)
        with np.errstate(invalid="ignore"):
            means = np.where(np.isnan(total), known / count, means)
    return means.astype(array.dtype)


def level_shapes(shape: Sequence[int], side: int) -> list[tuple[int, int]]:
    """(H, W) of each smaller level: each half of the one before, until one fits into side × side pixels.

    >>> level_shapes((1500, 700), 512)
    [(750, 350), (375, 175)]
    """
    height, width = shape[0], shape[1]
    found = []
    while max(height, width) > side:
        height, width = -(-height // 2), -(-width // 2)
        found.append((height, width))
    return found
