"""Images: path or array + mask → Image (H, W, bands);   maps → a TIFF file;   Image → colours for the screen."""

import contextlib
import importlib
import json
import math
import os
import re
import struct
import sys
import warnings
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pmlda.types import Georeference, Image
from pmlda.validate import require

# Pictures of more numbers than this (pixels × bands) are refused before they are decoded: a file of a few kilobytes
# can claim a picture that fills the memory. Set it higher where that is really meant.
MOST_VALUES = 2**31

NO_DATA_GREY = 230

# What a GeoTIFF has and a plain TIFF has not: pixel scale, tie points, transform, geo keys, and the two tags of GDAL.
GEO_TAGS = {33550, 33922, 34264, 34735}
GDAL_TAGS = {42112, 42113}
GDAL_NODATA_TAG = 42113

# Bytes of one value of each kind that a TIFF tag can have.
TIFF_BYTES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4, 16: 8, 17: 8, 18: 8}

ENVI_DATA_SUFFIXES = ("", ".img", ".dat", ".bil", ".bip", ".bsq", ".raw", ".bin")
UNITS = {"nanometers": "nm", "nm": "nm", "micrometers": "µm", "microns": "µm", "um": "µm", "µm": "µm"}

Y_NAMES = ("y", "lat", "latitude", "northing", "row", "rows", "line")
X_NAMES = ("x", "lon", "longitude", "easting", "col", "cols", "column", "sample")

Array = NDArray[Any]
Source = str | os.PathLike[str] | Array


class ImageError(ValueError):
    """Something is wrong with a picture that was given; the message says what, and what to do."""


class _Content(NamedTuple):
    """What a reader found.

    pixels : (H, W, B)
    bands : (B,) their names, or () if the file names none
    valid : (H, W), or None if the file does not say
    georeference, notes : as in Image
    """

    pixels: Array
    bands: tuple[str, ...] = ()
    valid: NDArray[np.bool_] | None = None
    georeference: Georeference | None = None
    notes: tuple[str, ...] = ()


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
    pixels = _as_numbers(content.pixels, name)
    valid = _finite(pixels)
    if content.valid is not None:
        valid &= content.valid
    if nodata is not None:
        valid &= ~_equals_nodata(pixels, [_number(nodata)] * pixels.shape[2])
    if mask is not None:
        valid &= _read_mask(mask, valid.shape)
    missing = valid.size - int(valid.sum())
    _require(missing < valid.size, f"{name} has no pixel with data left. Check its values, nodata and the mask.")
    notes = content.notes
    if missing:
        notes = (*notes, f"{missing} of {valid.size} pixels {'has' if missing == 1 else 'have'} no data.")
    return Image(pixels, valid, content.bands or _numbered(pixels.shape[2]), name, content.georeference, notes)


def write_maps(
    path: str | os.PathLike[str],
    maps: ArrayLike,
    names: Sequence[str],
    *,
    valid: NDArray[np.bool_] | None = None,
    georeference: Georeference | None = None,
    description: str = "",
) -> None:
    """Write K maps (H, W, K) as the bands of one compressed TIFF in float32, NaN where they are not valid.

    With a georeference it is a GeoTIFF. Either way `read_image` brings back names, place and valid pixels.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_maps(f"{folder}/maps.tif", np.ones((2, 3, 2)), ["sand", "rock"])
    ...     read_image(f"{folder}/maps.tif").bands
    ('sand', 'rock')
    """
    path, bands = Path(path), np.array(maps, dtype=np.float32)
    bands = bands[:, :, None] if bands.ndim == 2 else bands
    _require(bands.ndim == 3 and bands.size > 0, f"maps have shape {bands.shape}. Give an array (H, W, K).")
    named = not isinstance(names, str) and len(names) == bands.shape[2]
    _require(named, f"names={names!r} does not fit {bands.shape[2]} maps. Give one name for each map.")
    _require(path.suffix.lower() in (".tif", ".tiff"), f"Maps are written as TIFF. Call {path} something.tif.")
    _require(path.parent.is_dir(), f"The folder {path.parent} does not exist. Make it first.")
    if valid is not None:
        keep = np.asarray(valid, dtype=bool)
        _require(keep.shape == bands.shape[:2], f"valid has shape {keep.shape}, the maps {bands.shape[:2]}.")
        bands[~keep] = np.nan
    planes = np.ascontiguousarray(np.moveaxis(bands, 2, 0))
    if georeference is None:
        _write_plain(path, planes, [str(name) for name in names], description)
    else:
        _write_geotiff(path, planes, [str(name) for name in names], georeference, description)


def to_rgb(image: Image) -> NDArray[np.uint8]:
    """(H, W, 3) colours to show a picture on a screen; light grey where it has no data.

    Colours in 8 bits stay as they are. Of other pictures three bands are stretched between their 2nd and 98th
    percentile; one band becomes grey, two become red and cyan.

    >>> to_rgb(read_image(np.array([[0.0, 1.0]])))[:, :, 0].tolist()
    [[0, 255]]
    """
    pixels, valid = image.pixels, image.valid
    chosen = _display_bands(image.bands)
    if pixels.dtype == np.uint8 and len(image.bands) == 3:
        colours = np.stack([pixels[:, :, band] for band in chosen], axis=2).astype(np.uint8)
    else:
        stretched = {band: _stretch(pixels[:, :, band], valid) for band in set(chosen)}
        colours = np.stack([stretched[band] for band in chosen], axis=2)
    colours[~valid] = NO_DATA_GREY
    return colours


# ── from any source to its content ─────────────────────────────────────────────────────────────────────────────────


