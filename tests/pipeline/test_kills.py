"""Runs that are killed at random moments come to the same bits. Set PMLDA_FULL_KILLS for 50 kills, and 10 of workers.

A moment is drawn in two steps: a stage of the run, then any time within it, so that short stages get as many kills as
long ones.
PMLDA_KILLS_LOG names a file that then gets a line for every kill: in which stage, and what was on disk.
"""

import os
import random
import signal
import subprocess
import threading
import time
from glob import glob
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner

from pmlda import segment
from pmlda.cli import app
from pmlda.storage.run_folder import run_folder
from tests.pipeline.common import CHOICES, LEFT_SOCKETS, OPTIONS, bits, files_of
from tests.program import command

pytestmark = LEFT_SOCKETS

FULL = bool(os.environ.get("PMLDA_FULL_KILLS"))
THREADS, WORKERS = (), ("--workers", 2)
KILLS = {THREADS: 25, WORKERS: 25} if FULL else {THREADS: 2, WORKERS: 1}
WORKER_KILLS = 10
TILES = 6
PARTS = ("survey", "sample", "documents", "maps")
# Stages in their order, and what is on disk as soon as they have begun. Documents begin with a part, since workers must
# import everything before; every other stage as soon as the one before is complete.
STAGES = {
    "start-up": lambda disk: True,
    "beginning": lambda disk: disk["folder"],
    "documents": lambda disk: disk["survey"] > 0,
    "features": lambda disk: disk["survey"] == TILES,
    "fit": lambda disk: disk["sample"] == TILES,
    "proportions": lambda disk: disk["model"],
    "maps": lambda disk: disk["documents"] == TILES,
    "finishing": lambda disk: disk["maps"] == TILES,
    "leaving": lambda disk: disk["named"],
}
# Those that workers have a part in, by the names under which a run keeps their times.
OF_WORKERS = ("documents", "features", "fit", "proportions", "maps")


def on_disk(out):
    """What there is of a run: its folder, the parts of every stage, the model file, maps that have their name."""
    folder = run_folder(out)
    parts = {stage: len(glob(f"parts/{stage}/*/*.pmlda", root_dir=folder)) for stage in PARTS}
    return {"folder": folder.exists(), "model": (folder / "model.pmlda").exists(), **parts, "named": out.exists()}


def stage_of(disk):
    return [stage for stage, has_begun in STAGES.items() if has_begun(disk)][-1]


def drawn(count, stages=tuple(STAGES)):
    """Stages by lot, none again before all others had their turn."""
    return [stage for _ in range(0, count, len(stages)) for stage in random.sample(stages, len(stages))][:count]


def note(who, stage, moment, disk):
    """What was drawn, and what it came to."""
    text = f"{who}: {moment:.2f} s into {stage}: in {stage_of(disk)}, " + ", ".join(f"{k} {v}" for k, v in disk.items())
    print(text)
    if log := os.environ.get("PMLDA_KILLS_LOG"):
        with Path(log).open("a", encoding="utf-8") as file:
            file.write(text + "\n")


def begin(picture, out, where):
    """A run in a process of its own."""
    out.parent.mkdir()
    words = command("segment", picture, *OPTIONS, *where, "--out", out)
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def wait_for(stage, out, is_going):
    """Until a run has come to a stage, or to its end."""
    while not STAGES[stage](on_disk(out)) and is_going():
        time.sleep(0.002)


def goes(process):
    return lambda: process.poll() is None


def measured(picture, out, where):
    """Seconds that every stage takes where nothing disturbs it."""
    process, begun = begin(picture, out, where), []
    for stage in STAGES:
        wait_for(stage, out, goes(process))
        begun.append(time.monotonic())
    said = process.communicate()[1]
    assert process.returncode == 0, said
    ended = [*begun[1:], time.monotonic()]
    return {stage: end - begin for stage, begin, end in zip(STAGES, begun, ended, strict=True)}


@pytest.fixture(scope="module")
def seconds(picture, whole, tmp_path_factory):
    """Of every stage, once all is compiled; for a few kills those of threads will do."""
    folder = tmp_path_factory.mktemp("timed")
    threads = measured(picture, folder / "threads" / "maps.zarr", THREADS)
    return {
        THREADS: threads,
        WORKERS: measured(picture, folder / "workers" / "maps.zarr", WORKERS) if FULL else threads,
    }


def go_on(picture, out):
    """What whoever comes back to a run that was killed does, as what is there tells."""
    if run_folder(out).exists():
        return CliRunner().invoke(app, ["resume", str(out), "--json"])
    if not out.exists():
        return CliRunner().invoke(app, ["segment", str(picture), *OPTIONS, "--out", str(out), "--json"])
    result = CliRunner().invoke(app, ["resume", str(out)])
    assert "is complete" in result.stderr
    return None


@pytest.mark.parametrize("where", [THREADS, WORKERS], ids=["threads", "workers"])
def test_a_run_that_is_killed_at_any_moment_goes_on_to_the_same_bits(
    where, picture, seconds, whole, expected, tmp_path
):
    longest = dict(seconds[where])
    for kill, stage in enumerate(drawn(KILLS[where])):
        out, moment = tmp_path / str(kill) / "maps.zarr", random.uniform(0.0, longest[stage])
        process = begin(picture, out, where)
        wait_for(stage, out, goes(process))
        time.sleep(moment)
        children = psutil.Process(process.pid).children(recursive=True) if goes(process)() else []
        process.kill()
        said = process.communicate()[1]
        assert process.returncode in (-signal.SIGKILL, 0), said
        disk, killed = on_disk(out), process.returncode != 0
        note("workers" if where else "threads", stage, moment, disk | {"killed": killed})
        if not killed or stage_of(disk) != stage:
            longest[stage] = moment  # it was over by then
        _, alive = psutil.wait_procs(children, timeout=30)
        assert not alive, "workers outlive their run"
        assert not out.exists() or bits(out) == expected
        result = go_on(picture, out)
        assert result is None or result.exit_code == 0, result.output
        assert bits(out) == expected, f"killed {moment} seconds into {stage}"
        assert files_of(out.parent) == [f"maps.zarr/{name}" for name in files_of(whole)]


def numbers_of(client):
    """Of the processes of both workers, once one that was killed has a successor."""
    numbers = []
    while len(numbers) < 2:
        client.wait_for_workers(2)
        numbers = list(client.run(os.getpid, on_error="ignore").values())
    return numbers


@pytest.mark.skipif(not FULL, reason="test_same_everywhere kills two workers")
def test_a_run_whose_workers_are_killed_at_any_moment_finds_the_same_bits(picture, client, expected, tmp_path):
    for name in ("first", "timed"):  # in the first one workers import what they need
        seconds = segment(picture, 3, out=tmp_path / f"{name}.zarr", client=client, **CHOICES).timings
    for kill, stage in enumerate(drawn(WORKER_KILLS, OF_WORKERS)):
        victim = random.choice(numbers_of(client))
        moment, out, ended = random.uniform(0.0, seconds[stage]), tmp_path / f"{kill}.zarr", threading.Event()

        def end(stage=stage, moment=moment, out=out, ended=ended, pid=victim):
            wait_for(stage, out, lambda: not ended.is_set())
            time.sleep(moment)
            os.kill(pid, signal.SIGKILL)
            note("one worker", stage, moment, on_disk(out))

        watcher = threading.Thread(target=end)
        watcher.start()
        try:
            segment(picture, 3, out=out, client=client, **CHOICES)
        finally:
            ended.set()
            watcher.join()
        assert bits(out) == expected
