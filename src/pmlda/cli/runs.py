"""Runs that can be stopped and gone on with: a request and checkpoints in OUT.run, until OUT is complete."""

import hashlib
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pmlda.cli.app import (
    INTERRUPTED,
    JobsOption,
    JsonOption,
    app,
    one_line_errors,
    quietly,
    save_and_tell,
    shout,
    tell,
    tell_stage,
)
from pmlda.cli.mosaics import SchedulerOption, Where, WorkersOption, resume_mosaic
from pmlda.errors import OutputError, PmldaError, RunError
from pmlda.storage.run_folder import SUFFIX, RunFolder

if TYPE_CHECKING:
    from pmlda.types import Image

# Seconds between checkpoints unless told otherwise: a variational fit is over before one would be worth its while.
DEFAULT_SECONDS = {"variational": 0.0, "gibbs": 60.0, "paper": 60.0}
CheckpointOption = Annotated[
    float | None,
    typer.Option(min=0, help="Seconds between checkpoints, 0 for none; 60 for gibbs and paper unless given."),
]


@app.command()
def resume(
    folder: Annotated[
        Path, typer.Argument(help="What the run was to write, or the folder beside it that ends in .run.")
    ],
    jobs: JobsOption = None,
    workers: WorkersOption = None,
    scheduler: SchedulerOption = None,
    as_json: JsonOption = False,
) -> None:
    """Go on with a run that was stopped, to the result that it would have come to without a break."""
    with one_line_errors(), RunFolder.open(folder) as run:
        kind = run.request.get("kind")
        if kind not in KINDS:
            raise RunError(f"{str(run.path)!r} is a run of the unknown kind {kind!r}. Use the pmlda that began it.")
        KINDS[kind](run, folder.with_name(folder.name.removesuffix(SUFFIX)), Where(jobs, workers, scheduler), as_json)


# ── pictures ───────────────────────────────────────────────────────────────────────────────────────────────────
def segment_pictures(
    images: Sequence[Any], masks: Sequence[Any], chosen: dict[str, Any], jobs: int | None, as_json: bool, **more: Any
) -> Any:
    """pmlda.segment with settings as the command line has them."""
    from pmlda.pipeline.api import segment

    settings = dict(chosen)
    several = len(images) > 1
    return quietly(
        segment,
        list(images) if several else images[0],
        settings.pop("topics"),
        random_state=settings.pop("seed"),
        mask=list(masks) if several else masks[0],
        n_jobs=jobs,
        verbose=0 if as_json else 1,
        stage=None if as_json else tell_stage,
        **settings,
        **more,
    )


def begin_pictures(
    paths: list[Path],
    mask: Path | None,
    chosen: dict[str, Any],
    out: Path,
    *,
    overwrite: bool,
    seconds: float,
    jobs: int | None,
    as_json: bool,
) -> None:
    """A run that can be gone on with."""
    images = _read(paths, mask, as_json)
    request = {
        "kind": "picture",
        "images": [str(path.resolve()) for path in paths],
        "sha256": [digest_of(image) for image in images],
        "mask": None if mask is None else str(mask.resolve()),
        "settings": chosen,
        "overwrite": overwrite,
        "seconds": seconds,
        "begun": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    with RunFolder.create(out, request) as run:
        _finish(run, images, out, jobs, as_json, is_new=True)


def resume_pictures(run: RunFolder, out: Path, where: Where, as_json: bool) -> None:
    """Go on with a run of `pmlda segment` that writes a folder."""
    if where.workers is not None or where.scheduler is not None:
        raise RunError("This run is not worked on block by block: leave --workers and --scheduler out.")
    wanted = {"images": list, "sha256": list, "settings": dict, "overwrite": bool, "seconds": float, "begun": str}
    request = run.request
    if not all(isinstance(request.get(name), kind) for name, kind in wanted.items()):
        raise RunError(f"The request.json of {str(run.path)!r} is damaged. Remove the folder and start again.")
    record = _own_result(run)
    if record is not None and not record.get("interrupted"):  # killed between writing the maps and removing the folder
        run.remove()
        tell(out, as_json=as_json)
        return
    mask = request.get("mask")
    images = _read([Path(path) for path in request["images"]], None if mask is None else Path(mask), as_json)
    for path, image, digest in zip(request["images"], images, request["sha256"], strict=True):
        if digest_of(image) != digest:
            raise RunError(
                f"{path!r} or its mask is not what it was when the run began. Put it back as it was, or remove "
                f"{str(run.path)!r} and start again."
            )
    _finish(run, images, out, where.jobs, as_json, is_new=False)


KINDS: dict[str, Callable[[RunFolder, Path, Where, bool], None]] = {
    "picture": resume_pictures,
    "mosaic": resume_mosaic,
}
"""How a run goes on, by the kind that its request names: run, what to write, where, whether to print JSON."""


def digest_of(image: "Image") -> str:
    """A text that tells the picture and its mask from others."""
    import numpy as np  # late: a command that only reads files needs none

    digest = hashlib.sha256(f"{image.pixels.dtype} {image.pixels.shape}".encode())
    digest.update(np.ascontiguousarray(image.pixels).data)
    digest.update(np.packbits(image.valid).data)
    return digest.hexdigest()


def _read(paths: list[Path], mask: Path | None, as_json: bool) -> "list[Image]":
    from pmlda.pipeline.api import read_all

    if not as_json:
        tell_stage("reading")
    return read_all(paths, [mask] * len(paths))


def _finish(run: RunFolder, images: "list[Image]", out: Path, jobs: int | None, as_json: bool, *, is_new: bool) -> None:
    """The fit from its last checkpoint, and the maps. Only then the folder of the run is removed."""
    from pmlda.output.folder import check_folder
    from pmlda.storage.checkpoints import Checkpoint, has_checkpoints

    request, place = run.request, run.path / "checkpoints"
    overwrite = request["overwrite"] or _own_result(run) is not None
    advice = f"go on with: pmlda resume {str(out)!r}"
    try:
        check_folder(out, overwrite=overwrite, inputs=[Path(path) for path in request["images"]])
        checkpoint = Checkpoint(place, every_seconds=request["seconds"])
        found = segment_pictures(
            images, [None] * len(images), request["settings"], jobs, as_json, checkpoint=checkpoint
        )
        save_and_tell(found, out, overwrite=overwrite, as_json=as_json, at_end=run.remove)
    except typer.Exit:
        shout.print(f"The result is that of an interrupted fit; {advice}", style="yellow", markup=False, soft_wrap=True)
        raise
    except (KeyboardInterrupt, PmldaError, OSError, MemoryError) as error:
        if not has_checkpoints(place):
            if is_new:
                run.remove()
            raise
        if isinstance(error, KeyboardInterrupt):
            shout.print(f"Interrupted; {advice}", style="yellow", markup=False, soft_wrap=True)
            raise typer.Exit(INTERRUPTED) from None
        raise RunError(f"{error or type(error).__name__} What was computed is kept; {advice}") from None


def _own_result(run: RunFolder) -> dict[str, Any] | None:
    """The record of what this run has written already, if it has: all of it, or what an interrupted fit had found."""
    from pmlda.output.folder import read_record

    try:
        record = read_record(run.out)
    except OutputError:
        return None
    own = str(record.get("written")) >= run.request["begun"] and record.get("settings") == run.request["settings"]
    return record if own else None
