"""Prior and proposal of Gaussian topic means: μ_k ~ N(m, C), perhaps inside a box, proposed from N(μ_D, f Σ_D)."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from pmlda.families.base import Conditional, check_numbers, check_settings, setting
from pmlda.families.boxes import Box, as_limit, best_inside, draw_inside, redraw_inside, require_room
from pmlda.families.rows import column_means
from pmlda.types import FloatArray, Statistics
from pmlda.validate import covariance_matrix, real_array

LOG_2PI = float(np.log(2.0 * np.pi))
# Means count as inside a box if they are at most so many prior standard deviations outside: shifting words and means
# together rounds them.
ROUNDING = 1e-9
# Joint draws of all means, one of which may lie inside the box, before each number is drawn by itself.
JOINT_DRAWS = 4


@dataclass(frozen=True, eq=False)
class NormalMeans:
    """Independent N(mean, covariance) priors on topic means, and the paper's data-centred proposals.

    prior_spread : default prior covariance, in units of the covariance of the data
    proposal_spread : the paper's f
    low, high : bounds between which means are possible, a number or one per feature, perhaps infinite; the prior is
        then truncated to that box. None is unbounded
    """

    mean: FloatArray | None = None
    covariance: FloatArray | None = None
    proposal_mean: FloatArray | None = None
    proposal_covariance: FloatArray | None = None
    prior_spread: float = 25.0
    proposal_spread: float = 4.0
    low: FloatArray | None = None
    high: FloatArray | None = None

    def __post_init__(self) -> None:
        check_settings(self, prior_spread=(), proposal_spread=())
        check_numbers(self, mean=(0, 1), proposal_mean=(0, 1), covariance=(0, 2), proposal_covariance=(0, 2))
        require_room(as_limit("lower", self.low), as_limit("upper", self.high))

    def informed_by(self, X: NDArray[np.floating]) -> Self:
        """Fill what is open from the mean and covariance of the data."""
        centre = column_means(X)
        scatter = data_covariance(X)
        defaults = {
            "mean": centre,
            "proposal_mean": centre,
            "covariance": self.prior_spread * scatter,
            "proposal_covariance": self.proposal_spread * scatter,
        }
        p = len(centre)
        filled: dict[str, Any] = {}
        for name, default in defaults.items():
            value, label = getattr(self, name), f"NormalMeans({name})"
            if value is None:
                filled[name] = default
            else:
                is_matrix = default.ndim == 2
                filled[name] = covariance_matrix(label, value, p) if is_matrix else real_array(label, value, (), (p,))
        filled |= {"low": as_limit("lower", self.low, (p,)), "high": as_limit("upper", self.high, (p,))}
        return replace(self, **filled)

    def shifted(self, offset: FloatArray) -> Self:
        """The same beliefs about words that were moved by offset."""
        return replace(
            self,
            mean=None if self.mean is None else self.mean + offset,
            proposal_mean=None if self.proposal_mean is None else self.proposal_mean + offset,
            low=None if self.low is None else self.low + offset,
            high=None if self.high is None else self.high + offset,
        )

    @cached_property
    def _prior(self) -> "Normal":
        return Normal(setting(self.mean), setting(self.covariance))

    @cached_property
    def _proposal(self) -> "Normal":
        return Normal(setting(self.proposal_mean), setting(self.proposal_covariance))

    @cached_property
    def box(self) -> Box | None:
        """Where means are possible, if not everywhere."""
        if self.low is None and self.high is None:
            return None
        shape = setting(self.mean).shape
        low, high = as_limit("lower", self.low, shape), as_limit("upper", self.high, shape)
        box = Box(np.full(shape, -np.inf) if low is None else low, np.full(shape, np.inf) if high is None else high)
        return box if np.isfinite(box).any() else None

    def given(self, statistics: Statistics, precision: FloatArray, means: FloatArray) -> Conditional:
        """What remains to be known of the means: precision is Σ⁻¹ (p, p) of the noise, means are those of now."""
        weights, turn = np.linalg.eigh(statistics.gram)
        prior = self._prior
        precisions = np.maximum(weights, 0.0)[:, None, None] * precision + prior.precision
        right = (turn.T @ statistics.weighted) @ precision + turn.sum(axis=0)[:, None] * prior.weighted_mean
        free = GivenMeans(turn, np.asarray(np.linalg.solve(precisions, right[..., None])[..., 0]), precisions)
        if self.box is None:
            return free
        pull = statistics.weighted @ precision + prior.weighted_mean
        return GivenMeansInside(free, self.box, statistics.gram, precision, prior.precision, pull, means)

    def draw(self, rng: np.random.Generator, n_topics: int) -> FloatArray:
        """(K, p) means from the prior."""
        prior = self._prior
        return prior.draw(rng, n_topics) if self.box is None else prior.draw_inside(rng, n_topics, self.box)

    def log_prior(self, means: FloatArray) -> FloatArray:
        """(K,) log N(μ_k; m, C). In a box it lacks a constant, ln P(box), which no ratio of densities needs."""
        density = self._prior.log_density(means)
        if self.box is None:
            return density
        return np.where(self.box.holds(means, ROUNDING * self._prior.deviation), density, -np.inf)

    def slopes(self, means: FloatArray) -> FloatArray:
        """(K, p) slopes of log_prior, where it is finite."""
        return np.asarray(self._prior.weighted_mean - means @ self._prior.precision)

    def nearest(self, means: FloatArray) -> FloatArray:
        """(K, p) means moved to where they are possible; others stay."""
        return means if self.box is None else self.box.nearest(means)

    def propose(self, rng: np.random.Generator, n_topics: int) -> FloatArray:
        """(K, p) means from the proposal."""
        return self._proposal.draw(rng, n_topics)

    def log_proposal(self, means: FloatArray) -> FloatArray:
        """(K,) log N(μ_k; μ_D, fΣ_D): the same f as in the draw."""
        return self._proposal.log_density(means)


class GivenMeans(NamedTuple):
    """The conditional distribution of means given memberships: M = turn·Y with independent Y_i ~ N(centre_i, Λ_i⁻¹).

    Turned to the axes of ZᵀZ, the K means become independent of each other.
    """

    turn: FloatArray
    centres: FloatArray
    precisions: FloatArray

    @property
    def mode(self) -> FloatArray:
        """(K, p) the most probable means."""
        return np.asarray(self.turn @ self.centres)

    def draw(self, rng: np.random.Generator) -> FloatArray:
        """(K, p) means."""
        upper = np.swapaxes(np.linalg.cholesky(self.precisions), 1, 2)
        noise = np.linalg.solve(upper, rng.standard_normal((*self.centres.shape, 1)))[..., 0]
        return np.asarray(self.turn @ (self.centres + noise))


class GivenMeansInside(NamedTuple):
    """The same inside a box: all K·p numbers depend on each other, because limits hold for each of them by itself.

    free : the distribution without limits
    gram, precision, prior_precision : (K, K) ZᵀZ, and (p, p) of the noise and of the prior
    pull : (K, p) minus its logarithm is ½ mᵀHm − b·m for the means m in a row; this is b
    now : (K, p) the means before the step
    """

    free: GivenMeans
    box: Box
    gram: FloatArray
    precision: FloatArray
    prior_precision: FloatArray
    pull: FloatArray
    now: FloatArray

    @property
    def mode(self) -> FloatArray:
        """(K, p) the most probable means inside."""
        best = self.free.mode
        if self.box.holds(best).all():
            return best
        curvature, pull = self._curvature, self.pull.ravel()
        starts = [self.box.nearest(best).ravel(), self.box.nearest(self.now).ravel()]
        start = min(starts, key=lambda m: float(0.5 * m @ curvature @ m - m @ pull))
        return best_inside(curvature, pull, *self._limits, start).reshape(best.shape)

    def draw(self, rng: np.random.Generator) -> FloatArray:
        """(K, p) means: the first of a few joint draws that lies inside, or else the means of now, each number redrawn.

        Which of the two it is does not depend on the means of now, and either leaves the distribution as it is.
        """
        for _ in range(JOINT_DRAWS):
            means = self.free.draw(rng)
            if self.box.holds(means).all():
                return means
        now = self.box.nearest(self.now).ravel()
        return redraw_inside(rng, self._curvature, self.pull.ravel(), *self._limits, now).reshape(self.now.shape)

    @property
    def _curvature(self) -> FloatArray:
        """(Kp, Kp) H, made only where limits are in the way."""
        prior = np.kron(np.eye(len(self.gram)), self.prior_precision)
        return np.asarray(np.kron(self.gram, self.precision) + prior, dtype=np.float64)

    @property
    def _limits(self) -> tuple[FloatArray, FloatArray]:
        """(Kp,) each."""
        return np.tile(self.box.low, len(self.now)), np.tile(self.box.high, len(self.now))


class Normal:
    """N(mean, covariance), factorised once."""

    def __init__(self, mean: FloatArray, covariance: FloatArray) -> None:
        self._mean = mean
        self._root: FloatArray = np.asarray(np.linalg.cholesky(covariance), dtype=np.float64)
        self._whiten = np.linalg.inv(self._root)
        self.precision = self._whiten.T @ self._whiten
        self.weighted_mean = self.precision @ mean
        self._constant = float(-np.log(np.diag(self._root)).sum() - 0.5 * len(mean) * LOG_2PI)

    def draw(self, rng: np.random.Generator, n: int) -> FloatArray:
        """(n, p) draws."""
        return np.asarray(self._mean + rng.standard_normal((n, len(self._mean))) @ self._root.T)

    def draw_inside(self, rng: np.random.Generator, n: int, box: Box) -> FloatArray:
        """(n, p) draws of what is left of it inside the box."""
        return draw_inside(rng, self._mean, self._root, box, n)

    @property
    def deviation(self) -> FloatArray:
        """(p,) standard deviations."""
        return np.asarray(np.linalg.norm(self._root, axis=1))

    def log_density(self, x: FloatArray) -> FloatArray:
        """(n,) log density of the rows of x."""
        white = (x - self._mean) @ self._whiten.T
        return np.asarray(self._constant - 0.5 * (white * white).sum(axis=1))


def data_covariance(X: NDArray[np.floating]) -> FloatArray:
    """(p, p) covariance of the rows, kept invertible where features are constant or duplicated.

    The addition is a millionth of each feature's own variance (of the largest one for a constant feature), so it
    respects features of very different scale.
    """
    centre = column_means(X)
    deviations = X - centre
    covariance = deviations.T @ deviations / max(len(X) - 1, 1)
    variances = np.diag(covariance).copy()
    largest = variances.max()
    # Rounding gives a constant feature a variance of about (1e-16 times its value)².
    variances[variances <= (1e-14 * centre) ** 2] = largest
    return np.asarray(covariance + 1e-6 * np.diag(variances if largest > 0 else np.ones_like(variances)))
