"""Averages of A over a Dirichlet, for families whose A is not quadratic: sums along lines through the simplex.

E[A(Σ z_k η_k)] is summed along the lines from m = E[z] to each corner, on which z_k is a beta variable:
E[A] ≈ (2 − K) A(m) + Σ_k (1 − m_k) E[A on line k], exact for quadratic A. Each line has the Gauss-Lobatto rule of its
beta distribution: both ends and two points between, exact up to the fifth power. With the ends in it the rule errs
upwards for Poisson, gamma and per-topic Gaussians (for two topics, always), so that no topic can raise the bound by
growing where the rule does not look.
"""

import math

import numpy as np

from pmlda.kernels.arguments import LogPartition, PointBlock
from pmlda.kernels.jit import inlined, inner, kernel, summing
from pmlda.kernels.log_partition import load
from pmlda.kernels.partition_blocks import count_words, fill_registers, mix_block, partition_block, variance_block
from pmlda.types import FloatArray

# 1 − m_k counts as no less than this, so that one can divide by it.
SMALLEST_REST = 1e-300


@inlined
def line_rule(m: float, n: float) -> tuple[float, float, float, float, float, float]:
    """Lobatto's rule for Beta(nm, n − nm): points x and y between 0 and 1, and the weights of 0, x, y and 1.

    x and y are those of Gauss for Beta(nm + 1, n − nm + 1).
    """
    middle = (n * m + 2.0) / (n + 4.0)
    off = math.sqrt((n * m + 2.0) * (n - n * m + 2.0) / (n + 3.0)) / (n + 4.0)
    lean = 0.5 * ((n * m + 1.0) / (n + 2.0) - middle) / off
    x, y = middle - off, middle + off
    between = m * (1.0 - m) * n / (n + 1.0)  # E[z(1 − z)], to which the ends contribute nothing
    at_x, at_y = between * (0.5 - lean) / (x * (1.0 - x)), between * (0.5 + lean) / (y * (1.0 - y))
    one = m - at_x * x - at_y * y
    return x, y, 1.0 - one - at_x - at_y, at_x, at_y, one


@inner
def opposite_faces(m: FloatArray, k: int, n_words: int, face: FloatArray, rest: FloatArray) -> None:
    """face (K, B) = the end of line k where z_k = 0; rest (B,) = 1 − m_k, summed so that it keeps its digits."""
    n_topics = len(m)
    for j in range(n_words):
        rest[j] = 0.0
    for i in range(n_topics):
        if i != k:
            for j in range(n_words):
                rest[j] += m[i, j]
    for j in range(n_words):
        rest[j] = max(rest[j], SMALLEST_REST)
    for i in range(n_topics):
        for j in range(n_words):
            face[i, j] = m[i, j] / rest[j] if i != k else 0.0


@inner
def move_along(face: FloatArray, k: int, place: FloatArray, n_words: int, point: FloatArray) -> None:
    """point (K, B) = the memberships on line k where z_k is place (B,). One topic alone has all, wherever that is."""
    for i in range(len(face)):
        for j in range(n_words):
            point[i, j] = place[j] if i == k else (1.0 - place[j]) * face[i, j]
    if len(face) == 1:
        for j in range(n_words):
            point[0, j] = 1.0


@summing
def _weighted_sum(first: FloatArray, second: FloatArray, n_words: int) -> float:
    total = 0.0
    for j in range(n_words):
        total += first[j] * second[j]
    return total


