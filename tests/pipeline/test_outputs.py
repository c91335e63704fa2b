"""What a run in blocks writes is what others read: xarray, GIS programs, `pmlda apply`, people."""

import json

import numpy as np
import pytest
import tifffile
import xarray
from PIL import Image as Pillow
from pmlda.pipeline.mosaic import load_mosaic

from pmlda import segment
from pmlda.images.windowed import open_windowed
from pmlda.types import Georeference, Image
from tests.pipeline.common import CHOICES, SHAPE, scene
from tests.pipeline.test_damage import call

rasterio = pytest.importorskip("rasterio")
PLACE = Georeference(rasterio.CRS.from_epsg(32632).to_wkt(), (2.0, 0.0, 500_000.0, 0.0, -2.0, 5_300_000.0))


@pytest.fixture(scope="module")
def placed():
    """The scene with a place, and a hole over the border of two blocks."""
    valid = np.ones(SHAPE, bool)
    valid[50:80, 20:40] = False
    return Image(scene(), valid, ("red", "green", "blue"), "scene", PLACE)


@pytest.fixture(scope="module")
def mosaic(placed, tmp_path_factory):
    return segment(placed, 3, out=tmp_path_factory.mktemp("mosaic") / "maps.zarr", **CHOICES)


@pytest.fixture(scope="module")
def tiff(placed, tmp_path_factory):
    return segment(placed, 3, out=tmp_path_factory.mktemp("tiff") / "maps.tif", **CHOICES)


def test_xarray_opens_maps_with_names_and_place(mosaic, placed):
    with xarray.open_zarr(mosaic.path) as found:
        assert found["memberships"].dims == found["uncertainty"].dims == ("y", "x", "topic")
        assert found["labels"].dims == ("y", "x")
        assert found["topic"].values.tolist() == ["topic 1", "topic 2", "topic 3"]
        assert found["x"].values[[0, -1]].tolist() == [500_001.0, 500_001.0 + 2.0 * (SHAPE[1] - 1)]
        assert found["y"].values[0] == 5_299_999.0
        assert "UTM zone 32N" in found["spatial_ref"].attrs["crs_wkt"]
        maps = found["memberships"].values
        np.testing.assert_array_equal(np.isfinite(maps).all(axis=2), placed.valid)
        np.testing.assert_allclose(maps[placed.valid].sum(axis=1), 1.0, atol=1e-5)
        labels = found["labels"].values
        np.testing.assert_array_equal(labels[placed.valid], maps[placed.valid].argmax(axis=1))
        assert (labels[~placed.valid] == -1).all()


def test_a_geotiff_holds_the_same_maps_in_tiles_with_names_nodata_and_place(mosaic, tiff):
    with rasterio.open(tiff.path) as file:
        assert file.profile["tiled"]
        assert (file.count, file.height, file.width) == (3, *SHAPE)
        assert file.descriptions == ("topic 1", "topic 2", "topic 3")
        assert np.isnan(file.nodata)
        assert tuple(file.transform)[:6] == PLACE.transform
        assert file.crs.to_epsg() == 32632
        np.testing.assert_array_equal(np.moveaxis(file.read(), 0, 2), mosaic.memberships[:])
    with tifffile.TiffFile(tiff.path) as file:
        assert file.pages[0].is_tiled
    names = sorted(path.name for path in tiff.path.parent.iterdir())
    assert names == ["maps-figure.png", "maps-model.pmlda", "maps-run.json", "maps-settings.toml", "maps.tif"]


@pytest.mark.parametrize("kind", ["mosaic", "tiff"])
def test_a_result_tells_what_was_found(kind, request, placed):
    made = request.getfixturevalue(kind)
    for found in (made, load_mosaic(made.path)):
        assert found.topics.shape == (3, len(found.feature_names))
        assert found.feature_names[:3] == ("red", "green", "blue")
        assert found.settings.block == 64
        assert set(found.timings) == {"surveying", "sampling", "learning topics", "documents", "maps"}
        assert "settled after" in found.verdict
        assert found.record["state"] == "converged"
        window = found.read(slice(60, 70), slice(30, 50))
        np.testing.assert_array_equal(window.pixels, found.memberships[60:70, 30:50])
        np.testing.assert_array_equal(window.valid, placed.valid[60:70, 30:50])
        assert window.georeference.transform[2] == 500_000.0 + 2.0 * 30
        assert found.memberships.shape == (*SHAPE, 3)


def test_a_tiff_has_no_other_maps_and_says_so(tiff):
    for name in ("uncertainty", "labels"):
        with pytest.raises(AttributeError, match=r"\.zarr to have"):
            getattr(tiff, name)


def test_the_record_tells_settings_seconds_and_what_happened(mosaic, placed):
    record = json.loads((mosaic.path / "run.json").read_text(encoding="utf-8"))
    assert record["settings"] | {"topics": 3} | CHOICES == record["settings"]
    assert (record["blocks"], record["block"], record["documents"]) == (6, 64, 99)
    assert record["pixels_with_data"] == placed.valid.sum()
    assert all(seconds >= 0 for seconds in record["seconds"].values())
    assert [line["event"] for line in record["log"]] == ["begun", "workers", "maps are complete"]
    assert record["pictures"][0]["shape"] == [*SHAPE, 3]
    settings = (mosaic.path / "settings.toml").read_text(encoding="utf-8")
    assert "block = 64" in settings


def test_the_figure_is_a_picture(mosaic):
    with Pillow.open(mosaic.path / "figure.png") as figure:
        assert min(figure.size) > 300
        assert len(set(figure.convert("RGB").resize((40, 40)).get_flattened_data())) > 50


def test_topics_apply_to_other_pictures(mosaic, tmp_path):
    other = tmp_path / "other.png"
    Pillow.fromarray(scene(1)).save(other)
    result = call("apply", mosaic.path / "model.pmlda", other, "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert open_windowed(tmp_path / "out" / "memberships.tif").shape == (*SHAPE, 3)
    assert call("info", mosaic.path / "model.pmlda", "--json").exit_code == 0
