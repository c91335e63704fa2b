"""Families without a covariance: Poisson (counts), Bernoulli (yes or no), gamma (speckle), categorical (visual words).

Features are independent given the memberships. Topics have their conjugate prior, and proposals come from it.
"""

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, expit, gammaln, logit, logsumexp, softmax

from pmlda.errors import PmldaError
from pmlda.families.base import (
    NO_SPREAD,
    Family,
    Terms,
    check_settings,
    log_gamma_density,
    log_inverse_gamma_density,
    mix_rows,
    setting,
    sized,
)
from pmlda.families.coordinates import Coordinates, Log, Logit, Simplex
from pmlda.families.newton import step_by_feature
from pmlda.families.rows import column_means
from pmlda.families.sparse import as_floats, column_sums, row_sums, stored
from pmlda.types import Documents, FloatArray, Topics
from pmlda.validate import require, whole

# A probability or rate is kept this far from the edge of its domain, so that its logarithm is always finite.
EDGE = 1e-15
MOST_SYMBOLS = 10_000
# Newton's step multiplies no rate, and no odds, by more than e to the power of this.
LONGEST_STEP = 2.0


class _Independent(Family):
    """Means alone, one for each feature, which does not know of the others given the memberships."""

    def count_bends(self, q: int) -> int:
        return q

    def newton_step(self, topics: Topics, slopes: Topics, bends: FloatArray) -> Topics:
        each = self.eta_slopes(topics)
        bends = bends * (each[:, None] * each)
        bends[np.arange(len(each)), np.arange(len(each))] += self.prior_bends(topics)
        return Topics(step_by_feature(bends, slopes.means, LONGEST_STEP), NO_SPREAD)

    def eta_slopes(self, topics: Topics) -> FloatArray:
        """(K, p) ∂η / ∂ the free coordinate; 1 where they are the same."""
        return np.ones_like(topics.means)

    @abstractmethod
    def prior_bends(self, topics: Topics) -> FloatArray:
        """(K, p) minus the second derivatives of log_free_prior along the free coordinates."""


def _prior(each: FloatArray) -> Terms:
    """Terms of a family that has means alone, from log densities (K, p)."""
    return Terms(np.asarray(each.sum(axis=1)), np.zeros(0))


@dataclass(frozen=True, eq=False)
class Poisson(_Independent):
    """Counts with rates λ_kj ~ Gamma(shape, rate_j): η = ln λ, T(x) = x, A(η) = Σ e^η. Rates mix geometrically.

    rate : (p,) by default such that the prior mean is the mean of the data.
    """

    name: ClassVar[str] = "poisson"
    code: ClassVar[int] = 1
    takes_sparse: ClassVar[bool] = True
    mean_coordinates: ClassVar[Coordinates] = Log()
    shape: float = 1.0
    rate: FloatArray | None = None

    def __post_init__(self) -> None:
        check_settings(self, shape=(), rate=None)

    def check_words(self, X: NDArray[np.floating], name: str = "poisson") -> None:
        """name : of the family that asks"""
        x = stored(X)
        bad = x[(x < 0) | (np.floor(x) != x)]
        require(
            bad.size == 0,
            f"family={name!r} needs counts (0, 1, 2, …) but got {_example(bad)}. "
            "Give raw counts, or use family='gaussian' or family='gamma' for continuous features.",
        )

    def statistic(self, words: NDArray[np.floating]) -> FloatArray:
        return as_floats(words)  # type: ignore[no-any-return]

    def log_base(self, words: NDArray[np.floating], topics: Topics) -> FloatArray:
        return row_sums(lambda x: -gammaln(x + 1.0), words)

    def draw_words(self, rng: np.random.Generator, eta: FloatArray, topics: Topics) -> FloatArray:
        return rng.poisson(np.exp(eta)).astype(np.float64)

    def expected_words(self, memberships: FloatArray, topics: Topics) -> FloatArray:
        return np.asarray(np.exp(mix_rows(memberships, self.natural(topics))))

    def word_variance(self, memberships: FloatArray, topics: Topics) -> FloatArray:
        return self.expected_words(memberships, topics)

    def natural(self, topics: Topics) -> FloatArray:
        return np.asarray(np.log(topics.means))

    def log_partition(self, eta: FloatArray, topics: Topics) -> FloatArray:
        return np.asarray(np.exp(eta).sum(axis=-1))

    def informed_by(self, X: NDArray[np.floating]) -> Self:
        mean = (column_sums(X) + 0.5) / (len(X) + 1)
        return replace(self, rate=sized(self, "rate", self.shape / mean))

    def draw_topics(self, rng: np.random.Generator, n_topics: int) -> Topics:
        rate = setting(self.rate)
        return Topics(np.maximum(rng.standard_gamma(self.shape, (n_topics, len(rate))), EDGE) / rate, NO_SPREAD)

    def log_prior(self, topics: Topics) -> Terms:
        return _prior(log_gamma_density(topics.means, self.shape, setting(self.rate)))

    def slopes(self, topics: Topics, along_eta: FloatArray) -> Topics:
        return Topics((along_eta + self.shape - 1.0) / topics.means - setting(self.rate), NO_SPREAD)

    def prior_bends(self, topics: Topics) -> FloatArray:
        return topics.means * setting(self.rate)

    def estimate(self, words: NDArray[np.floating], memberships: FloatArray, means: FloatArray) -> Topics:
        return Topics(np.maximum(means, 0.01 * self.shape / setting(self.rate)), NO_SPREAD)


