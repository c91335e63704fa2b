"""What a file says of the size of its pixels → PixelSize, in units that OME knows, or none."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from pmlda.types import PixelSize

# Units of length by their sign in OME, with their names in OME-Zarr.
UNITS = {
    "km": "kilometer",
    "m": "meter",
    "cm": "centimeter",
    "mm": "millimeter",
    "µm": "micrometer",
    "nm": "nanometer",
    "pm": "picometer",
    "Å": "angstrom",
    "in": "inch",
    "ft": "foot",
}
# Other spellings: with the Greek letter, as ImageJ escapes it, and as people write it.
SPELLINGS = {
    **{name: sign for sign, name in UNITS.items()},
    **dict.fromkeys(("μm", "um", "\\u00b5m", "micron", "microns"), "µm"),
    **{"å": "Å", "metre": "m", "inches": "in"},
}


def make_pixel_size(height: Any, width: Any, unit: Any) -> PixelSize | None:
    """A size if both lengths are above 0 and the unit is one of length; None otherwise.

    >>> make_pixel_size("0.5", 0.25, "micron")
    PixelSize(height=0.5, width=0.25, unit='µm')
    >>> make_pixel_size(1, 1, "pixel"), make_pixel_size("wide", 1, "m"), make_pixel_size(0, 1, "m")
    (None, None, None)
    """
    text = str(unit).strip()
    sign = text if text in UNITS else SPELLINGS.get(text.lower())
    try:
        lengths = float(height), float(width)
    except (TypeError, ValueError):
        return None
    if sign is None or not all(math.isfinite(length) and length > 0 for length in lengths):
        return None
    return PixelSize(*lengths, sign)


def from_ome(pixels: Any) -> PixelSize | None:
    """Of the element Pixels of OME-XML, whose lengths are in µm unless it says otherwise."""
    units = {pixels.get(f"PhysicalSize{axis}Unit", "µm") for axis in "XY"}
    if len(units) != 1:
        return None
    return make_pixel_size(pixels.get("PhysicalSizeY"), pixels.get("PhysicalSizeX"), units.pop())


def from_imagej(resolution: Sequence[Any], metadata: Mapping[str, Any]) -> PixelSize | None:
    """Of ImageJ, which keeps pixels per unit as fractions along x and y, and the unit beside them."""
    try:
        (x_pixels, x_units), (y_pixels, y_units) = resolution
        return make_pixel_size(y_units / y_pixels, x_units / x_pixels, metadata.get("unit"))
    except (TypeError, ValueError, ZeroDivisionError):
        return None


def from_ngff(axes: Any, transformations: Any) -> PixelSize | None:
    """Of the largest level of an OME-Zarr: axes with their units, and transformations one of which is a scale."""
    try:
        scale = next(each["scale"] for each in transformations if each["type"] == "scale")
        found = {axis["name"]: (length, axis.get("unit")) for axis, length in zip(axes, scale, strict=True)}
        (height, y_unit), (width, x_unit) = found["y"], found["x"]
    except (KeyError, TypeError, ValueError, AttributeError, StopIteration):
        return None
    return make_pixel_size(height, width, x_unit) if x_unit == y_unit else None
