"""Commands that make or read maps: segment, resume, apply, features, report, info, demo."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from pmlda.cli.app import (
    COMPUTING,
    METHOD,
    TOPICS,
    AutoTopicsOption,
    BandsOption,
    DocumentsOption,
    FamilyOption,
    FeaturesOption,
    JsonOption,
    KeyOption,
    LearntBandsOption,
    LearntKeyOption,
    LearntSliceOption,
    LearntTimeOption,
    LooksOption,
    MaskOption,
    NamesOption,
    NodataOption,
    OutOption,
    OverwriteOption,
    SaturatedAtOption,
    SaturatedOption,
    SeedOption,
    SetOption,
    SettingsOption,
    ShadowOption,
    SliceOption,
    TimeOption,
    app,
    chosen_settings,
    one_line_errors,
    say,
    show_table,
)
from pmlda.cli.compute import ComputeOptions, JobsOption, SchedulerOption, WorkersOption
from pmlda.cli.talk import (
    QuietOption,
    Talk,
    VerboseOption,
    facts_of,
    print_result,
    what_compiles,
    with_printed_warnings,
)
from pmlda.errors import OutputError

# Longer ones are no number of topics.
LONGEST_NUMBER = 10


@app.command(
    epilog="""Examples:

    pmlda segment photo.jpg --out maps

    pmlda segment sonar.tif --topics 3 --features sonar+ripple --documents windows:64/32 --out maps

    pmlda segment a.png b.png --features color+texture --engine gibbs --set sweeps=2000 --out maps

    pmlda segment photo.jpg --topics auto --out maps

    pmlda segment photo.jpg --labels strokes.json --topics 4 --out maps

    pmlda segment cube.hdr --topics 4 --known minerals.sli --set known_spread=0.02 --out maps

    pmlda segment stack.ome.tif --z max --out maps

    pmlda segment cube.mat --key reflectance --bands 650nm,550nm,450nm --out maps

    pmlda segment "scans/*.tif" --topics 4 --out maps

    pmlda segment photons.tif --family poisson --out maps

    pmlda segment radar.tif --family gamma --looks 4 --nodata 0 --out maps

    pmlda segment cells.tif --ignore-saturated --out maps

    pmlda segment photo.jpg --model fcm --set fuzzifier=2 --out fuzzy

    pmlda segment survey.zarr --out maps.zarr --workers 4"""
)
def segment(
    images: Annotated[
        list[Path],
        typer.Argument(
            help="One picture, or several that share topics; folders of pictures, or patterns in quotation marks.",
            metavar="IMAGE…",
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            help="Result: a folder, new or empty; or NAME.zarr or NAME.tif, for pictures larger than memory.",
        ),
    ],
    overwrite: OverwriteOption = False,
    key: KeyOption = None,
    z: SliceOption = None,
    t: TimeOption = None,
    bands: BandsOption = None,
    mask: MaskOption = None,
    nodata: NodataOption = None,
    ignore_saturated: SaturatedOption = False,
    saturated_at: SaturatedAtOption = None,
    ignore_shadow: ShadowOption = None,
    topics: AutoTopicsOption = None,
    names: NamesOption = None,
    features: FeaturesOption = None,
    documents: DocumentsOption = None,
    family: FamilyOption = None,
    looks: LooksOption = None,
    labels: Annotated[
        list[Path] | None,
        typer.Option(
            help="What is known of some pixels: a label image, strokes.json or GeoJSON; for several pictures one for "
            "each, in the same order \\[default: none].",
            rich_help_panel=TOPICS,
        ),
    ] = None,
    known: Annotated[
        Path | None,
        typer.Option(
            help="Topics that are known: a spectral library, CSV (a column for each material) or ENVI (.sli); how far "
            "they may be off is --set known_spread=… \\[default: none].",
            rich_help_panel=TOPICS,
        ),
    ] = None,
    library: Annotated[
        Path | None,
        typer.Option(
            help="Spectra that the topics found are compared with by spectral angle; a file such as --known reads "
            "\\[default: none].",
            rich_help_panel=TOPICS,
        ),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            help="How topics are inferred: variational \\[default], fast; gibbs, exact sampling; paper, Algorithm 1 of "
            "the paper.",
            rich_help_panel=METHOD,
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="pmlda \\[default], or for comparison: lda (visual words), fcm (fuzzy c-means), bpm (Bayesian "
            "partial membership), bfc (Bayesian fuzzy clustering), gmm (Gaussian mixture), kmeans.",
            rich_help_panel=METHOD,
        ),
    ] = None,
    seed: SeedOption = None,
    settings: SettingsOption = None,
    assignments: SetOption = None,
    checkpoint: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Seconds between two checkpoints, from which `pmlda resume` resumes; 0 for none "
            "\\[default: 60 for gibbs and paper].",
            rich_help_panel=COMPUTING,
        ),
    ] = None,
    jobs: JobsOption = None,
    workers: WorkersOption = None,
    scheduler: SchedulerOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
    as_json: JsonOption = False,
) -> None:
    """Find topics in pictures and write soft maps, figures, a report and the model to a folder."""
    with one_line_errors():
        given: dict[str, Any] = {
            "topics": number_of_topics(topics),
            "names": names,
            "model": model,
            "features": features,
            "documents": documents,
        }
        given |= {"key": key, "z": z, "t": t, "bands": bands}
        given |= {"nodata": nodata, "ignore_shadow": ignore_shadow}
        given["ignore_saturated"] = (ignore_saturated or None) if saturated_at is None else saturated_at
        given |= {"family": family, "looks": looks, "engine": engine, "seed": seed}
        chosen, talk = chosen_settings(settings, given, assignments), Talk(quiet, verbose, as_json)
        where = ComputeOptions(jobs, workers, scheduler)
        where.check(out)
        with talk.compiling(**what_compiles(chosen)):
            from pmlda.parallel.progress import Clock
            from pmlda.pipeline.api import segment_asked
            from pmlda.pipeline.request import Asked, as_lists, labels_of_each

            pictures, masks, _, found_pictures = as_lists(list(images), mask, labels, known)
            cut, several = (chosen.features, chosen.documents), len(pictures) > 1
            asked = Asked(pictures, masks, chosen, *cut, several=several, n_jobs=jobs, found=found_pictures)
            asked = asked._replace(labels=labels_of_each(labels or None, pictures, several=True), known=known)
            asked = asked._replace(library=library, also_read=() if settings is None else (settings,))
            asked = asked._replace(verbose=talk.progress, clock=Clock(talk.stage))
            with where.client(quiet=not talk.progress) as client:
                asked = asked._replace(client=client)
                how = {"overwrite": overwrite, "quiet": quiet}
                found = with_printed_warnings(segment_asked, asked, out, checkpoint, **how)
        print_result(out, found.record, talk)


def number_of_topics(text: str | None) -> int | str | None:
    """What --topics was given, for Settings to check."""
    return int(text) if text is not None and text.isdecimal() and len(text) < LONGEST_NUMBER else text


@app.command()
def topics(
    images: Annotated[
        list[Path],
        typer.Argument(
            help="One picture, or several that share topics; folders of pictures, or patterns in quotation marks.",
            metavar="IMAGE…",
        ),
    ],
    out: Annotated[
        Path,
        typer.Option("--out", "-o", help="Figure to write: score, stability, worth, what the next topic would split."),
    ] = Path("topics.png"),
    overwrite: OverwriteOption = False,
    key: KeyOption = None,
    z: SliceOption = None,
    t: TimeOption = None,
    bands: BandsOption = None,
    mask: MaskOption = None,
    nodata: NodataOption = None,
    features: FeaturesOption = None,
    family: FamilyOption = None,
    looks: LooksOption = None,
    seed: SeedOption = None,
    settings: SettingsOption = None,
    assignments: SetOption = None,
    jobs: JobsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find how many topics pictures have, and draw why. `pmlda segment --topics auto` finds the number and uses it."""
    with one_line_errors():
        given: dict[str, Any] = {"features": features, "family": family, "looks": looks, "seed": seed}
        given |= {"key": key, "z": z, "t": t, "bands": bands, "nodata": nodata}
        chosen = chosen_settings(settings, given, assignments).model_copy(update={"topics": "auto"})
        if out.exists() and not overwrite:
            raise OutputError(f"{str(out)!r} exists. Give another --out, or --overwrite.")
        from pmlda.output.topics import topics_figure
        from pmlda.pipeline.howmany import choose_for
        from pmlda.pipeline.request import Asked, as_lists
        from pmlda.storage.atomic import new_file

        pictures = as_lists(list(images), mask)
        asked = Asked(pictures.images, pictures.masks, chosen, chosen.features, n_jobs=jobs, found=pictures.found)
        choice = with_printed_warnings(choose_for, asked)
        with new_file(out) as part:
            topics_figure(choice).savefig(part, format="png", dpi=110)
        if as_json:
            print(json.dumps(choice.to_table() | {"figure": str(out)}))
            return
        for line in str(choice).splitlines():
            say(line)
        say(f"Figure: {out}")


