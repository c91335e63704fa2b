"""The exact sampler, candidates: fresh memberships for every word, drawn in blocks so that loops vectorise."""

import math

import numpy as np

from pmlda.kernels.jit import inlined, inner, kernel
from pmlda.kernels.log_partition import BLOCK_WORDS, load, log_partitions
from pmlda.kernels.special import cos_of_turns, exp, log
from pmlda.kernels.streams import PURPOSE_CANDIDATE, uniform_pair, uniform_pairs
from pmlda.types import FloatArray, IntArray


@inlined
def _attempt(d: float, u: float, turn: float, accept: float) -> tuple[float, bool]:
    """3 ln c, and whether d·c³ is a draw from Gamma(d + 1/3): Marsaglia and Tsang (2000), from a normal x.

    u, turn : uniform numbers that make the normal (Box and Muller)
    """
    x = math.sqrt(-2.0 * log(u)) * cos_of_turns(turn)
    c = 1.0 + x / math.sqrt(9.0 * d)
    log_cube = 3.0 * log(max(c, 1e-100))
    return log_cube, c > 0.0 and log(accept) < 0.5 * x * x + d * (1.0 - c * c * c + log_cube)


@inner
def _first_attempts(
    shape: FloatArray,
    d: FloatArray,
    base: FloatArray,
    u: FloatArray,
    turn: FloatArray,
    accept: FloatArray,
    boost: FloatArray,
    n_words: int,
    out: FloatArray,
    accepted: FloatArray,
) -> None:
    """ln of gamma draws where accepted becomes 1; below shape 1, ln Γ(a + 1) + ln(u) / a.

    base : what is added, ln d for draws of rate one
    boost : uniform numbers; becomes base and the second term
    """
    for j in range(n_words):
        log_cube, taken = _attempt(d[j], u[j], turn[j], accept[j])
        boost[j] = base[j] + log(boost[j]) / shape[j] if shape[j] < 1.0 else base[j]
        out[j] = log_cube + boost[j]
        accepted[j] = 1.0 if taken else 0.0


@inner
def _next_attempts(
    d: float, key: np.uint64, sweep: np.uint64, document: np.uint64, word: np.uint64, block: int, step: int
) -> float:
    """3 ln c of the first attempt that succeeds, after the one of _first_attempts did not."""
    taken, log_cube = False, 0.0
    while not taken:
        block += step
        u, turn = uniform_pair(key, sweep, document, word, PURPOSE_CANDIDATE, np.uint64(block))
        accept, _ = uniform_pair(key, sweep, document, word, PURPOSE_CANDIDATE, np.uint64(block + 1))
        log_cube, taken = _attempt(d, u, turn, accept)
    return log_cube


@inner
def _prepare(shape: FloatArray, rate: FloatArray, n_words: int, d: FloatArray, base: FloatArray) -> None:
    """What all candidates of a word share: d, and ln(d / rate)."""
    for k in range(len(shape)):
        for j in range(n_words):
            d[k, j] = (shape[k, j] + 1.0 if shape[k, j] < 1.0 else shape[k, j]) - 1.0 / 3.0
            base[k, j] = log(d[k, j] / rate[k, j])


@inner
def log_sums(log_z: FloatArray, n_words: int, left_out: int, top: FloatArray, out: FloatArray) -> None:
    """out[j] = ln Σ_k exp(log_z[k, j]), without topic left_out if that is one. top is scratch."""
    top[:n_words] = -np.inf
    out[:n_words] = 0.0
    for k in range(len(log_z)):
        if k != left_out:
            for j in range(n_words):
                top[j] = max(top[j], log_z[k, j])
    for k in range(len(log_z)):
        if k != left_out:
            for j in range(n_words):
                out[j] += exp(log_z[k, j] - top[j])
    for j in range(n_words):
        out[j] = top[j] + log(out[j])


@inner
def _weigh(
    shape: FloatArray,
    rate: FloatArray,
    log_z: FloatArray,
    n_words: int,
    z: FloatArray,
    density: FloatArray,
    weighted: FloatArray,
) -> None:
    """z, and the density of q up to a constant of each word, from ln z."""
    density[:n_words] = 0.0
    weighted[:n_words] = 0.0
    total = np.zeros(BLOCK_WORDS)
    for k in range(len(log_z)):
        for j in range(n_words):
            z[k, j] = exp(log_z[k, j])
            density[j] += (shape[k, j] - 1.0) * log_z[k, j]
            weighted[j] += rate[k, j] * z[k, j]
            total[j] += shape[k, j]
    for j in range(n_words):
        density[j] -= total[j] * log(weighted[j])


