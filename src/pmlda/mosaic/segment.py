"""Pictures of any size: source + settings → maps on disk, block by block; resumed where an earlier run was stopped."""

import io
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from pmlda import figures
from pmlda.cluster import Cluster
from pmlda.config import Settings, make_settings, write_settings
from pmlda.features import Features, find_features
from pmlda.images import zarrs
from pmlda.images.tiles import write_tiled
from pmlda.images.windowed import Windowed, open_windowed
from pmlda.mosaic.plan import Needs, Plan, make_plan, needs
from pmlda.mosaic.result import Mosaic, beside, is_tiff, load_mosaic
from pmlda.mosaic.run import Mapper, Outcome, Run, Threads, preview
from pmlda.mosaic.steps import Job, chain_of
from pmlda.output import LIBRARIES, OutputError, check_folder
from pmlda.pipeline import auto_features
from pmlda.progress import shown
from pmlda.runs import RunError, RunFolder, write_whole
from pmlda.segmentation import Chain, Segmentation, verdict_of
from pmlda.types import Image
from pmlda.validate import require

KIND = "mosaic"
# What a run may take of the memory that is there, and of the disk that is free.
MEMORY_SHARE, DISK_SHARE = 0.8, 0.95


def segment_mosaic(
    source: Any,
    settings: Settings,
    *,
    features: Any = "auto",
    out: str | Path | None = None,
    mask: Any = None,
    client: Any = None,
    n_jobs: int | None = None,
    verbose: int = 0,
    overwrite: bool = False,
    resume: bool = False,
) -> Mosaic:
    """Maps of a picture of any size, written block by block to out (.zarr, .tif); None is a temporary folder.

    client : dask.distributed.Client, or None for threads of this process
    resume : go on with a run to out that was stopped
    """
    keeper = None
    if out is None:
        keeper = tempfile.TemporaryDirectory(prefix="pmlda-")
        out = Path(keeper.name) / "maps.zarr"
    out = Path(out)
    picture = open_windowed(source, mask=mask)
    chosen, computer, plan = prepare(picture, settings, features)
    mapper: Mapper = Threads(n_jobs) if client is None else Cluster(client)
    request = {
        "kind": KIND,
        "source": str(Path(source).resolve()) if isinstance(source, str | Path) else None,
        "mask": str(Path(mask).resolve()) if isinstance(mask, str | Path) else None,
        "settings": chosen.model_dump(),
        "fingerprint": picture.fingerprint,
        "overwrite": overwrite,
    }
    if not resume:
        check_out(out, overwrite=overwrite)
        check_needs(needs_of(picture, plan, computer.reach, chosen), out, mapper)
    with opened(out, request, resume=resume) as folder:
        job = Job(picture, folder.path, plan, chosen, computer)
        with shown(verbose) as report:
            work = Run(job, mapper, report)
            start(work, folder, mapper, resume)
            outcome = work.all_stages()
        folder.log("maps are complete")
        finish(job, folder, outcome, mapper, overwrite)
    return load_mosaic(out, keeper)


def prepare(picture: Windowed, settings: Settings, features: Any) -> tuple[Settings, Features, Plan]:
    """Settings with nothing left to choose, features, and blocks."""
    if isinstance(features, str) and features == "auto":
        features = auto_features([_sketch(picture)])
    computer = find_features(features)
    plan = make_plan((picture.shape[0], picture.shape[1]), settings)
    chosen = settings.model_copy(update={"documents": plan.documents.spec, "features": computer.spec})
    return chosen, computer, plan


def _sketch(picture: Windowed) -> Image:
    """One pixel that tells how many bands there are."""
    return picture.read(slice(0, 1), slice(0, 1))


@contextmanager
def opened(out: Path, request: dict[str, Any], *, resume: bool) -> Iterator[RunFolder]:
    """The run's folder: a new one, or that of an earlier run that wanted the same. It stays when the run fails."""
    if not resume:
        with RunFolder.create(out, request) as folder:
            folder.log("begun")
            yield folder
        return
    with RunFolder.open(out) as folder:
        changed = sorted(name for name in ("settings", "fingerprint") if folder.request.get(name) != request[name])
        if changed:
            what = "the picture has changed" if changed == ["fingerprint"] else "settings are not the same"
            raise RunError(
                f"The run in {str(folder.path)!r} cannot go on: {what} since it was begun. "
                "Give the same again, or remove the folder and start again."
            )
        folder.log("resumed")
        yield folder


def start(work: Run, folder: RunFolder, mapper: Mapper, resume: bool) -> None:
    """An empty group for the maps, or a look at what is there."""
    job = work.job
    folder.log("workers", threads=mapper.threads(), dashboard=getattr(mapper, "address", None))
    if (job.folder / "begun").exists():
        damaged = work.check_maps() if resume else 0
        if damaged:
            folder.log("damaged blocks are made again", count=damaged)
        return
    shutil.rmtree(job.maps, ignore_errors=True)
    names = [f"topic {k + 1}" for k in range(job.settings.topics)]
    shape = (*job.plan.shape, job.settings.topics)
    zarrs.create_maps(job.maps, shape, job.plan.side, names, georeference=job.source.georeference)
    write_whole(job.folder / "begun", b"")


