"""Runs that are killed at random moments go on to the same bits. Set PMLDA_FULL_KILLS for 50 kills, and 10 of workers.

PMLDA_KILLS_LOG names a file that then gets a line for every kill: after how many seconds, in which stage.
"""

import os
import random
import signal
import subprocess
import threading
import time
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner

from pmlda import segment
from pmlda.cli import app
from pmlda.runs import run_folder
from tests.mosaic.common import CHOICES, LEFT_SOCKETS, OPTIONS, bits, command

pytestmark = LEFT_SOCKETS

FULL = bool(os.environ.get("PMLDA_FULL_KILLS"))
KILLS, WORKER_KILLS = 25 if FULL else 2, 10
STAGES = ("survey", "sample", "documents", "maps")


def note(text):
    print(text)
    if log := os.environ.get("PMLDA_KILLS_LOG"):
        with Path(log).open("a", encoding="utf-8") as file:
            file.write(text + "\n")


def stage_of(folder):
    """The last stage of which there are parts, and how many."""
    counts = {stage: len(list((folder / "parts" / stage).glob("*/*.pmlda"))) for stage in STAGES}
    last = next((stage for stage in reversed(STAGES) if counts[stage]), "nothing")
    learnt = last == "sample" and (folder / "model.pmlda").exists()
    return f"{'topics learnt' if learnt else last} {counts.get(last, 0)}/6"


def begin(out, mark, *arguments):
    """A run in a process of its own, once its folder holds what is waited for."""
    process = subprocess.Popen(
        command("segment", *arguments, "--out", out), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    while not (run_folder(out) / mark).exists() and process.poll() is None:
        time.sleep(0.002)
    return process


@pytest.fixture(scope="module")
def seconds(picture, whole, tmp_path_factory):
    """How long a run takes, once all is compiled."""
    start = time.monotonic()
    segment(picture, 3, out=tmp_path_factory.mktemp("timed") / "maps.zarr", **CHOICES)
    return time.monotonic() - start


@pytest.mark.parametrize("where", [(), ("--workers", 2)], ids=["threads", "workers"])
def test_a_run_that_is_killed_at_any_moment_goes_on_to_the_same_bits(where, picture, seconds, expected, tmp_path):
    for kill in range(KILLS):
        out = tmp_path / str(kill) / "maps.zarr"
        out.parent.mkdir()
        moment = random.uniform(0.0, seconds)
        # Workers take as long to start as the run takes: every other time, the clock starts when they have begun.
        process = begin(out, "parts" if kill % 2 else ".", picture, *OPTIONS, *where)
        time.sleep(moment)
        children = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
        process.kill()
        said = process.communicate()[1]
        killed = process.returncode == -signal.SIGKILL
        assert killed or process.returncode == 0, said
        note(f"{where or 'threads'}: after {moment:.2f} s, in {stage_of(run_folder(out))}, killed {killed}")
        _, alive = psutil.wait_procs(children, timeout=30)
        assert not alive, "workers outlive their run"
        assert not out.exists() or not killed or bits(out) == expected
        if run_folder(out).exists():
            result = CliRunner().invoke(app, ["resume", str(out), "--json"])
            assert result.exit_code == 0, result.output
        assert bits(out) == expected, f"killed after {moment} seconds"
        assert [path.name for path in out.parent.iterdir() if not path.name.endswith(".part")] == ["maps.zarr"]


@pytest.mark.skipif(not FULL, reason="test_same_everywhere kills two workers")
def test_a_run_whose_workers_are_killed_at_any_moment_finds_the_same_bits(picture, client, seconds, expected, tmp_path):
    for kill in range(WORKER_KILLS):
        client.wait_for_workers(2)
        victim = random.choice(list(client.run(os.getpid).values()))
        moment, out = random.uniform(0.0, seconds), tmp_path / f"{kill}.zarr"

        def end(pid=victim, out=out, moment=moment):
            folder = run_folder(out)
            stage = stage_of(folder)
            os.kill(pid, signal.SIGKILL)
            note(f"worker: after {moment:.2f} s, in {stage if folder.exists() else 'the end'}")

        timer = threading.Timer(moment, end)
        timer.start()
        segment(picture, 3, out=out, client=client, **CHOICES)
        timer.join()
        assert bits(out) == expected
