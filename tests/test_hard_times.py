"""Ctrl-C and full disks, for real, at every stage of a run: a complete result or none, one line, an exit code."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image as Pillow

from pmlda.engines import variational_schedule as schedule
from pmlda.evaluation.scenes import smooth_scene
from pmlda.segmentation import Segmentation
from tests.hard_times import LIMITS, STAGES

BEFORE_TOPICS = (*STAGES, schedule.STARTS, "model written", "maps written", "pictures written")


@pytest.fixture(scope="module")
def picture(tmp_path_factory):
    file = tmp_path_factory.mktemp("pictures") / "scene.png"
    Pillow.fromarray(smooth_scene(60, 80, 2, 0.2, 0)[0]).save(file)
    return file


@pytest.fixture(scope="module")
def runs(picture, tmp_path_factory):
    """Where each run wrote, its exit code and what it said."""
    place = tmp_path_factory.mktemp("runs")
    command = [sys.executable, "-m", "tests.hard_times", picture, place]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=Path(__file__).parents[1])
    assert done.returncode == 0, done.stderr
    answers = json.loads((place / "answers.json").read_text(encoding="utf-8"))
    assert answers.pop("nothing") == [0, ""]
    return {name: (place / name, *answer) for name, answer in answers.items()}


def is_untouched(folder):
    """Whether there is nothing but the result of the earlier run, all of it."""
    same = (folder / "out" / "run.json").read_bytes() == (folder.parent / "earlier" / "run.json").read_bytes()
    names = {file.name for file in (folder.parent / "earlier").iterdir()}
    return same and {file.name for file in (folder / "out").iterdir()} == names and len(list(folder.iterdir())) == 1


@pytest.mark.parametrize("moment", BEFORE_TOPICS)
def test_ctrl_c_before_there_is_a_result_leaves_the_folder_as_it_was(runs, moment):
    folder, code, said = runs[moment]
    assert (code, said.count("\n")) == (130, 1)
    assert said.startswith("Interrupted")
    assert said.endswith("; nothing was written.\n")
    assert is_untouched(folder)


def test_ctrl_c_while_topics_are_learnt_keeps_what_was_found_and_says_so(runs):
    folder, code, said = runs[schedule.TOPICS]
    assert code == 130
    assert said.count("\n") == 1
    assert "interrupted after 3 of 1000 sweeps" in said
    found = Segmentation.load(folder / "out")
    assert found.interrupted
    assert found.verdict.state == "interrupted"
    assert "after 3 of 1000 sweeps" in found.verdict.sentence
    assert not is_untouched(folder)
    assert len(list(folder.iterdir())) == 1


def test_ctrl_c_while_folders_are_exchanged_comes_too_late(runs):
    folder, code, said = runs["old folder removed"]
    assert (code, said) == (0, "")
    assert not is_untouched(folder)
    assert not Segmentation.load(folder / "out").interrupted
    assert len(list(folder.iterdir())) == 1


@pytest.mark.parametrize("limit", LIMITS)
def test_a_full_disk_leaves_the_folder_as_it_was(runs, limit):
    folder, code, said = runs[f"{limit} bytes"]
    assert code == 2
    assert said.count("\n") == 1
    assert "could not be written: File too large" in said
    assert is_untouched(folder)


def test_ctrl_c_from_outside_ends_a_run_at_once(picture, tmp_path):
    """As a user presses it: the command tells that the fit has begun, and is interrupted from another process."""
    out = tmp_path / "out"
    command = [sys.executable, "-m", "pmlda", "segment", str(picture), "--engine", "gibbs", "--out", str(out)]
    command += ["--set", "sweeps=100000000", "--documents", "whole"]
    process = subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    try:
        while (line := process.stderr.readline()) and not line.startswith("fit"):
            pass
        process.send_signal(signal.SIGINT)
        rest = process.communicate(timeout=240)[1]
    finally:
        process.kill()
    assert process.returncode == 130
    assert "Traceback" not in rest
    if out.exists():
        assert Segmentation.load(out).interrupted
    else:
        kept = (tmp_path / "out.run").is_dir()
        assert rest.endswith(f"resume with: pmlda resume {str(out)!r}\n" if kept else "nothing was written.\n")
        assert [path.name for path in tmp_path.iterdir()] == (["out.run"] if kept else [])
