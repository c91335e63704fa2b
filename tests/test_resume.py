"""`pmlda resume`: runs of `pmlda segment` that were killed, and what may have happened to their files since."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Pillow
from typer.testing import CliRunner

import pmlda
from pmlda import segment
from pmlda.cli import app
from pmlda.engines import variational_schedule as schedule
from pmlda.errors import RunError
from pmlda.evaluation.scenes import smooth_scene
from pmlda.pipeline.request import open_run
from pmlda.segmentation import Segmentation
from pmlda.storage.digest import digest
from tests.disks import small_files
from tests.stops import StoppedError, stop_after, watched

# Every pixel is visited, so that a sweep takes longer than a signal.
SETTINGS = ["-k", "2", "--documents", "windows:20", "--engine", "gibbs", "--set", "sweeps=60"]
SETTINGS += ["--set", "design_effect=1"]


def run(*arguments):
    """The exit code, and what was said of errors and the like."""
    done = CliRunner().invoke(app, [str(each) for each in arguments])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.stderr


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A picture, and in "whole" what a run without a break makes of it."""
    place = tmp_path_factory.mktemp("runs")
    Pillow.fromarray(smooth_scene(40, 60, 2, 0.2, 0)[0]).save(place / "scene.png")
    assert run("segment", place / "scene.png", *SETTINGS, "--out", place / "whole", "--json")[0] == 0
    return place


@pytest.fixture(scope="module")
def killed_run(place):
    """The folder of a run that was killed as soon as both of its chains had a checkpoint."""
    command = [sys.executable, "-m", "pmlda", "segment", str(place / "scene.png"), *SETTINGS, "--json"]
    process = subprocess.Popen([*command, "--checkpoint", "0.001", "--out", str(place / "maps")])
    kept = place / "maps.run" / "checkpoints"
    while not (list(kept.glob("chain-1-*.checkpoint")) and list(kept.glob("chain-2-*.checkpoint"))):
        assert process.poll() is None
        time.sleep(0.001)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    return place / "maps.run"


@pytest.fixture
def killed(killed_run, tmp_path):
    """A copy of it, beside the picture's own folder."""
    return Path(shutil.copytree(killed_run, tmp_path / "maps.run"))


def request_of(folder):
    opened, request = open_run(folder)
    with opened:
        return request


def same_maps(one, other):
    names = ("memberships.tif", "uncertainty.tif", "documents.csv", "labels.png", "figure.png")
    return all((one / name).read_bytes() == (other / name).read_bytes() for name in names)


@pytest.mark.parametrize("name", ["maps", "maps.run"])
def test_a_killed_run_goes_on_to_the_same_maps(killed, place, name):
    assert run("resume", killed.with_name(name), "--json")[0] == 0
    assert same_maps(killed.with_name("maps"), place / "whole")
    assert [path.name for path in killed.parent.iterdir()] == ["maps"]
    code, said = run("resume", killed)
    assert (code, said.count("\n")) == (2, 1)
    assert "maps' is complete" in said


def test_a_run_that_was_killed_before_its_first_checkpoint_starts_again(killed, place):
    shutil.rmtree(killed / "checkpoints")
    assert run("resume", killed, "--json", "--jobs", 1)[0] == 0
    assert same_maps(killed.with_name("maps"), place / "whole")


def test_a_run_that_was_killed_after_its_last_file_only_tidies_up(killed, place):
    shutil.copytree(place / "whole", killed.with_name("maps"))
    record = json.loads((place / "whole" / "run.json").read_text())
    (killed.with_name("maps") / "run.json").write_text(json.dumps(record | {"run": request_of(killed).id}))
    (killed / "checkpoints" / "lock").unlink()
    assert run("resume", killed, "--json") == (0, "")
    assert [path.name for path in killed.parent.iterdir()] == ["maps"]


def test_the_result_of_another_run_is_not_replaced(killed, place):
    """The same picture, settings and maps, and written after the run was begun: what tells is the id of the run."""
    shutil.copytree(place / "whole", killed.with_name("maps"))
    code, said = run("resume", killed)
    assert code == 2
    assert "maps' was written by another since this run was begun" in said
    assert killed.is_dir()


def test_a_picture_that_has_changed_is_refused(killed, tmp_path):
    changed = tmp_path / "scene.png"
    request = request_of(killed)
    pixels = np.array(Pillow.open(request.images[0]))
    pixels[3, 4, 0] ^= 1
    Pillow.fromarray(pixels).save(changed)
    request = request.model_copy(update={"images": [str(changed)]})
    (killed / "request.json").write_text(json.dumps(request.sealed()))
    code, said = run("resume", killed, "--json")
    assert (code, said.count("\n")) == (2, 1)
    assert "the picture or its mask has changed" in said
    assert f"Give the same again ({str(changed)!r})" in said
    assert killed.is_dir()
    changed.unlink()
    assert run("resume", killed, "--json")[0] == 2
    assert killed.is_dir()


