"""Gaussian topics with one covariance for all: η_k = Σ⁻¹μ_k, T(x) = x, A(η) = ½ ηᵀΣη."""

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from pmlda.families.base import LOG_2PI, Conditional, Conjugate, Terms, mix_rows, row_means
from pmlda.families.coordinates import Coordinates
from pmlda.families.means import NormalMeans
from pmlda.families.noise import GivenSpread, IsotropicNoise, Noise
from pmlda.types import BoolArray, FloatArray, Statistics, Topics
from pmlda.validate import brief, require


@dataclass(frozen=True, eq=False)
class Gaussian(Conjugate):
    """x ~ N(Σ_k z_k μ_k, Σ): means mix, the noise is the same everywhere (the paper's model).

    Because A(Σ z_k η_k) = ½ zᵀGz with G = MΣ⁻¹Mᵀ (K×K), a candidate membership costs O(K²), whatever the number of
    features, and topics are judged from ZᵀZ and ZᵀX without a pass over the words.
    """

    name: ClassVar[str] = "gaussian"
    code: ClassVar[int] = 0
    quadratic: ClassVar[bool] = True
    creeps: ClassVar[bool] = False
    noise: Noise = field(default_factory=IsotropicNoise)
    means: NormalMeans = field(default_factory=NormalMeans)

    def __post_init__(self) -> None:
        require(
            isinstance(self.noise, Noise) and isinstance(self.means, NormalMeans),
            f"Gaussian(noise={brief(self.noise)}, means={brief(self.means)}): give a Noise such as FullNoise(), and "
            "NormalMeans.",
        )

    @property
    def spread_coordinates(self) -> Coordinates:
        """Those of the noise."""
        return self.noise.coordinates

    def statistic(self, words: NDArray[np.floating]) -> FloatArray:
        return np.asarray(words, dtype=np.float64)

    def log_base(self, words: NDArray[np.floating], topics: Topics) -> FloatArray:
        x = np.asarray(words, dtype=np.float64)
        squares = (x * self.noise.solve(topics.spread, x)).sum(axis=1)
        p = x.shape[1]
        return np.asarray(-0.5 * (squares + self.noise.log_determinant(topics.spread, p) + p * LOG_2PI))

    def draw_words(self, rng: np.random.Generator, eta: FloatArray, topics: Topics) -> FloatArray:
        white = rng.standard_normal(eta.shape)
        return self.noise.times(topics.spread, eta) + self.noise.shake(topics.spread, white)

    def expected_words(self, memberships: FloatArray, topics: Topics) -> FloatArray:
        return mix_rows(memberships, topics.means)

    def word_variance(self, memberships: FloatArray, topics: Topics) -> FloatArray:
        spread = np.diag(topics.spread) if topics.spread.ndim == 2 else topics.spread
        return np.broadcast_to(spread, (len(memberships), topics.means.shape[1]))

    def misfit(self, words: NDArray[np.floating], memberships: FloatArray, topics: Topics) -> FloatArray | None:
        if topics.spread.ndim < 2:
            return super().misfit(words, memberships, topics)
        white = np.linalg.inv(np.linalg.cholesky(topics.spread)).T
        return row_means(mix_rows(words - self.expected_words(memberships, topics), white) ** 2)

    def natural(self, topics: Topics) -> FloatArray:
        return self.noise.solve(topics.spread, topics.means)

    def log_partition(self, eta: FloatArray, topics: Topics) -> FloatArray:
        return np.asarray(0.5 * (eta * self.noise.times(topics.spread, eta)).sum(axis=-1))

    def table(self, topics: Topics) -> FloatArray:
        """(K, K) the matrix G = M Σ⁻¹ Mᵀ."""
        return topics.means @ self.natural(topics).T

    @property
    def has_location(self) -> bool:
        """Means mix with weights that sum to one, so a common shift of words and means cancels."""
        return True

    def feature_scale(self, words: NDArray[np.floating]) -> FloatArray:
        if self.noise.one_unit:
            return np.full(words.shape[1], max(float(words.std(dtype=np.float64)), 1e-300))
        return super().feature_scale(words)

    def shifted(self, offset: FloatArray) -> Self:
        return replace(self, means=self.means.shifted(offset))

    def summarise(self, words: NDArray[np.floating]) -> FloatArray:
        """(p, p) XᵀX."""
        x = np.asarray(words, dtype=np.float64)
        return x.T @ x

    def log_base_total(self, summary: FloatArray, n_words: int, topics: Topics) -> float:
        p = len(summary)
        squares = float(self.noise.solve(topics.spread, summary).trace())
        return -0.5 * (squares + n_words * (self.noise.log_determinant(topics.spread, p) + p * LOG_2PI))

    def partition_from_gram(self, topics: Topics, gram: FloatArray) -> float:
        """½ tr(G ZᵀZ)."""
        return 0.5 * float((self.table(topics) * gram).sum())

    def gains_by_mean(self, topics: Topics, means: FloatArray, statistics: Statistics) -> FloatArray:
        """δΣ⁻¹r − ½ (ZᵀZ)_kk δΣ⁻¹δ, with δ the change of mean k and r row k of ZᵀX − ZᵀZ M."""
        change = means - topics.means
        scaled = self.noise.solve(topics.spread, change)
        gram = statistics.gram
        residual = statistics.weighted - gram @ topics.means - (0.5 * gram.diagonal())[:, None] * change
        return np.asarray((scaled * residual).sum(axis=1))

    @property
    def can_be_bounded(self) -> bool:
        return True

    def bounded(self, low: Any, high: Any) -> Self:
        return replace(self, means=replace(self.means, low=low, high=high))

    def knowing(self, means: Any, spread: Any) -> Self:
        return replace(self, means=replace(self.means, known=means, known_spread=spread))

    @property
    def known_means(self) -> FloatArray | None:
        return self.means.known

    @property
    def exact_means(self) -> BoolArray | None:
        return self.means.exact

    def nearest(self, means: FloatArray) -> FloatArray:
        return self.means.nearest(means)

    def given_means(self, topics: Topics, statistics: Statistics) -> Conditional:
        precision = self.noise.solve(topics.spread, np.eye(topics.means.shape[1]))
        return self.means.given(statistics, precision, topics.means)

    def given_spread(
        self, means: FloatArray, statistics: Statistics, summary: FloatArray, n_words: float
    ) -> GivenSpread:
        """From the scatter Σ_n E[(x − Mᵀz)(x − Mᵀz)ᵀ]."""
        cross = statistics.weighted.T @ means
        scatter = np.asarray(summary - cross - cross.T + means.T @ statistics.gram @ means)
        return GivenSpread(self.noise, scatter, n_words)

    def informed_by(self, X: NDArray[np.floating]) -> Self:
        return replace(self, noise=self.noise.informed_by(X), means=self.means.informed_by(X))

    def draw_topics(self, rng: np.random.Generator, n_topics: int) -> Topics:
        return Topics(self.means.draw(rng, n_topics), self.noise.draw(rng))

    def log_prior(self, topics: Topics) -> Terms:
        return Terms(self.means.log_prior(topics.means), self.noise.log_prior(topics.spread))

    def propose(self, rng: np.random.Generator, n_topics: int) -> Topics:
        return Topics(self.means.propose(rng, n_topics), self.noise.draw(rng))

    def log_proposal(self, topics: Topics) -> Terms:
        return Terms(self.means.log_proposal(topics.means), self.noise.log_prior(topics.spread))

    def estimate(self, words: NDArray[np.floating], memberships: FloatArray, means: FloatArray) -> Topics:
        return Topics(means, self.noise.estimate(words - memberships @ means))
