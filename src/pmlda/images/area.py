"""Georeference → how much ground a pixel covers, and in which unit."""

from typing import NamedTuple

from pmlda.images.gdal import find_rasterio, quiet
from pmlda.types import Georeference

IN_DEGREES = "no area: the coordinate system is in degrees"
# What coordinates without a system, or of one that nothing here can read, are in.
UNKNOWN_UNIT = "map unit²"
# By names in lower case, as formats differ in capitals.
SIGNS = {
    "metre": "m",
    "meter": "m",
    "m": "m",
    "kilometre": "km",
    "foot": "ft",
    "us survey foot": "US survey ft",
}


class PixelArea(NamedTuple):
    """The area of one pixel, None where it cannot be told, and its unit or why there is none."""

    area: float | None
    unit: str


def pixel_area(place: Georeference | None) -> PixelArea:
    """The area of a pixel on the map.

    >>> pixel_area(Georeference("", (2.0, 0.0, 0.0, 0.0, -3.0, 0.0)))
    PixelArea(area=6.0, unit='map unit²')
    >>> pixel_area(None)
    PixelArea(area=None, unit='')
    """
    if place is None:
        return PixelArea(None, "")
    a, b, _, d, e, _ = place.transform
    unit = _unit(place.crs)
    return PixelArea(None, unit) if unit == IN_DEGREES else PixelArea(abs(a * e - b * d), unit)


def _unit(crs: str) -> str:
    """The square of the unit of a coordinate system; a sentence where a square of it is no area."""
    rasterio = find_rasterio()
    if not crs or rasterio is None:
        return UNKNOWN_UNIT
    try:
        with quiet():
            known = rasterio.crs.CRS.from_user_input(crs)
            if known.is_geographic:
                return IN_DEGREES
            name = str(known.linear_units)
    except rasterio.errors.CRSError:
        return UNKNOWN_UNIT
    return UNKNOWN_UNIT if name.lower() == "unknown" else f"{SIGNS.get(name.lower(), name)}²"
