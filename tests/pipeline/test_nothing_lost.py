"""Nothing but the result of a run is ever written, whatever lies where it writes and whoever made its folder."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import zarr

from pmlda.errors import ChangedPictureError
from pmlda.pipeline.request import open_run
from pmlda.recipe import load_recipe, save_recipe
from pmlda.segmentation import Segmentation
from pmlda.storage import account, archive
from pmlda.storage.run_folder import run_folder
from tests.disks import read_only_folder
from tests.pipeline.common import OPTIONS, bits, files_of, scene, write_scene
from tests.pipeline.test_damage import call, refused, stopped_at, when


def content_of(folder):
    """Every file in a folder, by name."""
    return {name: (folder / name).read_bytes() for name in files_of(folder)}


# ── inputs, and what lies beside a result ──────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("overwrite", [[], ["--overwrite"]])
def test_a_picture_with_the_name_of_an_output_is_not_replaced(picture, tmp_path, overwrite):
    mine = Path(shutil.copyfile(picture, tmp_path / "maps-figure.png"))
    before = content_of(tmp_path)
    result = call("segment", mine, *OPTIONS, "--out", tmp_path / "maps.tif", *overwrite)
    assert refused(result, "maps-figure.png' would be replaced, and it is read")
    assert content_of(tmp_path) == before


def test_a_picture_through_a_link_or_in_capitals_is_the_same_picture(picture, tmp_path):
    shutil.copyfile(picture, tmp_path / "maps-figure.png")
    (tmp_path / "photo.png").symlink_to("maps-figure.png")
    result = call("segment", tmp_path / "photo.png", *OPTIONS, "--out", tmp_path / "maps.tif", "--overwrite")
    assert refused(result, "would be replaced, and it is read")


def test_settings_and_masks_are_inputs_too(picture, tmp_path):
    (tmp_path / "maps-settings.toml").write_text("topics = 3\n")
    result = call(
        "segment", picture, "--settings", tmp_path / "maps-settings.toml", "--out", tmp_path / "maps.tif", "--overwrite"
    )
    assert refused(result, "maps-settings.toml' would be replaced, and it is read")
    mask = Path(shutil.copyfile(picture, tmp_path / "maps-documents.tif"))
    (tmp_path / "maps-settings.toml").unlink()
    result = call("segment", picture, "--mask", mask, "--out", tmp_path / "maps.tif", "--overwrite")
    assert refused(result, "maps-documents.tif' would be replaced, and it is read") or refused(result, "cannot be read")
    assert mask.read_bytes() == picture.read_bytes()


@pytest.mark.parametrize("name", ["maps.tif", "maps-run.json", "maps-model.pmlda", "maps-settings.toml"])
@pytest.mark.parametrize("overwrite", [[], ["--overwrite"]])
def test_a_file_that_pmlda_did_not_write_is_not_replaced(picture, tmp_path, name, overwrite):
    (tmp_path / name).write_text("mine")
    result = call("segment", picture, *OPTIONS, "--out", tmp_path / "maps.tif", *overwrite)
    assert refused(result, "not part of a result of pmlda" if overwrite else "exists already")
    assert content_of(tmp_path) == {name: b"mine"}


def test_maps_are_not_written_into_the_picture(tmp_path):
    source = tmp_path / "survey.zarr"
    zarr.create_array(source, data=scene(), chunks=(64, 64, 3))
    before = content_of(source)
    for out in (source / "maps.zarr", source / "maps.tif", source / "maps"):
        assert refused(call("segment", source, *OPTIONS, "--out", out), "would lie inside")
    assert content_of(source) == before


def test_a_tiff_that_pmlda_wrote_is_replaced_when_asked(picture, tmp_path):
    out = tmp_path / "maps.tif"
    command = ("segment", picture, *OPTIONS, "--out", out)
    assert call(*command).exit_code == 0
    before = content_of(tmp_path)
    assert refused(call(*command), "exists already")
    assert content_of(tmp_path) == before
    assert call(*command, "--set", "topics=2", "--overwrite").exit_code == 0
    assert files_of(tmp_path) == sorted(before)
    assert Segmentation.load(out).memberships.shape[2] == 2


# ── a picture that changes ─────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("name", ["maps.zarr", "maps.tif"])
@pytest.mark.parametrize("stage", ["documents", "maps"])
def test_a_picture_that_is_replaced_in_mid_run_gets_no_maps(tmp_path, name, stage):
    source = write_scene(tmp_path)
    (tmp_path / "other").mkdir()
    other = write_scene(tmp_path / "other", seed=1)
    with when(stage, 3, lambda: other.replace(source)):
        result = call("segment", source, *OPTIONS, "--out", tmp_path / name, "--jobs", 1)
    assert refused(result, "was changed while it was read"), result.output
    assert files_of(tmp_path) == ["scene.png"]


def test_a_store_that_is_written_to_in_mid_run_gets_no_maps(tmp_path):
    source = tmp_path / "survey.zarr"
    zarr.create_array(source, data=scene(), chunks=(64, 64, 3))

    def write():
        zarr.open_array(source, mode="r+")[:64, :64] = np.uint8(7)

    with when("maps", 3, write):
        result = call("segment", source, *OPTIONS, "--out", tmp_path / "maps.zarr", "--jobs", 1)
    assert refused(result, "was changed while it was read"), result.output
    assert [path.name for path in tmp_path.iterdir()] == ["survey.zarr"]


def test_an_error_of_a_changed_picture_survives_the_way_from_a_worker():
    import pickle

    assert isinstance(pickle.loads(pickle.dumps(ChangedPictureError("changed"))), ChangedPictureError)


# ── folders from somebody else ─────────────────────────────────────────────────────────────────────────────────────
@pytest.fixture(scope="module")
def half(picture, tmp_path_factory):
    """A run that was stopped when three of six tiles had their maps."""
    folder = tmp_path_factory.mktemp("half")
    with stopped_at("maps", 3):
        assert call("segment", picture, *OPTIONS, "--out", folder / "maps.zarr", "--jobs", 1).exit_code == 130
    return folder / "maps.zarr.run"


LINKS = ["lock", "log.jsonl", "request.json", "model.pmlda", "begun", "parts/survey/0000/0000000.pmlda"]
FOLDER_LINKS = ["maps.zarr", "maps.zarr/labels", "parts", "parts/maps", "checkpoints"]


# Hard links count where files are written in place; all others are only read, or replaced by another file.
CASES = [("symbolic", name) for name in LINKS] + [("hard", name) for name in LINKS[:2]] + [("fifo", LINKS[2])]


@pytest.mark.parametrize(("link", "name"), CASES)
def test_no_file_of_a_run_is_a_link(half, tmp_path, link, name):
    run = Path(shutil.copytree(half, tmp_path / "maps.zarr.run"))
    canary = tmp_path / "canary"
    canary.write_bytes((run / name).read_bytes() if (run / name).exists() else b"mine")
    (run / name).unlink(missing_ok=True)
    make = {"symbolic": os.symlink, "hard": os.link, "fifo": lambda _, path: os.mkfifo(path)}[link]
    make(canary, run / name)
    before = canary.read_bytes()
    assert refused(call("resume", run), "is a link, or no ordinary file")
    assert canary.read_bytes() == before


@pytest.mark.parametrize("name", FOLDER_LINKS)
def test_no_folder_of_a_run_is_a_link(half, tmp_path, name):
    run = Path(shutil.copytree(half, tmp_path / "maps.zarr.run"))
    mine = tmp_path / "mine"
    mine.mkdir()
    for file in ("half.partial", ".notes-0123abcd.part"):
        (mine / file).write_text("mine")
    if (run / name).exists():
        shutil.rmtree(run / name)
    (run / name).symlink_to(mine)
    assert refused(call("resume", run), "is a link, or no ordinary file")
    assert content_of(mine) == {"half.partial": b"mine", ".notes-0123abcd.part": b"mine"}


def test_a_run_folder_that_is_a_link_is_not_used(half, tmp_path):
    shutil.copytree(half, tmp_path / "elsewhere")
    (tmp_path / "maps.zarr.run").symlink_to("elsewhere")
    before = content_of(tmp_path / "elsewhere")
    assert refused(call("resume", tmp_path / "maps.zarr"), "is a link")
    assert content_of(tmp_path / "elsewhere") == before


def test_nothing_is_written_to_a_run_whose_request_cannot_be_used(half, tmp_path):
    run = Path(shutil.copytree(half, tmp_path / "maps.zarr.run"))
    (run / "request.json").write_text('{"images": []}')
    before = content_of(run)
    assert refused(call("resume", run), "request.json is missing or damaged")
    assert content_of(run) == before


def test_the_lock_of_a_checkpoint_folder_is_no_link(picture, tmp_path):
    from pmlda import segment

    (tmp_path / "canary").write_text("mine")
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "lock").symlink_to(tmp_path / "canary")
    with pytest.raises(ValueError, match="holds other things than checkpoints"):
        segment(picture, 2, engine="gibbs", checkpoint=tmp_path / "kept")
    assert (tmp_path / "canary").read_text() == "mine"


def sign_again(part, key, change):
    """Another content in a file of a run, signed with this key."""
    content = archive.load(part, archive.PART)
    change(content)
    with part.open("wb") as stream:
        archive.write(stream, content, archive.PART, key=key)


def test_parts_that_somebody_has_forged_are_made_again(half, tmp_path, expected):
    run = Path(shutil.copytree(half, tmp_path / "maps.zarr.run"))

    def mislead(content):
        content["labels"] = [np.full_like(labels, 30_000) for labels in content["labels"]]

    for part in (run / "parts" / "survey").rglob("*.pmlda"):
        sign_again(part, b"not the key", mislead)
    recipe = load_recipe(run / "model.pmlda")
    recipe.model.topic_means_[:] = 0.0
    save_recipe(run / "model.pmlda", recipe)
    assert call("resume", run).exit_code == 0
    assert bits(run.with_name("maps.zarr")) == expected


def test_a_run_of_another_account_is_computed_again(half, tmp_path, expected, monkeypatch):
    run = Path(shutil.copytree(half, tmp_path / "maps.zarr.run"))
    monkeypatch.setattr(account, "_secret", lambda: b"another account")
    result = call("resume", run)
    assert result.exit_code == 0, result.output
    assert "begun by another account or on another machine" in result.stderr
    assert bits(run.with_name("maps.zarr")) == expected


def test_a_secret_is_made_once_and_is_nobody_elses(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    account._secret.cache_clear()
    try:
        secret = account._secret()
        assert len(secret) == account.LENGTH
        assert account.secret_path().stat().st_mode & 0o777 == 0o600
        account._secret.cache_clear()
        assert account._secret() == secret
        with read_only_folder(tmp_path / "place") as place:
            monkeypatch.setenv("XDG_STATE_HOME", str(place))
            account._secret.cache_clear()
            assert account._secret() == b""
    finally:
        monkeypatch.undo()
        account._secret.cache_clear()


# ── what is replaced when a run goes on ────────────────────────────────────────────────────────────────────────────
@pytest.fixture
def overwriting(picture, whole, tmp_path):
    """A run that was to replace an earlier result, and was stopped."""
    out = Path(shutil.copytree(whole, tmp_path / "maps.zarr"))
    with stopped_at("maps", 3):
        stopped = call("segment", picture, *OPTIONS, "--set", "seed=1", "--out", out, "--overwrite", "--jobs", 1)
    assert stopped.exit_code == 130
    return out


def test_a_run_that_replaces_a_result_does_so_when_it_goes_on(overwriting, expected):
    assert bits(overwriting) == expected
    assert call("resume", overwriting).exit_code == 0
    assert bits(overwriting) != expected
    assert os.listdir(overwriting.parent) == ["maps.zarr"]


def test_maps_that_were_lost_are_made_again_and_the_old_result_is_not_taken_for_the_new(overwriting, expected):
    shutil.rmtree(run_folder(overwriting) / "maps.zarr")
    assert call("resume", overwriting).exit_code == 0
    assert json.loads((overwriting / "run.json").read_text())["settings"]["seed"] == 1
    assert bits(overwriting) != expected


@pytest.mark.parametrize("what", ["unrelated", "another result"])
def test_what_took_the_place_of_a_result_is_not_replaced_for_it(overwriting, whole, what):
    """The user allowed to replace the one that was there, and no other."""
    shutil.rmtree(overwriting)
    if what == "unrelated":
        overwriting.mkdir()
        (overwriting / "thesis.txt").write_text("years of work")
    else:
        shutil.copytree(whole, overwriting)
        (overwriting / ".pmlda-files.json").write_text(
            (whole / ".pmlda-files.json").read_text().replace('"id": "', '"id": "other')
        )
    before = content_of(overwriting)
    said = refused(call("resume", overwriting), "not a result of pmlda" if what == "unrelated" else "by another since")
    assert said
    assert content_of(overwriting) == before
    assert run_folder(overwriting).is_dir()


def test_a_file_that_appeared_beside_a_tiff_is_not_replaced(picture, tmp_path):
    out = tmp_path / "maps.tif"
    with stopped_at("maps", 6):
        assert call("segment", picture, *OPTIONS, "--out", out).exit_code == 130
    (tmp_path / "maps-report.html").write_text("mine")
    assert refused(call("resume", out), "maps-report.html' was written by another since")
    assert (tmp_path / "maps-report.html").read_text() == "mine"
    assert sorted(os.listdir(tmp_path)) == ["maps-report.html", "maps.tif.run"]
    (tmp_path / "maps-report.html").unlink()
    assert call("resume", out).exit_code == 0


def test_a_second_run_is_told_which_process_is_at_work(half, tmp_path, picture):
    run = Path(shutil.copytree(half, tmp_path / "maps.zarr.run"))
    with open_run(run)[0]:
        result = call("segment", picture, *OPTIONS, "--out", tmp_path / "maps.zarr")
        assert refused(result, f"Another process (number {os.getpid()}) is at work in")
        assert "removing" not in result.stderr
