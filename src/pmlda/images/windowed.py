"""Path, array or lazy array + mask + no-data number → Windowed, which reads one window at a time as an Image."""

import os
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pmlda.images.arrays import from_array
from pmlda.images.axes import Axes, find_axes
from pmlda.images.bands import as_text
from pmlda.images.checks import as_numbers, decoding, require
from pmlda.images.choice import ALL, Along, Choice, make_choice
from pmlda.images.content import Content, Window, number_bands
from pmlda.images.dataarray import is_dataarray
from pmlda.images.envi import envi_size, find_pair, read_envi
from pmlda.images.gdal import raster_layout, read_nitf
from pmlda.images.ignored import Ignoring
from pmlda.images.lazy import from_layout, hold, is_dask, open_dask, open_dataarray
from pmlda.images.read import (
    BandsLike,
    Reader,
    bands_note,
    file_name,
    find_bands,
    find_reader,
    read_content,
    read_file,
    require_no_file_key,
)
from pmlda.images.stored import Held, Stored, check_stored, probe, stamp
from pmlda.images.tiff import read_tiff, tiff_layout
from pmlda.images.valid import as_content, check_mask, to_image
from pmlda.images.variables import read_hdf5, variable_layout
from pmlda.images.zarr_source import open_zarr
from pmlda.storage.digest import digest
from pmlda.types import Georeference, Image, PixelSize

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
    ignoring: Ignoring
    picture: Stored
    mask: Stored | None

    @property
    def pixel_size(self) -> PixelSize | None:
        """How large its pixels are, if that is known."""
        return self.picture.pixel_size

    def read(self, rows: slice, columns: slice) -> Image:
        """The pixels in these rows and columns, placed where they lie. It may be that none of them has data."""
        window = self._inside(rows, 0), self._inside(columns, 1)
        (down, inner_rows), (across, inner_columns) = (
            _widen(part, self.ignoring.reach, length) for part, length in zip(window, self.shape[:2], strict=True)
        )
        content = self.picture.read_unchanged((down, across))
        mask = None if self.mask is None else self.mask.read_unchanged((down, across))
        content = content._replace(bands=self.bands, georeference=_shift(self.georeference, window), notes=self.notes)
        return to_image(self.name, content, self.ignoring, mask, (inner_rows, inner_columns))

    def _inside(self, part: slice, axis: int) -> slice:
        """The same slice with a beginning and an end inside the picture."""
        start, stop, step = part.indices(self.shape[axis])
        side = ("rows", "columns")[axis]
        require(step == 1 and start < stop, f"{part} holds no {side} of the {self.shape[axis]}. Give slice(from, to).")
        return slice(start, stop)


class InMemory(NamedTuple):
    """A picture that was read whole, with the manners of Windowed."""

    image: Image

    @property
    def shape(self) -> tuple[int, int, int]:
        height, width, n_bands = self.image.pixels.shape
        return height, width, n_bands

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.image.pixels.dtype

    def read(self, rows: slice, columns: slice) -> Image:
        """The pixels in these rows and columns; all of them are the picture itself, not a copy."""
        if (rows, columns) == (slice(0, self.shape[0]), slice(0, self.shape[1])):
            return self.image
        part = (rows, columns)
        return self.image._replace(pixels=self.image.pixels[part], valid=self.image.valid[part])


class WindowedArray:
    """A stored picture that is read where it is sliced, as arrays are: (H, W, B).

    Slices and whole numbers read what they hold. Any other index, such as a list or a mask, reads all of it.
    """

    def __init__(self, source: Windowed) -> None:
        self.source, self.shape, self.dtype, self.ndim = source, source.shape, source.dtype, 3

    def __getitem__(self, key: Any) -> Any:
        keys = key if isinstance(key, tuple) else (key,)
        dots = next((at for at, each in enumerate(keys) if each is Ellipsis), None)
        if dots is not None:
            keys = keys[:dots] + (slice(None),) * (self.ndim + 1 - len(keys)) + keys[dots + 1 :]
        keys += (slice(None),) * (2 - len(keys))
        if any(isinstance(each, bool) or not isinstance(each, slice | int | np.integer) for each in keys[:2]):
            return np.asarray(self.source.read(slice(None), slice(None)).pixels)[key]
        rows, columns = (_window(each, length) for each, length in zip(keys[:2], self.shape[:2], strict=True))
        pixels = np.asarray(self.source.read(rows[0], columns[0]).pixels)
        return pixels[(rows[1], columns[1], *keys[2:])]

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.asarray(self[:], dtype=dtype)


