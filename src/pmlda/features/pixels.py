"""Image → the same without holes; images → the range of their numbers; image + range → brightness from 0 to 1."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmlda.types import FloatArray, Image
from pmlda.validate import require

Plane = NDArray[np.float32]

# So many numbers are turned into brightness at a time, so that what lies between stays in cache.
NUMBERS_AT_ONCE = 2**18
# Weights of red, green and blue in the luminance of a screen (Rec. 709).
LUMINANCE = np.array([0.2126, 0.7152, 0.0722], dtype=np.float32)


def with_true_mask(image: Image) -> Image:
    """The image with NaN and infinity marked as no data; ValueError where nothing is left, or it is no image."""
    masked = with_finite_mask(image)
    require(bool(masked.valid.any()), f"{image.name} has no valid pixel, so it has no features.")
    return masked


def with_finite_mask(image: Image) -> Image:
    """The image with NaN and infinity marked as no data; ValueError where it is no image."""
    pixels = image.pixels
    require(
        pixels.ndim == 3 and pixels.size > 0 and pixels.dtype.kind in "biuf",
        f"{image.name}: pixels have shape {pixels.shape} and type {pixels.dtype}. "
        "Give real numbers of shape (height, width, bands), none of them 0.",
    )
    require(
        image.valid.shape == pixels.shape[:2],
        f"{image.name}: the mask of valid pixels has shape {image.valid.shape}, the image {pixels.shape[:2]}.",
    )
    finite = np.isfinite(pixels).all(axis=2) if pixels.dtype.kind == "f" else True
    return image._replace(valid=np.asarray(image.valid & finite, dtype=np.bool_))


def fill(image: Image) -> Image:
    """Every pixel without data takes the numbers of the nearest one with data, so that filters see no dark rims.

    >>> pixels = np.array([[[5], [0], [0], [9]]])
    >>> holes = Image(pixels, np.array([[True, False, False, True]]), ("grey",), "two holes")
    >>> fill(holes).pixels.ravel().tolist()
    [5, 5, 9, 9]
    """
    return image._replace(pixels=fill_values(image.pixels, image.valid))


def fill_values(values: NDArray[np.generic], valid: NDArray[np.bool_]) -> NDArray[np.generic]:
    """(H, W, …) with the nearest valid values in all other places."""
    if valid.all():
        return values
    from scipy.ndimage import distance_transform_edt

    rows, columns = distance_transform_edt(~valid, return_distances=False, return_indices=True)
    filled: NDArray[np.generic] = values[rows, columns]
    return filled


def survey_range(image: Image, *, stretch: bool = False) -> FloatArray:
    """(low, high, whether measured) of one image, or of one block of it: what settle_range needs."""
    if _has_fixed_range(image, stretch):
        return np.array([0.0, _type_maximum(image), 0.0])
    return np.array([*_extremes(image), 1.0])


def settle_range(limits: Sequence[FloatArray], *, stretch: bool = False) -> FloatArray:
    """(low, high, whether from measured numbers): what will become 0 and 1 in all images from now on.

    Whole numbers go from 0 to the largest that their type can hold; other numbers from 0 to the largest valid one if
    that is above 1, else to 1. With stretch, only 8-bit images keep their whole range: all others go from their
    smallest (or 0) to their largest valid number, since 12 bits stored in 16 would leave few of 256 levels.
    """
    measured = [each for each in limits if each[2]]
    if not measured:
        return np.array([0.0, max(float(each[1]) for each in limits), 0.0])
    low, high = min(0.0, *(float(each[0]) for each in measured)), max(float(each[1]) for each in measured)
    if stretch:
        return np.array([low, high if high > low else low + 1.0, 1.0])
    return np.array([0.0, max(high, 1.0), 1.0])


def type_range(image: Image) -> FloatArray | None:
    """(least, greatest) number that the type of whole numbers can hold; None for other numbers."""
    dtype: np.dtype[Any] = image.pixels.dtype
    if dtype.kind not in "biu":
        return None
    return np.array([0.0 if dtype.kind == "b" else float(np.iinfo(dtype).min), _type_maximum(image)])


def unit_range(image: Image, *, stretch: bool = False) -> FloatArray | None:
    """(least, greatest) that to_unit can return for images of this type; None where the type does not say."""
    limits = type_range(image)
    return limits / limits[1] if limits is not None and _has_fixed_range(image, stretch) else None


def join_ranges(name: str, ranges: Sequence[FloatArray | None]) -> dict[str, FloatArray]:
    """The range of all images under its name; nothing if it is not known for one of them."""
    known = [each for each in ranges if each is not None]
    if not known or len(known) < len(ranges):
        return {}
    return {name: np.array([min(each[0] for each in known), max(each[1] for each in known)])}


def to_unit(image: Image, learnt: FloatArray, *, stretch: bool = False) -> Plane:
    """(H, W, B) pixels with low at 0 and high at 1; numbers outside the learnt range go beyond."""
    low, high = _limits(image, learnt, stretch)
    unit = np.empty_like(image.pixels, dtype=np.float32)
    step = max(1, NUMBERS_AT_ONCE * len(unit) // max(1, unit.size))
    for top in range(0, len(unit), step):
        unit[top : top + step] = (image.pixels[top : top + step].astype(np.float64) - low) / (high - low)
    return unit


def mean_to_unit(image: Image, learnt: FloatArray, *, stretch: bool = False) -> Plane:
    """(H, W) the mean of to_unit over the bands, without a copy of all of them."""
    low, high = _limits(image, learnt, stretch)
    unit: Plane = ((image.pixels.mean(axis=2, dtype=np.float64) - low) / (high - low)).astype(np.float32)
    return unit


def to_lab(rgb: Plane) -> Plane:
    """(H, W, 3) CIE L, a, b of red, green and blue from 0 to 1."""
    from skimage.color import rgb2lab

    lab: Plane = rgb2lab(np.clip(rgb, 0.0, 1.0)).astype(np.float32, copy=False)
    return lab


def lightness(image: Image, learnt: FloatArray) -> Plane:
    """(H, W, 3) CIE L, a, b of a colour image; else (H, W, 1) the mean of the bands, from 0 to 100 like L."""
    if image.pixels.shape[2] == 3:
        return to_lab(to_unit(image, learnt))
    return np.float32(100.0) * mean_to_unit(image, learnt)[:, :, None]


def _has_fixed_range(image: Image, stretch: bool) -> bool:
    """Whether the type of the numbers alone says what their range is."""
    kind, size = image.pixels.dtype.kind, image.pixels.dtype.itemsize
    return kind in "bu" and size == 1 if stretch else kind in "biu"


def _limits(image: Image, learnt: FloatArray, stretch: bool) -> tuple[float, float]:
    """What becomes 0 and 1 in this image."""
    low, high, from_measured = learnt.tolist()
    if _has_fixed_range(image, stretch):
        return 0.0, _type_maximum(image)
    if not from_measured and _extremes(image)[1] <= 1.0:
        return 0.0, 1.0  # learnt from whole numbers, now given as shares of one
    return low, high


def _type_maximum(image: Image) -> float:
    dtype: np.dtype[Any] = image.pixels.dtype
    return 1.0 if dtype.kind == "b" else float(np.iinfo(dtype).max)


def _extremes(image: Image) -> tuple[float, float]:
    """The smallest and the largest valid number."""
    pixels: NDArray[Any] = image.pixels
    valid = pixels if image.valid.all() else pixels[image.valid]
    return float(valid.min()), float(valid.max())
