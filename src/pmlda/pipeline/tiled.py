"""Runs in tiles: maps of one picture in a .zarr or .tif, computed on this machine or on a cluster.

What is needed to resume a run is in OUT.run beside its result until the result is complete.
"""

from functools import partial
from pathlib import Path
from typing import Any

from pmlda.engines.base import Sampler
from pmlda.engines.registry import find_engine
from pmlda.errors import ChangedPictureError, InputError, OutputError
from pmlda.images.ignored import notes_on_ignored
from pmlda.images.stored import require_unchanged
from pmlda.images.windowed import Windowed, open_windowed
from pmlda.labels import Canvas
from pmlda.matching import match_topics_to_library
from pmlda.output import stored
from pmlda.output.load import load_tiled, read_record
from pmlda.output.places import check_out, is_tiff
from pmlda.parallel.dask_cluster import Cluster
from pmlda.parallel.executor import Executor, ThreadExecutor
from pmlda.parallel.interrupt import deferred_interrupt
from pmlda.parallel.progress import Clock, shown
from pmlda.pipeline.family import in_small_windows
from pmlda.pipeline.job import RECIPE, Job, document_rows, recipe_of
from pmlda.pipeline.learning import Learning, note_on_words, thins_words
from pmlda.pipeline.maps import ZarrMaps, gather_overview
from pmlda.pipeline.needs import check_needs
from pmlda.pipeline.request import Asked, Request, is_path, saying_what_is_left
from pmlda.pipeline.run import Outcome, Run
from pmlda.pipeline.shards import POSTERIOR
from pmlda.pipeline.tallies import rows_of_shares
from pmlda.pipeline.tiles import plan_tiles, spans_tiles
from pmlda.pipeline.told import named, names_in, notes_on, read_told
from pmlda.segmentation import Segmentation
from pmlda.storage.atomic import write_file
from pmlda.storage.checkpoints import Checkpoint
from pmlda.storage.run_folder import RunFolder
from pmlda.storage.store import FolderStore
from pmlda.types import Image
from pmlda.validate import require

BEGUN = "begun"
"""An empty file in the folder of a run whose group for the maps has been created."""


