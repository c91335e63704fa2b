"""Whatever happens to the files of a run that was stopped, it comes to the same bits, or says in one line why not."""

import json
import random
import shutil
from contextlib import contextmanager

import numpy as np
import pytest
from typer.testing import CliRunner

from pmlda import segment
from pmlda.cli import app
from pmlda.errors import RunError
from pmlda.images.zarrs import MAPS
from pmlda.pipeline import tiled
from pmlda.pipeline.request import open_run
from pmlda.segmentation import Segmentation
from pmlda.storage.run_folder import RunFolder
from tests.disks import disk, fill, small_files
from tests.pipeline.common import CHOICES, OPTIONS, bits, write_scene


def call(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def refused(result, says):
    """Whether a command said one line and ended with exit code 2."""
    line = result.stderr.strip()
    return result.exit_code == 2 and says in line and line.startswith("Error: ") and "\n" not in line


@contextmanager
def stopped_at(wanted, count):
    """Ctrl-C when so many tiles of a stage are done."""

    def interrupt():
        raise KeyboardInterrupt

    with when(wanted, count, interrupt):
        yield


@contextmanager
def when(wanted, count, act):
    """Something happens when so many tiles of a stage are done."""

    @contextmanager
    def shown(verbose):
        def report(stage, done, total, **values):
            if (stage, done) == (wanted, count):
                act()

        yield report

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiled, "shown", shown)
        yield


@pytest.fixture(scope="module")
def half(picture, tmp_path_factory):
    """A run that was stopped when three of six tiles had their maps."""
    folder = tmp_path_factory.mktemp("half")
    with stopped_at("maps", 3):
        result = call("segment", picture, *OPTIONS, "--out", folder / "maps.zarr", "--jobs", 1)
    assert result.exit_code == 130
    assert result.stderr.endswith(f"What was done is kept; resume with: pmlda resume {str(folder / 'maps.zarr')!r}\n")
    return folder / "maps.zarr.run"


@pytest.fixture
def run(half, tmp_path):
    """The same, to be damaged."""
    shutil.copytree(half, tmp_path / "maps.zarr.run")
    return tmp_path / "maps.zarr.run"


def goes_on(run, expected):
    """Whether the run comes to its end, to the right bits, and leaves nothing else behind."""
    out = run.with_name("maps.zarr")
    result = call("resume", out)
    assert result.exit_code == 0, result.output
    return bits(out) == expected and [path.name for path in run.parent.iterdir()] == ["maps.zarr"]


def found_in(out):
    """Maps and documents, wherever they are."""
    found = Segmentation.load(out)
    maps = {name: np.asarray(getattr(found, name)[:], np.float64).tobytes() for name in FOUND}
    return maps | {"proportions": found.proportions.tobytes(), "scales": found.scales.tobytes()}


def flip(file):
    """One bit is not what it was."""
    data = bytearray(file.read_bytes())
    data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    file.write_bytes(data)


def cut(file):
    """The end is lost."""
    data = file.read_bytes()
    file.write_bytes(data[: random.randrange(len(data))])


def remove(file):
    file.unlink()


def parts(stage):
    return lambda run: sorted((run / "parts" / stage).rglob("*.pmlda"))


def chunks(name):
    return lambda run: sorted(file for file in (run / "maps.zarr" / name / "c").rglob("*") if file.is_file())


def every_part(run):
    return sorted((run / "parts").rglob("*.pmlda"))


def about_maps(run):
    """All files of the group that are not maps."""
    return sorted((run / "maps.zarr").rglob("zarr.json")) + chunks("c")(run)


FOUND = ("memberships", "uncertainty", "labels", "documents")
STAGES = ("survey", "sample", "documents", "maps")
FIRST_PARTS = "one part of every stage"
DAMAGED = {
    "all parts": every_part,
    FIRST_PARTS: lambda run: [parts(stage)(run)[0] for stage in STAGES],
    "model": lambda run: [run / "model.pmlda"],
    "maps": lambda run: [chunks(name)(run)[0] for name in MAPS],
    "what is told of maps": about_maps,
    "log": lambda run: [run / "log.jsonl"],
}
CASES = [(flip, which) for which in DAMAGED]
CASES += [(cut, FIRST_PARTS), (cut, "maps"), (remove, "all parts"), (remove, "model"), (remove, "what is told of maps")]


@pytest.mark.parametrize(("damage", "which"), CASES)
def test_what_was_damaged_is_made_again(run, expected, damage, which):
    files = DAMAGED[which](run)
    assert files
    for file in files:
        damage(file)
    assert goes_on(run, expected)


def test_a_request_of_which_any_bit_has_changed_is_refused_and_everything_stays(run):
    file = run / "request.json"
    right = file.read_bytes()
    for _ in range(20):
        flip(file)
        result = call("resume", run)
        if json_or_none(file) == json.loads(right):  # only how it is spelt
            continue
        assert refused(result, "Remove the folder and start again"), result.output
        assert "damaged" in result.stderr
        assert run.is_dir()
        assert not run.with_name("maps.zarr").exists()
        file.write_bytes(right)


