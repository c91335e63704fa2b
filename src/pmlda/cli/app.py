"""The app, its options and its manners: errors are one line that says what to do, warnings are single lines."""

import tempfile
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from pmlda import __version__
from pmlda.cli.streams import unfailing_streams
from pmlda.errors import PmldaError, describe
from pmlda.text import printable

if TYPE_CHECKING:
    from pmlda.settings import Settings


class Program(typer.Typer):
    """The app as a program of its own, which goes on when nobody can hear it any more."""

    def __call__(self, *arguments: Any, **settings: Any) -> Any:
        with unfailing_streams() as failure:
            try:
                return super().__call__(*arguments, **settings)
            except SystemExit as end:
                if end.code or (error := failure()) is None:
                    raise
                print_error(f"The command has done its work, but its output could not be printed: {error.strerror}.")
                raise SystemExit(BAD_INPUT) from None


app = Program(
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="Soft segmentation of pictures: for every pixel, how much of each topic, and how sure.\n\n"
    "Start with:  pmlda segment photo.jpg --topics 3 --out maps\n\n"
    "Exit codes: 0, success; 2, something is wrong with the input or the machine, explained in one line; 3, success, "
    "but without pictures of a folder or pattern that could not be read, each named; 70, a bug in pmlda, with its "
    "traceback in a file; 130, interrupted by Ctrl-C, and the output folder is complete or not there.",
)

BAD_INPUT, LEFT_OUT, BUG, INTERRUPTED = 2, 3, 70, 130
# What Python says, with no class of its own, where the system has no memory for a thread.
NO_THREAD = "can't start new thread"
# A bug's own text is shown up to so many characters; the traceback has all of it.
LONGEST_BUG_TEXT = 300
# Square brackets and colons in names are no markup.
PLAIN: dict[str, Any] = {"markup": False, "emoji": False, "highlight": False}
stderr = Console(stderr=True, soft_wrap=True, **PLAIN)

# Groups of options in the help, in the order of the work. What every command needs comes before them.
READING, LEAVING_OUT, TOPICS, METHOD = "What is read", "What is left out", "Topics", "Method"
COMPUTING, TERMINAL = "Computing", "On the terminal"

OutOption = Annotated[Path, typer.Option("--out", "-o", help="Output folder; must be new or empty.")]
OverwriteOption = Annotated[bool, typer.Option("--overwrite", help="Replace an earlier result of pmlda.")]

KEY = "Variable of a MATLAB, .npz, HDF5, NetCDF or Zarr file that holds several, or number of a TIFF series, from 0"
SLICE = "Slice of a stack, counted from 1, or max or mean of all slices"
TIME = "Time of a series, counted from 1, or max or mean of all times"
BANDS = "Bands, in this order: numbers from 1 (5,4,3 or 10-40), wavelengths (650nm,550nm or 400-700nm), or names"
AS_LEARNT = "\\[default: as topics were learnt]."
KeyOption = Annotated[
    str | None, typer.Option("--key", help=f"{KEY} \\[default: the only one].", rich_help_panel=READING)
]
SliceOption = Annotated[
    str | None, typer.Option("--z", help=f"{SLICE} \\[default: slices are bands].", rich_help_panel=READING)
]
TimeOption = Annotated[
    str | None, typer.Option("--t", help=f"{TIME} \\[default: times are bands].", rich_help_panel=READING)
]
BandsOption = Annotated[str | None, typer.Option("--bands", help=f"{BANDS} \\[default: all].", rich_help_panel=READING)]
LearntKeyOption = Annotated[str | None, typer.Option("--key", help=f"{KEY} {AS_LEARNT}", rich_help_panel=READING)]
LearntSliceOption = Annotated[str | None, typer.Option("--z", help=f"{SLICE} {AS_LEARNT}", rich_help_panel=READING)]
LearntTimeOption = Annotated[str | None, typer.Option("--t", help=f"{TIME} {AS_LEARNT}", rich_help_panel=READING)]
LearntBandsOption = Annotated[str | None, typer.Option("--bands", help=f"{BANDS} {AS_LEARNT}", rich_help_panel=READING)]

MaskOption = Annotated[
    Path | None,
    typer.Option(help="Image that is 0 where pixels are left out \\[default: none].", rich_help_panel=LEAVING_OUT),
]
NodataOption = Annotated[
    float | None,
    typer.Option(
        help="Number that means no data, besides the one that the file may name \\[default: none].",
        rich_help_panel=LEAVING_OUT,
    ),
]
SaturatedOption = Annotated[
    bool,
    typer.Option(
        "--ignore-saturated",
        help="Leave out pixels at the largest number of their type, such as 255, in any band.",
        rich_help_panel=LEAVING_OUT,
    ),
]
SaturatedAtOption = Annotated[
    float | None,
    typer.Option(
        help="Leave out pixels at this number or above, such as 4095 for a 12-bit camera \\[default: none].",
        rich_help_panel=LEAVING_OUT,
    ),
]
ShadowOption = Annotated[
    float | None,
    typer.Option(
        help="Leave out acoustic shadow: squares of 9 × 9 pixels with a mean of this or less \\[default: none].",
        rich_help_panel=LEAVING_OUT,
    ),
]

