"""What an experiment returns, and the files it looks for."""

from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from pmlda.errors import DataError

MOST_NAMES_TOLD = 6


class Outcome(NamedTuple):
    """What was measured.

    rows : the table, one dict for each row, the same keys in each; what a reader sees first
    remark : one or two sentences on what the table says
    figures : file stem → figure
    details : whatever else results.json should hold, plain numbers, texts and lists
    """

    rows: list[dict[str, Any]]
    remark: str
    figures: dict[str, Figure]
    details: dict[str, Any]


def need_files(folder: Path, names: list[str]) -> list[Path]:
    """The paths of files that must all be there, else what was expected and what was found."""
    missing = [name for name in names if not (folder / name).is_file()]
    if not missing:
        return [folder / name for name in names]
    raise DataError(
        f"The folder {str(folder)!r} lacks {_listed(missing)}. Expected: {_listed(names)}. Found: {contents(folder)}."
    )


def contents(folder: Path) -> str:
    """The names of what is in a folder, the first few of them."""
    return _listed(sorted(path.name for path in folder.iterdir())) or "nothing"


def inner(folder: Path, name: str) -> Path:
    """The folder of that name in the one that was given, or the one that was given."""
    return folder / name if (folder / name).is_dir() else folder


def read_arrays(path: Path, names: list[str]) -> list[NDArray[Any]]:
    """These arrays of an .npz file, else what was expected and what was found."""
    try:
        with path.open("rb") as file, np.load(file) as content:
            if set(names) <= set(content):
                return [np.asarray(content[name]) for name in names]
            found = _listed(list(content))
    except (OSError, ValueError, EOFError, BadZipFile, TypeError) as error:
        raise DataError(f"{str(path)!r} cannot be read as .npz ({error}). Expected {_listed(names)} in it.") from None
    raise DataError(f"{str(path)!r} holds {found}. Expected the arrays {_listed(names)}.")


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - MOST_NAMES_TOLD} more" if len(names) > MOST_NAMES_TOLD else ""
    return ", ".join(names[:MOST_NAMES_TOLD]) + more
