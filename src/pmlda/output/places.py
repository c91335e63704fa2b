"""Where the files of a result lie, and whether they may be written."""

import os
from collections.abc import Iterable
from pathlib import Path

from pmlda.errors import OutputError

# What shows that a folder was written here: by segment and apply, by compare and reproduce, by simulate.
MARKS = ("run.json", "results.json", "*/results.json", "truth.tif")
TIFF_SUFFIXES = (".tif", ".tiff")
# Files that accompany the maps. The first two only beside a TIFF: in a Zarr group they are arrays.
COMPANIONS = (
    "uncertainty.tif",
    "documents.tif",
    "model.pmlda",
    "settings.toml",
    "documents.csv",
    "overview.npz",
    "figure.png",
    "report.html",
    "run.json",
)


def is_tiled(out: Path) -> bool:
    """Whether a run with this name is processed tile by tile."""
    return out.suffix.lower() in (".zarr", *TIFF_SUFFIXES)


def is_tiff(out: Path) -> bool:
    """Whether the name is that of a TIFF."""
    return out.suffix.lower() in TIFF_SUFFIXES


def beside(out: Path, name: str) -> Path:
    """Path of a companion of the maps: in the Zarr group, or beside a TIFF with its name as a prefix."""
    return out.with_name(f"{out.stem}-{name}") if is_tiff(out) else out / name


def check_out(out: Path, *, overwrite: bool, inputs: list[Path]) -> None:
    """Refuse an output that could not be written, before anything is computed."""
    if not is_tiff(out):
        check_folder(out, overwrite=overwrite, inputs=inputs)
        return
    check_name(out)
    read = [path.resolve() for path in inputs]
    for path in [out, *(beside(out, name) for name in COMPANIONS)]:
        if path.is_dir() or path.resolve() in read:
            raise OutputError(f"{str(path)!r} is a folder, or the picture itself. Give another name to write.")
        if path.exists() and not overwrite:
            raise OutputError(f"{str(path)!r} exists already. Give another name, or say --overwrite.")
    check_folder(out.parent / f".{out.name}-new")


def check_name(out: Path) -> None:
    """Refuse a place where no GeoTIFF can be written: its library knows names in UTF-8 alone."""
    try:
        str(out.resolve()).encode()
    except UnicodeEncodeError:
        raise OutputError(
            f"A GeoTIFF cannot be written to {str(out)!r}, whose name is not UTF-8 here. Give another one; where it is "
            "UTF-8, set LC_ALL=C.UTF-8."
        ) from None


def is_taken(out: Path) -> bool:
    """Whether a result of this name would replace something."""
    return any(out.iterdir()) if out.is_dir() else out.exists()


def picture_name(index: int, name: str) -> str:
    """A folder's name for one of several pictures, unlike all others."""
    return f"{index + 1:03d}-{Path(name).stem or 'picture'}"


def check_folder(folder: str | Path, *, overwrite: bool = False, inputs: Iterable[Path] = ()) -> None:
    """Refuse early what save would refuse late.

    overwrite : replace the folder, but only one that this package wrote, and that holds none of the inputs
    """
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{str(folder)!r} is a file. Give the name of a folder.")
    final = folder.resolve()
    if folder.is_dir() and any(folder.iterdir()):
        if not overwrite:
            raise OutputError(f"The folder {str(folder)!r} is not empty. Give another one, or say --overwrite.")
        if not any(next(folder.glob(mark), None) for mark in MARKS):
            raise OutputError(
                f"The folder {str(folder)!r} is not a result of pmlda, so it is not overwritten. "
                "Empty it yourself, or give another one."
            )
        inside = next((path for path in [Path.cwd(), *inputs] if path.resolve().is_relative_to(final)), None)
        if inside is not None:
            raise OutputError(f"The folder {str(folder)!r} holds {str(inside)!r}. Give another one to write.")
    if not final.parent.is_dir():
        raise OutputError(f"The folder {str(final.parent)!r} does not exist. Make it first.")
    if not os.access(final.parent, os.W_OK):
        raise OutputError(f"The folder {str(final.parent)!r} cannot be written to. Choose another place.")
