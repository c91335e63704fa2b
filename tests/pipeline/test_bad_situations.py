"""Bad input, bad places and bad moments of runs tile by tile: one clear line and an exit code, and nothing is lost."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import psutil
import pytest
import zarr
from PIL import Image as Pillow

from pmlda import segment
from pmlda.errors import ClusterError, InputError, OutputError
from pmlda.output import stored
from pmlda.parallel.dask_cluster import Cluster
from pmlda.segmentation import Segmentation
from pmlda.storage.run_folder import run_folder
from tests.disks import disk, read_only_folder, small_files
from tests.pipeline.common import (
    CHOICES,
    LEFT_SOCKETS,
    OPTIONS,
    bits,
    files_of,
    scene,
    scheduler_process,
    worker_processes,
    workers,
)
from tests.pipeline.test_damage import call, refused, stopped_at
from tests.program import command

pytestmark = LEFT_SOCKETS


def nothing_left(folder):
    return [path.name for path in folder.iterdir() if path.name.startswith((".", "maps"))] == []


def few_colours():
    return np.kron(np.array([[0, 1], [1, 0]]), np.ones((70, 70)))


BAD_INPUT = {
    "several pictures": (lambda: [scene(), scene()], {}, "holds the maps of one picture, and 2 were given"),
    "labels": (scene, {"documents": np.zeros((139, 171), int)}, "Labels of your own cannot be cut tile by tile"),
    "windows that overlap": (scene, {"documents": "windows:32/16"}, "cannot be cut tile by tile"),
    "another model": (scene, {"model": "fcm"}, "cannot work tile by tile"),
    "no such engine": (scene, {"engine": "gibs"}, "Did you mean 'gibbs'"),
    "sampling one document": (
        scene,
        {"engine": "gibbs", "documents": "whole", "design_effect": 1},
        "must lie in one tile",
    ),
    "no data": (lambda: np.full((80, 90), np.nan), {}, "no pixel with data"),
    "a mask of zeros": (scene, {"mask": np.zeros((139, 171))}, "no pixel with data"),
    "a mask of another size": (scene, {"mask": np.ones((9, 9))}, "mask"),
    "one colour": (lambda: np.full((80, 90, 3), 7, np.uint8), {}, "same features"),
    "few colours": (few_colours, {"n_topics": 5}, "only 2 different values"),
    "windows larger than the picture": (scene, {"documents": "windows:512"}, "larger than the picture"),
    "windows that fit no tile": (scene, {"documents": "windows:61x67"}, "multiple of"),
    "a checkpoint": (scene, {"checkpoint": "here"}, "leave checkpoint out"),
    "checkpoints of a folder": (scene, {"out": "maps", "checkpoint": "here"}, "Give the seconds between them"),
    "no such feature": (scene, {"features": "colour"}, "Did you mean 'color'"),
}


@pytest.mark.parametrize(("picture", "settings", "says"), BAD_INPUT.values(), ids=BAD_INPUT.keys())
def test_bad_input_gets_one_clear_error_and_leaves_nothing(picture, settings, says, tmp_path):
    chosen = {"block": 64, "documents": "windows:16"} | settings
    out = tmp_path / chosen.pop("out", "maps.zarr")
    with pytest.raises(InputError, match=says):
        segment(picture(), chosen.pop("n_topics", 3), out=out, **chosen)
    assert nothing_left(tmp_path)


@pytest.mark.parametrize("engine", ["variational", "paper"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_any_other_name_is_that_of_a_folder_which_any_engine_fills(engine, tmp_path):
    found = segment(scene()[:40, :50], 2, out=tmp_path / "maps.png", engine=engine, documents="windows:16", sweeps=20)
    assert [path.name for path in tmp_path.iterdir()] == ["maps.png"]
    again = Segmentation.load(tmp_path / "maps.png")
    np.testing.assert_array_equal(again.memberships, found.memberships)
    assert (again.settings.engine, again.settings.topics) == (engine, 2)


def bad_in_one_tile(pixels):
    """NaN where the picture is brightest, in one tile alone."""
    values = pixels.mean(axis=2)
    return np.where(values == 255.0, np.nan, values)


def raises_in_one_tile(pixels):
    if pixels.max() == 255:
        raise ZeroDivisionError("one tile is bad")
    return pixels.mean(axis=2)


def one_bright_pixel():
    pixels = np.minimum(scene(), 250)
    pixels[100, 150] = 255
    return pixels


def test_a_function_that_fails_in_one_tile_is_named(tmp_path):
    picture, out = one_bright_pixel(), tmp_path / "maps.zarr"
    with pytest.raises(ValueError, match="The feature function bad_in_one_tile returned NaN"):
        segment(picture, 2, features=bad_in_one_tile, out=out, block=64, documents="windows:16")
    assert nothing_left(tmp_path)
    with pytest.raises(ZeroDivisionError, match="one tile is bad"):
        segment(picture, 2, features=raises_in_one_tile, out=out, block=64, documents="windows:16")
    assert not out.exists()


@pytest.mark.parametrize("shape", [(40, 50, 3), (1, 300, 3), (300, 1, 3)])
def test_pictures_of_any_shape_get_maps(shape, tmp_path):
    picture = np.random.default_rng(0).integers(0, 255, shape, np.uint8)
    found = segment(picture, 2, out=tmp_path / "maps.zarr", block=64)
    assert found.memberships.shape == (*shape[:2], 2)
    np.testing.assert_allclose(found.memberships[:].sum(axis=2), 1.0, atol=1e-5)


def test_tiles_without_data_stay_empty(tmp_path):
    mask = np.ones((139, 171), bool)
    mask[:64, :64] = mask[64:, 64:] = False
    found = segment(scene(), 3, out=tmp_path / "maps.zarr", mask=mask, **CHOICES)
    np.testing.assert_array_equal(np.isfinite(found.memberships[:]).all(axis=2), mask)
    np.testing.assert_array_equal(found.labels[:] >= 0, mask)
    np.testing.assert_array_equal(found.documents[:] >= 0, mask)
    assert len(found.proportions) == found.documents[:].max() + 1 == found.record["documents"]
    assert found.record["pixels_with_data"] == mask.sum()


# ── the command line ───────────────────────────────────────────────────────────────────────────────────────────────
BAD_COMMANDS = {
    "two pictures": (("PICTURE", "PICTURE"), "maps.zarr", "holds the maps of one picture, and 2 were given"),
    "workers and a folder": (("PICTURE", "--workers", "2"), "maps", "name ending in .zarr or .tif"),
    "workers and a scheduler": (("PICTURE", "--workers", "2", "--scheduler", "x"), "maps.zarr", "give one of them"),
    "nobody there": (("PICTURE", "--scheduler", "tcp://127.0.0.1:1"), "maps.zarr", "No scheduler answers"),
    "a missing picture": (("missing.tif",), "maps.zarr", "missing.tif"),
    "a missing mask": (("PICTURE", "--mask", "missing.tif"), "maps.tif", "missing.tif"),
    "a missing folder": (("PICTURE",), "nowhere/maps.tif", "does not exist"),
    "the picture itself": (("PICTURE", "--overwrite"), "PICTURE", "would be replaced, and it is read"),
    "beside itself": (("PICTURE", "--overwrite"), "pic.tif", "pic-documents.tif' would be replaced, and it is"),
    "checkpoints": (("PICTURE", "--checkpoint", "5"), "maps.tif", "leave checkpoint out"),
}


@pytest.mark.parametrize(("arguments", "out", "says"), BAD_COMMANDS.values(), ids=BAD_COMMANDS.keys())
def test_bad_commands_get_one_line(arguments, out, says, tmp_path, monkeypatch):
    monkeypatch.setattr("pmlda.parallel.dask_cluster.CONNECT_SECONDS", 1)
    picture = tmp_path / "pic-documents.tif"
    Pillow.fromarray(scene()).save(picture)
    before = picture.read_bytes()
    names = [str(picture) if argument == "PICTURE" else argument for argument in (*arguments, out)]
    result = call("segment", *names[:-1], *OPTIONS, "--out", tmp_path / names[-1])
    assert refused(result, says), result.output
    assert nothing_left(tmp_path)
    assert picture.read_bytes() == before


def test_without_dask_threads_still_work(picture, expected, tmp_path, monkeypatch):
    for name in ("dask", "distributed"):
        monkeypatch.setitem(sys.modules, name, None)
    result = call("segment", picture, *OPTIONS, "--workers", 2, "--out", tmp_path / "maps.zarr")
    assert refused(result, 'pip install "pmlda[scale]"')
    assert call("segment", picture, *OPTIONS, "--out", tmp_path / "maps.zarr").exit_code == 0
    assert bits(tmp_path / "maps.zarr") == expected


def test_a_result_that_is_there_is_only_replaced_when_asked(picture, whole, expected, tmp_path):
    out = tmp_path / "maps.zarr"
    shutil.copytree(whole, out)
    assert refused(call("segment", picture, *OPTIONS, "--out", out), "not empty")
    result = call("segment", picture, *OPTIONS, "--set", "topics=2", "--out", out, "--overwrite")
    assert result.exit_code == 0, result.output
    assert bits(out)["dominant"] != expected["dominant"]
    (tmp_path / "maps.tif").write_bytes(b"mine")
    assert refused(call("segment", picture, *OPTIONS, "--out", tmp_path / "maps.tif"), "exists already")
    assert (tmp_path / "maps.tif").read_bytes() == b"mine"
    (tmp_path / "maps.tif").rename(tmp_path / "maps-report.html")
    assert refused(call("segment", picture, *OPTIONS, "--out", tmp_path / "maps.tif"), "maps-report.html' exists")
    assert (tmp_path / "maps-report.html").read_bytes() == b"mine"


@pytest.mark.parametrize("name", ["maps.zarr", "maps.tif"])
def test_a_folder_that_cannot_be_written_to_is_told_at_once(name, picture, tmp_path):
    with read_only_folder(tmp_path / "place") as place:
        with pytest.raises(OutputError, match="cannot be written to"):
            segment(picture, 3, out=place / name, **CHOICES)
        assert nothing_left(place)


def test_a_zarr_that_changes_its_shape_is_refused(tmp_path):
    source, out = tmp_path / "source.zarr", tmp_path / "maps.zarr"
    zarr.create_array(source, data=scene(), chunks=(64, 64, 3))
    with stopped_at("maps", 2):
        assert call("segment", source, *OPTIONS, "--out", out).exit_code == 130
    zarr.create_array(source, data=scene()[:100], chunks=(64, 64, 3), overwrite=True)
    assert refused(call("resume", out), "has changed since it was begun")
    zarr.create_array(source, data=scene()[:, :, 0], chunks=(64, 64), overwrite=True)
    result = call("resume", out)
    assert refused(result, "has changed since it was begun"), result.output


# ── memory ─────────────────────────────────────────────────────────────────────────────────────────────────────────
def test_workers_that_are_too_small_are_refused_before_anything_begins(tmp_path):
    with workers(1, memory_limit="250MB") as client:
        assert Cluster(client).memory() == 250_000_000
        with pytest.raises(ValueError, match=r"a worker has 0.25 GB. Choose smaller tiles"):
            segment(scene(), 3, out=tmp_path / "maps.zarr", client=client, **CHOICES)
        assert nothing_left(tmp_path)


def test_workers_that_die_again_and_again_are_explained_and_the_run_stays(tmp_path, monkeypatch):
    here = os.getpid()
    monkeypatch.setattr("pmlda.parallel.dask_cluster.MOST_DEATHS", 1)

    def swallow(pixels):
        """As a tile that is too large for its worker."""
        if os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
        return pixels

    with workers(1) as client, pytest.raises(ClusterError, match="Workers died again and again"):
        segment(
            scene(), 3, features=swallow, out=tmp_path / "maps.zarr", client=client, documents="windows:16", block=64
        )
    assert run_folder(tmp_path / "maps.zarr").exists()


def test_a_disk_that_is_too_small_is_refused_before_anything_begins(tmp_path):
    with disk(tmp_path / "disk", 2**20) as place:
        with pytest.raises(ValueError, match=r"The run needs about .* on the disk of .*, where 0.001 GB are free"):
            segment(scene(), 3, out=place / "maps.zarr", **CHOICES)
        assert nothing_left(place)


@pytest.mark.parametrize(
    ("limit", "file", "stays"),
    [(1_700, "maps.zarr.run/maps.zarr", False), (20_000, "maps.zarr.run/parts/sample/0000/0000000.pmlda", True)],
    ids=["metadata", "a part"],
)
def test_a_disk_that_fills_up_is_told_with_the_file_that_was_written(limit, file, stays, picture, tmp_path):
    with small_files(limit):
        result = call("segment", picture, *OPTIONS, "--jobs", "1", "--out", tmp_path / "maps.zarr")
    assert refused(result, f"'{tmp_path / file}' could not be read or written: File too large."), result.output
    assert ("resume with: pmlda resume" in result.output) == stays
    assert nothing_left(tmp_path) != stays


# ── runs that are disturbed ────────────────────────────────────────────────────────────────────────────────────────
@contextmanager
def begun(*arguments, **settings):
    """The command in a process of its own, which is ended however the block ends."""
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command(*arguments), **pipes, **settings) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for_part(out, stage, process):
    """Until the first part of a stage is on disk, or the command has ended too early."""
    while not any((run_folder(out) / "parts" / stage).glob("*/*.pmlda")) and process.poll() is None:
        time.sleep(0.005)


def told(said):
    """Lines that tell how it went."""
    return [line for line in said.splitlines() if not re.match(r"Dashboard: |\w+: \d+ of \d+", line)]


def test_a_run_whose_scheduler_is_killed_says_so_in_one_line_and_goes_on_without_it(picture, expected, tmp_path):
    out = tmp_path / "maps.zarr"
    with (
        scheduler_process(tmp_path) as (scheduler, address),
        worker_processes(address, 2, tmp_path),
        begun("segment", picture, *OPTIONS, "--scheduler", address, "--out", out) as process,
    ):
        wait_for_part(out, "sample", process)
        scheduler.kill()
        said = process.communicate(timeout=120)[1]
        assert process.returncode == 2, said
        assert not out.exists()
        advice = f"Start another, or resume without one. What was done is kept; resume with: pmlda resume {str(out)!r}"
        (line,) = told(said)
        assert re.fullmatch(rf"Error: The connection to the scheduler was lost \(\w+\)\. {re.escape(advice)}", line)
        assert call("resume", out).exit_code == 0  # what is left of the cluster does no harm
    assert bits(out) == expected
    assert not run_folder(out).exists()


@pytest.mark.parametrize("where", [(), ("--workers", 2)], ids=["threads", "workers"])
def test_ctrl_c_ends_a_run_at_once_and_it_goes_on_to_the_same_bits(where, picture, expected, tmp_path):
    """Sent to all processes, as the terminal does."""
    out = tmp_path / "maps.zarr"
    alone = {"start_new_session": True, "preexec_fn": lambda: signal.signal(signal.SIGINT, signal.default_int_handler)}
    with begun("segment", picture, *OPTIONS, *where, "--out", out, **alone) as process:
        wait_for_part(out, "sample", process)
        children = psutil.Process(process.pid).children(recursive=True)
        os.killpg(process.pid, signal.SIGINT)
        said = process.communicate(timeout=120)[1]
    assert process.returncode == 130, said
    assert told(said) == [f"Interrupted. What was done is kept; resume with: pmlda resume {str(out)!r}"]
    assert not psutil.wait_procs(children, timeout=30)[1]
    assert call("resume", out).exit_code == 0
    assert bits(out) == expected


CTRL_C = """
import asyncio, os, shutil, signal, sys, time
import zarr
from pmlda.cli import app

