"""What the steps of a run share: the job, the features of a tile, the recipe, the proportions of documents."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmlda.engines.base import Sampler
from pmlda.errors import ModelFileError
from pmlda.features.stack import Features
from pmlda.images.windowed import InMemory, Windowed
from pmlda.labels import PixelLabels
from pmlda.pipeline.maps import Maps
from pmlda.pipeline.shares import Found, to_shares
from pmlda.pipeline.tallies import tally
from pmlda.pipeline.tiles import Plan, Tile, inside, spans_tiles, widen
from pmlda.recipe import Recipe, load_recipe
from pmlda.settings import Settings
from pmlda.storage.store import Content, Store, need
from pmlda.types import FloatArray, Image, IntArray

Words = NDArray[np.float32]
RECIPE = "model.pmlda"


class Job(NamedTuple):
    """The input of every step, small enough to be sent to a worker with each tile.

    sources : the pictures
    plan : tiles and documents
    features : the features of pixels; fitted after the survey of all tiles
    store : where parts are stored
    maps : where maps are written
    n_jobs : threads that a step may use
    sampler : the engine that sweeps over tiles, if any
    labels : what users said of the pixels of each picture; empty if they said nothing
    """

    sources: tuple[Windowed | InMemory, ...]
    plan: Plan
    settings: Settings
    features: Features
    store: Store
    maps: Maps
    n_jobs: int | None = None
    sampler: Sampler | None = None
    labels: tuple[PixelLabels | None, ...] = ()

    @property
    def reach(self) -> int:
        """Margin around a tile that is read: twice the reach of the features, since pixels without data are filled."""
        return 2 * max(self.features.reach, self.settings.halo)


Step = Callable[..., Content]


def cached(stage: str) -> Callable[[Step], Step]:
    """Skip a step whose part exists in the store and is intact; return the "facts" of the part."""

    def wrap(step: Step) -> Step:
        def do(job: Job, tile: Tile, *details: Any) -> Content:
            found = job.store.read(stage, tile.number)
            if found is None:
                found = step(job, tile, *details)
                job.store.write(stage, tile.number, found)
            facts: Content = found["facts"]
            return facts

        do.__name__ = do.__qualname__ = step.__name__
        do.__module__, do.__doc__ = step.__module__, step.__doc__
        return do

    return wrap


# ── features ───────────────────────────────────────────────────────────────────────────────────────────────────────
def features_of(job: Job, tile: Tile) -> tuple[Image, Words]:
    """The tile, and the features of its valid pixels, computed with a margin around it."""
    return job.store.recall("features", tile.number, partial(_features_of, job, tile))


def _features_of(job: Job, tile: Tile) -> tuple[Image, Words]:
    if job.plan.is_whole(tile):
        image = used_image(job, tile)
        values = job.features.compute(image).values
        return image, values.reshape(-1, values.shape[2]) if image.valid.all() else values[image.valid]
    rows, columns = widen(tile, job.reach, job.plan.shapes[tile.picture])
    here = inside(tile, rows, columns)
    wide = job.sources[tile.picture].read(rows, columns)
    values = job.features.compute(wide).values[here]
    image = wide._replace(pixels=wide.pixels[here], valid=wide.valid[here])
    return image, values[image.valid]


def used_image(job: Job, tile: Tile) -> Image:
    """The tile, in which only pixels that belong to a document are valid: labels of the user may omit some."""
    image = job.sources[tile.picture].read(tile.rows, tile.columns)
    used = np.all([each >= 0 for each in need(job.store, "survey", tile.number)["labels"]], axis=0)
    return image._replace(valid=image.valid & used)


# ── results ────────────────────────────────────────────────────────────────────────────────────────────────────────
def keep_maps(
    job: Job,
    tile: Tile,
    first: int,
    image: Image,
    found: Found,
    residual: NDArray[np.float32] | None = None,
    novelty: NDArray[np.float32] | None = None,
) -> Content:
    """Rows → maps of the tile; return the part that describes them. residual, novelty : None where not known"""
    labels = np.asarray(need(job.store, "survey", tile.number)["labels"][0], np.int64)
    documents = np.where(labels >= 0, labels + first, -1) if first else labels
    job.store.forget("features", tile.number)
    kept = job.maps.write(tile, image, found.memberships, found.std, documents, residual, novelty)
    return kept | {"facts": {"n_valid": int(image.valid.sum()), "tally": tally(found, job.n_jobs)._asdict()}}


def document_posterior(job: Job, tile: Tile, recipe: Recipe) -> tuple[FloatArray, FloatArray]:
    """π (D, K), shares with topics in the order of the maps, and s (D,) of the documents of a tile."""
    part = job.store.read("posterior", tile.number) or need(job.store, "documents", tile.number)
    return to_shares(part["proportions"][:, recipe.order], recipe.share_weights), part["scales"]


def document_rows(job: Job, recipe: Recipe) -> Iterator[tuple[IntArray, FloatArray, FloatArray]]:
    """Number of pixels, π and s of all documents, tile by tile."""
    if spans_tiles(job.plan):
        sizes = sum(document_sizes(job, tile).sum() for tile in job.plan.tiles)
        yield np.array([sizes]), *document_posterior(job, job.plan.tiles[0], recipe)
        return
    for tile in job.plan.tiles:
        sizes = document_sizes(job, tile)
        if sizes.size:
            yield sizes, *document_posterior(job, tile, recipe)


def document_sizes(job: Job, tile: Tile) -> IntArray:
    """(D,) number of pixels of each document of a tile."""
    surveyed = need(job.store, "survey", tile.number)
    if surveyed["facts"]["n_valid"] == 0:
        return np.empty(0, np.int64)
    labels = np.asarray(surveyed["labels"][0], np.int64)
    return np.bincount(labels[labels >= 0])


def recipe_of(job: Job, name: str = RECIPE) -> Recipe:
    """The recipe that was learnt."""
    recipe: Recipe = job.store.fetch(name, Loader(job.features.functions, job.n_jobs))
    return recipe


@dataclass(frozen=True)
class Loader:
    """Reads a recipe; equal loaders read equal recipes, so that the result can be cached."""

    functions: tuple[tuple[str, Any], ...]
    n_jobs: int | None

    def __call__(self, path: Path) -> Recipe:
        recipe = load_recipe(path, dict(self.functions))
        recipe.model.n_jobs = self.n_jobs
        return recipe


def is_learnt(job: Job) -> bool:
    """Whether topics have already been learnt."""
    try:
        recipe_of(job)
    except (OSError, ModelFileError):  # absent or damaged: learnt again, to the same topics
        return False
    return True
