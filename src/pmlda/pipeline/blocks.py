"""Pictures of any size: source + settings → maps on disk, block by block; resumed where an earlier run was stopped."""

import io
import json
import shutil
import tempfile
import weakref
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from pmlda.errors import OutputError, PmldaError, RunError
from pmlda.features import find_features
from pmlda.images import zarrs
from pmlda.images.tiles import write_tiled
from pmlda.images.windowed import open_windowed
from pmlda.output import figures
from pmlda.output.folder import LIBRARIES, check_folder
from pmlda.parallel.dask_cluster import Cluster
from pmlda.parallel.progress import shown
from pmlda.pipeline.api import auto_features
from pmlda.pipeline.mosaic import Mosaic, beside, is_tiff, load_mosaic
from pmlda.pipeline.needs import Needs, needs
from pmlda.pipeline.run import Mapper, Outcome, Run, Threads, preview
from pmlda.pipeline.steps import Job, functions_of
from pmlda.pipeline.tiles import make_plan
from pmlda.recipe import load_chain
from pmlda.segmentation import Chain, Segmentation, verdict_of
from pmlda.settings import Settings, make_settings, write_settings
from pmlda.storage.atomic import write_file
from pmlda.storage.digest import digest
from pmlda.storage.run_folder import RunFolder
from pmlda.types import Image
from pmlda.validate import require

KIND = "mosaic"
# The name under which a request carries its own SHA-256.
SEAL = "sha256"
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
        keeper = TemporaryFolder()
        out = keeper.path / "maps.zarr"
    out = Path(out)
    job, request = prepare(source, mask, settings, features)
    mapper: Mapper = Threads(n_jobs) if client is None else Cluster(client)
    if resume:
        with RunFolder.open(out) as folder:
            check_request(folder)
            check_same(folder, request)
            return work(folder, job, mapper, verbose, keeper)
    check_out(out, overwrite=overwrite, inputs=[Path(each) for each in (source, mask) if isinstance(each, str | Path)])
    check_needs(needs(job), out, mapper)
    request["overwrite"] = overwrite
    with RunFolder.create(out, request | {SEAL: digest(request)}) as folder:
        folder.log("begun")
        try:
            return work(folder, job, mapper, verbose, keeper)
        except PmldaError as error:
            # Something is wrong with the picture or the settings, and will be wrong again.
            if type(error) is PmldaError and not (folder.path / job.model.name).exists():
                folder.remove()
            raise


class TemporaryFolder:
    """A folder that vanishes with the last one who holds this object, without a word."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="pmlda-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


def resume_mosaic(folder: RunFolder, *, client: Any = None, n_jobs: int | None = None, verbose: int = 0) -> Mosaic:
    """Go on with the run that a folder belongs to, from what it tells alone."""
    check_request(folder)
    asked = folder.request
    settings, source = make_settings(asked["settings"]), asked["source"]
    require(
        source is not None,
        f"The run in {str(folder.path)!r} works on an array, which it cannot find again. "
        "Go on in Python: pmlda.segment(array, …, out=…, resume=True).",
    )
    job, request = prepare(source, asked.get("mask"), settings, settings.features)
    check_same(folder, request)
    return work(folder, job, Threads(n_jobs) if client is None else Cluster(client), verbose)


def prepare(source: Any, mask: Any, settings: Settings, features: Any) -> tuple[Job, dict[str, Any]]:
    """What is to be done, with nothing left to choose; and the request that a run's folder keeps of it."""
    picture = open_windowed(source, mask=mask)
    if isinstance(features, str) and features == "auto":
        features = auto_features(picture.shape[2])
    computer = find_features(features)
    plan = make_plan((picture.shape[0], picture.shape[1]), settings)
    chosen = settings.model_copy(update={"documents": plan.documents.spec, "features": computer.spec})
    request = {
        "kind": KIND,
        "source": str(Path(source).resolve()) if isinstance(source, str | Path) else None,
        "mask": str(Path(mask).resolve()) if isinstance(mask, str | Path) else None,
        "settings": chosen.model_dump(),
        "fingerprint": picture.fingerprint,
    }
    return Job(picture, Path(), plan, chosen, computer), request


def check_request(folder: RunFolder) -> None:
    """Refuse a request that is not what was written: it decides on everything."""
    asked = dict(folder.request)
    if asked.pop(SEAL, None) != digest(asked):
        raise RunError(f"The request.json of {str(folder.path)!r} is damaged. Remove the folder and start again.")


def check_same(folder: RunFolder, request: dict[str, Any]) -> None:
    """Refuse to go on with something else."""
    changed = [name for name in ("settings", "fingerprint") if folder.request.get(name) != request[name]]
    if changed:
        what = "the picture or its mask has changed" if changed == ["fingerprint"] else "settings are not the same"
        raise RunError(
            f"The run in {str(folder.path)!r} cannot go on: {what} since it was begun. "
            "Give the same again, or remove the folder and start again."
        )


