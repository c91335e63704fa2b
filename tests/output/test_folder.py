"""The output folder is complete or not there, and what is in it can be read back."""

import json
import os
import shutil

import numpy as np
import pytest
from PIL import Image as Pillow

from pmlda import PMLDA, segment
from pmlda.errors import ModelFileError, OutputError
from pmlda.evaluation.scenes import smooth_scene
from pmlda.images import read_image, to_rgb
from pmlda.output import folder as output
from pmlda.output.places import MARK, check_folder
from pmlda.partitions import read_labels
from pmlda.pipeline.api import apply
from pmlda.recipe import load_recipe, model_facts
from pmlda.segmentation import Segmentation
from pmlda.settings import make_settings, read_settings
from pmlda.types import Georeference

FILES = {
    "picture.png",
    "memberships.tif",
    "uncertainty.tif",
    "documents.tif",
    "residual.tif",
    "novelty.tif",
    "documents.csv",
    "shares.csv",
    "topics.csv",
    "labels.png",
    "transition.png",
    "maps",
    "figure.png",
    "report.html",
    "model.pmlda",
    "run.json",
    "settings.toml",
    MARK,
}


@pytest.fixture(scope="module")
def found():
    return segment(smooth_scene(40, 56, 2, 0.04, 0)[0], 2, documents="windows:20")


@pytest.fixture(scope="module")
def saved(found, tmp_path_factory):
    return found.save(tmp_path_factory.mktemp("saved") / "out")


def test_a_folder_holds_everything(found, tmp_path):
    folder = found.save(tmp_path / "out")
    assert {file.name for file in folder.iterdir()} == FILES
    assert sorted(file.name for file in (folder / "maps").iterdir()) == [
        "mixed.png",
        "novelty.png",
        "residual.png",
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


def test_the_record_tells_what_was_done(found, saved):
    record = json.loads((saved / "run.json").read_text(encoding="utf-8"))
    assert record["settings"]["documents"] == "windows:20"
    assert set(record["seconds"]) == {"reading", "documents", "features", "fit", "proportions", "maps"}
    assert record["verdict"] == str(found.verdict)
    assert record["state"] == found.verdict.state == "converged"
    assert len(record["pictures"][0]["sha256"]) == 64
    assert record["versions"]["pmlda"]


def test_the_settings_file_reproduces_the_run(found, saved):
    settings = make_settings(read_settings(saved / "settings.toml")).model_dump()
    picture = smooth_scene(40, 56, 2, 0.04, 0)[0]
    again = segment(picture, settings.pop("topics"), random_state=settings.pop("seed"), **settings)
    np.testing.assert_array_equal(again.memberships, found.memberships)


def test_the_model_file_is_small_and_opens_both_ways(found, saved):
    file = saved / "model.pmlda"
    assert file.stat().st_size < 20_000
    np.testing.assert_array_equal(PMLDA.load(file).topic_means_, found.recipe.model.topic_means_)
    np.testing.assert_array_equal(load_recipe(file).order, found.recipe.order)


def test_a_model_without_its_picture_part_is_refused(found, tmp_path):
    found.recipe.model.save(tmp_path / "plain.pmlda")
    with pytest.raises(ModelFileError, match="how pixels become words"):
        load_recipe(tmp_path / "plain.pmlda")


def test_a_model_that_needs_a_function_asks_for_it_and_takes_it(tmp_path):
    def brightness(pixels):
        return pixels.mean(axis=2)

    picture = smooth_scene(30, 30, 2, 0.04, 0)[0]
    found = segment(picture, 2, features=brightness, documents="whole")
    file = found.save(tmp_path / "out") / "model.pmlda"
    with pytest.raises(ModelFileError, match=r"functions of yours, which are not saved: brightness.*functions="):
        load_recipe(file)
    again = apply(load_recipe(file, {"brightness": brightness}), picture)
    np.testing.assert_array_equal(again.memberships, found.apply(picture).memberships)


def assert_same(again, found):
    """Everything that a report shows; the picture in 8 bits, uncertainty in three digits."""
    for name in ("membership_maps", "document_maps"):
        for mine, theirs in zip(getattr(again, name), getattr(found, name), strict=True):
            np.testing.assert_array_equal(mine, theirs)
    for mine, theirs in zip(again.uncertainty_maps, found.uncertainty_maps, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-3, atol=1e-7)
    for name in ("proportions", "scales", "topics"):
        np.testing.assert_array_equal(getattr(again, name), getattr(found, name))
    for name in ("settings", "feature_names", "verdict", "several", "has_uncertainty"):
        assert getattr(again, name) == getattr(found, name)
    assert [(image.name, image.notes) for image in again.images] == [
        (image.name, image.notes) for image in found.images
    ]
    for mine, theirs in zip(again.images, found.images, strict=True):
        np.testing.assert_array_equal(to_rgb(mine), to_rgb(theirs))
        np.testing.assert_array_equal(mine.valid, theirs.valid)


def test_a_folder_becomes_the_segmentation_again(found, saved):
    assert_same(Segmentation.load(saved), found)


def test_so_do_pictures_with_holes_several_of_them_and_models_without_uncertainty(tmp_path):
    pictures = [np.float32(smooth_scene(30, 34, 2, 0.04, seed)[0]) for seed in (0, 1)]
    pictures[1][3:9, 4:12] = np.nan
    for model in ("pmlda", "kmeans"):
        found = segment(pictures, 2, model=model, documents="windows:15")
        assert_same(Segmentation.load(found.save(tmp_path / model)), found)


def test_an_applied_model_keeps_the_new_documents(found, tmp_path):
    applied = found.apply(smooth_scene(30, 61, 2, 0.04, 3)[0])
    assert_same(Segmentation.load(applied.save(tmp_path / "out")), applied)


def test_documents_can_be_given_to_another_run(found, saved):
    np.testing.assert_array_equal(read_labels(saved / "documents.tif"), found.documents)
    again = segment(smooth_scene(40, 56, 2, 0.04, 0)[0], 2, documents=str(saved / "documents.tif"))
    np.testing.assert_array_equal(again.memberships, found.memberships)


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda folder: (folder / "run.json").unlink(), "not a folder that `pmlda segment` wrote"),
        (lambda folder: (folder / "run.json").write_text("{", encoding="utf-8"), "not a folder that"),
        (lambda folder: (folder / "run.json").write_text("{}", encoding="utf-8"), "cannot be used"),
        (lambda folder: (folder / "picture.png").unlink(), r"picture\.png is missing"),
        (lambda folder: (folder / "memberships.tif").write_bytes(b"II*"), "cannot be used"),
        (lambda folder: (folder / "documents.csv").write_text("document\n0\n", encoding="utf-8"), "cannot be used"),
        (lambda folder: Pillow.new("RGB", (9, 9)).save(folder / "picture.png"), "several sizes"),
        (lambda folder: (folder / "model.pmlda").unlink(), "model"),
    ],
)
def test_a_spoilt_folder_is_refused_in_one_sentence(saved, tmp_path, spoil, says):
    folder = shutil.copytree(saved, tmp_path / "out")
    spoil(folder)
    with pytest.raises((OutputError, FileNotFoundError), match=says):
        Segmentation.load(folder)


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


