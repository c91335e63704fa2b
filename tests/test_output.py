"""The output folder is complete or not there, and what is in it can be read back."""

import json
import os

import numpy as np
import pytest
from PIL import Image as Pillow

from pmlda import PMLDA, output, segment
from pmlda.config import make_settings, read_settings
from pmlda.files import ModelFileError
from pmlda.images import read_image
from pmlda.output import OutputError, load_chain
from pmlda.scenes import smooth_scene
from pmlda.types import Georeference

FILES = {
    "memberships.tif",
    "labels.png",
    "transition.png",
    "maps",
    "figure.png",
    "report.html",
    "model.pmlda",
    "run.json",
    "settings.toml",
}


@pytest.fixture(scope="module")
def found():
    return segment(smooth_scene(40, 56, 2, 0.04, 0)[0], 2, documents="windows:20")


def test_a_folder_holds_everything(found, tmp_path):
    folder = found.save(tmp_path / "out")
    assert {file.name for file in folder.iterdir()} == FILES
    assert sorted(file.name for file in (folder / "maps").iterdir()) == [
        "mixed.png",
        "topic-1.png",
        "topic-2.png",
        "uncertainty.png",
    ]
    assert list(tmp_path.iterdir()) == [folder]  # nothing half-written beside it
    maps = read_image(folder / "memberships.tif")
    np.testing.assert_array_equal(maps.pixels, found.memberships)
    assert maps.bands == ("topic 1", "topic 2")
    with Pillow.open(folder / "labels.png") as labels:
        assert labels.size == (56, 40)


def test_the_record_tells_what_was_done(found, tmp_path):
    record = json.loads((found.save(tmp_path / "out") / "run.json").read_text(encoding="utf-8"))
    assert record["settings"]["documents"] == "windows:20"
    assert set(record["seconds"]) == {"reading", "features", "documents", "fit", "maps"}
    assert record["verdict"] == found.verdict
    assert len(record["pictures"][0]["sha256"]) == 64
    assert record["versions"]["pmlda"]


def test_the_settings_file_reproduces_the_run(found, tmp_path):
    folder = found.save(tmp_path / "out")
    settings = make_settings(read_settings(folder / "settings.toml")).model_dump()
    picture = smooth_scene(40, 56, 2, 0.04, 0)[0]
    again = segment(picture, settings.pop("topics"), random_state=settings.pop("seed"), **settings)
    np.testing.assert_array_equal(again.memberships, found.memberships)


def test_the_model_file_is_small_and_opens_both_ways(found, tmp_path):
    file = found.save(tmp_path / "out") / "model.pmlda"
    assert file.stat().st_size < 20_000
    np.testing.assert_array_equal(PMLDA.load(file).topic_means_, found.chain.model.topic_means_)
    np.testing.assert_array_equal(load_chain(file).order, found.chain.order)


def test_a_model_without_its_picture_part_is_refused(found, tmp_path):
    found.chain.model.save(tmp_path / "plain.pmlda")
    with pytest.raises(ModelFileError, match="how pixels become words"):
        load_chain(tmp_path / "plain.pmlda")


def test_several_pictures_have_a_folder_each(tmp_path):
    pictures = [smooth_scene(30, 30, 2, 0.04, seed)[0] for seed in (0, 1)]
    folder = segment(pictures, 2, documents="whole").save(tmp_path / "out")
    inside = sorted(file.name for file in folder.iterdir() if file.is_dir())
    assert len(inside) == 2
    assert all((folder / name / "report.html").exists() for name in inside)


def test_georeference_and_missing_data_reach_the_maps(tmp_path):
    rasterio = pytest.importorskip("rasterio")
    picture = smooth_scene(30, 40, 2, 0.04, 0)[0]
    image = read_image(picture)
    valid = image.valid.copy()
    valid[:5] = False
    transform = (10.0, 0.0, 5e5, 0.0, -10.0, 4e6)
    wkt = rasterio.crs.CRS.from_epsg(32633).to_wkt()
    placed = image._replace(valid=valid, georeference=Georeference(wkt, transform))
    folder = segment(placed, 2, documents="whole").save(tmp_path / "out")
    with rasterio.open(folder / "memberships.tif") as written:
        assert written.crs.to_epsg() == 32633
        assert tuple(written.transform)[:6] == transform
        assert written.descriptions == ("topic 1", "topic 2")
        assert np.isnan(written.read()[:, :5]).all()


def test_a_full_folder_is_kept_unless_it_may_be_replaced(found, tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "thesis.txt").write_text("years of work", encoding="utf-8")
    with pytest.raises(OutputError, match="not empty"):
        found.save(folder)
    assert (folder / "thesis.txt").exists()
    found.save(folder, overwrite=True)
    assert {file.name for file in folder.iterdir()} == FILES
    assert list(tmp_path.iterdir()) == [folder]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(28, "No space left on device"), RuntimeError("?")])
def test_what_goes_wrong_while_writing_leaves_the_old_folder(found, tmp_path, monkeypatch, error):
    folder = found.save(tmp_path / "out")
    before = (folder / "run.json").read_bytes()

    def fail(*arguments, **settings):
        raise error

    monkeypatch.setattr(output, "save_picture", fail)
    expected = OutputError if isinstance(error, OSError) else type(error)
    with pytest.raises(expected):
        found.save(folder, overwrite=True)
    assert (folder / "run.json").read_bytes() == before
    assert list(tmp_path.iterdir()) == [folder]


def test_places_that_cannot_be_written_are_named(found, tmp_path):
    with pytest.raises(OutputError, match="does not exist"):
        found.save(tmp_path / "nowhere" / "out")
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(OutputError, match="is a file"):
        found.save(tmp_path / "file")
    if os.geteuid() != 0:  # nothing is forbidden to root
        locked = tmp_path / "locked"
        locked.mkdir(mode=0o500)
        with pytest.raises(OutputError, match="cannot be written"):
            found.save(locked / "out")
