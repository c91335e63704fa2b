"""Gaussian topics, each with its own covariance: precisions mix, Λ = Σ z_k Λ_k, and so do precision-weighted means.

η_k = (Λ_k μ_k, Λ_k), T(x) = (x, −½ x xᵀ), A(η) = ½ η₁ᵀ Λ⁻¹ η₁ − ½ ln|Λ|; the diagonal case keeps diagonals alone.
"""

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from pmlda.families.base import (
    LOG_2PI,
    Family,
    Terms,
    check_numbers,
    check_settings,
    log_inverse_gamma_density,
    mix_rows,
    row_means,
    setting,
    sized,
)
from pmlda.families.coordinates import Cholesky, Coordinates, Log
from pmlda.families.means import NormalMeans
from pmlda.families.newton import mirror, step_by_feature
from pmlda.families.noise import (
    draw_inverse_wishart,
    inverse_wishart_settings,
    log_inverse_wishart,
    require_varying,
    setting_number,
)
from pmlda.types import BoolArray, FloatArray, Topics
from pmlda.validate import brief, require

# Newton's step multiplies no variance by more than e to the power of this.
LONGEST_STEP = 2.0


class _TopicGaussian(Family):
    """What the diagonal and the full case share: the means, and a base measure without parameters."""

    spread_per_topic: ClassVar[bool] = True
    means: NormalMeans

    @property
    def has_location(self) -> bool:
        """Moving words and means together moves Λ⁻¹ Σ z_k Λ_k μ_k by the same amount."""
        return True

    def __post_init__(self) -> None:
        require(isinstance(self.means, NormalMeans), f"means={brief(self.means)}: give NormalMeans.")
        require(
            self.means.low is None and self.means.high is None,
            "NormalMeans(low, high) were given, but means of topics with covariances of their own cannot be bounded. "
            "Leave them out, or use Gaussian.",
        )

    @abstractmethod
    def shifted(self, offset: FloatArray) -> Self: ...

    @abstractmethod
    def knowing(self, means: Any, spread: Any) -> Self: ...

    @property
    def known_means(self) -> FloatArray | None:
        return self.means.known

    @property
    def exact_means(self) -> BoolArray | None:
        return self.means.exact

    def nearest(self, means: FloatArray) -> FloatArray:
        return self.means.nearest(means)

    def log_base(self, words: NDArray[np.floating], topics: Topics) -> FloatArray:
        return np.full(len(words), -0.5 * topics.means.shape[1] * LOG_2PI)

    def propose(self, rng: np.random.Generator, n_topics: int) -> Topics:
        return Topics(self.means.propose(rng, n_topics), self.draw_topics(rng, n_topics).spread)

    def log_proposal(self, topics: Topics) -> Terms:
        return Terms(self.means.log_proposal(topics.means), self.log_prior(topics).spread)


