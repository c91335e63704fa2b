"""Averages of A over a Dirichlet, for families whose A is not quadratic: sums along lines through the simplex.

E[A(Σ z_k η_k)] is summed along the lines from m = E[z] to each corner, on which z_k is a beta variable:
E[A] ≈ (2 − K) A(m) + Σ_k (1 − m_k) E[A on line k], exact for quadratic A. Each line has the Gauss-Lobatto rule of its
beta distribution: both ends and one point between, exact for cubics. With the ends in it the rule errs upwards for
Poisson, gamma and per-topic Gaussians (for two topics, always), so that no topic can raise the bound by growing where
the rule does not look.
"""

import numpy as np

from pmlda.kernels.arguments import LogPartition
from pmlda.kernels.jit import inlined, inner, kernel
from pmlda.kernels.log_partition import log_partition_mean
from pmlda.types import FloatArray

# 1 − m_k counts as no less than this, so that one can divide by it.
SMALLEST_REST = 1e-300


@inlined
def line_rule(m: float, n: float) -> tuple[float, float, float, float]:
    """Lobatto's rule for Beta(nm, n − nm): the point x between 0 and 1, and the weights of 0, x and 1."""
    x = (n * m + 1.0) / (n + 2.0)
    inside = m * (1.0 - m) * n / (n + 1.0) / (x * (1.0 - x))
    one = m - inside * x
    return x, 1.0 - one - inside, inside, one


@inner
def opposite_face(m: FloatArray, k: int, face: FloatArray) -> float:
    """face = the end of line k where z_k = 0; returns 1 − m_k, summed so that it keeps its digits."""
    rest = 0.0
    for i in range(len(m)):
        if i != k:
            rest += m[i]
    rest = max(rest, SMALLEST_REST)
    for i in range(len(m)):
        face[i] = m[i] / rest if i != k else 0.0
    if len(m) == 1:  # there is no such end: nothing weighs on it, but A must exist there
        face[0] = 1.0
    return rest


@inner
def expected_fit(
    log_partition: LogPartition,
    score: FloatArray,
    gamma: FloatArray,
    m: FloatArray,
    point: FloatArray,
    eta: FloatArray,
) -> float:
    """f(γ) of one word, for A that is not quadratic. m and point (K,) and eta (q,) are scratch."""
    code, table, constant, _ = log_partition
    n_topics = len(table)
    n = gamma.sum()
    total = 0.0
    for k in range(n_topics):
        m[k] = gamma[k] / n
        total += m[k] * score[k]
    total -= (2.0 - n_topics) * log_partition_mean(code, table, constant, m, eta, eta[:0])
    for k in range(n_topics):
        rest = opposite_face(m, k, point)
        x, zero, inside, one = line_rule(m[k], n)
        total -= rest * zero * log_partition_mean(code, table, constant, point, eta, eta[:0])
        for i in range(n_topics):
            point[i] *= 1.0 - x
        point[k] = x
        total -= rest * inside * log_partition_mean(code, table, constant, point, eta, eta[:0])
        for i in range(n_topics):
            point[i] = 1.0 if i == k else 0.0
        total -= rest * one * log_partition_mean(code, table, constant, point, eta, eta[:0])
    return total


@inner
def _add_point(
    code: int,
    table: FloatArray,
    constant: float,
    weight: float,
    z: FloatArray,
    eta: FloatArray,
    mean: FloatArray,
    slopes: FloatArray,
) -> float:
    """weight·A at z; weight times its slopes along every η_k is added to slopes (K, q). eta and mean are scratch."""
    value = log_partition_mean(code, table, constant, z, eta, mean)
    for k in range(len(table)):
        for j in range(table.shape[1]):
            slopes[k, j] += weight * z[k] * mean[j]
    return weight * value


@kernel
def expected_partition(
    log_partition: LogPartition, gamma: FloatArray, first: int, last: int, slopes: FloatArray
) -> float:
    """Σ E[A(Σ z_k η_k)] over words first to last − 1; slopes (K, q) becomes its slopes along η. gamma : (N, K).

    Not for the quadratic A of shared-covariance Gaussians, which needs no visit. Twin:
    tests.twins.variational.expected_partition.
    """
    code, table, constant, _ = log_partition
    n_topics, q = table.shape
    m, point, eta, mean = np.empty(n_topics), np.empty(n_topics), np.empty(q), np.empty(q)
    corners = np.zeros(n_topics)
    slopes[:] = 0.0
    total = 0.0
    for word in range(first, last):
        n = gamma[word].sum()
        for k in range(n_topics):
            m[k] = gamma[word, k] / n
        total += _add_point(code, table, constant, 2.0 - n_topics, m, eta, mean, slopes)
        for k in range(n_topics):
            rest = opposite_face(m, k, point)
            x, zero, inside, one = line_rule(m[k], n)
            corners[k] += rest * one
            total += _add_point(code, table, constant, rest * zero, point, eta, mean, slopes)
            for i in range(n_topics):
                point[i] *= 1.0 - x
            point[k] = x
            total += _add_point(code, table, constant, rest * inside, point, eta, mean, slopes)
    for k in range(n_topics):
        point[:] = 0.0
        point[k] = 1.0
        total += _add_point(code, table, constant, corners[k], point, eta, mean, slopes)
    return total
