"""Path, array or lazy array + mask + no-data number → Windowed, which reads one window at a time as an Image."""

import os
import sys
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pmlda.images.arrays import from_array
from pmlda.images.checks import Array, Key, as_numbers, check_size, decoding, nodata_number, require, require_no_key
from pmlda.images.content import Content, Window, number_bands
from pmlda.images.dataarray import arrange, from_dataarray, is_dataarray
from pmlda.images.envi import find_pair, read_envi
from pmlda.images.gdal import raster_layout, read_hdf5, read_nitf
from pmlda.images.read import Reader, file_name, find_reader, read_content, read_file
from pmlda.images.stored import Held, Stored, check_stored, digest, probe, stamp
from pmlda.images.tiff import read_tiff, tiff_layout
from pmlda.images.valid import check_mask, to_image
from pmlda.images.zarr_source import open_zarr
from pmlda.types import Georeference, Image

HELD = "The picture cannot be read in parts and was read whole into memory."


class Windowed(NamedTuple):
    """A picture of any size. It holds no open file, so it can be sent to another process; a path is sent as a path.

    shape : (H, W, B)
    dtype : of its numbers
    bands : (B,) their names
    name : what to call it
    georeference : where it lies, if that is known
    notes : sentences on how it is read, for the user
    chunks : (rows, columns) of the parts in which it is stored; None if it is in one piece
    fingerprint : a text that changes when the picture, its mask or its no-data number does
    """

    shape: tuple[int, int, int]
    dtype: np.dtype[Any]
    bands: tuple[str, ...]
    name: str
    georeference: Georeference | None
    notes: tuple[str, ...]
    chunks: tuple[int, int] | None
    fingerprint: str
    nodata: float | None
    picture: Stored
    mask: Stored | None

    def read(self, rows: slice, columns: slice) -> Image:
        """The pixels in these rows and columns, placed where they lie. It may be that none of them has data."""
        window = self._inside(rows, 0), self._inside(columns, 1)
        content = self.picture.read(window)
        mask = None if self.mask is None else self.mask.read(window)
        content = content._replace(bands=self.bands, georeference=_shift(self.georeference, window), notes=self.notes)
        return to_image(self.name, content, self.nodata, mask)

    def _inside(self, part: slice, axis: int) -> slice:
        """The same slice with a beginning and an end inside the picture."""
        start, stop, step = part.indices(self.shape[axis])
        side = ("rows", "columns")[axis]
        require(step == 1 and start < stop, f"{part} holds no {side} of the {self.shape[axis]}. Give slice(from, to).")
        return slice(start, stop)


def open_windowed(
    source: Any, *, mask: Any = None, nodata: float | None = None, key: str | int | None = None
) -> Windowed:
    """A picture to be read one window at a time, so that it need not fit in memory.

    Parameters
    ----------
    source : anything that `read_image` reads, a Zarr store, a dask array, or an Image. Zarr, TIFF, GeoTIFF, ENVI,
        NITF, HDF5, .npy, dask arrays and DataArrays are read in parts, everything else is held in memory
    mask : path or array of the same kinds; pixels where it is not zero are used
    nodata : a number that means "no data", besides the one that the file may name
    key : which picture to take from a file or a Zarr group that holds several

    What has no data is decided as `read_image` does.

    >>> picture = open_windowed(np.arange(12.0).reshape(3, 4), nodata=5)
    >>> part = picture.read(slice(1, 3), slice(0, 2))
    >>> part.pixels[:, :, 0].tolist(), part.valid.tolist()
    ([[4.0, 5.0], [8.0, 9.0]], [[True, False], [True, True]])
    """
    name, picture = _open(source, key)
    as_numbers(np.empty(0, picture.dtype), name)
    fingerprints = [picture.fingerprint, *([] if key is None else [f"key {key}"])]
    if nodata is not None:
        nodata = nodata_number(nodata)
        fingerprints.append(f"nodata {nodata}")
    stored_mask = None
    if mask is not None:
        mask_name, stored_mask = _open(mask, None)
        as_numbers(np.empty(0, stored_mask.dtype), f"The mask {mask_name}")
        check_mask(stored_mask.shape, picture.shape)
        fingerprints.append(f"mask {stored_mask.fingerprint}")
    return Windowed(
        picture.shape,
        as_numbers(np.empty(0, picture.dtype), name).dtype,
        picture.bands or number_bands(picture.shape[2]),
        name,
        picture.georeference,
        picture.notes,
        picture.chunks,
        "; ".join(fingerprints),
        nodata,
        picture,
        stored_mask,
    )


def _shift(place: Georeference | None, window: Window) -> Georeference | None:
    """Where a window lies."""
    if place is None:
        return None
    a, b, c, d, e, f = place.transform
    row, column = window[0].start, window[1].start
    return Georeference(place.crs, (a, b, c + a * column + b * row, d, e, f + d * column + e * row))


def _open(source: Any, key: Key) -> tuple[str, Stored]:
    """The name of a picture, and how to read its windows."""
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        return file_name(path), _open_file(path, key)
    require(key is None, f"key={key!r} chooses inside a file, but the picture is not a path. Leave key out.")
    if isinstance(source, Image):
        counted = tuple(note for note in source.notes if not note.endswith(" no data."))  # each window counts its own
        content = Content(source.pixels, source.bands, source.valid, source.georeference, counted)
        return source.name, _hold(content, digest(source.pixels, source.valid))
    if is_dataarray(source):
        return str(source.name or "array"), _open_dataarray(source)
    if _is_dask(source):
        return "array", _open_dask(source)
    name, content = read_content(source, None)
    return name, _hold(content, digest(content.pixels, content.valid))


