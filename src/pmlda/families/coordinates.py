"""Coordinates without bounds, in which optimisers and samplers may step anywhere: values ⇄ free numbers.

Interchangeable: each maps arrays whose first axis is a topic (or that belong to no topic) and knows its volume,
ln |∂ values / ∂ free|, by which a density changes, and how slopes change.
"""

from abc import ABC, abstractmethod

import numpy as np
from scipy.special import expit, logit, softmax

from pmlda.types import FloatArray


class Coordinates(ABC):
    """A one-to-one map between values that have bounds and numbers that have none."""

    @abstractmethod
    def free(self, values: FloatArray) -> FloatArray:
        """The free numbers, in the shape of the values."""

    @abstractmethod
    def values(self, free: FloatArray) -> FloatArray:
        """The inverse of free."""

    @abstractmethod
    def log_volume(self, values: FloatArray) -> float:
        """ln |∂ values / ∂ free|, up to a constant."""

    @abstractmethod
    def free_slopes(self, values: FloatArray, slopes: FloatArray) -> FloatArray:
        """Slopes of f + log_volume along the free numbers, from those of f along the values."""


class Plain(Coordinates):
    """Any number."""

    def free(self, values: FloatArray) -> FloatArray:
        return values

    def values(self, free: FloatArray) -> FloatArray:
        return free

    def log_volume(self, values: FloatArray) -> float:
        return 0.0

    def free_slopes(self, values: FloatArray, slopes: FloatArray) -> FloatArray:
        return slopes


class Log(Coordinates):
    """Positive numbers."""

    def free(self, values: FloatArray) -> FloatArray:
        return np.asarray(np.log(values))

    def values(self, free: FloatArray) -> FloatArray:
        return np.asarray(np.exp(np.clip(free, -300.0, 300.0)))

    def log_volume(self, values: FloatArray) -> float:
        return float(np.log(values).sum())

    def free_slopes(self, values: FloatArray, slopes: FloatArray) -> FloatArray:
        return np.asarray(values * slopes + 1.0)


class Logit(Coordinates):
    """Probabilities of yes."""

    def free(self, values: FloatArray) -> FloatArray:
        return np.asarray(logit(values))

    def values(self, free: FloatArray) -> FloatArray:
        return np.asarray(expit(np.clip(free, -34.0, 34.0)))

    def log_volume(self, values: FloatArray) -> float:
        return float((np.log(values) + np.log1p(-values)).sum())

    def free_slopes(self, values: FloatArray, slopes: FloatArray) -> FloatArray:
        return np.asarray(values * (1.0 - values) * slopes + 1.0 - 2.0 * values)


class Simplex(Coordinates):
    """Probabilities that sum to one along the last axis: logarithms that average zero; others mean the same."""

    def free(self, values: FloatArray) -> FloatArray:
        logs = np.log(values)
        return np.asarray(logs - logs.mean(axis=-1, keepdims=True))

    def values(self, free: FloatArray) -> FloatArray:
        return np.asarray(np.maximum(softmax(free, axis=-1), 1e-300))

    def log_volume(self, values: FloatArray) -> float:
        return float(np.log(values).sum())

    def free_slopes(self, values: FloatArray, slopes: FloatArray) -> FloatArray:
        along = values * slopes + 1.0
        return np.asarray(along - values * along.sum(axis=-1, keepdims=True))


class Cholesky(Coordinates):
    """Covariance matrices (…, p, p): the lower triangle of LLᵀ with the logarithm of its diagonal; zeros above."""

    def free(self, values: FloatArray) -> FloatArray:
        lower = np.linalg.cholesky(values)
        diagonal = np.arange(values.shape[-1])
        lower[..., diagonal, diagonal] = np.log(lower[..., diagonal, diagonal])
        return np.asarray(lower)

    def values(self, free: FloatArray) -> FloatArray:
        lower = np.tril(free)
        diagonal = np.arange(free.shape[-1])
        lower[..., diagonal, diagonal] = np.exp(np.clip(lower[..., diagonal, diagonal], -300.0, 300.0))
        return np.asarray(lower @ np.swapaxes(lower, -1, -2))

    def log_volume(self, values: FloatArray) -> float:
        """Entry i of the diagonal counts p + 2 − i times (Muirhead 1982, theorem 2.1.9, with the logarithm)."""
        p = values.shape[-1]
        lower = np.linalg.cholesky(values)
        diagonal = np.log(np.diagonal(lower, axis1=-2, axis2=-1))
        return float((diagonal * (p + 1.0 - np.arange(p))).sum())

    def free_slopes(self, values: FloatArray, slopes: FloatArray) -> FloatArray:
        """From d(LLᵀ) = dL·Lᵀ + L·dLᵀ. slopes : along every entry as if it could change by itself"""
        p, lower = values.shape[-1], np.linalg.cholesky(values)
        along = np.tril((slopes + np.swapaxes(slopes, -1, -2)) @ lower)
        diagonal = np.arange(p)
        along[..., diagonal, diagonal] *= lower[..., diagonal, diagonal]
        along[..., diagonal, diagonal] += p + 1.0 - diagonal
        return np.asarray(along)
