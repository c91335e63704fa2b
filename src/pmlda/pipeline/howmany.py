"""How many topics a picture has: words from windows all over it → pmlda.howmany; "auto" → the number, before a run.

Windows are documents. Of each, small cells like those of a chessboard tell its proportions, and the others are scored.
Cells are as large as the windows of the features, so that few scored values share pixels with those that tell. Whole
quarters in place of cells were measured too: materials gather, and what a quarter has says little of its neighbour, so
that too few topics won. Large pictures are read in blocks on a grid. Blocks and words follow from the picture and the
settings alone, so that every machine and any number of workers choose the same number.
"""

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmlda.errors import PmldaError
from pmlda.features.scaling import Scaling
from pmlda.features.stack import Features
from pmlda.howmany import MOST_DOCUMENTS, Choice, choose_number
from pmlda.images.library import as_spectra
from pmlda.images.windowed import Windowed, open_windowed
from pmlda.labels import Canvas, read_labels
from pmlda.pipeline.correlation import design_effect, survey_lags
from pmlda.pipeline.family import check_pixels, choose_family, family_of
from pmlda.pipeline.learning import bounds_of, canonical_order, check_words, complete_for_family
from pmlda.pipeline.request import Asked
from pmlda.pipeline.tiles import Tile, inside, widen
from pmlda.settings import MOST_TOPICS, Settings
from pmlda.types import BoolArray, FloatArray, IntArray
from pmlda.validate import require

# Pictures of more pixels are read in blocks of this side on a grid of so many rows and columns.
WHOLE_PIXELS, BLOCK_SIDE, GRID = 2**20, 128, 8
# A picture has about as many windows as documents are used, of at least so many pixels and cells a side; cells have at
# least so many pixels a side.
LEAST_SIDE, LEAST_CELLS, CELL = 8, 2, 2
# Features of spectra are the components that so many topics can span, for every number that is tried.
SPECTRA_TOPICS = 6


class Sample(NamedTuple):
    """Words of pictures (N, p), the document of each, which are scored, and what was found on the way.

    axes : how many axes of the features hold more than noise
    effect : how many neighbouring words repeat each other
    """

    words: NDArray[np.floating]
    groups: IntArray
    scored: BoolArray
    features: Features
    scaling: Scaling
    settings: Settings
    axes: int
    effect: float


def choose_for(asked: Asked) -> Choice:
    """The number of topics of the pictures of a call."""
    settings = asked.settings
    require(
        settings.model == "pmlda",
        f'topics="auto" is answered by model "pmlda" alone, and model={settings.model!r}. Give a number of topics.',
    )
    sources = [_open(asked, number) for number in range(len(asked.images))]
    found = sample_pictures(asked, [each for each in sources if each is not None])
    chosen = complete_for_family(found.settings, found.features)

    def order(means: FloatArray) -> IntArray:
        return canonical_order(means, found.features, found.scaling, np.zeros(len(means), bool))

    return choose_number(
        found.words,
        found.groups,
        scored=found.scored,
        least=max(1, count_named(asked, sources)),
        axes=found.axes,
        order=order,
        seed=settings.seed,
        family=choose_family(settings),
        covariance=chosen.covariance,
        alpha=settings.alpha,
        scale_rate=chosen.scale_rate,
        design_effect=found.effect,
        topic_bounds=bounds_of(chosen, found.features, found.scaling),
        fixed=dict(settings.fixed) or None,
        n_jobs=asked.n_jobs,
    )


def resolve_topics(asked: Asked) -> Asked:
    """What was asked for, with topics="auto" replaced by the number that the pictures have."""
    if asked.settings.topics != "auto":
        return asked
    with asked.clock("number of topics"):
        choice = choose_for(asked)
    settings = asked.settings.model_copy(update={"topics": choice.n_topics})
    return asked._replace(settings=settings, choice=choice)


def _open(asked: Asked, number: int) -> Windowed | None:
    """One of the pictures; None where it was found by a pattern and cannot be read, which the run will say."""
    source, settings = asked.images[number], asked.settings
    try:
        return open_windowed(source, mask=asked.masks[number], **settings.reading, **settings.ignored_values)
    except (PmldaError, OSError):
        if not any(source is each for each in asked.found):
            raise
        return None


def count_named(asked: Asked, sources: Sequence[Windowed | None]) -> int:
    """How many topics labels or known spectra name."""
    known = 0 if asked.known is None else len(as_spectra(asked.known).names)
    pairs = [(told, source) for told, source in zip(asked.labels, sources, strict=False) if source is not None]
    if all(told is None for told, _ in pairs):
        return known
    canvases = [Canvas(source.shape[:2], source.georeference) for _, source in pairs]
    labels = read_labels([told for told, _ in pairs], canvases, MOST_TOPICS, asked.known_names)
    named = max((len(each.names) for each in labels if each is not None), default=0)
    there = [each for each in labels if each is not None]
    told_of = [(each.counts + each.any_of).any(axis=0) for each in there]
    told_of += [(region.counts + region.any_of) > 0 for each in there for region in each.regions]
    return max(known, named, *(int(np.flatnonzero(each).max(initial=-1)) + 1 for each in told_of))


