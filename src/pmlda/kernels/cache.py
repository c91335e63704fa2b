"""Where compiled kernels are kept, and who compiles them: of several processes that need one, the first does.

File names hold a digest of all sources of kernels, so that no code of another version is ever used: numba by itself
looks at the file of a kernel, not at those of the functions that it calls.
"""

import atexit
import hashlib
import os
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pmlda.errors import KernelCacheWarning, TakenError
from pmlda.kernels.locks import Lock

# Tests and work on kernels turn the cache on disk off with PMLDA_KERNEL_CACHE=0.
KEEPS = os.environ.get("PMLDA_KERNEL_CACHE", "1") != "0"
SOURCES = Path(__file__).parent
SUBFOLDER = "pmlda-kernels"
# Files of other versions that nobody has written for so long are deleted from folders that several may share.
STALE_SECONDS = 30 * 86400.0
# A process that compiles longer than this is not waited for.
MOST_WAIT = 120.0


def _digest() -> str:
    """Of all sources."""
    found = hashlib.sha256()
    for source in sorted(SOURCES.glob("*.py")):
        found.update(source.name.encode() + source.read_bytes())
    return found.hexdigest()[:12]


def folders() -> list[Path]:
    """Where kernels may be kept, the best place first."""
    for name in ("PMLDA_CACHE_DIR", "NUMBA_CACHE_DIR"):
        if chosen := os.environ.get(name):
            return [Path(chosen).absolute() / SUBFOLDER]
    beside = [SOURCES / "__pycache__"]
    with suppress(RuntimeError):  # nobody's home
        home = Path.home()
        caches = home / "Library/Caches" if sys.platform == "darwin" else home / ".cache"
        base = os.environ.get("LOCALAPPDATA" if os.name == "nt" else "XDG_CACHE_HOME")
        beside.append((Path(base) if base else caches) / SUBFOLDER)
    return beside


def can_write(folder: Path) -> bool:
    """Whether files can be made there, now."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


def forget_stale(folder: Path, digest: str, older_than: float = 0.0) -> None:
    """Delete compiled kernels of other versions, as far as they are so many seconds old."""
    latest = time.time() - older_than
    for file in [*folder.glob("*.nbi"), *folder.glob("*.nbc"), *folder.glob("*.kernel*")]:
        with suppress(OSError):  # gone already, or not ours to delete
            if digest not in file.name and file.stat().st_mtime <= latest:
                file.unlink()


class Places:
    """The folders of this process.

    digest : of this version's kernels
    readable : where kernels are looked for
    folder : where they are written, or None
    is_kept : whether they will be there tomorrow
    """

    def __init__(self) -> None:
        self.digest, self._compiler = _digest(), f"{version('numba')}-py{sys.version_info[0]}{sys.version_info[1]}"
        self.readable = folders()
        self.folder = next((folder for folder in self.readable if can_write(folder)), None)
        self.is_kept = self.folder is not None
        if self.folder is None:
            # For this process and those that it starts: they share what they compile while it lasts.
            with suppress(OSError):
                base = Path(tempfile.mkdtemp(prefix="pmlda-"))
                atexit.register(shutil.rmtree, base, ignore_errors=True)
                self.folder = base / SUBFOLDER
                self.folder.mkdir()
                self.readable.append(self.folder)
        else:
            forget_stale(self.folder, self.digest, 0.0 if self.folder.parent == SOURCES else STALE_SECONDS)

    def mark(self, name: str, kind: str) -> str:
        """The name of a file that says: this kernel is here, for this kind."""
        return f"{name}-{self.digest}-{self._compiler}.kernel-{kind}"

    def has(self, name: str, kind: str) -> bool:
        """Whether a kernel is kept for this kind. A processor of another model would still have to compile it."""
        return any((folder / self.mark(name, kind)).exists() for folder in self.readable)


_places: Places | None = None


def places() -> Places:
    """The folders of this process, looked for once."""
    global _places
    if _places is None:
        _places = Places()
    return _places


# Told the name of each kernel that this process has to compile, or to wait for.
Listener = Callable[[str], None]
_listener: Listener | None = None
# Called while another process compiles the kernel that this one needs next.
_meanwhile: Callable[[], None] | None = None
_leaves_to_others = False
_has_warned = False


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Tell the listener of each kernel that has to be compiled while the block lasts."""
    global _listener
    before, _listener = _listener, listener
    try:
        yield
    finally:
        _listener = before


