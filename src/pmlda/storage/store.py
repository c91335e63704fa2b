"""Where a run keeps what its steps found of each tile: in memory, or in a folder that outlives the process.

A part that is there and intact is never made again: that is all there is to resuming. One that was cut short or damaged
counts as absent.
"""

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from pmlda.errors import ModelFileError, RunError
from pmlda.storage import archive
from pmlda.storage.atomic import new_file
from pmlda.storage.digest import digest_file

Content = dict[str, Any]
Value = TypeVar("Value")


class Store(Protocol):
    """Parts by stage and number, and whole objects by name.

    remembers : whether what was computed for one step is still there for the next, so that it is not computed again
    """

    @property
    def remembers(self) -> bool: ...
    def read(self, stage: str, number: int) -> Content | None:
        """The part, or None where there is none that is intact."""

    def write(self, stage: str, number: int, content: Content, *, durable: bool = True) -> None:
        """All of it or nothing. durable : wait for the disk; a power cut may otherwise damage what was written last"""

    def remove(self, stage: str, number: int) -> None:
        """Forget a part."""

    def recall(self, name: str, number: int, compute: Callable[[], Value]) -> Value:
        """What was computed before under this name, where the store remembers; otherwise computed now."""

    def forget(self, name: str, number: int) -> None:
        """What was recalled under this name is not needed again."""

    def keep(self, name: str, value: Any, save: Callable[[Path, Any], None]) -> None:
        """An object, as it is or saved to a file of this name."""

    def fetch(self, name: str, load: Callable[[Path], Any]) -> Any:
        """The object that was kept; what load raises where its file is missing or damaged."""


def need(store: Store, stage: str, number: int) -> Content:
    """A part that must be there by now."""
    content = store.read(stage, number)
    if content is None:
        raise RunError(
            f"The part {stage} {number} of the run was damaged or removed while it was running. "
            "Resume it with `pmlda resume`, which computes the part again."
        )
    return content


class MemoryStore:
    """Everything in the memory of this process."""

    remembers = True

    def __init__(self) -> None:
        self._parts: dict[tuple[str, int], Content] = {}
        self._recalled: dict[tuple[str, int], Any] = {}
        self._objects: dict[str, Any] = {}

    def read(self, stage: str, number: int) -> Content | None:
        return self._parts.get((stage, number))

    def write(self, stage: str, number: int, content: Content, *, durable: bool = True) -> None:
        self._parts[stage, number] = content

    def remove(self, stage: str, number: int) -> None:
        self._parts.pop((stage, number), None)

    def recall(self, name: str, number: int, compute: Callable[[], Value]) -> Value:
        if (name, number) not in self._recalled:
            self._recalled[name, number] = compute()
        found: Value = self._recalled[name, number]
        return found

    def forget(self, name: str, number: int) -> None:
        self._recalled.pop((name, number), None)

    def keep(self, name: str, value: Any, save: Callable[[Path, Any], None]) -> None:
        self._objects[name] = value

    def fetch(self, name: str, load: Callable[[Path], Any]) -> Any:
        if name not in self._objects:
            raise FileNotFoundError(name)
        return self._objects[name]


class FolderStore(NamedTuple):
    """One signed file for each part, in a folder that all workers can reach. It can be sent to another process.

    key : of the run; a part that was not signed with it counts as absent
    """

    path: Path
    key: bytes

    @property
    def remembers(self) -> bool:
        return False

    def part_path(self, stage: str, number: int) -> Path:
        """A thousand parts to a folder, which no file system minds."""
        return self.path / "parts" / stage / f"{number // 1000:04d}" / f"{number:07d}.pmlda"

    def read(self, stage: str, number: int) -> Content | None:
        try:
            return archive.load(self.part_path(stage, number), archive.PART, self.key)
        except (OSError, ModelFileError):
            return None

    def write(self, stage: str, number: int, content: Content, *, durable: bool = True) -> None:
        path = self.part_path(stage, number)
        path.parent.mkdir(parents=True, exist_ok=True)
        with new_file(path, durable=durable) as name, name.open("wb") as stream:
            archive.write(stream, content, archive.PART, key=self.key)

    def remove(self, stage: str, number: int) -> None:
        self.part_path(stage, number).unlink(missing_ok=True)

    def recall(self, name: str, number: int, compute: Callable[[], Value]) -> Value:
        return compute()

    def forget(self, name: str, number: int) -> None:
        return

    def keep(self, name: str, value: Any, save: Callable[[Path, Any], None]) -> None:
        save(self.path / name, value)
        self.write(_signed(name), 0, {"sha256": digest_file(self.path / name)})

    def fetch(self, name: str, load: Callable[[Path], Any]) -> Any:
        path, kept = self.path / name, self.read(_signed(name), 0)
        if kept is None:
            raise FileNotFoundError(name)
        return _loaded(path, path.stat().st_mtime_ns, kept["sha256"], load)


def _signed(name: str) -> str:
    """The stage whose only part has the digest of a file that is not signed itself."""
    return f"digest-of-{Path(name).stem}"


@lru_cache(maxsize=2)
def _loaded(path: Path, changed: int, sha256: str, load: Callable[[Path], Any]) -> Any:
    """Read once in each process, and again when the file has changed."""
    if digest_file(path) != sha256:
        raise FileNotFoundError(path.name)
    return load(path)