@dataclass(frozen=True, eq=False)
class Bernoulli(_Independent):
    """Zeros and ones with probabilities ~ Beta(a, b): η = logit, T(x) = x, A(η) = Σ ln(1 + e^η)."""

    name: ClassVar[str] = "bernoulli"
    code: ClassVar[int] = 2
    takes_sparse: ClassVar[bool] = True
    mean_coordinates: ClassVar[Coordinates] = Logit()
    a: float = 1.0
    b: float = 1.0
    n_features: int | None = None

    def __post_init__(self) -> None:
        check_settings(self, a=(), b=())
        if self.n_features is not None:
            whole("Bernoulli(n_features)", self.n_features, 1)

    def check_words(self, X: NDArray[np.floating]) -> None:
        x = stored(X)
        bad = x[(x != 0) & (x != 1)]
        require(
            bad.size == 0,
            f"family='bernoulli' needs zeros and ones but got {_example(bad)}. "
            "Threshold the features first (sklearn.preprocessing.Binarizer), or choose another family.",
        )

    def statistic(self, words: NDArray[np.floating]) -> FloatArray:
        return as_floats(words)  # type: ignore[no-any-return]

    def log_base(self, words: NDArray[np.floating], topics: Topics) -> FloatArray:
        return np.zeros(len(words))

    def draw_words(self, rng: np.random.Generator, eta: FloatArray, topics: Topics) -> FloatArray:
        return (rng.random(eta.shape) < expit(eta)).astype(np.float64)

    def expected_words(self, memberships: FloatArray, topics: Topics) -> FloatArray:
        return np.asarray(expit(mix_rows(memberships, self.natural(topics))))

    def word_variance(self, memberships: FloatArray, topics: Topics) -> FloatArray:
        mean = self.expected_words(memberships, topics)
        return mean * (1.0 - mean)

    def natural(self, topics: Topics) -> FloatArray:
        return np.asarray(logit(topics.means))

    def log_partition(self, eta: FloatArray, topics: Topics) -> FloatArray:
        return np.asarray(np.logaddexp(0.0, eta).sum(axis=-1))

    def informed_by(self, X: NDArray[np.floating]) -> Self:
        require(
            self.n_features in {None, X.shape[1]},
            f"Bernoulli(n_features={self.n_features}) but X has {X.shape[1]} columns. Leave n_features out.",
        )
        return replace(self, n_features=X.shape[1])

    def draw_topics(self, rng: np.random.Generator, n_topics: int) -> Topics:
        if self.n_features is None:
            raise PmldaError("Bernoulli.n_features was left open. Call family.informed_by(X) first, or give it.")
        draws = rng.beta(self.a, self.b, (n_topics, self.n_features))
        return Topics(np.clip(draws, EDGE, 1.0 - EDGE), NO_SPREAD)

    def log_prior(self, topics: Topics) -> Terms:
        p = topics.means
        return _prior((self.a - 1.0) * np.log(p) + (self.b - 1.0) * np.log1p(-p) - betaln(self.a, self.b))

    def slopes(self, topics: Topics, along_eta: FloatArray) -> Topics:
        p = topics.means
        return Topics((along_eta + self.a - 1.0) / p + (along_eta - self.b + 1.0) / (1.0 - p), NO_SPREAD)

    def prior_bends(self, topics: Topics) -> FloatArray:
        return (self.a + self.b) * topics.means * (1.0 - topics.means)

    def estimate(self, words: NDArray[np.floating], memberships: FloatArray, means: FloatArray) -> Topics:
        return Topics(np.clip(means, 0.01, 0.99), NO_SPREAD)