@kernel
def draw_candidates(
    shapes: FloatArray,
    rates: FloatArray,
    log_z: FloatArray,
    segments: IntArray,
    starts: IntArray,
    key: np.uint64,
    sweep: int,
    candidates: FloatArray,
    shares: FloatArray,
    log_q: FloatArray,
) -> None:
    """candidates ln z (N, S, K), shares z (N, K, S), and log_q (N, S) up to a constant of each word.

    q_n is a scaled Dirichlet distribution, z = g / Σg with g_k ~ Gamma(shape_k, rate_k): a membership that the data
    suppress keeps the shape of its prior and becomes smaller, where a Dirichlet would have to change shape. Its density
    is Π z_k^(shape_k − 1) / (Σ rate_k z_k)^(Σ shape_k). Twin: twins_gibbs.draw_candidates.
    """
    n_topics, n_candidates = shapes.shape[1], candidates.shape[1]
    step = 2 * (n_candidates - 1) * n_topics
    block = (n_topics, BLOCK_WORDS)
    shape, rate, d, base = np.empty(block), np.empty(block), np.empty(block), np.empty(block)
    log_g, z = np.empty(block), np.empty(block)
    u, turn, accept, boost = np.empty(BLOCK_WORDS), np.empty(BLOCK_WORDS), np.empty(BLOCK_WORDS), np.empty(BLOCK_WORDS)
    accepted, density, weighted = np.empty(BLOCK_WORDS), np.empty(BLOCK_WORDS), np.empty(BLOCK_WORDS)
    for i in range(len(segments)):
        document = segments[i, 2]
        at = (key, np.uint64(sweep), np.uint64(document))
        for first in range(segments[i, 0], segments[i, 1], BLOCK_WORDS):
            n_words = min(BLOCK_WORDS, segments[i, 1] - first)
            word = first - starts[document]
            load(shapes, first, n_words, shape)
            load(rates, first, n_words, rate)
            _prepare(shape, rate, n_words, d, base)
            for candidate in range(n_candidates):
                if candidate == 0:
                    load(log_z, first, n_words, log_g)
                else:
                    for k in range(n_topics):
                        # Numbers for the first attempt of every gamma draw come first, then those for the second.
                        cell = 2 * ((candidate - 1) * n_topics + k)
                        uniform_pairs(u, turn, n_words, *at, word, PURPOSE_CANDIDATE, np.uint64(cell))
                        uniform_pairs(accept, boost, n_words, *at, word, PURPOSE_CANDIDATE, np.uint64(cell + 1))
                        _first_attempts(shape[k], d[k], base[k], u, turn, accept, boost, n_words, log_g[k], accepted)
                        for j in range(n_words):
                            if accepted[j] == 0.0:
                                log_g[k, j] = boost[j] + _next_attempts(d[k, j], *at, np.uint64(word + j), cell, step)
                    log_sums(log_g, n_words, -1, density, weighted)
                    for k in range(n_topics):
                        for j in range(n_words):
                            log_g[k, j] -= weighted[j]
                _weigh(shape, rate, log_g, n_words, z, density, weighted)
                for j in range(n_words):
                    log_q[first + j, candidate] = density[j]
                    for k in range(n_topics):
                        candidates[first + j, candidate, k] = log_g[k, j]
                        shares[first + j, k, candidate] = z[k, j]


@kernel
def candidate_fits(
    code: int,
    table: FloatArray,
    constant: float,
    scores: FloatArray,
    shares: FloatArray,
    first: int,
    last: int,
    out: FloatArray,
) -> None:
    """out[n, j] = z·ℓ − A(z) for every candidate of words first to last − 1. Twin: twins_gibbs.candidate_fits."""
    n_topics, n_candidates = shares.shape[1], shares.shape[2]
    scratch = np.empty(table.shape[1])
    for n in range(first, last):
        fit = out[n]
        log_partitions(code, table, constant, shares[n], n_candidates, scratch, fit)
        for j in range(n_candidates):
            fit[j] = -fit[j]
        for k in range(n_topics):
            score = scores[n - first, k]
            for j in range(n_candidates):
                fit[j] += shares[n, k, j] * score
