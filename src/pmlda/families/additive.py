"""Counts whose means add: photons, reads of genes, spots. Rates of a word are the mean of its topics' rates."""

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from pmlda.errors import PmldaError
from pmlda.families.base import NO_SPREAD, Conditional, Conjugate, Terms, log_gamma_density, mix_rows, setting
from pmlda.families.coordinates import Coordinates, Log
from pmlda.families.counts import Poisson
from pmlda.families.sparse import dense
from pmlda.types import FloatArray, Statistics, Topics

# Rates are kept above this, so that their logarithms are finite.
SMALLEST_RATE = 1e-300


@dataclass(frozen=True, eq=False)
class AdditivePoisson(Conjugate):
    """Counts x_j ~ Poisson(Σ_k z_k r_kj) with rates r_kj ~ Gamma(shape, rate_j). Rates add, as light and molecules do.

    Half a pixel of topic 1 and half of topic 2 gives the mean of their counts, where `Poisson` gives the geometric mean
    of their rates: z is the share of *material*. Latent Dirichlet allocation and Poisson matrix factorisation mix
    rates likewise, the first without knowing how bright a topic is, the second with weights that need not sum to one.

    Given memberships and rates, each count is split among topics; given the split, rates are gamma variables.

    >>> family = AdditivePoisson(rate=np.ones(1))
    >>> topics = Topics(np.array([[2.0], [8.0]]), NO_SPREAD)
    >>> (np.array([[0.5, 0.5]]) @ family.natural(topics)).tolist()
    [[5.0]]
    """

    name: ClassVar[str] = "additive-poisson"
    code: ClassVar[int] = 7
    mean_coordinates: ClassVar[Coordinates] = Log()
    additive: ClassVar[bool] = True
    takes_sparse: ClassVar[bool] = True
    shape: float = 1.0
    rate: FloatArray | None = None

    def __post_init__(self) -> None:
        self._counts  # noqa: B018  (whose settings are checked)

    @property
    def _counts(self) -> Poisson:
        """The family of counts with the same prior, whose rates mix in another way."""
        return Poisson(self.shape, self.rate)

    # ── words ──────────────────────────────────────────────────────────────────────────────────────────────────
    def check_words(self, X: NDArray[np.floating]) -> None:
        self._counts.check_words(X, self.name)

    def statistic(self, words: NDArray[np.floating]) -> FloatArray:
        """−1 for every feature, so that η·T is minus the sum of the rates."""
        return np.full(words.shape, -1.0)

    def log_base(self, words: NDArray[np.floating], topics: Topics) -> FloatArray:
        return self._counts.log_base(words, topics)

    def draw_words(self, rng: np.random.Generator, eta: FloatArray, topics: Topics) -> FloatArray:
        return rng.poisson(eta).astype(np.float64)

    def expected_words(self, memberships: FloatArray, topics: Topics) -> FloatArray:
        return mix_rows(memberships, topics.means)

    def word_variance(self, memberships: FloatArray, topics: Topics) -> FloatArray:
        return self.expected_words(memberships, topics)

    # ── parameters ─────────────────────────────────────────────────────────────────────────────────────────────
    def natural(self, topics: Topics) -> FloatArray:
        """(K, p) rates: what mixes linearly."""
        return topics.means

    def log_partition(self, eta: FloatArray, topics: Topics) -> FloatArray:
        raise PmldaError("A of this family belongs to a word: partitions, or partitions_at.")

    def partitions(self, words: NDArray[np.floating], eta: FloatArray, topics: Topics) -> FloatArray:
        """−Σ_j x_j ln η_j."""
        return np.asarray(-(dense(words) * np.log(np.maximum(eta, SMALLEST_RATE))).sum(axis=1))

    def partitions_at(self, words: NDArray[np.floating], topics: Topics, memberships: FloatArray) -> FloatArray:
        return np.asarray(words @ -np.log(np.maximum(memberships @ topics.means, SMALLEST_RATE)).T)

    def bends(self, topics: Topics) -> FloatArray:
        """Of a word half-way between two topics, as it is on average: Σ_j (r_ij − r_kj)² / η_j."""
        one, other = topics.means[:, None], topics.means[None]
        return np.asarray((2.0 * (one - other) ** 2 / (one + other)).sum(axis=2))

    def allows(self, topics: Topics) -> bool:
        return bool(np.isfinite(topics.means).all() and (topics.means > 0.0).all())

    # ── prior ──────────────────────────────────────────────────────────────────────────────────────────────────
    def informed_by(self, X: NDArray[np.floating]) -> Self:
        return replace(self, rate=self._counts.informed_by(X).rate)

    def draw_topics(self, rng: np.random.Generator, n_topics: int) -> Topics:
        return self._counts.draw_topics(rng, n_topics)

    def log_prior(self, topics: Topics) -> Terms:
        each = log_gamma_density(topics.means, self.shape, setting(self.rate))
        return Terms(np.asarray(each.sum(axis=1)), np.zeros(0))

    def log_free_prior_by_value(self, means: FloatArray) -> FloatArray:
        return np.asarray(self.shape * np.log(means) - setting(self.rate) * means)

    def estimate(self, words: NDArray[np.floating], memberships: FloatArray, means: FloatArray) -> Topics:
        return self._counts.estimate(words, memberships, means)

    # ── sums over words ────────────────────────────────────────────────────────────────────────────────────────
    def scores(self, words: NDArray[np.floating], topics: Topics) -> FloatArray:
        """Minus the sum of the rates, for every word alike."""
        return np.tile(-topics.means.sum(axis=1), (len(words), 1))

    def weighted_statistic(self, memberships: FloatArray, words: NDArray[np.floating]) -> FloatArray:
        return np.tile(-memberships.sum(axis=0)[:, None], words.shape[1])

    def given_means(self, topics: Topics, statistics: Statistics) -> Conditional:
        """From the counts that each topic got, statistics.weighted; rows of ZᵀZ add up to how much of it there is."""
        exposure = statistics.gram.sum(axis=1)[:, None]
        return GivenRates(self.shape + statistics.weighted, setting(self.rate) + exposure)

    def given_spread(
        self, means: FloatArray, statistics: Statistics, summary: FloatArray, n_words: float
    ) -> Conditional:
        return Nothing()


class GivenRates(NamedTuple):
    """Independent gamma variables. shapes, rates : (K, p)"""

    shapes: FloatArray
    rates: FloatArray

    @property
    def mode(self) -> FloatArray:
        """(K, p) the most probable values of their logarithms, which are never at an edge."""
        return self.shapes / self.rates

    def draw(self, rng: np.random.Generator) -> FloatArray:
        """(K, p) rates."""
        return np.maximum(rng.standard_gamma(self.shapes) / self.rates, SMALLEST_RATE)


class Nothing(NamedTuple):
    """The spread of a family that has none."""

    @property
    def mode(self) -> FloatArray:
        return NO_SPREAD

    def draw(self, rng: np.random.Generator) -> FloatArray:
        return NO_SPREAD