TopicsOption = Annotated[
    int | None, typer.Option("--topics", "-k", help="Number of topics \\[default: 3].", rich_help_panel=TOPICS)
]
AutoTopicsOption = Annotated[
    str | None,
    typer.Option(
        "--topics", "-k", help="Number of topics, or auto, which finds it \\[default: 3].", rich_help_panel=TOPICS
    ),
]
NamesOption = Annotated[
    str | None,
    typer.Option(
        help="Names of the topics with commas, in the order of the maps: dark to bright, unless labels say which is "
        "which \\[default: topic 1, topic 2, …].",
        rich_help_panel=TOPICS,
    ),
]
FeaturesOption = Annotated[
    str | None,
    typer.Option(
        "--features",
        help="What is computed for each pixel; `pmlda features` lists it \\[default: auto, which follows the bands].",
        rich_help_panel=TOPICS,
    ),
]
DocumentsOption = Annotated[
    str | None,
    typer.Option(
        "--documents",
        help="How pictures are cut into documents, parts with topics in their own proportions; `pmlda features` lists "
        "the ways \\[default: auto].",
        rich_help_panel=TOPICS,
    ),
]
FamilyOption = Annotated[
    str | None,
    typer.Option(
        help="Distribution of a pixel: gaussian \\[default]; poisson or additive-poisson for counts, gamma for "
        "speckle, bernoulli for zeros and ones, categorical for symbols.",
        rich_help_panel=TOPICS,
    ),
]
LooksOption = Annotated[
    float | None,
    typer.Option(help="Number of looks of speckle, for --family gamma \\[default: 1].", rich_help_panel=TOPICS),
]

SeedOption = Annotated[
    int | None,
    typer.Option(
        "--seed",
        help="Number that chance follows from: the same seed, the same result \\[default: 0].",
        rich_help_panel=METHOD,
    ),
]
SettingsOption = Annotated[
    Path | None,
    typer.Option(
        help="TOML file of settings, such as settings.toml of an earlier result; options override it "
        "\\[default: none].",
        rich_help_panel=METHOD,
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="Any setting, as name=value; can be repeated. The settings.toml of every result lists and explains them "
        "\\[default: none].",
        rich_help_panel=METHOD,
    ),
]
JsonOption = Annotated[
    bool,
    typer.Option(
        "--json", help="Print one JSON object on standard output, and no other text there.", rich_help_panel=TERMINAL
    ),
]


@contextmanager
def one_line_errors() -> Iterator[None]:
    """A user's error is one line and exit code 2, Ctrl-C is exit code 130, and anything else is a bug: exit code 70."""
    try:
        yield
    except (typer.Exit, typer.Abort):
        raise
    except KeyboardInterrupt as error:
        tell(str(error) or "Interrupted; nothing was written.", style="yellow")
        raise typer.Exit(INTERRUPTED) from None
    except MemoryError as error:
        print_error(describe_shortage(error))
        raise typer.Exit(BAD_INPUT) from None
    except (PmldaError, OSError) as error:
        print_error(describe(error))
        raise typer.Exit(BAD_INPUT) from None
    except Exception as error:
        if str(error) == NO_THREAD:
            print_error(describe_shortage(MemoryError(NO_THREAD)))
            raise typer.Exit(BAD_INPUT) from None
        print_error(describe_bug(error))
        raise typer.Exit(BUG) from None


def say(*texts: object) -> None:
    """A line on standard output. Names and other untrusted texts can be in it."""
    print(*(printable(str(text)) for text in texts))


def tell(text: str, *, style: str | None = None) -> None:
    """A line on standard error, beside the result. Names and other untrusted texts can be in it."""
    stderr.print(printable(text), style=style)


def show_table(table: Table, rows: Iterable[Iterable[object]], *, width: int | None = None) -> None:
    """A table on standard output, with these rows. Names and other untrusted texts can be in them.

    width : in a file or a pipe, where there is none to keep to
    """
    for row in rows:
        table.add_row(*(printable(str(cell)) for cell in row))
    console = Console(**PLAIN)
    (console if console.is_terminal or width is None else Console(width=width, **PLAIN)).print(table)


def print_error(text: str) -> None:
    """One line on standard error."""
    stderr.print("Error: ", style="bold red", end="")
    tell(text)


def describe_shortage(error: MemoryError) -> str:
    """What was too large, where that is known, and what to do."""
    details = f" ({text})" if (text := str(error).removesuffix(".")) else ""
    return (
        f"Memory ran out{details}. Free some, or give a smaller picture; `pmlda segment` with --out NAME.zarr or "
        "NAME.tif works tile by tile."
    )


def describe_bug(error: Exception) -> str:
    """One line for an exception that is nobody's mistake but pmlda's; its traceback is written to a file."""
    text = " ".join("".join(traceback.format_exception_only(error)).split())[:LONGEST_BUG_TEXT]
    details = "".join(traceback.format_exception(error))
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="pmlda-traceback-", suffix=".txt", encoding="utf-8", errors="backslashreplace", delete=False
        ) as file:
            file.write(details)
    except OSError:
        for line in details.splitlines():
            tell(line)
        return f"This is a bug in pmlda ({text}). Please report it with the traceback above."
    return f"This is a bug in pmlda ({text}). Please report it with the traceback, which is in {file.name!r}."


def chosen_settings(path: Path | None, given: dict[str, Any], assignments: list[str] | None) -> "Settings":
    """Settings from a file, from options that were given, and from --set, later ones override earlier ones."""
    from pmlda.settings import make_settings, parse_assignment, read_settings

    tables = [read_settings(path)] if path else []
    tables.append({name: value for name, value in given.items() if value is not None})
    tables += [parse_assignment(text) for text in assignments or []]
    return make_settings(*tables)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"pmlda {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Soft segmentation of pictures."""
