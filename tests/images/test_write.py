"""Maps written and read again."""

import json

import numpy as np
import ome_types
import pytest
import rasterio
import tifffile

from pmlda.errors import ImageError
from pmlda.images import read_image, write_maps
from pmlda.types import Georeference
from tests.images.pictures import HEIGHT, PLACE, WIDTH


@pytest.mark.parametrize("place", [None, PLACE], ids=["plain", "geo"])
@pytest.mark.parametrize("n_maps", [1, 2, 3, 4, 5])
def test_maps_come_back_as_they_were_written(tmp_path, place, n_maps):
    # In steps, since maps that do not pack are stored as they are.
    maps = np.random.default_rng(0).integers(0, 16, (HEIGHT, WIDTH, n_maps)) / 16
    valid = np.ones((HEIGHT, WIDTH), dtype=bool)
    valid[1, 2] = False
    names = [f"sand µ {number}" for number in range(n_maps)]
    path = tmp_path / "maps.tif"
    write_maps(path, maps, names, valid=valid, georeference=place, description="how much")
    image = read_image(path)
    assert image.pixels.dtype == np.float32
    np.testing.assert_array_equal(image.pixels[valid], maps.astype(np.float32)[valid])
    assert np.isnan(image.pixels[1, 2]).all()
    np.testing.assert_array_equal(image.valid, valid)
    assert image.bands == tuple(names)
    assert image.georeference == place
    with tifffile.TiffFile(path) as tiff:
        assert tiff.pages.first.compression == tifffile.COMPRESSION.ADOBE_DEFLATE
        assert tiff.is_ome == (place is None)
    if place is None:
        assert ome_types.from_tiff(path).images[0].description == "how much"
    else:
        with rasterio.open(path) as dataset:
            assert dataset.tags()["TIFFTAG_IMAGEDESCRIPTION"] == "how much"


def test_maps_that_an_earlier_version_wrote_are_read_with_their_names(tmp_path):
    planes, about = np.ones((2, HEIGHT, WIDTH), np.float32), json.dumps({"names": ["sand", "rock"]})
    tifffile.imwrite(
        tmp_path / "old.tif",
        planes,
        photometric="minisblack",
        planarconfig="separate",
        description=about,
        metadata=None,
    )
    assert read_image(tmp_path / "old.tif").bands == ("sand", "rock")


def test_writing_maps_leaves_the_array_alone(tmp_path):
    maps = np.ones((HEIGHT, WIDTH, 2), dtype=np.float32)
    write_maps(tmp_path / "maps.tif", maps, ["a", "b"], valid=np.arange(HEIGHT * WIDTH).reshape(HEIGHT, WIDTH) > 3)
    assert np.isfinite(maps).all()


def test_a_turned_place_without_coordinate_system_comes_back(tmp_path):
    place = Georeference("", (1.0, 0.5, 10.0, -0.5, 1.0, 20.0))
    write_maps(tmp_path / "maps.tif", np.ones((HEIGHT, WIDTH)), ["a"], georeference=place)
    assert read_image(tmp_path / "maps.tif").georeference == place


@pytest.mark.parametrize(
    ("change", "fragment"),
    [
        ({"maps": np.ones(3)}, r"maps have shape \(3,\)"),
        ({"names": ["a"]}, "Give one name for each map"),
        ({"names": "ab"}, "Give one name for each map"),
        ({"valid": np.ones((2, 2), dtype=bool)}, r"valid has shape \(2, 2\)"),
        ({"path": "maps.png"}, "written as TIFF"),
        ({"path": "nowhere/maps.tif"}, "does not exist"),
        ({"georeference": Georeference("nonsense", PLACE.transform)}, "nonsense"),
    ],
)
def test_maps_that_cannot_be_written(tmp_path, change, fragment):
    arguments = {"path": "maps.tif", "maps": np.ones((HEIGHT, WIDTH, 2)), "names": ["a", "b"]} | change
    with pytest.raises(ImageError, match=fragment):
        write_maps(tmp_path / arguments.pop("path"), arguments.pop("maps"), arguments.pop("names"), **arguments)
