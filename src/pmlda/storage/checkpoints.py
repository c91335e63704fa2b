"""Checkpoints: the state of a fit ⇄ the last two files of each of its parts in a folder.

A fit has one part for each chain of a sampler, and one for its variational stage. A file is complete or absent, carries
checksums, notes which fit it belongs to, and holds no pickles.
"""

import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from numbers import Integral, Real
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from pmlda.errors import CheckpointError, ModelFileError
from pmlda.storage import archive
from pmlda.storage.account import key_for
from pmlda.storage.atomic import PART, FolderLock, new_file
from pmlda.storage.digest import digest
from pmlda.validate import require

SUFFIX, DAMAGED = ".checkpoint", ".damaged"
PURPOSE = "checkpoint"
# Writing takes at most this share of a run, whatever every_seconds says.
LARGEST_SHARE = 0.05


@dataclass(frozen=True)
class Checkpoint:
    """Where and how often a fit saves its state, so that it can be resumed.

    folder : new or empty, or that of an earlier run of the same fit
    every_seconds : how often; less often where writing would take more than a twentieth of the time
    every_sweeps : also after every so many sweeps, whatever that costs

    >>> Checkpoint("run", every_seconds=10)
    Checkpoint(folder='run', every_seconds=10, every_sweeps=None)
    """

    folder: str | os.PathLike[str]
    every_seconds: float = 60.0
    every_sweeps: int | None = None

    def __post_init__(self) -> None:
        require(
            isinstance(self.every_seconds, Real) and self.every_seconds >= 0,
            f"every_seconds={self.every_seconds!r}: give a number of seconds, 0 or more.",
        )
        require(
            self.every_sweeps is None or (isinstance(self.every_sweeps, Integral) and self.every_sweeps >= 1),
            f"every_sweeps={self.every_sweeps!r}: give a whole number, 1 or more, or None.",
        )


def to_checkpoint(given: Any) -> Checkpoint:
    """A Checkpoint, or one with default intervals for the name of a folder."""
    if isinstance(given, Checkpoint):
        return given
    require(
        isinstance(given, str | os.PathLike),
        f"checkpoint={given!r}: give the name of a folder, or a pmlda.Checkpoint.",
    )
    return Checkpoint(given)


class Series:
    """The checkpoint files of one part of a fit."""

    def __init__(self, checkpoint: Checkpoint, name: str, note: dict[str, Any]) -> None:
        self._folder, self._name, self._note = Path(checkpoint.folder), name.replace(" ", "-"), note
        self._checkpoint = checkpoint
        self._last_sweep = 0
        self._next_time = time.monotonic() + checkpoint.every_seconds
        self._has_warned = False

    def read_latest(self) -> dict[str, Any] | None:
        """The newest state, or the one before if its file is damaged; None if there is none."""
        for _, path in self._list_files():
            try:
                content = archive.load(path, archive.CHECKPOINT, key_for(PURPOSE))
            except ModelFileError:
                rename_damaged(path)
                continue
            self._last_sweep = content["sweep"]
            return content
        return None

    def write_if_due(self, sweep: int, content: Callable[[], dict[str, Any]], *, at_once: bool = False) -> None:
        """Write the state if it is time to, or at once. After an error of the disk, warn and carry on."""
        every = self._checkpoint.every_sweeps
        by_sweeps = every is not None and sweep - self._last_sweep >= every
        if not (at_once or by_sweeps or time.monotonic() >= self._next_time):
            return
        start = time.monotonic()
        try:
            self._write(content() | {"sweep": sweep})
        except OSError as error:
            self._warn(error)
        self._last_sweep = sweep
        end = time.monotonic()
        self._next_time = end + max(self._checkpoint.every_seconds, (end - start) / LARGEST_SHARE)

    def _write(self, content: dict[str, Any]) -> None:
        number = next((number for number, _ in self._list_files()), 0) + 1
        with new_file(self._folder / f"{self._name}-{number:06d}{SUFFIX}") as part, part.open("wb") as stream:
            archive.write(stream, content, archive.CHECKPOINT, self._note, key_for(PURPOSE))
        for _, path in self._list_files()[2:]:
            path.unlink()

    def _list_files(self) -> list[tuple[int, Path]]:
        """Numbers and paths of the files, the newest first."""
        paths = self._folder.glob(f"{self._name}-*{SUFFIX}")
        return sorted(((int(path.stem.rpartition("-")[2]), path) for path in paths), reverse=True)

    def _warn(self, error: OSError) -> None:
        """Once. A full disk is no reason to abort a fit."""
        if not self._has_warned:
            self._has_warned = True
            warnings.warn(
                f"A checkpoint in {str(self._folder)!r} could not be written: {error.strerror or error}. The fit "
                "continues, and earlier checkpoints are kept. Make room, and the next one will be written.",
                stacklevel=4,
            )


