"""Path or array + mask + no-data number → Image (H, W, bands), by whichever reader fits."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pmlda.errors import ImageError
from pmlda.images.arrays import from_array, read_mat, read_npy, read_npz
from pmlda.images.axes import find_axes
from pmlda.images.bands import Bands, as_text
from pmlda.images.checks import Array, as_numbers, decoding, require
from pmlda.images.choice import ALL, Along, Choice, make_choice
from pmlda.images.content import Content
from pmlda.images.dataarray import from_dataarray, is_dataarray
from pmlda.images.envi import find_header, read_envi
from pmlda.images.gdal import read_nitf
from pmlda.images.ignored import Ignoring, all_ignored
from pmlda.images.pillow import read_jpeg, read_png
from pmlda.images.tiff import read_tiff
from pmlda.images.valid import as_content, check_mask, to_image
from pmlda.images.variables import read_hdf5, read_netcdf
from pmlda.images.zarr_source import is_zarr, read_zarr
from pmlda.storage.regular import require_regular
from pmlda.text import printable
from pmlda.types import Image

Source = str | os.PathLike[str] | Array | Image
BandsLike = str | int | Sequence[str | int] | None
Reader = Callable[..., Content]  # path, choice and, of formats that can be read in parts, a window

READERS: dict[str, tuple[str, Reader]] = {
    ".tif": ("TIFF", read_tiff),
    ".tiff": ("TIFF", read_tiff),
    ".ntf": ("NITF", read_nitf),
    ".nitf": ("NITF", read_nitf),
    ".nc": ("NetCDF", read_netcdf),
    ".nc4": ("NetCDF", read_netcdf),
    ".h5": ("HDF5", read_hdf5),
    ".hdf5": ("HDF5", read_hdf5),
    ".he5": ("HDF5", read_hdf5),
    ".npy": ("NPY", read_npy),
    ".npz": ("NPZ", read_npz),
    ".mat": ("MATLAB", read_mat),
}


def read_image(
    source: Source,
    *,
    key: str | int | None = None,
    z: Along = None,
    t: Along = None,
    bands: BandsLike = None,
    mask: Source | None = None,
    nodata: float | None = None,
    ignore_saturated: bool | float = False,
    ignore_shadow: float | None = None,
) -> Image:
    """Read a picture of any number of bands.

    Parameters
    ----------
    source : path of a PNG, JPEG, TIFF, GeoTIFF, ENVI, NITF, NetCDF, HDF5, .npy, .npz or MATLAB file or a Zarr store; or
        an array (H, W) or (H, W, B), a masked array or an xarray.DataArray
    key : which picture to take from a file that holds several: a name, or the number of a TIFF series
    z, t : which slice of a stack and which time of a series to take, counted from 1, or "max" or "mean" of all
    bands : which bands to take, in this order: "5,4,3" counted from 1, "10-40", "650nm", "400-700nm" or their names
    mask : path or (H, W) array; pixels where it is not zero are used
    nodata : a number that means "no data", besides the one that the file may name
    ignore_saturated : True leaves out pixels at the largest number of their type of whole numbers, in any band; a
        number those at that number or above
    ignore_shadow : leaves out acoustic shadow: squares of 9 × 9 pixels whose mean is this number or less

    A pixel has no data if any of its bands is NaN, infinite or the no-data number, if it is fully transparent, or if
    the mask leaves it out.

    >>> picture = read_image(np.array([[1.0, 2.0], [np.nan, 4.0]]))
    >>> picture.pixels.shape, picture.valid.tolist(), picture.notes
    ((2, 2, 1), [[True, True], [False, True]], ('1 of 4 pixels has no data.',))
    """
    name, content = read_content(source, make_choice(key, z, t, nodata))
    as_numbers(content.pixels, name)
    content = choose_bands(content, bands, name)
    ignoring = Ignoring(nodata, ignore_saturated, ignore_shadow)
    image = to_image(name, content, ignoring, None if mask is None else _read_mask(mask, content.pixels.shape))
    if not image.valid.any():
        raise ImageError(
            all_ignored(name, image.ignored)
            or f"{name} has no pixel with data left{_empty_band(image.pixels)}. Check its values, nodata and the mask."
        )
    return image


def _read_mask(mask: Any, shape: tuple[int, ...]) -> Content:
    name, content = read_content(mask, ALL)
    as_numbers(content.pixels, f"The mask {name}")
    check_mask(content.pixels.shape, shape)
    return content


def _empty_band(pixels: Array) -> str:
    """Which band alone leaves no pixel with data, if one does."""
    for band in range(pixels.shape[2] if pixels.dtype.kind == "f" else 0):
        if not np.isfinite(pixels[:, :, band]).any():
            return f": band {band + 1} of {pixels.shape[2]} holds no finite number"
    return ""


def choose_bands(content: Content, asked: BandsLike, name: str) -> Content:
    """The bands that were asked for; all of them if none were."""
    text, n_bands = as_text(asked), content.pixels.shape[2]
    if text is None:
        return content
    chosen = find_bands(text, content.bands, content.band_numbers, name)
    return content.take_bands(chosen).with_notes(bands_note(len(chosen), n_bands, text))


def find_bands(asked: str, names: tuple[str, ...], numbers: tuple[int, ...], name: str) -> list[int]:
    """Positions of the bands that were asked for."""
    return Bands(names or tuple(f"band {number}" for number in numbers), numbers, name).choose(asked)


def bands_note(n_chosen: int, n_bands: int, asked: str) -> str:
    """How many bands were read."""
    return f"{n_chosen} of {n_bands} bands {'was' if n_chosen == 1 else 'were'} read: {asked}."


def read_content(source: Any, choice: Choice) -> tuple[str, Content]:
    """The name and the content of a path or an array."""
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        return file_name(path), read_file(path, choice)
    require_no_file_key(choice)
    if isinstance(source, Image):
        return source.name, as_content(source)
    if is_dataarray(source):
        return str(source.name or "array"), from_dataarray(source, choice)
    require(
        isinstance(source, np.ndarray),
        f"A picture cannot be read from {type(source).__name__}. Give a path, a NumPy array or an xarray.DataArray.",
    )
    if choice.along:
        find_axes(None, source.shape, "The array", choice)
    return "array", from_array(np.array(source, subok=True), "The array")


def require_no_file_key(choice: Choice) -> None:
    """Refuse a key for a picture that is in no file."""
    require(
        choice.key is None, f"key={choice.key!r} chooses inside a file, but the picture is not a path. Leave key out."
    )


def file_name(path: Path) -> str:
    """What to call the picture in a file: text that can be printed and written, whatever bytes the name is made of."""
    return printable(path.name.removesuffix(path.suffix).removesuffix(".ome"))


def read_file(path: Path, choice: Choice) -> Content:
    """The content of a file by whichever reader fits."""
    kind, reader = find_reader(path)
    with decoding(path, kind):
        return reader(path, choice)


def find_reader(path: Path) -> tuple[str, Reader]:
    """The kind of a file and its reader. A PNG called .jpg is read as the PNG it is."""
    # os.path: a name that is too long for any file is that of none
    require(os.path.exists(path), f"{path} does not exist. Check the path.")
    require_regular(path, ImageError)
    if is_zarr(path):
        return "Zarr", read_zarr
    require(not path.is_dir(), f"{path} is a folder. Give the path of a picture file.")
    require(path.stat().st_size > 0, f"{path} is empty (0 bytes). Copy or download it again.")
    suffix = path.suffix.lower()
    if suffix in (".png", ".jpg", ".jpeg"):
        with path.open("rb") as file:
            start = file.read(8)
        is_png = start.startswith(b"\x89PNG") or (suffix == ".png" and not start.startswith(b"\xff\xd8\xff"))
        return ("PNG", read_png) if is_png else ("JPEG", read_jpeg)
    if suffix in READERS:
        return READERS[suffix]
    if suffix == ".hdr" or find_header(path) is not None:
        return "ENVI", read_envi
    known = " ".join([".png", ".jpg", ".jpeg", *READERS, ".hdr", ".zarr"])
    raise ImageError(f"{path} is of an unknown kind ({suffix or 'no extension'}). Convert it to one of: {known}.")
