"""Maps (H, W, K), their names and their place → one OME-TIFF or Cloud Optimized GeoTIFF; labels (H, W) likewise."""

import os
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pmlda.images.checks import require
from pmlda.images.tiles import write_tiled
from pmlda.types import Georeference, PixelSize


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
) -> None:
    """Write K maps (H, W, K) as the bands of one compressed TIFF in float32, NaN where they are not valid.

    With a georeference it is a Cloud Optimized GeoTIFF, otherwise an OME-TIFF; `write_tiled` says more. Either way
    `read_image` brings back names, place or size of pixels, and valid pixels.

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
        part = bands[rows, :, band].astype(np.float32)
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
    )


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
