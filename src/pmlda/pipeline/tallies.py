"""How much of a picture each topic has, and how sure that is: sums over the pixels of tiles → shares of pictures.

The share of a topic is the mean of its map. Errors of pixels do not average out as independent ones would, because all
pixels have the same topics. What refits disagree about is counted as if it were the same error in the whole picture:

    variance of a share = mean over pixels of the variance between refits
                          + design effect · Σ variance of a pixel / (number of pixels)²,

the second part being what is left of errors of pixels after averaging over as many as do not repeat each other. Shares
themselves differ less between refits than pixels do, but all refits have the errors of the model in common, and these
need not cancel over a picture as their differences do: docs/pictures.md has the measurements. Draws of a sampler are
taken at their word: there it is the variance of the share between draws.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from pmlda.engines.posterior import variance_between
from pmlda.parallel.threads import each_in_turn
from pmlda.pipeline.shares import Found
from pmlda.recipe import Recipe
from pmlda.tables import share_rows
from pmlda.types import FloatArray, Georeference, PictureShares, Share

# Pixels whose numbers are added up at a time.
PIXELS_AT_ONCE = 2**18


class Tally(NamedTuple):
    """Sums over pixels, topics in the order of the maps.

    n : pixels
    shares, variances, deviations : (K,) sums of memberships, of their variances and of their standard deviations
    n_under : pixels that were seen under every refit, or in every draw
    under : (1 + B, K) sums of their memberships as found, and under every refit; (0, K) if there are none
    between : (K,) sum over them of the variance between refits
    """

    n: int
    shares: FloatArray
    variances: FloatArray
    deviations: FloatArray
    n_under: int
    under: FloatArray
    between: FloatArray


def picture_sums(facts: Iterable[Mapping[str, Any]]) -> Tally | None:
    """The sums of a picture from the facts of its tiles, as the step for maps returns them; None without pixels."""
    known = [Tally(**each["tally"])._replace(**(each.get("shares_under") or {})) for each in facts if "tally" in each]
    return add_up(known) if known else None


def tally(found: Found, n_jobs: int | None = 1) -> Tally:
    """Sums over the pixels of a tile."""
    n, n_topics = found.memberships.shape
    parts = np.zeros((-(-n // PIXELS_AT_ONCE), 3, n_topics))

    def of_part(number: int) -> None:
        rows = slice(number * PIXELS_AT_ONCE, (number + 1) * PIXELS_AT_ONCE)
        shares, std = (np.asarray(each[rows], np.float64) for each in found)
        parts[number] = shares.sum(axis=0), (std**2).sum(axis=0), std.sum(axis=0)

    each_in_turn(of_part, range(len(parts)), n_jobs)
    sums = np.zeros((3, n_topics))
    for part in parts:  # in their order, whoever was first
        sums += part
    none = np.zeros((0, n_topics))
    return Tally(n, sums[0], sums[1], sums[2], 0, none, none.sum(axis=0))


def add_up(tallies: Iterable[Tally]) -> Tally:
    """The sums of a picture from those of its tiles."""
    n, *sums, n_under, under, between = zip(*tallies, strict=True)
    shares, variances, deviations = (np.sum(each, axis=0) for each in sums)
    seen = [each for each in under if len(each)]
    total = np.sum(seen, axis=0) if seen else under[0]
    return Tally(sum(n), shares, variances, deviations, sum(n_under), total, np.sum(between, axis=0))


def rows_of_shares(sums: Tally | None, recipe: Recipe, place: Georeference | None) -> tuple[Share, ...]:
    """The table of a picture, a row for each topic; empty without data."""
    return () if sums is None else share_rows(to_picture_shares(sums, recipe), recipe.settings.topic_names, place)


def to_picture_shares(sums: Tally, recipe: Recipe) -> PictureShares:
    """Shares of a picture and their standard deviations; None for these where the model knows no uncertainty."""
    share = sums.shares / sums.n
    if not (sums.deviations > 0).any():
        return PictureShares(share, None, sums.n)
    model: Any = recipe.model
    if not len(sums.under):
        # Draws of a sampler were added up pixel by pixel: as if all pixels erred together, which they do at most.
        alone = model.samples_words
        spread = np.sqrt(repeats(recipe) * sums.variances) if alone else sums.deviations
        return PictureShares(share, np.minimum(spread, sums.deviations) / sums.n, sums.n)
    drawn = not hasattr(model, "refits_") or bool(model.refits_.drawn)
    between = variance_between(sums.under / sums.n_under, drawn=True) if drawn else sums.between / sums.n_under
    within = np.minimum(repeats(recipe) * sums.variances, sums.deviations**2) / sums.n**2
    return PictureShares(share, np.sqrt(between + within), sums.n)


def repeats(recipe: Recipe) -> float:
    """How many neighbouring pixels err together: they repeat each other, or lie in one window of the features."""
    effect = float(getattr(recipe.model, "design_effect", 1.0))
    return max(effect, recipe.thinning or 1.0, float(recipe.features.footprint**2))
