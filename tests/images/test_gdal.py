"""GeoTIFF, NITF, NetCDF and HDF5 files, written here in small → what read_image makes of them."""

import warnings

import numpy as np
import pytest
import rasterio
import rasterio.shutil
import scipy.io
import tifffile
from rasterio import Affine

from pmlda.errors import ImageError, MissingLibraryError
from pmlda.images import read_image
from tests.images.pictures import (
    HEIGHT,
    PLACE,
    UTM,
    WIDTH,
    geotiff,
    numbers,
    without_rasterio,
    write_envi,
    write_raster,
)


def test_geotiff_keeps_place_names_and_nodata(tmp_path):
    path, cube = geotiff(tmp_path / "scene.tif")
    image = read_image(path)
    np.testing.assert_array_equal(image.pixels, cube)
    assert image.georeference == PLACE
    assert image.bands == ("red edge", "infrared")
    assert np.argwhere(~image.valid).tolist() == [[2, 5]]


def test_geotiff_without_rasterio_is_read_and_says_what_is_missing(tmp_path, monkeypatch):
    path, cube = geotiff(tmp_path / "scene.tif")
    without_rasterio(monkeypatch)
    image = read_image(path)
    np.testing.assert_array_equal(image.pixels, cube)
    assert image.georeference is None
    assert np.argwhere(~image.valid).tolist() == [[2, 5]]
    assert "GeoTIFF tags" in image.notes[0]
    assert 'pip install "pmlda[geo]"' in image.notes[0]


def test_geotiff_transparency_and_mask(tmp_path):
    cube = numbers(HEIGHT, WIDTH, 4)
    cube[0, 7, 3] = 0
    place = {"crs": UTM, "transform": Affine(1, 0, 5, 0, -1, 7)}
    image = read_image(write_raster(tmp_path / "alpha.tif", cube, photometric="rgb", alpha="yes", **place))
    assert image.pixels.shape == (HEIGHT, WIDTH, 3)
    assert np.argwhere(~image.valid).tolist() == [[0, 7]]
    path = write_raster(tmp_path / "masked.tif", cube[:, :, :1], **place)
    mask = np.full((HEIGHT, WIDTH), 255, dtype=np.uint8)
    mask[4, 4] = 0
    with rasterio.open(path, "r+") as dataset:
        dataset.write_mask(mask)
    assert np.argwhere(~read_image(path).valid).tolist() == [[4, 4]]


def test_geotiff_pages_are_bands_or_chosen_by_key(tmp_path):
    cube = numbers(HEIGHT, WIDTH, 3, dtype=np.uint16)
    scale = (33550, 12, 3, (2.0, 2.0, 0.0), True)
    with tifffile.TiffWriter(tmp_path / "pages.tif") as writer:
        for band in range(3):
            writer.write(np.ascontiguousarray(cube[:, :, band]), metadata=None, extratags=[scale])
    np.testing.assert_array_equal(read_image(tmp_path / "pages.tif").pixels, cube)
    np.testing.assert_array_equal(read_image(tmp_path / "pages.tif", key=2).pixels, cube[:, :, 2:])


def test_nitf(tmp_path):
    cube = numbers(HEIGHT, WIDTH, 3)
    np.testing.assert_array_equal(read_image(write_raster(tmp_path / "scene.ntf", cube, driver="NITF")).pixels, cube)


def write_netcdf(path, **planes):
    with scipy.io.netcdf_file(path, "w") as file:
        file.createDimension("z", 4)
        file.createDimension("y", HEIGHT)
        file.createDimension("x", WIDTH)
        for name, plane in planes.items():
            variable = file.createVariable(name, "f4", ("z", "y", "x")[-plane.ndim :])
            variable[:] = plane
    return path


def test_netcdf_by_key(tmp_path):
    height, depth = numbers(HEIGHT, WIDTH, dtype=np.float32), numbers(4, HEIGHT, WIDTH, dtype=np.float32, seed=1)
    path = write_netcdf(tmp_path / "sea.nc", height=height, depth=depth)
    np.testing.assert_array_equal(read_image(path, key="height").pixels[:, :, 0], height)
    np.testing.assert_array_equal(read_image(path, key="depth").pixels, np.moveaxis(depth, 0, 2))
    with pytest.raises(ImageError, match=r"holds 2 pictures. Choose one with key: height, depth"):
        read_image(path)
    with pytest.raises(ImageError, match=r"key='width' is not in .*Choose one of: height, depth"):
        read_image(path, key="width")


def test_netcdf_with_a_single_picture_needs_no_key(tmp_path):
    height = numbers(HEIGHT, WIDTH, dtype=np.float32)
    path = write_netcdf(tmp_path / "sea.nc", height=height)
    np.testing.assert_array_equal(read_image(path).pixels[:, :, 0], height)


def test_netcdf_with_coordinates_has_north_on_top_and_a_place(tmp_path):
    height = numbers(HEIGHT, WIDTH, dtype=np.float32)
    with scipy.io.netcdf_file(tmp_path / "sea.nc", "w") as file:
        for name, length in (("lat", HEIGHT), ("lon", WIDTH)):
            file.createDimension(name, length)
            axis = file.createVariable(name, "f8", (name,))
            axis[:] = 10.5 + np.arange(length)
            axis.units = f"degrees_{'north' if name == 'lat' else 'east'}"
        file.createVariable("height", "f4", ("lat", "lon"))[:] = height
    image = read_image(tmp_path / "sea.nc")
    np.testing.assert_array_equal(image.pixels[:, :, 0], height[::-1])
    assert image.georeference.transform == pytest.approx((1, 0, 10, 0, -1, 10 + HEIGHT))


def test_hdf5_by_key(tmp_path):
    cube = numbers(HEIGHT, WIDTH, 2, dtype=np.float32)
    # A NetCDF file of version 4 is an HDF5 file, and nothing else here can write one.
    write_raster(tmp_path / "scene.tif", cube)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options = {"driver": "netCDF", "FORMAT": "NC4", "WRITE_BOTTOMUP": "NO"}
        rasterio.shutil.copy(tmp_path / "scene.tif", tmp_path / "scene.nc", **options)
    path = (tmp_path / "scene.nc").rename(tmp_path / "scene.h5")
    with pytest.raises(ImageError, match=r"Choose one with key: .*Band1, Band2"):
        read_image(path)
    np.testing.assert_array_equal(read_image(path, key="Band2").pixels[:, :, 0], cube[:, :, 1])


@pytest.mark.parametrize("suffix", [".ntf", ".nc", ".h5", ".img"])
def test_without_rasterio_other_formats_say_what_to_install(tmp_path, monkeypatch, suffix):
    path = write_envi(tmp_path / f"scene{suffix}", numbers(HEIGHT, WIDTH, 2))
    without_rasterio(monkeypatch)
    with pytest.raises(MissingLibraryError, match=r'pip install "pmlda\[geo\]"'):
        read_image(path)
