"""Pictures of any size from the command line: where blocks are worked on, and what is told of it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from pmlda.cli.app import INTERRUPTED, quietly, shout
from pmlda.errors import PmldaError, RunError
from pmlda.storage.run_folder import RunFolder, run_folder

SUFFIXES = (".zarr", ".tif", ".tiff")

WorkersOption = Annotated[
    int | None, typer.Option(min=1, help="Worker processes on this machine, for --out NAME.zarr or NAME.tif.")
]
SchedulerOption = Annotated[
    str | None, typer.Option(help="Address of a Dask scheduler that is running, as tcp://host:8786.")
]


class Where(NamedTuple):
    """Where blocks are worked on: threads here, new worker processes, or a cluster."""

    jobs: int | None
    workers: int | None
    scheduler: str | None

    @contextmanager
    def client(self, *, told: bool) -> Iterator[Any]:
        """A Dask client, or None for threads."""
        from pmlda.parallel.dask_cluster import local_cluster, remote_cluster

        if self.scheduler is not None and self.workers is not None:
            raise RunError("--workers starts workers here and --scheduler uses others: give one of them.")
        cluster: Any = nullcontext()
        if self.scheduler is not None:
            cluster = remote_cluster(self.scheduler)
        elif self.workers is not None:
            cluster = local_cluster(self.workers)
        with cluster as client:
            if client is not None and told:
                shout.print(f"Dashboard: {client.dashboard_link}", style="dim", highlight=False)
            yield client

    def refuse_for(self, out: Path) -> None:
        """A folder of figures is not made by a cluster."""
        if self.workers is not None or self.scheduler is not None:
            raise RunError(
                f"--workers and --scheduler write maps block by block. {str(out)!r} would be a folder of figures: "
                "give --out a name ending in .zarr or .tif."
            )


def is_mosaic(out: Path) -> bool:
    """Whether the name asks for maps that are written block by block."""
    return out.suffix.lower() in SUFFIXES


def begin_mosaic(
    images: list[Path],
    mask: Path | None,
    chosen: dict[str, Any],
    out: Path,
    where: Where,
    *,
    overwrite: bool,
    as_json: bool,
) -> None:
    """A run over blocks."""
    from pmlda.pipeline.blocks import segment_mosaic
    from pmlda.settings import make_settings

    if len(images) != 1:
        raise RunError(
            f"{str(out)!r} holds the maps of one picture, and {len(images)} were given. Make a run for each."
        )
    settings = make_settings(chosen)
    with advised(out), where.client(told=not as_json) as client:
        found = quietly(
            segment_mosaic,
            images[0],
            settings,
            features=settings.features,
            out=out,
            mask=mask,
            client=client,
            n_jobs=where.jobs,
            verbose=0 if as_json else 1,
            overwrite=overwrite,
        )
    tell_mosaic(found, as_json)


def resume_mosaic(run: RunFolder, out: Path, where: Where, as_json: bool) -> None:
    """Go on with a run over blocks."""
    from pmlda.pipeline import blocks

    with advised(out), where.client(told=not as_json) as client:
        found = quietly(blocks.resume_mosaic, run, client=client, n_jobs=where.jobs, verbose=0 if as_json else 1)
    tell_mosaic(found, as_json)


@contextmanager
def advised(out: Path) -> Iterator[None]:
    """Errors and Ctrl-C with what to do about a run that stays."""
    try:
        yield
    except (KeyboardInterrupt, PmldaError, OSError, MemoryError) as error:
        kept = (run_folder(out) / "begun").exists()
        advice = f"What was done is kept; go on with: pmlda resume {str(out)!r}"
        if kept and isinstance(error, KeyboardInterrupt):
            shout.print(f"Interrupted. {advice}", style="yellow", markup=False, soft_wrap=True)
            raise typer.Exit(INTERRUPTED) from None
        if kept and "pmlda resume" not in str(error):
            text = str(error) or type(error).__name__
            raise RunError(f"{text.removesuffix('.')}. {advice}") from None
        raise


def tell_mosaic(found: Any, as_json: bool) -> None:
    """Where the maps are, and how it went."""
    from pmlda.pipeline.mosaic import beside

    if as_json:
        print(json.dumps({"out": str(found.path)} | found.record))
        return
    for note in found.record["pictures"][0]["notes"]:
        print(f"{found.record['pictures'][0]['name']}: {note}")
    print(found.verdict)
    print(f"Maps: {found.path}")
    print(f"Figure: {beside(found.path, 'figure.png')}")
