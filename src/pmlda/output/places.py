"""Where the files of a result lie, and whether they may be written.

Nothing is ever replaced but an earlier result of this package, and that only where the user asked for it. Every folder
that this package writes lists its files in MARK; a TIFF is known by the record beside it. Before a run, `check_out`
finds what may be replaced and returns its digest; when the result gets its name, `check_replaced` compares again.
"""

import fnmatch
import json
import os
import secrets
from collections.abc import Iterable, Iterator
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

from pmlda.errors import OutputError
from pmlda.storage.atomic import is_leftover
from pmlda.storage.digest import digest_bytes
from pmlda.storage.tables import parse_json, read_small

# The list of all files in a folder that was written here.
MARK = ".pmlda-files.json"
# What programs leave in folders that somebody has looked at.
LEFT_BY_VIEWERS = (".DS_Store", "Thumbs.db", "desktop.ini")
LEFT_BY_GDAL = ".aux.xml"
MOST_MARK_BYTES = 2**26
TIFF_SUFFIXES = (".tif", ".tiff")
# Files that accompany the maps. The first two only beside a TIFF: in a Zarr group they are arrays.
COMPANIONS = (
    "uncertainty.tif",
    "documents.tif",
    "model.pmlda",
    "settings.toml",
    "documents.csv",
    "shares.csv",
    "topics.csv",
    "overview.npz",
    "figure.png",
    "report.html",
    "run.json",
)
# Labels, in one file or the other, where there are any.
LABEL_FILES = ("strokes.json", "strokes.png")
# Maps without topics that a result need not have, and all files that it need not have.
PLANES = ("residual", "novelty")
OPTIONAL_FILES = (*LABEL_FILES, *(f"{name}.tif" for name in PLANES), "spectra.png")


def is_tiled(out: Path) -> bool:
    """Whether a run with this name is processed tile by tile."""
    return out.suffix.lower() in (".zarr", *TIFF_SUFFIXES)


def is_tiff(out: Path) -> bool:
    """Whether the name is that of a TIFF."""
    return out.suffix.lower() in TIFF_SUFFIXES


def beside(out: Path, name: str) -> Path:
    """Path of a companion of the maps: in the Zarr group, or beside a TIFF with its name as a prefix."""
    return out.with_name(f"{out.stem}-{name}") if is_tiff(out) else out / name


def files_of_tiff(out: Path) -> list[Path]:
    """All files that a result that is a TIFF may have, the maps last."""
    return [*sorted(beside(out, name) for name in (*COMPANIONS, *OPTIONAL_FILES)), out]


def picture_name(index: int, name: str) -> str:
    """A folder's name for one of several pictures, unlike all others."""
    return f"{index + 1:03d}-{Path(name).stem or 'picture'}"


# ── before a run ───────────────────────────────────────────────────────────────────────────────────────────────────
def check_out(out: Path, *, overwrite: bool, inputs: Iterable[Path]) -> str | None:
    """Refuse an output that could not be written, before anything is computed; otherwise as check_folder."""
    if not is_tiff(out):
        return check_folder(out, overwrite=overwrite, inputs=inputs)
    check_name(out)
    inputs = list(inputs)
    known = identify(out) if overwrite else None
    for path in files_of_tiff(out):
        same = next((each for each in inputs if _is_same(path, each)), None)
        if same is not None:
            raise OutputError(f"{str(path)!r} would be replaced, and it is read: {str(same)!r}. Give another name.")
        if path.is_dir():
            raise OutputError(f"{str(path)!r} is a folder, and a file of the result has this name. Give another name.")
        if os.path.lexists(path) and not overwrite:
            raise OutputError(f"{str(path)!r} exists already. Give another name, or say --overwrite.")
        if os.path.lexists(path) and known is None:
            raise OutputError(
                f"{str(path)!r} is not part of a result of pmlda, so it is not overwritten. "
                "Move it away, or give another name."
            )
    _check_parent(out.resolve(), inputs)
    return known


def check_name(out: Path) -> None:
    """Refuse a place where no GeoTIFF can be written: its library knows names in UTF-8 alone."""
    try:
        str(out.resolve()).encode()
    except UnicodeEncodeError:
        raise OutputError(
            f"A GeoTIFF cannot be written to {str(out)!r}, whose name is not UTF-8 here. Give another one; where it is "
            "UTF-8, set LC_ALL=C.UTF-8."
        ) from None


def check_folder(folder: str | Path, *, overwrite: bool = False, inputs: Iterable[Path] = ()) -> str | None:
    """Refuse a folder that could not be written, before anything is computed.

    overwrite : allow an earlier result, but only one that this package wrote, all of it, and that holds none of the
        inputs. It is replaced when the new one is complete
    Returns the digest of that earlier result, None if there is none.
    """
    folder, inputs = Path(folder), list(inputs)
    if os.path.lexists(folder) and not folder.is_dir():
        raise OutputError(f"{str(folder)!r} is a file. Give the name of a folder.")
    final, known = folder.resolve(), None
    if folder.is_dir() and any(folder.iterdir()):
        if not overwrite:
            raise OutputError(f"The folder {str(folder)!r} is not empty. Give another one, or say --overwrite.")
        known = _require_ours(folder, str(folder))
        inside = next((path for path in [Path.cwd(), *inputs] if path.resolve().is_relative_to(final)), None)
        if inside is not None:
            raise OutputError(f"The folder {str(folder)!r} holds {str(inside)!r}. Give another one to write.")
    _check_parent(final, inputs)
    return known


