"""Standard output and standard error that cannot fail, and on which libraries cannot print.

A terminal that is gone is no reason to lose a result; and what decoders say of a damaged file, in their own words, is
said once, in an error.
"""

import errno
import io
import logging
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

    def keep_apart(self) -> int:
        """Write to a copy of the file; whoever writes to its number from now on writes to nowhere.

        Returns the number.
        """
        number, nowhere = self._number, os.open(os.devnull, os.O_WRONLY)
        self._number = os.dup(number)
        os.dup2(nowhere, number)
        os.close(nowhere)
        return number

    def give_back(self, number: int) -> None:
        """Undo that."""
        os.dup2(self._number, number)
        os.close(self._number)
        self._number = number

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
    (output, file), (errors, error_file) = unfailing(sys.stdout), unfailing(sys.stderr)

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
        with _silent_libraries(error_file):
            yield failure
    finally:
        flush()
        sys.stdout, sys.stderr = before


@contextmanager
def _silent_libraries(ours: Unfailing | None) -> Iterator[None]:
    """Send to nowhere what libraries log, and what those in C print on standard error, which ours keeps for itself."""
    logging.disable(logging.CRITICAL)
    number = None if ours is None else ours.keep_apart()
    try:
        yield
    finally:
        if ours is not None and number is not None:
            ours.give_back(number)
        logging.disable(logging.NOTSET)


def _occupy_closed_files() -> None:
    """Give closed standard streams to nobody: the next file that is opened would get what others print there."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)
