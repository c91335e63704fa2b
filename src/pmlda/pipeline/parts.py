"""Parts of a run: what was found of each block, one checksummed file each, written whole or not at all.

A part that is there and sound is never made again: that is all there is to resuming. One that was cut short or damaged
counts as absent.
"""

from pathlib import Path
from typing import Any

from pmlda.errors import ModelFileError, RunError
from pmlda.storage import archive as files
from pmlda.storage.atomic import new_file

Content = dict[str, Any]


def part_path(folder: Path, stage: str, number: int) -> Path:
    """A thousand parts to a folder, which no file system minds."""
    return folder / "parts" / stage / f"{number // 1000:04d}" / f"{number:07d}.pmlda"


def read_part(folder: Path, stage: str, number: int) -> Content | None:
    """The part, or None where there is none that is sound."""
    try:
        return files.load(part_path(folder, stage, number), files.PART)
    except (OSError, ModelFileError):
        return None


def need_part(folder: Path, stage: str, number: int) -> Content:
    """A part that must be there by now."""
    content = read_part(folder, stage, number)
    if content is None:
        raise RunError(
            f"{str(part_path(folder, stage, number))!r} was damaged or removed while the run went on. "
            "Go on with `pmlda resume`, which makes it again."
        )
    return content


def write_part(folder: Path, stage: str, number: int, content: Content, *, durable: bool = True) -> None:
    """All of it or nothing. durable : wait for the disk; a power cut may otherwise damage what was written last"""
    path = part_path(folder, stage, number)
    path.parent.mkdir(parents=True, exist_ok=True)
    with new_file(path, durable=durable) as name, name.open("wb") as stream:
        files.write(stream, content, files.PART)
