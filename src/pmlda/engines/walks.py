"""Random walks of topics whose conditional distribution given the memberships cannot be drawn from directly."""

import numpy as np

from pmlda.engines import gibbs_tuning
from pmlda.families.base import Family
from pmlda.storage.archive import register
from pmlda.types import Fixed, FloatArray, IntArray, Topics


@register
class Walk:
    """A random walk of some of the topics' free coordinates, with a shape that is learnt (Haario et al. 2001)."""

    chosen: IntArray
    log_length: float
    mean: FloatArray | None
    covariance: FloatArray
    root: FloatArray
    count: int

    def __init__(self, chosen: IntArray, deviation: FloatArray) -> None:
        """chosen : which coordinates move; deviation : of each of them, to begin with."""
        self.chosen = chosen
        self.log_length = np.log(2.4 / np.sqrt(len(deviation)))
        self.mean = None
        self.covariance = np.diag(deviation**2)
        self.root = np.diag(deviation)
        self.count = 0

    def propose(self, rng: np.random.Generator, family: Family, topics: Topics) -> Topics | None:
        """Topics one step away, or None where there are none."""
        noise = rng.standard_normal(len(self.chosen))
        vector, shapes = flatten(family.free(topics))
        vector[self.chosen] += np.exp(self.log_length) * (self.root @ noise)
        proposed = family.from_free(unflatten(vector, shapes))
        with np.errstate(all="ignore"):
            possible = family.allows(proposed) and bool(np.isfinite(family.log_prior(proposed).total))
        return proposed if possible else None

    def learn(self, family: Family, topics: Topics, accepted: bool) -> None:
        """Length towards 25 % accepted, shape towards the covariance of what was visited."""
        self.count += 1
        self.log_length += (float(accepted) - 0.25) * 2.0 / np.sqrt(self.count)
        x = flatten(family.free(topics))[0][self.chosen]
        if self.mean is None:
            self.mean = x
        weight = 1.0 / (1.0 + self.count / 4.0) if self.count > 40 else 0.0
        change = x - self.mean
        self.mean = self.mean + max(weight, 0.02) * change
        weight = max(weight, 0.005) if self.count > 40 else 0.0
        self.covariance = (1.0 - weight) * self.covariance + weight * np.outer(change, change)
        if self.count % 50 == 0:
            ridge = 1e-6 * np.diag(np.diag(self.covariance)) + 1e-300 * np.eye(len(x))
            self.root = np.asarray(np.linalg.cholesky(self.covariance + ridge), dtype=np.float64)


def make_walks(family: Family, topics: Topics, n_words: int, fixed: Fixed) -> list[Walk]:
    """One walk of all that is free, or one for each topic where that is too much; none where draws are conjugate."""
    if family.conjugate is not None:
        return []
    free = family.free(topics)
    n_topics = len(free.means)
    owner = [np.repeat(np.arange(n_topics), free.means.size // n_topics)]
    moves = [np.full(free.means.size, not fixed.means)]
    if family.exact_means is not None:
        moves[0] &= ~family.exact_means.ravel()
    spread_owner = np.zeros(free.spread.size, np.int64)
    if family.spread_per_topic:
        spread_owner = np.repeat(np.arange(n_topics), free.spread.size // n_topics)
    spread_moves = np.full(free.spread.shape, not fixed.spread)
    if free.spread.ndim >= 2 and not (family.spread_per_topic and free.spread.ndim == 2):
        spread_moves &= np.tril(np.ones(free.spread.shape[-2:], bool))
    owner.append(spread_owner)
    moves.append(spread_moves.ravel())
    movable = np.flatnonzero(np.concatenate(moves))
    if not movable.size:
        return []
    deviation = np.full(free.means.size + free.spread.size, 1.0 / np.sqrt(n_words))
    scale = np.ptp(free.means, axis=0) if n_topics > 1 else np.ones(free.means.shape[1])
    deviation[: free.means.size] *= np.tile(np.where(scale > 0, scale, 1.0), n_topics)
    if len(movable) <= gibbs_tuning.MOST_TOGETHER:
        return [Walk(movable, deviation[movable])]
    owners = np.concatenate(owner)[movable]
    return [Walk(movable[owners == k], deviation[movable[owners == k]]) for k in range(n_topics)]


def flatten(topics: Topics) -> tuple[FloatArray, Topics]:
    """All numbers in a row, and the arrays that tell their shapes."""
    return np.concatenate([topics.means.ravel(), topics.spread.ravel()]), topics


def unflatten(vector: FloatArray, shapes: Topics) -> Topics:
    """The inverse of flatten."""
    size = shapes.means.size
    return Topics(vector[:size].reshape(shapes.means.shape), vector[size:].reshape(shapes.spread.shape))
