"""Files and folders that are complete or absent, never half-written; and a lock for folders.

Everything is written under a hidden name beside the target, which only gets its own name once it is complete. A process
that is killed leaves at most something hidden, which `remove_leftovers` finds.
"""

import errno
import glob
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
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
        with naming(path, part):
            yield part
            if durable:
                sync(part)
            part.replace(path)
            if durable:
                sync(path.parent)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def scratch_file(path: Path) -> Iterator[Path]:
    """Yield a hidden name for what is needed only while another file is written; it is removed afterwards."""
    part = _hidden(path, PART)
    try:
        with naming(path, part):
            yield part
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def naming(path: Path, hidden: Path | None = None) -> Iterator[None]:
    """Let errors of the system name what was to be written: a full disk, met through an open file, names nothing.

    hidden : the name that it has until it is complete, which tells nobody anything
    """
    try:
        yield
    except OSError as error:
        # Libraries raise OSErrors of their own as well, which have a text instead of a number.
        if error.errno is not None and error.filename in (None, str(hidden)):
            error.filename = str(path)
        raise


def write_file(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Write all of the bytes, or nothing."""
    with new_file(path, durable=durable) as part:
        part.write_bytes(data)


@contextmanager
def new_folder(
    path: Path,
    *,
    check: Callable[[Path], None] | None = None,
    shield: Callable[[], AbstractContextManager[Any]] = nullcontext,
) -> Iterator[Path]:
    """Yield a hidden folder to fill; afterwards it gets its name. After an error, nothing has changed.

    check : as in name_folder
    shield : holds off Ctrl-C while names change
    """
    part = _hidden(path, PART)
    part.mkdir()
    with _held(part):
        try:
            yield part
            with shield():
                name_folder(part, path, check=check)
        except BaseException:
            with shield():
                shutil.rmtree(part, ignore_errors=True)
            raise


def name_folder(made: Path, path: Path, *, check: Callable[[Path], None] | None = None) -> None:
    """Give a complete folder its name. A folder of that name that is not empty is an OSError, and stays.

    check : decides whether such a folder gives way. It is called with what has been moved out of the way, so that it
        sees what would be lost, whatever happened before; if it raises, everything is as it was
    """
    if check is None or not path.exists():
        made.rename(path)
        return
    old = _hidden(path, OLD)
    with _held(path):
        path.rename(old)
        try:
            check(old)
            made.rename(path)
        except BaseException:
            old.rename(path)
            raise
        remove_folder(old)


def name_file(made: Path, path: Path, *, replace: bool) -> None:
    """Give a complete file a second name; the first one stays. If something has that name: a FileExistsError.

    replace : what has that name gives way
    """
    part = _hidden(path, PART)
    try:
        try:
            os.link(made, part)
        except OSError:  # not every file system has hard links
            shutil.copyfile(made, part)
        if replace:
            part.replace(path)
            return
        try:
            os.link(part, path)  # unlike renaming, never replaces anything
        except FileExistsError:
            raise
        except OSError:
            if os.path.lexists(path):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None
            part.rename(path)
    finally:
        part.unlink(missing_ok=True)


def open_own(path: Path, flags: int) -> int:
    """Open a file of a folder that only this package writes in: an ordinary file of a single name, through no link.

    Somebody else may have made the folder, and a link in it may point anywhere.
    """
    refused = OSError(errno.ELOOP, f"{path.name!r} in it is a link, or no ordinary file")
    try:
        file = os.open(path, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0), 0o644)
    except OSError as error:
        raise refused if error.errno in (errno.ELOOP, errno.ENXIO) else error from None
    about = os.fstat(file)
    if not stat.S_ISREG(about.st_mode) or about.st_nlink > 1:
        os.close(file)
        raise refused
    return file


def require_own(folder: Path) -> None:
    """Refuse a folder in which there is anything but ordinary files and folders."""
    if folder.is_symlink():
        raise RunError(f"{str(folder)!r} is a link. Give the folder itself.")
    waiting = [folder]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(Path(entry.path))
                elif not entry.is_file(follow_symlinks=False):
                    raise RunError(
                        f"{str(folder)!r} is not used: {os.path.relpath(entry.path, folder)!r} in it is a link, or no "
                        "ordinary file, and pmlda writes none. Remove the folder if you do not know where it is from."
                    )


def remove_folder(path: Path) -> None:
    """Remove a folder: its name vanishes at once, or an OSError leaves all of it in place."""
    part = _hidden(path, PART)
    path.rename(part)
    shutil.rmtree(part, ignore_errors=True)


def remove_leftovers(path: Path) -> None:
    """Remove what killed processes left half-written or half-removed beside a file or folder.

    A folder that one of them had moved out of the way, and could not replace any more, gets its name back.
    """
    for left in _hidden_names(path, PART):
        if not _is_held(left):
            if left.is_dir() and not left.is_symlink():
                shutil.rmtree(left, ignore_errors=True)
            else:
                left.unlink(missing_ok=True)
    for left in _hidden_names(path, OLD):
        if not _is_held(left) and not os.path.lexists(path):
            left.rename(path)


def is_leftover(name: str) -> bool:
    """Whether a killed process has left a file of this name."""
    return re.fullmatch(rf"\..*-[0-9a-f]{{8}}\.({PART}|{OLD})", name) is not None


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Show other processes that this one is at work in a folder, whatever it is called meanwhile."""
    file = None
    with suppress(ImportError, OSError):  # where folders cannot be locked, leftovers stay
        import fcntl

        file = os.open(folder, os.O_RDONLY)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    try:
        yield
    finally:
        if file is not None:
            os.close(file)


def _is_held(path: Path) -> bool:
    """Whether a process may be at work there; also if that is not known."""
    try:
        import fcntl

        file = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except (ImportError, OSError):
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(file)
    return False


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
            self._file = open_own(folder / "lock", os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise RunError(f"{str(folder)!r} cannot be written to: {error.strerror}. Choose another place.") from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(self._file, 0)
            os.write(self._file, str(os.getpid()).encode())
        except BlockingIOError:
            holder = os.read(self._file, 32).decode("ascii", "backslashreplace").strip() or "unknown"
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


def _hidden_names(path: Path, kind: str) -> list[Path]:
    """All names that _hidden may have given."""
    return list(path.parent.glob(f".{glob.escape(_stem(path))}-{'[0-9a-f]' * 8}.{kind}"))


def _hidden(path: Path, kind: str) -> Path:
    """A name beside the path that nothing else has."""
    return path.with_name(f".{_stem(path)}-{secrets.token_hex(4)}.{kind}")


def _stem(path: Path) -> str:
    """The path's name, or a short stand-in for a long one."""
    from pmlda.storage.digest import digest_bytes  # late: it needs NumPy, without which `pmlda --help` is quicker

    name = os.fsencode(path.name)
    return path.name if len(name) <= LONGEST_NAME else digest_bytes(name)[:32]
