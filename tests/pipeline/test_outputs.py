"""What a run tile by tile writes is what others read: xarray, GIS programs, `pmlda apply`, people."""

import csv
import html
import json
import shutil
from pathlib import Path

import numpy as np
import ome_types
import pytest
import tifffile
import xarray
from PIL import Image as Pillow
from rio_cogeo import cog_validate

from pmlda import segment
from pmlda.errors import PmldaError
from pmlda.images import read_image
from pmlda.images.windowed import open_windowed
from pmlda.output.places import beside
from pmlda.partitions import read_labels
from pmlda.pipeline import maps
from pmlda.segmentation import Segmentation
from pmlda.types import Georeference, Image, PixelSize
from tests.pipeline.common import CHOICES, SHAPE, scene
from tests.pipeline.test_bad_situations import BESIDE
from tests.pipeline.test_damage import call, refused

rasterio = pytest.importorskip("rasterio")
PLACE = Georeference(rasterio.CRS.from_epsg(32632).to_wkt(), (2.0, 0.0, 500_000.0, 0.0, -2.0, 5_300_000.0))


@pytest.fixture(scope="module")
def placed():
    """The scene with a place, and a hole over the border of two tiles."""
    valid = np.ones(SHAPE, bool)
    valid[50:80, 20:40] = False
    return Image(scene(), valid, ("red", "green", "blue"), "scene", PLACE)


@pytest.fixture(scope="module")
def stored(placed, tmp_path_factory):
    return segment(placed, 3, out=tmp_path_factory.mktemp("zarr") / "maps.zarr", **CHOICES)


@pytest.fixture(scope="module")
def tiff(placed, tmp_path_factory):
    return segment(placed, 3, out=tmp_path_factory.mktemp("tiff") / "maps.tif", **CHOICES)


def test_xarray_opens_maps_with_names_and_place(stored, placed):
    with xarray.open_zarr(stored.path) as found:
        assert found["memberships"].dims == found["uncertainty"].dims == ("c", "y", "x")
        assert found["dominant"].dims == ("y", "x")
        assert found["c"].values.tolist() == ["topic 1", "topic 2", "topic 3"]
        assert found["x"].values[[0, -1]].tolist() == [500_001.0, 500_001.0 + 2.0 * (SHAPE[1] - 1)]
        assert found["y"].values[0] == 5_299_999.0
        assert "UTM zone 32N" in found["spatial_ref"].attrs["crs_wkt"]
        shares = found["memberships"].transpose("y", "x", "c").values
        np.testing.assert_array_equal(np.isfinite(shares).all(axis=2), placed.valid)
        np.testing.assert_allclose(shares[placed.valid].sum(axis=1), 1.0, atol=1e-5)
        labels = found["dominant"].values
        np.testing.assert_array_equal(labels[placed.valid], shares[placed.valid].argmax(axis=1))
        assert (labels[~placed.valid] == -1).all()


