"""Pages of a TIFF, or a window of them → their numbers, by whichever library can decode them."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pmlda.errors import MissingLibraryError
from pmlda.images.checks import Array, check_size, require
from pmlda.images.gdal import find_rasterio, name_for_gdal, quiet


def _decode_page(path: Path, page: Any, problem: str) -> Array:
    """One page in the order of axes that tifffile would give."""
    from PIL.TiffImagePlugin import TiffImageFile

    if find_rasterio() is not None:
        return _read_with_gdal(path, page, None).reshape(page.shape)
    with path.open("rb") as file, TiffImageFile(file) as picture:
        picture.seek(page.index)
        array = np.array(picture)
    require(array.shape == page.shape, f'{path}: {problem}. Or pip install "pmlda[geo]".')
    return array


def _read_with_gdal(path: Path, page: Any, window: tuple[slice, slice] | None) -> Array:
    """One page, or a window of it, samples where tifffile would have them."""
    rasterio = find_rasterio()
    box = None if window is None else rasterio.windows.Window.from_slices(*window)
    with (
        quiet(),
        name_for_gdal(path) as name,
        rasterio.open(f"GTIFF_DIR:{page.index + 1}:{name}", driver="GTiff") as dataset,
    ):
        planes: Array = dataset.read(window=box)
    return np.moveaxis(planes, 0, -1) if page.axes[-1] == "S" else planes


def is_contiguous(series: Any) -> bool:
    """Whether the numbers lie in the file one after the other, as they are in memory."""
    return series.dataoffset is not None and bool(series.keyframe.is_memmappable)


def decode(series: Any, path: Path, axes: str, index: Sequence[slice]) -> Array:
    """series.asarray()[index] without reading the rest; axes is what each axis of the series was found to be.

    The whole and its windows are decoded by the same library: two take damaged files for different pictures.
    """
    ranges = [range(*one.indices(length)) for one, length in zip(index, series.shape, strict=True)]
    shape = tuple(len(one) for one in ranges)
    check_size(shape, str(path))
    if is_contiguous(series):
        order = series.keyframe.parent.byteorder
        stored = np.memmap(path, series.keyframe.dtype.newbyteorder(order), "r", series.dataoffset, series.shape)
        return np.array(stored[tuple(index)])
    pages = _pages_of(series, axes, index)
    if pages is not None and find_rasterio() is not None:
        rows, columns = ranges[axes.index("Y")], ranges[axes.index("X")]
        window = slice(rows.start, rows.stop), slice(columns.start, columns.stop)
        planes = [_read_with_gdal(path, page, window) for page in pages]
        return np.stack(planes).reshape(shape).astype(series.dtype, copy=False)
    if shape == series.shape:
        return _decode_pages(path, series.pages, series.shape, series.asarray)
    whole_pages = all(len(ranges[axes.index(side)]) == series.shape[axes.index(side)] for side in "YX")
    if pages is not None and whole_pages:
        return _decode_pages(path, pages, shape, lambda: np.stack([page.asarray() for page in pages]))
    return _decode_part(series, path, index)


def _pages_of(series: Any, axes: str, index: Sequence[slice]) -> list[Any] | None:
    """The pages that an index needs, in order; None where a page is more than a plane, or not in this file."""
    frame = series.keyframe
    here = all(page is not None and page.parent is frame.parent for page in series.pages)
    if not here or frame.axes not in ("YX", "YXS", "SYX") or axes != series.axes:
        return None
    leading = series.shape[: len(series.shape) - len(frame.shape)]
    if math.prod(leading) != len(series.pages):
        return None
    numbers = np.arange(len(series.pages)).reshape(leading)[tuple(index[: len(leading)])]
    return [series.pages[int(number)] for number in numbers.ravel()]


def _decode_pages(path: Path, pages: Sequence[Any], shape: tuple[int, ...], read: Callable[[], Any]) -> Array:
    """All numbers of some pages. tifffile leaves LZW and JPEG to another package; Pillow knows them too."""
    try:
        return np.asarray(read()).reshape(shape)
    except ValueError as error:
        if "imagecodecs" not in str(error):
            raise
        return np.stack([_decode_page(path, page, str(error)) for page in pages]).reshape(shape)


def _decode_part(series: Any, path: Path, index: Sequence[slice]) -> Array:
    try:
        import zarr
    except ImportError:
        raise MissingLibraryError(
            f'Reading {path} in parts needs pip install "pmlda[geo]" or "pmlda[scale]".'
        ) from None
    with series.aszarr(level=0) as store:
        return np.asarray(zarr.open_array(store, mode="r")[tuple(index)])
