"""NetCDF or HDF5 file, or a window of it → Content. GDAL reads the numbers; the names of dimensions say what they are.

GDAL takes the last two dimensions of a variable for rows and columns, whatever they are called, and does not tell their
names. Those come from SciPy for classic NetCDF files and from h5py for HDF5, which NetCDF 4 is too.
"""

import importlib
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pmlda.images.axes import X_NAMES, Y_NAMES, Axes, find_axes
from pmlda.images.checks import Array, Key, check_size, equals_nodata
from pmlda.images.content import Content, Window
from pmlda.images.dataarray import band_names, place
from pmlda.images.gdal import find_rasterio, from_dataset, open_datasets, scale_notes

NEEDS_H5PY = 'Names of dimensions in HDF5 were not read; pip install "pmlda[geo]" to use them.'


def read_netcdf(path: Path, key: Key) -> Content:
    """A NetCDF file: north on top if it says where that is, its rows as they are stored if not."""
    content = read_variable(path, key, "netCDF")
    if content.georeference is not None:
        return content
    # GDAL takes rows without coordinates to run from south to north and turns them. Here they stay as stored.
    with find_rasterio().Env(GDAL_NETCDF_BOTTOMUP="NO"):
        return read_variable(path, key, "netCDF")


def read_hdf5(path: Path, key: Key, window: Window | None = None) -> Content:
    """An HDF5 file."""
    return read_variable(path, key, "HDF5", window)


def read_variable(path: Path, key: Key, driver: str, window: Window | None = None) -> Content:
    """One variable, or a window of it."""
    with open_datasets(path, key, driver) as datasets:
        dataset = datasets[0]
        found, lengths, axes = _arrange(dataset, path, key)
        height, width, n_bands = axes.cube_shape(lengths)
        rows, columns = window or (slice(0, height), slice(0, width))
        check_size((rows.stop - rows.start, columns.stop - columns.start, n_bands), str(path))
        if _as_gdal_has_it(axes, len(lengths)):
            content = from_dataset(dataset, path, (), window)
        else:
            content = _turned(dataset, found, lengths, axes, (rows, columns))
    if not content.bands and axes.bands:
        content = content._replace(bands=found.bands(axes, n_bands))
    return content.with_notes(*axes.notes)


def variable_layout(path: Path, key: Key, driver: str) -> tuple[tuple[int, int], tuple[int, int] | None]:
    """(H, W) of a variable, and (rows, columns) of the blocks it is stored in, where GDAL has the same rows."""
    with open_datasets(path, key, driver) as datasets:
        _, lengths, axes = _arrange(datasets[0], path, key)
        height, width, _ = axes.cube_shape(lengths)
        if not _as_gdal_has_it(axes, len(lengths)):
            return (height, width), None
        rows, columns = datasets[0].block_shapes[0]
        return (height, width), (int(rows), int(columns))


def variable_size(path: Path, key: Key, driver: str) -> tuple[tuple[int, int, int], np.dtype[Any]]:
    """(H, W, B) and type of a variable."""
    with open_datasets(path, key, driver) as datasets:
        _, lengths, axes = _arrange(datasets[0], path, key)
        return axes.cube_shape(lengths), np.dtype(datasets[0].dtypes[0])


# ── which dimension is what ────────────────────────────────────────────────────────────────────────────────────────


class Variable(NamedTuple):
    """What a file says about a variable besides its numbers.

    names, lengths : of its dimensions; no names if there are none
    attributes : its own
    about : those of the variable that says where it lies
    coordinates : the numbers along its dimensions, by name
    """

    names: tuple[str, ...] = ()
    lengths: tuple[int, ...] = ()
    attributes: Mapping[str, Any] = {}
    about: Mapping[str, Any] = {}
    coordinates: Mapping[str, Array] = {}
    notes: tuple[str, ...] = ()

    def bands(self, axes: Axes, n_bands: int) -> tuple[str, ...]:
        """Names of bands from the coordinates along them."""
        name = self.names[axes.bands[0]] if self.names else ""
        return band_names(self.attributes, name, self.coordinates.get(name), n_bands)


def _arrange(dataset: Any, path: Path, key: Key) -> tuple[Variable, tuple[int, ...], Axes]:
    """What is known of a variable, the lengths of its dimensions as GDAL has them in a row, and which is what."""
    stacked = (dataset.count, *dataset.shape) if dataset.count > 1 else tuple(dataset.shape)
    found = _describe(path, key, dataset)
    fits = found.lengths[-2:] == tuple(dataset.shape) and math.prod(found.lengths[:-2]) == dataset.count
    known = any(name.lower() in (*Y_NAMES, *X_NAMES) for name in found.names)
    if not (fits and known):
        found, lengths = Variable(notes=found.notes), stacked
    else:
        lengths = found.lengths
    axes = find_axes(found.names or None, lengths, str(path), usual="first")
    return found, lengths, axes._replace(notes=(*axes.notes, *found.notes))