@dataclass(frozen=True, eq=False)
class Gamma(_Independent):
    """Positive numbers of known shape, such as L-look speckle: rates b_kj ~ Gamma(a, r_j) mix, means are shape / b.

    η = −b, T(x) = x, A(η) = −shape Σ ln(−η).

    shape : known, not estimated: for speckle the number of looks; 1 is single-look intensity
    prior_rate : (p,) r; by default such that the prior mean of b fits the mean of the data
    """

    name: ClassVar[str] = "gamma"
    code: ClassVar[int] = 3
    mean_coordinates: ClassVar[Coordinates] = Log()
    shape: float = 1.0
    prior_shape: float = 2.0
    prior_rate: FloatArray | None = None

    def __post_init__(self) -> None:
        check_settings(self, shape=(), prior_shape=(), prior_rate=None)

    @property
    def constant(self) -> float:
        """The known shape."""
        return float(self.shape)

    def check_words(self, X: NDArray[np.floating]) -> None:
        bad = X[X <= 0]
        require(
            bad.size == 0,
            f"family='gamma' needs positive features but got {_example(bad)}. "
            "Leave out or offset such values (of pictures: nodata=0 leaves zeros out), give intensities rather than "
            "decibels, or use family='gaussian'.",
        )

    def statistic(self, words: NDArray[np.floating]) -> FloatArray:
        return np.asarray(words, dtype=np.float64)

    def log_base(self, words: NDArray[np.floating], topics: Topics) -> FloatArray:
        x = np.asarray(words, dtype=np.float64)
        return np.asarray(((self.shape - 1.0) * np.log(x) - gammaln(self.shape)).sum(axis=1))

    def draw_words(self, rng: np.random.Generator, eta: FloatArray, topics: Topics) -> FloatArray:
        return np.asarray(np.maximum(rng.standard_gamma(self.shape, eta.shape), 1e-300) / -eta)

    def expected_words(self, memberships: FloatArray, topics: Topics) -> FloatArray:
        return np.asarray(-self.shape / mix_rows(memberships, self.natural(topics)))

    def word_variance(self, memberships: FloatArray, topics: Topics) -> FloatArray:
        return self.expected_words(memberships, topics) ** 2 / self.shape

    def natural(self, topics: Topics) -> FloatArray:
        return np.asarray(-self.shape / topics.means)

    def log_partition(self, eta: FloatArray, topics: Topics) -> FloatArray:
        return np.asarray(-self.shape * np.log(-eta).sum(axis=-1))

    def informed_by(self, X: NDArray[np.floating]) -> Self:
        rate = self.prior_shape * column_means(X) / self.shape
        return replace(self, prior_rate=sized(self, "prior_rate", rate))

    def draw_topics(self, rng: np.random.Generator, n_topics: int) -> Topics:
        rate = setting(self.prior_rate)
        b = np.maximum(rng.standard_gamma(self.prior_shape, (n_topics, len(rate))), EDGE) / rate
        return Topics(self.shape / b, NO_SPREAD)

    def log_prior(self, topics: Topics) -> Terms:
        """The density of the mean shape / b, an inverse gamma."""
        return _prior(log_inverse_gamma_density(topics.means, self.prior_shape, self.shape * setting(self.prior_rate)))

    def slopes(self, topics: Topics, along_eta: FloatArray) -> Topics:
        m = topics.means
        return Topics(
            self.shape * (along_eta + setting(self.prior_rate)) / m**2 - (self.prior_shape + 1.0) / m, NO_SPREAD
        )

    def eta_slopes(self, topics: Topics) -> FloatArray:
        return self.shape / topics.means

    def prior_bends(self, topics: Topics) -> FloatArray:
        return self.shape * setting(self.prior_rate) / topics.means

    def estimate(self, words: NDArray[np.floating], memberships: FloatArray, means: FloatArray) -> Topics:
        floor = 0.01 * self.shape * setting(self.prior_rate) / self.prior_shape
        return Topics(np.maximum(means, floor), NO_SPREAD)


