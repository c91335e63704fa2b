"""Maps (H, W, K), their names and their place → one TIFF or GeoTIFF file; labels (H, W) → a TIFF file."""

import contextlib
import json
import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pmlda.errors import ImageError, MissingLibraryError
from pmlda.images.checks import require
from pmlda.images.gdal import find_rasterio, quiet
from pmlda.types import Georeference


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
    >>> from pmlda.images import read_image
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_maps(f"{folder}/maps.tif", np.ones((2, 3, 2)), ["sand", "rock"])
    ...     read_image(f"{folder}/maps.tif").bands
    ('sand', 'rock')
    """
    path, bands = Path(path), np.array(maps, dtype=np.float32)
    bands = bands[:, :, None] if bands.ndim == 2 else bands
    require(bands.ndim == 3 and bands.size > 0, f"maps have shape {bands.shape}. Give an array (H, W, K).")
    check_target(path, names, bands.shape[2])
    if valid is not None:
        keep = np.asarray(valid, dtype=bool)
        require(keep.shape == bands.shape[:2], f"valid has shape {keep.shape}, the maps {bands.shape[:2]}.")
        bands[~keep] = np.nan
    planes, texts = np.ascontiguousarray(np.moveaxis(bands, 2, 0)), [str(name) for name in names]
    if georeference is None:
        _write_plain(path, planes, texts, description)
    else:
        with create_geotiff(path, bands.shape, texts, georeference, description) as dataset:
            dataset.write(planes)


def check_target(path: Path, names: Sequence[str], n_maps: int) -> None:
    """Refuse names that are too few or too many, and a file that cannot be a TIFF."""
    named = not isinstance(names, str) and len(names) == n_maps
    require(named, f"names={names!r} does not fit {n_maps} maps. Give one name for each map.")
    require(path.suffix.lower() in (".tif", ".tiff"), f"Maps are written as TIFF. Call {path} something.tif.")
    require(path.parent.is_dir(), f"The folder {path.parent} does not exist. Make it first.")


def describe(names: Sequence[str], description: str) -> str:
    """The description of a plain TIFF, from which `read_image` takes the names: ASCII, as the tag demands."""
    return json.dumps({"names": list(names), "description": description})


def no_data_of(dtype: str) -> float:
    """What stands for no data in maps of this type."""
    return math.nan if np.dtype(dtype).kind == "f" else -1


def write_labels(path: str | os.PathLike[str], labels: NDArray[np.integer]) -> None:
    """Write whole numbers (H, W), negative where there is no data, as a compressed TIFF of 32 bits."""
    import tifffile

    tifffile.imwrite(path, labels.astype(np.int32), photometric="minisblack", compression="zlib", metadata=None)


def _write_plain(path: Path, planes: NDArray[np.float32], names: list[str], description: str) -> None:
    import tifffile

    tifffile.imwrite(
        path,
        planes if len(planes) > 1 else planes[0],
        photometric="minisblack",
        planarconfig="separate" if len(planes) > 1 else None,
        # Noisy floats hardly compress: higher levels cost half as much time again for a thirtieth of the bytes.
        compression="zlib",
        compressionargs={"level": 3},
        description=describe(names, description),
        metadata=None,
    )


@contextlib.contextmanager
def create_geotiff(
    path: Path,
    shape: Sequence[int],
    names: Sequence[str],
    place: Georeference | None,
    description: str,
    dtype: str = "float32",
    **layout: Any,
) -> Iterator[Any]:
    """A new TIFF of shape (H, W, K) with names and place, open for its numbers. NaN is no data; −1 of whole numbers."""
    rasterio = find_rasterio()
    if rasterio is None:
        raise MissingLibraryError('Writing a GeoTIFF needs the library rasterio: pip install "pmlda[geo]".')
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise ImageError(f"The name {str(path)!r} is not UTF-8, which GDAL needs. Give another name.") from None
    height, width, n_bands = shape
    options = {"compress": "deflate", "photometric": "minisblack", "interleave": "band", "bigtiff": "if_safer"}
    where = {}
    if place is not None:
        try:
            crs = rasterio.crs.CRS.from_user_input(place.crs) if place.crs else None
        except rasterio.errors.CRSError as error:
            raise ImageError(f"The coordinate system {place.crs!r} is not known: {error}.") from None
        where = {"crs": crs, "transform": rasterio.Affine(*place.transform)}
    size = {"height": height, "width": width, "count": n_bands, "dtype": dtype, "nodata": no_data_of(dtype)}
    with quiet(), rasterio.open(path, "w", driver="GTiff", **size, **where, **options, **layout) as dataset:
        for band, name in enumerate(names):
            dataset.set_band_description(band + 1, name)
        if description:
            dataset.update_tags(TIFFTAG_IMAGEDESCRIPTION=description)
        yield dataset
