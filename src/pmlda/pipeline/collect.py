"""Names, patterns and folders → the pictures that they stand for, in natural order.

Results of this package, and labels and masks that lie beside pictures, are not taken for pictures where they are only
found: a file that is named is always meant.
"""

import glob
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pmlda.errors import InputError
from pmlda.images.envi import DATA_SUFFIXES, find_header, find_pair
from pmlda.images.read import READERS
from pmlda.images.zarr_source import is_zarr
from pmlda.output.places import MARK, files_of_tiff, identify, is_listed, is_tiff
from pmlda.storage.run_folder import SUFFIX
from pmlda.validate import brief

SUFFIXES = (".png", ".jpg", ".jpeg", *READERS)
# What the names of label images and masks end in.
NO_PICTURE = re.compile(r"(?:.*[ ._-])?(?:masks?|labels?|strokes)", re.IGNORECASE)


class Collected(NamedTuple):
    """The pictures that were given.

    pictures : paths, arrays or images
    found : those that were not named, but found by a pattern or in a folder; they may turn out to be unreadable
    """

    pictures: list[Any]
    found: tuple[Path, ...] = ()


def collect(given: Iterable[Any], others: Iterable[Any] = ()) -> Collected:
    """All pictures, with patterns and folders replaced by what they stand for, each once.

    others : what else is read, such as masks and labels, which are no pictures
    """
    known = {_identity(Path(each)) for each in others if isinstance(each, str | os.PathLike)}
    pictures: list[Any] = []
    named: set[Path] = set()
    found: dict[Path, Path] = {}
    for each in given:
        if not isinstance(each, str | os.PathLike):
            pictures.append(each)
            continue
        entries = _entries(each)
        if entries is None:
            named.add(_identity(Path(each)))
            # A picture that is found and named is one that is named.
            pictures += [each] if found.pop(_identity(Path(each)), None) is None else []
            continue
        new = {_identity(path): path for path in _pictures_among(entries, known)}
        if not new:
            raise InputError(_nothing_in(each, entries))
        new = {identity: path for identity, path in new.items() if identity not in found and identity not in named}
        found |= new
        pictures += new.values()
    return Collected(pictures, tuple(found.values()))


def natural_order(path: Path) -> list[Any]:
    """What sorts image2 before image10.

    >>> sorted([Path("b10.tif"), Path("a.tif"), Path("b2.tif")], key=natural_order)[1].name
    'b2.tif'
    """
    parts = re.split(r"(\d+)", str(path).lower())
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts]


def _entries(given: str | os.PathLike[str]) -> list[Path] | None:
    """What lies in a folder, or matches a pattern; None of the name of a picture."""
    path = Path(given)
    if path.is_dir() and not is_zarr(path):
        return sorted(path.iterdir(), key=natural_order)
    if os.path.lexists(path) or not glob.has_magic(str(given)):
        return None
    return sorted((Path(each) for each in glob.glob(str(given), recursive=True)), key=natural_order)


def _pictures_among(entries: list[Path], known: set[Path]) -> list[Path]:
    """Those that can be pictures, an ENVI cube once."""
    results = {_identity(file) for path in entries for file in _files_of_result(path)}
    pictures: dict[Path, Path] = {}
    for path in entries:
        identity = _identity(path)
        if _can_be_picture(path) and identity not in results and identity not in known:
            pictures.setdefault(identity, path)
    return list(pictures.values())


def _can_be_picture(path: Path) -> bool:
    """Whether name and place are those of a picture."""
    if path.name.startswith(".") or NO_PICTURE.fullmatch(path.stem.removesuffix(".ome")):
        return False
    if path.is_dir():
        is_kind = is_zarr(path)
    elif path.suffix.lower() == ".hdr":
        is_kind = _data_of(path) != path
    else:
        suffix = path.suffix.lower()
        is_kind = suffix in SUFFIXES or (suffix in DATA_SUFFIXES and find_header(path) is not None)
    return is_kind and not _is_inside(path) and not is_listed(path) and not (path / MARK).is_file()


def _is_inside(path: Path) -> bool:
    """Whether it is part of a Zarr store, or of what a run keeps."""
    return any(parent.name.endswith(SUFFIX) or is_zarr(parent) for parent in path.parents)


def _files_of_result(path: Path) -> Iterator[Path]:
    """The files of a result that is a TIFF."""
    if is_tiff(path) and path.is_file() and identify(path) is not None:
        yield from files_of_tiff(path)


def _identity(path: Path) -> Path:
    """One path for all names of a picture; that of its data for the header of an ENVI cube."""
    return _data_of(path).resolve() if path.suffix.lower() == ".hdr" else path.resolve()


def _data_of(header: Path) -> Path:
    """The data beside an ENVI header; the header itself where there are none."""
    try:
        return find_pair(header)[0]
    except InputError:
        return header


def _nothing_in(given: str | os.PathLike[str], entries: list[Path]) -> str:
    """Why there is no picture."""
    name = brief(str(given), 200)
    if Path(given).is_dir():
        left = f", only {_few(entries)}" if entries else ""
        return f"The folder {name} holds no pictures{left}. Give a picture, or a folder of some."
    if not entries:
        return f"No file matches {name}. Check the folder and the pattern."
    return (
        f"No picture matches {name}, only {_few(entries)}. Labels, masks and results are not taken for pictures: give "
        "the names of files that are meant."
    )


def _few(entries: list[Path], most: int = 3) -> str:
    names = ", ".join(repr(path.name) for path in entries[:most])
    return names + (f" and {len(entries) - most} more" if len(entries) > most else "")
