"""Whether topics explain a picture: what is left of the pixels of a tile → sums, which add up to those of a picture."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmlda.families.base import Family
from pmlda.parallel.threads import each_in_turn
from pmlda.pipeline.blending import Scaled, strips, with_jobs
from pmlda.pipeline.novelty import NEW, Seen, look, novelty, own_limit, worst
from pmlda.recipe import Recipe
from pmlda.types import BoolArray, FloatArray, Image, IntArray

# Pixels that are compared are at least so far apart: cameras and their files make neighbours alike.
LEAST_LAG = 2


class Sums(NamedTuple):
    """Sums over the pixels of a tile.

    n : all pixels, those in patches that are new and those in patches that are far; (3,)
    light, light_squared : brightness of pixels as they were measured; of all, of the new and of the far ones; (3,)
    n_pairs : pairs of pixels
    left : over pairs, products of what is left of each feature, (p,)
    words : over pairs, products of words, and the sums of the first and of the second words, (3, p)
    outside : over pairs, the same three of what principal components leave out, squared; (3,)
    squares : over pixels, squares of what is left, and what components leave out, (2,)
    misfit : over pixels, mean squares in units of the family's own variance
    by_level : (2, 2, p) number of pairs of neighbours, and how much they differ, in the lower and in the upper third of
        each feature between the lowest and the highest topic
    """

    n: FloatArray
    light: FloatArray
    light_squared: FloatArray
    n_pairs: FloatArray
    left: FloatArray
    words: FloatArray
    outside: FloatArray
    squares: FloatArray
    misfit: FloatArray
    by_level: FloatArray


def examine(
    recipe: Recipe,
    image: Image,
    values: NDArray[np.floating],
    words: Scaled | NDArray[np.floating],
    memberships: NDArray[np.floating],
    n_jobs: int | None = None,
) -> tuple[NDArray[np.float32] | None, dict[str, FloatArray] | None]:
    """Novelty (n,) of the valid pixels of a tile, and the sums of the tile; strip by strip, each on one thread.

    Pixels of different strips are in no pair. Arguments are those of fit_sums.
    """
    if recipe.usual is None:
        return None, None
    alone = recipe._replace(model=with_jobs(recipe.model, 1))
    rows_of_strips = list(strips(image.valid.shape, n_topics=memberships.shape[1]))
    ends = np.cumsum([np.count_nonzero(image.valid[rows]) for rows in rows_of_strips]).tolist()
    new = np.empty(len(memberships), np.float32)
    tables: list[dict[str, FloatArray] | None] = [None] * len(rows_of_strips)

    def of_strip(number: int) -> None:
        rows, part = rows_of_strips[number], slice(ends[number - 1] if number else 0, ends[number])
        strip = image._replace(pixels=image.pixels[rows], valid=image.valid[rows])
        x = words[part]
        seen = look(alone, values[part], x)
        score = novelty(alone, seen)
        assert score is not None  # since it is known what is usual
        new[part] = score
        tables[number] = fit_sums(alone, strip, values[part], x, seen, memberships[part])

    with_data = [number for number, n in enumerate(np.diff(ends, prepend=0)) if n > 0]
    each_in_turn(of_strip, with_data, n_jobs)
    found = [each for each in tables if each is not None]
    return new, {name: np.sum([each[name] for each in found], axis=0) for name in found[0]} if found else None


def fit_sums(
    recipe: Recipe,
    image: Image,
    values: NDArray[np.floating],
    words: NDArray[np.floating],
    seen: Seen | None,
    memberships: NDArray[np.floating],
) -> dict[str, FloatArray] | None:
    """The sums of a tile, as a table; None where the model does not tell what it expects.

    values, words, seen : of its valid pixels
    memberships : (n, K) as in the maps, in the order of the model
    """
    model: Any = recipe.model
    usual = recipe.usual
    if seen is None or usual is None:
        return None
    family: Family = model.family_
    z = memberships.astype(np.float64)
    expected = family.expected_words(z, model.topics_)
    misfit = family.misfit(words, z, model.topics_)
    if expected is None or misfit is None:
        return None
    left = words - expected
    outside = _left_out(recipe, values)
    score = novelty(recipe, seen)
    assert score is not None
    far = worst(seen, usual.sizes) > own_limit(usual)
    kinds = np.stack([np.ones(len(words), bool), *(in_patches(image.valid, each) for each in (score > NEW, far))])
    light = image.pixels[image.valid].mean(axis=1, dtype=np.float64)
    pairs = _Pairs(image.valid, lag_of(recipe))
    middle = model.topic_means_.mean(axis=0)
    columns = [pairs.products(words[:, j] - middle[j]) for j in range(words.shape[1])]
    found = Sums(
        n=kinds.sum(axis=1).astype(np.float64),
        light=(kinds * light).sum(axis=1),
        light_squared=(kinds * light**2).sum(axis=1),
        n_pairs=np.asarray(pairs.n),
        left=np.array([pairs.products(each)[0] for each in left.T]),
        words=np.stack(columns, axis=1),
        outside=np.zeros(3) if outside is None else pairs.products(outside),
        squares=np.array([(left**2).sum(), 0.0 if outside is None else outside.sum()]),
        misfit=np.asarray(misfit.sum()),
        by_level=_by_level(image.valid, words, expected, family.mean_words(model.topic_means_)),
    )
    return found._asdict()


def lag_of(recipe: Recipe) -> int:
    """How far apart pixels are that are compared: beyond the windows of the features."""
    reach = recipe.features.reach
    return max(LEAST_LAG, recipe.features.footprint, reach + 1 if reach else 0)


def in_patches(valid: BoolArray, found: BoolArray) -> BoolArray:
    """(n,) which of the valid pixels that were found have found ones around them for the most part.

    What no topic explains, a material or another kind of picture, is found in patches. Single pixels that are far are
    the tails of the noise of real cameras.

    >>> valid = np.ones((4, 5), bool)
    >>> found = np.zeros((4, 5), bool)
    >>> found[:, :2] = found[2, 3] = True
    >>> in_patches(valid, found.ravel()).reshape(4, 5).sum(axis=0).tolist()
    [4, 4, 0, 0, 0]
    """
    plane = np.zeros(valid.shape, bool)
    plane[valid] = found
    around, there = (_sum_of_neighbours(each) for each in (plane, valid))
    return np.asarray(found & (2 * around > there)[valid])


def _sum_of_neighbours(plane: BoolArray) -> IntArray:
    """How many of the eight pixels around each are true."""
    wide = np.pad(plane.astype(np.int64), 1)
    rows = wide[:-2] + wide[1:-1] + wide[2:]
    return np.asarray(rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:] - plane)


class _Pairs:
    """Pairs of valid pixels of a tile, so many rows or columns apart."""

    def __init__(self, valid: BoolArray, lag: int) -> None:
        self._valid, self._lag = valid, lag
        self._both = [each[:-lag] & each[lag:] for each in (valid, valid.T)]
        self.n = float(sum(int(there.sum()) for there in self._both))

    def each(self, values: FloatArray, others: FloatArray | None = None) -> Iterator[tuple[FloatArray, ...]]:
        """Values (n,) of the first pixels of all pairs, and of the second ones; and other values of the first ones."""
        planes = [np.zeros(self._valid.shape) for _ in range(1 if others is None else 2)]
        for plane, known in zip(planes, (values, others), strict=False):
            plane[self._valid] = known
        for turned, there in zip((planes, [plane.T for plane in planes]), self._both, strict=True):
            first, second = turned[0][: -self._lag][there], turned[0][self._lag :][there]
            yield (first, second, *(plane[: -self._lag][there] for plane in turned[1:]))

    def products(self, values: FloatArray) -> FloatArray:
        """(3,) the sum of products of the two pixels, of the first ones and of the second ones."""
        return np.asarray(np.sum([[(a * b).sum(), a.sum(), b.sum()] for a, b in self.each(values)], axis=0))


def _left_out(recipe: Recipe, values: NDArray[np.floating]) -> FloatArray | None:
    """(n,) the square of what principal components leave out, in the units of words; None where nothing is known."""
    relative = recipe.scaling.relative_noise(values)
    if relative is None or recipe.scaling.size is None or recipe.scaling.spread is None:
        return None
    return np.asarray((relative * recipe.scaling.size / recipe.scaling.spread[0]) ** 2)


def _by_level(valid: BoolArray, words: NDArray[np.floating], expected: FloatArray, topics: FloatArray) -> FloatArray:
    """Sums.by_level of pixels with these words and expected ones. Between neighbours, structure hardly changes."""
    low, high = topics.min(axis=0), topics.max(axis=0)
    pairs, sums = _Pairs(valid, 1), np.zeros((2, 2, words.shape[1]))
    for j in range(words.shape[1]):
        level = (expected[:, j] - low[j]) / (high[j] - low[j] if high[j] > low[j] else 1.0)
        for first, second, at in pairs.each(words[:, j].astype(np.float64), level):
            steps = np.abs(first - second)
            for end, there in enumerate((at < 1.0 / 3.0, at > 2.0 / 3.0)):
                sums[end, :, j] += [there.sum(), steps[there].sum()]
    return sums
