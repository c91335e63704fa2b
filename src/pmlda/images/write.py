"""Maps (H, W, K), their names and their place → one OME-TIFF or Cloud Optimized GeoTIFF; labels (H, W) likewise."""

import os
import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pmlda.images.checks import require
from pmlda.images.pages import ZLIB_LEVEL
from pmlda.images.tiles import write_tiled
from pmlda.types import Georeference, PixelSize

# A file is compressed if no more than this part of its bytes would be left, as some rows in the middle tell.
MOST_LEFT, SAMPLE_ROWS = 0.8, 64


def write_maps(
    path: str | os.PathLike[str],
    maps: ArrayLike,
    names: Sequence[str],
    *,
    valid: NDArray[np.bool_] | None = None,
    georeference: Georeference | None = None,
    pixel_size: PixelSize | None = None,
    colours: Sequence[Sequence[float]] | None = None,
    description: str = "",
    three_digits: bool = False,
) -> None:
    """Write K maps (H, W, K) as the bands of one TIFF in float32, NaN where they are not valid.

    It is compressed where that saves a fifth: digits of noise hardly pack, and packing them takes longest of all.

    With a georeference it is a Cloud Optimized GeoTIFF, otherwise an OME-TIFF; `write_tiled` says more. Either way
    `read_image` brings back names, place or size of pixels, and valid pixels.

    three_digits : round numbers to half precision, which is enough of a standard deviation and packs much better

    >>> import tempfile
    >>> from pmlda.images import read_image
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_maps(f"{folder}/maps.tif", np.ones((2, 3, 2)), ["sand", "rock"])
    ...     read_image(f"{folder}/maps.tif").bands
    ('sand', 'rock')
    """
    bands = np.asarray(maps)
    bands = bands[:, :, None] if bands.ndim == 2 else bands
    require(bands.ndim == 3 and bands.size > 0, f"maps have shape {bands.shape}. Give an array (H, W, K).")
    keep = None if valid is None else np.asarray(valid, dtype=bool)
    if keep is not None:
        require(keep.shape == bands.shape[:2], f"valid has shape {keep.shape}, the maps {bands.shape[:2]}.")

    def read(rows: slice, band: int) -> NDArray[np.float32]:
        part = bands[rows, :, band]
        part = (part.astype(np.float16) if three_digits else part).astype(np.float32)
        if keep is not None:
            part[~keep[rows]] = np.nan
        return part

    height, width, n_maps = bands.shape
    write_tiled(
        *(path, (height, width, n_maps), names, read),
        georeference=georeference,
        pixel_size=pixel_size,
        colours=colours,
        description=description,
        in_memory=True,
        compressed=_packs(read(slice(height // 2, height // 2 + SAMPLE_ROWS), 0)),
    )


def _packs(sample: NDArray[np.float32]) -> bool:
    """Whether compression is worth its time, from some rows of a map."""
    return len(zlib.compress(sample.tobytes(), ZLIB_LEVEL)) < MOST_LEFT * sample.nbytes


def write_labels(
    path: str | os.PathLike[str],
    labels: NDArray[np.integer],
    *,
    name: str = "label",
    georeference: Georeference | None = None,
    pixel_size: PixelSize | None = None,
) -> None:
    """Write whole numbers (H, W), negative where there is no data, as a compressed TIFF of 32 bits."""
    height, width = labels.shape
    write_tiled(
        *(path, (height, width, 1), [name], lambda rows, _: labels[rows]),
        georeference=georeference,
        pixel_size=pixel_size,
        dtype="int32",
        in_memory=True,
    )