def finish(job: Job, folder: RunFolder, outcome: Outcome, mapper: Mapper, overwrite: bool) -> None:
    """What belongs to the maps, then their name."""
    chain, _ = chain_of(job)
    record = {
        "settings": job.settings.model_dump(),
        "features": list(chain.features.names),
        "seed": job.settings.seed,
        "sweeps": int(chain.model.n_iter_),
        "verdict": outcome.verdict or verdict_of(chain.model),
        "interrupted": False,
        "seconds": {name: round(value, 3) for name, value in outcome.seconds.items()},
        "blocks": len(job.plan.blocks),
        "block": job.plan.side,
        "documents": outcome.n_documents,
        "pixels_with_data": outcome.n_valid,
        "threads": mapper.threads(),
        "pictures": [{"name": job.source.name, "shape": list(job.source.shape), "notes": list(job.source.notes)}],
        "versions": {name: version(name) for name in LIBRARIES},
        "log": folder.read_log(),
    }
    out = folder.out
    if overwrite:
        _remove(out)
    if is_tiff(out):
        write_tiled(
            out,
            (*job.plan.shape, job.settings.topics),
            [f"topic {k + 1}" for k in range(job.settings.topics)],
            lambda rows: zarrs.read_block(job.maps, "memberships", rows, slice(0, job.plan.shape[1])),
            georeference=job.source.georeference,
        )
        accompany(job, chain, record, lambda name: beside(out, name))
    else:
        accompany(job, chain, record, lambda name: job.maps / name)
        job.maps.rename(out)
    folder.remove()


def accompany(job: Job, chain: Chain, record: dict[str, Any], place: Callable[[str], Path]) -> None:
    """Model, settings, record, and a small picture of the maps."""
    shutil.copyfile(job.model, place("model.pmlda"))
    write_whole(place("settings.toml"), write_settings(job.settings).encode())
    write_whole(place("figure.png"), draw(job, chain))
    write_whole(place("run.json"), (json.dumps(record, indent=1) + "\n").encode())


def draw(job: Job, chain: Chain) -> bytes:
    """The picture, its topics, transitions and uncertainty, as for any picture, at a size that can be looked at."""
    pixels, valid, memberships, uncertainty = preview(job)
    if not valid.any():  # too sparse to be seen
        valid[0, 0] = True
    image = Image(pixels, valid, job.source.bands, job.source.name)
    none = np.full(valid.shape, -1, np.int64)
    empty = np.empty((0, job.settings.topics)), np.empty(0)
    small = Segmentation([image], chain, [memberships], [uncertainty], [none], *empty)
    buffer = io.BytesIO()
    figures.overview(small, 0).savefig(buffer, format="png")
    return buffer.getvalue()


# ── what may go wrong before it begins ─────────────────────────────────────────────────────────────────────────────
def check_out(out: Path, *, overwrite: bool) -> None:
    """Refuse early what could not be written."""
    right = out.suffix.lower() in (".zarr", ".tif", ".tiff")
    if not right:
        raise OutputError(f"{str(out)!r}: maps of a picture in blocks are written to a name ending in .zarr or .tif.")
    if is_tiff(out):
        if out.exists() and not overwrite:
            raise OutputError(f"{str(out)!r} exists already. Give another name, or say --overwrite.")
        check_folder(out.parent / f".{out.name}-new")
        return
    check_folder(out, overwrite=overwrite)


def needs_of(picture: Windowed, plan: Plan, reach: int, settings: Settings) -> Needs:
    """Memory and disk; the number of features is guessed from the bands before anything was read."""
    return needs(
        plan, picture.shape[2], picture.dtype.itemsize, max(picture.shape[2], 12 * bool(reach)), reach, settings
    )


def check_needs(wanted: Needs, out: Path, mapper: Mapper) -> None:
    """Refuse what will not fit, and say what would."""
    free = shutil.disk_usage(out.resolve().parent).free
    require(
        wanted.disk <= DISK_SHARE * free,
        f"The run needs about {_gb(wanted.disk)} on the disk of {str(out.resolve().parent)!r}, where {_gb(free)} are "
        "free. Make room, write elsewhere, or ask for fewer topics.",
    )
    there = memory_of(mapper)
    require(
        there is None or wanted.memory <= MEMORY_SHARE * there,
        f"A block needs about {_gb(wanted.memory)} of memory and a worker has {_gb(there or 0)}. "
        "Choose smaller blocks (--set block=512), fewer workers, or workers with more memory.",
    )


def memory_of(mapper: Mapper) -> int | None:
    """Bytes that one call may take."""
    if isinstance(mapper, Cluster):
        return mapper.memory()
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable"):
                return int(line.split()[1]) * 1024 // mapper.threads()
    except OSError:
        pass
    return None


def _gb(n_bytes: int) -> str:
    return f"{n_bytes / 1e9:.2g} GB" if n_bytes < 1e10 else f"{n_bytes / 1e9:,.0f} GB"


def _remove(out: Path) -> None:
    if out.is_dir():
        shutil.rmtree(out)
    else:
        out.unlink(missing_ok=True)


def resume_mosaic(out: str | Path, *, client: Any = None, n_jobs: int | None = None, verbose: int = 0) -> Mosaic:
    """Go on with the run to out, from what its folder tells alone."""
    with RunFolder.open(out) as folder:
        request, final = folder.request, folder.out
    require(
        request.get("source") is not None,
        f"The run to {str(final)!r} works on an array, which it cannot find again. "
        "Go on in Python: pmlda.segment(array, …, out=…, resume=True).",
    )
    settings = make_settings(request["settings"])
    return segment_mosaic(
        request["source"],
        settings,
        features=settings.features,
        out=final,
        mask=request.get("mask"),
        client=client,
        n_jobs=n_jobs,
        verbose=verbose,
        overwrite=bool(request.get("overwrite")),
        resume=True,
    )
