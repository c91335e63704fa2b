"""xarray.DataArray in any order of its dimensions, or a window of it → Content with names, place and no-data number.

Zarr stores name dimensions, bands and place in the same words, so what they mean is found here for both.
"""

import sys
from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

import numpy as np

from pmlda.images.arrays import from_array
from pmlda.images.axes import Axes, find_axes
from pmlda.images.bands import UNITS
from pmlda.images.checks import Array, check_size, nodata_number
from pmlda.images.choice import Choice
from pmlda.images.content import Content, Window
from pmlda.types import Georeference


def is_dataarray(source: Any) -> bool:
    """Whether the source is an xarray.DataArray; nobody has one who has not imported xarray."""
    xarray = sys.modules.get("xarray")
    return xarray is not None and isinstance(source, xarray.DataArray)


def from_dataarray(source: Any, choice: Choice, window: Window | None = None) -> Content:
    """A DataArray, or a window of it, with names, place and no-data number as rioxarray leaves them."""
    found = arrange(source, choice)
    rows, columns = window or (slice(0, found.shape[0]), slice(0, found.shape[1]))
    check_size((rows.stop - rows.start, columns.stop - columns.start, found.shape[2]), "The DataArray")
    ignored = [number for number in (found.nodata, choice.nodata) if number is not None]
    pixels = found.axes.read(_Computed(source), (rows, columns), ignored)
    content = from_array(pixels, "The DataArray")._replace(nodata=(found.nodata,) * pixels.shape[2])
    return content._replace(bands=found.bands, georeference=found.georeference, notes=found.notes)


class _Computed:
    """A DataArray whose slices are numbers. Inside a task of a cluster there is no other scheduler to ask."""

    def __init__(self, source: Any) -> None:
        self.source, self.shape = source, source.shape

    def __getitem__(self, index: Any) -> Array:
        return np.array(self.source[index].compute(scheduler="synchronous").values)


class Arranged(NamedTuple):
    """Which dimension of a DataArray is what, and what it says about itself. shape, dtype : as they will be read"""

    axes: Axes
    shape: tuple[int, int, int]
    dtype: np.dtype[Any]
    bands: tuple[str, ...]
    georeference: Georeference | None
    nodata: float | None
    notes: tuple[str, ...]


def arrange(source: Any, choice: Choice) -> Arranged:
    """Which dimension of a DataArray is what, without reading its numbers."""
    axes = find_axes(source.dims, source.shape, "The DataArray", choice)
    shape = axes.cube_shape(source.shape)
    y, x, *rest = (source.dims[axis] for axis in axes.order)
    nodata = source.attrs.get("_FillValue", source.attrs.get("nodata"))
    mapping = source.encoding.get("grid_mapping", source.attrs.get("grid_mapping", "spatial_ref"))
    about = source.coords[mapping].attrs if mapping in source.coords else {}
    along_x, along_y = (source.coords[d].values if d in source.coords else None for d in (x, y))
    along_bands = source.coords[rest[0]] if rest and rest[0] in source.coords else None
    labels, units = (None, "") if along_bands is None else (along_bands.values, along_bands.attrs.get("units", ""))
    return Arranged(
        axes,
        shape,
        axes.cube_type(source.dtype),
        band_names(source.attrs, rest[0] if rest else "", labels, shape[2], units),
        place(source.attrs, about, along_x, along_y),
        None if nodata is None else nodata_number(nodata),
        axes.notes,
    )


def band_names(
    attributes: Mapping[Any, Any], dimension: Hashable, labels: Any, n_bands: int, units: Any = ""
) -> tuple[str, ...]:
    """Names from the attribute long_name, or from the labels along the dimension of the bands. units : of the labels"""
    long_name = attributes.get("long_name")
    if isinstance(long_name, tuple | list) and len(long_name) == n_bands:
        return tuple(str(name) for name in long_name)
    if labels is None or np.shape(labels) != (n_bands,):
        return ()
    names = [str(name) for name in labels.tolist()]
    unit = UNITS.get(str(units).lower(), "")
    if unit and np.asarray(labels).dtype.kind in "iuf":
        return tuple(f"{name} {unit}" for name in names)
    # rioxarray numbers the bands; a bare number is no name unless the dimension says what it counts, as a wavelength.
    return tuple(f"{dimension} {name}" if name.isdigit() else name for name in names)


def place(
    attributes: Mapping[Any, Any], about: Mapping[Any, Any], x_centres: Array | None, y_centres: Array | None
) -> Georeference | None:
    """CRS from the attributes of `spatial_ref`, transform from evenly spaced coordinates of the pixels or from it."""
    crs = str(about.get("crs_wkt", about.get("spatial_ref", ""))) or str(attributes.get("crs", ""))
    if not crs and "GeoTransform" not in about:
        return None
    written = None
    if "GeoTransform" in about:
        c, a, b, f, d, e = (float(number) for number in str(about["GeoTransform"]).split())
        written = Georeference(crs, (a, b, c, d, e, f))
    along_x, along_y = (None if centres is None else _even_step(centres) for centres in (x_centres, y_centres))
    if along_x is None or along_y is None:
        return written
    (x0, dx), (y0, dy) = along_x, along_y
    measured = Georeference(crs, (dx, 0.0, x0 - dx / 2, 0.0, dy, y0 - dy / 2))
    # Where a part was cut out, only the coordinates know; where both agree, the transform has all its digits.
    close = written is not None and np.allclose(written.transform, measured.transform, atol=1e-6 * abs(dx), rtol=1e-9)
    return written if close else measured


def _even_step(centres: Array) -> tuple[float, float] | None:
    """(first, step) of evenly spaced numbers; None of others."""
    if centres.ndim != 1 or len(centres) < 2 or centres.dtype.kind not in "uif":
        return None
    numbers = centres.astype(np.float64)
    step = float(numbers[-1] - numbers[0]) / (len(numbers) - 1)
    even = bool(np.allclose(np.diff(numbers), step, rtol=1e-3, atol=0.0))
    return (float(numbers[0]), step) if even and step != 0 else None