def test_only_a_result_is_ever_replaced_and_only_when_asked(found, tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "thesis.txt").write_text("years of work", encoding="utf-8")
    with pytest.raises(OutputError, match="not empty"):
        found.save(folder)
    with pytest.raises(OutputError, match="not a result of pmlda"):
        found.save(folder, overwrite=True)
    (folder / "thesis.txt").rename(folder / "run.json")
    with pytest.raises(OutputError, match="not a result of pmlda"):
        found.save(folder, overwrite=True)
    assert (folder / "run.json").read_text(encoding="utf-8") == "years of work"


def test_what_a_user_put_into_a_result_is_not_lost_with_it(found, tmp_path):
    folder = found.save(tmp_path / "out")
    mine = folder / "maps" / "thesis.txt"
    mine.write_text("years of work", encoding="utf-8")
    with pytest.raises(OutputError, match=r"holds 'maps/thesis\.txt', which pmlda did not write"):
        found.save(folder, overwrite=True)
    assert mine.exists()
    mine.unlink()
    (folder / "memberships.tif.aux.xml").touch()  # GDAL writes it when somebody looks at the maps
    before = (folder / MARK).read_bytes()
    found.save(folder, overwrite=True)
    assert {file.name for file in folder.iterdir()} == FILES
    assert (folder / MARK).read_bytes() != before
    assert list(tmp_path.iterdir()) == [folder]


def test_what_appears_while_a_result_is_written_is_not_replaced(found, tmp_path, monkeypatch):
    folder, save_picture = tmp_path / "out", output.save_picture

    def late(*arguments):
        save_picture(*arguments)
        folder.mkdir(exist_ok=True)
        (folder / "thesis.txt").write_text("years of work", encoding="utf-8")

    monkeypatch.setattr(output, "save_picture", late)
    for overwrite in (False, True):
        with pytest.raises(OutputError, match=r"by another since|did not write|not a result"):
            found.save(folder, overwrite=overwrite)
        assert [path.name for path in folder.iterdir()] == ["thesis.txt"]
        assert list(tmp_path.iterdir()) == [folder]
        (folder / "thesis.txt").unlink()


def test_a_result_of_another_run_that_appears_meanwhile_is_not_replaced(found, saved, tmp_path, monkeypatch):
    """Although the user has allowed to replace the one that was there before."""
    folder, save_picture = found.save(tmp_path / "out"), output.save_picture

    def late(*arguments):
        save_picture(*arguments)
        shutil.rmtree(folder)
        shutil.copytree(saved, folder)

    monkeypatch.setattr(output, "save_picture", late)
    with pytest.raises(OutputError, match="by another since"):
        found.save(folder, overwrite=True)
    assert (folder / MARK).read_bytes() == (saved / MARK).read_bytes()


def test_a_result_is_not_replaced_by_what_is_made_of_it(saved, tmp_path, monkeypatch):
    with pytest.raises(OutputError, match=r"holds .*picture\.png"):
        check_folder(saved, overwrite=True, inputs=[saved / "picture.png"])
    monkeypatch.chdir(saved / "maps")
    with pytest.raises(OutputError, match="holds"):
        check_folder("..", overwrite=True)


def test_facts_of_a_model_are_those_of_the_maps(found, saved):
    facts = model_facts(saved / "model.pmlda")
    np.testing.assert_allclose(facts["topic_means"], found.topics)
    assert facts["features"] == ["red", "green", "blue"]
    assert (facts["cut"], facts["documents"], facts["words"]) == ("windows:20", 6, 40 * 56)


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