def _check_parent(final: Path, inputs: Iterable[Path]) -> None:
    """A result must have a name, and the folder in which it will lie must be there and no part of what is read."""
    if not final.name.strip():
        raise OutputError(f"{final.name!r} is blank. Give the result a name.")
    if not final.parent.is_dir():
        raise OutputError(f"The folder {str(final.parent)!r} does not exist. Make it first.")
    if not os.access(final.parent, os.W_OK):
        raise OutputError(f"The folder {str(final.parent)!r} cannot be written to. Choose another place.")
    around = next((path for path in inputs if path.is_dir() and final.is_relative_to(path.resolve())), None)
    if around is not None:
        raise OutputError(f"{str(final)!r} would lie inside {str(around)!r}, which is read. Choose another place.")


def _is_same(one: Path, other: Path) -> bool:
    """Whether two names are of one file, also where capital letters do not count."""
    if one.resolve() == other.resolve():
        return True
    return one.exists() and other.exists() and one.samefile(other)


# ── when a result gets its name ────────────────────────────────────────────────────────────────────────────────────
def check_replaced(found: Path, replaces: str | None, name: Path) -> None:
    """Refuse to replace a folder unless it is empty, or the result that was to be replaced.

    found : the folder as it is called now, which may be another name than it had
    """
    if found.is_dir() and not any(found.iterdir()):
        return
    if replaces is None or _require_ours(found, str(name)) != replaces:
        raise OutputError(f"{str(name)!r} was written by another since this run was begun: move it away.")


def identify(out: Path) -> str | None:
    """The digest of what shows that a result was written here, different for every result; None if nothing does."""
    try:
        if is_tiff(out) and not out.is_dir():
            record = beside(out, "run.json")
            data = read_small(record, MOST_MARK_BYTES, OutputError)
            return digest_bytes(data) if "pmlda" in parse_json(data)["versions"] else None
        data = read_small(out / MARK, MOST_MARK_BYTES, OutputError)
        return digest_bytes(data) if _listed(data) is not None else None
    except (OSError, ValueError, LookupError, TypeError):
        return None


def write_mark(folder: Path, pictures: str = "") -> None:
    """List the files of a complete folder, so that this package knows it again.

    pictures : a pattern of files that were made to be read as pictures, and are no result
    """
    files = sorted(_entries(folder))
    about = {"pmlda": version("pmlda"), "id": secrets.token_hex(8), "files": files}
    if pictures:
        about["pictures"] = fnmatch.filter(files, pictures)
    (folder / MARK).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")


def _require_ours(folder: Path, name: str) -> str:
    """The digest of a folder all of whose files were written here; an error of any other."""
    known = identify(folder)
    if known is None:
        raise OutputError(
            f"The folder {name!r} is not a result of pmlda, so it is not overwritten. "
            "Empty it yourself, or give another one."
        )
    listed = _listed(read_small(folder / MARK, MOST_MARK_BYTES, OutputError)) or set()
    for entry in _entries(folder):
        last = entry.rpartition("/")[2]
        disposable = last in LEFT_BY_VIEWERS or last.endswith(LEFT_BY_GDAL) or is_leftover(last)
        if entry not in listed and not disposable:
            raise OutputError(
                f"The folder {name!r} holds {entry!r}, which pmlda did not write, so it is not overwritten. "
                "Move that away, or give another folder."
            )
    return known


def is_listed(path: Path) -> bool:
    """Whether a file is part of a result: the mark of a folder around it lists it."""
    for folder in path.absolute().parents:
        if (folder / MARK).is_file():
            name = os.fsencode(path.absolute().relative_to(folder)).decode("utf-8", "backslashreplace")
            return not {name, f"{name}/"}.isdisjoint(_read_mark(folder / MARK, (folder / MARK).stat().st_mtime_ns))
    return False


@lru_cache(maxsize=16)  # all files of a folder ask for the same
def _read_mark(mark: Path, modified: int) -> frozenset[str]:
    """The files of a result by the mark of its folder; none if it cannot be read. modified : when it was written"""
    try:
        data = read_small(mark, MOST_MARK_BYTES, OutputError)
        return frozenset(_listed(data) or ()) - frozenset(parse_json(data).get("pictures", ()))
    except (OSError, ValueError, LookupError, TypeError):
        return frozenset()


def _listed(data: bytes) -> set[str] | None:
    """The files that a mark lists; None if it is no mark."""
    about = parse_json(data)
    files = about["files"] if "pmlda" in about else None
    return {str(name) for name in files} if isinstance(files, list) else None


def _entries(folder: Path, before: str = "") -> Iterator[str]:
    """Names of all files in a folder and in its folders, but of the mark. An array of a Zarr group is one name."""
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            name = before + os.fsencode(entry.name).decode("utf-8", "backslashreplace")
            if not entry.is_dir(follow_symlinks=False):
                if name != MARK:
                    yield name
            elif (Path(entry.path) / "zarr.json").is_file():
                yield name + "/"
            else:
                yield from _entries(Path(entry.path), name + "/")
