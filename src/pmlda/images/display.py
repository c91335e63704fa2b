"""Image → colours (H, W, 3) for the screen."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pmlda.images.checks import Array
from pmlda.types import Image

NO_DATA_GREY = 230


def to_rgb(image: Image) -> NDArray[np.uint8]:
    """(H, W, 3) colours to show a picture on a screen; light grey where it has no data.

    Colours in 8 bits stay as they are. Of other pictures three bands are stretched between their 2nd and 98th
    percentile; one band becomes grey, two become red and cyan.

    >>> from pmlda.images import read_image
    >>> to_rgb(read_image(np.array([[0.0, 1.0]])))[:, :, 0].tolist()
    [[0, 255]]
    """
    pixels, valid = image.pixels, image.valid
    chosen = _display_bands(image.bands)
    as_they_are = pixels.dtype == np.uint8 and len(image.bands) == 3
    planes = {band: pixels[:, :, band] if as_they_are else _stretch(pixels[:, :, band], valid) for band in set(chosen)}
    colours = np.stack([planes[band] for band in chosen], axis=2).astype(np.uint8)
    colours[~valid] = NO_DATA_GREY
    return colours


def _display_bands(bands: Sequence[str]) -> tuple[int, int, int]:
    """Which bands are shown as red, green and blue: those with these names, or the first, middle and last."""
    lower = [name.lower() for name in bands]
    for names in (("red", "green", "blue"), ("r", "g", "b")):
        if all(name in lower for name in names):
            return lower.index(names[0]), lower.index(names[1]), lower.index(names[2])
    last = len(bands) - 1
    return 0, 1 if len(bands) == 2 else round(last / 2), last


def _stretch(band: Array, valid: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """(H, W) 0 at the 2nd and 255 at the 98th percentile of the valid pixels; 128 if all are the same."""
    values = band[valid].astype(np.float64)
    values = values[:: len(values) // 1_000_000 + 1]  # enough for a percentile
    low, high = np.percentile(values, [2, 98]) if len(values) else (0.0, 0.0)
    if low == high and len(values):  # nearly all the same: show what stands out
        low, high = values.min(), values.max()
    if low == high:
        return np.full(band.shape, 128, dtype=np.uint8)
    numbers = np.where(valid, band, low).astype(np.float64)
    return np.rint(np.clip((numbers - low) / (high - low), 0.0, 1.0) * 255).astype(np.uint8)