# ── words ──────────────────────────────────────────────────────────────────────────────────────────────────────────
def sample_pictures(asked: Asked, sources: Sequence[Windowed]) -> Sample:
    """Words from windows of all pictures."""
    require(len(sources) > 0, "None of the pictures can be read.")
    assumed = asked.settings.model_copy(update={"topics": SPECTRA_TOPICS})
    n_bands = sources[0].shape[2]
    features = asked._replace(settings=_fewer(assumed, n_bands)).find_features(n_bands)
    blocks = [block for number, source in enumerate(sources) for block in blocks_of(number, source.shape[:2])]
    surveys = [features.survey(sources[b.picture].read(b.rows, b.columns)) for b in blocks]
    usable = [block for block, each in zip(blocks, surveys, strict=True) if each]
    require(len(usable) > 0, "There is no pixel with data in the picture. Check its values, nodata and the mask.")
    features.settle(surveys, sources[usable[0].picture].read(usable[0].rows, usable[0].columns))
    words, groups, scored, lags, noise, n = [], [], [], [], [], 0
    for block in usable:
        values, valid = _values(features, sources[block.picture], block, max(features.reach, asked.settings.halo))
        if family_of(assumed).has_location is False:
            check_pixels(family_of(assumed), values[valid], features.spec, sources[block.picture].name)
        window, late = cut(
            valid.shape, max(CELL, features.footprint), whole=block.shape == sources[block.picture].shape[:2]
        )
        words.append(values[valid])
        groups.append(n + window[valid])
        scored.append(late[valid])
        stack = values[..., :-1] if features.has_noise else values
        lags.append(survey_lags(stack, np.where(valid, window, -1), (block.rows.start, block.columns.start)))
        noise.append(_steps(stack, valid))
        n += int(window.max()) + 1
    raw = np.concatenate(words)
    scaling = Scaling(complete_for_family(assumed, features).scaling).fit(raw)
    scaled = scaling.apply(raw)
    check_words(scaled, 1, family_of(assumed))
    known = assumed.design_effect
    effect = design_effect(lags) if known == "auto" else float(known)
    axes = count_axes(raw[:, :-1] if features.has_noise else raw, np.sum(noise, axis=0))
    return Sample(scaled, np.concatenate(groups), np.concatenate(scored), features, scaling, assumed, axes, effect)


def _fewer(settings: Settings, n_bands: int) -> Settings:
    """Fewer topics for few bands, so that spectra have components."""
    return settings.model_copy(update={"topics": max(2, min(SPECTRA_TOPICS, n_bands - 1))})


def blocks_of(picture: int, shape: tuple[int, int]) -> list[Tile]:
    """All of a picture, or blocks evenly all over a large one.

    >>> len(blocks_of(0, (500, 600))), len(blocks_of(0, (5000, 6000)))
    (1, 64)
    """
    height, width = shape
    if height * width <= WHOLE_PIXELS:
        return [Tile(0, picture, slice(0, height), slice(0, width))]

    def stripes(length: int) -> list[slice]:
        n = max(1, min(GRID, length // BLOCK_SIDE))
        side = min(length, BLOCK_SIDE)
        firsts = ((2 * np.arange(n) + 1) * length // (2 * n) - side // 2).tolist()
        return [slice(first, first + side) for first in firsts]

    parts = product(stripes(height), stripes(width))
    return [Tile(number, picture, rows, columns) for number, (rows, columns) in enumerate(parts)]


def cut(shape: tuple[int, int], cell: int, *, whole: bool) -> tuple[IntArray, BoolArray]:
    """(h, w) the window of each pixel, and whether it is scored: cells of so many pixels a side take turns."""
    side = np.sqrt(shape[0] * shape[1] / MOST_DOCUMENTS) if whole else BLOCK_SIDE / 2
    side = max(side, LEAST_SIDE, LEAST_CELLS * cell)
    n_rows, n_columns = (max(1, round(length / side)) for length in shape)
    row, column = np.indices(shape)
    window = (row * n_rows // shape[0]) * n_columns + column * n_columns // shape[1]
    return window, (row // cell + column // cell) % 2 == 0


def _values(features: Features, source: Windowed, block: Tile, reach: int) -> tuple[NDArray[np.float32], BoolArray]:
    """(h, w, p) features of a block, computed with a margin around it, and where there are data."""
    rows, columns = widen(block, 2 * reach, source.shape[:2])
    wide = source.read(rows, columns)
    here = inside(block, rows, columns)
    return features.compute(wide).values[here], np.asarray(wide.valid[here])


def _steps(values: NDArray[np.floating], valid: BoolArray) -> FloatArray:
    """(p + 1, p) Σ ½ δδᵀ over pixels and their right neighbours, and how many pairs there are, in the last row."""
    both = valid[:, 1:] & valid[:, :-1]
    step = (values[:, 1:] - values[:, :-1])[both].astype(np.float64)
    return np.vstack([0.5 * step.T @ step, np.full((1, values.shape[2]), float(len(step)))])


def count_axes(values: NDArray[np.floating], steps: FloatArray) -> int:
    """How many axes hold more than twice the noise that neighbouring pixels have, at least 1.

    >>> rng = np.random.default_rng(0)
    >>> smooth = np.linspace(0.0, 9.0, 500)[:, None] * [1.0, 2.0, 0.0] + rng.normal(size=(500, 3))
    >>> count_axes(smooth, _steps(smooth[None], np.ones((1, 500), bool)))
    1
    """
    n_pairs = max(float(steps[-1, 0]), 1.0)
    noise, total = steps[:-1] / n_pairs, np.atleast_2d(np.cov(values.astype(np.float64).T))
    scale = np.sqrt(np.diag(total))
    used = scale > 0
    noise, total = (each[np.ix_(used, used)] / np.outer(scale[used], scale[used]) for each in (noise, total))
    if not used.any():
        return 1
    ridge = 1e-6 * np.eye(len(total))
    ratios = np.linalg.eigvals(np.linalg.solve(noise + ridge, total + ridge)).real
    return max(1, int((ratios > 2.0).sum()))
