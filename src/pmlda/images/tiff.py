"""TIFF file, or a window of it → Content: its pages, samples or channels as bands, in any order and colours."""

import json
import math
import struct
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from pmlda.errors import ImageError
from pmlda.images.checks import Array, check_size, require
from pmlda.images.choice import Choice, Part, gather
from pmlda.images.content import RGB, Content, Window, stack_bands, turn_upright
from pmlda.images.gdal import find_rasterio, raster_layout, raster_size, read_raster
from pmlda.images.pixel_size import from_imagej, from_ome
from pmlda.images.tiff_axes import name_axes
from pmlda.images.tiff_pages import decode, is_contiguous
from pmlda.types import PixelSize

# What a GeoTIFF has and a plain TIFF has not: pixel scale, tie points, transform, geo keys, and the two tags of GDAL.
GEO_TAGS = {33550, 33922, 34264, 34735}
GDAL_TAGS = {42112, 42113}
GDAL_NODATA_TAG = 42113
ORIENTATION_TAG = 274
RESOLUTION_TAGS = (282, 283)
BITS_TAG, SAMPLES_TAG, FORMAT_TAG = 258, 277, 339

# Pixels of a tile that may be larger than its picture.
LARGE_TILE = 2**22

# Bytes of one value of each kind that a TIFF tag can have.
TIFF_BYTES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4, 16: 8, 17: 8, 18: 8}


def read_tiff(path: Path, choice: Choice, window: Window | None = None) -> Content:
    """A plain TIFF through tifffile, a GeoTIFF through rasterio if that is installed."""
    import tifffile

    with tifffile.TiffFile(path) as tiff:
        if window is None:
            check_whole(tiff, path)
        tags = tiff.pages.first.tags
        codes = set(tags.keys())
        if _through_gdal(tiff):
            choice.require_flat(path)
            return read_raster(path, choice.key, "GTiff", window=window)
        chosen = _choose_series(tiff, path, choice)
        parts = [_from_series(tiff, one, path, choice, window) for one in chosen]
        content = parts[0] if len(parts) == 1 else stack_bands(parts)
        if codes & GEO_TAGS:
            content = content.with_notes(
                'Where the picture lies (GeoTIFF tags) was not read; pip install "pmlda[geo]" to keep it.'
            )
        if GDAL_NODATA_TAG in codes:
            content = content._replace(nodata=(float(tags[GDAL_NODATA_TAG].value),) * content.pixels.shape[2])
        return turn_upright(content, int(tags.valueof(ORIENTATION_TAG, 1)))


def tiff_layout(path: Path, choice: Choice) -> tuple[tuple[int, int], tuple[int, int] | None] | None:
    """(H, W) and (rows, columns) of a tile or strip; None of a file whose windows cannot be read one by one."""
    import tifffile

    with tifffile.TiffFile(path) as tiff:
        check_whole(tiff, path)
        if _through_gdal(tiff):
            return raster_layout(path, choice.key, "GTiff")
        if int(tiff.pages.first.tags.valueof(ORIENTATION_TAG, 1)) != 1:
            return None
        series = _choose_series(tiff, path, choice)[0]
        axes = name_axes(series, path, choice).letters
        height, width = (series.shape[axes.index(axis)] for axis in "YX")
        if is_contiguous(series) or axes != series.axes:
            return (height, width), None
        page = series.keyframe
        return (height, width), (page.tilelength, page.tilewidth) if page.is_tiled else (page.rowsperstrip, width)


def tiff_size(path: Path, choice: Choice) -> tuple[tuple[int, int, int], np.dtype[Any]]:
    """(H, W, B) and type of a TIFF, from its tags."""
    import tifffile

    with tifffile.TiffFile(path) as tiff:
        check_whole(tiff, path)
        if _through_gdal(tiff):
            return raster_size(path, choice.key, "GTiff")
        chosen = _choose_series(tiff, path, choice)
        found = [name_axes(one, path, choice) for one in chosen]
        height, width = (chosen[0].shape[found[0].letters.index(axis)] for axis in "YX")
        turned = int(tiff.pages.first.tags.valueof(ORIENTATION_TAG, 1)) >= 5
        # What becomes of colours and transparency does not depend on how many pixels there are: here it is one.
        parts = [
            np.zeros((1, 1, axes.n_bands(one.shape)), axes.cube_type(one.dtype))
            for axes, one in zip(found, chosen, strict=True)
        ]
        kept = [_with_colours(Content(pixels), one.keyframe) for pixels, one in zip(parts, chosen, strict=True)]
        n_bands = sum(content.pixels.shape[2] for content in kept)
        return ((width, height) if turned else (height, width)) + (n_bands,), kept[0].pixels.dtype


