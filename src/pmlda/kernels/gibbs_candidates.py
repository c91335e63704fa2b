"""The exact sampler, candidates: fresh memberships for every word, drawn in blocks so that loops vectorise."""

import math

import numpy as np

from pmlda.kernels.arguments import Ensemble, GammaBlock, LogPartition, Places, SweepKey
from pmlda.kernels.jit import inlined, inner, kernel
from pmlda.kernels.labels import log_label
from pmlda.kernels.log_partition import BLOCK_WORDS, load, log_partitions
from pmlda.kernels.special import cos_of_turns, exp, log
from pmlda.kernels.streams import PURPOSE_CANDIDATE, uniform_pair, uniform_pairs
from pmlda.types import FloatArray, Labels

# An attempt with c ≤ 0 is refused; its logarithm, which then does not matter, is of no less than this.
SMALLEST_LOGGED = 1e-100


@inlined
def _attempt(d: float, u: float, turn: float, accept: float) -> tuple[float, bool]:
    """3 ln c, and whether d·c³ is a draw from Gamma(d + 1/3): Marsaglia and Tsang (2000), from a normal x.

    u, turn : uniform numbers that make the normal (Box and Muller)
    """
    x = math.sqrt(-2.0 * log(u)) * cos_of_turns(turn)
    c = 1.0 + x / math.sqrt(9.0 * d)
    log_cube = 3.0 * log(max(c, SMALLEST_LOGGED))
    return log_cube, c > 0.0 and log(accept) < 0.5 * x * x + d * (1.0 - c * c * c + log_cube)


@inner
def _first_attempts(
    gammas: GammaBlock,
    k: int,
    u: FloatArray,
    turn: FloatArray,
    accept: FloatArray,
    boost: FloatArray,
    n_words: int,
    out: FloatArray,
) -> None:
    """out = ln of gamma draws of topic k where accept becomes 1; below shape 1, ln Γ(a + 1) + ln(u) / a.

    u, turn, accept, boost : (B,) uniform numbers: two that make a normal, one to accept, one for shapes below 1. The
        last becomes ln(d / rate) and that second term, to which later attempts are added.
    """
    shapes, d, log_scales = gammas.shapes[k], gammas.d[k], gammas.log_scales[k]
    for j in range(n_words):
        log_cube, taken = _attempt(d[j], u[j], turn[j], accept[j])
        boost[j] = log_scales[j] + log(boost[j]) / shapes[j] if shapes[j] < 1.0 else log_scales[j]
        out[j] = log_cube + boost[j]
        accept[j] = 1.0 if taken else 0.0


@inner
def _next_attempts(d: float, sweep_key: SweepKey, document: np.uint64, word: np.uint64, block: int, step: int) -> float:
    """3 ln c of the first attempt that succeeds, after the one of _first_attempts did not."""
    key, sweep = sweep_key
    taken, log_cube = False, 0.0
    while not taken:
        block += step
        u, turn = uniform_pair(key, sweep, document, word, PURPOSE_CANDIDATE, np.uint64(block))
        accept, _ = uniform_pair(key, sweep, document, word, PURPOSE_CANDIDATE, np.uint64(block + 1))
        log_cube, taken = _attempt(d, u, turn, accept)
    return log_cube


@inner
def _prepare(gammas: GammaBlock, n_words: int) -> None:
    """What all candidates of a word share: d, and ln(d / rate)."""
    shapes, rates, d, log_scales = gammas
    for k in range(len(shapes)):
        for j in range(n_words):
            d[k, j] = (shapes[k, j] + 1.0 if shapes[k, j] < 1.0 else shapes[k, j]) - 1.0 / 3.0
            log_scales[k, j] = log(d[k, j] / rates[k, j])


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
    gammas: GammaBlock, log_z: FloatArray, n_words: int, z: FloatArray, density: FloatArray, weighted: FloatArray
) -> None:
    """z, and the density of q up to a constant of each word, from ln z. weighted (B,) is scratch."""
    shapes, rates = gammas.shapes, gammas.rates
    density[:n_words] = 0.0
    weighted[:n_words] = 0.0
    total = np.zeros(BLOCK_WORDS)
    for k in range(len(log_z)):
        for j in range(n_words):
            z[k, j] = exp(log_z[k, j])
            density[j] += (shapes[k, j] - 1.0) * log_z[k, j]
            weighted[j] += rates[k, j] * z[k, j]
            total[j] += shapes[k, j]
    for j in range(n_words):
        density[j] -= total[j] * log(weighted[j])


