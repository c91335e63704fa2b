"""The same picture with the same settings gives the same bits, wherever it is worked on and whatever is lost."""

import os
import signal
import threading
import time

import pytest

from pmlda import segment
from tests.pipeline.common import CHOICES, LEFT_SOCKETS, bits

pytestmark = LEFT_SOCKETS

WITH_REFITS = CHOICES | {"refits": 3}


def test_two_threads_find_what_one_finds(picture, expected, tmp_path):
    segment(picture, 3, out=tmp_path / "maps.zarr", n_jobs=2, **CHOICES)
    assert bits(tmp_path / "maps.zarr") == expected


def test_two_processes_find_what_one_thread_finds(picture, client, expected, tmp_path):
    found = segment(picture, 3, out=tmp_path / "maps.zarr", client=client, **CHOICES)
    assert bits(tmp_path / "maps.zarr") == expected
    assert found.record["threads"] == 2


def test_labels_across_tiles_are_the_same_everywhere(picture, client, expected, tmp_path):
    """Lines along and across the borders of tiles, at 64."""
    labels = [
        {"topic": 3, "points": [[10, 63], [150, 65]], "radius": 2},
        {"topic": 1, "points": [[64, 70], [64, 130]], "radius": 3},
        {"topic": 2, "contains": True, "polygon": [[[40, 5], [90, 5], [90, 50], [40, 50]]]},
    ]
    segment(picture, 3, labels=labels, out=tmp_path / "one.zarr", n_jobs=1, **WITH_REFITS)
    segment(picture, 3, labels=labels, out=tmp_path / "two.zarr", client=client, **WITH_REFITS)
    assert bits(tmp_path / "one.zarr") == bits(tmp_path / "two.zarr") != expected


def test_without_a_name_maps_are_in_a_folder_that_lasts_as_long_as_the_result(picture, client, expected):
    found = segment(picture, 3, client=client, **CHOICES)
    assert bits(found.path) == expected
    folder = found.path.parent
    del found
    assert not folder.exists()


def kill_when(path, pid, done):
    """End a process the moment a file or folder appears; note whether it was still in time."""
    while not path.exists() and path.parents[2].parent.exists() and not done:
        time.sleep(0.002)
    if path.exists():
        os.kill(pid, signal.SIGKILL)
        done.append(path.exists())


@pytest.mark.parametrize("stage", ["sample", "maps"])
def test_a_worker_that_is_killed_changes_nothing(picture, client, expected, tmp_path, stage):
    out, killed = tmp_path / "maps.zarr", []
    client.wait_for_workers(2)
    victim = next(iter(client.run(os.getpid).values()))
    watcher = threading.Thread(target=kill_when, args=(tmp_path / "maps.zarr.run" / "parts" / stage, victim, killed))
    watcher.start()
    try:
        segment(picture, 3, out=out, client=client, **CHOICES)
    finally:
        in_time = list(killed)
        killed.append(False)
        watcher.join()
    assert in_time == [True]
    assert bits(out) == expected
