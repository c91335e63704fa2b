"""Variational inference, what a word's features say: f(γ) = E[z]·ℓ − E[A(Σ z_k η_k)] and its slopes.

E[A] has a closed form where A is quadratic (Gaussians with one covariance); elsewhere it is summed along lines
(kernels.lines).
"""

import numpy as np

from pmlda.kernels.arguments import FitBlock, LogPartition
from pmlda.kernels.jit import inner
from pmlda.kernels.lines import line_rule, opposite_face
from pmlda.kernels.log_partition import log_partition_mean
from pmlda.types import FloatArray


@inner
def quadratic_fit(
    table: FloatArray, score: FloatArray, m: FloatArray, c: FloatArray, n_words: int, out: FitBlock
) -> None:
    """f, ∂f/∂m, ∂f/∂c and Gm where A(z) = ½ zᵀGz: f = m·ℓ − ½[(1 − c) mᵀGm + c g·m], with g the diagonal of G.

    score, m : (K, B); c : (B,) 1 / (γ₀ + 1)
    """
    fit, slope_c, slope, pull = out
    n_topics = len(table)
    for j in range(n_words):
        fit[j] = 0.0
        slope_c[j] = 0.0
    for k in range(n_topics):
        g = table[k, k]
        row = pull[k]
        for j in range(n_words):
            row[j] = 0.0
        for i in range(n_topics):
            for j in range(n_words):
                row[j] += table[k, i] * m[i, j]
        for j in range(n_words):
            shared = (1.0 - c[j]) * row[j]
            fit[j] += m[k, j] * (score[k, j] - 0.5 * (shared + c[j] * g))
            slope_c[j] += 0.5 * m[k, j] * (row[j] - g)
            slope[k, j] = score[k, j] - shared - 0.5 * c[j] * g


@inner
def _slopes(
    code: int,
    table: FloatArray,
    constant: float,
    z: FloatArray,
    eta: FloatArray,
    mean: FloatArray,
    gradient: FloatArray,
) -> float:
    """A at z; gradient becomes its slopes along every z_k, η_k·∇A. eta and mean (q,) are scratch."""
    value = log_partition_mean(code, table, constant, z, eta, mean)
    for k in range(len(table)):
        gradient[k] = 0.0
        for j in range(table.shape[1]):
            gradient[k] += table[k, j] * mean[j]
    return value


@inner
def other_fit(
    log_partition: LogPartition, score: FloatArray, m: FloatArray, c: FloatArray, n_words: int, out: FitBlock
) -> None:
    """f, ∂f/∂m and ∂f/∂c for any other A, by the rule along lines to the corners. docs/model.md derives the slopes."""
    fit, slope_c, slope = out.fit, out.slope_c, out.slope
    code, table, constant, _ = log_partition
    n_topics, q = table.shape
    eta, mean = np.empty(q), np.empty(q)
    here, face, point, corner = np.empty(n_topics), np.empty(n_topics), np.empty(n_topics), np.empty(n_topics)
    gradient, face_slopes, corners = np.empty(n_topics), np.empty(n_topics), np.empty(n_topics)
    for k in range(n_topics):
        corner[:] = 0.0
        corner[k] = 1.0
        corners[k] = log_partition_mean(code, table, constant, corner, eta, eta[:0])
    for j in range(n_words):
        n = 1.0 / c[j] - 1.0
        here[:] = m[:, j]
        total = (2.0 - n_topics) * _slopes(code, table, constant, here, eta, mean, gradient)
        along_n = 0.0
        for i in range(n_topics):
            slope[i, j] = score[i, j] - (2.0 - n_topics) * gradient[i]
        for k in range(n_topics):
            rest = opposite_face(here, k, face)
            x, zero, inside, one = line_rule(here[k], n)
            at_zero = _slopes(code, table, constant, face, eta, mean, gradient)
            for i in range(n_topics):
                point[i] = (1.0 - x) * face[i]
                face_slopes[i] = rest * zero * gradient[i]
            point[k] = x
            at_x = _slopes(code, table, constant, point, eta, mean, gradient)
            along_x, along_face = 0.0, 0.0
            for i in range(n_topics):
                along_x += gradient[i] * ((1.0 if i == k else 0.0) - face[i])
                face_slopes[i] += rest * inside * (1.0 - x) * gradient[i]
                along_face += face_slopes[i] * face[i]
            line = zero * at_zero + inside * at_x + one * corners[k]
            total += rest * line
            # How the rule itself moves with m_k and with n: u = E[z_k(1 − z_k)], inside = u / x(1 − x).
            x_m, x_n = n / (n + 2.0), (2.0 * here[k] - 1.0) / ((n + 2.0) * (n + 2.0))
            width = x * (1.0 - x)
            u_m = (1.0 - 2.0 * here[k]) * n / (n + 1.0)
            u_n = here[k] * rest / ((n + 1.0) * (n + 1.0))
            inside_m = (u_m - inside * (1.0 - 2.0 * x) * x_m) / width
            inside_n = (u_n - inside * (1.0 - 2.0 * x) * x_n) / width
            one_m, one_n = 1.0 - inside_m * x - inside * x_m, -inside_n * x - inside * x_n
            line_m = -(one_m + inside_m) * at_zero + inside_m * at_x + one_m * corners[k] + inside * along_x * x_m
            line_n = -(one_n + inside_n) * at_zero + inside_n * at_x + one_n * corners[k] + inside * along_x * x_n
            along_n += rest * line_n
            slope[k, j] += line - rest * line_m - along_face / rest
            for i in range(n_topics):
                if i != k:
                    slope[i, j] -= face_slopes[i] / rest
        fit[j] = -total
        for i in range(n_topics):
            fit[j] += here[i] * score[i, j]
        slope_c[j] = along_n / (c[j] * c[j])
