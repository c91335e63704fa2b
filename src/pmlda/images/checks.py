"""Shape, type and numbers of a picture → the same, or an ImageError that says what is wrong and what to do."""

import contextlib
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmlda.errors import ImageError, PmldaError

# Pictures of more numbers than this (pixels × bands) are refused before they are decoded: a file of a few kilobytes
# can claim a picture that fills the memory. Set it higher where that is really meant.
MOST_VALUES = 2**31

Array = NDArray[Any]
Key = str | int | None


def require(condition: bool, message: str) -> None:
    """Raise ImageError with the message unless the condition holds."""
    if not condition:
        raise ImageError(message)


@contextlib.contextmanager
def decoding(path: Path, kind: str) -> Iterator[None]:
    """Whatever a decoder says of a damaged file becomes one ImageError."""
    try:
        yield
    except (PmldaError, MemoryError):
        raise
    except NotImplementedError as error:
        raise ImageError(f"{path} is a {kind} file of a variety that cannot be read: {error}.") from error
    except Exception as error:  # a decoder can raise anything on a damaged file
        reason = str(error).strip().rstrip(".") or type(error).__name__
        raise ImageError(
            f"{path} cannot be read as {kind}: {reason}. It is damaged, cut short or not {kind}; get it again."
        ) from error


def require_no_key(key: Key, path: Path) -> None:
    """Refuse a key for a file in which there is nothing to choose."""
    require(key is None, f"key={key!r}, but {path} holds a single picture. Leave key out.")


def check_size(shape: Sequence[int], what: str, *, in_parts: bool = True) -> None:
    """Refuse pictures without pixels and pictures that are too large, before they are decoded.

    in_parts : whether a picture of this kind can be read tile by tile
    """
    size = math.prod(shape)
    require(size > 0, f"{what} has no pixels: its shape is {tuple(shape)}. Give a picture with some.")
    tiled = "write the maps to a name that ends in .zarr (then the picture is read tile by tile)"
    if not in_parts:
        tiled = f"save it as a tiled TIFF, .npy or Zarr and {tiled}"
    require(
        size <= MOST_VALUES,
        f"{what} has shape {tuple(shape)}, {size} numbers, above the limit of {MOST_VALUES}. "
        f"Cut out a part, {tiled}, or raise pmlda.images.checks.MOST_VALUES if you trust the file.",
    )


def as_numbers(pixels: Array, name: str) -> Array:
    """Whole or real numbers in the byte order of this machine; True and False become 1 and 0."""
    kinds = {"c": "complex numbers", "O": "objects", "U": "text", "S": "text", "M": "dates", "m": "time spans"}
    kind = pixels.dtype.kind
    remedy = "Give its real part, magnitude or phase." if kind == "c" else "Give whole or real numbers."
    require(kind in "buif", f"{name} holds {kinds.get(kind, 'records')} ({pixels.dtype}), not numbers. {remedy}")
    return pixels.astype(np.uint8 if kind == "b" else pixels.dtype.newbyteorder("="), copy=False)


def as_real_number(name: str, value: Any) -> float:
    """The number that was given under this name, whole if it is whole."""
    is_number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    require(is_number, f"{name}={value!r} is not a number. Give a number in the units of the picture.")
    return int(value) if isinstance(value, int | np.integer) else float(value)


def nodata_number(value: Any) -> float:
    """The number that means no data."""
    return as_real_number("nodata", value)


def equals_nodata(pixels: Array, nodata: Sequence[float | None]) -> NDArray[np.bool_]:
    """(H, W) whether any band has its no-data number. NaN is found elsewhere, and None means there is no number."""
    missing = np.zeros(pixels.shape[:2], dtype=bool)
    for band, number in enumerate(nodata):
        if number is not None and math.isfinite(number):
            with np.errstate(over="ignore"):  # 1e300 in a file of float32 becomes infinity, which has no data anyway
                missing |= pixels[:, :, band] == number
    return missing
