"""NumPy array, or a .npy, .npz or MATLAB file that holds one → Content."""

import io
import math
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pmlda.images.axes import find_axes
from pmlda.images.checks import Array, Key, as_numbers, check_size, require
from pmlda.images.choice import ALL, Choice
from pmlda.images.content import Content
from pmlda.images.matlab import check_packed

# What MATLAB calls numbers, and what NumPy does.
WHOLE = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
MATLAB_NUMBERS = {name: name for name in WHOLE} | {"single": "float32", "double": "float64", "logical": "bool"}

# The header of an array in a .npy file is far shorter than this.
MOST_HEADER = 2**16


def from_array(array: Array, what: str) -> Content:
    """An array (H, W) or (H, W, B) as it is, without the pixels that a masked array hides."""
    pixels = np.asarray(array)
    _check_shape(pixels.shape, what, in_parts=False)
    pixels = pixels[:, :, None] if pixels.ndim == 2 else pixels
    if not isinstance(array, np.ma.MaskedArray):
        return Content(pixels)
    shown = ~np.ma.getmaskarray(array).reshape(pixels.shape)
    return Content(pixels, valid=np.logical_and.reduce(shown, axis=2))


def from_file(array: Array, what: str, choice: Choice) -> Content:
    """An array of a file, in which bands may also come first: the axes of such arrays have no names."""
    axes = find_axes(None, array.shape, what, choice)
    return from_array(np.ascontiguousarray(axes.cube(array)), what).with_notes(*axes.notes)


class Header(NamedTuple):
    """What is known of an array in a file before it is read."""

    what: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    choice: Choice = ALL

    def size(self) -> tuple[tuple[int, int, int], np.dtype[Any]]:
        """(H, W, B) and type of the picture it will be."""
        shape = find_axes(None, self.shape, self.what, self.choice).cube_shape(self.shape)
        return shape, as_numbers(np.empty(0, self.dtype), self.what).dtype


# ── NumPy ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def npy_header(path: Path, choice: Choice) -> Header:
    """Shape and type of the array that numpy.save wrote."""
    choice.require_no_key(path)
    with path.open("rb") as file:
        require(file.read(6) == b"\x93NUMPY", f"{path} is not a .npy file. Write it with numpy.save.")
        file.seek(0)
        header = Header(str(path), *_read_header(file), choice)
    _check_array(header, in_parts=True)
    return header


def read_npy(path: Path, choice: Choice) -> Content:
    """The array that numpy.save wrote."""
    header = npy_header(path, choice)
    return from_file(np.load(path, allow_pickle=False), header.what, choice)


def npz_header(path: Path, choice: Choice) -> tuple[str, Header]:
    """The name of one of the arrays that numpy.savez wrote, its shape and its type."""
    require(zipfile.is_zipfile(path), f"{path} is not a whole .npz file. Write it with numpy.savez.")
    found, sizes = {}, {}
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            name = member.filename.removesuffix(".npy")
            sizes[name] = member.file_size
            with archive.open(member) as file:
                found[name] = _read_header(file)
    pictures = [name for name, (shape, dtype) in found.items() if len(shape) in (2, 3) and dtype.kind in "buif"]
    chosen = _choose_array(path, choice.key, {name: shape for name, (shape, _) in found.items()}, pictures)
    header = Header(f"{chosen} in {path}", *found[chosen], choice)
    _check_array(header, in_parts=False)
    expected = math.prod(header.shape) * header.dtype.itemsize
    enough = expected <= sizes[chosen] <= expected + MOST_HEADER
    require(enough, f"{header.what} has {sizes[chosen]} bytes, expected {expected}. It is damaged; get it again.")
    return chosen, header


def read_npz(path: Path, choice: Choice) -> Content:
    """One of the arrays that numpy.savez wrote."""
    chosen, header = npz_header(path, choice)
    with np.load(path, allow_pickle=False) as arrays:
        return from_file(arrays[chosen], header.what, choice)


def _read_header(file: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and type of an array without reading it, and without unpacking a header that claims to be huge."""
    start = io.BytesIO(file.read(MOST_HEADER))
    version = np.lib.format.read_magic(start)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(start)
    return tuple(shape), dtype


# ── MATLAB ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def mat_header(path: Path, choice: Choice) -> tuple[str, Header]:
    """The name of one of the arrays in a MATLAB file, its shape and its type."""
    import scipy.io

    with path.open("rb") as file:
        newer = file.read(19) == b"MATLAB 7.3 MAT-file"
    require(not newer, f"{path} is a MATLAB v7.3 file, which cannot be read. Save it in MATLAB with -v7.")
    check_packed(path)
    found = {name: (tuple(shape), kind) for name, shape, kind in scipy.io.whosmat(path)}
    # MATLAB has no arrays below two dimensions: those one pixel high or wide are numbers and lists.
    pictures = [
        name
        for name, (shape, kind) in found.items()
        if len(shape) in (2, 3) and min(shape[:2]) > 1 and kind in MATLAB_NUMBERS
    ]
    chosen = _choose_array(path, choice.key, {name: shape for name, (shape, _) in found.items()}, pictures)
    what, (shape, kind) = f"{chosen} in {path}", found[chosen]
    require(kind in MATLAB_NUMBERS, f"{what} holds {kind}, not numbers. Give whole or real numbers.")
    find_axes(None, shape, what, choice)
    _check_shape(shape, what, in_parts=False)
    return chosen, Header(what, shape, np.dtype(MATLAB_NUMBERS[kind]), choice)


def read_mat(path: Path, choice: Choice) -> Content:
    """One of the arrays in a MATLAB file."""
    import scipy.io

    chosen, header = mat_header(path, choice)
    array = np.asarray(scipy.io.loadmat(path, variable_names=[chosen])[chosen])
    return from_file(array.astype(bool) if header.dtype == bool else array, header.what, choice)


# ── what they share ────────────────────────────────────────────────────────────────────────────────────────────────


def _check_array(header: Header, *, in_parts: bool) -> None:
    """The same complaints as for an array in memory, before it is read."""
    as_numbers(np.empty(0, header.dtype), header.what)
    find_axes(None, header.shape, header.what, header.choice)
    _check_shape(header.shape, header.what, in_parts=in_parts)


def _check_shape(shape: tuple[int, ...], what: str, *, in_parts: bool) -> None:
    require(len(shape) in (2, 3), f"{what} has {len(shape)} dimensions, shape {shape}. Give (height, width, bands).")
    check_size(shape, what, in_parts=in_parts)


def _choose_array(path: Path, key: Key, shapes: dict[str, tuple[int, ...]], pictures: Sequence[str]) -> str:
    """The array that key names or, without a key, the only one that can be a picture."""
    listed = ", ".join(f"{name} {shape}" for name, shape in shapes.items()) or "nothing"
    if key is not None:
        require(str(key) in shapes, f"key={key!r} is not in {path}. It holds: {listed}.")
        return str(key)
    remedy = "Choose one with key" if shapes else "Save a picture in it"
    require(len(pictures) == 1, f"{path} holds {len(pictures)} arrays that can be pictures. {remedy}: {listed}.")
    return pictures[0]
