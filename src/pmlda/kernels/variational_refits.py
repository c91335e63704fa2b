"""Variational inference, refits: how far the memberships of words move under the topics and documents of every refit.

All refits set out from the same γ, so that what depends on γ alone is evaluated once for all of them.
"""

import numpy as np

from pmlda.kernels.arguments import Climb, DirichletBlock, LogPartition
from pmlda.kernels.jit import inlined, inner, kernel, total_of
from pmlda.kernels.labels import labelled_prior
from pmlda.kernels.log_partition import load, store
from pmlda.kernels.partition_blocks import count_words
from pmlda.kernels.variational import BLOCK_WORDS, ROWS, add_fit, climb, gamma_terms
from pmlda.types import FloatArray, IntArray, Labels


@inlined
def _at(log_partition: LogPartition, table: FloatArray) -> LogPartition:
    """A at other topics."""
    return LogPartition(
        log_partition.code, table, log_partition.constant, log_partition.counts,
        log_partition.quadratic, log_partition.additive, log_partition.other,
    )  # fmt: skip


@inner
def _set_out(
    first: DirichletBlock, kept: FloatArray, a: FloatArray, n_words: int, now: DirichletBlock, work: FloatArray
) -> None:
    """now and work as gamma_terms leaves them for concentrations a, from those for none."""
    n_topics = len(first.gamma)
    for j in range(n_words):
        now.bound[j] = first.bound[j]
    for k in range(n_topics):
        for j in range(n_words):
            now.gamma[k, j] = first.gamma[k, j]
            now.m[k, j] = first.m[k, j]
            now.log_z[k, j] = first.log_z[k, j]
            now.bound[j] += a[k] * first.log_z[k, j]
    for row in range(ROWS + n_topics):
        for j in range(n_words):
            work[row, j] = kept[row, j]


@inner
def _add_products(moved: FloatArray, n_words: int, lanes: FloatArray) -> None:
    """lanes (R, R, B) += Σ_k of products of what two refits have moved (R, K, B), below the diagonal and on it."""
    for one in range(len(moved)):
        for other in range(one + 1):
            for k in range(moved.shape[1]):
                for j in range(n_words):
                    lanes[one, other, j] += moved[one, k, j] * moved[other, k, j]


@kernel
def move_under_refits(
    log_partition: LogPartition,
    tables: FloatArray,
    scores: FloatArray,
    a: FloatArray,
    segments: IntArray,
    labels: Labels,
    steps: int,
    gamma: FloatArray,
    shift: FloatArray,
    squares: FloatArray,
    gram: FloatArray,
) -> None:
    """How far E[z] moves in `steps` steps under each of R refits: the sum over them and that of its squares, (n, K).

    Steps are those of local_step, from the γ (n, K) of the words of the segments.

    tables, scores, a : (R, K, ·) Family.table, (R, n, K) and (R, D, K) of every refit
    segments : (M, 4) as in Places, the first of which begins at 0, as do counts in log_partition
    gram : (R, R) becomes the sum over words and topics of products of what two refits have moved
    """
    n_refits, n_topics = len(tables), gamma.shape[1]
    n_most = BLOCK_WORDS if log_partition.quadratic else count_words(log_partition.table.shape[1])
    shape = (n_topics, BLOCK_WORDS)
    first = DirichletBlock(np.empty(shape), np.empty(shape), np.empty(shape), np.empty(BLOCK_WORDS))
    now = DirichletBlock(np.empty(shape), np.empty(shape), np.empty(shape), np.empty(BLOCK_WORDS))
    new = DirichletBlock(np.empty(shape), np.empty(shape), np.empty(shape), np.empty(BLOCK_WORDS))
    step, new_step, rate, risen = np.empty(shape), np.empty(shape), np.empty(BLOCK_WORDS), np.empty(BLOCK_WORDS)
    score, no_prior = np.empty(shape), np.zeros(n_topics)
    matrix = np.empty((n_topics, n_topics, BLOCK_WORDS))
    work, kept = np.empty((ROWS + 3 * n_topics, BLOCK_WORDS)), np.empty((ROWS + n_topics, BLOCK_WORDS))
    moved, lanes = np.empty((n_refits, n_topics, BLOCK_WORDS)), np.zeros((n_refits, n_refits, BLOCK_WORDS))
    total, total_squares = np.empty(shape), np.empty(shape)
    for i in range(len(segments)):
        for row in range(segments[i, 0], segments[i, 1], n_most):
            n_words = min(n_most, segments[i, 1] - row)
            load(gamma, row, n_words, first.gamma)
            gamma_terms(no_prior, first, n_words, work)
            for line in range(ROWS + n_topics):
                for j in range(n_words):
                    kept[line, j] = work[line, j]
            for k in range(n_topics):
                for j in range(n_words):
                    total[k, j] = 0.0
                    total_squares[k, j] = 0.0
            for refit in range(n_refits):
                prior = labelled_prior(a[refit, segments[i, 2]], labels, segments[i, 3])
                there = _at(log_partition, tables[refit])
                load(scores[refit], row, n_words, score)
                _set_out(first, kept, prior.concentration, n_words, now, work)
                add_fit(there, score, prior, now, row, n_words, True, work, matrix)
                for j in range(n_words):  # in the array itself: what is written to room.rate may be lost
                    rate[j] = 1.0
                room = Climb(step, new_step, rate, risen)
                climb(there, score, prior, now, new, row, n_words, steps, work, matrix, room)
                for k in range(n_topics):
                    for j in range(n_words):
                        far = now.m[k, j] - first.m[k, j]
                        moved[refit, k, j] = far
                        total[k, j] += far
                        total_squares[k, j] += far * far
            store(total, n_words, row, shift)
            store(total_squares, n_words, row, squares)
            _add_products(moved, n_words, lanes)
    for one in range(n_refits):
        for other in range(one + 1):
            gram[one, other] = total_of(lanes[one, other])
            gram[other, one] = gram[one, other]
