"""Path or array + mask + no-data number → Image (H, W, bands), by whichever reader fits."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmlda.images.arrays import from_array, read_mat, read_npy, read_npz
from pmlda.images.checks import Array, ImageError, Key, as_numbers, equals_nodata, nodata_number, require
from pmlda.images.content import Content, number_bands
from pmlda.images.dataarray import from_dataarray, is_dataarray
from pmlda.images.envi import find_header, read_envi
from pmlda.images.gdal import read_hdf5, read_netcdf, read_nitf
from pmlda.images.pillow import read_jpeg, read_png
from pmlda.images.tiff import read_tiff
from pmlda.types import Image

Source = str | os.PathLike[str] | Array
Reader = Callable[[Path, Key], Content]

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
    source: Source, *, key: str | int | None = None, mask: Source | None = None, nodata: float | None = None
) -> Image:
    """Read a picture of any number of bands.

    Parameters
    ----------
    source : path of a PNG, JPEG, TIFF, GeoTIFF, ENVI, NITF, NetCDF, HDF5, .npy, .npz or MATLAB file; or an array
        (H, W) or (H, W, B), a masked array or an xarray.DataArray
    key : which picture to take from a file that holds several: a name, or the number of a TIFF series
    mask : path or (H, W) array; pixels where it is not zero are used
    nodata : a number that means "no data", besides the one that the file may name

    A pixel has no data if any of its bands is NaN, infinite or the no-data number, if it is fully transparent, or if
    the mask leaves it out.

    >>> picture = read_image(np.array([[1.0, 2.0], [np.nan, 4.0]]))
    >>> picture.pixels.shape, picture.valid.tolist(), picture.notes
    ((2, 2, 1), [[True, True], [False, True]], ('1 of 4 pixels has no data.',))
    """
    name, content = _read(source, key)
    pixels = as_numbers(content.pixels, name)
    n_bands = pixels.shape[2]
    valid = _finite(pixels)
    if content.valid is not None:
        valid &= content.valid
    if nodata is not None:
        valid &= ~equals_nodata(pixels, [nodata_number(nodata)] * n_bands)
    if mask is not None:
        valid &= _read_mask(mask, valid.shape)
    missing = valid.size - int(valid.sum())
    if missing == valid.size:
        raise ImageError(
            f"{name} has no pixel with data left{_empty_band(pixels)}. Check its values, nodata and the mask."
        )
    if missing:
        content = content.with_notes(f"{missing} of {valid.size} pixels {'has' if missing == 1 else 'have'} no data.")
    return Image(pixels, valid, content.bands or number_bands(n_bands), name, content.georeference, content.notes)


def _read_mask(mask: Any, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """(H, W) where the mask is not zero. In a mask with several bands one that is not zero is enough."""
    name, content = _read(mask, None)
    pixels = as_numbers(content.pixels, f"The mask {name}")
    require(
        pixels.shape[:2] == shape,
        f"The mask has {pixels.shape[0]} × {pixels.shape[1]} pixels, the picture {shape[0]} × {shape[1]}. "
        "Give a mask with one value for each pixel.",
    )
    use: NDArray[np.bool_] = (pixels != 0).any(axis=2) & _finite(pixels)
    return use if content.valid is None else use & content.valid


def _finite(pixels: Array) -> NDArray[np.bool_]:
    """(H, W) whether all bands are finite; band by band, because a cube of truth values would be large."""
    valid = np.ones(pixels.shape[:2], dtype=bool)
    if pixels.dtype.kind == "f":
        for band in range(pixels.shape[2]):
            valid &= np.isfinite(pixels[:, :, band])
    return valid


def _empty_band(pixels: Array) -> str:
    """Which band alone leaves no pixel with data, if one does."""
    for band in range(pixels.shape[2] if pixels.dtype.kind == "f" else 0):
        if not np.isfinite(pixels[:, :, band]).any():
            return f": band {band + 1} of {pixels.shape[2]} holds no finite number"
    return ""


def _read(source: Any, key: Key) -> tuple[str, Content]:
    """The name and the content of a path or an array."""
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        return path.name.removesuffix(path.suffix).removesuffix(".ome"), _read_file(path, key)
    require(key is None, f"key={key!r} chooses inside a file, but the picture is not a path. Leave key out.")
    if is_dataarray(source):
        return str(source.name or "array"), from_dataarray(source)
    require(
        isinstance(source, np.ndarray),
        f"A picture cannot be read from {type(source).__name__}. Give a path, a NumPy array or an xarray.DataArray.",
    )
    return "array", from_array(np.array(source, subok=True), "The array")


def _read_file(path: Path, key: Key) -> Content:
    """The content of a file by whichever reader fits."""
    require(path.exists(), f"{path} does not exist. Check the path.")
    require(not path.is_dir(), f"{path} is a folder. Give the path of a picture file.")
    require(path.stat().st_size > 0, f"{path} is empty (0 bytes). Copy or download it again.")
    kind, reader = _find_reader(path)
    try:
        return reader(path, key)
    except ImageError:
        raise
    except NotImplementedError as error:
        raise ImageError(f"{path} is a {kind} file of a variety that cannot be read: {error}.") from error
    except Exception as error:  # a decoder can raise anything on a damaged file
        reason = str(error).strip().rstrip(".") or type(error).__name__
        raise ImageError(
            f"{path} cannot be read as {kind}: {reason}. It is damaged, cut short or not {kind}; get it again."
        ) from error


def _find_reader(path: Path) -> tuple[str, Reader]:
    """The kind of a file and its reader. A PNG called .jpg is read as the PNG it is."""
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
    known = " ".join([".png", ".jpg", ".jpeg", *READERS, ".hdr"])
    raise ImageError(f"{path} is of an unknown kind ({suffix or 'no extension'}). Convert it to one of: {known}.")
