"""Checkpoints: what a fit needs to go on ⇄ the last two files of each of its parts in a folder.

A fit has one part for each chain of a sampler, and one for its variational stage. A file is whole or absent, carries
checksums, and notes which fit it belongs to; it holds tables of arrays, never pickles.
"""

import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from numbers import Integral, Real
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from pmlda.errors import CheckpointError, ModelFileError, PmldaError
from pmlda.storage import archive as files
from pmlda.storage.run_folder import lock_folder, whole_file
from pmlda.types import Draws, Estimate, Latents, Topics
from pmlda.validate import require

SUFFIX, DAMAGED = ".checkpoint", ".damaged"
# Writing may take this share of a run, whatever was asked for in seconds.
LARGEST_SHARE = 0.05


@dataclass(frozen=True)
class Checkpoint:
    """Where and how often a fit keeps what it needs to go on.

    folder : a new or empty one, or that of an earlier run of the same fit
    every_seconds : less often where writing would take more than a twentieth of the time
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
    """A folder stands for a checkpoint in it."""
    if isinstance(given, Checkpoint):
        return given
    require(
        isinstance(given, str | os.PathLike),
        f"checkpoint={given!r}: give the name of a folder, or a pmlda.Checkpoint.",
    )
    return Checkpoint(given)


class Series:
    """The files of one part of a fit."""

    def __init__(self, checkpoint: Checkpoint, name: str, note: dict[str, Any]) -> None:
        self._folder, self._name, self._note = Path(checkpoint.folder), name.replace(" ", "-"), note
        self._asked = checkpoint
        self._last_sweep = 0
        self._next_time = time.monotonic() + checkpoint.every_seconds
        self._has_warned = False

    def latest(self) -> dict[str, Any] | None:
        """What the newest file holds, or the one before if that is damaged; None if there is nothing to go on from."""
        for _, path in self._found():
            try:
                content: dict[str, Any] = unpack(files.load(path, files.CHECKPOINT))
            except ModelFileError:
                set_aside(path)
                continue
            self._last_sweep = content["sweep"]
            return content
        return None

    def offer(self, sweep: int, content: Callable[[], dict[str, Any]], *, at_once: bool = False) -> None:
        """Write a file if it is time to, or at once."""
        every = self._asked.every_sweeps
        by_sweeps = every is not None and sweep - self._last_sweep >= every
        if not (at_once or by_sweeps or time.monotonic() >= self._next_time):
            return
        start = time.monotonic()
        try:
            self._write(pack(content() | {"sweep": sweep}))
        except OSError as error:
            self._warn(error)
        self._last_sweep = sweep
        end = time.monotonic()
        self._next_time = end + max(self._asked.every_seconds, (end - start) / LARGEST_SHARE)

    def _write(self, content: dict[str, Any]) -> None:
        number = next((number for number, _ in self._found()), 0) + 1
        with whole_file(self._folder / f"{self._name}-{number:06d}{SUFFIX}") as part, part.open("wb") as stream:
            files.write(stream, content, files.CHECKPOINT, self._note)
        for _, path in self._found()[2:]:
            path.unlink()

    def _found(self) -> list[tuple[int, Path]]:
        """Numbers and paths of the files there are, the newest first."""
        paths = self._folder.glob(f"{self._name}-*{SUFFIX}")
        return sorted(((int(path.stem.rpartition("-")[2]), path) for path in paths), reverse=True)

    def _warn(self, error: OSError) -> None:
        """Once: a fit that may end well is not given up because a disk is full."""
        if not self._has_warned:
            self._has_warned = True
            warnings.warn(
                f"A checkpoint in {str(self._folder)!r} could not be written: {error.strerror or error}. The fit goes "
                "on, and those written before stay; make room, and the next one will be written.",
                stacklevel=4,
            )


class NoSeries:
    """The same of a fit without checkpoints."""

    def latest(self) -> None:
        """Nothing."""

    def offer(self, sweep: int, content: Callable[[], dict[str, Any]], *, at_once: bool = False) -> None:
        """Do nothing."""


FindSeries = Callable[[str], Series | NoSeries]
"""A part of a fit, by its name → its files."""


def unkept(name: str) -> NoSeries:
    """For fits without checkpoints."""
    return NoSeries()


class Store:
    """The checkpoints of one fit. No other process can use the folder while it is open.

    asked : what was asked for, a text for each name; a fit goes on only where all of them are the same
    seed : of the fit that the checkpoints are of, None if there are none
    """

    def __init__(self, checkpoint: Checkpoint, asked: dict[str, str]) -> None:
        self._checkpoint, self._folder = checkpoint, Path(checkpoint.folder)
        self._asked = asked | {"version of pmlda": version("pmlda")}  # another one may compute otherwise
        try:
            self._folder.mkdir(exist_ok=True)
            foreign = [path.name for path in self._folder.iterdir() if not is_ours(path)]
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
        self._lock = lock_folder(self._folder)
        try:
            for part in self._folder.glob(f".*{SUFFIX}-*.part"):  # of a process that was killed
                part.unlink()
            self.seed = self._check()
        except BaseException:
            os.close(self._lock)
            raise

    def _check(self) -> int | None:
        """The seed of the fit whose checkpoints are there, or an error if that is another fit."""
        for path in sorted(self._folder.glob(f"*{SUFFIX}"), reverse=True):
            try:
                note = files.read_note(path, files.CHECKPOINT)
            except ModelFileError:
                set_aside(path)
                continue
            self._refuse(_differences(self._asked, note["asked"]))
            return int(note["seed"])
        return None

    def _refuse(self, differing: list[str]) -> None:
        if differing:
            raise CheckpointError(
                f"The checkpoints in {str(self._folder)!r} are of another fit. Not the same: {', '.join(differing)}. "
                "Give what was given then to go on with it, or another folder to start again."
            )

    def series(self, seed: int) -> FindSeries:
        """The files of the fit with this seed, by the names of its parts."""
        self._refuse([f"random_state (seed {self.seed}, now {seed})"] if self.seed not in (None, seed) else [])
        note = {"seed": seed, "asked": self._asked}
        return lambda name: Series(self._checkpoint, name, note)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        os.close(self._lock)


def is_ours(path: Path) -> bool:
    """Whether a file in a folder of checkpoints may be there."""
    return path.name == "lock" or path.name.startswith(".") or path.suffix in (SUFFIX, DAMAGED)


def describe(value: Any) -> str:
    """A short text that is the same for the same value, and another one for another: itself, or its digest."""
    if value is None or isinstance(value, str | bool | int | float | np.generic):
        return repr(value.item() if isinstance(value, np.generic) else value)
    try:
        return f"{type(value).__name__} {files.digest(value)}"
    except PmldaError:  # a family of one's own
        return f"{type(value).__name__} {describe(vars(value))}"


def has_checkpoints(folder: Path) -> bool:
    """Whether there is something to go on from."""
    return any(folder.glob(f"*{SUFFIX}"))


def set_aside(path: Path) -> None:
    """A damaged file keeps its content under another name, and is told of.

    The fit goes on from the checkpoint before, or else from its start. Either way it comes to the same result, only
    later, so there is no reason to stop a run that nobody is watching.
    """
    path.replace(path.with_suffix(DAMAGED))
    warnings.warn(
        f"The checkpoint {str(path)!r} is damaged, and was set aside as {path.stem + DAMAGED!r}. The fit goes on from "
        "the one before, or where there is none, from its start: to the same result, only later.",
        stacklevel=2,
    )


def _differences(now: dict[str, str], then: dict[str, str]) -> list[str]:
    """What differs between two fits, with values where they are short."""
    names = [name for name in {**now, **then} if now.get(name) != then.get(name)]
    return [
        f"{name} (was {then.get(name)}, now {now.get(name)})" if len(f"{then.get(name)}{now.get(name)}") < 60 else name
        for name in names
    ]


# ── states ⇄ tables ────────────────────────────────────────────────────────────────────────────────────────────
@cache
def _tuples() -> dict[str, Any]:
    from pmlda.engines import gibbs, paper, schedule, variational
    from pmlda.engines.collect import Take
    from pmlda.engines.proposals import Proposals

    kinds: tuple[Any, ...] = (Topics, Latents, Estimate, Draws, Proposals, Take, gibbs.State, gibbs.Tuning, paper.State)
    kinds += (schedule.Progress, variational.Info, variational.Past, variational.State)
    return {f"{kind.__module__}.{kind.__name__}": kind for kind in kinds}


def pack(value: Any) -> Any:
    """States, and whatever they are made of, as tables, lists, numbers and arrays."""
    kind = f"{type(value).__module__}.{type(value).__name__}"
    if kind in _tuples():
        return {"kind": kind, "fields": {name: pack(field) for name, field in value._asdict().items()}}
    from pmlda.engines.walks import Walk

    if isinstance(value, Walk):
        return {"kind": "walk", "fields": pack(vars(value))}
    if isinstance(value, np.floating):
        return {"kind": "number", "fields": {"value": np.asarray(value)}}
    if isinstance(value, dict):
        return {name: pack(item) for name, item in value.items()}
    if isinstance(value, tuple):
        return {"kind": "tuple", "fields": {str(i): pack(item) for i, item in enumerate(value)}}
    return [pack(item) for item in value] if isinstance(value, list) else value


def unpack(value: Any) -> Any:
    """The inverse of pack."""
    if isinstance(value, list):
        return [unpack(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "kind" not in value:
        return {name: unpack(item) for name, item in value.items()}
    kind, fields = value["kind"], unpack(value["fields"])
    if kind == "tuple":
        return tuple(fields.values())
    if kind == "number":
        return fields["value"][()]
    if kind == "walk":
        from pmlda.engines.walks import Walk

        walk = Walk.__new__(Walk)
        vars(walk).update(fields)
        return walk
    return _tuples()[kind](**fields)
