"""Path or array → (H, W, B) and type of the picture, from headers alone: nothing is decoded."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from pmlda.images.arrays import mat_header, npy_header, npz_header
from pmlda.images.bands import as_text, count_at_most
from pmlda.images.checks import as_numbers, decoding
from pmlda.images.choice import Along, Choice, make_choice
from pmlda.images.dataarray import arrange, is_dataarray
from pmlda.images.envi import envi_size
from pmlda.images.gdal import raster_size
from pmlda.images.pillow import pillow_size
from pmlda.images.read import BandsLike, find_reader
from pmlda.images.tiff import tiff_size
from pmlda.images.variables import variable_size
from pmlda.images.zarr_source import open_zarr
from pmlda.types import Image

Size = tuple[tuple[int, int, int], np.dtype[Any]]


def picture_size(
    source: Any, key: str | int | None = None, z: Along = None, t: Along = None, bands: BandsLike = None
) -> Size | None:
    """(H, W, B) and type of what `read_image` would return, before anything of it is in memory; None of no picture.

    Of bands between two wavelengths it is not known how many there are: then B is that of all.

    >>> picture_size(np.zeros((4, 5), np.uint8))
    ((4, 5, 1), dtype('uint8'))
    """
    choice, asked = make_choice(key, z, t), as_text(bands)
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        kind, _ = find_reader(path)
        with decoding(path, kind):
            shape, dtype = _file_size(path, choice, kind)
    else:
        if isinstance(source, Image):
            source = source.pixels
        elif is_dataarray(source):
            source = arrange(source, choice)
        if not hasattr(source, "shape") or not hasattr(source, "dtype") or len(source.shape) not in (2, 3):
            return None
        shape, dtype = (*source.shape, 1)[:3], source.dtype
    if asked is not None:
        shape = (*shape[:2], count_at_most(asked, shape[2]))
    return shape, as_numbers(np.empty(0, dtype), str(source)).dtype if dtype.kind in "buif" else dtype


def _file_size(path: Path, choice: Choice, kind: str) -> Size:
    """The size of a picture in a file of this kind."""
    if kind in ("PNG", "JPEG"):
        return pillow_size(path, kind)
    if kind == "TIFF":
        return tiff_size(path, choice)
    if kind == "ENVI":
        return envi_size(path, choice)
    if kind in ("NetCDF", "HDF5"):
        return variable_size(path, choice, "netCDF" if kind == "NetCDF" else kind)
    if kind == "NPY":
        return npy_header(path, choice).size()
    if kind == "NPZ":
        return npz_header(path, choice)[1].size()
    if kind == "MATLAB":
        return mat_header(path, choice)[1].size()
    if kind == "Zarr":
        stored = open_zarr(path, choice)
        return stored.shape, stored.dtype
    return raster_size(path, choice.key, kind)
