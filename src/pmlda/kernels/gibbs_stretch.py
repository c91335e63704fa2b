"""The exact sampler, stretches: a_k of a document moves together with the memberships of all its words."""

import math

import numpy as np

from pmlda.kernels.gibbs import fit_block, log_prior, log_sum
from pmlda.kernels.jit import inner, kernel
from pmlda.kernels.partition import BLOCK_WORDS, load
from pmlda.kernels.streams import PURPOSE_STRETCH, STREAM_SIZE, normal, point, uniform
from pmlda.types import FloatArray, IntArray

# Stretches of small memberships are of those below ε, with ln ε uniform between this and 0.
LOWEST_EDGE = -7.0


@inner
def _log_rest(log_z: FloatArray, k: int) -> float:
    """ln(1 − z_k), from the other memberships."""
    top = -np.inf
    for i in range(len(log_z)):
        if i != k:
            top = max(top, log_z[i])
    total = 0.0
    for i in range(len(log_z)):
        if i != k:
            total += math.exp(log_z[i] - top)
    return top + math.log(total)


@inner
def _stretch(log_z: FloatArray, k: int, r: float, edge: float, new: FloatArray) -> float:
    """new = ln z after z_k → ε (z_k/ε)^(1/r) where z_k < ε = exp(edge), the others in proportion.

    Returns the log Jacobian on the simplex. Memberships of ε or more stay.
    """
    rest = _log_rest(log_z, k)
    # Where z_k is close to one its logarithm has lost the digits that the others have kept.
    log_k = math.log1p(-math.exp(rest)) if rest < -1.0 else log_z[k]
    if edge < 0.0 and log_k >= edge:
        new[:] = log_z
        return 0.0
    new[k] = edge + (log_k - edge) / r
    rest_new = math.log(-math.expm1(new[k])) if new[k] < -1e-290 else rest - math.log(r)
    for i in range(len(log_z)):
        if i != k:
            new[i] = log_z[i] + rest_new - rest
    return float(new[k] - log_k - math.log(r) + (len(log_z) - 2) * (rest_new - rest))


@inner
def _stretch_all(log_z: FloatArray, r: float, new: FloatArray) -> float:
    """new = ln z after z → z^(1/r) / Σ z^(1/r): log ratios divided by r. Returns the log Jacobian on the simplex."""
    n_topics = len(log_z)
    for i in range(n_topics):
        new[i] = log_z[i] / r
    total = log_sum(new, n_topics)
    jacobian = -(n_topics - 1) * math.log(r)
    for i in range(n_topics):
        new[i] -= total
        jacobian += new[i] - log_z[i]
    return jacobian


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
    longest = 0
    for d in range(first, last):
        longest = max(longest, starts[d + 1] - starts[d])
    proposal, new_a = np.empty((longest, n_topics)), np.empty(n_topics)
    shape = (n_topics, BLOCK_WORDS)
    old, new, score = np.empty(shape), np.empty(shape), np.empty(shape)
    fit, fit_new, scratch = np.empty(BLOCK_WORDS), np.empty(BLOCK_WORDS), np.empty(table.shape[1])
    stream = np.empty(STREAM_SIZE, np.uint64)
    for d in range(first, last):
        point(stream, key, np.uint64(sweep), np.uint64(d), np.uint64(0), PURPOSE_STRETCH)
        size = starts[d + 1] - starts[d]
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
            ratio = log_prior(new_a, alpha, scale_rate, size) - log_prior(a[d], alpha, scale_rate, size)
            for begin in range(starts[d], starts[d + 1], BLOCK_WORDS):
                n_words = min(BLOCK_WORDS, starts[d + 1] - begin)
                load(z, begin, n_words, old)
                load(scores, begin, n_words, score)
                for j in range(n_words):
                    row = proposal[begin - starts[d] + j]
                    if k == n_topics:
                        ratio += _stretch_all(log_z[begin + j], r, row)
                    else:
                        ratio += _stretch(log_z[begin + j], k, r, edge, row)
                    for i in range(n_topics):
                        new[i, j] = math.exp(row[i])
                        ratio += (new_a[i] - 1.0) * row[i] - (a[d, i] - 1.0) * log_z[begin + j, i]
                fit_block(code, table, constant, old, score, n_words, scratch, fit)
                fit_block(code, table, constant, new, score, n_words, scratch, fit_new)
                for j in range(n_words):
                    ratio += fit_new[j] - fit[j]
            if threshold < ratio:
                a[d] = new_a
                accepted[d, move] = 1.0
                for j in range(size):
                    for i in range(n_topics):
                        log_z[starts[d] + j, i] = proposal[j, i]
                        z[starts[d] + j, i] = math.exp(proposal[j, i])
