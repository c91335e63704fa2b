"""The covariance that all Gaussian topics share: isotropic, diagonal or full, each with its prior.

Interchangeable: each knows how to multiply by Σ and by Σ⁻¹, its determinant, its prior and how to estimate itself.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincc, gammainccinv, multigammaln

from pmlda.families.base import check_numbers, check_settings, setting, sized
from pmlda.families.coordinates import Cholesky, Coordinates, Log
from pmlda.families.means import data_covariance
from pmlda.families.rows import column_means
from pmlda.types import FloatArray
from pmlda.validate import covariance_matrix, require


class Noise(ABC):
    """A shared covariance Σ, held in Topics.spread."""

    name: ClassVar[str]
    coordinates: ClassVar[Coordinates] = Log()
    one_unit: ClassVar[bool] = False
    """True where all features share one unit, so that their scales matter."""

    @abstractmethod
    def times(self, spread: FloatArray, rows: FloatArray) -> FloatArray:
        """Rows multiplied by Σ."""

    @abstractmethod
    def solve(self, spread: FloatArray, rows: FloatArray) -> FloatArray:
        """Rows multiplied by Σ⁻¹."""

    @abstractmethod
    def log_determinant(self, spread: FloatArray, p: int) -> float:
        """ln |Σ|."""

    @abstractmethod
    def shake(self, spread: FloatArray, white: FloatArray) -> FloatArray:
        """Rows of standard normal numbers turned into N(0, Σ)."""

    @abstractmethod
    def informed_by(self, X: NDArray[np.floating]) -> Self:
        """Prior settings left open, from the data."""

    @abstractmethod
    def draw(self, rng: np.random.Generator) -> FloatArray:
        """Σ from its prior, which is also the proposal."""

    @abstractmethod
    def log_prior(self, spread: FloatArray) -> FloatArray:
        """(U,) log prior density, one entry for each unit that is accepted or rejected by itself."""

    @abstractmethod
    def estimate(self, residuals: FloatArray) -> FloatArray:
        """Σ from residuals (N, p)."""

    @abstractmethod
    def mode(self, scatter: FloatArray, n_words: float) -> FloatArray:
        """The most probable Σ given the scatter of residuals, (p, p)."""

    @abstractmethod
    def draw_given(self, rng: np.random.Generator, scatter: FloatArray, n_words: float) -> FloatArray:
        """Σ from its conditional distribution given the scatter of residuals, (p, p)."""


class GivenSpread(NamedTuple):
    """The conditional distribution of Σ given memberships and means: residuals of n_words words have this scatter."""

    noise: Noise
    scatter: FloatArray
    n_words: float

    @property
    def mode(self) -> FloatArray:
        """The most probable Σ."""
        return self.noise.mode(self.scatter, self.n_words)

    def draw(self, rng: np.random.Generator) -> FloatArray:
        """Σ."""
        return self.noise.draw_given(rng, self.scatter, self.n_words)


@dataclass(frozen=True, eq=False)
class IsotropicNoise(Noise):
    """Σ = σ²I with σ² ~ U(0, bound), the paper's case. Topics.spread is σ², shape ()."""

    name: ClassVar[str] = "isotropic"
    one_unit: ClassVar[bool] = True
    bound: FloatArray | None = None

    def __post_init__(self) -> None:
        check_settings(self, bound=())

    def times(self, spread: FloatArray, rows: FloatArray) -> FloatArray:
        return rows * spread

    def solve(self, spread: FloatArray, rows: FloatArray) -> FloatArray:
        return rows / spread

    def log_determinant(self, spread: FloatArray, p: int) -> float:
        return p * float(np.log(spread))

    def shake(self, spread: FloatArray, white: FloatArray) -> FloatArray:
        return white * np.sqrt(spread)

    def informed_by(self, X: NDArray[np.floating]) -> Self:
        """The paper's interval: half the range of squared distances to the mean of the data."""
        deviations = X - column_means(X)
        squares = np.einsum("ij,ij->i", deviations, deviations)
        return replace(self, bound=sized(self, "bound", np.asarray(half_range(squares))))

    def draw(self, rng: np.random.Generator) -> FloatArray:
        return np.asarray(setting(self.bound) * (1.0 - rng.random()))

    def log_prior(self, spread: FloatArray) -> FloatArray:
        return log_uniform(np.atleast_1d(spread), np.atleast_1d(setting(self.bound)))

    def estimate(self, residuals: FloatArray) -> FloatArray:
        return np.minimum(positive((residuals**2).mean(), setting(self.bound)), setting(self.bound))

    def mode(self, scatter: FloatArray, n_words: float) -> FloatArray:
        bound = setting(self.bound)
        return np.minimum(positive(np.trace(scatter) / (n_words * len(scatter)), bound), bound)

    def draw_given(self, rng: np.random.Generator, scatter: FloatArray, n_words: float) -> FloatArray:
        shape = 0.5 * n_words * len(scatter) - 1.0
        return draw_variance(rng, shape, 0.5 * np.trace(scatter), setting(self.bound))


