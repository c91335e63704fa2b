"""`pmlda simulate`: pictures of several fields with their true memberships, to try things on."""

from typing import Annotated

import typer

from pmlda.cli.app import OutOption, OverwriteOption, app, one_line_errors, say


@app.command(
    epilog="""Examples:

    pmlda simulate --out made

    pmlda simulate --kind seabed --pictures 4 --out survey

    pmlda simulate --kind spectra --size 64 --out scene"""
)
def simulate(
    out: OutOption,
    overwrite: OverwriteOption = False,
    kind: Annotated[
        str,
        typer.Option(
            help="colours; seabed (sonar); speckle (radar); photons (few, in four channels); cells (a stack of a "
            "microscope); spectra (hyperspectral, with a library); tissue (counts of genes)."
        ),
    ] = "colours",
    pictures: Annotated[int, typer.Option(min=1, max=1000, help="Number of pictures, with consecutive seeds.")] = 1,
    topics: Annotated[
        int | None,
        typer.Option("--topics", "-k", min=2, max=8, help="Number of topics, for --kind colours \\[default: 3]."),
    ] = None,
    size: Annotated[int, typer.Option(min=16, max=4096, help="Rows and columns in pixels.")] = 256,
    noise: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=1.0,
            help="Standard deviation of the noise of colours from 0 to 1, for --kind colours \\[default: 0.05].",
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Number that chance follows from: the same seed, the same picture.")
    ] = 0,
) -> None:
    """Make a picture of one of several fields, with its true memberships, to try things on."""
    with one_line_errors():
        from functools import partial

        from pmlda.evaluation.samples import KINDS, Place
        from pmlda.output.folder import new_folder
        from pmlda.output.places import check_folder
        from pmlda.validate import choice, require

        choice("--kind", kind, tuple(KINDS))
        given = {"n_topics": topics, "noise": noise}
        given = {name: value for name, value in given.items() if value is not None}
        require(
            kind == "colours" or not given,
            f"--kind {kind} has three topics and noise of its own. Leave out --topics and --noise, or give "
            "--kind colours.",
        )
        write = partial(KINDS[kind], **given)
        replaces = check_folder(out, overwrite=overwrite)
        numbers = [""] if pictures == 1 else [f"-{number + 1}" for number in range(pictures)]
        with new_folder(out, replaces, pictures="picture*") as folder:
            made = [write(Place(folder, number), size, seed + n).name for n, number in enumerate(numbers)]
            others = sorted({file.name for file in folder.iterdir() if file.name.startswith("library")})
        shown = made[0] if pictures == 1 else f"{made[0]} to {made[-1]}"
        say(f"{out / shown}, with true memberships in {out / f'truth{numbers[0]}.tif'}")
        for name in others[:1]:
            say(f"Spectra of its materials: {out / name}")
