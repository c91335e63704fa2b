"""`pmlda compare` and `pmlda reproduce`: models side by side, and the paper's experiments."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from pmlda.cli.app import (
    DocumentsOption,
    FeaturesOption,
    JsonOption,
    MaskOption,
    NamesOption,
    OutOption,
    OverwriteOption,
    SetOption,
    SettingsOption,
    TopicsOption,
    app,
    chosen_settings,
    one_line_errors,
    say,
    show_table,
)
from pmlda.cli.talk import with_printed_warnings
from pmlda.text import printable

WIDE = 400


@app.command(
    epilog="""Examples:

    pmlda compare photo.jpg --out compared

    pmlda compare sonar.png --models pmlda,lda,fcm --features sonar --truth labels.png --out compared"""
)
def compare(
    image: Annotated[Path, typer.Argument(help="A picture.")],
    out: OutOption,
    overwrite: OverwriteOption = False,
    models: Annotated[
        str,
        typer.Option(help="Models with commas: pmlda, lda, fcm, bpm, bfc, gmm, kmeans; as --model of `pmlda segment`."),
    ] = "pmlda,lda,fcm,gmm",
    truth: Annotated[
        Path | None,
        typer.Option(help="True memberships (a TIFF with a band for each topic) or a label image \\[default: none]."),
    ] = None,
    mask: MaskOption = None,
    topics: TopicsOption = None,
    names: NamesOption = None,
    features: FeaturesOption = None,
    documents: DocumentsOption = None,
    settings: SettingsOption = None,
    assignments: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Segment a picture with several models: one figure with all maps, a table of times, and of scores with --truth."""
    with one_line_errors():
        from pmlda.evaluation.compare import compare as run
        from pmlda.evaluation.compare import comparison_figure
        from pmlda.images import read_image
        from pmlda.output.folder import new_folder
        from pmlda.output.places import check_folder

        inputs = [path for path in (image, mask, truth, settings) if path is not None]
        replaces = check_folder(out, overwrite=overwrite, inputs=inputs)
        given = {"topics": topics, "names": names, "features": features, "documents": documents}
        chosen = chosen_settings(settings, given, assignments).model_dump()
        chosen.pop("model")
        compared = tuple(name.strip() for name in models.split(",") if name.strip())
        found = with_printed_warnings(
            run,
            read_image(image, mask=mask),
            compared,
            chosen.pop("topics"),
            truth=truth,
            random_state=chosen.pop("seed"),
            **chosen,
        )
        with new_folder(out, replaces) as folder:
            comparison_figure(found).savefig(folder / "figure.png")
            (folder / "results.json").write_text(json.dumps({"rows": found.rows}, indent=1) + "\n", encoding="utf-8")
        _print_rows(found.rows, [out / "figure.png"], as_json=as_json)


@app.command(
    epilog="""Examples:

    pmlda reproduce blend --out blend

    pmlda reproduce msrc --data folder-with-msrc --out msrc

    pmlda reproduce all --out experiments"""
)
def reproduce(
    name: Annotated[str, typer.Argument(help="generating, sonar, scale, sunset, msrc, unmixing, blend, or all.")],
    out: OutOption,
    overwrite: OverwriteOption = False,
    data: Annotated[
        Path | None, typer.Option(help="Folder with the data of the paper \\[default: simulated pictures instead].")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, max=1000, help="Number of simulated pictures.")] = 10,
    small: Annotated[
        bool, typer.Option("--small", help="Few and small pictures, to see that it runs; the results mean little.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Run an experiment of the paper: figures and results.json in a folder, the table on the screen."""
    with one_line_errors():
        from pmlda.evaluation.experiments import reproduce as run
        from pmlda.evaluation.experiments import reproduce_all
        from pmlda.output.places import check_folder
        from pmlda.validate import require

        check_folder(out, overwrite=overwrite)
        if name == "all":
            require(data is None, "--data is for one experiment: all of them run on stand-ins.")
            outcomes = with_printed_warnings(reproduce_all, out, seeds=seeds, small=small, overwrite=overwrite)
        else:
            outcomes = {
                name: with_printed_warnings(run, name, out, data, seeds=seeds, small=small, overwrite=overwrite)
            }
        if as_json:
            print(json.dumps({each: {"rows": found.rows, "remark": found.remark} for each, found in outcomes.items()}))
            return
        for each, found in outcomes.items():
            _show_table(each, found.rows)
            say(found.remark)
            say()
        say(f"Figures and results.json: {out}")


def _print_rows(rows: list[dict[str, Any]], pictures: list[Path], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"rows": rows, "figures": [str(path) for path in pictures]}))
        return
    _show_table("", rows)
    for path in pictures:
        say(f"Figure: {path}")


def _show_table(title: str, rows: list[dict[str, Any]]) -> None:
    """Rows of a table, numbers in three digits."""
    table = Table(title=title or None, box=None, header_style="bold", title_justify="left")
    for name in rows[0] if rows else ():
        table.add_column(printable(name), overflow="fold")
    texts = ([f"{value:.3g}" if isinstance(value, float) else value for value in row.values()] for row in rows)
    show_table(table, texts, width=WIDE)
