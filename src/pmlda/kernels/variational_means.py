"""Variational inference, the end: posterior means of words, better than those of q."""

import math

import numpy as np

from pmlda.kernels.arguments import LogPartition
from pmlda.kernels.jit import inner, kernel
from pmlda.kernels.lines import expected_fit
from pmlda.kernels.log_partition import BLOCK_WORDS, load
from pmlda.types import FloatArray, IntArray

# A first-order correction is trusted up to a factor of e to this.
MOST_TILT = 3.0


@inner
def _quadratic_tilts(
    table: FloatArray, score: FloatArray, gamma: FloatArray, n_words: int, work: FloatArray, tilt: FloatArray
) -> None:
    """tilt[k] = f(γ + e_k) − f(γ) where A is quadratic; both have the same ingredients. work[0] holds γ₀."""
    n_topics = len(table)
    total, mean_score, mean_square, mean_g = work[0], work[1], work[2], work[3]
    for j in range(n_words):
        mean_score[j] = 0.0
        mean_square[j] = 0.0
        mean_g[j] = 0.0
    for k in range(n_topics):
        g = table[k, k]
        row = tilt[k]
        for j in range(n_words):
            row[j] = 0.0
        for i in range(n_topics):
            for j in range(n_words):
                row[j] += table[k, i] * gamma[i, j]
        for j in range(n_words):
            row[j] /= total[j]
            m = gamma[k, j] / total[j]
            mean_score[j] += m * score[k, j]
            mean_square[j] += m * row[j]
            mean_g[j] += m * g
    for k in range(n_topics):
        g = table[k, k]
        for j in range(n_words):
            n = total[j]
            up = 1.0 / (n + 1.0)
            square = (n * n * mean_square[j] + 2.0 * n * tilt[k, j] + g) * up * up
            before = mean_score[j] - 0.5 * ((1.0 - up) * mean_square[j] + up * mean_g[j])
            far = 1.0 / (n + 2.0)
            after = (n * mean_score[j] + score[k, j]) * up
            tilt[k, j] = after - 0.5 * ((1.0 - far) * square + far * (n * mean_g[j] + g) * up) - before


@inner
def _other_tilts(
    log_partition: LogPartition, score: FloatArray, gamma: FloatArray, n_words: int, tilt: FloatArray
) -> None:
    """The same for any other A."""
    n_topics, q = log_partition.table.shape
    m, point, eta, shifted = np.empty(n_topics), np.empty(n_topics), np.empty(q), np.empty(n_topics)
    for j in range(n_words):
        shifted[:] = gamma[:, j]
        before = expected_fit(log_partition, score[:, j], shifted, m, point, eta)
        for k in range(n_topics):
            shifted[k] += 1.0
            tilt[k, j] = expected_fit(log_partition, score[:, j], shifted, m, point, eta) - before
            shifted[k] -= 1.0


@kernel
def posterior_means(
    log_partition: LogPartition,
    scores: FloatArray,
    a: FloatArray,
    segments: IntArray,
    gamma: FloatArray,
    means: FloatArray,
) -> None:
    """means = E_p[z] of every word in the segments, better than E_q[z] by the first-order correction of q.

    E_p[z_k] = m_k E_k[e^r] / E_q[e^r], where r = ln p − ln q up to a constant and E_k is over Dir(γ + e_k); each
    average of an exponential is replaced by the exponential of the average. a : (D, K); segments : (M, 3) as in Places;
    gamma : (N, K); scores and means have a row for each word of the segments. Twin:
    tests.twins.variational.posterior_means.
    """
    n_topics = gamma.shape[1]
    first_word = segments[0, 0]
    shape = (n_topics, BLOCK_WORDS)
    score, current, tilt, work = np.empty(shape), np.empty(shape), np.empty(shape), np.empty((5, BLOCK_WORDS))
    total, excess = work[0], work[4]
    for i in range(len(segments)):
        prior = a[segments[i, 2]]
        for first in range(segments[i, 0], segments[i, 1], BLOCK_WORDS):
            n_words = min(BLOCK_WORDS, segments[i, 1] - first)
            load(scores, first - first_word, n_words, score)
            load(gamma, first, n_words, current)
            for j in range(n_words):
                total[j] = 0.0
            for k in range(n_topics):
                for j in range(n_words):
                    total[j] += current[k, j]
            if log_partition.code == 0:
                _quadratic_tilts(log_partition.table, score, current, n_words, work, tilt)
            else:
                _other_tilts(log_partition, score, current, n_words, tilt)
            for j in range(n_words):
                excess[j] = (prior.sum() - total[j]) / total[j]
                total[j] = 0.0
            for k in range(n_topics):
                for j in range(n_words):
                    change = tilt[k, j] + prior[k] / current[k, j] - 1.0 - excess[j]
                    tilt[k, j] = current[k, j] * math.exp(min(max(change, -MOST_TILT), MOST_TILT))
                    total[j] += tilt[k, j]
            for k in range(n_topics):
                for j in range(n_words):
                    means[first - first_word + j, k] = tilt[k, j] / total[j]
