"""Maps with names and place → a Cloud Optimized GeoTIFF: tiled, with overviews, readable piece by piece."""

import contextlib
import importlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pmlda.errors import ImageError, MissingLibraryError
from pmlda.images.gdal import find_rasterio, quiet
from pmlda.images.pages import TILE, ZLIB_LEVEL, ReadPart, no_data_of
from pmlda.images.shrink import level_shapes
from pmlda.storage.atomic import scratch_file
from pmlda.types import Georeference

# GDAL keeps tiles in memory, by default a twentieth of what the machine has; whole ones are written anyway.
CACHE_BYTES = 64 * 2**20


def write_cog(
    path: Path,
    shape: tuple[int, int, int],
    read: ReadPart,
    names: Sequence[str],
    place: Georeference,
    description: str,
    dtype: str,
) -> None:
    """Write maps (H, W, K), which are read 512 rows at a time.

    In a COG overviews come first, so GDAL copies one from a file that has everything: a plain one beside it, for as
    long as that takes.
    """
    rasterio = _load_rasterio(path)
    kind = np.dtype(dtype).kind
    resampling = rasterio.enums.Resampling.average if kind == "f" else rasterio.enums.Resampling.nearest
    factors = [2 ** (level + 1) for level in range(len(level_shapes(shape, TILE)))]
    options = {"compress": "DEFLATE", "level": str(ZLIB_LEVEL), "blocksize": str(TILE), "bigtiff": "IF_SAFER"}
    with quiet(), scratch_file(path) as scratch, rasterio.Env(GDAL_CACHEMAX=CACHE_BYTES):
        with _create(rasterio, scratch, shape, names, place, description, dtype) as dataset:
            for top in range(0, shape[0], TILE):
                rows = slice(top, min(top + TILE, shape[0]))
                window = rasterio.windows.Window(0, top, shape[1], rows.stop - top)
                for band in range(shape[2]):
                    dataset.write(read(rows, band), band + 1, window=window)
            if factors:
                dataset.build_overviews(factors, resampling)
        rasterio.shutil.copy(str(scratch), str(path), driver="COG", **options)


def _load_rasterio(path: Path) -> Any:
    rasterio = find_rasterio()
    if rasterio is None:
        raise MissingLibraryError('Writing a GeoTIFF needs the library rasterio: pip install "pmlda[geo]".')
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise ImageError(f"The name {str(path)!r} is not UTF-8, which GDAL needs. Give another name.") from None
    importlib.import_module("rasterio.shutil")
    return rasterio


@contextlib.contextmanager
def _create(
    rasterio: Any,
    path: Path,
    shape: tuple[int, int, int],
    names: Sequence[str],
    place: Georeference,
    description: str,
    dtype: str,
) -> Iterator[Any]:
    """A new GeoTIFF in tiles, not compressed, open for its numbers. NaN is no data; −1 of whole numbers."""
    try:
        crs = rasterio.crs.CRS.from_user_input(place.crs) if place.crs else None
    except rasterio.errors.CRSError as error:
        raise ImageError(f"The coordinate system {place.crs!r} is not known: {error}.") from None
    height, width, n_bands = shape
    size = {"height": height, "width": width, "count": n_bands, "dtype": dtype, "nodata": no_data_of(dtype)}
    where = {"crs": crs, "transform": rasterio.Affine(*place.transform)}
    layout = {"tiled": True, "blockxsize": TILE, "blockysize": TILE, "interleave": "band", "bigtiff": "if_safer"}
    layout |= {"photometric": "minisblack"}
    with rasterio.open(path, "w", driver="GTiff", **size, **where, **layout) as dataset:
        for band, name in enumerate(names):
            dataset.set_band_description(band + 1, name)
        if description:
            dataset.update_tags(TIFFTAG_IMAGEDESCRIPTION=description)
        yield dataset
