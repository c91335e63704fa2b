"""Terminals that are closed, full, gone or narrow, and memory that runs out: one line or silence, never a traceback."""

import os
import pty
import resource
import subprocess
import sys

import numpy as np
import pytest
import tifffile

from tests import program

QUICK = ["-k", "2", "--documents", "windows:20", "--set", "refits=0"]


def shell(script, *arguments, **settings):
    """A line of shell, in which $pmlda is the program and "$@" are the arguments."""
    line = f'pmlda="{sys.executable} -m pmlda"; {script}'
    words = ["bash", "-c", line, "bash", *(str(argument) for argument in arguments)]
    return subprocess.run(words, capture_output=True, text=True, timeout=120, **settings)


def test_a_full_standard_output_keeps_the_result_and_is_told_in_one_line(picture, tmp_path):
    done = shell('$pmlda segment "$@" >/dev/full', picture, *QUICK, "--out", tmp_path / "maps")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1] == (
        "Error: The command has done its work, but its output could not be printed: No space left on device."
    )
    assert (tmp_path / "maps" / "report.html").exists()


@pytest.mark.parametrize("where", ["2>/dev/full", "<&- >&- 2>&-"], ids=["full", "closed"])
def test_a_standard_error_that_is_full_and_streams_that_are_closed_keep_the_result(where, picture, tmp_path):
    done = shell(f'$pmlda segment "$@" {where}', picture, *QUICK, "--out", tmp_path / "maps")
    assert done.returncode == 0
    assert (tmp_path / "maps" / "report.html").exists()


def test_who_closes_a_pipe_has_seen_enough():
    done = shell("$pmlda features | head -n 1; exit ${PIPESTATUS[0]}")
    assert (done.returncode, done.stderr) == (0, "")
    assert "features" in done.stdout


def test_a_terminal_of_twenty_columns(picture, tmp_path):
    here, there = pty.openpty()
    command = program.command("segment", picture, *QUICK, "--out", tmp_path / "maps")
    environment = os.environ | {"COLUMNS": "20", "LINES": "5"}
    with subprocess.Popen(command, stdout=there, stderr=there, env=environment) as process:
        os.close(there)
        said = b""
        while True:
            try:
                said += os.read(here, 4096)
            except OSError:  # the program has ended
                break
    os.close(here)
    assert process.returncode == 0, said
    assert b"Result:" in said
    assert b"Traceback" not in said


# ── memory ─────────────────────────────────────────────────────────────────────────────────────────────────────────
def limited(*arguments, n_bytes):
    """The program under `ulimit -v`."""

    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (n_bytes, n_bytes))

    return program.run(*arguments, environment={"OPENBLAS_NUM_THREADS": "1"}, preexec_fn=limit)


def test_a_picture_that_is_too_large_for_the_memory_is_refused_before_it_is_read(tmp_path):
    file = tmp_path / "zeros.tif"
    tifffile.imwrite(file, np.zeros((6000, 6000), np.uint8), compression="zlib")
    done = limited("segment", file, "--out", tmp_path / "maps", n_bytes=4 * 2**30)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("Error: A run in memory needs about 6.4 GB for 6000×6000×1 pixels and bands, and ")
    assert "Write to NAME.zarr or NAME.tif, which works tile by tile" in line
    assert os.listdir(tmp_path) == [file.name]


RUNNING_OUT = """
import resource, sys
import pmlda.evaluation.compare
from pmlda.cli import app
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 600_000_000,) * 2)
app(["compare", *sys.argv[1:]])
"""


def test_memory_that_runs_out_is_one_line(tmp_path):
    """There is room for the 400 MB of the pixels, but not for a second array of their size."""
    file = tmp_path / "large.npy"
    np.lib.format.open_memmap(file, mode="w+", dtype=np.uint8, shape=(20_000, 20_000))
    command = [sys.executable, "-c", RUNNING_OUT, file, "--out", tmp_path / "compared"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("Error: Memory ran out (Unable to allocate 381. MiB ")
    assert "Free some, or give a smaller picture" in line
    assert os.listdir(tmp_path) == [file.name]


def test_what_libraries_print_about_a_damaged_file_is_not_heard(tmp_path):
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "cube.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("cube", data=np.zeros((4, 64, 64), np.float32))
    path.write_bytes(path.read_bytes()[:5000])
    done = shell('$pmlda segment "$@"', path, *QUICK, "--out", tmp_path / "maps")
    assert done.returncode == 2
    assert done.stderr.startswith("Error: ")
    assert done.stderr.count("\n") == 1
