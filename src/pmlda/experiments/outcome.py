"""What an experiment returns, and the files it looks for."""

from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.figure import Figure

MOST_NAMES_TOLD = 6


class DataError(ValueError):
    """A data folder that lacks what an experiment needs."""


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
    found = sorted(path.name for path in folder.iterdir())
    raise DataError(
        f"The folder {str(folder)!r} lacks {_listed(missing)}. Expected: {_listed(names)}. "
        f"Found: {_listed(found) or 'nothing'}."
    )


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - MOST_NAMES_TOLD} more" if len(names) > MOST_NAMES_TOLD else ""
    return ", ".join(names[:MOST_NAMES_TOLD]) + more
