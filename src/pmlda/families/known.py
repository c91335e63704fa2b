"""Topics of which something is known beforehand: their means, exactly or with a spread → prior density, draws, slopes.

Means are (K, p), NaN for topics of which nothing is known; spreads are standard deviations, 0 where a mean is exact.
"""

from typing import Any, NamedTuple

import numpy as np

from pmlda.errors import InputError
from pmlda.families.base import LOG_2PI
from pmlda.families.boxes import Box, draw_between
from pmlda.types import BoolArray, FloatArray
from pmlda.validate import brief, require

# Squares of features, and products of several, must be ordinary numbers; so must those of their inverses.
LARGEST, SMALLEST = 1e100, 1e-100


class Known(NamedTuple):
    """Independent N(means, spread²) priors on some of the topic means. means, spread : (K, p), NaN for other topics"""

    means: FloatArray
    spread: FloatArray

    @property
    def topics(self) -> BoolArray:
        """(K,) of which topics something is known."""
        return ~np.isnan(self.means[:, 0])

    @property
    def exact(self) -> BoolArray:
        """(K, p) which numbers are known exactly."""
        return np.asarray(self.spread == 0.0)

    @property
    def uncertain(self) -> BoolArray:
        """(K, p) which numbers have a prior of their own."""
        return np.asarray(self.spread > 0.0)

    @property
    def precision(self) -> FloatArray:
        """(K, p) of the prior; 0 where there is none, or nothing to be learnt."""
        return np.where(self.uncertain, 1.0 / np.where(self.uncertain, self.spread, 1.0) ** 2, 0.0)

    def shifted(self, offset: FloatArray) -> "Known":
        """The same of words that were moved by offset."""
        return self._replace(means=self.means + offset)

    def draw(self, rng: np.random.Generator, box: Box | None) -> FloatArray:
        """(K, p) means from the prior, inside the box if there is one; NaN for other topics."""
        drawn, (k, j) = self.means.copy(), np.nonzero(self.uncertain)
        centre, spread = self.means[k, j], self.spread[k, j]
        if box is None:
            drawn[k, j] = centre + spread * rng.standard_normal(len(k))
            return drawn
        low, high = box.low[j], box.high[j]
        white = draw_between(rng, (low - centre) / spread, (high - centre) / spread)
        drawn[k, j] = np.clip(centre + spread * white, low, high)
        return drawn

    def log_density(self, means: FloatArray) -> FloatArray:
        """(K,) log density of the numbers that are uncertain. Those that are exact are conditioned on."""
        spread = np.where(self.uncertain, self.spread, 1.0)
        white = np.where(self.uncertain, (means - self.means) / spread, 0.0)
        return np.asarray(np.where(self.uncertain, -0.5 * (white**2 + LOG_2PI) - np.log(spread), 0.0).sum(axis=1))

    def slopes(self, means: FloatArray) -> FloatArray:
        """(K, p) slopes of log_density."""
        return np.where(self.uncertain, (self.means - means) * self.precision, 0.0)

    def put_exact(self, means: FloatArray) -> FloatArray:
        """(…, K, p) means with those numbers that are exact as they are known."""
        return np.where(self.exact, self.means, means)


def as_known(means: Any, spread: Any, n_topics: int | None = None) -> Known:
    """What a user gave, checked.

    means : (K, p) with NaN for topics of which nothing is known, or {topic: (p,) mean} with topics from 0
    spread : a number, (K,) or (K, p)
    """
    found = _stacked(means, n_topics) if isinstance(means, dict) else _numbers("known_topics", means)
    require(found.ndim == 2 and found.size > 0, f"known_topics has shape {found.shape}, expected (topics, features).")
    require(
        n_topics in (None, len(found)),
        f"known_topics has {len(found)} rows for {n_topics} topics. Give a row for each topic, of NaN where nothing is "
        "known of it, or a dict {topic: mean} with topics from 0.",
    )
    unknown = np.isnan(found)
    require(
        bool((unknown.all(axis=1) | ~unknown.any(axis=1)).all()),
        "known_topics has a row with some numbers and some NaN. Give all features of a topic, or NaN for all of them.",
    )
    require(not unknown.all(), "known_topics are all NaN. Give the mean of at least one topic, or None.")
    largest = float(np.abs(found[~unknown]).max())
    require(
        largest < LARGEST,
        f"known_topics has numbers as large as {largest:g}, expected less than {LARGEST:g}.",
    )
    return Known(found, _spread(spread, unknown))


def _stacked(means: dict[Any, Any], n_topics: int | None) -> FloatArray:
    """(K, p) from {topic: mean}."""
    require(n_topics is not None and bool(means), "known_topics is an empty dict. Give {topic: mean}, or None.")
    n = n_topics or 0
    for topic in means:
        is_topic = isinstance(topic, int | np.integer) and not isinstance(topic, bool) and 0 <= topic < n
        require(bool(is_topic), f"known_topics has the topic {brief(topic)}, expected a number from 0 to {n - 1}.")
    rows = {int(topic): _numbers(f"known_topics[{topic}]", mean) for topic, mean in means.items()}
    shapes = sorted({row.shape for row in rows.values()})
    require(
        len(shapes) == 1 and len(shapes[0]) == 1,
        f"known_topics has means of shapes {shapes}, expected one number for each feature.",
    )
    found = np.full((n, *shapes[0]), np.nan)
    for topic, row in rows.items():
        found[topic] = row
    return found


def _spread(value: Any, unknown: BoolArray) -> FloatArray:
    """(K, p) standard deviations, NaN where nothing is known."""
    spread, shape = _numbers("known_spread", value), unknown.shape
    allowed = ((), shape[:1], shape)
    require(spread.shape in allowed, f"known_spread has shape {spread.shape}, expected (), {shape[:1]} or {shape}.")
    spread = np.broadcast_to(spread[:, None] if spread.ndim == 1 else spread, shape)
    told = spread[~unknown]
    right = bool(((told == 0.0) | ((told > SMALLEST) & (told < LARGEST))).all())
    require(
        right,
        f"known_spread has numbers between {told.min():g} and {told.max():g}, expected 0, for means that are exact, or "
        "standard deviations in units of the features.",
    )
    return np.where(unknown, np.nan, spread)


def _numbers(name: str, value: Any) -> FloatArray:
    """Numbers of any shape, perhaps NaN."""
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):  # rows of different lengths
        array = np.asarray(None)
    if array.dtype.kind not in "biuf":
        raise InputError(f"{name}={brief(value)}: give real numbers.")
    return np.array(array, dtype=np.float64)