@dataclass(frozen=True, eq=False)
class Categorical(_Independent):
    """One of V symbols per word, such as a quantised visual word: X has one column of integers 0 … V − 1.

    θ_k ~ Dir(concentration · 1_V), η = ln θ, T(x) = the indicator of x, A(η) = ln Σ_v e^η_v. Topics.means is θ (K, V).

    n_symbols : V; by default the largest symbol seen, plus one.
    """

    name: ClassVar[str] = "categorical"
    code: ClassVar[int] = 4
    mean_coordinates: ClassVar[Coordinates] = Simplex()
    means_among_words: ClassVar[bool] = False
    # It does, but to topics that are too sharp: with three topics or more E[A] errs downwards there.
    creeps: ClassVar[bool] = False
    concentration: float = 1.0
    n_symbols: int | None = None

    def __post_init__(self) -> None:
        check_settings(self, concentration=())
        if self.n_symbols is not None:
            whole("Categorical(n_symbols)", self.n_symbols, 1)

    def check_words(self, X: NDArray[np.floating]) -> None:
        require(
            X.shape[1] == 1,
            f"family='categorical' needs one column, the number of each word's symbol, but got {X.shape[1]}. "
            "Quantise the features first, for instance with sklearn.cluster.KMeans(100).fit_predict(X)[:, None].",
        )
        top = np.inf if self.n_symbols is None else self.n_symbols
        bad = X[(X < 0) | (np.floor(X) != X) | (top <= X)]
        require(
            X.max(initial=0) < MOST_SYMBOLS,
            f"family='categorical' allows symbols up to {MOST_SYMBOLS - 1} but got {X.max():g}. "
            "Number the symbols that occur from 0 (sklearn.preprocessing.OrdinalEncoder).",
        )
        expected = "0, 1, 2, …" if self.n_symbols is None else f"0 to {self.n_symbols - 1}"
        require(
            bad.size == 0,
            f"family='categorical' needs the symbols {expected} but got {_example(bad)}. "
            "Number the symbols from 0 (sklearn.preprocessing.OrdinalEncoder); for symbols that training data lack, "
            "use family=Categorical(n_symbols=…).",
        )

    @property
    def _size(self) -> int:
        """V, which must be known by now."""
        if self.n_symbols is None:
            raise PmldaError("Categorical.n_symbols was left open. Call family.informed_by(X) first, or give it.")
        return self.n_symbols

    def mean_words(self, means: FloatArray) -> FloatArray:
        """(K, 1) the mean number of a symbol."""
        return np.asarray(means @ np.arange(means.shape[1], dtype=np.float64))[:, None]

    def n_values(self, n_features: int) -> int:
        """V probabilities, of words with one column."""
        return self._size

    def starting_points(self, rng: np.random.Generator, documents: Documents, n_most: int) -> FloatArray:
        """(D, V) how often each symbol occurs in each of some documents: a fifth of n_most, as each has many words."""
        n_documents = len(documents.sizes)
        chosen = np.sort(rng.choice(n_documents, min(n_documents, n_most // 5), replace=False))
        rows = [
            self.weighted_statistic(np.ones((last - first, 1)), documents.words[first:last])[0]
            for first, last in zip(documents.starts[chosen], documents.starts[chosen + 1], strict=True)
        ]
        counts = np.stack(rows)
        return np.asarray(counts / counts.sum(axis=1, keepdims=True))

    def statistic(self, words: NDArray[np.floating]) -> FloatArray:
        return np.asarray(words[:, :1] == np.arange(self._size), dtype=np.float64)

    def as_means(self, words: NDArray[np.floating]) -> FloatArray:
        return self.statistic(words)

    def scores(self, words: NDArray[np.floating], topics: Topics) -> FloatArray:
        """Looked up rather than multiplied: the indicator of x picks one column."""
        return np.ascontiguousarray(self.natural(topics)[:, words[:, 0].astype(np.intp)].T)

    def weighted_statistic(self, memberships: FloatArray, words: NDArray[np.floating]) -> FloatArray:
        symbols = words[:, 0].astype(np.intp)
        counts = [np.bincount(symbols, z, self._size) for z in memberships.T]
        return np.asarray(counts, dtype=np.float64)

    def log_base(self, words: NDArray[np.floating], topics: Topics) -> FloatArray:
        return np.zeros(len(words))

    def draw_words(self, rng: np.random.Generator, eta: FloatArray, topics: Topics) -> FloatArray:
        # The largest of η + Gumbel noise is a draw from softmax(η).
        return np.asarray(np.argmax(eta + rng.gumbel(size=eta.shape), axis=1)[:, None], dtype=np.float64)

    def expected_words(self, memberships: FloatArray, topics: Topics) -> FloatArray:
        """(N, V) probabilities: a category has no mean."""
        return np.asarray(softmax(mix_rows(memberships, self.natural(topics)), axis=1))

    def natural(self, topics: Topics) -> FloatArray:
        return np.asarray(np.log(topics.means))

    def log_partition(self, eta: FloatArray, topics: Topics) -> FloatArray:
        return np.asarray(logsumexp(eta, axis=-1))

    def informed_by(self, X: NDArray[np.floating]) -> Self:
        n_symbols = int(X.max()) + 1 if self.n_symbols is None else self.n_symbols
        return replace(self, n_symbols=n_symbols)

    def allows(self, topics: Topics) -> bool:
        return super().allows(topics) and bool(np.allclose(topics.means.sum(axis=1), 1.0, atol=1e-6))

    def draw_topics(self, rng: np.random.Generator, n_topics: int) -> Topics:
        theta = rng.dirichlet(np.full(self._size, float(self.concentration)), size=n_topics)
        return Topics(np.maximum(theta, 1e-300), NO_SPREAD)

    def log_prior(self, topics: Topics) -> Terms:
        v, c = self._size, self.concentration
        constant = gammaln(v * c) - v * gammaln(c)
        return Terms(np.asarray(constant + (c - 1.0) * np.log(topics.means).sum(axis=1)), np.zeros(0))

    def slopes(self, topics: Topics, along_eta: FloatArray) -> Topics:
        return Topics((along_eta + self.concentration - 1.0) / topics.means, NO_SPREAD)

    def prior_bends(self, topics: Topics) -> FloatArray:
        """Without what ties symbols to each other, as the bends of A: an upper bound, so that steps are short."""
        return self.concentration * self._size * topics.means

    def estimate(self, words: NDArray[np.floating], memberships: FloatArray, means: FloatArray) -> Topics:
        smoothed = np.maximum(means, 0.0) + 1e-3 / self._size
        return Topics(smoothed / smoothed.sum(axis=1, keepdims=True), NO_SPREAD)


def _example(bad: NDArray[np.floating]) -> str:
    """The first offending value, and how many there are."""
    return (
        repr(float(bad.flat[0])) + (f" and {bad.size - 1} more such values" if bad.size > 1 else "") if bad.size else ""
    )
