"""The exact sampler, stretches: a_k of a document moves together with the memberships of all its words."""

import math

import numpy as np

from pmlda.kernels.gibbs import fit_block, log_prior, longest_of
from pmlda.kernels.gibbs_candidates import log_sums
from pmlda.kernels.jit import inner, kernel
from pmlda.kernels.log_partition import load, store
from pmlda.kernels.special import exp, exp_minus_one, log, log_one_minus
from pmlda.kernels.streams import PURPOSE_STRETCH, STREAM_SIZE, normal, point, uniform
from pmlda.types import FloatArray, IntArray

# Stretches of small memberships are of those below ε, with ln ε uniform between this and 0.
LOWEST_EDGE = -7.0


@inner
def _stretch(
    log_z: FloatArray,
    n_words: int,
    k: int,
    r: float,
    edge: float,
    rest: FloatArray,
    shift: FloatArray,
    new: FloatArray,
    jacobian: FloatArray,
) -> None:
    """new = ln z after z_k → ε (z_k/ε)^(1/r) where z_k < ε = exp(edge), the others in proportion.

    jacobian becomes the log Jacobian on the simplex, of each word. Memberships of ε or more stay. rest and shift are
    scratch.
    """
    n_topics, log_r = len(log_z), math.log(r)
    log_sums(log_z, n_words, k, shift, rest)
    for j in range(n_words):
        # Where z_k is close to one its logarithm has lost the digits that the others have kept.
        log_k = log_one_minus(exp(min(rest[j], -1.0))) if rest[j] < -1.0 else log_z[k, j]
        moves = edge == 0.0 or log_k < edge
        new_k = edge + (log_k - edge) / r
        rest_new = log(max(-exp_minus_one(new_k), 1e-300)) if new_k < -1e-290 else rest[j] - log_r
        shift[j] = rest_new - rest[j] if moves else 0.0
        new[k, j] = new_k if moves else log_z[k, j]
        jacobian[j] = new_k - log_k - log_r + (n_topics - 2) * shift[j] if moves else 0.0
    for i in range(n_topics):
        if i != k:
            for j in range(n_words):
                new[i, j] = log_z[i, j] + shift[j]


@inner
def _stretch_all(
    log_z: FloatArray,
    n_words: int,
    r: float,
    rest: FloatArray,
    shift: FloatArray,
    new: FloatArray,
    jacobian: FloatArray,
) -> None:
    """new = ln z after z → z^(1/r) / Σ z^(1/r): log ratios divided by r; the rest as in _stretch."""
    n_topics = len(log_z)
    for i in range(n_topics):
        for j in range(n_words):
            new[i, j] = log_z[i, j] / r
    log_sums(new, n_words, -1, shift, rest)
    jacobian[:n_words] = -(n_topics - 1) * math.log(r)
    for i in range(n_topics):
        for j in range(n_words):
            new[i, j] -= rest[j]
            jacobian[j] += new[i, j] - log_z[i, j]


@inner
def _gains(
    log_old: FloatArray,
    log_new: FloatArray,
    a: FloatArray,
    new_a: FloatArray,
    n_words: int,
    new: FloatArray,
    gain: FloatArray,
) -> None:
    """new = exp(log_new); to gain is added what the memberships gain in density, without its normaliser."""
    for i in range(len(log_new)):
        for j in range(n_words):
            new[i, j] = exp(log_new[i, j])
            gain[j] += (new_a[i] - 1.0) * log_new[i, j] - (a[i] - 1.0) * log_old[i, j]


@kernel
def stretch_step(
    code: int,
    table: FloatArray,
    constant: float,
    scores: FloatArray,
    z: FloatArray,
    log_z: FloatArray,
    alpha: FloatArray,
    scale_rate: float,
    a: FloatArray,
    starts: IntArray,
    widths: FloatArray,
    key: np.uint64,
    sweep: int,
    first: int,
    last: int,
    accepted: FloatArray,
) -> None:
    """For every topic of documents first to last − 1: a_k → r a_k and z_nk → z_nk^(1/r) for all words together.

    Memberships far below what the data can tell are exponential in ln z at rate a_k, and this map keeps them so: a_k
    moves over orders of magnitude where it would otherwise be tied to them. After one round of all topics, further
    rounds stretch only memberships below an ε that is drawn anew for each move: words that the data do tell about stay
    where they are and do not stand in the way. The last move is of all topics at once, for documents of crisp words.
    widths (D, R·K + 1) are the lengths of ln r in R rounds; accepted, of the same shape, becomes 1 or 0. Twin:
    twins_gibbs.stretch_step.
    """
    n_topics, n_moves = z.shape[1], widths.shape[1]
    longest = longest_of(starts, first, last)
    shape = (n_topics, longest)
    old, log_old, new, log_new, score = (
        np.empty(shape),
        np.empty(shape),
        np.empty(shape),
        np.empty(shape),
        np.empty(shape),
    )
    fit, fit_new, gain = np.empty(longest), np.empty(longest), np.empty(longest)
    rest, shift = np.empty(longest), np.empty(longest)
    new_a, scratch = np.empty(n_topics), np.empty(table.shape[1])
    stream = np.empty(STREAM_SIZE, np.uint64)
    for d in range(first, last):
        point(stream, key, np.uint64(sweep), np.uint64(d), np.uint64(0), PURPOSE_STRETCH)
        size = starts[d + 1] - starts[d]
        load(z, starts[d], size, old)
        load(log_z, starts[d], size, log_old)
        load(scores, starts[d], size, score)
        fit_block(code, table, constant, old, score, size, scratch, fit)
        for move in range(n_moves):
            k = move % n_topics if move < n_moves - 1 else n_topics
            r = math.exp(widths[d, move] * normal(stream))
            edge = LOWEST_EDGE * uniform(stream) if move >= n_topics else 0.0
            threshold = math.log(uniform(stream))
            for i in range(n_topics):
                new_a[i] = a[d, i] * r if i == k or k == n_topics else a[d, i]
            accepted[d, move] = 0.0
            if new_a.min() < 1e-290 or new_a.max() > 1e12:
                continue
            if k == n_topics:
                _stretch_all(log_old, size, r, rest, shift, log_new, gain)
            else:
                _stretch(log_old, size, k, r, edge, rest, shift, log_new, gain)
            _gains(log_old, log_new, a[d], new_a, size, new, gain)
            fit_block(code, table, constant, new, score, size, scratch, fit_new)
            ratio = log_prior(new_a, alpha, scale_rate, size) - log_prior(a[d], alpha, scale_rate, size)
            for j in range(size):
                ratio += gain[j] + (fit_new[j] - fit[j])
            if threshold < ratio:
                a[d] = new_a
                accepted[d, move] = 1.0
                old, new = new, old
                log_old, log_new = log_new, log_old
                fit, fit_new = fit_new, fit
        store(old, size, starts[d], z)
        store(log_old, size, starts[d], log_z)