@dataclass(frozen=True, eq=False)
class DiagonalNoise(Noise):
    """Σ = diag(σ_1², …, σ_p²) with σ_j² ~ U(0, bound_j). Topics.spread has shape (p,)."""

    name: ClassVar[str] = "diagonal"
    bound: FloatArray | None = None

    def __post_init__(self) -> None:
        check_settings(self, bound=None)

    def times(self, spread: FloatArray, rows: FloatArray) -> FloatArray:
        return rows * spread

    def solve(self, spread: FloatArray, rows: FloatArray) -> FloatArray:
        return rows / spread

    def log_determinant(self, spread: FloatArray, p: int) -> float:
        return float(np.log(spread).sum())

    def shake(self, spread: FloatArray, white: FloatArray) -> FloatArray:
        return white * np.sqrt(spread)

    def informed_by(self, X: NDArray[np.floating]) -> Self:
        """The paper's interval, feature by feature."""
        require_varying(X)
        squares = (X - column_means(X)) ** 2
        return replace(self, bound=sized(self, "bound", half_range(squares)))

    def draw(self, rng: np.random.Generator) -> FloatArray:
        bound = setting(self.bound)
        return bound * (1.0 - rng.random(bound.shape))

    def log_prior(self, spread: FloatArray) -> FloatArray:
        return log_uniform(spread, setting(self.bound))

    def estimate(self, residuals: FloatArray) -> FloatArray:
        return np.minimum(positive((residuals**2).mean(axis=0), setting(self.bound)), setting(self.bound))

    def mode(self, scatter: FloatArray, n_words: float) -> FloatArray:
        bound = setting(self.bound)
        return np.minimum(positive(np.diag(scatter) / n_words, bound), bound)

    def draw_given(self, rng: np.random.Generator, scatter: FloatArray, n_words: float) -> FloatArray:
        return draw_variance(rng, 0.5 * n_words - 1.0, 0.5 * np.diag(scatter), setting(self.bound))


@dataclass(frozen=True, eq=False)
class FullNoise(Noise):
    """Any Σ, with an inverse Wishart prior. Topics.spread has shape (p, p).

    degrees : degrees of freedom, more than p − 1; by default p + 2, the least informative with a finite mean
    scale : (p, p) scale matrix; by default a quarter of the covariance of the data
    """

    name: ClassVar[str] = "full"
    coordinates: ClassVar[Coordinates] = Cholesky()
    degrees: float | None = None
    scale: FloatArray | None = None

    def __post_init__(self) -> None:
        check_settings(self, degrees=())
        check_numbers(self, scale=(0, 2))

    def times(self, spread: FloatArray, rows: FloatArray) -> FloatArray:
        return rows @ spread

    def solve(self, spread: FloatArray, rows: FloatArray) -> FloatArray:
        return np.asarray(np.linalg.solve(spread, rows.T).T, dtype=np.float64)

    def log_determinant(self, spread: FloatArray, p: int) -> float:
        return float(np.linalg.slogdet(spread)[1])

    def shake(self, spread: FloatArray, white: FloatArray) -> FloatArray:
        return white @ np.linalg.cholesky(spread).T

    def informed_by(self, X: NDArray[np.floating]) -> Self:
        degrees, scale = inverse_wishart_settings(X, self.degrees, self.scale)
        return replace(self, degrees=degrees, scale=scale)

    def draw(self, rng: np.random.Generator) -> FloatArray:
        return np.asarray(draw_inverse_wishart(rng, self.degrees, setting(self.scale), 1)[0])

    def log_prior(self, spread: FloatArray) -> FloatArray:
        return log_inverse_wishart(spread[None], self.degrees, setting(self.scale))

    def estimate(self, residuals: FloatArray) -> FloatArray:
        # The prior's scale, weighing as much as p + 2 words, keeps the matrix invertible for few words.
        n, p = residuals.shape
        return np.asarray((residuals.T @ residuals + (p + 2) * setting(self.scale)) / (n + p + 2))

    def mode(self, scatter: FloatArray, n_words: float) -> FloatArray:
        return np.asarray((scatter + setting(self.scale)) / (n_words + setting_number(self.degrees) + len(scatter) + 1))

    def draw_given(self, rng: np.random.Generator, scatter: FloatArray, n_words: float) -> FloatArray:
        degrees = setting_number(self.degrees) + n_words
        return np.asarray(draw_inverse_wishart(rng, degrees, scatter + setting(self.scale), 1)[0])


NOISES: dict[str, type[Noise]] = {cls.name: cls for cls in (IsotropicNoise, DiagonalNoise, FullNoise)}


def half_range(squares: FloatArray) -> FloatArray:
    """½{max d² − min d²}; where all distances are equal, ½ max d², so that the interval is never empty."""
    low, high = squares.min(axis=0), squares.max(axis=0)
    bound = 0.5 * np.where(high > low * (1 + 1e-9), high - low, high)
    return np.where(bound > 0, bound, 1.0)