def work(folder: RunFolder, job: Job, mapper: Mapper, verbose: int, keeper: Any = None) -> Mosaic:
    """All stages, from wherever the folder is; then the maps get their name."""
    job = job._replace(folder=folder.path)
    if (job.folder / "begun").exists() and not job.maps.exists() and folder.out.exists():
        folder.remove()  # killed after the maps had got their name
        return load_mosaic(folder.out, keeper, functions_of(job))
    folder.log("workers", threads=mapper.threads(), dashboard=getattr(mapper, "address", None))
    with shown(verbose) as report:
        run = Run(job, mapper, report)
        start(run, folder)
        outcome = run.all_stages()
    folder.log("maps are complete")
    finish(job, folder, outcome, mapper)
    return load_mosaic(folder.out, keeper, functions_of(job))


def start(run: Run, folder: RunFolder) -> None:
    """An empty group for the maps, or a look at those that are there."""
    job = run.job
    if (job.folder / "begun").exists():
        mend_group(job)
        damaged = run.check_maps()
        folder.log("resumed", damaged_blocks=damaged)
        return
    create_group(job, job.maps)
    write_file(job.folder / "begun", b"")


def create_group(job: Job, path: Path) -> None:
    """A group for the maps, without any of them yet."""
    shutil.rmtree(path, ignore_errors=True)
    shape = (*job.plan.shape, job.settings.topics)
    zarrs.create_maps(path, shape, job.plan.side, topic_names(job.settings), georeference=job.source.georeference)


def mend_group(job: Job) -> None:
    """What a group holds beside its maps is put back where it was damaged; blocks are checked one by one."""
    for half in [*job.maps.rglob("*.partial"), *job.maps.rglob(".*.part")]:  # zarr's names, and ours
        half.unlink()
    fresh = job.folder / "fresh.zarr"
    create_group(job, fresh)
    for file in (path for path in fresh.rglob("*") if path.is_file()):
        there, right = job.maps / file.relative_to(fresh), file.read_bytes()
        if not there.is_file() or there.read_bytes() != right:
            there.parent.mkdir(parents=True, exist_ok=True)
            write_file(there, right)
    shutil.rmtree(fresh)


def topic_names(settings: Settings) -> list[str]:
    return [f"topic {k + 1}" for k in range(settings.topics)]


def finish(job: Job, folder: RunFolder, outcome: Outcome, mapper: Mapper) -> None:
    """What belongs to the maps, then their name."""
    chain = load_chain(job.result, functions_of(job))
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
    if folder.request.get("overwrite"):
        _remove(out)
    if is_tiff(out):
        # Within the run's folder, so that a kill leaves nothing elsewhere; the maps get their name last.
        made = job.folder / "made"
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir()
        tiff = made / out.name
        write_tiled(
            tiff,
            (*job.plan.shape, job.settings.topics),
            topic_names(job.settings),
            lambda rows: zarrs.read_block(job.maps, "memberships", rows, slice(0, job.plan.shape[1])),
            georeference=job.source.georeference,
        )
        accompany(job, chain, record, lambda name: beside(tiff, name))
        for file in sorted(made.iterdir(), key=lambda file: file == tiff):
            file.replace(out.with_name(file.name))
    else:
        accompany(job, chain, record, lambda name: job.maps / name)
        job.maps.rename(out)
    folder.remove()


def accompany(job: Job, chain: Chain, record: dict[str, Any], place: Callable[[str], Path]) -> None:
    """Model, settings, record, and a small picture of the maps."""
    shutil.copyfile(job.result, place("model.pmlda"))
    write_file(place("settings.toml"), write_settings(job.settings).encode())
    write_file(place("figure.png"), draw(job, chain))
    write_file(place("run.json"), (json.dumps(record, indent=1) + "\n").encode())


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
def check_out(out: Path, *, overwrite: bool, inputs: list[Path]) -> None:
    """Refuse early what could not be written."""
    right = out.suffix.lower() in (".zarr", ".tif", ".tiff")
    if not right:
        raise OutputError(f"{str(out)!r}: maps of a picture in blocks are written to a name ending in .zarr or .tif.")
    if is_tiff(out):
        if out.exists() and not overwrite:
            raise OutputError(f"{str(out)!r} exists already. Give another name, or say --overwrite.")
        if out.is_dir() or out.resolve() in [path.resolve() for path in inputs]:
            raise OutputError(f"{str(out)!r} is a folder, or the picture itself. Give another name to write.")
        check_folder(out.parent / f".{out.name}-new")
        return
    check_folder(out, overwrite=overwrite, inputs=inputs)


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