def _read(source: Any, key: str | int | None) -> tuple[str, _Content]:
    """The name and the content of a path or an array."""
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        return path.name.removesuffix(path.suffix).removesuffix(".ome"), _read_file(path, key)
    _require(key is None, f"key={key!r} chooses inside a file, but the picture is not a path. Leave key out.")
    if _is_dataarray(source):
        return str(source.name or "array"), _from_dataarray(source)
    _require(
        isinstance(source, np.ndarray),
        f"A picture cannot be read from {type(source).__name__}. Give a path, a NumPy array or an xarray.DataArray.",
    )
    if isinstance(source, np.ma.MaskedArray):
        content = _from_array(np.array(source.data), "The array")
        shown: NDArray[np.bool_] = ~np.ma.getmaskarray(source).reshape(content.pixels.shape)
        return "array", content._replace(valid=np.logical_and.reduce(shown, axis=2))
    return "array", _from_array(np.array(source), "The array")


def _read_file(path: Path, key: str | int | None) -> _Content:
    """The content of a file by whichever reader fits."""
    _require(path.exists(), f"{path} does not exist. Check the path.")
    _require(not path.is_dir(), f"{path} is a folder. Give the path of a picture file.")
    _require(path.stat().st_size > 0, f"{path} is empty (0 bytes). Copy or download it again.")
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


def _find_reader(path: Path) -> tuple[str, Callable[[Path, str | int | None], _Content]]:
    """The kind of a file and its reader. A PNG called .jpg is read as the PNG it is."""
    suffix = path.suffix.lower()
    if suffix in (".png", ".jpg", ".jpeg"):
        with path.open("rb") as file:
            start = file.read(8)
        if start.startswith(b"\xff\xd8\xff"):
            return "JPEG", _read_jpeg
        if start.startswith(b"\x89PNG"):
            return "PNG", _read_png
        return ("PNG", _read_png) if suffix == ".png" else ("JPEG", _read_jpeg)
    if suffix in READERS:
        return READERS[suffix]
    if suffix == ".hdr" or _envi_header(path) is not None:
        return "ENVI", _read_envi
    known = " ".join([".png", ".jpg", ".jpeg", *READERS, ".hdr"])
    raise ImageError(f"{path} is of an unknown kind ({suffix or 'no extension'}). Convert it to one of: {known}.")


def _from_array(array: Array, what: str) -> _Content:
    """An array (H, W) or (H, W, B) as it is."""
    _require(
        array.ndim in (2, 3), f"{what} has {array.ndim} dimensions, shape {array.shape}. Give (height, width, bands)."
    )
    _check_size(array.shape, what)
    return _Content(array[:, :, None] if array.ndim == 2 else array)


def _as_numbers(pixels: Array, name: str) -> Array:
    """Whole or real numbers in the byte order of this machine; True and False become 1 and 0."""
    kinds = {"c": "complex numbers", "O": "objects", "U": "text", "S": "text", "M": "dates", "m": "time spans"}
    kind = pixels.dtype.kind
    remedy = "Give its real part, magnitude or phase." if kind == "c" else "Give whole or real numbers."
    _require(kind in "buif", f"{name} holds {kinds.get(kind, 'records')} ({pixels.dtype}), not numbers. {remedy}")
    return pixels.astype(np.uint8 if kind == "b" else pixels.dtype.newbyteorder("="), copy=False)


def _check_size(shape: Sequence[int], what: str) -> None:
    """Refuse pictures without pixels and pictures that are too large, before they are decoded."""
    size = math.prod(shape)
    _require(size > 0, f"{what} has no pixels: its shape is {tuple(shape)}. Give a picture with some.")
    _require(
        size <= MOST_VALUES,
        f"{what} has shape {tuple(shape)}, {size} numbers, above the limit of {MOST_VALUES}. "
        "Cut out a part, or raise pmlda.images.MOST_VALUES if you trust the file.",
    )


def _require(condition: bool, message: str) -> None:
    """The same as `require`, but what it raises is an ImageError."""
    try:
        require(condition, message)
    except ValueError as error:
        raise ImageError(str(error)) from None


def _require_no_key(key: str | int | None, path: Path) -> None:
    _require(key is None, f"key={key!r}, but {path} holds a single picture. Leave key out.")


def _numbered(n_bands: int) -> tuple[str, ...]:
    return tuple(f"band {number + 1}" for number in range(n_bands))


# ── where there is no data ─────────────────────────────────────────────────────────────────────────────────────────


def _finite(pixels: Array) -> NDArray[np.bool_]:
    """(H, W) whether all bands are finite; band by band, because a cube of truth values would be large."""
    valid = np.ones(pixels.shape[:2], dtype=bool)
    if pixels.dtype.kind == "f":
        for band in range(pixels.shape[2]):
            valid &= np.isfinite(pixels[:, :, band])
    return valid


def _equals_nodata(pixels: Array, nodata: Sequence[float | None]) -> NDArray[np.bool_]:
    """(H, W) whether any band has its no-data number. NaN is found elsewhere, and None means there is no number."""
    missing = np.zeros(pixels.shape[:2], dtype=bool)
    for band, number in enumerate(nodata):
        if number is not None and math.isfinite(number):
            with np.errstate(over="ignore"):  # 1e300 in a file of float32 becomes infinity, which has no data anyway
                missing |= pixels[:, :, band] == number
    return missing


def _number(value: Any) -> float:
    is_number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    _require(is_number, f"nodata={value!r} is not a number. Give the number that means no data.")
    return int(value) if isinstance(value, int | np.integer) else float(value)


