"""Variational inference, the step of topics whose E[A] has no closed form: uphill in coordinates without bounds."""

from collections.abc import Callable

import numpy as np

from pmlda.engines import variational_tuning as tuning
from pmlda.families.base import Family
from pmlda.types import Fixed, FloatArray, Statistics, Topics

Partition = Callable[[Topics, bool, int], tuple[float, FloatArray, FloatArray]]
"""Topics, whether slopes are wanted, how many bends → Σ_n E[A], its slopes along η (K, q) and its bends (K, K, ·)."""


def log_prior(family: Family, topics: Topics) -> float:
    """Log prior of the topics in the coordinates in which the best are sought."""
    return family.log_prior(topics).total if family.quadratic else family.log_free_prior(topics)


def climb(
    family: Family, topics: Topics, statistics: Statistics, fixed: Fixed, expected_partition: Partition
) -> Topics:
    """Topics of which the bound is higher, or the same ones: Newton's step where the family has one."""
    hill = Hill(family, topics, statistics, fixed, expected_partition)
    return hill.climb_by_bends() if family.count_bends(statistics.weighted.shape[1]) else hill.climb_by_slopes()


class Hill:
    """The part of the bound that depends on topics, in free coordinates, and two ways up."""

    def __init__(
        self, family: Family, topics: Topics, statistics: Statistics, fixed: Fixed, expected_partition: Partition
    ) -> None:
        self._family, self._topics, self._free = family, topics, family.free(topics)
        self._weighted, self._fixed, self._expected_partition = statistics.weighted, fixed, expected_partition
        # E[z] of all words adds up to their number.
        self._n_words = float(statistics.gram.sum())
        self._moves = np.full(self._free.means.shape, not fixed.means)
        if family.exact_means is not None:
            self._moves &= ~family.exact_means

    def climb_by_bends(self) -> Topics:
        """One step of Newton's, shortened until the bound rises; where it never does, the topics as they are."""
        family, topics, free = self._family, self._topics, self._free
        n_bends = family.count_bends(self._weighted.shape[1])
        partition, along_eta, bends = self._expected_partition(topics, True, n_bends)
        slopes = self._keep_free(family.free_slopes(topics, self._weighted - along_eta))
        step = self._keep_free(family.newton_step(topics, slopes, bends))
        start = self._value(topics, partition)
        for i in range(tuning.TOPIC_TRIALS):
            part = tuning.TOPIC_SHORTER**i
            there = family.from_free(Topics(free.means + part * step.means, free.spread + part * step.spread))
            if self._allows(there) and self._value(there, self._expected_partition(there, False, 0)[0]) > start:
                return there
        return topics

    def climb_by_slopes(self) -> Topics:
        """A few quasi-Newton steps."""
        from scipy.optimize import minimize

        family, free, moves = self._family, self._free, self._moves
        means_size = int(moves.sum())

        def vector_of(numbers: Topics) -> FloatArray:
            return np.concatenate([numbers.means[moves], [] if self._fixed.spread else numbers.spread.ravel()])

        def topics_at(vector: FloatArray) -> Topics:
            means = free.means.copy()
            means[moves] = vector[:means_size]
            spread = free.spread if self._fixed.spread else vector[means_size:].reshape(free.spread.shape)
            return family.from_free(Topics(means, spread))

        def loss(vector: FloatArray) -> tuple[float, FloatArray]:
            topics = topics_at(vector)
            if not self._allows(topics):
                return np.inf, np.zeros_like(vector)
            partition, slopes, _ = self._expected_partition(topics, True, 0)
            gradient = vector_of(family.free_slopes(topics, self._weighted - slopes))
            return -self._value(topics, partition) / self._n_words, -gradient / self._n_words

        start = vector_of(free)
        best = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxfun": tuning.TOPIC_EVALUATIONS})
        return topics_at(best.x) if best.fun < loss(start)[0] else self._topics

    def _keep_free(self, numbers: Topics) -> Topics:
        """Zero where nothing may move."""
        return Topics(numbers.means * self._moves, numbers.spread * (not self._fixed.spread))

    def _allows(self, topics: Topics) -> bool:
        with np.errstate(all="ignore"):
            return self._family.allows(topics)

    def _value(self, topics: Topics, partition: float) -> float:
        """What the bound says of topics for which Σ E[A] is this."""
        linear = float((self._family.natural(topics) * self._weighted).sum())
        return linear - partition + log_prior(self._family, topics)