@dataclass(frozen=True, eq=False)
class TopicDiagonalGaussian(_TopicGaussian):
    """Independent features, a variance for each topic and feature: σ²_kj ~ InverseGamma(shape, scale_j).

    scale : (p,) by default a quarter of the variance of the data, the prior mean at shape 2.
    """

    name: ClassVar[str] = "gaussian, diagonal covariance per topic"
    code: ClassVar[int] = 5
    shape: float = 2.0
    scale: FloatArray | None = None
    means: NormalMeans = field(default_factory=NormalMeans)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_settings(self, shape=(), scale=None)

    @property
    def spread_coordinates(self) -> Coordinates:
        """Variances are positive."""
        return Log()

    def statistic(self, words: NDArray[np.floating]) -> FloatArray:
        x = np.asarray(words, dtype=np.float64)
        return np.hstack([x, -0.5 * x**2])

    def natural(self, topics: Topics) -> FloatArray:
        return np.hstack([topics.means / topics.spread, 1.0 / topics.spread])

    def expected_words(self, memberships: FloatArray, topics: Topics) -> FloatArray:
        first, precision = np.split(mix_rows(memberships, self.natural(topics)), 2, axis=-1)
        return np.asarray(first / precision)

    def word_variance(self, memberships: FloatArray, topics: Topics) -> FloatArray:
        return np.asarray(1.0 / mix_rows(memberships, 1.0 / topics.spread))

    def log_partition(self, eta: FloatArray, topics: Topics) -> FloatArray:
        first, precision = np.split(eta, 2, axis=-1)
        return np.asarray(0.5 * (first**2 / precision - np.log(precision)).sum(axis=-1))

    def draw_words(self, rng: np.random.Generator, eta: FloatArray, topics: Topics) -> FloatArray:
        first, precision = np.split(eta, 2, axis=-1)
        return np.asarray(first / precision + rng.standard_normal(first.shape) / np.sqrt(precision))

    def shifted(self, offset: FloatArray) -> Self:
        return replace(self, means=self.means.shifted(offset))

    def knowing(self, means: Any, spread: Any) -> Self:
        return replace(self, means=replace(self.means, known=means, known_spread=spread))

    def informed_by(self, X: NDArray[np.floating]) -> Self:
        require_varying(X)
        scale = sized(self, "scale", 0.25 * X.var(axis=0, dtype=np.float64))
        return replace(self, scale=scale, means=self.means.informed_by(X))

    def draw_topics(self, rng: np.random.Generator, n_topics: int) -> Topics:
        scale = setting(self.scale)
        variances = scale / rng.standard_gamma(self.shape, (n_topics, len(scale)))
        return Topics(self.means.draw(rng, n_topics), variances)

    def log_prior(self, topics: Topics) -> Terms:
        each = log_inverse_gamma_density(topics.spread, self.shape, setting(self.scale))
        return Terms(self.means.log_prior(topics.means), each.sum(axis=1))

    def slopes(self, topics: Topics, along_eta: FloatArray) -> Topics:
        m, v = topics
        along_first, along_precision = np.split(along_eta, 2, axis=1)
        spread = (setting(self.scale) - along_precision - along_first * m) / v**2 - (self.shape + 1.0) / v
        return Topics(along_first / v + self.means.slopes(m), spread)

    def count_bends(self, q: int) -> int:
        return 3 * q // 2

    def newton_step(self, topics: Topics, slopes: Topics, bends: FloatArray) -> Topics:
        """Means and logarithms of variances together: −m/v and −1/v are the slopes of η along the latter."""
        m, v = topics
        k, n = len(m), np.arange(len(m))
        square, cross, quartic = (mirror(part) / (v[:, None] * v) for part in np.split(bends, 3, axis=2))
        both = np.empty((2 * k, 2 * k, m.shape[1]))
        both[:k, :k] = square
        both[k:, :k] = cross - m[:, None] * square
        both[k:, k:] = quartic + m[:, None] * m * square - (m[:, None] + m) * cross
        both[n, n] += self.means.bends(m)
        both[k + n, k + n] += setting(self.scale) / v
        step = step_by_feature(both, np.vstack([slopes.means, slopes.spread]), np.inf)
        longest = np.abs(step[k:]).max(axis=0) / LONGEST_STEP
        return Topics(*np.split(step / np.maximum(longest, 1.0), 2))

    def estimate(self, words: NDArray[np.floating], memberships: FloatArray, means: FloatArray) -> Topics:
        residuals = words - memberships @ means
        scale = setting(self.scale)
        weight = memberships.sum(axis=0)[:, None]
        # The prior enters as two words of its own scale, so a topic without words has a variance too.
        return Topics(means, (memberships.T @ residuals**2 + 2 * scale) / (weight + 2))