class TiledRun:
    """A run that writes the maps of one picture to a .zarr or .tif, tile by tile."""

    seconds = 0.0  # a run tile by tile can always be resumed

    def __init__(self, asked: Asked, out: Path) -> None:
        self.asked, self.out = asked, out
        # Progress bars, if shown, already name the stages.
        self.clock = Clock() if asked.verbose else asked.clock
        self._check_asked()
        # Workers may have been started in another folder.
        self._names = [Path(each).absolute() if is_path(each) else each for each in (asked.images[0], asked.masks[0])]
        self._source = self._open()
        self._features = asked.find_features(self._source.shape[2])
        small = in_small_windows(asked.settings, self._features)
        self._plan = plan_tiles((self._source.shape[0], self._source.shape[1]), asked.settings, small=small)
        engine = find_engine(asked.settings.engine)
        # One that thins words visits so few that it needs no shards: it learns like any other engine.
        self._thins = thins_words(asked.settings)
        self._sampler = engine if isinstance(engine, Sampler) and not self._thins else None
        require(
            self._sampler is None or not spans_tiles(self._plan),
            f"documents='whole' with engine={asked.settings.engine!r} cannot be worked on tile by tile: a document "
            "must lie in one tile. Use 'windows:64' or 'slic:N', or engine='variational'.",
        )
        self._known = asked.known_spectra(self._source.bands, self._source.shape[2], self._source.name)
        asked.check_library(self._source.bands, self._source.shape[2])
        self.settings = asked.settings
        if not isinstance(asked.features, str):
            self.settings = self.settings.model_copy(update={"features": self._features.spec})
        self.settings = named(self.settings, asked.known_names)
        canvas = Canvas(self._source.shape[:2], self._source.georeference)
        self._labels = read_told(asked.labels, [canvas], self.settings)
        self.settings = named(self.settings, names_in(self._labels))
        self.executor: Executor = ThreadExecutor(asked.n_jobs) if asked.client is None else Cluster(asked.client)

    def _open(self) -> Windowed:
        picture, mask = self._names
        return open_windowed(picture, mask=mask, **self._reading(), **self.asked.settings.ignored_values)

    def _check_asked(self) -> None:
        """Refuse what cannot be processed tile by tile."""
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

    def _reading(self) -> dict[str, Any]:
        """What to read of the picture; an image was read already."""
        reading = self.asked.settings.reading
        asked = ", ".join(name for name, value in reading.items() if value is not None)
        require(
            not asked or not isinstance(self.asked.images[0], Image),
            f"The picture was read already, so {asked} cannot be chosen any more: tell pmlda.read_image.",
        )
        return reading

    def fingerprints(self) -> list[str]:
        """Digest of the picture with its mask and labels."""
        return [
            "; labels ".join(
                [self._source.fingerprint, *(each.fingerprint for each in self._labels if each is not None)]
            )
        ]

    def check(self, *, overwrite: bool) -> str | None:
        """Refuse an output that could not be written or would not fit, before anything is computed."""
        replaces = check_out(self.out, overwrite=overwrite, inputs=self.asked.inputs())
        check_needs(self.job(Path()), self.out, self.executor, shards=self._sampler is not None, chains=self._thins)
        return replaces

    def job(self, folder: Path, key: bytes = b"") -> Job:
        """The job that all steps share. key : signs what the folder keeps"""
        names, place = self.settings.topic_names, self._source.georeference
        maps = ZarrMaps(folder / "maps.zarr", self._plan, names, place, self._source.pixel_size)
        threads = self.executor.threads_per_call
        store, known = FolderStore(folder, key), (self._plan, self.settings, self._features)
        return Job((self._source,), *known, store, maps, threads, self._sampler, self._labels)

    def is_worth_resuming(self, folder: RunFolder, error: BaseException) -> bool:
        """Whether there is something to resume from after an error.

        An error in the picture or the settings would occur again, unless topics have already been learnt.
        """
        return (folder.path / (RECIPE if isinstance(error, InputError) else BEGUN)).exists()

    def is_finished(self, folder: RunFolder, request: Request) -> bool:
        """Whether the result of this run has its name: that of a Zarr group carries the id of its run."""
        if is_tiff(self.out):
            return stored.is_named(self.out, folder.path)
        try:
            return read_record(self.out).get("run") == request.id
        except OutputError:
            return False

    def go(self, folder: RunFolder, request: Request, keeper: Any = None) -> Segmentation:
        """Run all stages, skipping what the folder already contains; then rename the maps."""
        functions = dict(self._features.functions)
        if not self.is_finished(folder, request):  # otherwise killed after the maps were renamed
            stored.check_place(self.out, folder.path, request.replaces)
            with saying_what_is_left(folder.out, partial(self.is_worth_resuming, folder)):
                try:
                    self._run(folder, request)
                except ChangedPictureError:  # what is kept is of two pictures
                    folder.remove()
                    raise
        with deferred_interrupt():  # the result has its name: Ctrl-C comes too late
            folder.remove()
            return load_tiled(self.out, keeper, functions)

    def _run(self, folder: RunFolder, request: Request) -> None:
        """All stages, until the result has its name."""
        if is_tiff(self.out) and stored.is_made(self.out, folder.path):  # killed while the files got their names
            stored.name_tiffs(self.out, folder.path, request.replaces)
            return
        folder.log("workers", threads=self.executor.threads(), dashboard=self.executor.address)
        job = self.job(folder.path, request.key)
        with shown(self.asked.verbose) as report:
            run = Run(job, self.executor, report, self.clock)
            self._start(run, folder)
            threads = self.executor.threads()
            checkpoint = Checkpoint(folder.path / "checkpoints") if self._thins else None
            how = Learning(threads, checkpoint=checkpoint, start_only=self._sampler is not None, known=self._known)
            outcome = run.all_stages(how)
        folder.log("maps are complete")
        self._finish(job, folder, request, outcome)

    def _start(self, run: Run, folder: RunFolder) -> None:
        """Create an empty group for the maps, or check the maps that exist."""
        maps = run.job.maps
        assert isinstance(maps, ZarrMaps)
        if (folder.path / BEGUN).exists():
            maps.mend()
            folder.log("resumed", damaged_tiles=run.check_maps())
            return
        maps.create()
        write_file(folder.path / BEGUN, b"")

    def _finish(self, job: Job, folder: RunFolder, request: Request, outcome: Outcome) -> None:
        """Write the files that accompany the maps, then rename the result."""
        maps, source = job.maps, self._source
        assert isinstance(maps, ZarrMaps)
        recipe = recipe_of(job, RECIPE if self._sampler is None else POSTERIOR)
        overview = gather_overview(maps, job.store, source.shape[2], source.dtype)
        labels = self._labels[0] if self._labels else None
        agreement = outcome.agreement[0] if outcome.agreement else ()
        n_pixels = source.shape[0] * source.shape[1]
        notes = source.notes + notes_on_ignored(outcome.ignored, source.ignoring, n_pixels, source.dtype)
        notes += note_on_words(recipe, outcome.n_valid) + notes_on(labels, agreement)
        image = Image(overview.pixels, overview.valid, source.bands, source.name, None, notes)
        result = stored.Result(
            group=maps.path,
            shape=maps.shape,
            recipe=recipe,
            image=image,
            overview=overview._asdict(),
            documents=document_rows(job, recipe),
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
                **({} if self.asked.choice is None else {"choice": self.asked.choice.to_table()}),
            },
            shares=rows_of_shares(outcome.sums[0], recipe, source.georeference),
            matches=() if self.asked.library is None else match_topics_to_library(recipe, self.asked.library),
            labels=labels,
            agreement=agreement,
            pixel_size=source.pixel_size,
            checks=outcome.checks,
        )
        self._require_same_picture()
        stored.write(result, self.out, folder.path, request.replaces)

    def _require_same_picture(self) -> None:
        """Refuse maps of a picture that is not what it was when the run was begun."""
        if all(each is None or is_path(each) for each in self._names):
            require_unchanged(self._names[0], self._source.fingerprint, lambda: self._open().fingerprint)
