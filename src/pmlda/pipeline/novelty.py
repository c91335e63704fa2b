"""How new a pixel is: from 0 to 1, how sure it is that no mixture of the topics explains it.

The score of a pixel is the share of the pixels that topics were learnt from which are explained better, so that it is
uniform on pixels of their kind, whatever the noise is like. What is compared is the misfit: the distance from what is
predicted, at the memberships that the pixel itself suggests. Its document must not matter, nor how often such mixtures
were seen, so that all mixtures are taken to be equally probable beforehand. The noise of topics differs, and what is
far for a smooth one is near for a rough one: misfits are in units of what is usual where topics mix like that. What
principal components leave out of a spectrum is a second misfit, and the worse of the two counts.

A mixture of all topics that is found nowhere in the picture is still a mixture: it is not new. With as many topics as
features, or more, everything among them is a mixture, and only pixels outside can be new.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmlda.families.base import mix_rows
from pmlda.families.rows import group_equal_rows
from pmlda.pipeline.residuals import ROWS_AT_ONCE
from pmlda.recipe import Calibration, Recipe
from pmlda.types import FloatArray

# So many pixels tell how large misfits are.
MOST_PIXELS = 2**16
# Quantiles are kept up to where this many pixels are left, but never beyond the second share; the tail is a power law.
LEAST_TAIL, TAIL_SHARE = 50, (0.002, 0.1)
N_QUANTILES = 256
# Misfits beyond this quantile are taken to be as large as it: objects in the picture are not noise.
CLIPPED = 0.99
# Where a topic has little of the picture, its misfits are taken to be like all others: as if so many pixels were so.
SHRINKAGE = 100.0
# Misfits of the two kinds are compared in units of this quantile.
UNIT = 0.95
# Tails are never steeper, as they seem to be where hardly any pixels tell.
STEEPEST = 20.0
# One usual pixel in a hundred is newer.
NEW = 0.99
# In a picture that is judged by itself, pixels are far beyond so many deviations of those of its less far half.
OWN_DEVIATIONS = 5.0
ALMOST_ONE = np.nextafter(np.float32(1.0), np.float32(0.0))


class Seen(NamedTuple):
    """What pixels say by themselves.

    memberships : (n, K) topics in the order of the model
    misfits : (n, 1) how badly these explain them, a mean square; (n, 2) with what principal components leave out
    """

    memberships: NDArray[np.float32]
    misfits: FloatArray


def look(recipe: Recipe, values: NDArray[np.floating], words: NDArray[np.floating]) -> Seen | None:
    """Pixels with these features (n, q) and words (n, p); None where the model has no distribution of words."""
    model: Any = recipe.model
    family = getattr(model, "family_", None)
    outside = recipe.scaling.relative_noise(values)
    if family is None:
        return None
    # Many pixels of 8 bits have the same colour, of which each is looked at once.
    different, which = group_equal_rows(words)
    z = np.empty((len(different), len(model.topic_means_)), np.float32)
    misfits = np.empty((len(different), 1))
    even = np.ones((1, 1, z.shape[1]))
    for first in range(0, len(different), ROWS_AT_ONCE):
        rows = slice(first, first + ROWS_AT_ONCE)
        x = words[different[rows]]
        z[rows] = model.infer_memberships(x, groups=np.zeros(len(x), np.int64), priors=even).memberships
        misfit = family.misfit(x, z[rows].astype(np.float64), model.topics_)
        if misfit is None:
            return None
        misfits[rows, 0] = misfit
    z, misfits = z[which], misfits[which]
    return Seen(z, misfits if outside is None else np.column_stack([misfits, outside**2]))


def calibrate(recipe: Recipe, values: NDArray[np.floating]) -> Calibration | None:
    """What is usual among the pixels that topics were learnt from, with these features (n, q).

    None where the model does not tell how far they are from what is expected.
    """
    rows = np.linspace(0, len(values) - 1, min(len(values), MOST_PIXELS)).astype(np.int64)
    seen = look(recipe, values[rows], recipe.scaling.apply(values[rows]))
    if seen is None:
        return None
    z = seen.memberships.astype(np.float64)
    clipped = np.minimum(seen.misfits, np.quantile(seen.misfits, CLIPPED, axis=0))
    usual = clipped.mean(axis=0)
    sizes = (z.T @ clipped + SHRINKAGE * usual) / (z.sum(axis=0)[:, None] + SHRINKAGE)
    sizes = np.where(usual > 0, sizes, 1.0)
    units = np.quantile(seen.misfits / mix_rows(z, sizes), UNIT, axis=0)
    sizes = sizes * np.where(units > 0, units, 1.0)
    distances = np.sort(worst(seen, sizes))
    least, most = TAIL_SHARE
    tail = float(np.clip(LEAST_TAIL / len(distances), least, most))
    sure = -np.log(tail) * np.linspace(0.0, 1.0, N_QUANTILES)
    quantiles = np.quantile(distances, -np.expm1(-sure))
    beyond = distances[distances > max(quantiles[-1], 0.0)]
    steep = float(np.log(beyond / quantiles[-1]).mean()) if len(beyond) and quantiles[-1] > 0 else 0.0
    return Calibration(sizes, quantiles, tail, 1.0 / max(steep, 1.0 / STEEPEST))


def novelty(recipe: Recipe, seen: Seen | None) -> NDArray[np.float32] | None:
    """(n,) the score of pixels; None where nothing is known of what is usual."""
    usual = recipe.usual
    return None if usual is None or seen is None else score(usual, worst(seen, usual.sizes))


def worst(seen: Seen, sizes: FloatArray) -> FloatArray:
    """(n,) the largest misfit of each pixel, in units of what is usual at its memberships; a distance, not a square."""
    usual = mix_rows(seen.memberships.astype(np.float64), sizes)
    return np.asarray(np.sqrt((seen.misfits / usual).max(axis=1)))


def score(usual: Calibration, distances: FloatArray) -> NDArray[np.float32]:
    """(n,) from 0 to almost 1: the share of usual pixels that are nearer.

    >>> usual = Calibration(np.ones((2, 1)), np.array([0.0, 1.0]), tail=0.1, power=2.0)
    >>> score(usual, np.array([0.0, 1.0, 10.0])).astype(float).round(4).tolist()
    [0.0, 0.9, 0.999]
    """
    # Where many are equally near, as at 0 within the topics, none of them is new.
    first = np.flatnonzero(np.diff(usual.quantiles, prepend=-1.0) > 0)
    at = usual.quantiles[first]
    sure = -np.log(usual.tail) * first / (len(usual.quantiles) - 1)
    found = np.interp(distances, at, sure)
    end = max(float(at[-1]), float(np.finfo(np.float32).tiny))
    far = np.maximum(distances, end)
    found = np.where(distances > end, sure[-1] + usual.power * np.log(far / end), found)
    return np.asarray(np.minimum(-np.expm1(-found), ALMOST_ONE).astype(np.float32))


def own_limit(usual: Calibration) -> float:
    """The distance beyond which hardly any pixel would be if those at the less far half tell what noise is like.

    The powers ⅔ of distances are nearly normal, whatever the number of features (Wilson and Hilferty 1931). Infinite
    where a quarter of the pixels is at no distance at all.
    """
    share = -np.expm1(np.log(usual.tail) * np.linspace(0.0, 1.0, len(usual.quantiles)))
    low, middle = np.interp([0.25, 0.5], share, usual.quantiles) ** (2.0 / 3.0)
    if low <= 0:
        return float(np.inf)
    return float((middle + OWN_DEVIATIONS * (middle - low) / 0.6745) ** 1.5)
