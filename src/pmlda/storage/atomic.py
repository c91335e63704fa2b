"""Files and folders that are complete or absent, never half-written; and a lock for folders.

Everything is written under a hidden name beside the target, which only gets its own name once it is complete. A process
that is killed leaves at most something hidden, which `remove_leftovers` finds.
"""

import glob
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pmlda.errors import RunError

# File systems allow 255 bytes in a name; longer ones than this leave no room for what is added to hide them.
LONGEST_NAME = 200
PART, OLD = "part", "old"


@contextmanager
def new_file(path: Path, *, durable: bool = True) -> Iterator[Path]:
    """Yield a hidden name to write to; afterwards the file gets its own. After an error, nothing has changed.

    durable : also wait for the disk, so that the file survives a power cut; a killed process does no harm either way
    """
    part = _hidden(path, PART)
    try:
        yield part
        if durable:
            sync(part)
        part.replace(path)
        if durable:
            sync(path.parent)
    finally:
        part.unlink(missing_ok=True)


def write_file(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Write all of the bytes, or nothing."""
    with new_file(path, durable=durable) as part:
        part.write_bytes(data)


@contextmanager
def new_folder(
    path: Path, *, replace: bool = False, shield: Callable[[], AbstractContextManager[Any]] = nullcontext
) -> Iterator[Path]:
    """Yield a hidden folder to fill; afterwards it gets its name. After an error, nothing has changed.

    replace : an old folder gives way; otherwise one that is not empty is an OSError
    shield : holds off Ctrl-C while names change
    """
    part, old = _hidden(path, PART), _hidden(path, OLD)
    try:
        part.mkdir()
        yield part
        with shield():
            if replace and path.exists():
                path.rename(old)
            part.rename(path)
            shutil.rmtree(old, ignore_errors=True)
    except BaseException:
        with shield():
            shutil.rmtree(part, ignore_errors=True)
            if old.exists() and not path.exists():
                old.rename(path)
        raise


def remove_folder(path: Path) -> None:
    """Remove a folder: its name vanishes at once, or an OSError leaves all of it in place."""
    old = _hidden(path, OLD)
    path.rename(old)
    shutil.rmtree(old, ignore_errors=True)


def remove_leftovers(path: Path, *kinds: str) -> None:
    """Remove what killed processes left beside a folder: PART, which only the owner of its lock may do, or OLD."""
    for kind in kinds:
        for left in path.parent.glob(f".{glob.escape(_stem(path))}-{'[0-9a-f]' * 8}.{kind}"):
            shutil.rmtree(left, ignore_errors=True)


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, would survive a power cut."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


class FolderLock:
    """Exclusive use of a folder. The system frees it when this process ends, however it ends."""

    def __init__(self, folder: Path) -> None:
        try:
            import fcntl  # late: Windows has none, and needs none for anything else
        except ImportError:
            raise RunError("This system cannot lock folders, so this run could not be resumed.") from None
        try:
            self._file = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise RunError(f"{str(folder)!r} cannot be written to: {error.strerror}. Choose another place.") from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(self._file, 0)
            os.write(self._file, str(os.getpid()).encode())
        except BlockingIOError:
            holder = os.read(self._file, 32).decode(errors="replace").strip() or "unknown"
            self.release()
            raise RunError(
                f"Another process (number {holder}) is at work in {str(folder)!r}. Wait for it, or end it first."
            ) from None
        except OSError as error:
            self.release()
            raise RunError(f"{str(folder)!r} cannot be locked: {error.strerror}. Choose another place.") from None

    def release(self) -> None:
        """Let others use the folder."""
        os.close(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()


def _hidden(path: Path, kind: str) -> Path:
    """A name beside the path that nothing else has."""
    return path.with_name(f".{_stem(path)}-{secrets.token_hex(4)}.{kind}")


def _stem(path: Path) -> str:
    """The path's name, or a short stand-in for a long one."""
    from pmlda.storage.digest import digest_bytes  # late: it needs NumPy, without which `pmlda --help` is quicker

    name = os.fsencode(path.name)
    return path.name if len(name) <= LONGEST_NAME else digest_bytes(name)[:32]
