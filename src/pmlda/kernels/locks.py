"""A lock among processes, which the system releases when its holder ends, however that happens."""

import os
import time
from pathlib import Path

LOOK_SECONDS = 0.05

if os.name == "nt":
    import msvcrt

    def _lock(number: int) -> None:
        msvcrt.locking(number, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
else:
    import fcntl

    def _lock(number: int) -> None:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)


class Lock:
    """Held or not. Where the system has no locks, such as on some network drives, everybody holds it."""

    def __init__(self) -> None:
        self._number: int | None = None

    def acquire(self, file: Path, most: float) -> bool:
        """Hold the lock of this file, waiting no more than so many seconds for it; whether that came about."""
        if self._number is not None:
            return True
        try:
            number = os.open(file, os.O_CREAT | os.O_RDWR, 0o600)
        except OSError:
            return True
        deadline = time.monotonic() + most
        while True:
            try:
                _lock(number)
            except (BlockingIOError, PermissionError):
                if time.monotonic() >= deadline:
                    os.close(number)
                    return False
            except OSError:
                os.close(number)
                return True
            except BaseException:
                os.close(number)
                raise
            else:
                self._number = number
                return True
            try:
                time.sleep(LOOK_SECONDS)
            except BaseException:
                os.close(number)
                raise

    def release(self) -> None:
        """Let others have it."""
        if self._number is not None:
            os.close(self._number)
            self._number = None
