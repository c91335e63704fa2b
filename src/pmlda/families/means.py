"""Prior and proposal of Gaussian topic means: μ_k ~ N(m, C), perhaps inside a box, proposed from N(μ_D, f Σ_D).

Topics of which something is known have priors of their own, from which they are proposed too.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from pmlda.families.base import LOG_2PI, Conditional, check_numbers, check_settings, setting
from pmlda.families.boxes import Box, as_limit, best_inside, draw_inside, redraw_inside, require_room
from pmlda.families.known import Known, as_known
from pmlda.families.rows import column_means
from pmlda.types import BoolArray, FloatArray, Statistics
from pmlda.validate import covariance_matrix, real_array, require

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
    known, known_spread : means that are known, (K, p) with NaN for other topics, and their standard deviations, a
        number, (K,) or (K, p); 0 is exact. See families.known
    """

    mean: FloatArray | None = None
    covariance: FloatArray | None = None
    proposal_mean: FloatArray | None = None
    proposal_covariance: FloatArray | None = None
    prior_spread: float = 25.0
    proposal_spread: float = 4.0
    low: FloatArray | None = None
    high: FloatArray | None = None
    known: FloatArray | None = None
    known_spread: FloatArray | float = 0.0

    def __post_init__(self) -> None:
        check_settings(self, prior_spread=(), proposal_spread=())
        check_numbers(self, mean=(0, 1), proposal_mean=(0, 1), covariance=(0, 2), proposal_covariance=(0, 2))
        require_room(as_limit("lower", self.low), as_limit("upper", self.high))
        if self.known is not None:
            as_known(self.known, self.known_spread)

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
        if self._known is not None:
            filled |= {"known": self._known.means, "known_spread": self._known.spread}
        informed = replace(self, **filled)
        informed._check_known(p)
        return informed

    def _check_known(self, p: int) -> None:
        """Refuse known means of other features, or that the bounds do not allow."""
        known = self._known
        if known is None:
            return
        require(known.means.shape[1] == p, f"known_topics has means of {known.means.shape[1]} features, but X has {p}.")
        means = known.means[known.topics]
        outside = 0 if self.box is None else int((self.box.nearest(means) != means).sum())
        require(
            outside == 0,
            f"known_topics has {outside} value(s) outside the bounds of topic means. Give means between topic_bounds, "
            "or other bounds.",
        )

    def shifted(self, offset: FloatArray) -> Self:
        """The same beliefs about words that were moved by offset."""
        return replace(
            self,
            mean=None if self.mean is None else self.mean + offset,
            proposal_mean=None if self.proposal_mean is None else self.proposal_mean + offset,
            low=None if self.low is None else self.low + offset,
            high=None if self.high is None else self.high + offset,
            known=None if self._known is None else self._known.shifted(offset).means,
        )

    @cached_property
    def _known(self) -> Known | None:
        return None if self.known is None else as_known(self.known, self.known_spread)

    @property
    def exact(self) -> BoolArray | None:
        """(K, p) which numbers are known exactly, if there are any."""
        return None if self._known is None or not self._known.exact.any() else self._known.exact

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
        system = self._system(statistics, precision, means)
        free = GivenTogether(system) if self._known is not None else self._given_alike(statistics, precision)
        return free if self.box is None else GivenMeansInside(free, self.box, system)

    def _given_alike(self, statistics: Statistics, precision: FloatArray) -> "GivenMeans":
        """The same without bounds, where all topics have the same prior."""
        weights, turn = np.linalg.eigh(statistics.gram)
        prior = self._prior
        precisions = np.maximum(weights, 0.0)[:, None, None] * precision + prior.precision
        right = (turn.T @ statistics.weighted) @ precision + turn.sum(axis=0)[:, None] * prior.weighted_mean
        return GivenMeans(turn, np.asarray(np.linalg.solve(precisions, right[..., None])[..., 0]), precisions)

    def _system(self, statistics: Statistics, precision: FloatArray, means: FloatArray) -> "System":
        """The density of all means together."""
        prior, known, n_topics = self._prior, self._known, len(means)
        own = np.broadcast_to(prior.precision, (n_topics, *prior.precision.shape))
        pull, moves = statistics.weighted @ precision, np.ones(means.shape, bool)
        if known is None:
            return System(statistics.gram, precision, own, pull + prior.weighted_mean, means, moves)
        told = known.topics[:, None]
        own = np.where(told[..., None], known.precision[..., None] * np.eye(means.shape[1]), own)
        pull = pull + np.where(told, known.precision * np.nan_to_num(known.means), prior.weighted_mean)
        return System(statistics.gram, precision, own, pull, known.put_exact(means), ~known.exact)

    def draw(self, rng: np.random.Generator, n_topics: int) -> FloatArray:
        """(K, p) means from the prior."""
        prior = self._prior
        drawn = prior.draw(rng, n_topics) if self.box is None else prior.draw_inside(rng, n_topics, self.box)
        return self._put_known(rng, drawn)

    def _put_known(self, rng: np.random.Generator, means: FloatArray) -> FloatArray:
        """(K, p) means, those of known topics drawn from their own prior."""
        known = self._known
        return means if known is None else np.where(known.topics[:, None], known.draw(rng, self.box), means)

    def log_prior(self, means: FloatArray) -> FloatArray:
        """(K,) log N(μ_k; m, C). In a box it lacks a constant, ln P(box), which no ratio of densities needs."""
        density = self._density(self._prior, means)
        if self.box is None:
            return density
        return np.where(self.box.holds(means, ROUNDING * self._prior.deviation), density, -np.inf)

    def _density(self, others: "Normal", means: FloatArray) -> FloatArray:
        """(K,) log density: of known topics their own, of others this one."""
        density, known = others.log_density(means), self._known
        return density if known is None else np.where(known.topics, known.log_density(means), density)

    def slopes(self, means: FloatArray) -> FloatArray:
        """(K, p) slopes of log_prior, where it is finite."""
        slopes, known = np.asarray(self._prior.weighted_mean - means @ self._prior.precision), self._known
        return slopes if known is None else np.where(known.topics[:, None], known.slopes(means), slopes)

    def bends(self, means: FloatArray) -> FloatArray:
        """(K, p) minus the second derivatives of log_prior along each number."""
        bends, known = np.broadcast_to(np.diag(self._prior.precision), means.shape), self._known
        if known is None:
            return bends
        return np.where(known.topics[:, None], np.where(known.uncertain, known.precision, 0.0), bends)

    def nearest(self, means: FloatArray) -> FloatArray:
        """(…, K, p) means moved to where they are possible; others stay."""
        inside = means if self.box is None else self.box.nearest(means)
        return inside if self._known is None else self._known.put_exact(inside)

    def propose(self, rng: np.random.Generator, n_topics: int) -> FloatArray:
        """(K, p) means from the proposal; of known topics from their prior."""
        return self._put_known(rng, self._proposal.draw(rng, n_topics))

    def log_proposal(self, means: FloatArray) -> FloatArray:
        """(K,) log N(μ_k; μ_D, fΣ_D): the same f as in the draw."""
        return self._density(self._proposal, means)


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


