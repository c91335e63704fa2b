"""A process of its own for test_hard_times: `pmlda segment` again and again, each run hit by a real signal or limit.

python -m tests.hard_times PICTURE FOLDER: every moment in a folder of its name; answers.json tells how each run ended.
"""

import contextlib
import io
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pmlda.cli import app
from pmlda.engines import variational_learning
from pmlda.engines import variational_schedule as schedule
from pmlda.output import folder as output
from pmlda.parallel.progress import Clock
from tests.disks import small_files

STAGES = ("reading", "documents", "features", "fit", "proportions", "maps", "writing")
# Bytes that fit on the disk: less than the model file, than the maps, than the figure, than the report.
LIMITS = (1_000, 9_000, 40_000, 150_000)


def press() -> None:
    """Ctrl-C, as the terminal would send it."""
    os.kill(os.getpid(), signal.SIGINT)


@contextmanager
def replaced(owner: Any, name: str, make: Callable[[Any], Any]) -> Iterator[None]:
    right = getattr(owner, name)
    setattr(owner, name, make(right))
    try:
        yield
    finally:
        setattr(owner, name, right)


def at_stage(wanted: str) -> Any:
    """Ctrl-C as a stage begins."""

    def make(right: Any) -> Any:
        return lambda clock, listener=None: right(clock, lambda name: press() if name == wanted else None)

    return replaced(Clock, "__init__", make)


def in_sweep(wanted: str) -> Any:
    """Ctrl-C after the third sweep of a stage of the fit."""

    def make(right: Any) -> Any:
        def pressing(stage: str, done: int, total: int, **values: float) -> None:
            if stage == wanted and done == 3:
                press()

        return lambda stages, report, *more: right(stages, pressing, *more)

    return replaced(variational_learning, "_follow", make)


def after_call(owner: Any, name: str, count: int = 1) -> Any:
    """Ctrl-C after the count-th call of a function."""

    def make(right: Any) -> Any:
        calls = []

        def pressing(*arguments: Any, **settings: Any) -> Any:
            result = right(*arguments, **settings)
            calls.append(1)
            if len(calls) == count:
                press()
            return result

        return pressing

    return replaced(owner, name, make)


def moments() -> dict[str, Any]:
    return (
        {stage: at_stage(stage) for stage in STAGES}
        | {stage: in_sweep(stage) for stage in (schedule.STARTS, schedule.TOPICS)}
        | {
            "model written": after_call(output, "save_recipe"),
            "maps written": after_call(output, "write_maps"),
            "pictures written": after_call(output, "_png", 4),
            "old folder removed": after_call(shutil, "rmtree"),
        }
        | {f"{limit} bytes": small_files(limit) for limit in LIMITS}
    )


def run(picture: str, out: Path) -> tuple[Any, str]:
    """The exit code, and what was said."""
    arguments = ["segment", picture, "-k", "2", "--documents", "windows:20", "--json", "--overwrite"]
    arguments += ["--set", "refits=0", "--out", str(out)]
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            app(arguments)
    except SystemExit as end:
        return end.code, said.getvalue()
    return None, said.getvalue()


def main(picture: str, place: Path) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job starts with Ctrl-C ignored
    answers = {"nothing": run(picture, place / "earlier")}
    for name, hit in moments().items():
        shutil.copytree(place / "earlier", place / name / "out")
        with hit:
            answers[name] = run(picture, place / name / "out")
    (place / "answers.json").write_text(json.dumps(answers), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
