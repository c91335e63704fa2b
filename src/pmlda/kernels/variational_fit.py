"""Variational inference, what a word's features say: f(γ) = E[z]·ℓ − E[A(Σ z_k η_k)] and its slopes.

E[A] has a closed form where A is quadratic (Gaussians with one covariance); elsewhere it is summed along lines
(kernels.lines).
"""

import math

import numpy as np

from pmlda.kernels.arguments import FitBlock, LineRules, LogPartition, PartitionLine
from pmlda.kernels.jit import inner
from pmlda.kernels.lines import line_rule, move_along, opposite_faces
from pmlda.kernels.partition_blocks import (
    bend_block,
    corner_partitions,
    fill_registers,
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

    Where no slopes are wanted, f alone. docs/model.md derives the slopes. Words after n_words that share a register
    with the last are overwritten.
    """
    n_topics, q = log_partition.table.shape
    n_given, n_words = n_words, fill_registers(m, n_words)
    for j in range(n_given, n_words):
        c[j] = c[0]
    shape, n_means = (n_topics, n_words), q if wants_slopes else 0
    line = PartitionLine(
        np.empty(shape), np.empty(shape), np.empty((q, n_words)), np.empty((n_means, n_words)),
        np.empty(n_words), np.empty(shape), np.empty(n_words),
    )  # fmt: skip
    each = np.empty((6, 4, n_words))
    rules = LineRules(each[0], each[1], each[2], each[3], each[4], each[5])
    corners = corner_partitions(log_partition)
    _fit_at_mean(log_partition, score, m, n_words, line, out, bend)
    for k in range(n_topics):
        _fit_on_line(log_partition, m, c, k, corners[k], n_words, line, rules, out)


@inner
def _partition_at(log_partition: LogPartition, z: FloatArray, n_words: int, line: PartitionLine) -> None:
    """line.value = A at z (K, B); where slopes are wanted, line.mean = ∇A and line.gradient = those along z."""
    mix_block(log_partition.table, z, n_words, line.eta)
    partition_block(log_partition.code, log_partition.constant, line.eta, n_words, line.value, line.mean)
    if len(line.mean) > 0:
        slopes_block(log_partition.table, line.mean, n_words, line.gradient)


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
    n_topics = len(m)
    _partition_at(log_partition, m, n_words, line)
    for j in range(n_words):
        out.fit[j] = (n_topics - 2.0) * line.value[j]
        out.slope_c[j] = 0.0
    for k in range(n_topics):
        for j in range(n_words):
            out.fit[j] += m[k, j] * score[k, j]
    if len(line.mean) > 0:
        for k in range(n_topics):
            for j in range(n_words):
                out.slope[k, j] = score[k, j] + (n_topics - 2.0) * line.gradient[k, j]
        bend_block(log_partition, line.mean, line.gradient, n_words, bend)


@inner
def _fit_on_line(
    log_partition: LogPartition,
    m: FloatArray,
    c: FloatArray,
    k: int,
    corner: float,
    n_words: int,
    line: PartitionLine,
    rules: LineRules,
    out: FitBlock,
) -> None:
    """What A on the line towards corner k contributes. corner : A there"""
    wants_slopes, gradient = len(line.mean) > 0, line.gradient
    opposite_faces(m, k, n_words, line.face, line.rest)
    _make_rules(m[k], c, n_words, rules)
    if wants_slopes:
        _move_rules(m[k], c, n_words, rules)
    for number in range(4):  # the end of the line, two points on it, and the corner
        place, weight = rules.place[number], rules.weight[number]
        if number < 3:
            move_along(line.face, k, place, n_words, line.point)
            _partition_at(log_partition, line.point, n_words, line)
        else:
            line.value[:n_words] = corner
            gradient[:, :n_words] = 0.0
        for j in range(n_words):
            out.fit[j] -= line.rest[j] * weight[j] * line.value[j]
        if wants_slopes:
            _add_line_slopes(c, k, number, n_words, line, rules, out)


@inner
def _make_rules(m: FloatArray, c: FloatArray, n_words: int, rules: LineRules) -> None:
    """rules.place and weight, of z_k with means m (B,)."""
    place, weight = rules.place, rules.weight
    for j in range(n_words):
        x, y, zero, at_x, at_y, one = line_rule(m[j], 1.0 / c[j] - 1.0)
        place[0, j], place[1, j], place[2, j], place[3, j] = 0.0, x, y, 1.0
        weight[0, j], weight[1, j], weight[2, j], weight[3, j] = zero, at_x, at_y, one


@inner
def _move_rules(m: FloatArray, c: FloatArray, n_words: int, rules: LineRules) -> None:
    """How places and weights move with m_k and with n = γ₀, after _make_rules."""
    for j in range(n_words):
        n, here = 1.0 / c[j] - 1.0, m[j]
        left, right = n * here + 2.0, n - n * here + 2.0
        middle, mean = left / (n + 4.0), (n * here + 1.0) / (n + 2.0)
        off = math.sqrt(left * right / (n + 3.0)) / (n + 4.0)
        # Of the middle between both points, of how far they are from it, and of the mean of Beta(nm + 1, n − nm + 1).
        middle_m, middle_n = n / (n + 4.0), (here - middle) / (n + 4.0)
        off_m = 0.5 * off * n * (1.0 / left - 1.0 / right)
        off_n = 0.5 * off * (here / left + (1.0 - here) / right - 1.0 / (n + 3.0) - 2.0 / (n + 4.0))
        lean, per_off = 0.5 * (mean - middle) / off, 1.0 / off
        lean_m = 0.5 * (n / (n + 2.0) - middle_m) * per_off - lean * off_m * per_off
        lean_n = 0.5 * ((here - mean) / (n + 2.0) - middle_n) * per_off - lean * off_n * per_off
        between = here * (1.0 - here) * n / (n + 1.0)
        between_m = (1.0 - 2.0 * here) * n / (n + 1.0)
        between_n = here * (1.0 - here) / ((n + 1.0) * (n + 1.0))
        one_m, one_n, inside_m, inside_n = 1.0, 0.0, 0.0, 0.0
        for number in range(1, 3):
            side = -1.0 if number == 1 else 1.0
            x, weight = rules.place[number, j], rules.weight[number, j]
            x_m, x_n, per_width = middle_m + side * off_m, middle_n + side * off_n, 1.0 / (x * (1.0 - x))
            part, turn = 0.5 + side * lean, weight * (1.0 - 2.0 * x)
            weight_m = (between_m * part + between * side * lean_m - turn * x_m) * per_width
            weight_n = (between_n * part + between * side * lean_n - turn * x_n) * per_width
            rules.place_m[number, j], rules.place_n[number, j] = x_m, x_n
            rules.weight_m[number, j], rules.weight_n[number, j] = weight_m, weight_n
            one_m -= weight_m * x + weight * x_m
            one_n -= weight_n * x + weight * x_n
            inside_m += weight_m
            inside_n += weight_n
        rules.weight_m[0, j], rules.weight_n[0, j] = -one_m - inside_m, -one_n - inside_n
        rules.weight_m[3, j], rules.weight_n[3, j] = one_m, one_n
        for number in range(0, 4, 3):
            rules.place_m[number, j], rules.place_n[number, j] = 0.0, 0.0


@inner
def _add_line_slopes(
    c: FloatArray, k: int, number: int, n_words: int, line: PartitionLine, rules: LineRules, out: FitBlock
) -> None:
    """Slopes of what one point of line k contributes: the face moves, the place on the line, and the weight."""
    place, weight = rules.place[number], rules.weight[number]
    value, gradient, face, rest = line.value, line.gradient, line.face, line.rest
    along_face = line.eta[0]  # which is not needed any more
    for j in range(n_words):
        along_face[j] = 0.0
    for i in range(len(face)):
        if i != k:
            for j in range(n_words):
                along_face[j] += gradient[i, j] * face[i, j]
                out.slope[i, j] -= weight[j] * (1.0 - place[j]) * gradient[i, j]
    for j in range(n_words):
        along = weight[j] * (gradient[k, j] - along_face[j])
        by_m = rules.weight_m[number, j] * value[j] + along * rules.place_m[number, j]
        by_n = rules.weight_n[number, j] * value[j] + along * rules.place_n[number, j]
        out.slope[k, j] += weight[j] * (value[j] - (1.0 - place[j]) * along_face[j]) - rest[j] * by_m
        out.slope_c[j] += rest[j] * by_n / (c[j] * c[j])
