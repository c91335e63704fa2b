"""A robot user: the true shares of a picture (H, W, K) → strokes as a careful user would draw them.

A stroke is what segment(labels=…) takes: "topic" from 1 to K, or "shares" of all topics; "points" [[x, y]], which is
column and row; "radius" in pixels. The robot dabs: each of its strokes is a disc.
"""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.ndimage import binary_erosion, correlate, distance_transform_edt, gaussian_filter, label

from pmlda.labels.raster import brush, pixels_of
from pmlda.types import FloatArray, IntArray
from pmlda.validate import require

Stroke = dict[str, Any]
Mask = NDArray[np.bool_]

RADIUS = 3
# How far a hand misses the pixel that it aims at, in pixels.
JITTER = 1
# A user who looks for errors sees the worst tenth of a picture.
WORST = 0.1
# The share of its leading topic from which on a user says "this is k", when mixtures may be told.
PURE = 0.8
# Half and half, more or less; and what all of such a stroke has of both topics, so that it crosses no outline.
HALF, MIXED = (0.4, 0.6), (0.2, 0.8)


# ── strokes ───────────────────────────────────────────────────────────────────────────────────────────────────────


def first_strokes(
    shares: ArrayLike, rng: np.random.Generator, per_topic: int = 5, radius: int = RADIUS, purest: float = 0.03
) -> list[Stroke]:
    """Strokes of each topic in turn, at the purest discs of the picture or a pixel beside them, none touching another.

    purest : the part of the picture in which centres of a topic are drawn at random. Where it has no room for all,
        the others follow in the order of their purity, as long as the topic leads; a topic may get fewer, or none.

    >>> from pmlda.evaluation.scenes import sunset
    >>> strokes = first_strokes(sunset(48, 64, 0)[1], np.random.default_rng(0), per_topic=2)
    >>> [stroke["topic"] for stroke in strokes], strokes[0]["radius"], len(strokes[0]["points"])
    ([1, 1, 2, 2, 3, 3], 3, 1)
    """
    known = _checked(shares)
    drawn: list[Stroke] = []
    for topic in range(known.shape[2]):
        candidates = _purest_first(_disc_means(known[..., topic], radius), purest, rng)
        candidates += rng.integers(-JITTER, JITTER + 1, candidates.shape)
        labels = [{"topic": topic + 1}] * len(candidates)
        drawn += _place(candidates, labels, per_topic, drawn, radius, known.shape)
    return drawn


def next_stroke(
    shares: ArrayLike,
    found: ArrayLike,
    rng: np.random.Generator,
    *,
    drawn: Sequence[Stroke] = (),
    radius: int = RADIUS,
    soft: bool = False,
) -> Stroke:
    """A correction of the maps found: at the deepest point of the largest connected region of error.

    drawn : strokes that are there already, under which nobody looks again
    soft : whether mixtures may be told, as shares in tenths; otherwise a stroke names the leading topic

    >>> shares = np.zeros((20, 30, 2)); shares[:, :15, 0] = shares[:, 15:, 1] = 1.0
    >>> next_stroke(shares, np.tile([1.0, 0.0], (20, 30, 1)), np.random.default_rng(0))["topic"]
    2
    """
    known, maps = _checked(shares), np.asarray(found, np.float64)
    require(
        maps.shape == known.shape,
        f"The maps found have shape {maps.shape}, the truth {known.shape}: give the same.",
    )
    error = np.abs(maps - known).max(axis=2)
    for stroke in drawn:
        error[covered(stroke, error.shape)] = 0.0
    seen = gaussian_filter(error, radius)  # an eye sees regions, not pixels
    regions, _ = label(seen >= np.quantile(seen, 1.0 - WORST))
    largest = regions == np.argmax(np.bincount(regions.ravel())[1:]) + 1
    depth = distance_transform_edt(np.pad(largest, 1))[1:-1, 1:-1]
    deepest = rng.choice(np.argwhere(depth == depth.max()))
    centre = np.clip(deepest, radius, np.array(error.shape) - 1 - radius)
    there = known[covered(_stroke(centre, radius), error.shape)].mean(axis=0)
    if soft and there.max() < PURE:
        return _stroke(centre, radius, shares=_tenths(there))
    return _stroke(centre, radius, topic=int(there.argmax()) + 1)


def transition_strokes(
    shares: ArrayLike, rng: np.random.Generator, count: int = 10, radius: int = RADIUS
) -> list[Stroke]:
    """Half-and-half strokes where two topics have 0.4 to 0.6 each, none touching another; fewer where there is no room.

    >>> ramp = np.tile(np.linspace(0.0, 1.0, 80), (60, 1))
    >>> strokes = transition_strokes(np.stack([ramp, 1.0 - ramp], axis=2), np.random.default_rng(0), count=3)
    >>> strokes[0]["shares"], len(strokes)
    ([0.5, 0.5], 3)
    """
    known = _checked(shares)
    centres, labels = [], []
    for pair in combinations(range(known.shape[2]), 2):
        both = known[..., pair]
        places = np.argwhere(_between(both, *HALF) & binary_erosion(_between(both, *MIXED), _footprint(radius)))
        half = np.zeros(known.shape[2])
        half[list(pair)] = 0.5
        centres.append(places)
        labels += [{"shares": half.tolist()}] * len(places)
    order = rng.permutation(len(labels))
    return _place(np.concatenate(centres)[order], [labels[i] for i in order], count, [], radius, known.shape)


