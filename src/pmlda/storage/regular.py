"""Path → nothing, or an error if it is no regular file: a pipe makes a reader wait for ever, a device never ends."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from pmlda.errors import PmldaError

KINDS = (
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def require_regular(path: str | os.PathLike[str], error: type[PmldaError] = PmldaError) -> None:
    """Refuse pipes, sockets and devices, at the end of links too, without opening them.

    Folders and what does not exist pass: whoever reads the path says that better.
    """
    kind = irregular_kind(path)
    if kind:
        raise error(f"{os.fspath(path)} is {kind}, not a regular file. Copy what it gives into a file first.")


def require_regular_inside(folder: Path, error: type[PmldaError] = PmldaError) -> None:
    """Refuse a folder that has anything but regular files and folders in it, at any depth."""
    for entry in entries_inside(folder):
        if not entry.is_file():
            require_regular(entry.path, error)


def entries_inside(folder: Path) -> Iterator[os.DirEntry[str]]:
    """Whatever is no folder, at any depth. Links are followed, but each folder is visited once: links can go round."""
    waiting, seen = [os.fspath(folder)], set()
    while waiting:
        parent = os.path.realpath(waiting.pop())
        if parent in seen:
            continue
        seen.add(parent)
        with os.scandir(parent) as entries:
            for entry in entries:
                if entry.is_dir():
                    waiting.append(entry.path)
                else:
                    yield entry


def irregular_kind(path: str | os.PathLike[str]) -> str:
    """What a path is if it is a pipe, a socket or a device; empty otherwise. Never waits."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return ""
    return next((kind for is_kind, kind in KINDS if is_kind(mode)), "")