def _window(key: Any, length: int) -> tuple[slice, Any]:
    """The rows or columns to read for an index, and which of them it picks.

    >>> _window(slice(None, None, -2), 10), _window(-1, 10)
    ((slice(1, 10, None), slice(None, None, -2)), (slice(9, 10, None), 0))
    """
    picked = range(length)[key]
    if isinstance(picked, int):
        return slice(picked, picked + 1), 0
    if not picked:
        return slice(0, 1), slice(0, 0)
    return slice(min(picked[0], picked[-1]), max(picked[0], picked[-1]) + 1), slice(None, None, picked.step)


def _widen(part: slice, reach: int, length: int) -> tuple[slice, slice]:
    """Rows or columns with a margin as far as the picture goes, and where the given ones lie in them.

    >>> _widen(slice(2, 6), 4, 8)
    (slice(0, 8, None), slice(2, 6, None))
    """
    wide = slice(max(0, part.start - reach), min(length, part.stop + reach))
    return wide, slice(part.start - wide.start, part.stop - wide.start)


def open_windowed(
    source: Any,
    *,
    mask: Any = None,
    nodata: float | None = None,
    key: str | int | None = None,
    z: Along = None,
    t: Along = None,
    bands: BandsLike = None,
    ignore_saturated: bool | float = False,
    ignore_shadow: float | None = None,
) -> Windowed:
    """A picture to be read one window at a time, so that it need not fit in memory.

    Parameters
    ----------
    source : anything that `read_image` reads, a Zarr store, a dask array, or an Image. Zarr, TIFF, GeoTIFF, ENVI,
        NITF, HDF5, .npy, dask arrays and DataArrays are read in parts, everything else is held in memory
    mask : path or array of the same kinds; pixels where it is not zero are used
    nodata : a number that means "no data", besides the one that the file may name
    key : which picture to take from a file or a Zarr group that holds several
    z, t, bands : which slice, which time and which bands to take, as `read_image` does
    ignore_saturated, ignore_shadow : as in `read_image`

    What has no data is decided as `read_image` does.

    >>> picture = open_windowed(np.arange(12.0).reshape(3, 4), nodata=5)
    >>> part = picture.read(slice(1, 3), slice(0, 2))
    >>> part.pixels[:, :, 0].tolist(), part.valid.tolist()
    ([[4.0, 5.0], [8.0, 9.0]], [[True, False], [True, True]])
    """
    choice, asked = make_choice(key, z, t, nodata), as_text(bands)
    name, picture = _open(source, choice)
    as_numbers(np.empty(0, picture.dtype), name)
    ignoring = Ignoring(nodata, ignore_saturated, ignore_shadow).checked(name, picture.dtype)
    fingerprints = [picture.fingerprint, *choice.describe()]
    if asked is not None:
        picture = _choose_bands(picture, asked, name)
        fingerprints.append(f"bands {asked}")
    fingerprints += ignoring.spelt
    stored_mask = None
    if mask is not None:
        mask_name, stored_mask = _open(mask, ALL)
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
        ignoring,
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


