"""Planes (H, W) → the pages of a TIFF: in strips; or in tiles with smaller copies, in little memory at any size."""

import contextlib
import math
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from pmlda.images.shrink import halve, level_shapes
from pmlda.types import PixelSize

TILE = 512
# Noisy floats hardly compress: higher levels cost half as much time again for a twentieth of the bytes.
ZLIB_LEVEL = 1
# Classic TIFF ends at 4 GB. Compression may not help, so half of that is safe.
CLASSIC_BYTES = 2**31
# How many of a unit make a centimetre, the unit of resolutions in TIFF.
PER_CENTIMETRE = {"km": 1e-5, "m": 1e-2, "cm": 1.0, "mm": 10.0, "µm": 1e4, "nm": 1e7, "pm": 1e10, "Å": 1e8}
PER_CENTIMETRE |= {"in": 1 / 2.54, "ft": 1 / 30.48}

Plane = NDArray[Any]
ReadPart = Callable[[slice, int], Plane]
"""Rows and the number of a map → (rows, W)."""


def write_pages(
    path: Path,
    shape: tuple[int, int, int],
    read: ReadPart,
    dtype: str,
    description: bytes,
    *,
    pixel_size: PixelSize | None = None,
    in_strips: bool = False,
    compressed: bool = True,
) -> None:
    """Write K planes, one after the other.

    in_strips : in strips and without smaller copies. Programs that know neither tiles nor OME, such as ImageJ without
        plugins, then open the file as well. A whole plane is in memory at a time, otherwise 512 rows of it
    """
    import tifffile

    height, width, n_planes = shape
    levels = [] if in_strips else level_shapes(shape, TILE)
    tile = (_tile_side(height), _tile_side(width))
    how: dict[str, Any] = {"dtype": dtype, "photometric": "minisblack", "metadata": None}
    how |= {"tile": None if in_strips else tile}
    how |= {"compression": "zlib", "compressionargs": {"level": ZLIB_LEVEL}} if compressed else {}
    if pixel_size is not None:
        per_unit = PER_CENTIMETRE[pixel_size.unit]
        how |= {"resolution": (per_unit / pixel_size.width, per_unit / pixel_size.height)}
        how |= {"resolutionunit": "CENTIMETER"}
    with (
        tifffile.TiffWriter(path, bigtiff=n_planes * height * width * 16 // 3 >= CLASSIC_BYTES) as writer,
        contextlib.ExitStack() as stack,
    ):
        # A level is made while the one before it is written, so that none of them is ever in memory.
        waiting = [stack.enter_context(tempfile.TemporaryFile(dir=path.parent)) for _ in levels]
        for at, (rows, columns) in enumerate([(height, width), *levels]):
            whole = (n_planes, rows, columns)
            step = height if in_strips else TILE
            parts = _read_back(waiting[at - 1], whole, dtype) if at else _read_all(read, shape, step)
            if at < len(levels):
                parts = _shrink_into(waiting[at], parts)
            kind: dict[str, Any] = {"subfiletype": 1} if at else {"description": description, "subifds": len(levels)}
            data = parts if in_strips else _cut_tiles(parts, tile)
            writer.write(data, shape=whole if n_planes > 1 else whole[1:], **how, **kind)


def no_data_of(dtype: Any) -> float:
    """What stands for no data in maps of this type."""
    return math.nan if np.dtype(dtype).kind == "f" else -1


def _tile_side(length: int) -> int:
    """Sides of tiles are multiples of 16; small pictures have small ones."""
    return min(TILE, -(-length // 16) * 16)


def _read_all(read: ReadPart, shape: tuple[int, int, int], step: int) -> Iterator[Plane]:
    """All rows of the first plane, so many at a time; then those of the next."""
    height, _, n_planes = shape
    for plane in range(n_planes):
        for top in range(0, height, step):
            yield read(slice(top, min(top + step, height)), plane)


def _cut_tiles(parts: Iterator[Plane], tile: tuple[int, int]) -> Iterator[Plane]:
    """Tiles from left to right, those at the edges filled up with no data."""
    for part in parts:
        for left in range(0, part.shape[1], tile[1]):
            piece = part[:, left : left + tile[1]]
            if piece.shape == tile:
                yield np.ascontiguousarray(piece)
                continue
            filled = np.full(tile, no_data_of(part.dtype), part.dtype)
            filled[: piece.shape[0], : piece.shape[1]] = piece
            yield filled


def _shrink_into(file: IO[bytes], parts: Iterator[Plane]) -> Iterator[Plane]:
    """The same parts; what they are at half their size goes to a file on the way."""
    for part in parts:
        file.write(halve(part).tobytes())
        yield part


def _read_back(file: IO[bytes], shape: tuple[int, int, int], dtype: str) -> Iterator[Plane]:
    """What `_shrink_into` has left of planes (K, H, W), 512 rows at a time."""
    file.seek(0)
    n_planes, height, width = shape
    for _ in range(n_planes):
        for top in range(0, height, TILE):
            rows = min(TILE, height - top)
            data = file.read(rows * width * np.dtype(dtype).itemsize)
            yield np.frombuffer(data, dtype).reshape(rows, width)