@dataclass(frozen=True, eq=False)
class TopicFullGaussian(_TopicGaussian):
    """Any covariance for each topic, with an inverse Wishart prior (settings as in FullNoise)."""

    name: ClassVar[str] = "gaussian, full covariance per topic"
    code: ClassVar[int] = 6
    degrees: float | None = None
    scale: FloatArray | None = None
    means: NormalMeans = field(default_factory=NormalMeans)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_settings(self, degrees=())
        check_numbers(self, scale=(0, 2))

    @property
    def spread_coordinates(self) -> Coordinates:
        """Covariances are positive definite."""
        return Cholesky()

    def statistic(self, words: NDArray[np.floating]) -> FloatArray:
        x = np.asarray(words, dtype=np.float64)
        outer = x[:, :, None] * x[:, None, :]
        return np.hstack([x, -0.5 * outer.reshape(len(x), -1)])

    def natural(self, topics: Topics) -> FloatArray:
        precision = np.linalg.inv(topics.spread)
        first = np.einsum("kij,kj->ki", precision, topics.means)
        return np.hstack([first, precision.reshape(len(first), -1)])

    def expected_words(self, memberships: FloatArray, topics: Topics) -> FloatArray:
        first, precision = _split_full(mix_rows(memberships, self.natural(topics)))
        return np.asarray(np.linalg.solve(precision, first[..., None])[..., 0])

    def word_variance(self, memberships: FloatArray, topics: Topics) -> FloatArray:
        precision = _split_full(mix_rows(memberships, self.natural(topics)))[1]
        return np.asarray(np.diagonal(np.linalg.inv(precision), axis1=1, axis2=2))

    def misfit(self, words: NDArray[np.floating], memberships: FloatArray, topics: Topics) -> FloatArray:
        away = words - self.expected_words(memberships, topics)
        precision = _split_full(mix_rows(memberships, self.natural(topics)))[1]
        pulled = np.stack([row_means(away * row) for row in np.moveaxis(precision, 1, 0)], axis=1)
        return np.asarray(row_means(away * pulled) * away.shape[1])

    def log_partition(self, eta: FloatArray, topics: Topics) -> FloatArray:
        first, precision = _split_full(eta)
        mean = np.linalg.solve(precision, first[..., None])[..., 0]
        return np.asarray(0.5 * (first * mean).sum(axis=-1) - 0.5 * np.linalg.slogdet(precision)[1])

    def draw_words(self, rng: np.random.Generator, eta: FloatArray, topics: Topics) -> FloatArray:
        first, precision = _split_full(eta)
        mean = np.linalg.solve(precision, first[..., None])[..., 0]
        # If Λ = LLᵀ then L⁻ᵀ ε has covariance Λ⁻¹.
        upper = np.swapaxes(np.linalg.cholesky(precision), -1, -2)
        return np.asarray(mean + np.linalg.solve(upper, rng.standard_normal((*first.shape, 1)))[..., 0])

    def shifted(self, offset: FloatArray) -> Self:
        return replace(self, means=self.means.shifted(offset))

    def knowing(self, means: Any, spread: Any) -> Self:
        return replace(self, means=replace(self.means, known=means, known_spread=spread))

    def informed_by(self, X: NDArray[np.floating]) -> Self:
        degrees, scale = inverse_wishart_settings(X, self.degrees, self.scale)
        return replace(self, degrees=degrees, scale=scale, means=self.means.informed_by(X))

    def draw_topics(self, rng: np.random.Generator, n_topics: int) -> Topics:
        covariances = draw_inverse_wishart(rng, self.degrees, setting(self.scale), n_topics)
        return Topics(self.means.draw(rng, n_topics), covariances)

    def log_prior(self, topics: Topics) -> Terms:
        spread = log_inverse_wishart(topics.spread, self.degrees, setting(self.scale))
        return Terms(self.means.log_prior(topics.means), spread)

    def slopes(self, topics: Topics, along_eta: FloatArray) -> Topics:
        """With Λ = Σ⁻¹, dΛ = −Λ dΣ Λ."""
        p, precision = topics.means.shape[1], np.linalg.inv(topics.spread)
        along_first, along_precision = _split_full(along_eta)
        along_precision = along_precision + along_first[:, :, None] * topics.means[:, None, :]
        spread = precision @ (0.5 * setting(self.scale) - along_precision) @ precision
        spread -= 0.5 * (setting_number(self.degrees) + p + 1.0) * precision
        return Topics(np.einsum("kij,kj->ki", precision, along_first) + self.means.slopes(topics.means), spread)

    def estimate(self, words: NDArray[np.floating], memberships: FloatArray, means: FloatArray) -> Topics:
        residuals = words - memberships @ means
        p = means.shape[1]
        scatter = np.stack([(residuals * z[:, None]).T @ residuals for z in memberships.T])
        weight = memberships.sum(axis=0)[:, None, None]
        return Topics(means, (scatter + (p + 2) * setting(self.scale)) / (weight + p + 2))


def _split_full(eta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """η (..., p + p²) → Λμ (..., p) and Λ (..., p, p)."""
    p = round((np.sqrt(1 + 4 * eta.shape[-1]) - 1) / 2)
    return eta[..., :p], eta[..., p:].reshape(*eta.shape[:-1], p, p)
