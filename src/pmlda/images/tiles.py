"""Maps, read part by part → one compressed TIFF, which may be far larger than the memory.

Without a georeference it is an OME-TIFF, which microscopy programs show as named channels. With one it is a Cloud
Optimized GeoTIFF, which geographic information systems show as named bands.
"""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pmlda.images.checks import require
from pmlda.images.cog import write_cog
from pmlda.images.ome import describe_ome
from pmlda.images.pages import Plane, ReadPart, write_pages
from pmlda.storage.atomic import new_file
from pmlda.types import Georeference, PixelSize


def write_tiled(
    path: str | os.PathLike[str],
    shape: tuple[int, int, int],
    names: Sequence[str],
    read: ReadPart,
    *,
    georeference: Georeference | None = None,
    pixel_size: PixelSize | None = None,
    colours: Sequence[Sequence[float]] | None = None,
    description: str = "",
    dtype: str = "float32",
    in_memory: bool = False,
    compressed: bool = True,
) -> None:
    """Write maps of shape (H, W, K) in tiles with smaller copies; `read_image` brings all of it back.

    The file has its name only when it is complete.

    read : gives (rows, W) of a map for a slice of rows and the number of the map; each part is asked for
        once. NaN is no data, and −1 in maps of whole numbers
    pixel_size : of a picture without a georeference
    colours : (K, 3) in which programs may show the maps together, from 0 to 1
    in_memory : the maps are in memory, and the file is one of many. A power cut may lose it, and an OME-TIFF is in
        strips without smaller copies, as in `write_pages`
    compressed : whether an OME-TIFF is compressed; a GeoTIFF always is
    """
    path, texts = Path(path), [str(name) for name in names]
    require(len(shape) == 3 and min(shape) > 0, f"maps have shape {tuple(shape)}. Give (H, W, K).")
    check_target(path, names, shape[2])

    def read_checked(rows: slice, band: int) -> Plane:
        part = np.asarray(read(rows, band), dtype)
        expected = (rows.stop - rows.start, shape[1])
        require(part.shape == expected, f"Rows {rows} have shape {part.shape}, expected {expected}.")
        return part

    with new_file(path, durable=not in_memory) as file:
        if georeference is not None:
            write_cog(file, shape, read_checked, texts, georeference, description, dtype)
            return
        xml = describe_ome(
            *(shape, dtype, texts), title=path.stem, description=description, pixel_size=pixel_size, colours=colours
        )
        how = {"in_strips": in_memory, "compressed": compressed}
        write_pages(file, shape, read_checked, dtype, xml, pixel_size=pixel_size, **how)


def check_target(path: Path, names: Sequence[str], n_maps: int) -> None:
    """Refuse names that are too few or too many, and a file that cannot be a TIFF."""
    named = not isinstance(names, str) and len(names) == n_maps
    require(named, f"names={names!r} does not fit {n_maps} maps. Give one name for each map.")
    require(path.suffix.lower() in (".tif", ".tiff"), f"Maps are written as TIFF. Call {path} something.tif.")
    require(path.parent.is_dir(), f"The folder {path.parent} does not exist. Make it first.")
