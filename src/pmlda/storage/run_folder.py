"""Run folders: what is needed to resume a run that was killed. A request, a log, a lock, and files of the run's own.

A run that will write OUT keeps everything in OUT.run beside it, and removes that when OUT is complete.
"""

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from pmlda.errors import RunError
from pmlda.storage.atomic import (
    FolderLock,
    new_folder,
    open_own,
    remove_folder,
    remove_leftovers,
    require_own,
    write_file,
)
from pmlda.storage.tables import parse_json, read_small

SUFFIX, LOG = ".run", "log.jsonl"
MOST_REQUEST_BYTES = MOST_LOG_BYTES = 2**24
Request = TypeVar("Request")


class RunFolder:
    """The folder of one run, locked as long as it is open.

    path : the folder
    out : what the run will write
    """

    def __init__(self, path: Path, lock: FolderLock) -> None:
        self.path, self._lock = path, lock
        self.out = path.with_name(path.name.removesuffix(SUFFIX))

    @classmethod
    def create(cls, out: str | Path, request: dict[str, Any]) -> Self:
        """A new folder for a run that will write out.

        request : what was asked for, plain values only
        """
        path = run_folder(out)
        lock = None
        try:
            with new_folder(path) as part:  # no folder is ever without its request
                write_file(part / "request.json", json.dumps(request, indent=1).encode())
                lock = FolderLock(part)
        except OSError as error:
            if lock is not None:
                lock.release()
            if path.is_dir():
                FolderLock(path).release()  # says so if another process is at work there
                raise RunError(
                    f"An earlier run to {str(out)!r} was not finished. Resume it: pmlda resume {str(out)!r}; "
                    f"or start again after removing the folder {str(path)!r}."
                ) from None
            raise RunError(f"{str(path)!r} could not be written: {error.strerror or error}.") from None
        remove_leftovers(path)
        return cls(path, lock)

    @classmethod
    def open(cls, out: str | Path, parse: Callable[[dict[str, Any]], Request]) -> tuple[Self, Request]:
        """The folder of an earlier run, by its own name or by that of what it was to write, and what was asked for.

        The folder may be from somebody else: nothing in it is written to before all of it has been looked at.

        parse : makes a request of the table that was written; a ValueError if it cannot be one
        """
        path = Path(out) if Path(out).name.endswith(SUFFIX) else run_folder(out)
        if not path.is_dir():
            remove_leftovers(path)
            done = path.with_name(path.name.removesuffix(SUFFIX))
            found = f"{str(done)!r} is complete" if done.exists() else f"There is no folder {str(path)!r}"
            raise RunError(f"{found}: there is no run to resume.")
        require_own(path)
        try:
            request = parse(parse_json(read_small(path / "request.json", MOST_REQUEST_BYTES, RunError)))
        except (OSError, ValueError, TypeError, LookupError):
            raise RunError(
                f"{str(path)!r} cannot be resumed: its request.json is missing or damaged. "
                "Remove the folder and start again."
            ) from None
        lock = FolderLock(path)
        remove_leftovers(path)
        return cls(path, lock), request

    def log(self, event: str, **values: Any) -> None:
        """One more line of the run's log."""
        line = {"time": datetime.now(UTC).isoformat(timespec="seconds"), "event": event} | values
        try:
            with open(open_own(self.path / LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT), "ab") as file:
                file.write(json.dumps(line).encode() + b"\n")
        except OSError as error:
            raise RunError(f"{str(self.path / LOG)!r} could not be written: {error.strerror or error}.") from None

    def read_log(self) -> list[dict[str, Any]]:
        """The log so far, without lines that were cut off or damaged."""
        lines = []
        path = self.path / LOG
        try:
            texts = read_small(path, MOST_LOG_BYTES, RunError).splitlines()
        except (OSError, RunError):
            texts = []
        for text in texts:
            try:
                line = parse_json(text)
            except ValueError:
                continue
            lines += [line] if isinstance(line, dict) else []
        return lines

    def remove(self) -> None:
        """The run is finished, and its result has its name. The folder vanishes at once, or stays as it is."""
        remove_folder(self.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._lock.release()


def run_folder(out: str | Path) -> Path:
    """Where the run that writes out keeps what it needs."""
    final = Path(out).resolve()
    return final.with_name(final.name + SUFFIX)