@kernel
def draw_candidates(
    shapes: FloatArray,
    rates: FloatArray,
    log_z: FloatArray,
    places: Places,
    labels: Labels,
    sweep_key: SweepKey,
    ensemble: Ensemble,
) -> None:
    """ensemble.candidates, shares and log_q of every word in the segments, from shapes, rates and ln z (N, K).

    q_n is a scaled Dirichlet distribution, z = g / Σg with g_k ~ Gamma(shape_k, rate_k): a membership that the data
    suppress keeps the shape of its prior and becomes smaller, where a Dirichlet would have to change shape. Its density
    is Π z_k^(shape_k − 1) / (Σ rate_k z_k)^(Σ shape_k). Twin: tests.twins.gibbs.draw_candidates.
    """
    candidates, shares, log_q = ensemble.candidates, ensemble.shares, ensemble.log_q
    segments, starts = places
    n_topics, n_candidates = shapes.shape[1], candidates.shape[1]
    step = 2 * (n_candidates - 1) * n_topics
    block = (n_topics, BLOCK_WORDS)
    gammas = GammaBlock(np.empty(block), np.empty(block), np.empty(block), np.empty(block))
    log_g, z = np.empty(block), np.empty(block)
    u, turn, accept, boost = np.empty(BLOCK_WORDS), np.empty(BLOCK_WORDS), np.empty(BLOCK_WORDS), np.empty(BLOCK_WORDS)
    density, weighted = np.empty(BLOCK_WORDS), np.empty(BLOCK_WORDS)
    for i in range(len(segments)):
        d = np.uint64(segments[i, 2])
        for first in range(segments[i, 0], segments[i, 1], BLOCK_WORDS):
            n_words = min(BLOCK_WORDS, segments[i, 1] - first)
            word = first - starts[segments[i, 2]]
            load(shapes, first, n_words, gammas.shapes)
            load(rates, first, n_words, gammas.rates)
            _prepare(gammas, n_words)
            for candidate in range(n_candidates):
                if candidate == 0:
                    load(log_z, first, n_words, log_g)
                else:
                    for k in range(n_topics):
                        # Numbers for the first attempt of every gamma draw come first, then those for the second.
                        cell = 2 * ((candidate - 1) * n_topics + k)
                        one, two = np.uint64(cell), np.uint64(cell + 1)
                        uniform_pairs(u, turn, n_words, sweep_key, d, word, PURPOSE_CANDIDATE, one)
                        uniform_pairs(accept, boost, n_words, sweep_key, d, word, PURPOSE_CANDIDATE, two)
                        _first_attempts(gammas, k, u, turn, accept, boost, n_words, log_g[k])
                        for j in range(n_words):
                            if accept[j] == 0.0:
                                more = _next_attempts(gammas.d[k, j], sweep_key, d, np.uint64(word + j), cell, step)
                                log_g[k, j] = boost[j] + more
                    log_sums(log_g, n_words, -1, density, weighted)
                    for k in range(n_topics):
                        for j in range(n_words):
                            log_g[k, j] -= weighted[j]
                _weigh(gammas, log_g, n_words, z, density, weighted)
                if segments[i, 3] > 0:
                    for j in range(n_words):
                        density[j] -= log_label(labels, segments[i, 3], log_g[:, j])
                for j in range(n_words):
                    log_q[first + j, candidate] = density[j]
                    for k in range(n_topics):
                        candidates[first + j, candidate, k] = log_g[k, j]
                        shares[first + j, k, candidate] = z[k, j]


@kernel
def candidate_fits(log_partition: LogPartition, scores: FloatArray, ensemble: Ensemble, first: int, last: int) -> None:
    """ensemble.fits = z·ℓ − A(z) for every candidate of words first to last − 1, whose scores are (last − first, K).

    Twin: tests.twins.gibbs.candidate_fits.
    """
    shares, fits = ensemble.shares, ensemble.fits
    n_topics, n_candidates = shares.shape[1], shares.shape[2]
    eta = np.empty(log_partition.table.shape[1])
    for n in range(first, last):
        fit = fits[n]
        log_partitions(log_partition, shares[n], n_candidates, n - first, 0, eta, fit)
        for j in range(n_candidates):
            fit[j] = -fit[j]
        for k in range(n_topics):
            score = scores[n - first, k]
            for j in range(n_candidates):
                fit[j] += shares[n, k, j] * score
