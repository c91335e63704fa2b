"""What a topic distribution must offer: T(x), A(η), base measure, natural parameters, prior, simulation.

Every family is an exponential family, log p(x | η) = η·T(x) − A(η) + log h(x), and a word with memberships z has
η = Σ_k z_k η_k. Of an additive family A depends on the word as well, and η is the mean of the word itself. Engines use
nothing but this interface; docs/extending.md adds a family with it step by step.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from pmlda.errors import InputError, PmldaError
from pmlda.families.coordinates import Coordinates, Plain
from pmlda.families.sparse import SparseRows, dense
from pmlda.types import BoolArray, Documents, FloatArray, Statistics, Topics
from pmlda.validate import positive_array, real_array, require

NO_SPREAD = np.empty(0)
LOG_2PI = float(np.log(2.0 * np.pi))
# Sparse words that are looked at as an array have no more numbers than this together.
MOST_NUMBERS = 2**24


class Terms(NamedTuple):
    """A log density of topics, split into the units that are accepted or rejected separately.

    means : (K,) one unit per topic
    spread : (U,) one unit per entry of Topics.spread along its first axis, or a single unit
    """

    means: FloatArray
    spread: FloatArray

    @property
    def total(self) -> float:
        """The whole log density."""
        return float(self.means.sum() + self.spread.sum())


class Family(ABC):
    """One kind of topic distribution, with its prior. Families hold settings, never data."""

    name: ClassVar[str]
    code: ClassVar[int]
    """The branch of kernels.log_partition that evaluates A."""
    spread_per_topic: ClassVar[bool] = False
    """True where Topics.spread has one entry per topic, to be renumbered with the topics."""
    mean_coordinates: ClassVar[Coordinates] = Plain()
    """How Topics.means are written without bounds."""
    means_among_words: ClassVar[bool] = True
    """True where a topic's mean is a point among the words, so that there are no more topics than different words."""
    additive: ClassVar[bool] = False
    """True where A depends on the word too, −Σ_j x_j ln η_j: kernels take its counts, and split them among topics."""
    takes_sparse: ClassVar[bool] = False
    """True where words may be pmlda.families.sparse.SparseRows."""
    quadratic: ClassVar[bool] = False
    """True where table is a (K, K) matrix G and A(Σ z_k η_k) = ½ zᵀGz, so that least squares guess memberships."""
    creeps: ClassVar[bool] = True
    """True where topics creep along ridges of the bound: sweeps need momentum, and many of them tell when to stop."""

    # ── words ──────────────────────────────────────────────────────────────────────────────────────────────────
    def check_words(self, X: NDArray[np.floating]) -> None:
        """Raise ValueError if X holds values that this distribution cannot produce. By default any number will do."""
        return

    @abstractmethod
    def statistic(self, words: NDArray[np.floating]) -> FloatArray:
        """(N, q) sufficient statistics T(x)."""

    @abstractmethod
    def log_base(self, words: NDArray[np.floating], topics: Topics) -> FloatArray:
        """(N,) log h(x), the part of log p(x | z) that does not depend on z."""

    @abstractmethod
    def draw_words(self, rng: np.random.Generator, eta: FloatArray, topics: Topics) -> FloatArray:
        """(N, p) one word for each row of mixed natural parameters, eta (N, q)."""

    def expected_words(self, memberships: FloatArray, topics: Topics) -> FloatArray | None:
        """(N, ·) the mean of a word with these memberships (N, K); None where the family does not tell."""
        return None

    def word_variance(self, memberships: FloatArray, topics: Topics) -> FloatArray | None:
        """(N, p) the variance of each feature of a word with these memberships; None where the family does not tell."""
        return None

    def misfit(self, words: NDArray[np.floating], memberships: FloatArray, topics: Topics) -> FloatArray | None:
        """(N,) mean over features of the squared distance of words from what is expected, in units of their variance.

        Every row is computed by itself, to the bit, whichever rows lie beside it. None where the family does not tell.
        """
        mean, variance = self.expected_words(memberships, topics), self.word_variance(memberships, topics)
        if mean is None or variance is None:
            return None
        return row_means((words - mean) ** 2 / variance)

    def starting_points(self, rng: np.random.Generator, documents: Documents, n_most: int) -> FloatArray:
        """At most n_most points, in rows as wide as a mean, among which means start. By default a sample of words."""
        n_words, words = len(documents.words), documents.words
        if isinstance(words, SparseRows):  # so wide perhaps that a few of them fill the memory
            n_most = max(min(n_most, MOST_NUMBERS // words.shape[1]), 100)
        rows = rng.choice(n_words, min(n_words, n_most), replace=False)
        return dense(documents.words[np.sort(rows)])

    def as_means(self, words: NDArray[np.floating]) -> FloatArray:
        """(N, ·) words as points among which means lie. By default the words themselves."""
        return dense(words)

    # ── parameters ─────────────────────────────────────────────────────────────────────────────────────────────
    @abstractmethod
    def natural(self, topics: Topics) -> FloatArray:
        """(K, q) natural parameters η_k."""

    @abstractmethod
    def log_partition(self, eta: FloatArray, topics: Topics) -> FloatArray:
        """A(η) for natural parameters eta (..., q)."""

    def partitions(self, words: NDArray[np.floating], eta: FloatArray, topics: Topics) -> FloatArray:
        """(N,) A of every word at its own η (N, q); by default the words do not matter."""
        return self.log_partition(eta, topics)

    def partitions_at(self, words: NDArray[np.floating], topics: Topics, memberships: FloatArray) -> FloatArray:
        """(N, S) A of every word at each of the memberships z (S, K)."""
        partition = self.log_partition(memberships @ self.natural(topics), topics)
        return np.broadcast_to(partition, (len(words), len(memberships)))

    def bends(self, topics: Topics) -> FloatArray:
        """(K, K) how much A bends between two topics: its mean second derivative along the line from one to another."""
        eta = self.natural(topics)
        corner = self.log_partition(eta, topics)
        middle = self.log_partition(0.5 * (eta[:, None] + eta[None]), topics)
        return np.asarray(4.0 * (corner[:, None] + corner[None] - 2.0 * middle))

    def n_values(self, n_features: int) -> int:
        """How many numbers the mean of a topic has, where words have n_features."""
        return n_features

    def allows(self, topics: Topics) -> bool:
        """Whether these are parameters of a distribution of this family."""
        eta = self.natural(topics)
        return bool(np.isfinite(eta).all() and np.isfinite(self.log_partition(eta, topics)).all())

    def table(self, topics: Topics) -> FloatArray:
        """(K, ·) the numbers from which the kernel evaluates A(Σ z_k η_k)."""
        return self.natural(topics)

    @property
    def constant(self) -> float:
        """A known number that the kernel needs besides the table."""
        return 0.0

    @property
    def spread_coordinates(self) -> Coordinates:
        """How Topics.spread is written without bounds."""
        return Plain()

    # ── free coordinates ───────────────────────────────────────────────────────────────────────────────────────
    def free(self, topics: Topics) -> Topics:
        """The topics in numbers without bounds."""
        return Topics(self.mean_coordinates.free(topics.means), self.spread_coordinates.free(topics.spread))

    def from_free(self, free: Topics) -> Topics:
        """The inverse of free."""
        return Topics(self.mean_coordinates.values(free.means), self.spread_coordinates.values(free.spread))

    def log_free_prior(self, topics: Topics) -> float:
        """Log prior density of the free coordinates. Its mode is never at an edge, where that of a rate may be."""
        volume = self.mean_coordinates.log_volume(topics.means) + self.spread_coordinates.log_volume(topics.spread)
        return self.log_prior(topics).total + volume

    def log_free_prior_by_value(self, means: FloatArray) -> FloatArray:
        """(K, p) log_free_prior of every number of the means, up to a constant, where the family is additive."""
        raise PmldaError(f"The family {self.name!r} is not additive.")

    def slopes(self, topics: Topics, along_eta: FloatArray) -> Topics | None:
        """Slopes of η·along_eta + ln prior along means and spread: formulas that belong to natural and log_prior.

        None where there are no formulas; differences then take their place, whose cost grows with the square of the
        number of values.
        """
        return None

    def free_slopes(self, topics: Topics, along_eta: FloatArray) -> Topics:
        """Slopes of η·along_eta + log_free_prior along the free coordinates."""
        slopes = self.slopes(topics, along_eta)
        if slopes is None:
            return self._slopes_by_differences(topics, along_eta)
        return Topics(
            self.mean_coordinates.free_slopes(topics.means, slopes.means),
            self.spread_coordinates.free_slopes(topics.spread, slopes.spread),
        )

    def count_bends(self, q: int) -> int:
        """How many rows of kernels.partition_blocks.variance_block newton_step needs, where η has q entries.

        0 where there is no such step; a quasi-Newton method takes its place.
        """
        return 0

    def newton_step(self, topics: Topics, slopes: Topics, bends: FloatArray) -> Topics:
        """The step in free coordinates towards the best topics, where count_bends is not 0.

        slopes : along the free coordinates; bends : (K, K, ·) Σ E[z_k z_l ∇²A] of all words, for l ≤ k
        """
        raise PmldaError(f"The family {self.name!r} has no such step.")

    def _slopes_by_differences(self, topics: Topics, along_eta: FloatArray) -> Topics:
        def value(means: FloatArray, spread: FloatArray) -> float:
            at = self.from_free(Topics(means, spread))
            return float((self.natural(at) * along_eta).sum()) + self.log_free_prior(at)

        means, spread = self.free(topics)
        return Topics(
            central_differences(lambda x: value(x, spread), means),
            central_differences(lambda x: value(means, x), spread),
        )

    @property
    def has_location(self) -> bool:
        """True where moving all words and all topic means together changes nothing, so that data may be centred."""
        return False

    def shifted(self, offset: FloatArray) -> Self:
        """The same family for words moved by offset: the prior of a location moves with them."""
        return self

    @property
    def can_be_bounded(self) -> bool:
        """True where means can be kept between bounds."""
        return False

    def bounded(self, low: Any, high: Any) -> Self:
        """The same family with means between these bounds, numbers or one per feature; None is unbounded."""
        raise InputError(
            f"topic_bounds were given, but means of the family {self.name!r} cannot be bounded. Leave them out, or use "
            "the family 'gaussian' with covariance 'isotropic', 'diagonal' or 'full'."
        )

    def knowing(self, means: Any, spread: Any) -> Self:
        """The same family where the means of some topics are known; see families.known for what may be given."""
        raise InputError(
            f"Some of the topics are known, but the family {self.name!r} can only take all of them, exactly. Give the "
            "means of all topics with known_spread=0, or use the family 'gaussian'."
        )

    @property
    def known_means(self) -> FloatArray | None:
        """(K, ·) means that are known beforehand, NaN for other topics; None if nothing is known of any."""
        return None

    @property
    def exact_means(self) -> BoolArray | None:
        """(K, ·) which numbers of the means are known exactly, so that they never move; None if there are none."""
        return None

    def nearest(self, means: FloatArray) -> FloatArray:
        """(K, ·) these means, moved to where the family allows them: between bounds, or to what is known exactly."""
        return means

    def mean_words(self, means: FloatArray) -> FloatArray:
        """(K, p) the mean of a word under each topic, from Topics.means. By default these are the means themselves."""
        return means

    def feature_scale(self, words: NDArray[np.floating]) -> FloatArray:
        """(p,) a unit for each feature, in which distances between words are comparable."""
        deviation = words.std(axis=0, dtype=np.float64)
        return np.where(deviation > 0, deviation, 1.0)

    # ── prior and proposals on topics ──────────────────────────────────────────────────────────────────────────
    @abstractmethod
    def informed_by(self, X: NDArray[np.floating]) -> Self:
        """The same family with every prior setting left open (None) filled in from the data."""

    @abstractmethod
    def draw_topics(self, rng: np.random.Generator, n_topics: int) -> Topics:
        """Topics from the prior."""

    @abstractmethod
    def log_prior(self, topics: Topics) -> Terms:
        """Log prior density of topics.means and topics.spread, unit by unit."""

    def propose(self, rng: np.random.Generator, n_topics: int) -> Topics:
        """Candidate topics for an independence sampler; by default from the prior."""
        return self.draw_topics(rng, n_topics)

    def log_proposal(self, topics: Topics) -> Terms:
        """Log density of what propose draws."""
        return self.log_prior(topics)

    @abstractmethod
    def estimate(self, words: NDArray[np.floating], memberships: FloatArray, means: FloatArray) -> Topics:
        """Plausible topics near the given means, for starting a chain."""

    @property
    def conjugate(self) -> "Conjugate | None":
        """This family, where topics can be drawn, and the best be found, from sums over words; otherwise None."""
        return None

    # ── sums over words ────────────────────────────────────────────────────────────────────────────────────────
    def scores(self, words: NDArray[np.floating], topics: Topics) -> FloatArray:
        """(N, K) ℓ_k(x) = η_k · T(x)."""
        return self.statistic(words) @ self.natural(topics).T

    def weighted_statistic(self, memberships: FloatArray, words: NDArray[np.floating]) -> FloatArray:
        """(K, q) Zᵀ T(X)."""
        return memberships.T @ self.statistic(words)

    def summarise(self, words: NDArray[np.floating]) -> FloatArray:
        """What log_base_total needs from the words, found once. By default Σ_n log h(x_n) itself."""
        nothing = Topics(np.ones((1, words.shape[1])), NO_SPREAD)
        return np.asarray(self.log_base(words, nothing).sum())

    def log_base_total(self, summary: FloatArray, n_words: int, topics: Topics) -> float:
        """Σ_n log h(x_n) from the summary."""
        return float(summary)

    def partition_from_gram(self, topics: Topics, gram: FloatArray) -> float | None:
        """Σ_n A(Σ_k z_nk η_k) from ZᵀZ alone, or None where that is not enough and the words must be visited."""
        return None

    def gains_by_mean(self, topics: Topics, means: FloatArray, statistics: Statistics) -> FloatArray | None:
        """(K,) how much Σ_n ln p(x_n | z_n) gains if only mean k is replaced; None where words must be visited."""
        return None


class Conditional(Protocol):
    """A known distribution of means or spread, given all else: its most probable value, and draws from it."""

    @property
    def mode(self) -> FloatArray: ...
    def draw(self, rng: np.random.Generator) -> FloatArray: ...


class Conjugate(Family):
    """A family whose topics, given the memberships, have known distributions that follow from sums over words.

    Engines draw its topics, or take the best, where those of other families have to walk or to climb.
    """

    @property
    def conjugate(self) -> "Conjugate":
        return self

    @abstractmethod
    def given_means(self, topics: Topics, statistics: Statistics) -> Conditional:
        """The conditional distribution of the means, at the spread of topics; a draw may begin at their means."""

    @abstractmethod
    def given_spread(
        self, means: FloatArray, statistics: Statistics, summary: FloatArray, n_words: float
    ) -> Conditional:
        """The conditional distribution of the spread, at these means. summary : as summarise gives it"""


def mix_rows(memberships: FloatArray, of_topics: FloatArray) -> FloatArray:
    """(N, q) Σ_k z_k v_k of rows z (N, K) and values v (K, q); unlike those of BLAS, bits do not depend on other rows.

    >>> mix_rows(np.array([[0.5, 0.5], [1.0, 0.0]]), np.array([[2.0], [4.0]])).tolist()
    [[3.0], [2.0]]
    """
    mixed = np.zeros((len(memberships), of_topics.shape[1]))
    for k, values in enumerate(of_topics):
        mixed += memberships[:, k, None] * values
    return mixed


def row_means(values: FloatArray) -> FloatArray:
    """(N,) the mean of each row (N, p), a row at a time to the bit."""
    total = np.zeros(len(values))
    for column in values.T:
        total += column
    return np.asarray(total / values.shape[1])


def central_differences(function: Callable[[FloatArray], float], x: FloatArray, step: float = 1e-5) -> FloatArray:
    """The slopes of a function at x, in the shape of x."""
    slopes = np.empty_like(x)
    for i in np.ndindex(x.shape):
        there, back = x.copy(), x.copy()
        there[i] += step
        back[i] -= step
        slopes[i] = (function(there) - function(back)) / (2.0 * step)
    return slopes


def check_settings(family: object, **shapes: tuple[int, ...] | None) -> None:
    """Refuse settings that are not positive numbers. None as a shape allows any shape; None as a value is open."""
    for name, shape in shapes.items():
        value = getattr(family, name)
        if value is not None:
            label = f"{type(family).__name__}({name})"
            positive_array(label, value, np.shape(value) if shape is None else shape)


def check_numbers(family: object, **dimensions: tuple[int, ...]) -> None:
    """Refuse settings that are not finite numbers in arrays of one of these dimensions; None is open."""
    for name, allowed in dimensions.items():
        value = getattr(family, name)
        if value is not None:
            label = f"{type(family).__name__}({name})"
            found = real_array(label, value, np.shape(value)).ndim
            require(found in allowed, f"{label} has {found} dimensions, expected one of {allowed}.")


def sized(family: object, name: str, default: FloatArray) -> FloatArray:
    """A setting with one entry per feature: as given, one number repeated, or the default where it was left open."""
    value = getattr(family, name)
    return default if value is None else positive_array(f"{type(family).__name__}({name})", value, (), default.shape)


def setting(value: FloatArray | None) -> FloatArray:
    """A prior setting that must be known by now."""
    if value is None:
        raise PmldaError(
            "This family has prior settings that were left open. Call family.informed_by(X) first, or give them all."
        )
    return np.asarray(value, dtype=np.float64)


def log_gamma_density(x: FloatArray, shape: float, rate: FloatArray) -> FloatArray:
    """ln Gamma(x; shape, rate), elementwise."""
    return np.asarray(shape * np.log(rate) - gammaln(shape) + (shape - 1.0) * np.log(x) - rate * x)


def log_inverse_gamma_density(x: FloatArray, shape: float, scale: FloatArray) -> FloatArray:
    """ln InverseGamma(x; shape, scale), elementwise."""
    return np.asarray(shape * np.log(scale) - gammaln(shape) - (shape + 1.0) * np.log(x) - scale / x)
