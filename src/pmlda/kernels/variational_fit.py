"""Variational inference, what a word's features say: f(γ) = E[z]·ℓ − E[A(Σ z_k η_k)] and its slopes.

E[A] has a closed form where A is quadratic (Gaussians with one covariance); elsewhere it is summed along lines
(kernels.lines).
"""

import numpy as np

from pmlda.kernels.arguments import FitBlock, LogPartition, PartitionLine
from pmlda.kernels.jit import inner
from pmlda.kernels.lines import line_rule, opposite_faces
from pmlda.kernels.partition_blocks import (
    bend_block,
    corner_partitions,
    mix_block,
    partition_block,
    slopes_block,
)
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
def other_fit(
    log_partition: LogPartition,
    score: FloatArray,
    m: FloatArray,
    c: FloatArray,
    n_words: int,
    wants_slopes: bool,
    out: FitBlock,
    bend: FloatArray,
) -> None:
    """f, ∂f/∂m and ∂f/∂c for any other A, by the rule along lines to the corners; bend (K, K, B) = ηᵀ∇²A η at m.

    Where no slopes are wanted, f alone. docs/model.md derives the slopes.
    """
    n_topics, q = log_partition.table.shape
    shape = (n_topics, n_words)
    line = PartitionLine(
        np.empty(shape), np.empty((q, n_words)), np.empty((q if wants_slopes else 0, n_words)),
        np.empty(shape), np.empty(shape), np.empty(shape), np.empty((5, n_words)), corner_partitions(log_partition),
    )  # fmt: skip
    _fit_at_mean(log_partition, score, m, n_words, line, out, bend)
    for k in range(n_topics):
        _fit_on_line(log_partition, m, c, k, n_words, line, out)


@inner
def _fit_at_mean(
    log_partition: LogPartition,
    score: FloatArray,
    m: FloatArray,
    n_words: int,
    line: PartitionLine,
    out: FitBlock,
    bend: FloatArray,
) -> None:
    """What A at m contributes, with which sums begin."""
    n_topics, value, gradient = len(m), line.rows[0], line.gradient
    wants_slopes = len(line.mean) > 0
    mix_block(log_partition.table, m, n_words, line.eta)
    partition_block(log_partition.code, log_partition.constant, line.eta, n_words, value, line.mean)
    for j in range(n_words):
        out.fit[j] = (n_topics - 2.0) * value[j]
        out.slope_c[j] = 0.0
    for k in range(n_topics):
        for j in range(n_words):
            out.fit[j] += m[k, j] * score[k, j]
    if wants_slopes:
        slopes_block(log_partition.table, line.mean, n_words, gradient)
        for k in range(n_topics):
            for j in range(n_words):
                out.slope[k, j] = score[k, j] + (n_topics - 2.0) * gradient[k, j]
        bend_block(log_partition, line.mean, gradient, n_words, bend)


@inner
def _fit_on_line(
    log_partition: LogPartition,
    m: FloatArray,
    c: FloatArray,
    k: int,
    n_words: int,
    line: PartitionLine,
    out: FitBlock,
) -> None:
    """What A on the line towards corner k contributes."""
    code, table, constant = log_partition.code, log_partition.table, log_partition.constant
    n_topics, wants_slopes, corner = len(m), len(line.mean) > 0, line.corners[k]
    point, gradient, face, moved = line.point, line.gradient, line.face, line.slopes
    at_zero, at_x, rest, along_face = line.rows[0], line.rows[1], line.rows[2], line.rows[3]
    opposite_faces(m, k, n_words, face, rest)
    mix_block(table, face, n_words, line.eta)
    partition_block(code, constant, line.eta, n_words, at_zero, line.mean)
    if wants_slopes:
        slopes_block(table, line.mean, n_words, moved)
    for i in range(n_topics):
        for j in range(n_words):
            x, _, _, _ = line_rule(m[k, j], 1.0 / c[j] - 1.0)
            point[i, j] = x if i == k else (1.0 - x) * face[i, j]
    mix_block(table, point, n_words, line.eta)
    partition_block(code, constant, line.eta, n_words, at_x, line.mean)
    if not wants_slopes:
        for j in range(n_words):
            x, zero, inside, one = line_rule(m[k, j], 1.0 / c[j] - 1.0)
            out.fit[j] -= rest[j] * (zero * at_zero[j] + inside * at_x[j] + one * corner)
        return
    slopes_block(table, line.mean, n_words, gradient)
    along_x = line.rows[4]
    for j in range(n_words):
        along_x[j] = gradient[k, j]
        along_face[j] = 0.0
    for i in range(n_topics):
        for j in range(n_words):
            x, zero, inside, one = line_rule(m[k, j], 1.0 / c[j] - 1.0)
            moved[i, j] = zero * moved[i, j] + inside * (1.0 - x) * gradient[i, j]
            along_x[j] -= gradient[i, j] * face[i, j]
            along_face[j] += moved[i, j] * face[i, j]
            out.slope[i, j] -= moved[i, j] if i != k else 0.0
    for j in range(n_words):
        n = 1.0 / c[j] - 1.0
        here = m[k, j]
        x, zero, inside, one = line_rule(here, n)
        value = zero * at_zero[j] + inside * at_x[j] + one * corner
        out.fit[j] -= rest[j] * value
        # How the rule itself moves with m_k and with n: u = E[z_k(1 − z_k)], inside = u / x(1 − x).
        x_m, x_n = n / (n + 2.0), (2.0 * here - 1.0) / ((n + 2.0) * (n + 2.0))
        width = x * (1.0 - x)
        u_m = (1.0 - 2.0 * here) * n / (n + 1.0)
        u_n = here * rest[j] / ((n + 1.0) * (n + 1.0))
        inside_m = (u_m - inside * (1.0 - 2.0 * x) * x_m) / width
        inside_n = (u_n - inside * (1.0 - 2.0 * x) * x_n) / width
        one_m, one_n = 1.0 - inside_m * x - inside * x_m, -inside_n * x - inside * x_n
        along = inside * along_x[j]
        value_m = -(one_m + inside_m) * at_zero[j] + inside_m * at_x[j] + one_m * corner + along * x_m
        value_n = -(one_n + inside_n) * at_zero[j] + inside_n * at_x[j] + one_n * corner + along * x_n
        out.slope[k, j] += value - rest[j] * value_m - along_face[j]
        out.slope_c[j] += rest[j] * value_n / (c[j] * c[j])
