"""Shares of pixels under every refit, or in every draw of a sampler: how much they differ tells how sure shares are.

A sample of the pixels of a picture is enough.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmlda.engines.posterior import variance_between
from pmlda.pipeline.blending import Scaled, infer_pixels
from pmlda.pipeline.job import Job, recipe_of
from pmlda.pipeline.shares import to_shares
from pmlda.pipeline.subsample import AT_ONCE, uniform_by_place
from pmlda.pipeline.tiles import Tile, among, inside, places_of
from pmlda.pipeline.told import to_labels, told_inside
from pmlda.recipe import Recipe, share_weights
from pmlda.storage.store import Content
from pmlda.types import FloatArray, Image, IntArray, Labels

# About so many pixels of a picture are seen under every refit, in squares of this side: pixels of a square have the
# same prior, or few, and kernels work on blocks of pixels with one prior. A mean over 128 squares is known to an eighth
# of its value, and that of a standard deviation to a sixteenth.
PIXELS_SEEN, SQUARE = 2**13, 8
_OF_SHARES = 2  # the random numbers that choose them

Prior = tuple[IntArray, FloatArray]
"""(h, w) the row of the prior that applies to each pixel, and the prior."""


def shares_under(
    job: Job, region: Tile, tile: Tile, words: Scaled, image: Image, prior: Prior | None, n_pixels: int
) -> Content | None:
    """Shares of some pixels of the tile under every refit, or of all of them in every draw, as fields of a Tally.

    None if there are neither.

    region : the tile and what lies around it, whose words and image these are
    n_pixels : pixels with data in the whole picture
    """
    recipe = recipe_of(job)
    if prior is None:
        part = job.store.read("posterior", region.number) or {}
        return part.get("shares_under")
    labels, a = prior
    if a.ndim < 3 or len(a) == 1:
        return None
    width = job.plan.shapes[region.picture][1]
    chosen = choose_pixels(among(image.valid, places_of(region, width)), width, n_pixels, job.settings.seed)
    seen = np.zeros(image.valid.shape, bool)
    seen[image.valid] = chosen
    here = np.zeros(image.valid.shape, bool)
    here[inside(tile, region.rows, region.columns)] = True
    seen &= here
    if not seen.any():
        return None
    told = to_labels(job, told_inside(job, region, image.valid))
    told = None if told is None else told.take(np.flatnonzero(seen[image.valid]))
    model: Any = recipe.model
    found = shares_of_pixels(recipe, words[seen[image.valid]], labels, a, seen, told)
    between = variance_between(found, drawn=bool(model.refits_.drawn)).sum(axis=0)
    return {"n_under": int(seen.sum()), "under": found.sum(axis=1), "between": between}


def choose_pixels(places: IntArray, width: int, n_pixels: int, seed: int) -> NDArray[np.bool_]:
    """(n,) which pixels of a picture with n_pixels are seen under every refit; width : number of its columns"""
    if n_pixels <= PIXELS_SEEN:
        return np.ones(len(places), bool)
    chosen = np.empty(len(places), bool)
    for first in range(0, len(places), AT_ONCE):
        row, column = np.divmod(places[first : first + AT_ONCE], width)
        square = row // SQUARE * width + column // SQUARE
        chosen[first : first + AT_ONCE] = uniform_by_place(square, seed, _OF_SHARES) < PIXELS_SEEN / n_pixels
    return chosen


def shares_of_pixels(
    recipe: Recipe,
    words: NDArray[np.floating],
    labels: IntArray,
    prior: FloatArray,
    valid: NDArray[np.bool_],
    told: Labels | None,
) -> FloatArray:
    """(1 + B, n, K) the shares of these pixels as found, and under every refit.

    The arguments are those of infer_pixels; prior : (1 + B, n, K)
    """
    model: Any = recipe.model
    # In one row: strips of the picture would have few of these pixels each, and every strip costs something.
    labels = labels[valid][None]
    valid = np.ones_like(labels, bool)
    models = [model, *(model.under_refit(number) for number in range(len(prior) - 1))]
    return np.array(
        [
            _shares(recipe, each, infer_pixels(each, words, labels, prior[[number]], valid, told)[0])
            for number, each in enumerate(models)
        ]
    )


def draw_shares(recipe: Recipe, rows: slice) -> dict[str, Any] | None:
    """Shares of some training rows as found, and in every draw of their memberships, as fields of a Tally.

    None where no draws of memberships were kept.
    """
    model: Any = recipe.model
    draws = getattr(getattr(model, "draws_", None), "memberships", np.empty((0, 0, 0)))
    if len(draws) < 2:
        return None
    answers = [model.memberships_[rows], *draws[:, rows]]
    under = np.array([_shares(recipe, model, each).sum(axis=0) for each in answers])
    return {"n_under": len(answers[0]), "under": under}


def _shares(recipe: Recipe, model: Any, memberships: NDArray[np.floating]) -> FloatArray:
    """(n, K) the shares of pixels with these memberships in the topics of this model, in the order of the maps."""
    weights = share_weights(model.topic_means_, recipe.features, recipe.scaling)
    return np.asarray(to_shares(memberships.astype(np.float64), weights)[:, recipe.order])