def _choose_bands(picture: Stored, asked: str, name: str) -> Stored:
    """The same picture with some of its bands."""
    height, width, n_bands = picture.shape
    numbers = picture.numbers or tuple(range(1, n_bands + 1))
    chosen = find_bands(asked, picture.bands, numbers, name)
    return picture._replace(
        shape=(height, width, len(chosen)),
        bands=tuple(picture.bands[band] if picture.bands else f"band {numbers[band]}" for band in chosen),
        numbers=tuple(numbers[band] for band in chosen),
        notes=(*picture.notes, bands_note(len(chosen), n_bands, asked)),
        read=partial(_read_bands, picture.read, chosen),
    )


def _read_bands(read: Callable[[Window], Content], chosen: Sequence[int], window: Window) -> Content:
    return read(window).take_bands(chosen)


def _open(source: Any, choice: Choice) -> tuple[str, Stored]:
    """The name of a picture, and how to read its windows."""
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        return file_name(path), _open_file(path, choice)
    require_no_file_key(choice)
    if isinstance(source, Image):
        return source.name, hold(as_content(source), digest(source.pixels, source.valid))
    if is_dataarray(source):
        return str(source.name or "array"), open_dataarray(source, choice)
    if is_dask(source):
        return "array", open_dask(source, choice)
    name, content = read_content(source, choice)
    return name, hold(content, digest(content.pixels, content.valid))


# ── files ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _open_file(path: Path, choice: Choice) -> Stored:
    """A file whose parts can be read, or one that has to be read whole."""
    kind, reader = find_reader(path)
    with decoding(path, kind):
        if kind == "Zarr":
            return open_zarr(path, choice)
        if kind == "NPY":
            return _open_npy(path, choice)
        if reader is read_tiff:
            layout = tiff_layout(path, choice)
            if layout is not None:
                return probe(partial(_read_part, kind, read_tiff, path, choice), *layout, path)
        if reader is read_envi:
            data, header = find_pair(path)
            envi_size(path, choice)  # whose complaints about the header are clearer than those of GDAL
            read = partial(_read_part, kind, read_envi, path, choice)
            return probe(read, *raster_layout(data, None, kind), data, header)
        if reader in (read_nitf, read_hdf5):
            is_nitf = reader is read_nitf
            layout = raster_layout(path, choice.key, kind) if is_nitf else variable_layout(path, choice, kind)
            return probe(partial(_read_part, kind, reader, path, choice), *layout, path)
        fingerprint = stamp(path)
        stored = hold(_held_file(path, choice, fingerprint), fingerprint)
        read = partial(_read_held, path, choice, fingerprint)
        return stored._replace(read=read, notes=(*stored.notes, HELD), files=(path,))


def _read_part(kind: str, reader: Reader, path: Path, choice: Choice, window: Window) -> Content:
    """A window of a file. Opening it anew takes milliseconds, and open files cannot be shared or sent."""
    with decoding(path, kind):
        return reader(path, choice, window)


def _open_npy(path: Path, choice: Choice) -> Stored:
    choice.require_no_key(path)
    with path.open("rb") as file:
        require(file.read(6) == b"\x93NUMPY", f"{path} is not a .npy file. Write it with numpy.save.")
    array = np.load(path, mmap_mode="r", allow_pickle=False)
    check_stored(str(path), array.shape, array.dtype)
    axes = find_axes(None, array.shape, str(path), choice)
    stored = from_layout(axes.cube(array), str(path), None, stamp(path), partial(_read_npy, path, axes))
    return stored._replace(notes=axes.notes, files=(path,))


def _read_npy(path: Path, axes: Axes, window: Window) -> Content:
    with decoding(path, "NPY"):
        cube = axes.cube(np.load(path, mmap_mode="r", allow_pickle=False))
        return from_array(np.ascontiguousarray(cube[window]), str(path))


@lru_cache(maxsize=2)  # a picture and its mask
def _held_file(path: Path, choice: Choice, fingerprint: str) -> Content:
    """The whole content of a file, read once in each process and again when the file has changed."""
    return read_file(path, choice)


def _read_held(path: Path, choice: Choice, fingerprint: str, window: Window) -> Content:
    return Held(_held_file(path, choice, fingerprint))(window)