@app.command()
def resume(
    path: Annotated[Path, typer.Argument(help="What the run was to write, or the folder beside it that ends in .run.")],
    jobs: JobsOption = None,
    workers: WorkersOption = None,
    scheduler: SchedulerOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
    as_json: JsonOption = False,
) -> None:
    """Resume a run that was interrupted; its result is the same as without the interruption."""
    with one_line_errors():
        from pmlda.pipeline.api import resume as run
        from pmlda.storage.run_folder import SUFFIX

        out = path.with_name(path.name.removesuffix(SUFFIX))
        where = ComputeOptions(jobs, workers, scheduler)
        where.check(out)
        talk = Talk(quiet, verbose, as_json)
        with where.client(quiet=not talk.progress) as client, talk.compiling():
            more = {"client": client, "n_jobs": jobs, "verbose": talk.progress, "stage": talk.stage}
            found = with_printed_warnings(run, path, quiet=quiet, **more)
        print_result(out, found.record, talk)


@app.command()
def apply(
    model: Annotated[Path, typer.Argument(help="Result of an earlier run, or its model.pmlda.")],
    images: Annotated[
        list[Path],
        typer.Argument(
            help="One picture or several; folders of pictures, or patterns in quotation marks.", metavar="IMAGE…"
        ),
    ],
    out: OutOption,
    overwrite: OverwriteOption = False,
    key: LearntKeyOption = None,
    z: LearntSliceOption = None,
    t: LearntTimeOption = None,
    bands: LearntBandsOption = None,
    mask: MaskOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
    as_json: JsonOption = False,
) -> None:
    """Find the topics of an earlier run in other pictures, which are read as those of that run were."""
    with one_line_errors():
        from pmlda.output.folder import write_result
        from pmlda.output.places import check_folder
        from pmlda.parallel.progress import Clock
        from pmlda.pipeline.api import apply_asked
        from pmlda.pipeline.request import as_lists
        from pmlda.recipe import load_recipe

        file = _model_file(model)
        pictures = as_lists(list(images), mask)
        inputs = [file, *pictures.images, *([] if mask is None else [mask])]
        replaces = check_folder(out, overwrite=overwrite, inputs=inputs)
        given = {"key": key, "z": z, "t": t, "bands": bands}
        reading = {name: value for name, value in given.items() if value is not None}
        talk = Talk(quiet, verbose, as_json)
        pictures, recipe = pictures._replace(several=len(pictures.images) > 1), load_recipe(file)
        with talk.compiling(**what_compiles(recipe.settings)):
            found = with_printed_warnings(apply_asked, recipe, pictures, reading, Clock(talk.stage), quiet=quiet)
        if talk.stage is not None:
            talk.stage("writing")
        print_result(out, write_result(found, out, replaces), talk)


