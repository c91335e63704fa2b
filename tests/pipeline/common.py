"""What tests of runs tile by tile share: a picture, a run of the command in a process of its own, results as bytes."""

import gc
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from PIL import Image as Pillow

from pmlda.evaluation.scenes import smooth_scene
from pmlda.images.zarrs import MAPS
from pmlda.parallel.dask_cluster import local_cluster
from pmlda.storage import archive
from pmlda.storage.digest import digest

SHAPE = (139, 171)  # no multiple of anything: tiles of 64, 64 + 11 rows and 64, 64 + 43 columns
# Without refits, which take most of the time of a run so small and come with the model; test_same_everywhere has some.
CHOICES = {"documents": "windows:16", "features": "color+texture", "block": 64, "refits": 0}
OPTIONS = ["-k", "3", *(word for name, value in CHOICES.items() for word in ("--set", f"{name}={value}"))]

# Dask leaves sockets of connections that were refused or lost to the garbage collector.
LEFT_SOCKETS = pytest.mark.filterwarnings(
    "ignore:unclosed.*<socket:ResourceWarning", "ignore:.*<socket:pytest.PytestUnraisableExceptionWarning"
)


@contextmanager
def workers(count: int, **settings: Any) -> Iterator[Any]:
    """Worker processes; what they leave to the garbage collector is collected before other tests are blamed for it."""
    with local_cluster(count, **settings) as client:
        yield client
    del client
    gc.collect()


@contextmanager
def process_of(*arguments: Any) -> Iterator["subprocess.Popen[bytes]"]:
    """A module that runs in a process of its own, which is ended however the block ends."""
    words = [sys.executable, "-m", *(str(argument) for argument in arguments)]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def scheduler_process(folder: Path) -> Iterator[tuple["subprocess.Popen[bytes]", str]]:
    """A scheduler that nobody here has started, and its address."""
    file = folder / "scheduler.json"
    where = ("--host", "127.0.0.1", "--port", 0, "--no-dashboard", "--scheduler-file", file)
    with process_of("distributed.cli.dask_scheduler", *where) as process:
        end = time.monotonic() + 60
        while not (file.exists() and file.stat().st_size) and time.monotonic() < end:
            time.sleep(0.02)
        yield process, json.loads(file.read_text())["address"]


@contextmanager
def worker_processes(address: str, count: int, folder: Path) -> Iterator[list[int]]:
    """Numbers of the processes of workers of that scheduler, once they have found it."""
    from distributed import Client

    how = ("--nthreads", 1, "--no-nanny", "--no-dashboard", "--local-directory", folder)
    with ExitStack() as processes:
        with Client(address, timeout=20, set_as_default=False) as client:
            before = len(client.scheduler_info()["workers"])
            made = [
                processes.enter_context(process_of("distributed.cli.dask_worker", address, *how)) for _ in range(count)
            ]
            client.wait_for_workers(before + count, timeout=60)
        yield [process.pid for process in made]


def scene(seed: int = 0) -> np.ndarray[Any, Any]:
    """Mixtures of three colours with noise."""
    return smooth_scene(*SHAPE, 3, 0.1, seed)[0]


def write_scene(folder: Path, seed: int = 0) -> Path:
    """The scene as a file."""
    file = folder / "scene.png"
    Pillow.fromarray(scene(seed)).save(file)
    return file


def maps_of(out: Path) -> dict[str, bytes]:
    """Every map of a result as bytes."""
    return {name: np.asarray(zarr.open_array(out / name, mode="r")[:]).tobytes() for name in MAPS}


def bits(out: Path) -> dict[str, Any]:
    """All that a run has found: topics and all else in the model file, documents, and maps."""
    model = digest(archive.load(out / "model.pmlda"))
    return {"model": model, "table": (out / "documents.csv").read_bytes()} | maps_of(out)


def files_of(folder: Path) -> list[str]:
    """All files in a folder and in its folders."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
