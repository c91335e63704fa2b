"""Run folders: what a run that was killed needs to go on. A request, a log, a lock, and files that are whole or absent.

A run that will write OUT keeps everything in OUT.run beside it, and removes that when OUT is complete.
"""

import fcntl
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

SUFFIX = ".run"


class RunError(ValueError):
    """A run that cannot begin or go on, and why."""


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
        if path.exists():
            raise RunError(
                f"An earlier run to {str(out)!r} was not finished. Go on with it: pmlda resume {str(out)!r}; "
                f"or start again after removing the folder {str(path)!r}."
            )
        try:
            path.mkdir()
            lock = _lock(path)
            write_whole(path / "request.json", json.dumps(request, indent=1).encode())
        except OSError as error:
            shutil.rmtree(path, ignore_errors=True)
            raise RunError(f"{str(path)!r} could not be written: {error.strerror or error}.") from None
        return cls(path, request, lock)

    @classmethod
    def open(cls, out: str | Path) -> Self:
        """The folder of an earlier run, by its own name or by that of what it was to write."""
        path = Path(out) if Path(out).name.endswith(SUFFIX) else run_folder(out)
        if not path.is_dir():
            done = path.with_name(path.name.removesuffix(SUFFIX))
            found = f"{str(done)!r} is complete" if done.exists() else f"There is no folder {str(path)!r}"
            raise RunError(f"{found}: there is no run to go on with.")
        lock = _lock(path)
        try:
            request = json.loads((path / "request.json").read_text(encoding="utf-8"))
            if not isinstance(request, dict):
                raise ValueError("no table")
        except (OSError, ValueError):
            os.close(lock)
            raise RunError(
                f"{str(path)!r} does not tell what was asked for (its request.json is missing or damaged). "
                "Remove the folder and start again."
            ) from None
        return cls(path, request, lock)

    def log(self, event: str, **values: Any) -> None:
        """One more line of the run's log."""
        line = {"time": datetime.now(UTC).isoformat(timespec="seconds"), "event": event} | values
        with (self.path / "log.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def read_log(self) -> list[dict[str, Any]]:
        """The log so far; a line that was cut off when the machine stopped is left out."""
        lines = []
        path = self.path / "log.jsonl"
        for text in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
            try:
                lines.append(json.loads(text))
            except ValueError:
                continue
        return lines

    def remove(self) -> None:
        """The run is finished, and its result has its name."""
        shutil.rmtree(self.path, ignore_errors=True)

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


def _lock(path: Path) -> int:
    """An open file that no other process can lock; the system frees it when this process ends."""
    file = os.open(path / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        holder = os.read(file, 32).decode(errors="replace").strip() or "unknown"
        os.close(file)
        raise RunError(
            f"Another process (number {holder}) is at work in {str(path)!r}. Wait for it, or end it first."
        ) from None
    os.ftruncate(file, 0)
    os.write(file, str(os.getpid()).encode())
    return file


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A name to write to; the file takes its own when it is complete and on disk, and is never seen half-written."""
    part = path.with_name(f".{path.name}-{secrets.token_hex(4)}.part")
    try:
        yield part
        with part.open("rb") as file:
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def write_whole(path: Path, data: bytes) -> None:
    """All of the bytes under this name, or nothing."""
    with whole_file(path) as part:
        part.write_bytes(data)
