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
    for path in _files_inside(folder):
        require_regular(path, error)


def irregular_kind(path: str | os.PathLike[str]) -> str:
    """What a path is if it is a pipe, a socket or a device; empty otherwise. Never waits."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return ""
    return next((kind for is_kind, kind in KINDS if is_kind(mode)), "")


def _files_inside(folder: Path) -> Iterator[str]:
    """Whatever is no folder. Links to folders are not followed, which could go round in circles."""
    for parent, _, names in os.walk(folder):
        yield from (os.path.join(parent, name) for name in names)
