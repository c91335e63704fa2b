"""Runs in memory: every picture is one tile, and maps are arrays, which can be saved to a result folder.

A long fit that writes to a folder keeps checkpoints in OUT.run beside it until the result is complete.
"""

import os
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pmlda.engines.registry import find_engine
from pmlda.errors import OutputError
from pmlda.features.stack import Features
from pmlda.images.windowed import InMemory
from pmlda.labels import Canvas, PixelLabels
from pmlda.output.folder import write_result
from pmlda.output.load import read_record
from pmlda.output.places import check_folder, check_name, check_replaced, identify
from pmlda.parallel.executor import SerialExecutor
from pmlda.parallel.interrupt import deferred_interrupt
from pmlda.parallel.progress import Clock, silent
from pmlda.pipeline.family import in_small_windows
from pmlda.pipeline.job import Job, document_posterior, recipe_of, used_image
from pmlda.pipeline.learning import Learning, make_model, note_on_words
from pmlda.pipeline.maps import MemoryMaps
from pmlda.pipeline.reading import judge_sizes, read_all
from pmlda.pipeline.request import Asked, Request, saying_what_is_left
from pmlda.pipeline.run import Run
from pmlda.pipeline.tallies import rows_of_shares
from pmlda.pipeline.tiles import plan_whole
from pmlda.pipeline.told import named, names_in, notes_on, read_told
from pmlda.recipe import Recipe
from pmlda.segmentation import Segmentation
from pmlda.settings import Settings
from pmlda.storage.checkpoints import Checkpoint, has_checkpoints
from pmlda.storage.digest import digest
from pmlda.storage.run_folder import RunFolder
from pmlda.storage.store import MemoryStore
from pmlda.types import Image
from pmlda.validate import require


def read_pictures(
    asked: Asked, find: Callable[[int], Features] | None = None, inherited: Collection[str] = ()
) -> tuple[Asked, list[Image]]:
    """Read every picture, unless their headers show that there is not enough memory; what was asked of the readable.

    find : number of bands → features, if they are known already
    inherited : as in read_all
    """
    judge_sizes(asked.images, asked.settings, find or asked.find_features, asked.found, inherited)
    with asked.clock("reading"):
        images, kept, left_out = read_all(asked.images, asked.masks, asked.settings, asked.found, inherited)
    return asked.keep(kept, left_out), images


def segment_images(asked: Asked, images: list[Image], checkpoint: Any = None) -> Segmentation:
    """Learn topics from pictures and compute their maps."""
    features = asked.find_features(images[0].pixels.shape[2])
    settings = asked.settings
    if not isinstance(asked.features, str):
        settings = settings.model_copy(update={"features": features.spec})
    first = images[0]
    known = asked.known_spectra(first.bands, first.pixels.shape[2], first.name)
    asked.check_library(first.bands, first.pixels.shape[2])
    labels = read_labels_of(asked, images)
    settings = named(named(settings, asked.known_names), names_in(labels))
    job = make_job(images, asked.documents, settings, features, asked.n_jobs)._replace(labels=labels)
    how = Learning(asked.n_jobs, asked.verbose, checkpoint, known=known)
    found = run(job, asked.clock, how, several=asked.several)
    found = replace(found, left_out=asked.left_out, choice=asked.choice)
    return found if asked.library is None else replace(found, matches=found.match(asked.library))


def read_labels_of(asked: Asked, images: list[Image]) -> tuple[PixelLabels | None, ...]:
    """The labels of pictures; empty if there are none."""
    canvases = [Canvas((image.valid.shape[0], image.valid.shape[1]), image.georeference) for image in images]
    return read_told(asked.labels, canvases, named(asked.settings, asked.known_names))


def apply_recipe(recipe: Recipe, asked: Asked, *, inherited: Collection[str]) -> Segmentation:
    """Compute maps of other pictures with known topics; only the proportions and scales of documents are inferred.

    inherited : as in read_all
    """
    asked, images = read_pictures(asked, lambda n_bands: recipe.features, inherited)
    recipe = recipe._replace(settings=asked.settings)
    job = make_job(images, recipe.settings.documents, recipe.settings, recipe.features, None)
    return replace(run(job, asked.clock, Learning(), recipe, several=asked.several), left_out=asked.left_out)


def make_job(images: list[Image], documents: Any, settings: Settings, features: Features, n_jobs: int | None) -> Job:
    """A job with everything in memory."""
    sources = tuple(InMemory(image) for image in images)
    plan = plan_whole(documents, images, settings.n_topics, small=in_small_windows(settings, features))
    return Job(sources, plan, settings, features, MemoryStore(), MemoryMaps(), n_jobs)


