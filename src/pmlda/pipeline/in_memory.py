"""Runs in memory: every picture is one tile, and maps are arrays."""

from typing import Any

import numpy as np

from pmlda.features import Features
from pmlda.images.windowed import InMemory
from pmlda.parallel.executor import SerialExecutor
from pmlda.parallel.progress import Clock, silent
from pmlda.pipeline.learning import Learning
from pmlda.pipeline.maps import MemoryMaps
from pmlda.pipeline.request import Asked
from pmlda.pipeline.run import Run
from pmlda.pipeline.steps import Job, document_posterior, recipe_of, used_image
from pmlda.pipeline.tiles import plan_whole
from pmlda.recipe import Recipe
from pmlda.segmentation import Segmentation
from pmlda.settings import Settings
from pmlda.storage.store import MemoryStore
from pmlda.types import Image


def segment_images(asked: Asked, images: list[Image], checkpoint: Any = None) -> Segmentation:
    """Learn topics from pictures, and make their maps."""
    features = asked.find_features(images[0].pixels.shape[2])
    settings = asked.settings
    if not isinstance(asked.features, str):
        settings = settings.model_copy(update={"features": features.spec})
    job = make_job(images, asked.documents, settings, features, asked.n_jobs)
    how = Learning(asked.n_jobs, asked.verbose, checkpoint)
    return run(job, asked.clock, how, several=asked.several)


def apply_recipe(recipe: Recipe, images: list[Image], clock: Clock, *, several: bool) -> Segmentation:
    """Maps of other pictures, topics as learnt: the proportions and scales of their documents are new."""
    job = make_job(images, recipe.settings.documents, recipe.settings, recipe.features, None)
    return run(job, clock, Learning(), recipe, several=several)


def make_job(images: list[Image], documents: Any, settings: Settings, features: Features, n_jobs: int | None) -> Job:
    """Everything in memory."""
    sources = tuple(InMemory(image) for image in images)
    return Job(sources, plan_whole(documents, images), settings, features, MemoryStore(), MemoryMaps(), n_jobs)


def run(job: Job, clock: Clock, how: Learning, recipe: Recipe | None = None, *, several: bool) -> Segmentation:
    """All stages, and what they found."""
    outcome = Run(job, SerialExecutor(job.n_jobs), silent, clock).all_stages(how, recipe)
    maps, tiles = job.maps, job.plan.tiles
    assert isinstance(maps, MemoryMaps)
    recipe = recipe_of(job)
    found = [document_posterior(job, tile, recipe.order) for tile in tiles]
    return Segmentation(
        [used_image(job, tile) for tile in tiles],
        recipe,
        [maps.memberships[tile.number] for tile in tiles],
        [maps.uncertainty[tile.number] for tile in tiles],
        [maps.documents[tile.number] for tile in tiles],
        np.concatenate([proportions for proportions, _ in found]),
        np.concatenate([scales for _, scales in found]),
        several,
        clock.seconds,
        outcome.interrupted,
    )