pressed = []

def press():
    if not pressed:
        pressed.append(True)
        os.kill(os.getpid(), signal.SIGINT)

{moment}
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    app(sys.argv[1:])
except SystemExit as end:
    time.sleep(0.5)  # threads of libraries are still at work
    sys.exit(end.code if pressed else "Ctrl-C was not pressed.")
"""
WHILE_ZARR_WRITES = """
write = zarr.storage.LocalStore.set

async def press_and_write(store, key, value):
    if not pressed:
        press()
        await asyncio.sleep(0.3)
    await write(store, key, value)

zarr.storage.LocalStore.set = press_and_write
"""
WHILE_THE_RUN_IS_REMOVED = """
remove = shutil.rmtree

def press_and_remove(path, **settings):
    if ".zarr.run-" in str(path):
        press()
    remove(path, **settings)

shutil.rmtree = press_and_remove
"""


def interrupted(moment, *arguments):
    """The real program, in which Ctrl-C is pressed at this moment."""
    words = [sys.executable, "-c", CTRL_C.format(moment=moment), *(str(argument) for argument in arguments)]
    return subprocess.run(words, capture_output=True, text=True, timeout=240, check=False)


def test_ctrl_c_while_the_maps_are_created_leaves_nothing(picture, tmp_path):
    """zarr writes on a thread of its own, which does not hear Ctrl-C and would make the folder again."""
    words = ["segment", picture, *OPTIONS, "--jobs", "1", "--out", tmp_path / "maps.zarr"]
    done = interrupted(WHILE_ZARR_WRITES, *words)
    assert done.returncode == 130, done.stderr
    assert "Interrupted; nothing was written." in done.stderr
    assert nothing_left(tmp_path)


def test_ctrl_c_while_the_folder_of_a_finished_run_is_removed_comes_too_late(picture, expected, tmp_path):
    out = tmp_path / "maps.zarr"
    done = interrupted(WHILE_THE_RUN_IS_REMOVED, "segment", picture, *OPTIONS, "--jobs", "1", "--out", out)
    assert done.returncode == 0, done.stderr
    assert [path.name for path in tmp_path.iterdir()] == [out.name]
    assert bits(out) == expected


# ── what a kill leaves half-written ────────────────────────────────────────────────────────────────────────────────
def test_half_written_files_of_a_run_that_was_killed_are_gone_when_it_is_done(picture, whole, expected, tmp_path):
    out = tmp_path / "maps.zarr"
    with stopped_at("maps", 3):
        assert call("segment", picture, *OPTIONS, "--out", out).exit_code == 130
    half = [
        run_folder(out) / "maps.zarr" / name for name in ("dominant/c/0/0.0123abcd.partial", ".run.json-0123abcd.part")
    ]
    half += [tmp_path / ".maps.zarr.run-0123abcd.part" / "request.json"]
    for file in half:
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(b"half")
    assert call("resume", out).exit_code == 0
    assert bits(out) == expected
    assert files_of(tmp_path) == [f"maps.zarr/{name}" for name in files_of(whole)]


def test_a_folder_whose_removal_was_cut_short_is_removed_by_the_next_who_asks(picture, whole, tmp_path):
    out = Path(shutil.copytree(whole, tmp_path / "maps.zarr"))
    for ask in (("resume", out), ("segment", picture, *OPTIONS, "--out", out, "--overwrite")):
        (tmp_path / ".maps.zarr.run-0123abcd.part" / "parts").mkdir(parents=True)
        call(*ask)
        assert [path.name for path in tmp_path.iterdir()] == ["maps.zarr"]


# What belongs to a TIFF and lies beside it.
BESIDE = [
    "maps-documents.csv",
    "maps-documents.tif",
    "maps-figure.png",
    "maps-model.pmlda",
    "maps-novelty.tif",
    "maps-overview.npz",
    "maps-report.html",
    "maps-residual.tif",
    "maps-run.json",
    "maps-settings.toml",
    "maps-shares.csv",
    "maps-topics.csv",
    "maps-uncertainty.tif",
]


def test_a_tiff_is_written_within_the_run_and_appears_when_it_is_complete(picture, tmp_path, monkeypatch):
    def killed(path, *about, **more):
        path.with_name(f".{path.name}-0123abcd.part").write_bytes(b"half")
        raise KeyboardInterrupt

    out = tmp_path / "maps.tif"
    with monkeypatch.context() as patch:
        patch.setattr(stored, "write_tiled", killed)
        assert call("segment", picture, *OPTIONS, "--out", out).exit_code == 130
    assert [path.name for path in tmp_path.iterdir()] == ["maps.tif.run"]
    assert call("resume", out).exit_code == 0
    assert files_of(tmp_path) == [*BESIDE, "maps.tif"]


@pytest.mark.parametrize("last", BESIDE)
def test_a_tiff_whose_files_had_not_all_got_their_names_gets_the_others(last, half_tiff, tmp_path, monkeypatch):
    """Killed after so many of them, in any order."""
    shutil.copytree(half_tiff, tmp_path, dirs_exist_ok=True)
    out, name_file = tmp_path / "maps.tif", stored.name_file

    def named(made, path, **more):
        name_file(made, path, **more)
        if path == tmp_path / last:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(stored, "name_file", named)
        assert call("resume", out).exit_code == 130
    assert (tmp_path / last).exists()
    assert not out.exists()
    assert call("resume", out).exit_code == 0
    assert files_of(tmp_path) == [*BESIDE, "maps.tif"]
    assert Segmentation.load(out).memberships.shape == (139, 171, 3)


@pytest.fixture(scope="module")
def half_tiff(picture, tmp_path_factory):
    """A run to a TIFF that was stopped when all tiles had their maps."""
    folder = tmp_path_factory.mktemp("half")
    with stopped_at("maps", 6):
        assert call("segment", picture, *OPTIONS, "--out", folder / "maps.tif").exit_code == 130
    return folder
