"""Standard output and standard error that cannot fail: a terminal that is gone is no reason to lose a result."""

import errno
import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO


class Unfailing(io.RawIOBase):
    """Writes to a file of the system until that fails, and to nowhere from then on.

    error : why writing failed, or None
    """

    def __init__(self, number: int) -> None:
        self._number = number
        self.error: OSError | None = None

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._number

    def isatty(self) -> bool:
        return os.isatty(self._number)

    def write(self, data: Any) -> int:
        if self.error is None:
            try:
                return os.write(self._number, data)
            except OSError as error:
                self.error = error
        return memoryview(data).nbytes


def unfailing(stream: TextIO | None) -> tuple[Any, Unfailing | None]:
    """A stream in place of this one, and the file under it. One that is closed, or is no file of the system, stays."""
    try:
        number = None if stream is None else stream.fileno()
    except (OSError, ValueError):
        number = None
    if stream is None or number is None:
        return stream, None
    file = Unfailing(number)
    # Characters that a terminal does not have are spelt.
    return io.TextIOWrapper(io.BufferedWriter(file), stream.encoding, "backslashreplace", line_buffering=True), file


@contextmanager
def unfailing_streams() -> Iterator[Callable[[], OSError | None]]:
    """Replace both streams while the block lasts; yields a function that tells what kept standard output from writing.

    Who closes a pipe has seen enough: that is no error.
    """
    _occupy_closed_files()
    before = sys.stdout, sys.stderr
    (output, file), (errors, _) = unfailing(sys.stdout), unfailing(sys.stderr)

    def flush() -> None:
        for stream in (output, errors):
            if stream is not None:
                stream.flush()

    def failure() -> OSError | None:
        flush()
        error = None if file is None else file.error
        return None if error is None or error.errno == errno.EPIPE else error

    sys.stdout, sys.stderr = output, errors
    try:
        yield failure
    finally:
        flush()
        sys.stdout, sys.stderr = before


def _occupy_closed_files() -> None:
    """Give closed standard streams to nobody: the next file that is opened would get what others print there."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)
