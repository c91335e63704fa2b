"""Where a run is computed: threads of this process, new worker processes, or the workers of a Dask scheduler."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Annotated, Any, NamedTuple

import typer

from pmlda.cli.app import COMPUTING, tell
from pmlda.errors import RunError

JobsOption = Annotated[
    int | None,
    typer.Option(
        min=1, envvar="PMLDA_JOBS", help="Number of threads \\[default: all cores].", rich_help_panel=COMPUTING
    ),
]
WorkersOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Number of worker processes on this machine, if the result is NAME.zarr or NAME.tif "
        "\\[default: threads instead].",
        rich_help_panel=COMPUTING,
    ),
]
SchedulerOption = Annotated[
    str | None,
    typer.Option(
        help="Address of a running Dask scheduler, such as tcp://host:8786, if the result is NAME.zarr or NAME.tif "
        "\\[default: none].",
        rich_help_panel=COMPUTING,
    ),
]


class ComputeOptions(NamedTuple):
    """What the options say."""

    jobs: int | None
    workers: int | None
    scheduler: str | None

    @contextmanager
    def client(self, *, quiet: bool) -> Iterator[Any]:
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
            if client is not None and not quiet:
                tell(f"Dashboard: {client.dashboard_link}", style="dim")
            yield client

    def check(self, out: Any) -> None:
        """Refuse a cluster for what is made in memory, before one is started."""
        from pmlda.output.places import is_tiled

        if (self.workers is not None or self.scheduler is not None) and not is_tiled(out):
            raise RunError(
                f"--workers and --scheduler write maps tile by tile. {str(out)!r} would be a folder of figures: "
                "give --out a name ending in .zarr or .tif."
            )
