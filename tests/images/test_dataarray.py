"""DataArrays in any order of dimensions → what read_image makes of them."""

import numpy as np
import pytest
import xarray

from pmlda.images import read_image
from pmlda.types import Georeference
from tests.images.pictures import HEIGHT, UTM, WIDTH, numbers


@pytest.mark.parametrize("dims", [("band", "y", "x"), ("y", "x", "band"), ("x", "band", "y")])
def test_a_dataarray_is_read_in_any_order_of_its_dimensions(dims):
    cube = numbers(HEIGHT, WIDTH, 3, dtype=np.float32)
    cube[1, 2, 0] = np.nan
    source = xarray.DataArray(
        cube,
        dims=("y", "x", "band"),
        coords={"band": ["blue", "green", "red"], "y": 99.0 - 2 * np.arange(HEIGHT), "x": 11.0 + 2 * np.arange(WIDTH)},
        name="scene",
    )
    source = source.assign_coords(spatial_ref=0)
    source.coords["spatial_ref"].attrs["crs_wkt"] = UTM.to_wkt()
    image = read_image(source.transpose(*dims))
    np.testing.assert_array_equal(image.pixels, cube)
    assert np.argwhere(~image.valid).tolist() == [[1, 2]]
    assert image.bands == ("blue", "green", "red")
    assert image.name == "scene"
    assert image.georeference == Georeference(UTM.to_wkt(), (2.0, 0.0, 10.0, 0.0, -2.0, 100.0))


def test_a_plane_of_a_dataarray_may_have_dimensions_of_length_one():
    cube = numbers(HEIGHT, WIDTH)
    image = read_image(xarray.DataArray(cube[None, None], dims=("time", "band", "lat", "lon")))
    np.testing.assert_array_equal(image.pixels[:, :, 0], cube)
    assert image.georeference is None


def test_the_fill_value_of_a_dataarray_is_no_data():
    cube = numbers(HEIGHT, WIDTH, dtype=np.int16)
    cube[0, 3] = -1
    image = read_image(xarray.DataArray(cube, dims=("y", "x"), attrs={"_FillValue": -1}))
    assert np.argwhere(~image.valid).tolist() == [[0, 3]]
