"""Runs that write their result: what they need to be resumed is in OUT.run beside it, until the result has its name.

A result folder is made in memory, with checkpoints of its fit. Maps in a .zarr or .tif are made tile by tile.
"""

import shutil
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Real
from pathlib import Path
from typing import Any

from pmlda.engines.registry import find_engine
from pmlda.errors import InputError, OutputError, PmldaError, RunError
from pmlda.images.windowed import open_windowed
from pmlda.output import stored
from pmlda.output.folder import check_folder, read_record, save
from pmlda.output.stored import is_tiled
from pmlda.parallel.dask_cluster import Cluster
from pmlda.parallel.executor import Executor, ThreadExecutor
from pmlda.parallel.progress import shown
from pmlda.pipeline.in_memory import segment_images
from pmlda.pipeline.learning import Learning, make_model
from pmlda.pipeline.maps import ZarrMaps, gather_overview
from pmlda.pipeline.needs import check_needs
from pmlda.pipeline.request import Asked, Request, asked_again, check_same, make_request, read_request
from pmlda.pipeline.run import Clock, Outcome, Run
from pmlda.pipeline.shards import POSTERIOR
from pmlda.pipeline.steps import RECIPE, Job, document_rows
from pmlda.pipeline.tiles import plan_tiles, spans_tiles
from pmlda.recipe import load_recipe
from pmlda.segmentation import Segmentation, topic_names
from pmlda.storage.archive import digest
from pmlda.storage.checkpoints import Checkpoint, has_checkpoints
from pmlda.storage.run_folder import RunFolder, write_whole
from pmlda.storage.store import FolderStore
from pmlda.types import Image
from pmlda.validate import require


def segment_to(asked: Asked, out: Any, checkpoint: Any, *, overwrite: bool, resume: bool) -> Segmentation:
    """Maps that are written to out; None is a temporary folder that lasts as long as the result."""
    keeper = None
    if out is None:
        keeper = TemporaryFolder()
        out = keeper.path / "maps.zarr"
    out = Path(out)
    require(
        checkpoint is None or not is_tiled(out),
        f"A run to {str(out)!r}, tile by tile, can always be resumed: leave checkpoint out.",
    )
    require(
        checkpoint is None or isinstance(checkpoint, Real),
        f"checkpoint={checkpoint!r}: a run to a folder keeps its checkpoints beside it. Give the seconds between them.",
    )
    run = TiledRun(asked, out) if is_tiled(out) else FolderRun(asked, out, checkpoint)
    if resume:
        with RunFolder.open(out) as folder:
            request = read_request(folder)
            check_same(folder, request, run.settings, run.fingerprints())
            return run.go(folder, request, keeper)
    run.check(overwrite=overwrite)
    request = make_request(
        asked._replace(settings=run.settings), run.fingerprints(), overwrite=overwrite, seconds=run.seconds
    )
    if not run.keeps_folder:
        return run.without_folder(overwrite=overwrite)
    with RunFolder.create(out, request.sealed()) as folder:
        folder.log("begun")
        try:
            return run.go(folder, request, keeper)
        except InputError:
            # Something is wrong with the picture or the settings, and will be wrong again.
            if not run.has_begun(folder):
                folder.remove()
            raise


def resume_run(path: Any, *, client: Any, n_jobs: int | None, verbose: int, clock: Clock) -> Segmentation:
    """Continue the run that a folder belongs to, from what it tells alone."""
    with RunFolder.open(path) as folder:
        request = read_request(folder)
        asked = asked_again(folder, request)._replace(client=client, n_jobs=n_jobs, verbose=verbose, clock=clock)
        if is_tiled(folder.out):
            run: TiledRun | FolderRun = TiledRun(asked, folder.out)
        else:
            run = FolderRun(asked, folder.out, request.checkpoint_seconds)
        if not run.is_finished(request):
            check_same(folder, request, run.settings, run.fingerprints())
        return run.go(folder, request)