@contextmanager
def using_waits(meanwhile: Callable[[], None]) -> Iterator[None]:
    """Call this instead of waiting for a kernel that another process is compiling."""
    global _meanwhile
    before, _meanwhile = _meanwhile, meanwhile
    try:
        yield
    finally:
        _meanwhile = before


@contextmanager
def leaving_to_others() -> Iterator[None]:
    """Raise TakenError for a kernel that another process is compiling."""
    global _leaves_to_others
    before, _leaves_to_others = _leaves_to_others, True
    try:
        yield
    finally:
        _leaves_to_others = before


def _warn_once(reason: str) -> None:
    global _has_warned
    if not _has_warned:
        _has_warned = True
        warnings.warn(
            f"Compiled kernels cannot be kept{reason}: every run compiles its own, which takes several seconds. Set "
            "PMLDA_CACHE_DIR to a folder that can be written, or run `pmlda warmup` where one can.",
            KernelCacheWarning,
            stacklevel=2,
        )


def cached(dispatcher: Any) -> Any:
    """A dispatcher of numba whose code is kept on disk."""
    caching: Any = import_module("numba.core.caching")

    class Locator(caching._CacheLocator):
        """One folder, written or not: what was compiled while an image was built can be read where it runs."""

        def __init__(self, function: Any, file: str) -> None:
            self._py_file = file

        @classmethod
        def from_function(cls, function: Any, file: str) -> "Locator":
            return cls(function, file)

        def get_cache_path(self) -> str:
            return str(places().folder or places().readable[0])

        def get_source_stamp(self) -> str:
            return places().digest

        def get_disambiguator(self) -> str:
            return places().digest

    class Impl(caching.CompileResultCacheImpl):
        _locator_classes = (Locator,)

    class KernelCache(caching.FunctionCache):
        """numba's own cache, which reads several folders, shares work among processes, and never fails."""

        _impl_class = Impl

        def __init__(self, function: Any) -> None:
            super().__init__(function)
            stamp, base = self._impl.locator.get_source_stamp(), self._impl.filename_base
            self._files = [caching.IndexDataCacheFile(str(folder), base, stamp) for folder in places().readable]
            self._base, self._lock = base, Lock()

        def load_overload(self, signature: Any, context: Any) -> Any:
            context.refresh()
            if (found := self._find(signature, context)) is not None:
                return found
            is_taken = not self._take_lock(0.0)
            if is_taken and _leaves_to_others:
                raise TakenError
            if _listener is not None:
                _listener(name_of(self._py_func))
            if is_taken:
                if _meanwhile is not None:
                    _meanwhile()
                self._take_lock(MOST_WAIT)
            if (found := self._find(signature, context)) is not None:
                self._lock.release()
            return found

        def _take_lock(self, most: float) -> bool:
            folder = places().folder
            return folder is None or self._lock.acquire(folder / f"{self._base}.kernel-lock", most)

        def _find(self, signature: Any, context: Any) -> Any:
            key = self._index_key(signature, context.codegen())
            for file in self._files:
                with suppress(Exception):  # damaged, or not ours to read: as if it were not there
                    if (data := file.load(key)) is not None:
                        return self._impl.rebuild(context, data)
            return None

        def save_overload(self, signature: Any, data: Any) -> None:
            found = places()
            try:
                if found.folder is not None:
                    super().save_overload(signature, data)
                    (found.folder / found.mark(name_of(self._py_func), kind_of(signature))).touch()
                if not found.is_kept:
                    _warn_once("")
            except OSError as error:
                _warn_once(f" ({error.strerror})" if error.strerror else "")
            finally:
                self._lock.release()

    dispatcher._cache = KernelCache(dispatcher.py_func)
    return dispatcher


def name_of(function: Any) -> str:
    """A kernel's module and name: several have the same name."""
    return f"{function.__module__.rsplit('.', 1)[-1]}.{function.__name__}"


def kind_of(signature: tuple[Any, ...]) -> str:
    """Which kind of log-partition a signature has (LogPartition), or "any" where it has none."""
    for argument in signature:
        if getattr(getattr(argument, "instance_class", None), "__name__", "") == "LogPartition":
            fields = dict(zip(argument.fields, argument.types, strict=True))
            return next(kind for kind in ("quadratic", "additive", "other") if str(fields[kind]) != "none")
    return "any"