@pytest.mark.parametrize("kind", ["zarr", "tif"])
def test_names_of_topics_are_those_of_the_bands_and_of_all_that_is_beside_them(kind, placed, tmp_path):
    names = ("tiefes Öl", '<b>"sand", wet</b>', "$5 & 6$")
    small = placed._replace(pixels=placed.pixels[:64, :70], valid=placed.valid[:64, :70])
    out = tmp_path / f"maps.{kind}"
    found = segment(small, 3, names=list(names), out=out, **CHOICES)
    assert found.topic_names == Segmentation.load(out).overview().topic_names == names
    if kind == "zarr":
        with xarray.open_zarr(out) as maps_of:
            assert maps_of["c"].values.tolist() == list(names)
    else:
        for path in (out, beside(out, "uncertainty.tif")):
            with rasterio.open(path) as file:
                assert file.descriptions == names
    with beside(out, "documents.csv").open(encoding="utf-8", newline="") as file:
        assert next(csv.reader(file))[3:] == list(names)
    record = json.loads(beside(out, "run.json").read_text(encoding="utf-8"))
    assert record["topics"] == record["settings"]["names"] == list(names)
    assert html.escape(names[1]).replace("&quot;", "&#34;") in beside(out, "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["maps", "maps.zarr", "maps.tif"])
def test_pixels_of_maps_are_as_large_as_those_of_the_picture(name, tmp_path):
    picture, out, size = tmp_path / "cells.ome.tif", tmp_path / name, PixelSize(0.5, 0.25, "µm")
    about = {"axes": "YXS", "PhysicalSizeX": 0.25, "PhysicalSizeY": 0.5}
    tifffile.imwrite(picture, scene(0)[:64, :70], photometric="rgb", metadata=about)
    result = call(
        "segment", picture, "--topics", 2, "--names", "Zellkern & Rand,<b>", "--set", "refits=0", "--out", out
    )
    assert result.exit_code == 0, result.output
    file = out / "memberships.tif" if name == "maps" else out
    found = read_image(file)
    assert (found.bands, found.pixel_size) == (("Zellkern & Rand", "<b>"), size)
    again = Segmentation.load(out).save(tmp_path / "again")
    assert Segmentation.load(again).images[0].pixel_size == size
    pixels = ome_types.from_tiff(again / "memberships.tif").images[0].pixels
    assert [channel.name for channel in pixels.channels] == ["Zellkern & Rand", "<b>"]
    assert (pixels.physical_size_x, pixels.physical_size_x_unit.value) == (0.25, "µm")


def test_a_geotiff_holds_the_same_maps_in_tiles_with_names_nodata_and_place(stored, tiff):
    with rasterio.open(tiff.path) as file:
        assert file.profile["tiled"]
        assert (file.count, file.height, file.width) == (3, *SHAPE)
        assert file.descriptions == ("topic 1", "topic 2", "topic 3")
        assert np.isnan(file.nodata)
        assert tuple(file.transform)[:6] == PLACE.transform
        assert file.crs.to_epsg() == 32632
        np.testing.assert_array_equal(np.moveaxis(file.read(), 0, 2), stored.memberships[:])
    with tifffile.TiffFile(tiff.path) as file:
        assert file.pages[0].is_tiled
    for name in ("maps.tif", "maps-uncertainty.tif", "maps-documents.tif"):
        assert cog_validate(tiff.path.with_name(name), strict=True, quiet=True) == (True, [], [])
    names = sorted(path.name for path in tiff.path.parent.iterdir())
    assert names == [*BESIDE, "maps.tif"]


@pytest.mark.parametrize("kind", ["stored", "tiff"])
def test_a_result_tells_what_was_found(kind, request, placed):
    made = request.getfixturevalue(kind)
    for found in (made, Segmentation.load(made.path)):
        assert found.topics.shape == (3, len(found.feature_names))
        assert found.feature_names[:3] == ("red", "green", "blue")
        assert found.settings.block == 64
        assert set(found.timings) == {"documents", "features", "fit", "proportions", "maps"}
        assert "converged after" in found.verdict.sentence
        assert found.verdict.state == found.record["state"] == "converged"
        window = open_windowed(found.path).read(slice(60, 70), slice(30, 50))
        np.testing.assert_array_equal(window.pixels, found.memberships[60:70, 30:50])
        np.testing.assert_array_equal(window.valid, placed.valid[60:70, 30:50])
        assert window.georeference.transform[2] == 500_000.0 + 2.0 * 30
        assert found.memberships.shape == (*SHAPE, 3)


SLICES = {
    "all": np.s_[:],
    "a window": np.s_[45:85, 15:50],
    "every few": np.s_[3::7, ::10],
    "backwards": np.s_[::-1, 20:10:-3],
    "the end": np.s_[-5:, -7:],
    "a row": np.s_[60],
    "a column": np.s_[:, 30],
    "a pixel": np.s_[-1, 30],
    "a few rows": np.s_[[5, 99, 7]],
    "one axis more": np.s_[None, :9],
    "dots": np.s_[..., 1],
    "nothing": np.s_[10:10],
}


@pytest.mark.parametrize("name", ["memberships", "uncertainty", "labels", "documents"])
@pytest.mark.parametrize("key", SLICES.values(), ids=SLICES.keys())
def test_a_tiff_has_the_maps_of_the_zarr_however_they_are_sliced(name, key, stored, tiff):
    expected, lazy = np.asarray(getattr(stored, name)), getattr(tiff, name)
    assert (lazy.shape, lazy.ndim) == (expected.shape, expected.ndim)
    found = lazy[key]
    np.testing.assert_array_equal(found, expected[key])
    assert np.asarray(found).dtype.kind == expected.dtype.kind


def test_two_axes_take_two_indices(stored, tiff):
    for found in (stored.labels, tiff.labels, tiff.documents):
        assert found[..., 0].shape == SHAPE[:1]
        assert found[5, ..., 7].shape == ()
        with pytest.raises(IndexError, match="indices for an array"):
            found[0, 0, 0]


def test_a_tiff_has_the_transitions_of_the_zarr(stored, tiff):
    found = [np.asarray(each.transition(0.3, 0.5)) for each in (stored, tiff)]
    np.testing.assert_array_equal(*found)
    assert found[0].any()


def test_a_tiff_has_the_documents_of_the_zarr(stored, tiff, placed):
    np.testing.assert_array_equal(tiff.proportions, stored.proportions)
    np.testing.assert_array_equal(tiff.scales, stored.scales)
    assert tiff.proportions.shape == (tiff.record["documents"], 3)
    assert np.unique(tiff.documents[:]).tolist() == list(range(-1, len(tiff.scales)))
    with (tiff.path.parent / "maps-documents.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["document"]) for row in rows] == list(range(len(tiff.scales)))
    pixels = np.bincount(np.asarray(tiff.documents)[placed.valid])
    assert [int(row["pixels"]) for row in rows] == pixels.tolist()


def test_a_tiff_has_the_uncertainty_and_the_documents_in_their_place_beside_it(stored, tiff):
    for name in ("uncertainty", "documents"):
        with rasterio.open(tiff.path.with_name(f"maps-{name}.tif")) as file:
            assert (file.height, file.width) == SHAPE
            assert file.profile["tiled"]
            assert tuple(file.transform)[:6] == PLACE.transform
            assert file.crs.to_epsg() == 32632
            bands = np.moveaxis(file.read(), 0, 2)
            np.testing.assert_array_equal(bands.squeeze(), np.asarray(getattr(stored, name)))
            nodata = file.nodata
        assert np.isnan(nodata) if name == "uncertainty" else nodata == -1
    labels = read_labels(tiff.path.with_name("maps-documents.tif"))  # as another run takes them
    np.testing.assert_array_equal(labels, stored.documents[:])
    assert labels.dtype.kind == "i"


@pytest.mark.parametrize("kind", ["stored", "tiff"])
def test_a_result_is_drawn_and_saved_as_any_other(kind, request, placed, tmp_path):
    found = request.getfixturevalue(kind)
    assert len(found.plot().axes) > 4
    again = Segmentation.load(found.save(tmp_path / "folder"))
    np.testing.assert_array_equal(again.memberships, np.asarray(found.memberships))
    np.testing.assert_array_equal(again.documents, np.asarray(found.documents))
    np.testing.assert_array_equal(again.proportions, found.proportions)
    np.testing.assert_array_equal(again.images[0].valid, placed.valid)
    assert again.images[0].georeference.transform == PLACE.transform


# Every fourth row and column.
SMALL_OVERVIEW, STEP = 1500, 4


@pytest.mark.parametrize("name", ["maps.zarr", "maps.tif"])
def test_an_overview_holds_every_few_pixels_and_everything_else_all_of_them(
    name, placed, stored, tmp_path, monkeypatch
):
    monkeypatch.setattr(maps, "OVERVIEW_PIXELS", SMALL_OVERVIEW)
    found = segment(placed, 3, out=tmp_path / name, **CHOICES)
    small, few = found.overview(), np.s_[::STEP, ::STEP]
    np.testing.assert_allclose(small.memberships, np.asarray(found.memberships)[few], atol=1e-3)  # kept in float16
    np.testing.assert_array_equal(small.documents, np.asarray(found.documents)[few])
    np.testing.assert_array_equal(small.images[0].pixels, placed.pixels[few])
    np.testing.assert_array_equal(small.images[0].valid, placed.valid[few])
    np.testing.assert_array_equal(found.memberships[:], stored.memberships[:])
    np.testing.assert_array_equal(found.proportions, stored.proportions)
    about = found.record["pictures"][0]
    assert about["shape"] == [*SHAPE, 3]
    assert about["pixels_without_data"] == (~placed.valid).sum()
    again = Segmentation.load(found.save(tmp_path / "folder"))
    np.testing.assert_array_equal(again.memberships, np.asarray(found.memberships))
    seen = placed.valid[few]
    np.testing.assert_array_equal(again.images[0].pixels[few][seen], placed.pixels[few][seen])


def test_data_between_the_pixels_of_an_overview_get_maps_too(placed, tmp_path, monkeypatch):
    monkeypatch.setattr(maps, "OVERVIEW_PIXELS", SMALL_OVERVIEW)
    rare = np.zeros(SHAPE, bool)
    rare[1::STEP] = True  # which the overview does not see
    found = segment(placed._replace(valid=rare), 3, out=tmp_path / "maps.zarr", **CHOICES)
    np.testing.assert_array_equal(found.labels[:] >= 0, rare)
    assert len(found.plot().axes) > 4
    result = call("report", found.path)
    assert result.exit_code == 0, result.output


def test_superpixels_are_numbered_on_from_tile_to_tile(placed, tmp_path):
    """However many there are of them in a tile: here more than a tile has columns."""
    found = segment(placed, 3, out=tmp_path / "maps.zarr", documents="slic:600", features="color", block=64)
    labels, before = np.asarray(found.documents), 0
    assert found.record["tiles"] == 6
    for rows in (slice(0, 64), slice(64, None)):
        for columns in (slice(0, 64), slice(64, 128), slice(128, None)):
            tile = labels[rows, columns]
            numbers = np.unique(tile[tile >= 0])
            assert numbers.tolist() == list(range(before, before + len(numbers)))
            before += len(numbers)
    assert len(found.proportions) == found.record["documents"] == before
    assert found.recipe.model.proportions_.shape[0] == before  # topics are learnt from as many
    assert (labels[~placed.valid] == -1).all()


def test_the_record_tells_settings_seconds_and_what_happened(stored, placed):
    record = json.loads((stored.path / "run.json").read_text(encoding="utf-8"))
    assert record["settings"] | {"topics": 3} | CHOICES == record["settings"]
    assert (record["tiles"], record["tile"], record["documents"]) == (6, 64, 99)
    assert record["pixels_with_data"] == placed.valid.sum()
    assert all(seconds >= 0 for seconds in record["seconds"].values())
    assert [line["event"] for line in record["log"]] == ["begun", "workers", "maps are complete"]
    assert record["pictures"][0]["shape"] == [*SHAPE, 3]
    settings = (stored.path / "settings.toml").read_text(encoding="utf-8")
    assert "block = 64" in settings


@pytest.mark.parametrize("kind", ["stored", "tiff"])
def test_the_figure_is_a_picture_and_the_report_a_page(kind, request):
    made = request.getfixturevalue(kind)
    with Pillow.open(beside(made.path, "figure.png")) as figure:
        assert min(figure.size) > 300
        assert len(set(figure.convert("RGB").resize((40, 40)).get_flattened_data())) > 50
    page = beside(made.path, "report.html")
    assert "converged after" in page.read_text(encoding="utf-8")
    page.unlink()
    result = call("report", made.path)  # made again, from what is beside the maps
    assert result.exit_code == 0, result.output
    assert "converged after" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", ["stored", "tiff"])
def test_topics_apply_to_other_pictures(kind, request, tmp_path):
    made, other = request.getfixturevalue(kind), tmp_path / "other.png"
    Pillow.fromarray(scene(1)).save(other)
    for number, model in enumerate((beside(made.path, "model.pmlda"), made.path)):
        out = tmp_path / str(number)
        result = call("apply", model, other, "--out", out)
        assert result.exit_code == 0, result.output
        assert open_windowed(out / "memberships.tif").shape == (*SHAPE, 3)
        assert call("info", model, "--json").exit_code == 0


NEEDED = ["documents.csv", "model.pmlda", "overview.npz", "run.json"]


@pytest.mark.parametrize("damage", [0.0, 0.5, None], ids=["empty", "half", "missing"])
@pytest.mark.parametrize("name", [*NEEDED, "documents", "memberships", "uncertainty"])
@pytest.mark.parametrize("kind", ["stored", "tiff"])
def test_a_result_of_which_something_is_damaged_says_so_in_one_line(kind, name, damage, request, tmp_path):
    made = request.getfixturevalue(kind)
    place = Path(shutil.copytree(made.path.parent, tmp_path / "result"))
    out = place / made.path.name
    if name in NEEDED:
        file = beside(out, name)
    elif kind == "stored":
        file = out / name / "zarr.json"
    else:
        file = out if name == "memberships" else beside(out, f"{name}.tif")
    if damage is None:
        file.unlink()
    else:
        content = file.read_bytes()
        file.write_bytes(content[: int(damage * len(content))])
    assert refused(call("report", out), ""), call("report", out).output
    with pytest.raises((PmldaError, OSError)):
        Segmentation.load(out)
