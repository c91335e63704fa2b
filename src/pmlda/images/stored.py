"""A picture whose windows can be read one by one: what is known of it before, and how to read one.

Nothing here keeps a file open: a function and plain values are all that a worker process needs to be sent.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pmlda.errors import ChangedPictureError, ImageError
from pmlda.images.checks import as_numbers, require
from pmlda.images.content import Content, Window
from pmlda.storage.regular import entries_inside
from pmlda.types import Georeference, PixelSize


class Stored(NamedTuple):
    """A picture that has not been read.

    shape : (H, W, B)
    dtype, bands, georeference, notes : as its windows will have them
    chunks : (rows, columns) of the parts in which it is stored, None if it is in one piece
    fingerprint : a text that changes when the picture does
    read : rows and columns → Content of that window
    files : those whose stamp is the fingerprint, if that is cheap to compare
    numbers : what the file counts its bands as, as in Content
    pixel_size : as its windows will have it
    """

    shape: tuple[int, int, int]
    dtype: np.dtype[Any]
    bands: tuple[str, ...]
    georeference: Georeference | None
    notes: tuple[str, ...]
    chunks: tuple[int, int] | None
    fingerprint: str
    read: Callable[[Window], Content]
    files: tuple[Path, ...] = ()
    numbers: tuple[int, ...] = ()
    pixel_size: PixelSize | None = None

    def read_unchanged(self, window: Window) -> Content:
        """A window of the picture as it was when it was opened; an error if it has changed since."""
        try:
            content = self.read(window)
        except ImageError:
            self._require_unchanged()  # a file that is replaced while it is read may look damaged
            raise
        self._require_unchanged()
        return content

    def _require_unchanged(self) -> None:
        if self.files:
            require_unchanged(self.files[0], self.fingerprint, partial(stamp, *self.files))


def require_unchanged(path: Any, fingerprint: str, now: Callable[[], str]) -> None:
    """An error unless the fingerprint of a picture is now what it was."""
    try:
        same = now() == fingerprint
    except (OSError, ImageError):  # gone
        same = False
    if not same:
        raise ChangedPictureError(
            f"{str(path)!r} was changed while it was read, so there are no maps of it. Start the run again."
        )


def probe(
    read: Callable[[Window], Content], size: Sequence[int], chunks: tuple[int, int] | None, *files: Path
) -> Stored:
    """What one pixel of files tells of the rest."""
    height, width = size
    found = read((slice(0, 1), slice(0, 1)))
    shape = (height, width, found.pixels.shape[2])
    about = (found.pixels.dtype, found.bands, found.georeference, found.notes)
    return Stored(shape, *about, chunks, stamp(*files), read, files, found.numbers, found.pixel_size)


def check_stored(what: str, shape: Sequence[int], dtype: np.dtype[Any]) -> None:
    """Pixels there are, and numbers they are. How many does not matter: they are not read at once."""
    as_numbers(np.empty(0, dtype), what)
    require(0 not in shape, f"{what} has no pixels: its shape is {tuple(shape)}. Give a picture with some.")


class Held:
    """A picture in memory."""

    def __init__(self, content: Content) -> None:
        self.content = content

    def __call__(self, window: Window) -> Content:
        """A window of it."""
        content = self.content
        return content._replace(
            pixels=content.pixels[window].copy(), valid=None if content.valid is None else content.valid[window]
        )


def stamp(*paths: Path) -> str:
    """Names, sizes and times of files."""
    about = [(path.resolve(), path.stat()) for path in paths]
    return " ".join(f"{path} {stat.st_size} {stat.st_mtime_ns}" for path, stat in about)


def stamp_folder(folder: Path) -> str:
    """Name, number of files, their size altogether and the time of the newest."""
    count, size, newest = 0, 0, 0
    for entry in entries_inside(folder):
        stat = entry.stat()
        count, size, newest = count + 1, size + stat.st_size, max(newest, stat.st_mtime_ns)
    return f"{folder.resolve()} {count} {size} {newest}"