class TemporaryFolder:
    """A folder that vanishes with the last one who holds this object, without a word."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="pmlda-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


# ── a result folder ────────────────────────────────────────────────────────────────────────────────────────────────
class FolderRun:
    """Maps, figures, report and model in a folder; made in memory, with checkpoints of a long fit."""

    def __init__(self, asked: Asked, out: Path, checkpoint: Any) -> None:
        require(
            asked.client is None,
            f"A cluster writes maps tile by tile, and {str(out)!r} would be a folder of figures: give out a name "
            "ending in .zarr or .tif.",
        )
        self.asked, self.out, self.settings = asked, out, asked.settings
        model = make_model(asked.settings)
        usual = find_engine(asked.settings.engine).checkpoint_seconds if model.takes_checkpoint else 0.0
        self.seconds = usual if checkpoint is None else float(checkpoint)
        self._images: list[Image] | None = None

    @property
    def keeps_folder(self) -> bool:
        """Whether the run is long enough to be resumed."""
        return self.seconds > 0

    def images(self) -> list[Image]:
        """Read once."""
        if self._images is None:
            self._images = self.asked.read()
        return self._images

    def fingerprints(self) -> list[str]:
        """Of the pictures with their masks."""
        return [digest([image.pixels, image.valid]) for image in self.images()] if self.keeps_folder else []

    def check(self, *, overwrite: bool) -> None:
        """Refuse early what could not be written."""
        check_folder(self.out, overwrite=overwrite, inputs=self.asked.inputs())

    def without_folder(self, *, overwrite: bool) -> Segmentation:
        """A run that is too short to be resumed."""
        return self._save(segment_images(self.asked, self.images()), overwrite=overwrite, run=None)

    def has_begun(self, folder: RunFolder) -> bool:
        """Whether there is something to resume from."""
        return has_checkpoints(folder.path / "checkpoints")

    def is_finished(self, request: Request) -> bool:
        """Whether the result of this run is there and complete."""
        record = self._own_result(request)
        return record is not None and not record.get("interrupted")

    def _own_result(self, request: Request) -> dict[str, Any] | None:
        """The record of what this run has written already: all of it, or what an interrupted fit had found."""
        try:
            record = read_record(self.out)
        except OutputError:
            return None
        return record if record.get("run") == request.id else None

    def go(self, folder: RunFolder, request: Request, keeper: Any = None) -> Segmentation:
        """The fit from its last checkpoint, and the maps. Only then the folder of the run is removed."""
        if self.is_finished(request):  # killed between writing the maps and removing the folder
            folder.remove()
            return Segmentation.load(self.out)
        overwrite = request.overwrite or self._own_result(request) is not None
        self.check(overwrite=overwrite)
        checkpoint = Checkpoint(folder.path / "checkpoints", every_seconds=self.seconds)
        with keeping_what_was_done(folder, lambda: self.has_begun(folder)):
            found = segment_images(self.asked, self.images(), checkpoint)
            found = self._save(found, overwrite=overwrite, run=request.id)
        if not found.interrupted:
            folder.remove()
        return found

    def _save(self, found: Segmentation, *, overwrite: bool, run: str | None) -> Segmentation:
        with self.asked.clock("writing"):
            save(found, self.out, overwrite=overwrite, run=run)
        return found


# ── maps tile by tile ──────────────────────────────────────────────────────────────────────────────────────────────
class TiledRun:
    """Maps of one picture in a .zarr or .tif, tile by tile."""

    keeps_folder, seconds = True, 0.0

    def __init__(self, asked: Asked, out: Path) -> None:
        self.asked, self.out = asked, out
        # Bars show the stages, where there are any.
        self.clock = Clock() if asked.verbose else asked.clock
        self._check_asked()
        self._source = open_windowed(asked.images[0], mask=asked.masks[0])
        self._features = asked.find_features(self._source.shape[2])
        self._plan = plan_tiles((self._source.shape[0], self._source.shape[1]), asked.settings)
        self._shards = not make_model(asked.settings).samples_words
        require(
            not (self._shards and spans_tiles(self._plan)),
            f"documents='whole' with engine={asked.settings.engine!r} cannot be worked on tile by tile: a document "
            "must lie in one tile. Use 'windows:64' or 'slic:N', or engine='variational'.",
        )
        self.settings = asked.settings
        if not isinstance(asked.features, str):
            self.settings = self.settings.model_copy(update={"features": self._features.spec})
        self.executor: Executor = ThreadExecutor(asked.n_jobs) if asked.client is None else Cluster(asked.client)

    def _check_asked(self) -> None:
        """Refuse what cannot be worked on tile by tile."""
        asked = self.asked
        require(
            not asked.several,
            f"{str(self.out)!r} holds the maps of one picture, and {len(asked.images)} were given. "
            "Make a run for each, or write to a folder.",
        )
        require(
            isinstance(asked.documents, str),
            "Labels of your own cannot be cut tile by tile. Give documents='windows:64' or 'slic:N', or write to a "
            "folder.",
        )
        require(
            asked.settings.model == "pmlda",
            f"model={asked.settings.model!r} cannot work tile by tile. Use model='pmlda'; or write to a folder, if the "
            "picture fits in memory.",
        )

    def fingerprints(self) -> list[str]:
        """Of the picture with its mask."""
        return [self._source.fingerprint]

    def check(self, *, overwrite: bool) -> None:
        """Refuse early what could not be written, or would not fit."""
        stored.check_out(self.out, overwrite=overwrite, inputs=self.asked.inputs())
        check_needs(self.job(Path()), self.out, self.executor, shards=self._shards)

    def job(self, folder: Path) -> Job:
        """What every step knows."""
        names = topic_names(self.settings.topics)
        maps = ZarrMaps(folder / "maps.zarr", self._plan, names, self._source.georeference)
        threads = self.executor.threads_per_call
        return Job((self._source,), self._plan, self.settings, self._features, FolderStore(folder), maps, threads)

    def without_folder(self, *, overwrite: bool) -> Segmentation:
        raise AssertionError("A run tile by tile can always be resumed.")

    def has_begun(self, folder: RunFolder) -> bool:
        """Whether there is something to resume from."""
        return (folder.path / RECIPE).exists()

    def is_finished(self, request: Request) -> bool:
        """Whether the result of this run is there. A TIFF gets its name last, so its record alone does not tell."""
        try:
            return self.out.exists() and stored.read_record(self.out).get("run") == request.id
        except OutputError:
            return False

    def go(self, folder: RunFolder, request: Request, keeper: Any = None) -> Segmentation:
        """All stages, from wherever the folder is; then the maps get their name."""
        job, functions = self.job(folder.path), dict(self._features.functions)
        if self.is_finished(request):  # killed after the maps had got their name
            folder.remove()
            return stored.load(self.out, keeper, functions)
        folder.log("workers", threads=self.executor.threads(), dashboard=self.executor.address)
        with keeping_what_was_done(folder, lambda: (folder.path / "begun").exists()):
            with shown(self.asked.verbose) as report:
                run = Run(job, self.executor, report, self.clock)
                self._start(run, folder)
                threads = self.executor.threads()
                how = Learning(threads, start_only=self._shards)
                outcome = run.all_stages(how)
            folder.log("maps are complete")
            self._finish(job, folder, request, outcome)
        return stored.load(self.out, keeper, functions)

    def _start(self, run: Run, folder: RunFolder) -> None:
        """An empty group for the maps, or a look at those that are there."""
        maps = run.job.maps
        assert isinstance(maps, ZarrMaps)
        if (folder.path / "begun").exists():
            maps.mend()
            folder.log("resumed", damaged_tiles=run.check_maps())
            return
        maps.create()
        write_whole(folder.path / "begun", b"")

    def _finish(self, job: Job, folder: RunFolder, request: Request, outcome: Outcome) -> None:
        """What belongs to the maps, then their name."""
        maps, source = job.maps, self._source
        assert isinstance(maps, ZarrMaps)
        recipe = load_recipe(folder.path / (POSTERIOR if self._shards else RECIPE), dict(self._features.functions))
        overview = gather_overview(maps, job.store, source.shape[2], source.dtype)
        image = Image(overview.pixels, overview.valid, source.bands, source.name, None, source.notes)
        result = stored.Result(
            group=maps.path,
            shape=maps.shape,
            recipe=recipe,
            image=image,
            overview=overview._asdict(),
            documents=document_rows(job, recipe.order),
            georeference=source.georeference,
            timings=self.clock.seconds,
            record={
                "run": request.id,
                "tiles": len(job.plan.tiles),
                "tile": job.plan.side,
                "documents": outcome.n_documents,
                "pixels_with_data": outcome.n_valid,
                "threads": self.executor.threads(),
                "shape": list(source.shape),
                "log": folder.read_log(),
            },
        )
        stored.write(result, self.out, folder.path, overwrite=request.overwrite)
        folder.remove()


@contextmanager
def keeping_what_was_done(folder: RunFolder, has_begun: Any) -> Iterator[None]:
    """Errors and Ctrl-C with how to resume a run that stays."""
    try:
        yield
    except InputError:
        raise
    except (KeyboardInterrupt, PmldaError, OSError, MemoryError) as error:
        if not has_begun():
            raise
        advice = f"What was done is kept; resume with: pmlda resume {str(folder.out)!r}"
        if isinstance(error, KeyboardInterrupt):
            raise KeyboardInterrupt(f"Interrupted. {advice}") from None
        text = (str(error) or type(error).__name__).removesuffix(".")
        kind = type(error) if isinstance(error, PmldaError) else RunError
        raise kind(f"{text}. {advice}") from None