# ── runs of segment(out=FOLDER) ────────────────────────────────────────────────────────────────────────────────────
SHORT = {"documents": "windows:20", "engine": "gibbs", "sweeps": 12, "checkpoint": 0.0001}


def grey(pixels):
    return pixels.mean(axis=2)


def stop(monkeypatch, picture, out, **arguments):
    """The folder of a run that was stopped while it sampled, with checkpoints."""
    with watched(monkeypatch, stop_after(8, sampling=arguments["engine"] == "gibbs")), pytest.raises(StoppedError):
        segment(picture, 2, out=out, **arguments)
    return out.with_name(out.name + ".run")


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("given", "has_checkpoints"),
    [("picture", True), ("picture", False), ("mask", True), ("documents", False), ("features", True)],
)
def test_an_array_or_a_function_is_asked_for_again(place, tmp_path, monkeypatch, given, has_checkpoints):
    """The folder of the run does not know them, and must not compute something else instead."""
    pixels = np.array(Pillow.open(place / "scene.png"))
    labels, mask = np.arange(40)[:, None] // 8 * np.ones((1, 60), int), np.ones((40, 60), bool)
    mask[:4] = False
    picture = pixels if given == "picture" else place / "scene.png"
    of_kind = {"mask": mask, "documents": labels, "features": grey}
    arguments = SHORT | ({given: of_kind[given]} if given in of_kind else {})
    whole = segment(picture, 2, **arguments | {"checkpoint": None})
    folder = stop(monkeypatch, picture, tmp_path / "maps", **arguments)
    if not has_checkpoints:
        shutil.rmtree(folder / "checkpoints")
    with pytest.raises(RunError, match=r"cannot find again. Resume it in Python: .*resume=True"):
        pmlda.resume(tmp_path / "maps")
    found = segment(picture, 2, out=tmp_path / "maps", resume=True, **arguments)
    np.testing.assert_array_equal(found.memberships, whole.memberships)
    assert [path.name for path in tmp_path.iterdir()] == ["maps"]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("n_pictures", [1, 2])
def test_every_picture_of_a_list_has_its_own_mask_again(place, tmp_path, monkeypatch, n_pictures):
    pixels = np.full((40, 60), 255, np.uint8)
    pixels[:4] = 0
    Pillow.fromarray(pixels).save(tmp_path / "mask.png")
    pictures, masks = [place / "scene.png"] * n_pictures, [tmp_path / "mask.png", None][:n_pictures]
    whole = segment(pictures, 2, mask=masks, **SHORT | {"checkpoint": None})
    stop(monkeypatch, pictures, tmp_path / "maps", mask=masks, **SHORT)
    found = pmlda.resume(tmp_path / "maps")
    assert len(found.memberships) == n_pictures
    for one, other in zip(found.memberships, whole.memberships, strict=True):
        np.testing.assert_array_equal(one, other)
    assert sum(path.is_dir() for path in (tmp_path / "maps").iterdir()) == n_pictures


def test_the_seconds_between_checkpoints_need_not_be_given_again(place, tmp_path, monkeypatch):
    arguments = {"documents": "windows:20", "engine": "variational", "covariance": "isotropic"}
    whole = segment(place / "scene.png", 2, **arguments)
    stop(monkeypatch, place / "scene.png", tmp_path / "maps", checkpoint=0.0001, **arguments)
    found = segment(place / "scene.png", 2, out=tmp_path / "maps", resume=True, **arguments)
    np.testing.assert_array_equal(found.memberships, whole.memberships)


# ── what may have happened to the folder of a run ──────────────────────────────────────────────────────────────────
DAMAGED = r"request\.json.* damaged.* Remove the folder"
REQUESTS = {
    "half": "{",
    "a list": "[]",
    "without a seal": '{"images": []}',
    "of something else": json.dumps({"kind": "film", "sha256": digest({"kind": "film"})}),
}


@pytest.mark.parametrize("text", REQUESTS.values(), ids=REQUESTS.keys())
def test_a_request_that_cannot_be_used_is_one_line(killed, text):
    (killed / "request.json").write_text(text)
    code, said = run("resume", killed)
    assert (code, said.count("\n")) == (2, 1)
    assert re.search(DAMAGED, said)


