"""NetCDF or HDF5 file, or a window of it → Content, in which the names of dimensions decide what is a row.

GDAL takes the last two dimensions of a variable for rows and columns, whatever they are called, and does not tell their
names. These come from SciPy for classic NetCDF files and from h5py for HDF5, which NetCDF 4 is too. Where rows and
columns are the last two, GDAL reads the numbers, because it knows more about place and north; else they are read here.
"""

import contextlib
import importlib
import math
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pmlda.errors import ImageError
from pmlda.images.axes import X_NAMES, Y_NAMES, Axes, find_axes
from pmlda.images.checks import Array, check_size, require
from pmlda.images.choice import ALL, Choice
from pmlda.images.content import Content, Window
from pmlda.images.dataarray import band_names, place
from pmlda.images.gdal import find_rasterio, from_dataset, open_datasets, scale_notes
from pmlda.images.stored import stamp

# What another process does first with an HDF5 file, and how long that may take.
TRIAL = """
import sys
from pathlib import Path
from pmlda.images import variables
with variables._open_hdf5(Path(sys.argv[1]), sys.argv[2]):
    pass
"""
TRIAL_SECONDS = 30
DAMAGED = "its lists of dimensions are damaged. Get the file again."
NEEDS_H5PY = 'Names of dimensions in HDF5 were not read; pip install "pmlda[geo]" to use them.'


def read_netcdf(path: Path, choice: Choice) -> Content:
    """A NetCDF file: north on top if it says where that is, its rows as they are stored if not."""
    content = read_variable(path, choice, "netCDF")
    if content.georeference is not None:
        return content
    # GDAL takes rows without coordinates to run from south to north and turns them. Here they stay as stored.
    with find_rasterio().Env(GDAL_NETCDF_BOTTOMUP="NO"):
        return read_variable(path, choice, "netCDF")


def read_hdf5(path: Path, choice: Choice, window: Window | None = None) -> Content:
    """An HDF5 file."""
    return read_variable(path, choice, "HDF5", window)


def read_variable(path: Path, choice: Choice, driver: str, window: Window | None = None) -> Content:
    """One variable, or a window of it."""
    with _open(path, choice, driver) as (dataset, found):
        height, width, n_bands = found.axes.cube_shape(found.lengths)
        rows, columns = window or (slice(0, height), slice(0, width))
        check_size(
            (rows.stop - rows.start, columns.stop - columns.start, n_bands), str(path), in_parts=driver != "netCDF"
        )
        if found.is_like(dataset):
            content = from_dataset(dataset, path, (), window)
        else:
            content = _turned(dataset, found, (rows, columns), choice.nodata)
        bands = content.bands or found.bands(n_bands)
        return content._replace(bands=bands).with_notes(*found.axes.notes)


def variable_layout(path: Path, choice: Choice, driver: str) -> tuple[tuple[int, int], tuple[int, int] | None]:
    """(H, W) of a variable, and (rows, columns) of the blocks it is stored in, where GDAL has the same rows."""
    with _open(path, choice, driver) as (dataset, found):
        height, width, _ = found.axes.cube_shape(found.lengths)
        if not found.is_like(dataset):
            return (height, width), None
        rows, columns = dataset.block_shapes[0]
        return (height, width), (int(rows), int(columns))


def variable_size(path: Path, choice: Choice, driver: str) -> tuple[tuple[int, int, int], np.dtype[Any]]:
    """(H, W, B) and type of a variable."""
    with _open(path, choice, driver) as (dataset, found):
        return found.axes.cube_shape(found.lengths), found.axes.cube_type(np.dtype(dataset.dtypes[0]))


# ── which dimension is what ────────────────────────────────────────────────────────────────────────────────────────


class Variable(NamedTuple):
    """What a file says about a variable, as long as it is open.

    lengths, axes : of its dimensions, and what they are
    names : of its dimensions; none if there are none
    array : its numbers, not yet read; None if only GDAL can read them
    attributes, about : its own, and those of the variable that says where it lies
    coordinates, units : the numbers along its dimensions, by name, and what they are measured in
    """

    lengths: tuple[int, ...]
    axes: Axes
    names: tuple[str, ...] = ()
    array: Any = None
    attributes: Mapping[str, Any] = {}
    about: Mapping[str, Any] = {}
    coordinates: Mapping[str, Array] = {}
    units: Mapping[str, Any] = {}

    def is_like(self, dataset: Any) -> bool:
        """Whether GDAL has the same rows, columns and bands."""
        if isinstance(dataset, Described) or self.axes.taken:
            return False
        n = len(self.lengths)
        same = self.lengths[-2:] == tuple(dataset.shape) and math.prod(self.lengths[:-2]) == dataset.count
        return self.array is None or (self.axes.plane == (n - 2, n - 1) and same)

    def along(self, axis: int) -> Array | None:
        """The coordinates along one of its dimensions."""
        return self.coordinates.get(self.names[axis]) if self.names else None

    def bands(self, n_bands: int) -> tuple[str, ...]:
        """Names of bands from the coordinates along them."""
        if not self.names or not self.axes.bands:
            return ()
        axis = self.axes.bands[0]
        name = self.names[axis]
        return band_names(self.attributes, name, self.along(axis), n_bands, self.units.get(name, ""))


