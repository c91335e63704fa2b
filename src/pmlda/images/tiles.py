"""Maps, strip by strip → one tiled, compressed TIFF or GeoTIFF, which may be far larger than the memory."""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmlda.images.checks import require
from pmlda.images.gdal import find_rasterio
from pmlda.images.write import check_target, create_geotiff, describe, no_data_of
from pmlda.storage.atomic import new_file
from pmlda.types import Georeference

TILE = 512

# GDAL keeps written tiles in memory, by default a twentieth of what the machine has; strips are whole tiles anyway.
GDAL_CACHE_BYTES = 64 * 2**20

# Classic TIFF ends at 4 GB. Compression may not help, so half of that is safe.
CLASSIC_BYTES = 2**31

Strip = NDArray[Any]
ReadRows = Callable[[slice], Strip]


def write_tiled(
    path: str | os.PathLike[str],
    shape: tuple[int, int, int],
    names: Sequence[str],
    read_rows: ReadRows,
    *,
    georeference: Georeference | None = None,
    description: str = "",
    dtype: str = "float32",
) -> None:
    """Write maps of shape (H, W, K) as `write_maps` does, in tiles, holding no more than 512 rows at a time.

    read_rows is called for one slice of rows after the other, from the top, and gives (rows, W, K); NaN is no data, and
    −1 in maps of whole numbers. The file has its name only when it is complete.
    """
    path, texts = Path(path), [str(name) for name in names]
    require(len(shape) == 3 and min(shape) > 0, f"maps have shape {tuple(shape)}. Give (H, W, K).")
    check_target(path, names, shape[2])
    with new_file(path) as part:
        strips = _strips(shape, read_rows, dtype)
        if georeference is None and find_rasterio() is None:
            _write_with_tifffile(part, shape, texts, strips, description, dtype)
        else:
            _write_with_gdal(part, shape, texts, strips, georeference, description, dtype)


def _strips(shape: tuple[int, int, int], read_rows: ReadRows, dtype: str) -> Iterator[Strip]:
    """(512, W, K) after (512, W, K), the last one lower."""
    height, width, n_maps = shape
    for top in range(0, height, TILE):
        rows = slice(top, min(top + TILE, height))
        strip = np.asarray(read_rows(rows), dtype=dtype)
        expected = (rows.stop - rows.start, width, n_maps)
        require(strip.shape == expected, f"Rows {rows} have shape {strip.shape}, expected {expected}.")
        yield strip


def _write_with_tifffile(
    path: Path,
    shape: tuple[int, int, int],
    names: list[str],
    strips: Iterator[Strip],
    description: str,
    dtype: str,
) -> None:
    import tifffile

    n_maps = shape[2]
    with tifffile.TiffWriter(path, bigtiff=4 * shape[0] * shape[1] * n_maps >= CLASSIC_BYTES) as writer:
        writer.write(
            _tiles(strips),
            shape=shape if n_maps > 1 else shape[:2],
            dtype=dtype,
            tile=(TILE, TILE),
            photometric="minisblack",
            # Band after band would need all strips once for each band.
            planarconfig="contig" if n_maps > 1 else None,
            extrasamples=["unspecified"] * (n_maps - 1) if n_maps > 1 else None,
            compression="zlib",
            compressionargs={"level": 3},
            description=describe(names, description),
            metadata=None,
        )


def _tiles(strips: Iterator[Strip]) -> Iterator[Strip]:
    """Tiles from left to right, those at the edges filled up with no data."""
    for strip in strips:
        for left in range(0, strip.shape[1], TILE):
            part = strip[:, left : left + TILE]
            tile = np.full((TILE, TILE, strip.shape[2]), no_data_of(str(strip.dtype)), strip.dtype)
            tile[: part.shape[0], : part.shape[1]] = part
            yield tile if strip.shape[2] > 1 else tile[:, :, 0]


def _write_with_gdal(
    path: Path,
    shape: tuple[int, int, int],
    names: list[str],
    strips: Iterator[Strip],
    place: Georeference | None,
    description: str,
    dtype: str,
) -> None:
    about = describe(names, description) if place is None else description
    layout = {"tiled": True, "blockxsize": TILE, "blockysize": TILE, "zlevel": 3}
    rasterio = find_rasterio()
    with (
        create_geotiff(path, shape, names, place, about, dtype, **layout) as dataset,
        rasterio.Env(GDAL_CACHEMAX=GDAL_CACHE_BYTES),
    ):
        for number, strip in enumerate(strips):
            window = rasterio.windows.Window(0, number * TILE, shape[1], len(strip))
            for band in range(shape[2]):
                dataset.write(np.ascontiguousarray(strip[:, :, band]), band + 1, window=window)
