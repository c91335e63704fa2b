"""What a command says of a run: stages, notes, the result; --quiet, --verbose and --json choose among them."""

import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from pmlda.cli.app import INTERRUPTED, LEFT_OUT, TERMINAL, say, tell
from pmlda.errors import LeftOutWarning, WaitingWarning

if TYPE_CHECKING:
    from pmlda.settings import Settings

QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print errors, and nothing else.", rich_help_panel=TERMINAL)
]
VerboseOption = Annotated[
    bool,
    typer.Option(
        "--verbose",
        "-v",
        help="Print also settings, seconds of each stage and, in a log, a line of progress every second.",
        rich_help_panel=TERMINAL,
    ),
]


def what_compiles(settings: "Settings") -> dict[str, str]:
    """What Talk.compiling asks, from settings."""
    return {name: getattr(settings, name) for name in ("family", "covariance", "engine", "model")}


class Talk(NamedTuple):
    """What the options say. --quiet wins over --verbose."""

    quiet: bool = False
    verbose: bool = False
    as_json: bool = False

    @property
    def progress(self) -> int:
        """verbose, as in PMLDA."""
        return 0 if self.quiet or self.as_json else 2 if self.verbose else 1

    @property
    def stage(self) -> Callable[[str], None] | None:
        """What hears of stages."""
        return print_stage if self.progress else None

    @contextmanager
    def compiling(
        self, *, family: str = "gaussian", covariance: str = "auto", engine: str = "variational", model: str = "pmlda"
    ) -> Iterator[None]:
        """Compile what a fit of these settings lacks beside this process, and say so once something is waited for."""
        from pmlda.kernels import cache, warm

        kind = warm.kind_of_family(family, covariance)
        total = len(warm.missing(kind, engine))
        count = 0

        def hear(name: str) -> None:
            nonlocal count
            # Others compile some meanwhile: how many are there is what counts.
            count = max(total - len(warm.missing(kind, engine)), count) + 1
            tell(f"Compiling kernels (once per machine): {count} of {max(total, count)} …", style="dim")

        with ExitStack() as stack:
            if self.progress:
                stack.enter_context(cache.listening(hear))
            if model == "pmlda":
                stack.enter_context(warm.helped(kind))
            yield


def print_stage(name: str) -> None:
    """The stage that has begun, in a dim line beside the result."""
    tell(f"{name} …", style="dim")


def with_printed_warnings(run: Any, *arguments: Any, quiet: bool = False, **settings: Any) -> Any:
    """The result of a call, whose warnings are printed as single lines afterwards; those about a long run at once.

    A run that waits says so every time. quiet : print none of them
    """
    said: dict[str, bool] = {}

    def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        text = str(message)
        if quiet:
            return
        if issubclass(category, WaitingWarning):
            print_note(text)
            return
        # Pictures that were left out are named at the end, beside the result.
        if not issubclass(category, UserWarning) or issubclass(category, LeftOutWarning) or text in said:
            return
        from sklearn.exceptions import ConvergenceWarning  # late: the run has imported it, or does not warn of this

        said[text] = issubclass(category, ConvergenceWarning)
        if said[text]:
            print_note(text)

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = show
        result = run(*arguments, **settings)
    for text, was_printed in said.items():
        if not was_printed:
            print_note(text)
    return result


def facts_of(record: dict[str, Any]) -> list[tuple[str, str]]:
    """Settings and seconds of a run."""
    settings = ", ".join(f"{name}={value}" for name, value in record["settings"].items())
    seconds = ", ".join(f"{name} {value:.2f}" for name, value in record["seconds"].items())
    return [("settings", settings), ("seconds", seconds)]


def print_note(text: str) -> None:
    """One line on the terminal."""
    tell(f"Note: {text}", style="yellow")


def print_result(out: Path, record: dict[str, Any], talk: Talk) -> None:
    """Where the result is, and how the run went. A fit that Ctrl-C cut short has a result, and exit code 130."""
    from pmlda.output.places import beside
    from pmlda.storage.run_folder import run_folder
    from pmlda.types import LeftOut

    pages, pictures = (
        [str(path) for path in (sorted(out.rglob(name)) if out.is_dir() else [beside(out, name)])]
        for name in ("report.html", "figure.png")
    )
    if talk.as_json:
        print(json.dumps({"out": str(out), "reports": pages} | record))
    elif not talk.quiet:
        for picture in record["pictures"]:
            for note in picture["notes"]:
                say(f"{picture['name']}: {note}")
        for topic, best in zip(record["topics"], record.get("matches", ()), strict=False):
            similar = [f"{each['name']} ({each['angle']:.1f}°)" for each in best]
            say(f"{topic} is most like {', '.join(similar)}")
        if record.get("choice") is not None:
            say(record["choice"]["reason"])
        say(record["verdict"])
        say(f"Result: {out}")
        say(f"Report: {', '.join(pages)}")
        say(f"Figure: {', '.join(pictures)}")
        if talk.progress > 1:
            for name, value in facts_of(record):
                say(f"{name.capitalize()}: {value}")
    if record["interrupted"]:
        if run_folder(out).exists():
            tell(f"The fit was interrupted; resume with: pmlda resume {str(out)!r}", style="yellow")
        raise typer.Exit(INTERRUPTED)
    left_out = [LeftOut(each["path"], each["reason"]) for each in record.get("left_out", [])]
    for each in left_out:
        tell(f"Left out: {each}", style="yellow")
    if left_out:
        raise typer.Exit(LEFT_OUT)