# ── files ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _open_file(path: Path, key: Key) -> Stored:
    """A file whose parts can be read, or one that has to be read whole."""
    kind, reader = find_reader(path)
    with decoding(path, kind):
        if kind == "Zarr":
            return open_zarr(path, key)
        if kind == "NPY":
            return _open_npy(path, key)
        if reader is read_tiff:
            layout = tiff_layout(path, key)
            if layout is not None:
                return probe(partial(_read_part, kind, read_tiff, path, key), *layout, stamp(path))
        if reader is read_envi:
            data, header = find_pair(path)
            read = partial(_read_part, kind, read_envi, path, key)
            return probe(read, *raster_layout(data, None, kind), stamp(data, header))
        if reader in (read_nitf, read_hdf5):
            return probe(partial(_read_part, kind, reader, path, key), *raster_layout(path, key, kind), stamp(path))
        fingerprint = stamp(path)
        stored = _hold(_held_file(path, key, fingerprint), fingerprint)
        return stored._replace(read=partial(_read_held, path, key, fingerprint), notes=(*stored.notes, HELD))


def _read_part(kind: str, reader: Reader, path: Path, key: Key, window: Window) -> Content:
    """A window of a file. Opening it anew takes milliseconds, and open files cannot be shared or sent."""
    with decoding(path, kind):
        return reader(path, key, window)


def _open_npy(path: Path, key: Key) -> Stored:
    require_no_key(key, path)
    with path.open("rb") as file:
        require(file.read(6) == b"\x93NUMPY", f"{path} is not a .npy file. Write it with numpy.save.")
    array = np.load(path, mmap_mode="r", allow_pickle=False)
    return _from_layout(array, str(path), None, stamp(path), partial(_read_npy, path))


def _read_npy(path: Path, window: Window) -> Content:
    with decoding(path, "NPY"):
        return from_array(np.array(np.load(path, mmap_mode="r", allow_pickle=False)[window]), str(path))


@lru_cache(maxsize=2)  # a picture and its mask
def _held_file(path: Path, key: Key, fingerprint: str) -> Content:
    """The whole content of a file, read once in each process and again when the file has changed."""
    return read_file(path, key)


def _read_held(path: Path, key: Key, fingerprint: str, window: Window) -> Content:
    return Held(_held_file(path, key, fingerprint))(window)


# ── arrays ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _hold(content: Content, fingerprint: str) -> Stored:
    shape = (content.pixels.shape[0], content.pixels.shape[1], content.pixels.shape[2])
    about = (content.pixels.dtype, content.bands, content.georeference, content.notes)
    return Stored(shape, *about, None, fingerprint, Held(content))


def _from_layout(
    array: Any, what: str, chunks: tuple[int, int] | None, fingerprint: str, read: Callable[[Window], Content]
) -> Stored:
    """An array (H, W) or (H, W, B) of which only shape and type are known."""
    shape = array.shape
    require(len(shape) in (2, 3), f"{what} has {len(shape)} dimensions, shape {shape}. Give (height, width, bands).")
    check_stored(what, shape, array.dtype)
    n_bands = shape[2] if len(shape) == 3 else 1
    return Stored((shape[0], shape[1], n_bands), array.dtype, (), None, (), chunks, fingerprint, read)


def _is_dask(source: Any) -> bool:
    """Whether the source is a dask array; nobody has one who has not imported dask."""
    dask = sys.modules.get("dask.array")
    return dask is not None and isinstance(source, dask.Array)


def _open_dask(source: Any) -> Stored:
    what = "The dask array"
    unknown = any(length != length for length in source.shape)  # NaN where dask has not counted yet
    require(not unknown, f"{what} has unknown lengths, {source.shape}. Call its compute_chunk_sizes() first.")
    chunks = tuple(max(lengths) for lengths in source.chunks[:2]) if source.ndim >= 2 and source.size else (1, 1)
    fingerprint = f"dask {source.name} {source.shape} {source.dtype}"
    return _from_layout(source, what, (chunks[0], chunks[1]), fingerprint, partial(_read_dask, source))


def _read_dask(source: Any, window: Window) -> Content:
    """Computed where it is asked for: inside a task of a cluster there is no other scheduler."""
    part = source[window]
    check_size(part.shape, "The window")
    return from_array(_computed(part), "The dask array")


def _computed(part: Any) -> Array:
    array = part.compute(scheduler="synchronous")
    return array if isinstance(array, np.ndarray) else np.asarray(array)


def _open_dataarray(source: Any) -> Stored:
    """A DataArray; if dask stands behind it, or a file that xarray has not read yet, only windows of it are read."""
    found = arrange(source)
    lazy = source.chunks is not None
    file = Path(str(source.encoding.get("source", "")))
    if lazy:
        fingerprint = f"dask {source.data.name}"
    elif not getattr(source.variable, "_in_memory", True) and file.is_file():  # opened, but not read yet
        fingerprint = f"{source.name} {stamp(file)}"
    else:
        fingerprint = digest(np.asarray(source.values))
    chunks = tuple(max(lengths) for lengths in found.plane.chunks[:2]) if lazy else None
    stored = _from_layout(
        found.plane,
        "The DataArray",
        None if chunks is None else (chunks[0], chunks[1]),
        fingerprint,
        partial(from_dataarray, source),
    )
    return stored._replace(bands=found.bands, georeference=found.georeference)