def positive(variance: FloatArray, bound: FloatArray) -> FloatArray:
    """A variance to start from: at least a millionth of its bound, so that noiseless data do not start at zero."""
    return np.asarray(np.maximum(variance, 1e-6 * bound))


def draw_variance(rng: np.random.Generator, shape: float, half_square: FloatArray, bound: FloatArray) -> FloatArray:
    """From the density x^(−shape − 1) exp(−half_square / x) on (0, bound): an inverse gamma, cut off.

    Where that is not a density by itself (shape ≤ 0, one or two words), on a fine grid of ln x.
    """
    half_square = np.maximum(np.asarray(half_square, dtype=np.float64), 1e-12 * bound)
    least = half_square / bound
    if shape > 0:
        # 1/x is Gamma(shape, rate half_square), at least 1/bound.
        upper = gammaincc(shape, least) * (1.0 - rng.random(least.shape))
        precision = gammainccinv(shape, upper)
        if np.all(np.isfinite(precision) & (precision > 0)) and np.all(upper > 1e-280):
            return np.asarray(half_square / np.maximum(precision, least))
    steps = np.linspace(-40.0, 0.0, 4001).reshape(-1, *(1,) * least.ndim)
    log_density = -shape * steps - least * np.exp(-steps)
    weights = np.cumsum(np.exp(log_density - log_density.max(axis=0)), axis=0)
    chosen = (weights < rng.random(least.shape) * weights[-1]).sum(axis=0)
    return np.asarray(
        bound * np.exp(np.take_along_axis(steps, chosen[None], axis=0)[0] if least.ndim else steps[chosen])
    )


def log_uniform(x: FloatArray, bound: FloatArray) -> FloatArray:
    """Log density of U(0, bound), elementwise."""
    return np.where((x > 0) & (x <= bound), -np.log(bound), -np.inf)


def require_varying(X: NDArray[np.floating]) -> None:
    """Refuse constant features: their own variance would run to zero."""
    constant = np.flatnonzero(X.max(axis=0) == X.min(axis=0))
    require(
        constant.size == 0,
        f"Feature(s) {constant.tolist()} of X are constant, so a variance of their own cannot be estimated. "
        "Drop them (sklearn.feature_selection.VarianceThreshold) or use covariance='isotropic'.",
    )


def require_independent(X: NDArray[np.floating]) -> None:
    """Refuse features that are linear combinations of others: their covariance has no inverse."""
    require_varying(X)
    correlation = np.atleast_2d(np.corrcoef(X, rowvar=False, dtype=np.float64))
    rank = int(np.linalg.matrix_rank(correlation, tol=1e-10 * len(correlation), hermitian=True))
    require(
        rank == len(correlation),
        f"The {len(correlation)} features of X span only {rank} dimensions (duplicate or dependent columns, or too few "
        "rows), so a full covariance cannot be estimated. Drop columns, reduce them with sklearn.decomposition.PCA, or "
        "use covariance='isotropic' or 'diagonal'.",
    )


def inverse_wishart_settings(
    X: NDArray[np.floating], degrees: float | None, scale: FloatArray | None
) -> tuple[float, FloatArray]:
    """Degrees of freedom and scale matrix, open ones from the data."""
    require_independent(X)
    p = X.shape[1]
    require(
        degrees is None or degrees > p - 1,
        f"degrees={degrees!r}: an inverse Wishart prior of {p} features needs more than {p - 1}.",
    )
    return (
        p + 2.0 if degrees is None else float(degrees),
        0.25 * data_covariance(X) if scale is None else covariance_matrix("scale", scale, p),
    )


def draw_inverse_wishart(rng: np.random.Generator, degrees: float | None, scale: FloatArray, n: int) -> FloatArray:
    """(n, p, p) draws from the inverse Wishart distribution."""
    from scipy import stats

    p = len(scale)
    draws = stats.invwishart.rvs(setting_number(degrees), scale, size=n, random_state=rng)
    return np.asarray(draws, dtype=np.float64).reshape(n, p, p)


def log_inverse_wishart(matrices: FloatArray, degrees: float | None, scale: FloatArray) -> FloatArray:
    """(n,) log density of the inverse Wishart distribution at matrices (n, p, p)."""
    nu, p = setting_number(degrees), len(scale)
    constant = 0.5 * nu * (np.linalg.slogdet(scale)[1] - p * np.log(2.0)) - multigammaln(0.5 * nu, p)
    trace = np.trace(np.linalg.solve(matrices, scale), axis1=1, axis2=2)
    return np.asarray(constant - 0.5 * (nu + p + 1.0) * np.linalg.slogdet(matrices)[1] - 0.5 * trace)


def setting_number(value: float | None) -> float:
    """A number that must be known by now."""
    return float(setting(None if value is None else np.asarray(value)))