def run(job: Job, clock: Clock, how: Learning, recipe: Recipe | None = None, *, several: bool) -> Segmentation:
    """Run all stages and return the result."""
    outcome = Run(job, SerialExecutor(job.n_jobs), silent, clock).all_stages(how, recipe)
    maps, tiles, applied = job.maps, job.plan.tiles, recipe is not None
    assert isinstance(maps, MemoryMaps)
    notes = () if applied else note_on_words(recipe_of(job), outcome.n_valid)
    recipe = recipe_of(job)
    found = [document_posterior(job, tile, recipe) for tile in tiles]
    images = [used_image(job, tile) for tile in tiles]
    labels, agreement = job.labels or (None,) * len(images), outcome.agreement or ((),) * len(images)
    said = [notes_on(*each) for each in zip(labels, agreement, strict=True)]
    return Segmentation(
        [image._replace(notes=image.notes + notes + more) for image, more in zip(images, said, strict=True)],
        recipe,
        [maps.memberships[tile.number] for tile in tiles],
        [maps.uncertainty[tile.number] for tile in tiles],
        [maps.documents[tile.number] for tile in tiles],
        np.concatenate([proportions for proportions, _ in found]),
        np.concatenate([scales for _, scales in found]),
        several,
        clock.seconds,
        outcome.interrupted,
        pixel_labels=job.labels,
        agreements=outcome.agreement,
        residual_maps=tuple(maps.residual[tile.number] for tile in tiles if len(maps.residual) == len(tiles)),
        novelty_maps=tuple(maps.novelty[tile.number] for tile in tiles if len(maps.novelty) == len(tiles)),
        fit_checks=outcome.checks,
        applied=applied,
        share_rows=tuple(
            rows_of_shares(sums, recipe, image.georeference) for sums, image in zip(outcome.sums, images, strict=True)
        ),
    )


class FolderRun:
    """A run in memory that writes maps, figures, report and model to a folder, with checkpoints of a long fit."""

    def __init__(self, asked: Asked, out: Path, checkpoint: Any) -> None:
        require(
            asked.client is None,
            f"A cluster writes maps tile by tile, and {str(out)!r} would be a folder of figures: give out a name "
            "ending in .zarr or .tif.",
        )
        self.asked, self.out, self.settings = asked, out, asked.settings
        if not isinstance(asked.features, str):
            self.settings = self.settings.model_copy(update={"features": asked.find_features(0).spec})
        usual = find_engine(asked.settings.engine).checkpoint_seconds
        if usual and not make_model(asked.settings).takes_checkpoint:  # imported only where it matters
            usual = 0.0
        self.seconds = usual if checkpoint is None else float(checkpoint)
        self._images: list[Image] | None = None

    @property
    def keeps_folder(self) -> bool:
        """Whether the run writes checkpoints from which it can be resumed."""
        return self.seconds > 0

    def images(self) -> list[Image]:
        """The pictures, which are read once."""
        if self._images is None:
            self.asked, self._images = read_pictures(self.asked)
            if any(image.georeference is not None for image in self._images):
                check_name(self.out)
        return self._images

    def fingerprints(self) -> list[str]:
        """Digests of the pictures with their masks and labels."""
        images = self.images()
        labels = read_labels_of(self.asked, images) or [None] * len(images)
        return [
            digest([image.pixels, image.valid, *([] if each is None else [each.fingerprint])])
            for image, each in zip(images, labels, strict=True)
        ]

    def check(self, *, overwrite: bool) -> str | None:
        """Refuse an output that could not be written, before anything is computed."""
        return check_folder(self.out, overwrite=overwrite, inputs=self.asked.inputs())

    def without_folder(self, replaces: str | None) -> Segmentation:
        """Run without checkpoints."""
        with saying_what_is_left(self.out, lambda error: False):
            images = self.images()
            return self._save(segment_images(self.asked, images), replaces, run=None)

    def is_worth_resuming(self, folder: RunFolder, error: BaseException) -> bool:
        """Whether there is something to resume from after an error."""
        return has_checkpoints(folder.path / "checkpoints")

    def is_finished(self, folder: RunFolder, request: Request) -> bool:
        """Whether the result of this run exists and is complete."""
        record = self._own_result(request)
        return record is not None and not record.get("interrupted")

    def _own_result(self, request: Request) -> dict[str, Any] | None:
        """The record of a result that this run has already written, of a complete or an interrupted fit; or None."""
        try:
            record = read_record(self.out)
        except OutputError:
            return None
        return record if record.get("run") == request.id else None

    def go(self, folder: RunFolder, request: Request, keeper: Any = None) -> Segmentation:
        """Resume the fit from its last checkpoint and write the maps; only then is the folder of the run removed."""
        if self.is_finished(folder, request):  # killed between writing the maps and removing the folder
            with deferred_interrupt():
                folder.remove()
                return Segmentation.load(self.out)
        # An interrupted fit has written a result, too, which is replaced by that of the resumed one.
        replaces = request.replaces if self._own_result(request) is None else identify(self.out)
        if os.path.lexists(self.out):
            check_replaced(self.out, replaces, self.out)
        checkpoint = Checkpoint(folder.path / "checkpoints", every_seconds=self.seconds)
        with saying_what_is_left(folder.out, partial(self.is_worth_resuming, folder)):
            images = self.images()
            found = segment_images(self.asked, images, checkpoint)
            found = self._save(found, replaces, run=request.id)
        if not found.interrupted:
            with deferred_interrupt():  # the result has its name: Ctrl-C comes too late
                folder.remove()
        return found

    def _save(self, found: Segmentation, replaces: str | None, *, run: str | None) -> Segmentation:
        with self.asked.clock("writing"):
            record = write_result(found, self.out, replaces, run=run)
        return replace(found, record=record)
