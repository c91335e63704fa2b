"""Small pictures with known numbers, and files of them."""

import sys
import warnings

import numpy as np
import rasterio
from rasterio import Affine

from pmlda.types import Georeference

HEIGHT, WIDTH = 6, 9  # no side of a picture equals its number of bands, so that mixed-up axes show
UTM = rasterio.crs.CRS.from_epsg(32633)
PLACE = Georeference(UTM.to_wkt(), (2.0, 0.0, 500000.0, 0.0, -2.0, 4100000.0))


def numbers(*shape, dtype=np.uint8, seed=0):
    """Different numbers everywhere, none of them zero."""
    most = 250 if np.dtype(dtype).itemsize == 1 else 60000
    return np.random.default_rng(seed).integers(1, most, shape).astype(dtype)


def write_raster(path, cube, driver="GTiff", names=(), **options):
    """A cube (H, W, B) through rasterio."""
    height, width, count = cube.shape
    size = {"height": height, "width": width, "count": count, "dtype": cube.dtype.name}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with rasterio.open(path, "w", driver=driver, **size, **options) as dataset:
            dataset.write(np.moveaxis(cube, 2, 0))
            for band, name in enumerate(names):
                dataset.set_band_description(band + 1, name)
    return path


def write_envi(path, cube, lines=()):
    """A band-sequential cube with a header written by hand."""
    height, width, bands = cube.shape
    kinds = {"uint8": 1, "int16": 2, "float32": 4, "uint16": 12, "complex64": 6}
    path.write_bytes(np.moveaxis(cube, 2, 0).tobytes())
    header = ["ENVI", f"samples = {width}", f"lines = {height}", f"bands = {bands}", "header offset = 0"]
    header += [f"data type = {kinds[cube.dtype.name]}", "interleave = bsq", "byte order = 0", *lines]
    path.with_suffix(".hdr").write_text("\n".join(header) + "\n")
    return path


def without_rasterio(monkeypatch):
    monkeypatch.setitem(sys.modules, "rasterio", None)  # importing it fails


def geotiff(path):
    cube = numbers(HEIGHT, WIDTH, 2, dtype=np.int16)
    cube[2, 5, 1] = -9999
    place = {"crs": UTM, "transform": Affine(*PLACE.transform), "nodata": -9999}
    return write_raster(path, cube, names=("red edge", "infrared"), **place), cube