# ── what they cover ───────────────────────────────────────────────────────────────────────────────────────────────


def covered(stroke: Stroke, shape: tuple[int, ...]) -> Mask:
    """(H, W) the pixels under a stroke, as labels have them."""
    height, width = shape
    mask = np.zeros(height * width, bool)
    mask[pixels_of(brush([np.array(stroke["points"], np.float64)], stroke["radius"], (height, width)))] = True
    return mask.reshape(height, width)


def told_shares(strokes: Sequence[Stroke], shape: tuple[int, int], n_topics: int) -> FloatArray:
    """(H, W, K) what the strokes say of each pixel, NaN where they say nothing.

    >>> told = told_shares([{"topic": 2, "points": [[3, 1]], "radius": 1}], (4, 6), 2)
    >>> int(np.isfinite(told[..., 0]).sum()), told[1, 3].tolist()
    (5, [0.0, 1.0])
    """
    told = np.full((*shape, n_topics), np.nan)
    for stroke in strokes:
        told[covered(stroke, shape)] = stroke["shares"] if "shares" in stroke else np.eye(n_topics)[stroke["topic"] - 1]
    return told


# ── where they go ─────────────────────────────────────────────────────────────────────────────────────────────────


def _place(
    centres: IntArray,
    labels: Sequence[Stroke],
    count: int,
    drawn: Sequence[Stroke],
    radius: int,
    shape: tuple[int, ...],
) -> list[Stroke]:
    """Strokes at the first centres whose discs lie in the picture and touch neither each other nor those drawn."""
    taken = [np.array(stroke["points"][0][::-1]) for stroke in drawn]
    room = ((centres >= radius) & (centres <= np.array(shape[:2]) - 1 - radius)).all(axis=1)
    for other in taken:
        room &= _apart(centres, other, radius)
    placed: list[Stroke] = []
    while room.any() and len(placed) < count:
        first = int(np.argmax(room))
        placed.append(_stroke(centres[first], radius, **labels[first]))
        room &= _apart(centres, centres[first], radius)
    return placed


def _apart(centres: IntArray, other: IntArray, radius: int) -> Mask:
    """(n,) whether there is at least a pixel between the disc around each centre and that around the other."""
    return np.asarray(np.hypot(*(centres - other).T) >= 2 * radius + 2)


def _purest_first(purity: FloatArray, purest: float, rng: np.random.Generator) -> IntArray:
    """(n, 2) row and column of each pixel that is mostly of a topic: the purest in random order, then by purity."""
    flat = purity.ravel()
    leads = flat > 0.5
    pure = leads & (flat >= np.quantile(flat, 1.0 - purest))
    others = np.flatnonzero(leads & ~pure)
    order = np.concatenate([rng.permutation(np.flatnonzero(pure)), others[np.argsort(-flat[others], kind="stable")]])
    return np.stack(np.unravel_index(order, purity.shape), axis=1)


def _disc_means(values: FloatArray, radius: int) -> FloatArray:
    """(H, W) the mean under a disc around each pixel."""
    weights = _footprint(radius).astype(np.float64)
    return np.asarray(correlate(values, weights / weights.sum(), mode="nearest"))


def _footprint(radius: int) -> Mask:
    return covered(_stroke(np.array([radius, radius]), radius), (2 * radius + 1, 2 * radius + 1))


def _between(values: FloatArray, low: float, high: float) -> Mask:
    """(H, W) whether all of these topics lie between the two."""
    return np.asarray(((values >= low) & (values <= high)).all(axis=2))


def _stroke(centre: IntArray, radius: int, **label: Any) -> Stroke:
    row, column = (int(number) for number in centre)
    return {**label, "points": [[column, row]], "radius": radius}


def _tenths(shares: FloatArray) -> list[float]:
    """Shares rounded to tenths that sum to one: what is lost by rounding down goes to the largest remainders.

    >>> _tenths(np.array([0.34, 0.33, 0.33]))
    [0.4, 0.3, 0.3]
    """
    tenths = np.floor(10.0 * shares)
    missing = 10 - int(tenths.sum())
    tenths[np.argsort(tenths - 10.0 * shares, kind="stable")[:missing]] += 1.0
    return [float(number) / 10.0 for number in tenths]


def _checked(shares: ArrayLike) -> FloatArray:
    known = np.asarray(shares, np.float64)
    require(
        known.ndim == 3 and known.shape[2] > 0 and bool(np.isfinite(known).all()),
        f"The true shares have shape {known.shape}: give finite numbers (H, W, K).",
    )
    return known
