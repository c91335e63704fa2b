"""Disks for tests: small ones, full ones, ones that cannot be written to. Real ones, which need the right to mount."""

import os
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PAGE = 4096


@contextmanager
def disk(folder: Path, n_bytes: int, *, read_only: bool = False) -> Iterator[Path]:
    """A disk of so many bytes, for as long as the block lasts; where none can be mounted, the test is skipped."""
    folder.mkdir()
    options = f"size={n_bytes}" + (",ro" if read_only else "")
    try:
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        pytest.skip("There is no command `mount`, so there is no disk to test with.")
    if done.returncode != 0:
        pytest.skip(f"No disk can be mounted here, which takes root: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


@contextmanager
def read_only_folder(folder: Path) -> Iterator[Path]:
    """A folder in which nothing can be made: for root a disk, since root may write where permissions forbid it."""
    if os.geteuid() == 0:
        with disk(folder, PAGE, read_only=True):
            yield folder
        return
    folder.mkdir(mode=0o555)
    yield folder


def fill(folder: Path, but: int = 0) -> None:
    """A file "filler" takes all of the disk that is free, but so many bytes."""
    there = os.statvfs(folder)
    more = there.f_bavail * there.f_frsize - but
    with (folder / "filler").open("ab") as stream:
        if more > 0:
            os.posix_fallocate(stream.fileno(), stream.tell(), more)


@contextmanager
def small_files(n_bytes: int) -> Iterator[None]:
    """No file of this process can become larger, as on a disk on which only so much is free."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
