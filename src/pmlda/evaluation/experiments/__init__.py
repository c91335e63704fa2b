"""The paper's experiments, one file each: data, or a made-up stand-in with known truth → figures and figures of merit.

Every file has run(data, seeds, small) → Outcome. `pmlda reproduce NAME` calls it and writes what it returns.
"""

import json
from importlib import import_module
from pathlib import Path
from typing import Any

from pmlda.evaluation.experiments.outcome import Outcome
from pmlda.output.folder import new_folder
from pmlda.output.places import check_folder
from pmlda.validate import nearest, require

# In the order of the paper, then what came after it.
NAMES = ("generating", "sonar", "scale", "sunset", "msrc", "unmixing", "blend")


def reproduce(
    name: str,
    out: str | Path,
    data: str | Path | None = None,
    *,
    seeds: int = 10,
    small: bool = False,
    overwrite: bool = False,
) -> Outcome:
    """Run one experiment and write results.json and its figures to a new folder.

    data : folder with the experiment's real data; None is a stand-in that is made up here, with known truth
    seeds : how many stand-ins
    small : a size for tests, to see that everything works; its figures mean little
    """
    module = _module(name)
    require(seeds >= 1, f"seeds={seeds!r}: give a whole number of at least 1.")
    folder = None if data is None else Path(data)
    require(folder is None or folder.is_dir(), f"There is no folder {str(data)!r}. Give the folder with the data.")
    replaces = check_folder(out, overwrite=overwrite)
    outcome: Outcome = module.run(folder, seeds, small)
    with new_folder(out, replaces) as here:
        write(outcome, here, {"experiment": name, "data": folder and folder.name, "seeds": seeds, "small": small})
    return outcome


def reproduce_all(
    out: str | Path, *, seeds: int = 10, small: bool = False, overwrite: bool = False
) -> dict[str, Outcome]:
    """Every experiment on its stand-in, each in a folder of its own."""
    outcomes = {}
    with new_folder(out, check_folder(out, overwrite=overwrite)) as here:
        for name in NAMES:
            outcomes[name] = reproduce(name, here / name, seeds=seeds, small=small)
    return outcomes


def write(outcome: Outcome, folder: Path, about: dict[str, Any]) -> None:
    """results.json and the figures."""
    record = about | {"remark": outcome.remark, "rows": outcome.rows} | outcome.details
    (folder / "results.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    for stem, figure in outcome.figures.items():
        figure.savefig(folder / f"{stem}.png")


def _module(name: str):  # type: ignore[no-untyped-def]  # modules have no useful type
    require(
        name in NAMES, f"There is no experiment {name!r}. {nearest(name, list(NAMES))}There are: {', '.join(NAMES)}."
    )
    return import_module(f"pmlda.evaluation.experiments.{name}")
