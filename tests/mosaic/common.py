"""What tests of runs in blocks share: a picture, a run of the command in a process of its own, results as bytes."""

import gc
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from PIL import Image as Pillow

from pmlda import files
from pmlda.cluster import local_cluster
from pmlda.images.zarrs import MAPS
from pmlda.scenes import smooth_scene

SHAPE = (139, 171)  # no multiple of anything: blocks of 64, 64 + 11 rows and 64, 64 + 43 columns
CHOICES = {"documents": "windows:16", "features": "color+texture", "block": 64}
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
    """All that a run has found: topics and all else in the model file, and maps."""
    return {"model": files.digest(files.load(out / "model.pmlda"))} | maps_of(out)


def command(*arguments: Any) -> list[str]:
    return [sys.executable, "-m", "pmlda.cli", *(str(argument) for argument in arguments)]


def run(*arguments: Any, **settings: Any) -> "subprocess.CompletedProcess[str]":
    """The command in a process of its own, to its end."""
    return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=240, **settings)