class NoSeries:
    """Stands in for a Series in fits without checkpoints."""

    def read_latest(self) -> None:
        """There is no state."""

    def write_if_due(self, sweep: int, content: Callable[[], dict[str, Any]], *, at_once: bool = False) -> None:
        """Do nothing."""


OpenSeries = Callable[[str], Series | NoSeries]
"""The name of a part of a fit → its checkpoint files."""


def no_checkpoints(name: str) -> NoSeries:
    """The OpenSeries of fits without checkpoints."""
    return NoSeries()


class CheckpointFolder:
    """The checkpoints of one fit. No other process can use the folder while it is open.

    request : what decides the course of the fit, a text for each name; only a fit with the same request is resumed
    seed : of the fit that the checkpoints belong to, None if there are none
    """

    def __init__(self, checkpoint: Checkpoint, request: dict[str, str]) -> None:
        self._checkpoint, self._folder = checkpoint, Path(checkpoint.folder)
        self._request = request | {"version of pmlda": version("pmlda")}  # another one may compute otherwise
        try:
            self._folder.mkdir(exist_ok=True)
            foreign = [path.name for path in self._folder.iterdir() if not is_checkpoint_file(path)]
        except OSError as error:
            raise CheckpointError(
                f"The folder {str(self._folder)!r} for checkpoints cannot be used: {error.strerror}. "
                "Give another one, in a folder that exists and can be written to."
            ) from None
        if foreign:
            raise CheckpointError(
                f"The folder {str(self._folder)!r} holds other things than checkpoints ({foreign[0]!r}). "
                "Give a new or empty one."
            )
        self._lock = FolderLock(self._folder)
        try:
            for part in self._folder.glob(f".*{SUFFIX}-*.{PART}"):  # of a process that was killed
                part.unlink()
            self.seed = self._check()
        except BaseException:
            self._lock.release()
            raise

    def _check(self) -> int | None:
        """The seed of the fit whose checkpoints these are; an error if it is another fit."""
        for path in sorted(self._folder.glob(f"*{SUFFIX}"), reverse=True):
            try:
                note = archive.read_note(path, archive.CHECKPOINT, key_for(PURPOSE))
            except ModelFileError:
                rename_damaged(path)
                continue
            self._refuse(_differences(self._request, note.get("request", {})))
            return int(note["seed"])
        return None

    def _refuse(self, differing: list[str]) -> None:
        if differing:
            raise CheckpointError(
                f"The checkpoints in {str(self._folder)!r} belong to another fit. Different: {', '.join(differing)}. "
                "Use the same data and settings to resume that fit, or another folder to start again."
            )

    def open_series(self, seed: int) -> OpenSeries:
        """The files of the fit with this seed, by the names of its parts."""
        self._refuse([f"random_state (seed {self.seed}, now {seed})"] if self.seed not in (None, seed) else [])
        note = {"seed": seed, "request": self._request}
        return lambda name: Series(self._checkpoint, name, note)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._lock.release()


def is_checkpoint_file(path: Path) -> bool:
    """Whether a file belongs in a folder of checkpoints, in which there are no links."""
    known = path.name == "lock" or path.name.startswith(".") or path.suffix in (SUFFIX, DAMAGED)
    return known and not path.is_symlink()


def identify(value: Any) -> str:
    """A short text that is equal for equal values only: the value itself, or its class and digest."""
    if value is None or isinstance(value, str | bool | int | float | np.generic):
        return repr(value.item() if isinstance(value, np.generic) else value)
    return f"{type(value).__name__} {digest(value)}"


def has_checkpoints(folder: Path) -> bool:
    """Whether a fit in this folder can be resumed."""
    return any(folder.glob(f"*{SUFFIX}"))


def rename_damaged(path: Path) -> None:
    """Keep a damaged file under another name, and warn.

    The fit resumes from the checkpoint before, or else from its start. Either way it comes to the same result, only
    later, so there is no reason to stop a run that nobody is watching.
    """
    path.replace(path.with_suffix(DAMAGED))
    warnings.warn(
        f"The checkpoint {str(path)!r} is damaged, and was renamed to {path.stem + DAMAGED!r}. The fit resumes from "
        "the one before, or from the start if there is none: the result is the same, only later. (What another account "
        "has written counts as damaged.)",
        stacklevel=2,
    )


def _differences(now: dict[str, str], then: dict[str, str]) -> list[str]:
    """What differs between two fits, with values where they are short."""
    names = [name for name in {**now, **then} if now.get(name) != then.get(name)]
    return [
        f"{name} (was {then.get(name)}, now {now.get(name)})" if len(f"{then.get(name)}{now.get(name)}") < 60 else name
        for name in names
    ]