def json_or_none(file):
    try:
        return json.loads(file.read_bytes())
    except ValueError:
        return None


def test_a_run_that_is_at_work_is_left_alone(run, expected):
    with open_run(run)[0]:
        assert refused(call("resume", run), "Another process")
        assert refused(call("segment", "scene.png", "--out", run.with_name("maps.zarr")), "scene.png")
    assert goes_on(run, expected)


def test_a_new_run_does_not_touch_one_that_can_go_on(picture, run, expected):
    result = call("segment", picture, *OPTIONS, "--out", run.with_name("maps.zarr"), "--overwrite")
    assert refused(result, "was not finished. Resume it: pmlda resume")
    assert goes_on(run, expected)


def test_another_picture_under_the_same_name_is_refused(tmp_path):
    picture, out = write_scene(tmp_path), tmp_path / "maps.zarr"
    with stopped_at("maps", 1):
        assert call("segment", picture, *OPTIONS, "--out", out).exit_code == 130
    write_scene(tmp_path, seed=1)
    assert refused(call("resume", out), "the picture or its mask has changed")
    picture.unlink()
    assert refused(call("resume", out), "scene.png")
    assert (tmp_path / "maps.zarr.run" / "model.pmlda").exists()


def test_other_settings_are_refused_and_the_same_ones_go_on(picture, run, expected):
    out = run.with_name("maps.zarr")
    for other in ({"blend": 0.0}, {"random_state": 1}, {"block": 128}, {"documents": "whole"}):
        with pytest.raises(RunError, match="settings are not the same"):
            segment(picture, 3, out=out, resume=True, **CHOICES | other)
    segment(picture, 3, out=out, resume=True, n_jobs=1, **CHOICES)
    assert bits(out) == expected
    with pytest.raises(RunError, match="is complete"):
        segment(picture, 3, out=out, resume=True, **CHOICES)


def cut_short(*arguments):
    raise KeyboardInterrupt


def test_a_run_that_was_killed_when_its_maps_had_their_name_is_tidied_up(run, expected, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "remove", cut_short)
        assert call("resume", run).exit_code == 130
    assert bits(run.with_name("maps.zarr")) == expected
    assert run.exists()
    assert goes_on(run, expected)


@pytest.mark.parametrize("name", ["maps.zarr", "maps.tif"])
def test_what_somebody_else_has_written_meanwhile_is_not_taken_for_the_result(name, picture, whole, expected, tmp_path):
    """It stays, and so does the run."""
    out, other = tmp_path / name, whole if name == "maps.zarr" else whole / "figure.png"
    with stopped_at("maps", 3):
        assert call("segment", picture, *OPTIONS, "--out", out).exit_code == 130
    (shutil.copytree if other.is_dir() else shutil.copyfile)(other, out)
    assert refused(call("resume", out), "was written by another since this run was begun: move it away")
    assert bits(out) == expected if out.is_dir() else out.read_bytes() == other.read_bytes()
    out.rename(tmp_path / "other")
    assert call("resume", out).exit_code == 0
    assert found_in(out) == found_in(whole)


# Bytes that a file may have: less than the request, than a part, than a chunk of maps or the figure.
LIMITS = (500, 20_000, 80_000)


@pytest.mark.parametrize("limit", LIMITS)
def test_files_that_cannot_be_written_to_their_end_lose_nothing(picture, expected, tmp_path, limit):
    out = tmp_path / "maps.zarr"
    with small_files(limit):
        result = call("segment", picture, *OPTIONS, "--out", out, "--json")
    assert refused(result, "File too large"), result.output
    assert not out.exists()
    if (tmp_path / "maps.zarr.run").exists():
        assert "pmlda resume" in result.stderr
        assert goes_on(tmp_path / "maps.zarr.run", expected)
    else:
        assert limit == 500
        assert list(tmp_path.iterdir()) == []


# When the disk is full: as a stage begins, or when all tiles have their maps.
MOMENTS = (("documents", 0), ("fit", 0), ("maps", 3), ("maps", 6))


@pytest.mark.parametrize(("stage", "count"), MOMENTS)
def test_a_full_disk_loses_nothing(picture, expected, tmp_path, stage, count):
    with disk(tmp_path / "disk", 32 * 2**20) as place:
        out = place / "maps.zarr"
        with when(stage, count, lambda: fill(place, but=8192)):
            result = call("segment", picture, *OPTIONS, "--out", out, "--json")
        assert refused(result, "No space left on device"), result.output
        assert result.stderr.endswith(f"What was done is kept; resume with: pmlda resume {str(out)!r}\n")
        assert not out.exists()
        fill(place)  # the more so, since files that could not be completed are gone
        assert refused(call("resume", out), "No space left on device")
        (place / "filler").unlink()
        assert goes_on(place / "maps.zarr.run", expected)