class Described(NamedTuple):
    """What is used of a dataset of GDAL, for a variable that it cannot open: HDF5 of more than three dimensions."""

    dtypes: tuple[Any, ...]
    nodatavals: tuple[float | None, ...]
    scales: tuple[float, ...]
    offsets: tuple[float, ...]


@contextlib.contextmanager
def _open(path: Path, choice: Choice, driver: str) -> Iterator[tuple[Any, Variable]]:
    """The dataset of GDAL, and what else is known of the variable in it."""
    with path.open("rb") as file:
        start = file.read(8)
    is_classic = start[:4] in (b"CDF\x01", b"CDF\x02")
    has_names = start == b"\x89HDF\r\n\x1a\n" and find_h5py() is not None
    if is_classic:
        _check_classic(path)
    with contextlib.ExitStack() as stack:
        only = ""
        if has_names and driver == "HDF5":
            shapes = _shapes(path, choice)
            only = next(iter(shapes)) if len(shapes) == 1 else ""
            name = _find_deep(shapes, path, choice)
            if name:
                found = stack.enter_context(_open_hdf5(path, name, choice))
                assert found is not None
                yield _describe(found.array, found.attributes), found
                return
        dataset = stack.enter_context(open_datasets(path, choice.key, driver, only))[0]
        require(dataset.count > 0, f"{path} holds no picture that GDAL can read. Export it as GeoTIFF.")
        name = str(choice.key).strip("/") if choice.key is not None else dataset.tags(1).get("NETCDF_VARNAME", "")
        found = None
        if is_classic:
            found = stack.enter_context(_open_classic(path, name, choice))
        elif has_names:
            _require_readable(path, name)
            found = stack.enter_context(_open_hdf5(path, name, choice))
        yield dataset, found or _as_gdal_has_it(dataset, path, choice)


def _shapes(path: Path, choice: Choice) -> dict[str, tuple[int, ...]]:
    """Names and shapes of all datasets of two or more dimensions in an HDF5 file."""
    _require_readable(path, "" if choice.key is None else str(choice.key).strip("/"))
    h5py = find_h5py()
    with h5py.File(path, "r") as file:
        return {str(one.name).strip("/"): tuple(one.shape) for one in _arrays(file, h5py)}


def _find_deep(shapes: Mapping[str, tuple[int, ...]], path: Path, choice: Choice) -> str:
    """The dataset that is meant, if it has more than three dimensions: GDAL does not even list it."""
    name = "" if choice.key is None else str(choice.key).strip("/")
    deep = [each for each, shape in shapes.items() if len(shape) > 3]
    if deep and name not in shapes:
        listed = ", ".join(f"{each} {shape}" for each, shape in shapes.items())
        require(not name, f"key={choice.key!r} is not in {path}. Choose one of: {listed}.")
        require(len(shapes) == 1, f"{path} holds {len(shapes)} pictures. Choose one with key: {listed}.")
        return deep[0]
    return name if name in deep else ""


def _describe(array: Any, attributes: Mapping[str, Any]) -> Described:
    """What GDAL would say of a dataset."""

    def number(name: str) -> float | None:
        value = np.asarray(attributes.get(name, np.nan)).ravel()
        is_number = value.size == 1 and value.dtype.kind in "biuf" and not np.isnan(value[0])
        return value[0].item() if is_number else None

    scale, offset = number("scale_factor"), number("add_offset")
    return Described(
        (array.dtype,),
        (number("_FillValue"),),
        (1.0 if scale is None else scale,),
        (0.0 if offset is None else offset,),
    )


def _as_gdal_has_it(dataset: Any, path: Path, choice: Choice) -> Variable:
    """A variable of which no names can be found."""
    find_axes(None, dataset.shape if dataset.count == 1 else (dataset.count, *dataset.shape), str(path), choice)
    lengths = (dataset.count, *dataset.shape)
    axes = Axes((1, 2), (0,), ())
    if dataset.count > 1:
        height, width = dataset.shape
        read = f"Read as {height} × {width} pixels with {dataset.count} bands."
        axes = axes._replace(notes=(read, NEEDS_H5PY) if find_h5py() is None else (read,))
    return Variable(lengths, axes)


def _find(array: Any, names: tuple[str, ...], path: Path, choice: Choice, *about: Any) -> Variable:
    """A variable with its axes. Names of which none is that of rows or columns say nothing."""
    lengths = tuple(int(length) for length in array.shape)
    known = any(name.lower() in (*Y_NAMES, *X_NAMES) for name in names)
    axes = find_axes(names if known else None, lengths, str(path), choice, usual="first")
    return Variable(lengths, axes, names if known else (), array, *about)


