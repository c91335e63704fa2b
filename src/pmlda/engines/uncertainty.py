"""How sure memberships are: Dirichlet concentrations or draws → standard deviations, intervals, who dominates."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from pmlda.parallel.threads import Workers, chunks
from pmlda.types import FloatArray

DOMINANCE_DRAWS = 128


def dirichlet_std(concentrations: FloatArray) -> FloatArray:
    """(N, K) standard deviation of each membership.

    >>> dirichlet_std(np.array([[1.0, 1.0]])).round(4).tolist()
    [[0.2887, 0.2887]]
    """
    total = concentrations.sum(axis=1, keepdims=True)
    mean = concentrations / total
    return np.asarray(np.sqrt(mean * (1.0 - mean) / (total + 1.0)))


def dirichlet_interval(concentrations: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
    """(N, K) lower and upper ends of central intervals: each membership is a beta variable.

    >>> [end.round(2).tolist() for end in dirichlet_interval(np.array([[1.0, 1.0]]), 0.9)]
    [[[0.05, 0.05]], [[0.95, 0.95]]]
    """
    rest = np.maximum(concentrations.sum(axis=1, keepdims=True) - concentrations, 1e-10)
    tail = 0.5 * (1.0 - level)
    return np.asarray(betaincinv(concentrations, rest, tail)), np.asarray(betaincinv(concentrations, rest, 1.0 - tail))


def dirichlet_dominance(concentrations: FloatArray, seed: int, workers: Workers) -> FloatArray:
    """(N, K) the probability that each membership is the largest, from DOMINANCE_DRAWS draws."""

    def of_chunk(chunk: slice) -> FloatArray:
        rng = np.random.default_rng([seed, chunk.start])
        shapes = concentrations[chunk]
        counts = np.zeros_like(shapes)
        rows = np.arange(len(shapes))
        for _ in range(DOMINANCE_DRAWS):
            # Logarithms, because gammas of a tiny shape are all zero; ln Γ(a + 1) + ln(u) / a.
            log_gamma = np.log(rng.standard_gamma(shapes + 1.0)) + np.log(1.0 - rng.random(shapes.shape)) / shapes
            counts[rows, np.argmax(log_gamma, axis=1)] += 1.0
        return counts / DOMINANCE_DRAWS

    return np.concatenate(workers.map(of_chunk, chunks(len(concentrations))))


def draws_interval(draws: NDArray[np.floating], level: float) -> tuple[FloatArray, FloatArray]:
    """(N, K) lower and upper ends of central intervals, from draws (S, N, K)."""
    tail = 0.5 * (1.0 - level)
    low, high = np.quantile(draws, [tail, 1.0 - tail], axis=0)
    return np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