class System(NamedTuple):
    """The density of all means together: minus its logarithm is ½ mᵀHm − b·m for the K·p numbers m in a row.

    gram, precision : (K, K) ZᵀZ, and (p, p) of the noise
    prior_precision : (K, p, p) of the prior of each topic
    pull : (K, p) b
    now : (K, p) the means before the step; what is known exactly is as it is known
    moves : (K, p) which numbers are not known exactly
    """

    gram: FloatArray
    precision: FloatArray
    prior_precision: FloatArray
    pull: FloatArray
    now: FloatArray
    moves: BoolArray

    def of_moving(self) -> tuple[FloatArray, FloatArray]:
        """H (n, n) and b (n,) of the numbers that move, given the others."""
        n_topics, p = self.now.shape
        blocks = np.kron(self.gram, self.precision).reshape(n_topics, p, n_topics, p)
        topic = np.arange(n_topics)
        blocks[topic, :, topic] += self.prior_precision
        curvature: FloatArray = np.asarray(blocks.reshape(n_topics * p, -1), dtype=np.float64)
        pull, moves = self.pull.ravel(), self.moves.ravel()
        if moves.all():
            return curvature, pull
        rest = curvature[np.ix_(moves, ~moves)] @ self.now.ravel()[~moves]
        return curvature[np.ix_(moves, moves)], pull[moves] - rest

    def with_moving(self, numbers: FloatArray) -> FloatArray:
        """(K, p) means whose numbers that move are these (n,)."""
        means = self.now.copy()
        means[self.moves] = numbers
        return means


class GivenTogether(NamedTuple):
    """The same where topics have priors of their own, so that they depend on each other."""

    system: System

    @property
    def mode(self) -> FloatArray:
        """(K, p) the most probable means."""
        return self.system.with_moving(np.asarray(np.linalg.solve(*self.system.of_moving()), dtype=np.float64))

    def draw(self, rng: np.random.Generator) -> FloatArray:
        """(K, p) means."""
        curvature, pull = self.system.of_moving()
        upper = np.linalg.cholesky(curvature).T
        noise = np.linalg.solve(upper, rng.standard_normal(len(pull)))
        return self.system.with_moving(np.asarray(np.linalg.solve(curvature, pull) + noise, dtype=np.float64))


class GivenMeansInside(NamedTuple):
    """The same inside a box: all K·p numbers depend on each other, because limits hold for each of them by itself.

    free : the distribution without limits
    system : all numbers together, solved only where limits are in the way
    """

    free: Conditional
    box: Box
    system: System

    @property
    def mode(self) -> FloatArray:
        """(K, p) the most probable means inside."""
        best = self.free.mode
        if self.box.holds(best).all():
            return best
        curvature, pull = self.system.of_moving()
        starts = [self.box.nearest(each)[self.system.moves] for each in (best, self.system.now)]
        start = min(starts, key=lambda m: float(0.5 * m @ curvature @ m - m @ pull))
        return self.system.with_moving(best_inside(curvature, pull, *self._limits, start))

    def draw(self, rng: np.random.Generator) -> FloatArray:
        """(K, p) means: the first of a few joint draws that lies inside, or else the means of now, each number redrawn.

        Which of the two it is does not depend on the means of now, and either leaves the distribution as it is.
        """
        for _ in range(JOINT_DRAWS):
            means = self.free.draw(rng)
            if self.box.holds(means).all():
                return means
        now = self.box.nearest(self.system.now)[self.system.moves]
        return self.system.with_moving(redraw_inside(rng, *self.system.of_moving(), *self._limits, now))

    @property
    def _limits(self) -> tuple[FloatArray, FloatArray]:
        """(n,) each."""
        shape, moves = self.system.now.shape, self.system.moves
        return np.broadcast_to(self.box.low, shape)[moves], np.broadcast_to(self.box.high, shape)[moves]


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
