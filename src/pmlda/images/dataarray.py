"""xarray.DataArray in any order of its dimensions → Content with names, place and no-data number."""

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from pmlda.images.arrays import from_array
from pmlda.images.checks import Array, check_size, equals_nodata, nodata_number, require
from pmlda.images.content import Content
from pmlda.types import Georeference

Y_NAMES = ("y", "lat", "latitude", "northing", "row", "rows", "line")
X_NAMES = ("x", "lon", "longitude", "easting", "col", "cols", "column", "sample")


def is_dataarray(source: Any) -> bool:
    """Whether the source is an xarray.DataArray; nobody has one who has not imported xarray."""
    xarray = sys.modules.get("xarray")
    return xarray is not None and isinstance(source, xarray.DataArray)


def from_dataarray(source: Any) -> Content:
    """A DataArray with names, place and no-data number as rioxarray leaves them."""
    shape = dict(zip(source.dims, source.shape, strict=True))
    y, x = (next((d for d in source.dims if str(d).lower() in names), None) for names in (Y_NAMES, X_NAMES))
    require(
        y is not None and x is not None, f"The DataArray has dimensions {shape}. Rename those of the plane to y and x."
    )
    others = [d for d in source.dims if d not in (y, x)]
    rest = [d for d in others if shape[d] != 1] or others[:1]  # what counts the bands, if anything does
    require(len(rest) <= 1, f"The DataArray has more than 3 dimensions, {shape}. Select one plane with .isel().")
    check_size(source.shape, "The DataArray")
    plane = source.isel({d: 0 for d in others if d not in rest}).transpose(y, x, *rest)
    content = from_array(np.array(plane.values), "The DataArray")
    n_bands = content.pixels.shape[2]
    nodata = source.attrs.get("_FillValue", source.attrs.get("nodata"))
    if nodata is not None:
        content = content.only_where(~equals_nodata(content.pixels, [nodata_number(nodata)] * n_bands))
    return content._replace(bands=_band_names(plane, rest, n_bands), georeference=_place(source, y, x))


def _band_names(plane: Any, rest: Sequence[Any], n_bands: int) -> tuple[str, ...]:
    long_name = plane.attrs.get("long_name")
    if isinstance(long_name, tuple | list) and len(long_name) == n_bands:
        return tuple(str(name) for name in long_name)
    if not rest or rest[0] not in plane.coords:
        return ()
    names = [str(name) for name in plane.coords[rest[0]].values.tolist()]
    # rioxarray numbers the bands; a bare number is no name unless the dimension says what it counts, as a wavelength.
    return tuple(f"{rest[0]} {name}" if name.isdigit() else name for name in names)


def _place(source: Any, y: Any, x: Any) -> Georeference | None:
    """CRS from the coordinate `spatial_ref`, transform from it or from evenly spaced coordinates of the pixels."""
    mapping = source.encoding.get("grid_mapping", source.attrs.get("grid_mapping", "spatial_ref"))
    about = source.coords[mapping].attrs if mapping in source.coords else {}
    crs = str(about.get("crs_wkt", about.get("spatial_ref", ""))) or str(source.attrs.get("crs", ""))
    if not crs:
        return None
    along_x, along_y = (_even_step(source.coords[d].values) if d in source.coords else None for d in (x, y))
    if along_x is not None and along_y is not None:
        (x0, dx), (y0, dy) = along_x, along_y
        return Georeference(crs, (dx, 0.0, x0 - dx / 2, 0.0, dy, y0 - dy / 2))
    if "GeoTransform" in about:
        c, a, b, f, d, e = (float(number) for number in str(about["GeoTransform"]).split())
        return Georeference(crs, (a, b, c, d, e, f))
    return None


def _even_step(centres: Array) -> tuple[float, float] | None:
    """(first, step) of evenly spaced numbers; None of others."""
    if centres.ndim != 1 or len(centres) < 2 or centres.dtype.kind not in "uif":
        return None
    numbers = centres.astype(np.float64)
    step = float(numbers[-1] - numbers[0]) / (len(numbers) - 1)
    even = bool(np.allclose(np.diff(numbers), step, rtol=1e-3, atol=0.0))
    return (float(numbers[0]), step) if even and step != 0 else None
