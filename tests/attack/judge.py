"""An outcome, and the folder before and after → complaints. The same rules for every attempt."""

import hashlib
import os
import re
import stat
from fnmatch import fnmatch
from pathlib import Path

from tests.attack.server import MOST_BYTES, Outcome

GOOD_CODES = (0, 2)
INTERRUPTED = 130
# How results, folders of runs and what accompanies a TIFF are called; all else in a folder must stay as it is.
RESULTS = ("maps", "maps.zarr", "maps.tif", "maps-*")
RUNS = ("maps.run", "maps.zarr.run", "maps.tif.run")
PATIENT_WORDS = ("Note: ", "Dashboard: ", "Interrupted", "The fit was interrupted")


def snapshot(folder: Path) -> dict[str, str]:
    """What every name in a folder stands for; links are not followed."""
    found = {}
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(place) / name
            found[str(path.relative_to(folder))] = _state(path)
    return found


def _state(path: Path) -> str:
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        return f"link to {os.readlink(path)}"
    if stat.S_ISREG(mode):
        return f"{mode:o} {hashlib.sha256(path.read_bytes()).hexdigest()}"
    return f"{mode:o}"


def complaints(
    outcome: Outcome,
    before: dict[str, str],
    after: dict[str, str],
    names: tuple[str, ...],
    *,
    rewrites: tuple[str, ...] = (),
    codes: tuple[int, ...] = GOOD_CODES,
) -> list[str]:
    """What is wrong with an attempt; nothing if it behaved.

    names : words of which a clear error names at least one
    rewrites : patterns of what the command may change besides results
    """
    return [
        *_of_process(outcome, codes),
        *(_of_error(outcome, names) if outcome.code == 2 and not outcome.late else []),
        *_of_files(outcome, before, after, rewrites),
    ]


def _of_process(outcome: Outcome, codes: tuple[int, ...]) -> list[str]:
    wrong = []
    if outcome.late:
        wrong.append(f"it did not end within {outcome.seconds:.0f} s")
    elif outcome.code not in codes:
        wrong.append(f"exit code {outcome.code}")
    if "Traceback (most recent call last)" in outcome.said + outcome.out:
        wrong.append("a traceback")
    if outcome.n_bytes > MOST_BYTES:
        wrong.append(f"{outcome.n_bytes / 2**30:.1f} GB of memory")
    return wrong


def _of_error(outcome: Outcome, names: tuple[str, ...]) -> list[str]:
    """One line that names what came. Options that cannot be parsed at all get the frame that Typer draws."""
    text = outcome.said
    if text.lstrip().startswith("Usage: "):
        return []
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith(PATIENT_WORDS)]
    if len(lines) != 1 or not lines[0].startswith("Error: "):
        return [f"{len(lines)} lines instead of one error"]
    return [] if any(name in lines[0] for name in names) else ["an error that does not name what came"]


def _of_files(outcome: Outcome, before: dict[str, str], after: dict[str, str], rewrites: tuple[str, ...]) -> list[str]:
    wrong = []
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) == after.get(name):
            continue
        first = name.split("/")[0]
        if any(fnmatch(name, pattern) for pattern in rewrites) or any(fnmatch(first, each) for each in RUNS):
            continue
        if any(fnmatch(first, each) for each in RESULTS) and outcome.code in (0, INTERRUPTED):
            continue
        verb = "made" if name not in before else "removed" if name not in after else "changed"
        wrong.append(f"it has {verb} {name!r}")
    kept = [name for name in RUNS if name in after and name not in before]
    advice = re.search("resume", outcome.said)
    if kept and not advice and outcome.code >= 0 and not outcome.late:
        wrong.append(f"it has left {kept[0]!r} and does not say so")
    return wrong[:4]
