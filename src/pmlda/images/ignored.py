"""Pixels whose values say that they shall not count: no-data numbers, saturated pixels, acoustic shadow.

They are marked as pixels without data, so that they neither learn nor get memberships.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmlda.images.checks import Array, as_real_number, nodata_number, require
from pmlda.types import FloatArray, Ignored

# Speckle makes single pixels dark anywhere, so shadow is detected from means over squares of so many pixels a side.
SHADOW_SIDE = 9
HALF = SHADOW_SIDE // 2


class Ignoring(NamedTuple):
    """What values of pixels are ignored.

    nodata : a number that means "no data", besides the one that the file may name; None if there is none
    saturated : True for the largest number of the pixels' type, a number for that and all above it; False for none
    shadow : a number: pixels in any square whose mean is that or less; None for none
    """

    nodata: float | None = None
    saturated: bool | float = False
    shadow: float | None = None

    def checked(self, name: str, dtype: np.dtype[Any]) -> "Ignoring":
        """The same in the right types; an error where pixels of this type have no largest number."""
        nodata = None if self.nodata is None else nodata_number(self.nodata)
        shadow = None if self.shadow is None else as_real_number("ignore_shadow", self.shadow)
        if isinstance(self.saturated, bool | np.bool_):
            require(
                not self.saturated or dtype.kind in "biu",
                f"Saturated pixels of {name} cannot be told: its numbers are of type {dtype}, which has no largest "
                "that a camera would reach. Give the value from which on pixels are saturated (ignore_saturated=4095, "
                "--saturated-at 4095).",
            )
            return Ignoring(nodata, bool(self.saturated), shadow)
        return Ignoring(nodata, as_real_number("ignore_saturated", self.saturated), shadow)

    @property
    def spelt(self) -> list[str]:
        """What is ignored in words, nothing for what is not: two are equal if these are."""
        found = [] if self.nodata is None else [f"nodata {self.nodata}"]
        found += [] if self.saturated is False else [f"saturated {self.saturated}"]
        return found if self.shadow is None else [*found, f"shadow {self.shadow}"]

    @property
    def reach(self) -> int:
        """How far around a pixel others decide whether it is ignored."""
        return 0 if self.shadow is None else 2 * HALF

    def level(self, dtype: np.dtype[Any]) -> float:
        """From which number on pixels are saturated."""
        return float(np.iinfo(dtype).max) if self.saturated is True else float(self.saturated)


def saturated(pixels: Array, valid: NDArray[np.bool_], ignoring: Ignoring) -> NDArray[np.bool_] | None:
    """(H, W) valid pixels of which any band is saturated; None if they are not ignored.

    Band by band, because a cube of truth values would be large.
    """
    if ignoring.saturated is False:
        return None
    level, found = ignoring.level(pixels.dtype), np.zeros(valid.shape, dtype=bool)
    for band in range(pixels.shape[2]):
        found |= pixels[:, :, band] >= level
    return found & valid


def in_shadow(pixels: Array, valid: NDArray[np.bool_], ignoring: Ignoring) -> NDArray[np.bool_] | None:
    """(H, W) valid pixels in any square that is dark; None if they are not ignored.

    In any square rather than in that around them: otherwise a rim of every shadow would be left.
    """
    if ignoring.shadow is None:
        return None
    dark = local_mean(pixels, valid) <= ignoring.shadow
    return np.asarray(valid & (_box_sum(dark.astype(np.float64)) > 0))


def local_mean(pixels: Array, valid: NDArray[np.bool_]) -> FloatArray:
    """(H, W) the mean over all bands and over the valid pixels of a square window; infinite where there are none.

    Numbers are added in the same order around every pixel, so that windows of a picture give what the whole does.
    """
    with np.errstate(all="ignore"):  # of pixels without data
        values = np.where(valid, pixels.mean(axis=2, dtype=np.float64), 0.0)
    total, count = _box_sum(values), _box_sum(valid.astype(np.float64))
    return np.where(count > 0, total / np.maximum(count, 1.0), np.inf)


def _box_sum(values: FloatArray) -> FloatArray:
    """(H, W) sums over squares of SHADOW_SIDE pixels; outside of the picture there is nothing."""
    for axis in (0, 1):
        padded = np.pad(values, [(HALF, HALF) if each == axis else (0, 0) for each in (0, 1)])
        length = values.shape[axis]
        values = np.sum([padded.take(range(i, i + length), axis=axis) for i in range(SHADOW_SIDE)], axis=0)
    return values


def notes_on_ignored(ignored: Ignored, ignoring: Ignoring, n_pixels: int, dtype: np.dtype[Any]) -> tuple[str, ...]:
    """Sentences on how many pixels are ignored.

    >>> notes_on_ignored(Ignored(5), Ignoring(saturated=True), 1000, np.dtype(np.uint8))
    ('5 of 1000 pixels (0.5 %) are saturated (255 or more) and were left out.',)
    """
    found: tuple[str, ...] = ()
    if ignoring.saturated is not False:
        level = f"{ignoring.level(dtype):g}"
        found = (_how_many(ignored.saturated, n_pixels, "saturated", f"{level} or more"),)
        if ignored.saturated == 0:
            more = " If the camera saturates below that, give the value." if ignoring.saturated is True else ""
            found = (f"No pixel is saturated ({level} or more).{more}",)
    if ignoring.shadow is not None:
        rule = f"squares of {SHADOW_SIDE} × {SHADOW_SIDE} pixels with a mean of {ignoring.shadow:g} or less"
        found += (_how_many(ignored.shadow, n_pixels, "in shadow", rule),)
    return found


def _how_many(n: int, of: int, what: str, rule: str) -> str:
    return f"{n} of {of} pixels ({100 * n / of:.2g} %) {'is' if n == 1 else 'are'} {what} ({rule}) and were left out."


def all_ignored(name: str, ignored: Ignored) -> str:
    """What to say where no pixel is left; nothing if that is not because pixels are ignored."""
    if not (ignored.saturated or ignored.shadow):
        return ""
    found = "saturated" if ignored.saturated >= ignored.shadow else "in shadow"
    return f"{name} has no pixel left: {max(ignored)} are {found}. Give another value for what is ignored, or none."