def _read_mask(mask: Any, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """(H, W) where the mask is not zero. In a mask with several bands one that is not zero is enough."""
    name, content = _read(mask, None)
    pixels = _as_numbers(content.pixels, f"The mask {name}")
    _require(
        pixels.shape[:2] == shape,
        f"The mask has {pixels.shape[0]} × {pixels.shape[1]} pixels, the picture {shape[0]} × {shape[1]}. "
        "Give a mask with one value for each pixel.",
    )
    use: NDArray[np.bool_] = (pixels != 0).any(axis=2) & _finite(pixels)
    return use if content.valid is None else use & content.valid


# ── PNG and JPEG ───────────────────────────────────────────────────────────────────────────────────────────────────


def _read_png(path: Path, key: str | int | None) -> _Content:
    from PIL.PngImagePlugin import PngImageFile

    _require_no_key(key, path)
    with path.open("rb") as file:
        header = file.read(26)
    # Bytes 24 and 25 are the bit depth and the kind of colour. Pillow cuts 16-bit colours down to 8 bits.
    deep_colour = header[:4] == b"\x89PNG" and len(header) == 26 and header[24] == 16 and header[25] in (2, 4, 6)
    if deep_colour and _rasterio() is not None:
        return _read_deep_png(path)
    # Image.open would refuse pictures above Pillow's own limit; the limit here is MOST_VALUES.
    with path.open("rb") as file, PngImageFile(file) as picture:
        content = _from_pillow(picture, str(path))
    if deep_colour:
        return content._replace(notes=(*content.notes, 'Colours of 16 bits read as 8; pip install "pmlda[geo]".'))
    return content


def _read_jpeg(path: Path, key: str | int | None) -> _Content:
    from PIL.JpegImagePlugin import JpegImageFile

    _require_no_key(key, path)
    with path.open("rb") as file, JpegImageFile(file) as picture:
        return _from_pillow(picture, str(path))


def _read_deep_png(path: Path) -> _Content:
    """Colours of 16 bits through GDAL, which names the bands and finds the transparent one."""
    content = _read_raster(path, None, "PNG")
    names = ("grey",) if content.pixels.shape[2] == 1 else ("red", "green", "blue")
    return content._replace(bands=names, georeference=None)


def _from_pillow(picture: Any, what: str) -> _Content:
    """A picture that Pillow opened: grey or red, green, blue, upright, transparency as valid pixels."""
    _check_size((picture.height, picture.width, len(picture.getbands())), what)
    orientation = int(picture.getexif().get(0x0112, 1))
    transparent = picture.info.get("transparency")
    mode, notes = picture.mode, []
    picture.load()
    if mode.startswith("I"):  # 16 bits; older versions of Pillow widen them to 32
        pixels: Array = np.array(picture).astype(np.uint16)[:, :, None]
        valid = pixels[:, :, 0] != transparent if isinstance(transparent, int) else None
    else:
        grey = mode in ("1", "L", "LA", "La")
        see_through = transparent is not None or mode in ("LA", "La", "PA", "RGBA", "RGBa")
        converted = picture.convert(("LA" if grey else "RGBA") if see_through else ("L" if grey else "RGB"))
        pixels = np.array(converted)
        pixels = pixels[:, :, None] if pixels.ndim == 2 else pixels
        valid = pixels[:, :, -1] != 0 if see_through else None
        pixels = pixels[:, :, :-1] if see_through else pixels
        if mode not in ("1", "L", "LA", "La", "RGB", "RGBA", "RGBa"):
            notes.append(f"Colours converted from {'a palette' if mode in ('P', 'PA') else mode} to RGB.")
    content = _Content(pixels, ("grey",) if pixels.shape[2] == 1 else ("red", "green", "blue"), valid, None)
    return _upright(content._replace(notes=tuple(notes)), orientation)


def _upright(content: _Content, orientation: int) -> _Content:
    """The picture turned as the orientation in its EXIF or TIFF tags asks: 1 to 8, 1 for upright already."""
    turns: dict[int, Callable[[Array], Array]] = {
        2: lambda a: a[:, ::-1],
        3: lambda a: a[::-1, ::-1],
        4: lambda a: a[::-1],
        5: lambda a: a.swapaxes(0, 1),
        6: lambda a: a[::-1].swapaxes(0, 1),
        7: lambda a: a[::-1, ::-1].swapaxes(0, 1),
        8: lambda a: a[:, ::-1].swapaxes(0, 1),
    }
    if orientation not in turns:
        return content
    turn = turns[orientation]
    return content._replace(
        pixels=np.ascontiguousarray(turn(content.pixels)),
        valid=None if content.valid is None else np.ascontiguousarray(turn(content.valid)),
        notes=(*content.notes, f"Turned upright, as its orientation tag {orientation} asks."),
    )


# ── TIFF ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _read_tiff(path: Path, key: str | int | None) -> _Content:
    """A plain TIFF through tifffile, a GeoTIFF through rasterio if that is installed."""
    import tifffile

    with tifffile.TiffFile(path) as tiff:
        _check_tiff_complete(tiff, path)
        codes = set(tiff.pages.first.tags.keys())
        if codes & (GEO_TAGS | GDAL_TAGS) and _rasterio() is not None:
            return _read_raster(path, key, "GTiff")
        series = _choose_series(tiff, path, key)
        parts = [_from_series(tiff, one, path) for one in series]
        content = parts[0] if len(parts) == 1 else _stack(parts)
        if codes & GEO_TAGS:
            note = 'Where the picture lies (GeoTIFF tags) was not read; pip install "pmlda[geo]" to keep it.'
            content = content._replace(notes=(*content.notes, note))
        if GDAL_NODATA_TAG in codes:
            nodata = float(tiff.pages.first.tags[GDAL_NODATA_TAG].value)
            missing = _equals_nodata(content.pixels, [nodata] * content.pixels.shape[2])
            content = content._replace(valid=~missing if content.valid is None else content.valid & ~missing)
        return _upright(content, int(tiff.pages.first.tags.valueof(274, 1)))


def _check_tiff_complete(tiff: Any, path: Path) -> None:
    """Pages form a chain of lists of tags. tifffile silently leaves out what points past the end of the file."""
    layout, size, link, seen = tiff.tiff, path.stat().st_size, tiff.pages.first.offset, set()
    while link and link not in seen and not layout.is_ndpi:
        seen.add(link)
        link = _next_page(layout, path, link, size)
        missing = "its pages or tags point past its end"
        _require(0 <= link < size, f"{path} cannot be read as TIFF: {missing}. It is cut short; get it again.")


def _next_page(layout: Any, path: Path, start: int, size: int) -> int:
    """Where the page after the one at `start` begins; 0 after the last; -1 if something lies past the end."""
    with path.open("rb") as file:
        file.seek(start)
        (n_tags,) = struct.unpack(layout.tagnoformat, file.read(layout.tagnosize))
        tags, link = file.read(n_tags * layout.tagsize), file.read(layout.offsetsize)
    if len(link) < layout.offsetsize:
        return -1
    number = layout.offsetformat  # a tag is its code, its kind, how many values, and the values or where they are
    for at in range(0, len(tags), layout.tagsize):
        kind = struct.unpack_from(number[0] + "H", tags, at + 2)[0]
        count, where = struct.unpack_from(number + number[1:], tags, at + 4)
        length = count * TIFF_BYTES.get(kind, 0)
        if length > layout.offsetsize and where + length > size:
            return -1
    return int(struct.unpack(number, link)[0])


def _choose_series(tiff: Any, path: Path, key: str | int | None) -> list[Any]:
    """The pages to read: those that key asks for, or all if they have the same size. Small copies do not count."""
    series = [one for one in tiff.series if not one.keyframe.subfiletype & 1] or list(tiff.series)
    _require(bool(series), f"{path} is a TIFF without pictures. Export it again.")
    listed = ", ".join(f"{number}: {one.shape}" for number, one in enumerate(series))
    if key is not None:
        number = int(key) if str(key).isdigit() else -1
        _require(0 <= number < len(series), f"key={key!r} is not in {path}. Choose one of {listed}.")
        return [series[number]]
    sizes = {tuple(one.shape[one.axes.index(axis)] for axis in "YX") for one in series}
    _require(len(sizes) == 1, f"{path} holds pictures of several sizes. Choose one with key: {listed}.")
    _require(len(series) == 1 or not tiff.is_ome, f"{path} holds several pictures. Choose one with key: {listed}.")
    _check_size((sum(math.prod(one.shape) for one in series),), str(path))
    return series


def _from_series(tiff: Any, series: Any, path: Path) -> _Content:
    """One series of pages, whatever the order of its axes."""
    _check_size(series.shape, str(path))
    axes, page, notes = series.axes, series.keyframe, []
    many = [axis for axis, length in zip(axes, series.shape, strict=True) if axis not in "YXS" and length > 1]
    _require(
        len(many) <= 1,
        f"{path} has {len(axes)} dimensions, {axes} = {series.shape}. Save one picture (height, width, bands) of it.",
    )
    array = _decode(series, path)
    if len(series.levels) > 1:  # tifffile takes pages of half the size for these
        notes.append("Smaller copies in the file were left out; the largest was read.")
    if axes == "QYX" and array.shape[2] <= 4 < min(array.shape[:2]):
        # (H, W, B) saved without saying so becomes H pages of a picture that is B pixels wide.
        notes.append(f"Read as {array.shape[2]} bands: pages of {array.shape[1]} × {array.shape[2]} are no pictures.")
        axes = "YXC"
    elif many and many[0] in "ZT":
        notes.append(f"The {'depths' if many[0] == 'Z' else 'times'} of the file were read as bands.")
    pages_then_samples = [axis for axis in axes if axis not in "YXS"] + ["S"] * ("S" in axes)
    array = array.transpose([axes.index(axis) for axis in ["Y", "X", *pages_then_samples]])
    pixels = array.reshape(*array.shape[:2], -1)
    content = _with_colours(_Content(pixels, notes=tuple(notes)), page)
    names = _tiff_names(tiff, series)
    return content._replace(bands=names) if len(names) == content.pixels.shape[2] else content


def _with_colours(content: _Content, page: Any) -> _Content:
    """Palette and CMYK to RGB, transparency to valid pixels, the names of colours."""
    import tifffile
    from PIL import Image as pillow  # noqa: N813  the name Image is taken

    photometric, pixels, notes = page.photometric, content.pixels, content.notes
    n_bands = pixels.shape[2]
    one_page = n_bands == page.samplesperpixel
    if photometric == tifffile.PHOTOMETRIC.PALETTE and page.colormap is not None and n_bands == 1:
        colours = (page.colormap >> 8).astype(np.uint8).T
        note = "Colours converted from a palette to RGB."
        return _Content(colours[pixels[:, :, 0]], ("red", "green", "blue"), None, None, (*notes, note))
    if photometric == tifffile.PHOTOMETRIC.SEPARATED and n_bands == 4 and pixels.dtype == np.uint8 and one_page:
        rgb = np.array(pillow.frombytes("CMYK", pixels.shape[1::-1], pixels.tobytes()).convert("RGB"))
        return _Content(rgb, ("red", "green", "blue"), None, None, (*notes, "Colours converted from CMYK to RGB."))
    if photometric == tifffile.PHOTOMETRIC.MINISWHITE:
        notes = (*notes, "Zero means white in this file; the numbers were kept as they are.")
    valid, extra = None, page.extrasamples
    if one_page and extra and int(extra[-1]) in (1, 2):
        valid, pixels = pixels[:, :, -1] != 0, pixels[:, :, :-1]
        notes = (*notes, "The last band is marked as transparency and was dropped.")
    colour = photometric == tifffile.PHOTOMETRIC.RGB and pixels.shape[2] == 3
    return content._replace(
        pixels=pixels, bands=("red", "green", "blue") if colour else (), valid=valid, notes=tuple(notes)
    )


def _decode(series: Any, path: Path) -> Array:
    """The numbers of a series. tifffile leaves LZW and JPEG to another package; GDAL and Pillow know them too."""
    try:
        return np.asarray(series.asarray())
    except ValueError as error:
        if "imagecodecs" not in str(error):
            raise
        pages = [_decode_page(path, page, str(error)) for page in series.pages]
        return np.stack(pages).reshape(series.shape)


def _decode_page(path: Path, page: Any, problem: str) -> Array:
    """One page in the order of axes that tifffile would give."""
    from PIL.TiffImagePlugin import TiffImageFile

    rasterio = _rasterio()
    if rasterio is not None:
        with _quiet(), rasterio.open(f"GTIFF_DIR:{page.index + 1}:{path}", driver="GTiff") as dataset:
            planes: Array = dataset.read()
        return planes.reshape(page.shape) if page.axes[-1] != "S" else np.moveaxis(planes, 0, -1).reshape(page.shape)
    with path.open("rb") as file, TiffImageFile(file) as picture:
        picture.seek(page.index)
        array = np.array(picture)
    _require(array.shape == page.shape, f'{path}: {problem}. Or pip install "pmlda[geo]".')
    return array


def _tiff_names(tiff: Any, series: Any) -> tuple[str, ...]:
    """The names of bands as OME, ImageJ or `write_maps` leave them; () if there are none."""
    if tiff.is_ome and "C" in series.axes:
        pictures = ElementTree.fromstring(tiff.ome_metadata).findall("{*}Image")
        number = next((at for at, one in enumerate(tiff.series) if one is series), 0)
        if number < len(pictures):
            channels = pictures[number].findall("{*}Pixels/{*}Channel")
            return tuple(one.get("Name") or f"channel {at + 1}" for at, one in enumerate(channels))
    if tiff.is_imagej and "C" in series.axes:
        return tuple(str(label) for label in (tiff.imagej_metadata or {}).get("Labels", ()))
    try:
        named = json.loads(series.keyframe.description)["names"]
    except (ValueError, KeyError, TypeError):
        return ()
    return tuple(str(name) for name in named) if isinstance(named, list) else ()


def _stack(parts: Sequence[_Content]) -> _Content:
    """Pictures of the same size as the bands of one. A pixel is valid where it is valid in all."""
    valid = [part.valid for part in parts if part.valid is not None]
    notes = dict.fromkeys(note for part in parts for note in part.notes)  # each once, in order
    named = all(part.bands for part in parts) and len({part.bands for part in parts}) == len(parts)
    return _Content(
        np.concatenate([part.pixels for part in parts], axis=2),
        tuple(name for part in parts for name in part.bands) if named else (),
        np.logical_and.reduce(valid) if valid else None,
        parts[0].georeference,
        tuple(notes),
    )


# ── everything that GDAL reads ─────────────────────────────────────────────────────────────────────────────────────


def _rasterio() -> Any:
    """The library rasterio, or None where it is not installed."""
    try:
        return importlib.import_module("rasterio")
    except ImportError:
        return None


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """rasterio warns of every picture that does not lie anywhere on Earth; here that is nothing unusual."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _read_raster(path: Path, key: str | int | None, driver: str, skip: Sequence[int] = ()) -> _Content:
    """A file through GDAL, without the bands in skip. Of files that hold several pictures, the one that key names."""
    rasterio = _rasterio()
    _require(rasterio is not None, f'{path} needs the library rasterio. Install it: pip install "pmlda[geo]".')
    with _quiet(), rasterio.open(path, driver=driver) as dataset:
        inside = dict(_subdatasets(dataset.subdatasets, path))
        if not inside or (key is None and len(inside) == 1 and dataset.count):
            _require_no_key(key, path)
            return _from_dataset(dataset, path, skip)
    with _quiet(), contextlib.ExitStack() as stack:
        wanted = _choose_subdatasets(inside, path, key, driver)
        datasets = [stack.enter_context(rasterio.open(one)) for one in wanted]
        sizes = {dataset.shape for dataset in datasets}
        listed = ", ".join(inside)
        _require(len(sizes) == 1, f"{path} holds pictures of several sizes. Choose one with key: {listed}.")
        _check_size((sum(dataset.count for dataset in datasets), *datasets[0].shape), str(path))
        return _stack([_from_dataset(dataset, path) for dataset in datasets])


def _subdatasets(names: Sequence[str], path: Path) -> Iterator[tuple[str, str]]:
    """(key, name for GDAL) of each picture: "netcdf:/folder/file.nc:height" has the key "height"."""
    for name in names:
        if name.startswith("GTIFF_DIR:"):
            yield str(int(name.split(":")[1]) - 1), name
        else:
            yield name.rpartition(path.name)[2].strip('":/'), name


def _choose_subdatasets(inside: dict[str, str], path: Path, key: str | int | None, driver: str) -> list[str]:
    """Names for GDAL. Without key: all pages of a TIFF, or the only picture of another file."""
    if key is not None:
        wanted = str(key).strip("/")
        _require(wanted in inside, f"key={key!r} is not in {path}. Choose one of: {', '.join(inside)}.")
        return [inside[wanted]]
    alone = len(inside) == 1 or driver == "GTiff"
    _require(alone, f"{path} holds {len(inside)} pictures. Choose one with key: {', '.join(inside)}.")
    return list(inside.values())


def _from_dataset(dataset: Any, path: Path, skip: Sequence[int] = ()) -> _Content:
    """The bands of an open dataset of GDAL: numbers, names, place, and where there is no data."""
    roles, flags = _rasterio().enums.ColorInterp, _rasterio().enums.MaskFlags
    _require(dataset.count > 0, f"{path} holds no picture that GDAL can read. Export it as GeoTIFF.")
    _check_size((*dataset.shape, dataset.count), str(path))
    alpha = [band for band, role in enumerate(dataset.colorinterp) if role == roles.alpha]
    kept = [band for band in range(dataset.count) if band not in alpha and band not in skip]
    _require(bool(kept), f"{path} holds nothing but transparency. Give a picture with data.")
    pixels = np.moveaxis(dataset.read([band + 1 for band in kept]), 0, 2)
    valid = ~_equals_nodata(pixels, [dataset.nodatavals[band] for band in kept])
    notes = []
    for band in alpha:
        valid &= dataset.read(band + 1) != 0
        notes.append(f"Band {band + 1} is marked as transparency and was dropped.")
    if any(flags.per_dataset in band and flags.alpha not in band for band in dataset.mask_flag_enums):
        valid &= dataset.dataset_mask() != 0
    if any(dataset.scales[band] != 1 or dataset.offsets[band] != 0 for band in kept):
        notes.append("The file names a scale and an offset; the numbers were kept as they are stored.")
    if dataset.gcps[0]:
        notes.append("The file places its picture by control points; these were not read.")
    names = [dataset.descriptions[band] for band in kept]
    bands = tuple(name or f"band {at + 1}" for at, name in enumerate(names)) if any(names) else ()
    return _Content(np.ascontiguousarray(pixels), bands, valid, _place(dataset), tuple(notes))


def _place(dataset: Any) -> Georeference | None:
    if dataset.crs is None and dataset.transform.is_identity:
        return None
    a, b, c, d, e, f = tuple(dataset.transform)[:6]
    return Georeference(dataset.crs.to_wkt() if dataset.crs else "", (a, b, c, d, e, f))


def _read_nitf(path: Path, key: str | int | None) -> _Content:
    return _read_raster(path, key, "NITF")


def _read_netcdf(path: Path, key: str | int | None) -> _Content:
    content = _read_raster(path, key, "netCDF")
    if content.georeference is not None:
        return content
    # GDAL takes rows without coordinates to run from south to north and turns them. Here they stay as stored.
    with _rasterio().Env(GDAL_NETCDF_BOTTOMUP="NO"):
        return _read_raster(path, key, "netCDF")


def _read_hdf5(path: Path, key: str | int | None) -> _Content:
    return _read_raster(path, key, "HDF5")


# ── ENVI ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _read_envi(path: Path, key: str | int | None) -> _Content:
    """An ENVI cube from either of its two files, without the bands that its header calls bad."""
    _require_no_key(key, path)
    data = _envi_data(path) if path.suffix.lower() == ".hdr" else path
    header = _envi_header(data)
    _require(header is not None, f"{data} has no ENVI header next to it. Put {data.name}.hdr there.")
    assert header is not None
    fields = _envi_fields(header)
    n_bands = _check_envi_complete(data, fields)
    bad, notes = _bad_bands(_listed(fields.get("bbl", "")), n_bands)
    _require(len(bad) < n_bands, f"{data}: its header calls all {n_bands} bands bad (bbl). Correct the header.")
    # Bad bands are left out from the start: often they hold nothing but the no-data number.
    content = _read_raster(data, None, "ENVI", bad)
    kept = [band for band in range(n_bands) if band not in bad]
    names = _wavelengths(fields)
    if len(names) == n_bands:
        content = content._replace(bands=tuple(names[band] for band in kept))
    elif not content.bands:
        content = content._replace(bands=tuple(_numbered(n_bands)[band] for band in kept))
    return content._replace(notes=(*content.notes, *notes))


def _envi_data(header: Path) -> Path:
    """scene.hdr → scene, scene.img, … whichever is there; scene.img.hdr → scene.img."""
    base = header.with_suffix("")
    candidates = [base.with_name(base.name + suffix) for suffix in ENVI_DATA_SUFFIXES]
    candidates += [base.with_name(base.name + suffix.upper()) for suffix in ENVI_DATA_SUFFIXES[1:]]
    found = next((one for one in candidates if one.is_file()), None)
    _require(found is not None, f"{header} has no data file next to it. Put {base.name}.img or {base.name} there.")
    assert found is not None
    return found


def _envi_header(data: Path) -> Path | None:
    """scene.img → scene.hdr or scene.img.hdr."""
    names = [data.with_suffix(suffix) for suffix in (".hdr", ".HDR")]
    names += [data.with_name(data.name + suffix) for suffix in (".hdr", ".HDR")]
    return next((one for one in names if one.is_file()), None)


def _envi_fields(header: Path) -> dict[str, str]:
    """The header as {field: value}; a value in braces can run over several lines."""
    text = header.read_text(encoding="utf-8", errors="replace")
    _require(text.lstrip().startswith("ENVI"), f"{header} is not an ENVI header: it does not start with ENVI.")
    found = re.findall(r"^[ \t]*([^=\n{}]+?)[ \t]*=[ \t]*(\{[^}]*\}|[^\n]*)", text, flags=re.MULTILINE)
    return {name.lower(): value.strip() for name, value in found}


def _listed(value: str) -> list[str]:
    return [item.strip() for item in value.strip("{}").split(",") if item.strip()]


def _check_envi_complete(data: Path, fields: dict[str, str]) -> int:
    """The number of bands, if all are there. GDAL fills what is missing with zeros, which would look like data."""
    bytes_each = {"1": 1, "2": 2, "3": 4, "4": 4, "5": 8, "6": 8, "9": 16, "12": 2, "13": 4, "14": 8, "15": 8}
    try:
        shape = tuple(int(fields[name]) for name in ("lines", "samples", "bands"))
        expected = int(fields.get("header offset", "0")) + math.prod(shape) * bytes_each[fields["data type"]]
    except (KeyError, ValueError):
        raise ImageError(f"The header of {data} lacks lines, samples, bands or data type. Export it again.") from None
    _check_size(shape, str(data))
    size, packed = data.stat().st_size, fields.get("file compression", "0") != "0"
    whole = packed or size >= expected
    _require(whole, f"{data} is cut short: {size} bytes, but its header asks for {expected}. Get it again.")
    return shape[2]


def _wavelengths(fields: dict[str, str]) -> tuple[str, ...]:
    """Band names such as "450.5 nm"."""
    unit = fields.get("wavelength units", "")
    unit = UNITS.get(unit.lower(), "" if unit.lower() == "unknown" else unit)
    return tuple(f"{value} {unit}".strip() for value in _listed(fields.get("wavelength", "")))


def _bad_bands(flags: list[str], n_bands: int) -> tuple[list[int], list[str]]:
    """Bands whose entry in the list of bad bands, `bbl`, is 0, and what to say about them."""
    if flags and len(flags) != n_bands:
        return [], [f"The list of bad bands (bbl) has {len(flags)} entries for {n_bands} bands and was not used."]
    bad = [band for band, flag in enumerate(flags) if float(flag) == 0]
    return bad, [f"{len(bad)} of {n_bands} bands dropped, which the header calls bad (bbl)."] if bad else []


# ── arrays in files ────────────────────────────────────────────────────────────────────────────────────────────────


def _read_npy(path: Path, key: str | int | None) -> _Content:
    _require_no_key(key, path)
    with path.open("rb") as file:
        _require(file.read(6) == b"\x93NUMPY", f"{path} is not a .npy file. Write it with numpy.save.")
        file.seek(0)
        shape, dtype = _npy_header(file)
        _check_array(str(path), shape, dtype)
        file.seek(0)
        return _from_array(np.load(file, allow_pickle=False), str(path))


def _read_npz(path: Path, key: str | int | None) -> _Content:
    _require(zipfile.is_zipfile(path), f"{path} is not a whole .npz file. Write it with numpy.savez.")
    found = {}
    with zipfile.ZipFile(path) as archive:
        for member in archive.namelist():
            with archive.open(member) as file:
                found[member.removesuffix(".npy")] = _npy_header(file)
    pictures = [name for name, (shape, dtype) in found.items() if len(shape) in (2, 3) and dtype.kind in "buif"]
    shapes = {name: shape for name, (shape, _) in found.items()}
    chosen = _choose_array(path, key, shapes, pictures)
    _check_array(f"{chosen} in {path}", *found[chosen])
    with np.load(path, allow_pickle=False) as arrays:
        return _from_array(arrays[chosen], f"{chosen} in {path}")


def _npy_header(file: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and type of an array without reading it."""
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(file)
    return tuple(shape), dtype


def _check_array(what: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """The same complaints as for an array in memory, before it is read."""
    _as_numbers(np.empty(0, dtype), what)
    _require(len(shape) in (2, 3), f"{what} has {len(shape)} dimensions, shape {shape}. Give (height, width, bands).")
    _check_size(shape, what)


def _read_mat(path: Path, key: str | int | None) -> _Content:
    import scipy.io

    with path.open("rb") as file:
        newer = file.read(19) == b"MATLAB 7.3 MAT-file"
    _require(not newer, f"{path} is a MATLAB v7.3 file, which cannot be read. Save it in MATLAB with -v7.")
    found = {name: (shape, kind) for name, shape, kind in scipy.io.whosmat(path)}
    numbers = {"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "single", "double", "logical"}
    # MATLAB has no arrays below two dimensions: those one pixel high or wide are numbers and lists.
    pictures = [
        name for name, (shape, kind) in found.items() if len(shape) in (2, 3) and min(shape[:2]) > 1 and kind in numbers
    ]
    chosen = _choose_array(path, key, {name: shape for name, (shape, _) in found.items()}, pictures)
    shape, kind = found[chosen]
    _require(kind in numbers, f"{chosen} in {path} holds {kind}, not numbers. Give whole or real numbers.")
    _check_array(f"{chosen} in {path}", tuple(shape), np.dtype(np.uint8))
    array = np.asarray(scipy.io.loadmat(path, variable_names=[chosen])[chosen])
    return _from_array(array.astype(bool) if kind == "logical" else array, f"{chosen} in {path}")


def _choose_array(
    path: Path, key: str | int | None, shapes: dict[str, tuple[int, ...]], pictures: Sequence[str]
) -> str:
    """The array that key names or, without a key, the only one that can be a picture."""
    listed = ", ".join(f"{name} {shape}" for name, shape in shapes.items()) or "nothing"
    if key is not None:
        _require(str(key) in shapes, f"key={key!r} is not in {path}. It holds: {listed}.")
        return str(key)
    remedy = "Choose one with key" if shapes else "Save a picture in it"
    _require(len(pictures) == 1, f"{path} holds {len(pictures)} arrays that can be pictures. {remedy}: {listed}.")
    return pictures[0]


# ── xarray ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _is_dataarray(source: Any) -> bool:
    """Whether the source is an xarray.DataArray; nobody has one who has not imported xarray."""
    xarray = sys.modules.get("xarray")
    return xarray is not None and isinstance(source, xarray.DataArray)


def _from_dataarray(source: Any) -> _Content:
    """A DataArray in any order of its dimensions, with names, place and no-data number as rioxarray leaves them."""
    shape = dict(zip(source.dims, source.shape, strict=True))
    y, x = (next((d for d in source.dims if str(d).lower() in names), None) for names in (Y_NAMES, X_NAMES))
    _require(
        y is not None and x is not None, f"The DataArray has dimensions {shape}. Rename those of the plane to y and x."
    )
    rest = [d for d in source.dims if d not in (y, x)]
    alone = [d for d in rest if shape[d] == 1 and len(rest) > 1]
    rest = [d for d in rest if d not in alone] or rest[:1]
    alone = [d for d in alone if d not in rest]
    _require(len(rest) <= 1, f"The DataArray has more than 3 dimensions, {shape}. Select one plane with .isel().")
    _check_size(source.shape, "The DataArray")
    plane = source.isel(dict.fromkeys(alone, 0)).transpose(y, x, *rest)
    content = _from_array(np.array(plane.values), "The DataArray")
    nodata = source.attrs.get("_FillValue", source.attrs.get("nodata"))
    n_bands = content.pixels.shape[2]
    valid = None if nodata is None else ~_equals_nodata(content.pixels, [_number(nodata)] * n_bands)
    place = _dataarray_place(source, y, x)
    return content._replace(bands=_dataarray_bands(plane, rest, n_bands), valid=valid, georeference=place)


def _dataarray_bands(plane: Any, rest: Sequence[Any], n_bands: int) -> tuple[str, ...]:
    long_name = plane.attrs.get("long_name")
    if isinstance(long_name, tuple | list) and len(long_name) == n_bands:
        return tuple(str(name) for name in long_name)
    if not rest or rest[0] not in plane.coords:
        return ()
    names = [str(name) for name in plane.coords[rest[0]].values.tolist()]
    # rioxarray numbers the bands; a bare number is no name unless the dimension says what it counts, as a wavelength.
    return tuple(f"{rest[0]} {name}" if name.isdigit() else name for name in names)


def _dataarray_place(source: Any, y: Any, x: Any) -> Georeference | None:
    """CRS from the coordinate `spatial_ref`, transform from it or from evenly spaced coordinates of the pixels."""
    mapping = source.encoding.get("grid_mapping", source.attrs.get("grid_mapping", "spatial_ref"))
    about = source.coords[mapping].attrs if mapping in source.coords else {}
    crs = str(about.get("crs_wkt", about.get("spatial_ref", "")))
    if crs == "" and "crs" in source.attrs:
        crs = str(source.attrs["crs"])
    steps = [_even_step(source.coords[d].values) if d in source.coords else None for d in (x, y)]
    if steps[0] is not None and steps[1] is not None:
        (x0, dx), (y0, dy) = steps[0], steps[1]
        return Georeference(crs, (dx, 0.0, x0 - dx / 2, 0.0, dy, y0 - dy / 2)) if crs else None
    if crs and "GeoTransform" in about:
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


# ── writing ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _write_plain(path: Path, planes: NDArray[np.float32], names: list[str], description: str) -> None:
    import tifffile

    about = json.dumps({"names": names, "description": description})  # ASCII, as the tag demands
    tifffile.imwrite(
        path,
        planes if len(planes) > 1 else planes[0],
        photometric="minisblack",
        planarconfig="separate" if len(planes) > 1 else None,
        compression="zlib",
        description=about,
        metadata=None,
    )


def _write_geotiff(
    path: Path, planes: NDArray[np.float32], names: list[str], place: Georeference, description: str
) -> None:
    rasterio = _rasterio()
    _require(rasterio is not None, 'Writing a GeoTIFF needs the library rasterio: pip install "pmlda[geo]".')
    n_bands, height, width = planes.shape
    options = {"compress": "deflate", "photometric": "minisblack", "interleave": "band", "bigtiff": "if_safer"}
    try:
        crs = rasterio.crs.CRS.from_user_input(place.crs) if place.crs else None
    except rasterio.errors.CRSError as error:
        raise ImageError(f"The coordinate system {place.crs!r} is not known: {error}.") from None
    where = {"crs": crs, "transform": rasterio.Affine(*place.transform)}
    size = {"height": height, "width": width, "count": n_bands, "dtype": "float32", "nodata": math.nan}
    with _quiet(), rasterio.open(path, "w", driver="GTiff", **size, **where, **options) as dataset:
        dataset.write(planes)
        for band, name in enumerate(names):
            dataset.set_band_description(band + 1, name)
        if description:
            dataset.update_tags(TIFFTAG_IMAGEDESCRIPTION=description)


# ── colours for the screen ─────────────────────────────────────────────────────────────────────────────────────────


def _display_bands(bands: Sequence[str]) -> tuple[int, int, int]:
    """Which bands are shown as red, green and blue: those with these names, or the first, middle and last."""
    lower = [name.lower() for name in bands]
    for names in (("red", "green", "blue"), ("r", "g", "b")):
        if all(name in lower for name in names):
            return lower.index(names[0]), lower.index(names[1]), lower.index(names[2])
    last = len(bands) - 1
    return 0, 1 if len(bands) == 2 else round(last / 2), last


def _stretch(band: Array, valid: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """(H, W) 0 at the 2nd and 255 at the 98th percentile of the valid pixels; 128 if all are the same."""
    values = band[valid].astype(np.float64)
    values = values[:: len(values) // 1_000_000 + 1]  # enough for a percentile
    low, high = np.percentile(values, [2, 98]) if len(values) else (0.0, 0.0)
    if low == high and len(values):  # nearly all the same: show what stands out
        low, high = values.min(), values.max()
    if low == high:
        return np.full(band.shape, 128, dtype=np.uint8)
    numbers = np.where(valid, band, low).astype(np.float64)
    return np.rint(np.clip((numbers - low) / (high - low), 0.0, 1.0) * 255).astype(np.uint8)


READERS: dict[str, tuple[str, Callable[[Path, str | int | None], _Content]]] = {
    ".tif": ("TIFF", _read_tiff),
    ".tiff": ("TIFF", _read_tiff),
    ".ntf": ("NITF", _read_nitf),
    ".nitf": ("NITF", _read_nitf),
    ".nc": ("NetCDF", _read_netcdf),
    ".nc4": ("NetCDF", _read_netcdf),
    ".h5": ("HDF5", _read_hdf5),
    ".hdf5": ("HDF5", _read_hdf5),
    ".he5": ("HDF5", _read_hdf5),
    ".npy": ("NPY", _read_npy),
    ".npz": ("NPZ", _read_npz),
    ".mat": ("MATLAB", _read_mat),
}
