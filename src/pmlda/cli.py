"""The command `pmlda`: one command is one call of the package. Errors are one line, and tell what to do."""

import json
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from pmlda import __version__

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="""Soft segmentation of pictures: for every pixel, how much of each topic, and how sure.

    Start with:  pmlda segment photo.jpg --topics 3 --out maps""",
)

BAD_INPUT, INTERRUPTED = 2, 130
shout = Console(stderr=True)

OutOption = Annotated[Path, typer.Option("--out", "-o", help="Folder to write; must be new or empty.")]
OverwriteOption = Annotated[bool, typer.Option("--overwrite", help="Replace the folder if there is one.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object for machines, nothing else.")]
MaskOption = Annotated[Path | None, typer.Option(help="Picture that is zero where pixels are not to be used.")]


@contextmanager
def one_line_errors() -> Iterator[None]:
    """What is wrong with the input in one line and exit code 2; Ctrl-C is exit code 130."""
    try:
        yield
    except KeyboardInterrupt:
        shout.print("Interrupted; nothing was written.", style="yellow")
        raise typer.Exit(INTERRUPTED) from None
    except (ValueError, OSError, MemoryError, ImportError) as error:
        text = str(error) or type(error).__name__
        shout.print("[bold red]Error:[/] ", end="")
        shout.print(text, markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(BAD_INPUT) from None


@app.command(
    epilog="""Examples:

    pmlda segment photo.jpg --out maps

    pmlda segment sonar.tif --topics 3 --features sonar+ripple --documents windows:64/32 --out maps

    pmlda segment a.png b.png --features color+texture --engine gibbs --set sweeps=2000 --out maps

    pmlda segment photo.jpg --model fcm --set fuzzifier=2 --out fuzzy"""
)
def segment(
    images: Annotated[list[Path], typer.Argument(help="One picture, or several that share topics.", metavar="IMAGE…")],
    out: OutOption,
    topics: Annotated[int | None, typer.Option("--topics", "-k", help="How many topics; 3 unless given.")] = None,
    model: Annotated[
        str | None, typer.Option(help="pmlda (unless given), or to compare: lda, fcm, bpm, bfc, gmm, kmeans.")
    ] = None,
    features: Annotated[str | None, typer.Option(help="See `pmlda features`; auto unless given.")] = None,
    documents: Annotated[str | None, typer.Option(help="See `pmlda features`; slic:200 unless given.")] = None,
    engine: Annotated[str | None, typer.Option(help="variational (unless given), gibbs or paper.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of all random numbers; 0 unless given.")] = None,
    mask: MaskOption = None,
    settings: Annotated[Path | None, typer.Option(help="TOML file; options given here come before it.")] = None,
    assignments: Annotated[list[str] | None, typer.Option("--set", help="Any setting: name=value.")] = None,
    overwrite: OverwriteOption = False,
    jobs: Annotated[int | None, typer.Option(help="Threads; all cores unless given.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Find topics in pictures and write soft maps, figures, a report and the model to a folder."""
    with one_line_errors():
        from pmlda.config import make_settings, parse_assignment, read_settings
        from pmlda.output import check_folder
        from pmlda.pipeline import segment as run

        given = {"topics": topics, "model": model, "features": features, "documents": documents}
        given |= {"engine": engine, "seed": seed}
        tables = [read_settings(settings)] if settings else []
        tables.append({name: value for name, value in given.items() if value is not None})
        tables += [parse_assignment(text) for text in assignments or []]
        chosen = make_settings(*tables).model_dump()
        check_folder(out, overwrite=overwrite)
        several = len(images) > 1
        found = _quietly(
            run,
            list(images) if several else images[0],
            chosen.pop("topics"),
            random_state=chosen.pop("seed"),
            mask=[mask] * len(images) if several else mask,
            n_jobs=jobs,
            verbose=0 if as_json else 1,
            **chosen,
        )
        folder = found.save(out, overwrite=overwrite)
        _tell(folder, as_json=as_json)


@app.command()
def apply(
    model: Annotated[Path, typer.Argument(help="model.pmlda of an earlier run.")],
    images: Annotated[list[Path], typer.Argument(help="One picture or several.", metavar="IMAGE…")],
    out: OutOption,
    mask: MaskOption = None,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Find the topics of an earlier run in other pictures."""
    with one_line_errors():
        from pmlda.output import check_folder, load_chain
        from pmlda.pipeline import apply as run

        check_folder(out, overwrite=overwrite)
        several = len(images) > 1
        found = _quietly(
            run,
            load_chain(model),
            list(images) if several else images[0],
            mask=[mask] * len(images) if several else mask,
        )
        _tell(found.save(out, overwrite=overwrite), as_json=as_json)


@app.command(name="features")
def list_features(as_json: JsonOption = False) -> None:
    """List what can be computed for each pixel, and how pictures can be cut into documents."""
    from pmlda.features import list_features as known
    from pmlda.partitions import describe_partitions

    if as_json:
        content = {
            "features": [{"name": name, "summary": text, "options": list(more)} for name, text, more in known()],
            "documents": [{"spelling": name, "summary": text} for name, text in describe_partitions()],
        }
        print(json.dumps(content))
        return
    console = Console()
    table = Table("features", "what they are", "options", box=None, header_style="bold")
    for name, summary, options in known():
        table.add_row(name, summary, ", ".join(options))
    console.print(table)
    console.print("Join them with +, for example color+texture.\n")
    table = Table("documents", "what they are", box=None, header_style="bold")
    for spelling, summary in describe_partitions():
        table.add_row(spelling, summary)
    console.print(table)


@app.command()
def simulate(
    out: OutOption,
    topics: Annotated[int, typer.Option("--topics", "-k", min=2, max=8, help="How many topics.")] = 3,
    size: Annotated[int, typer.Option(min=16, max=4096, help="Rows and columns.")] = 256,
    noise: Annotated[float, typer.Option(min=0.0, max=1.0, help="Standard deviation, of colours from 0 to 1.")] = 0.05,
    seed: Annotated[int, typer.Option(min=0, help="Of all random numbers.")] = 0,
) -> None:
    """Make a picture of smoothly mixed colours, with its true memberships, to try things on."""
    with one_line_errors():
        from PIL import Image as Pillow

        from pmlda.images import write_maps
        from pmlda.output import new_folder
        from pmlda.scenes import smooth_scene

        picture, truth = smooth_scene(size, size, topics, noise, seed)
        with new_folder(out, overwrite=False) as folder:
            Pillow.fromarray(picture).save(folder / "picture.png")
            write_maps(folder / "truth.tif", truth, tuple(f"topic {k + 1}" for k in range(topics)))
        print(f"{out / 'picture.png'} and its memberships {out / 'truth.tif'}")


@app.command()
def report(folder: Annotated[Path, typer.Argument(help="A folder that `pmlda segment` wrote.")]) -> None:
    """Tell what a result folder holds, how the run went, and where its report is."""
    with one_line_errors():
        record = _record(folder)
        table = Table(show_header=False, box=None)
        for name in ("verdict", "features", "seed", "sweeps"):
            table.add_row(name, str(record[name]))
        table.add_row("settings", ", ".join(f"{name}={value}" for name, value in record["settings"].items()))
        table.add_row("seconds", ", ".join(f"{name} {value:.2f}" for name, value in record["seconds"].items()))
        for picture in record["pictures"]:
            table.add_row("picture", f"{picture['name']}, {'×'.join(map(str, picture['shape']))}")
        for page in sorted(folder.rglob("report.html")):
            table.add_row("report", str(page))
        Console(soft_wrap=True).print(table)


@app.command()
def info(model: Annotated[Path, typer.Argument(help="A model file.")], as_json: JsonOption = False) -> None:
    """Tell what a model file holds."""
    with one_line_errors():
        from pmlda.estimator import PMLDA
        from pmlda.output import load_model

        loaded = load_model(model)
        of_pmlda = {}
        if isinstance(loaded, PMLDA):
            of_pmlda = {"family": type(loaded.family_).__name__, "engine": loaded.engine}
        facts: dict[str, Any] = {
            "model": getattr(loaded, "name", "pmlda"),
            "topics": int(loaded.n_components),
            "features": int(loaded.n_features_in_),
            **of_pmlda,
            "documents": len(loaded.documents_),
            "words": int(loaded.document_sizes_.sum()),
            "sweeps": int(loaded.n_iter_),
            "topic_means": loaded.topic_means_.tolist(),
        }
        if as_json:
            print(json.dumps(facts))
            return
        table = Table(show_header=False, box=None)
        for name, value in facts.items():
            if name != "topic_means":
                table.add_row(name, str(value))
        for k, row in enumerate(facts["topic_means"]):
            table.add_row(f"mean of topic {k + 1}", " ".join(f"{value:.4g}" for value in row[:12]))
        Console().print(table)


@app.command()
def demo(out: OutOption = Path("demo-output"), as_json: JsonOption = False) -> None:
    """Segment a photograph of a rocket at dusk, which comes with scikit-image (SpaceX, public domain)."""
    with one_line_errors():
        from skimage.data import rocket

        from pmlda.images import read_image
        from pmlda.pipeline import segment as run

        picture = read_image(rocket())._replace(name="rocket at dusk")  # type: ignore[no-untyped-call]
        found = _quietly(run, picture, 3, verbose=0 if as_json else 1)
        _tell(found.save(out, overwrite=True), as_json=as_json)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"pmlda {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="And exit.")] = False,
) -> None:
    """Soft segmentation of pictures."""


def _quietly(run: Any, *arguments: Any, **settings: Any) -> Any:
    """The call, its warnings as single lines."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = run(*arguments, **settings)
    for text in dict.fromkeys(str(each.message) for each in caught if issubclass(each.category, UserWarning)):
        shout.print(f"Note: {text}", style="yellow", markup=False, soft_wrap=True)
    return result


def _tell(folder: Path, *, as_json: bool) -> None:
    """Where the result is, and how it went."""
    record = _record(folder)
    pages = [str(page) for page in sorted(folder.rglob("report.html"))]
    if as_json:
        print(json.dumps({"folder": str(folder), "reports": pages} | record))
        return
    for picture in record["pictures"]:
        for note in picture["notes"]:
            print(f"{picture['name']}: {note}")
    print(record["verdict"])
    print(f"Report: {', '.join(pages)}")
    print(f"Figure: {', '.join(str(page) for page in sorted(folder.rglob('figure.png')))}")


def _record(folder: Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads((folder / "run.json").read_text(encoding="utf-8"))
        return content
    except (OSError, json.JSONDecodeError) as error:
        raise ValueError(f"{str(folder)!r} is not a folder that `pmlda segment` wrote ({error}).") from None


if __name__ == "__main__":
    sys.exit(app())