def _through_gdal(tiff: Any) -> bool:
    """Whether the file says where it lies, or what has no data, in a way that GDAL knows best."""
    return bool(set(tiff.pages.first.tags.keys()) & (GEO_TAGS | GDAL_TAGS)) and find_rasterio() is not None


# ── whether all of the file is there ───────────────────────────────────────────────────────────────────────────────


def check_whole(tiff: Any, path: Path) -> None:
    """Refuse a file that is cut short, or whose tags point past its end or contradict each other."""
    _check_complete(tiff, path)
    _check_data(tiff, path)
    for page in tiff.pages:
        _check_samples(page, path)
        _check_tiles(page, path)


def _check_complete(tiff: Any, path: Path) -> None:
    """Pages form a chain of lists of tags. tifffile silently leaves out what points past the end of the file."""
    layout, size, link, seen = tiff.tiff, path.stat().st_size, tiff.pages.first.offset, set()
    while link and link not in seen and not layout.is_ndpi:
        seen.add(link)
        link = _next_page(layout, path, link, size)
        missing = "its pages or tags point past its end"
        require(0 <= link < size, f"{path} cannot be read as TIFF: {missing}. It is cut short; get it again.")


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


def _check_data(tiff: Any, path: Path) -> None:
    """Whether the numbers of every page lie inside the file, which otherwise shows only when they are read."""
    size = path.stat().st_size
    for page in tiff.pages:
        ends = [at + length for at, length in zip(page.dataoffsets, page.databytecounts, strict=False)]
        require(
            max(ends, default=0) <= size,
            f"{path} cannot be read as TIFF: its numbers go on past its end. It is cut short; get it again.",
        )
        require(
            _has_enough(page),
            f"{path} cannot be read as TIFF: it has numbers for fewer pixels than its {page.imagelength} × "
            f"{page.imagewidth}. It is damaged; get it again.",
        )


def _has_enough(page: Any) -> bool:
    """Whether there is a strip or tile for every pixel and, if nothing is packed, a number. GDAL would give zeros."""
    if len(page.dataoffsets) < math.prod(page.chunked):
        return False
    # Where a tile is left out because it is empty, its offset is zero.
    is_full = page.compression == 1 and page.bitspersample % 8 == 0 and all(page.dataoffsets)
    return not is_full or sum(page.databytecounts) >= page.nbytes


def _check_samples(page: Any, path: Path) -> None:
    """Whether tags agree on the number of samples of a pixel. Where not, GDAL gives numbers from anywhere in memory."""
    n_samples = int(page.tags.valueof(SAMPLES_TAG, 1))
    for tag in (page.tags.get(code) for code in (BITS_TAG, FORMAT_TAG)):
        if tag is not None and tag.count not in (1, n_samples):
            problem = f"a pixel has {n_samples} samples, but {tag.name} has {tag.count} values"
            raise ImageError(f"{path} cannot be read as TIFF: {problem}. It is damaged; get it again.")


def _check_tiles(page: Any, path: Path) -> None:
    """Refuse tiles that are far larger than the picture: a whole one is in memory even for a single pixel."""
    tile, picture = (page.tilelength, page.tilewidth), (page.imagelength, page.imagewidth)
    require(
        math.prod(tile) <= max(math.prod(2 * side for side in picture), LARGE_TILE),
        f"{path} cannot be read as TIFF: its tiles of {tile[0]} × {tile[1]} pixels are far larger than its "
        f"{picture[0]} × {picture[1]} pixels. It is damaged; get it again.",
    )


# ── from pages to bands ────────────────────────────────────────────────────────────────────────────────────────────


def _choose_series(tiff: Any, path: Path, choice: Choice) -> list[Any]:
    """The pages to read: those that key asks for, or all if they have the same size. Small copies do not count."""
    series = [one for one in tiff.series if not one.keyframe.subfiletype & 1] or list(tiff.series)
    require(bool(series), f"{path} is a TIFF without pictures. Export it again.")
    listed = ", ".join(f"{number}: {one.shape}" for number, one in enumerate(series))
    key = choice.key
    if key is not None:
        number = int(key) if str(key).isdigit() else -1
        require(0 <= number < len(series), f"key={key!r} is not in {path}. Choose one of {listed}.")
        return [series[number]]
    sizes = {tuple(one.shape[one.axes.index(axis)] for axis in "YX") for one in series}
    require(len(sizes) == 1, f"{path} holds pictures of several sizes. Choose one with key: {listed}.")
    require(len(series) == 1 or not tiff.is_ome, f"{path} holds several pictures. Choose one with key: {listed}.")
    several = choice.along and len(series) > 1
    require(not several, f"{path} holds several pictures, and no stack of them. Choose one with key: {listed}.")
    return series