def _as_gdal_has_it(axes: Axes, n: int) -> bool:
    """Whether rows and columns are the last two dimensions."""
    return axes.plane == (n - 2, n - 1)


def _turned(dataset: Any, found: Variable, lengths: Sequence[int], axes: Axes, window: Window) -> Content:
    """A window of a variable whose rows or columns are not where GDAL takes them to be."""
    index = [slice(0, length) for length in lengths]
    index[axes.plane[0]], index[axes.plane[1]] = window
    *leading, rows, columns = index
    numbers = np.arange(dataset.count).reshape(lengths[:-2])[tuple(leading)]
    box = find_rasterio().windows.Window.from_slices(rows, columns)
    stack = dataset.read((numbers.ravel() + 1).tolist(), window=box)
    pixels = np.ascontiguousarray(axes.cube(stack.reshape(*numbers.shape, *stack.shape[1:])))
    y, x = (found.names[axis] if found.names else "" for axis in axes.plane)
    where = place(found.attributes, found.about, found.coordinates.get(x), found.coordinates.get(y))
    valid = ~equals_nodata(pixels, [dataset.nodatavals[0]] * pixels.shape[2])
    return Content(pixels, (), valid, where, tuple(scale_notes(dataset, [0])))


# ── names ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _describe(path: Path, key: Key, dataset: Any) -> Variable:
    """What the file says about the variable that GDAL opened."""
    with path.open("rb") as file:
        start = file.read(8)
    name = str(key).strip("/") if key is not None else dataset.tags(1).get("NETCDF_VARNAME", "")
    if start[:3] == b"CDF" and start[3:4] in (b"\x01", b"\x02"):
        return _describe_classic(path, name)
    return _describe_hdf5(path, name, dataset) if start == b"\x89HDF\r\n\x1a\n" else Variable()


def _describe_classic(path: Path, name: str) -> Variable:
    """A variable of a classic NetCDF file."""
    import scipy.io

    with scipy.io.netcdf_file(path, "r", mmap=True) as file:  # of which the numbers are not read
        if name not in file.variables:
            return Variable()
        variable = file.variables[name]
        names, lengths = tuple(variable.dimensions), tuple(int(length) for length in variable.shape)
        attributes = _plain(getattr(variable, "_attributes", {}))
        mapping = str(attributes.get("grid_mapping", "spatial_ref"))
        about = _plain(getattr(file.variables[mapping], "_attributes", {})) if mapping in file.variables else {}
        coordinates = {d: np.array(file.variables[d].data) for d in names if d in file.variables}
        del variable  # it would keep the file open
    return Variable(names, lengths, attributes, about, coordinates)


def _describe_hdf5(path: Path, name: str, dataset: Any) -> Variable:
    """A dataset of an HDF5 file: its labels, or else the names of its dimension scales."""
    h5py = find_h5py()
    if h5py is None:
        return Variable(notes=(NEEDS_H5PY,))
    with h5py.File(path, "r") as file:
        array = file.get(name) if name else _only_array(file, h5py)
        if not isinstance(array, h5py.Dataset):
            return Variable()
        scales = [dimension[0] if len(dimension) else None for dimension in array.dims]
        names = tuple(
            dimension.label or ("" if scale is None else str(scale.name).rpartition("/")[2])
            for dimension, scale in zip(array.dims, scales, strict=True)
        )
        attributes = _plain(array.attrs)
        beside = array.parent.get(str(attributes.get("grid_mapping", "spatial_ref")))
        about = {} if beside is None else _plain(beside.attrs)
        coordinates = {
            each: np.asarray(scale[...])
            for each, scale in zip(names, scales, strict=True)
            if scale is not None and scale.ndim == 1
        }
        return Variable(names, tuple(array.shape), attributes, about, coordinates)


def find_h5py() -> Any:
    """The library h5py, or None where it is not installed."""
    try:
        return importlib.import_module("h5py")
    except ImportError:
        return None


def _only_array(file: Any, h5py: Any) -> Any:
    """The one dataset of two or more dimensions, or None."""
    found: list[Any] = []
    file.visititems(lambda _, one: found.append(one) if isinstance(one, h5py.Dataset) and one.ndim >= 2 else None)
    return found[0] if len(found) == 1 else None


def _plain(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes with text as text; those that cannot be read are left out."""
    found = {}
    for name in attributes:
        try:
            value = attributes[name]
        except (OSError, TypeError, ValueError):
            continue
        found[name] = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    return found