def test_a_request_that_was_changed_is_refused_whatever_was_changed(killed, place):
    asked = json.loads((killed / "request.json").read_text())
    changes = {"settings": asked["settings"] | {"seed": 1}, "images": [str(place / "other.png")], "replaces": "0"}
    for name, value in changes.items():
        assert asked[name] != value
        (killed / "request.json").write_text(json.dumps(asked | {name: value}))
        code, said = run("resume", killed)
        assert (code, said.count("\n")) == (2, 1)
        assert re.search(DAMAGED, said)


def test_two_cannot_resume_one_run_and_none_can_begin_another(killed, place):
    with open_run(killed)[0]:
        for ask in (("resume", killed), ("segment", place / "scene.png", *SETTINGS, "--out", killed.with_name("maps"))):
            code, said = run(*ask)
            assert code == 2
            assert f"Another process (number {os.getpid()}) is at work in" in said
    code, said = run("segment", place / "scene.png", *SETTINGS, "--out", killed.with_name("maps"))
    assert code == 2
    assert "was not finished" in said
    assert f"pmlda resume {str(killed.with_name('maps'))!r}" in said


@pytest.fixture
def ctrl_c():
    """Ctrl-C as in a terminal, even where tests run in the background and ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def press_in(wanted, sweep):
    """A watch in which Ctrl-C is pressed in this sweep of a stage or chain."""

    def press(stage, count):
        if stage == wanted and count == sweep:
            os.kill(os.getpid(), signal.SIGINT)

    return press


def press_in_both_chains(sweep):
    """A watch in which Ctrl-C is pressed once the slower of two chains has come to this sweep."""
    done, once = {"chain 1": 0, "chain 2": 0}, threading.Lock()

    def press(stage, count):
        if stage in done:
            done[stage] = count
            if min(done.values()) >= sweep and once.acquire(blocking=False):
                os.kill(os.getpid(), signal.SIGINT)

    return press


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_before_the_first_checkpoint_leaves_nothing(place, tmp_path, monkeypatch):
    with watched(monkeypatch, press_in(schedule.STARTS, 1)):
        code, said = run("segment", place / "scene.png", *SETTINGS, "--out", tmp_path / "maps", "--json")
    assert (code, said.count("\n")) == (130, 1)
    assert said.endswith("nothing was written.\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_before_there_is_a_draw_keeps_the_checkpoints(place, tmp_path, monkeypatch):
    out = tmp_path / "maps"
    with watched(monkeypatch, press_in("chain 1", 5)):
        code, said = run("segment", place / "scene.png", *SETTINGS, "--out", out, "--json")
    assert (code, said.count("\n")) == (130, 1)
    assert said.endswith(f"resume with: pmlda resume {str(out)!r}\n")
    assert [path.name for path in tmp_path.iterdir()] == ["maps.run"]
    assert run("resume", out, "--json")[0] == 0
    assert same_maps(out, place / "whole")


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_keeps_what_was_found_and_the_run_can_be_resumed(place, tmp_path, monkeypatch):
    out = tmp_path / "maps"
    with watched(monkeypatch, press_in_both_chains(35)):
        code, said = run("segment", place / "scene.png", *SETTINGS, "--out", out, "--json")
    assert code == 130
    assert said.endswith(f"The fit was interrupted; resume with: pmlda resume {str(out)!r}\n")
    assert Segmentation.load(out).interrupted
    assert run("resume", out, "--json")[0] == 0
    assert same_maps(out, place / "whole")


def test_a_variational_run_keeps_checkpoints_if_asked_and_other_models_have_none(place, tmp_path):
    picture, out = place / "scene.png", tmp_path / "maps"
    assert run("segment", picture, "-k", 2, "--out", tmp_path / "plain", "--json")[0] == 0
    assert run("segment", picture, "-k", 2, "--checkpoint", 0.001, "--out", out, "--json")[0] == 0
    assert same_maps(out, tmp_path / "plain")
    code, said = run("segment", picture, "--model", "fcm", "--checkpoint", 1, "--out", tmp_path / "fuzzy", "--json")
    assert (code, said.count("\n")) == (2, 1)
    assert "Model 'fcm' keeps no checkpoints" in said
    assert {path.name for path in tmp_path.iterdir()} == {"plain", "maps"}


def test_a_full_disk_leaves_a_run_that_can_be_resumed(killed, place):
    out = killed.with_name("maps")
    with small_files(9000):
        code, said = run("resume", killed, "--json")
    assert code == 2
    last = said.splitlines()[-1]
    assert "could not be written: File too large. What was done is kept; resume with: pmlda resume" in last
    assert [path.name for path in killed.parent.iterdir()] == ["maps.run"]
    assert run("resume", killed, "--json")[0] == 0
    assert same_maps(out, place / "whole")