def _from_series(tiff: Any, series: Any, path: Path, choice: Choice, window: Window | None) -> Content:
    """One series of pages, or a window of it, whatever the order of its axes."""
    axes = name_axes(series, path, choice)
    if window is None:
        rows, columns = (series.shape[axes.letters.index(axis)] for axis in "YX")
        check_size((rows, columns, axes.n_bands(series.shape)), str(path))
    sides = {} if window is None else dict(zip("YX", window, strict=True))

    def read_part(part: Part) -> Array:
        index = [part.get(at, sides.get(axis, slice(None))) for at, axis in enumerate(axes.letters)]
        array = decode(series, path, axes.letters, index)
        array = array.transpose([axes.letters.index(axis) for axis in axes.order])
        return array.reshape(*array.shape[:2], -1)

    pixels = gather(read_part, axes.taken, (choice.nodata,))
    content = Content(pixels, notes=axes.notes, pixel_size=_pixel_size(tiff, series))
    content = _with_colours(content, series.keyframe)
    names = _band_names(tiff, series)
    return content._replace(bands=names) if len(names) == content.pixels.shape[2] else content


# ── what the bands are ─────────────────────────────────────────────────────────────────────────────────────────────


def _with_colours(content: Content, page: Any) -> Content:
    """Palette and CMYK to RGB, transparency to valid pixels, the names of colours."""
    from PIL import Image
    from tifffile import PHOTOMETRIC

    photometric, pixels, extra = page.photometric, content.pixels, page.extrasamples
    n_bands = pixels.shape[2]
    one_page = n_bands == page.samplesperpixel
    if photometric == PHOTOMETRIC.PALETTE and page.colormap is not None and n_bands == 1:
        colours = (page.colormap >> 8).astype(np.uint8).T
        content = content._replace(pixels=colours[pixels[:, :, 0]], bands=RGB)
        return content.with_notes("Colours converted from a palette to RGB.")
    if photometric == PHOTOMETRIC.SEPARATED and n_bands == 4 and pixels.dtype == np.uint8 and one_page:
        rgb = np.array(Image.frombytes("CMYK", pixels.shape[1::-1], pixels.tobytes()).convert("RGB"))
        return content._replace(pixels=rgb, bands=RGB).with_notes("Colours converted from CMYK to RGB.")
    if photometric == PHOTOMETRIC.MINISWHITE:
        content = content.with_notes("Zero means white in this file; the numbers were kept as they are.")
    if one_page and extra and int(extra[-1]) in (1, 2):
        content = content._replace(pixels=pixels[:, :, :-1], valid=pixels[:, :, -1] != 0)
        content = content.with_notes("The last band is marked as transparency and was dropped.")
    coloured = photometric == PHOTOMETRIC.RGB and content.pixels.shape[2] == 3
    return content._replace(bands=RGB) if coloured else content


def _band_names(tiff: Any, series: Any) -> tuple[str, ...]:
    """The names of bands as OME, ImageJ or `write_maps` leave them; () if there are none."""
    about = _ome_pixels(tiff, series)
    if about is not None:
        channels = about.findall("{*}Channel")
        # What has a single channel, with or without a name, is a grey picture unless it says more.
        named = "C" in series.axes or any(one.get("Name") for one in channels)
        return tuple(one.get("Name") or f"channel {at + 1}" for at, one in enumerate(channels)) if named else ()
    if tiff.is_imagej and "C" in series.axes:
        return tuple(str(label) for label in (tiff.imagej_metadata or {}).get("Labels", ()))
    try:
        named = json.loads(series.keyframe.description)["names"]
    except (ValueError, KeyError, TypeError):
        return ()
    return tuple(str(name) for name in named) if isinstance(named, list) else ()


def _pixel_size(tiff: Any, series: Any) -> PixelSize | None:
    """How large pixels are, as OME or ImageJ say. Dots per inch of other files are about paper."""
    about = _ome_pixels(tiff, series)
    if about is not None:
        return from_ome(about)
    tags = series.keyframe.tags
    if tiff.is_imagej and all(tag in tags for tag in RESOLUTION_TAGS):
        return from_imagej([tags[tag].value for tag in RESOLUTION_TAGS], tiff.imagej_metadata or {})
    return None


def _ome_pixels(tiff: Any, series: Any) -> ElementTree.Element | None:
    """The element Pixels of this series in the XML of an OME-TIFF."""
    if not tiff.is_ome:
        return None
    pictures = ElementTree.fromstring(tiff.ome_metadata).findall("{*}Image")
    number = next((at for at, one in enumerate(tiff.series) if one is series), 0)
    return pictures[number].find("{*}Pixels") if number < len(pictures) else None