@app.command(name="features")
def list_features(as_json: JsonOption = False) -> None:
    """List what can be computed for each pixel, and how pictures can be cut into documents."""
    with one_line_errors():
        from pmlda.features import list_features as known
        from pmlda.partitions import describe_partitions

        if as_json:
            content = {
                "features": [{"name": name, "summary": text, "options": list(more)} for name, text, more in known()],
                "documents": [{"spelling": name, "summary": text} for name, text in describe_partitions()],
            }
            print(json.dumps(content))
            return
        table = Table("features", "what they are", "options", box=None, header_style="bold")
        show_table(table, [(name, summary, ", ".join(options)) for name, summary, options in known()])
        say("Join them with +, for example color+texture.")
        say()
        show_table(Table("documents", "what they are", box=None, header_style="bold"), describe_partitions())


@app.command()
def report(
    result: Annotated[Path, typer.Argument(help="What `pmlda segment` or `pmlda apply` wrote.")],
    as_json: JsonOption = False,
) -> None:
    """Make report.html again from the maps and the model of a result, and show how the run went."""
    with one_line_errors():
        from pmlda.output.load import read_record, renew_reports

        pages, record = renew_reports(result), read_record(result)
        if as_json:
            print_result(result, record, Talk(as_json=True))
            return
        rows = [(name, record[name]) for name in ("verdict", "seed", "sweeps")]
        rows.append(("features", ", ".join(record["features"])))
        rows += facts_of(record)
        rows += [("picture", f"{each['name']}, {'×'.join(map(str, each['shape']))}") for each in record["pictures"]]
        rows += [("report", page) for page in pages]
        show_table(Table(show_header=False, box=None), rows)