@inner
def _add_points(
    log_partition: LogPartition,
    weight: FloatArray,
    z: FloatArray,
    n_words: int,
    room: PointBlock,
    slopes: FloatArray,
    bends: FloatArray,
) -> float:
    """Σ weight·A at z (K, B); slopes (K, q) += Σ weight z_k ∇A, and bends (K, K, ·) += Σ weight z_k z_l ∇²A.

    Nothing is added to slopes or bends that have no entries.
    """
    eta, mean, variance, value, product = room
    n_topics, q = log_partition.table.shape
    mix_block(log_partition.table, z, n_words, eta)
    partition_block(log_partition.code, log_partition.constant, eta, n_words, value, mean)
    for k in range(n_topics if len(slopes) > 0 else 0):
        for j in range(n_words):
            product[j] = weight[j] * z[k, j]
        for i in range(q):
            slopes[k, i] += _weighted_sum(product, mean[i], n_words)
    if len(variance) > 0:
        variance_block(log_partition.code, log_partition.constant, mean, n_words, variance)
    for k in range(len(bends)):
        for o in range(k + 1):
            for j in range(n_words):
                product[j] = weight[j] * z[k, j] * z[o, j]
            for i in range(len(variance)):
                bends[k, o, i] += _weighted_sum(product, variance[i], n_words)
    return _weighted_sum(weight, value, n_words)


@kernel
def expected_partition(
    log_partition: LogPartition, gamma: FloatArray, first: int, last: int, slopes: FloatArray, bends: FloatArray
) -> float:
    """Σ E[A(Σ z_k η_k)] over words first to last − 1; slopes (K, q) becomes its slopes along η. gamma : (N, K).

    bends (K, K, ·) becomes what its second derivatives along η_k and η_l consist of, for l ≤ k, row by row as
    variance_block gives them. Both may have no entries, and are then left alone; bends need slopes.
    Not for the quadratic A of shared-covariance Gaussians, which needs no visit. Twin:
    tests.twins.variational.expected_partition.
    """
    n_topics, q = log_partition.table.shape
    n_most = count_words(q)
    shape = (n_topics, n_most)
    m, face, point, rows = np.empty(shape), np.empty(shape), np.empty(shape), np.empty((6, n_most))
    n_means, n_bends = q if len(slopes) > 0 else 0, bends.shape[2]
    room = PointBlock(np.empty((q, n_most)), np.empty((n_means, n_most)), np.empty((n_bends, n_most)), rows[0], rows[1])
    n, rest, weight, place = rows[2], rows[3], rows[4], rows[5]
    corners = np.zeros(n_topics)
    slopes[:] = 0.0
    bends[:] = 0.0
    total = 0.0
    for start in range(first, last, n_most):
        n_words = min(n_most, last - start)
        load(gamma, start, n_words, m)
        n_given, n_words = n_words, fill_registers(m, n_words)
        _divide_by_sums(m, n_words, n)
        for j in range(n_words):
            weight[j] = 2.0 - n_topics if j < n_given else 0.0
        total += _add_points(log_partition, weight, m, n_words, room, slopes, bends)
        for k in range(n_topics):
            opposite_faces(m, k, n_words, face, rest)
            for j in range(n_given, n_words):
                rest[j] = 0.0
            for j in range(n_words):
                _, _, _, _, _, one = line_rule(m[k, j], n[j])
                corners[k] += rest[j] * one
            for number in range(3):
                for j in range(n_words):
                    x, y, zero, at_x, at_y, _ = line_rule(m[k, j], n[j])
                    place[j] = 0.0 if number == 0 else x if number == 1 else y
                    weight[j] = rest[j] * (zero if number == 0 else at_x if number == 1 else at_y)
                move_along(face, k, place, n_words, point)
                total += _add_points(log_partition, weight, point, n_words, room, slopes, bends)
    for k in range(n_topics):
        point[:, 0] = 0.0
        point[k, 0] = 1.0
        weight[0] = corners[k]
        total += _add_points(log_partition, weight, point, 1, room, slopes, bends)
    return total


@inner
def _divide_by_sums(gamma: FloatArray, n_words: int, sums: FloatArray) -> None:
    """gamma (K, B) becomes parts of its sums (B,)."""
    for j in range(n_words):
        sums[j] = 0.0
    for k in range(len(gamma)):
        for j in range(n_words):
            sums[j] += gamma[k, j]
    for k in range(len(gamma)):
        for j in range(n_words):
            gamma[k, j] /= sums[j]
