"""Run folders: what is needed to resume a run that was killed. A request, a log, a lock, files that are whole or none.

A run that will write OUT keeps everything in OUT.run beside it, and removes that when OUT is complete.
"""

import glob
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pmlda.errors import RunError

SUFFIX = ".run"


class RunFolder:
    """The folder of one run. Its lock is held as long as it is open, and falls when the process ends, however it ends.

    path : the folder
    out : what the run will write
    request : what was asked for, plain values only
    """

    def __init__(self, path: Path, request: dict[str, Any], lock: int) -> None:
        self.path, self.request, self._lock = path, request, lock
        self.out = path.with_name(path.name.removesuffix(SUFFIX))

    @classmethod
    def create(cls, out: str | Path, request: dict[str, Any]) -> Self:
        """A new folder for a run that will write out."""
        path = run_folder(out)
        # Under another name until it is complete, so that no folder is ever without its request.
        part = _aside(path, "part")
        try:
            part.mkdir()
            write_whole(part / "request.json", json.dumps(request, indent=1).encode())
            lock = lock_folder(part)
            part.rename(path)
        except OSError as error:
            shutil.rmtree(part, ignore_errors=True)
            if path.is_dir():
                raise RunError(
                    f"An earlier run to {str(out)!r} was not finished. Resume it: pmlda resume {str(out)!r}; "
                    f"or start again after removing the folder {str(path)!r}."
                ) from None
            raise RunError(f"{str(path)!r} could not be written: {error.strerror or error}.") from None
        _sweep(path, "part", "old")
        return cls(path, request, lock)

    @classmethod
    def open(cls, out: str | Path) -> Self:
        """The folder of an earlier run, by its own name or by that of what it was to write."""
        path = Path(out) if Path(out).name.endswith(SUFFIX) else run_folder(out)
        if not path.is_dir():
            _sweep(path, "old")
            done = path.with_name(path.name.removesuffix(SUFFIX))
            found = f"{str(done)!r} is complete" if done.exists() else f"There is no folder {str(path)!r}"
            raise RunError(f"{found}: there is no run to resume.")
        lock = lock_folder(path)
        _sweep(path, "part", "old")
        try:
            request = json.loads((path / "request.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            request = None
        if not isinstance(request, dict):
            os.close(lock)
            raise RunError(
                f"{str(path)!r} does not tell what was asked for (its request.json is missing or damaged). "
                "Remove the folder and start again."
            )
        return cls(path, request, lock)

    def log(self, event: str, **values: Any) -> None:
        """One more line of the run's log."""
        line = {"time": datetime.now(UTC).isoformat(timespec="seconds"), "event": event} | values
        with (self.path / "log.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def read_log(self) -> list[dict[str, Any]]:
        """The log so far, without lines that were cut off or damaged."""
        lines = []
        path = self.path / "log.jsonl"
        for text in path.read_bytes().splitlines() if path.exists() else []:
            try:
                lines.append(json.loads(text))
            except ValueError:
                continue
        return lines

    def remove(self) -> None:
        """The run is finished, and its result has its name. The folder vanishes at once, or stays as it is."""
        old = _aside(self.path, "old")
        self.path.rename(old)
        shutil.rmtree(old, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        os.close(self._lock)


def run_folder(out: str | Path) -> Path:
    """Where the run that writes out keeps what it needs."""
    final = Path(out).resolve()
    return final.with_name(final.name + SUFFIX)


def _aside(path: Path, what: str) -> Path:
    """A hidden name beside the path, unlike all others."""
    return path.with_name(f".{path.name}-{secrets.token_hex(4)}.{what}")


def _sweep(path: Path, *kinds: str) -> None:
    """Remove what processes that were killed left beside the folder. "part" : only by who has the folder, as its own"""
    for kind in kinds:
        for left in path.parent.glob(f".{glob.escape(path.name)}-{'[0-9a-f]' * 8}.{kind}"):
            shutil.rmtree(left, ignore_errors=True)


def lock_folder(path: Path) -> int:
    """An open file that no other process can lock; the system frees it when this process ends, however it ends."""
    try:
        import fcntl  # late: Windows has none, and needs none for anything else
    except ImportError:
        raise RunError("This system cannot lock folders, so runs cannot be kept to be resumed.") from None
    try:
        file = os.open(path / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise RunError(f"{str(path)!r} cannot be written to: {error.strerror}. Choose another place.") from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(file, 0)
        os.write(file, str(os.getpid()).encode())
    except BlockingIOError:
        holder = os.read(file, 32).decode(errors="replace").strip() or "unknown"
        os.close(file)
        raise RunError(
            f"Another process (number {holder}) is at work in {str(path)!r}. Wait for it, or end it first."
        ) from None
    except OSError as error:
        os.close(file)
        raise RunError(f"{str(path)!r} cannot be locked: {error.strerror}. Choose another place.") from None
    return file


@contextmanager
def whole_file(path: Path, *, durable: bool = True) -> Iterator[Path]:
    """A name to write to; the file takes its own when it is complete, and is never seen half-written.

    durable : wait for the disk, so that a power cut leaves it whole too; killed processes do no harm either way
    """
    part = _aside(path, "part")
    try:
        yield part
        if durable:
            _to_disk(part)
        part.replace(path)
        if durable:
            _to_disk(path.parent)
    finally:
        part.unlink(missing_ok=True)


def _to_disk(path: Path) -> None:
    """Wait until a file, or the names in a folder, would survive a power cut."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def write_whole(path: Path, data: bytes) -> None:
    """All of the bytes under this name, or nothing."""
    with whole_file(path) as part:
        part.write_bytes(data)