def _turned(dataset: Any, found: Variable, window: Window, nodata: float | None) -> Content:
    """A window of a variable whose rows and columns are not where GDAL takes them to be, or of one of its slices."""
    no_data = dataset.nodatavals[0]
    pixels = found.axes.read(_Typed(found.array, dataset.dtypes[0]), window, (no_data, nodata))
    y, x = found.axes.plane
    where = place(found.attributes, found.about, found.along(x), found.along(y))
    notes = tuple(scale_notes(dataset, [0]))
    return Content(pixels, (), None, where, notes, (no_data,) * pixels.shape[2])


class _Typed:
    """An array whose slices have the type that GDAL tells: it knows which bytes are unsigned."""

    def __init__(self, array: Any, dtype: Any) -> None:
        self.array, self.dtype, self.shape = array, dtype, array.shape

    def __getitem__(self, index: Any) -> Array:
        return np.asarray(self.array[index]).astype(self.dtype, copy=False)


# ── names ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _check_classic(path: Path) -> None:
    """Let SciPy read the header of a classic NetCDF file: of a damaged one, GDAL takes as much memory as it claims."""
    import scipy.io

    try:
        with scipy.io.netcdf_file(path, "r", mmap=True):
            pass
    except MemoryError:  # nothing but the header is read here
        raise ImageError(f"{path} cannot be read as NetCDF: its header is damaged. Get it again.") from None


@contextlib.contextmanager
def _open_classic(path: Path, name: str, choice: Choice) -> Iterator[Variable | None]:
    """A variable of a classic NetCDF file, of which the numbers are not read before they are sliced."""
    import scipy.io

    with scipy.io.netcdf_file(path, "r", mmap=True) as file:
        if name not in file.variables:
            yield None
            return
        variable = file.variables[name]
        names, attributes = tuple(variable.dimensions), _plain(getattr(variable, "_attributes", {}))
        mapping = str(attributes.get("grid_mapping", "spatial_ref"))
        about = _plain(getattr(file.variables.get(mapping), "_attributes", {}))
        lines = {d: file.variables[d] for d in names if d in file.variables}
        coordinates = {d: np.array(line.data) for d, line in lines.items()}
        units = {d: _plain(getattr(line, "_attributes", {})).get("units", "") for d, line in lines.items()}
        yield _find(variable.data, names, path, choice, attributes, about, coordinates, units)


def _require_readable(path: Path, name: str) -> None:
    """Refuse a file whose names another process could not read."""
    require(_is_readable(path, name, stamp(path)), f"{path} cannot be read as HDF5: {DAMAGED}")


@lru_cache(maxsize=64)
def _is_readable(path: Path, name: str, stamp: str) -> bool:
    """Whether another process can read the names: of some damaged files, the library reads for ever, or crashes."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", TRIAL, path, name], timeout=TRIAL_SECONDS, capture_output=True, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode >= 0  # an ordinary error is one in this process, too, with its reason


@contextlib.contextmanager
def _open_hdf5(path: Path, name: str, choice: Choice = ALL) -> Iterator[Variable | None]:
    """A dataset of an HDF5 file, named by its labels or else by its dimension scales."""
    h5py = find_h5py()
    with h5py.File(path, "r") as file:
        array = file.get(name) if name else _only_array(file, h5py)
        if not isinstance(array, h5py.Dataset):
            yield None
            return
        scales = [dimension[0] if len(dimension) else None for dimension in array.dims]
        names = tuple(
            dimension.label or ("" if scale is None else str(scale.name).rpartition("/")[2])
            for dimension, scale in zip(array.dims, scales, strict=True)
        )
        attributes = _plain(array.attrs)
        beside = array.parent.get(str(attributes.get("grid_mapping", "spatial_ref")))
        about = {} if beside is None else _plain(beside.attrs)
        lines = {
            each: scale for each, scale in zip(names, scales, strict=True) if scale is not None and scale.ndim == 1
        }
        coordinates = {each: np.asarray(scale[...]) for each, scale in lines.items()}
        units = {each: _plain(scale.attrs).get("units", "") for each, scale in lines.items()}
        yield _find(array, names, path, choice, attributes, about, coordinates, units)


def find_h5py() -> Any:
    """The library h5py, or None where it is not installed."""
    try:
        return importlib.import_module("h5py")
    except ImportError:
        return None


def _only_array(file: Any, h5py: Any) -> Any:
    """The one dataset of two or more dimensions, or None."""
    found = _arrays(file, h5py)
    return found[0] if len(found) == 1 else None


def _arrays(file: Any, h5py: Any) -> list[Any]:
    """All datasets of two or more dimensions."""
    found: list[Any] = []
    file.visititems(lambda _, one: found.append(one) if isinstance(one, h5py.Dataset) and one.ndim >= 2 else None)
    return found


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