@app.command()
def info(
    model: Annotated[Path, typer.Argument(help="A model file, or a result that has one.")], as_json: JsonOption = False
) -> None:
    """Show what a model file holds. Topics are in the order of the maps, in units of the features."""
    with one_line_errors():
        from pmlda.recipe import model_facts

        facts = model_facts(_model_file(model))
        if as_json:
            print(json.dumps(facts))
            return
        means = facts.pop("topic_means")
        rows = [(name, _few(value) if isinstance(value, list) else value) for name, value in facts.items()]
        topics = facts.get("names") or [f"topic {k + 1}" for k in range(len(means))]
        rows += [
            (f"mean of {name}", _few([f"{value:.4g}" for value in row]))
            for name, row in zip(topics, means, strict=True)
        ]
        show_table(Table(show_header=False, box=None), rows)


def _few(texts: list[str], most: int = 12) -> str:
    """The first of many."""
    return ", ".join(texts[:most]) + (f", … {len(texts)} in all" if len(texts) > most else "")


def _model_file(path: Path) -> Path:
    """A result stands for the model that belongs to it."""
    from pmlda.output.places import beside, is_tiff

    return beside(path, "model.pmlda") if path.is_dir() or is_tiff(path) else path


@app.command()
def demo(
    out: OutOption = Path("demo-output"),
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
    as_json: JsonOption = False,
) -> None:
    """Segment a photograph of a rocket at dusk, which comes with scikit-image (SpaceX, public domain)."""
    with one_line_errors():
        from skimage.data import rocket

        from pmlda.images import read_image
        from pmlda.pipeline.api import segment as run

        picture = read_image(rocket())._replace(name="rocket at dusk")  # type: ignore[no-untyped-call]
        talk = Talk(quiet, verbose, as_json)
        more = {"verbose": talk.progress, "stage": talk.stage, "out": out, "overwrite": True}
        with talk.compiling():
            found = with_printed_warnings(run, picture, 3, quiet=quiet, **more)
        print_result(out, found.record, talk)
