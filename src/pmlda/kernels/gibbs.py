"""The exact sampler, the steps that visit words: every word carries S candidate memberships, and sums over them.

Candidate 0 is the word's own z, the others are fresh draws from a q_n that never changes. Proportions,
scales and topics move while each word stands for all of its candidates,

    p(x_n | θ) ≈ Σ_j exp(fit_nj + ln Dir(z_nj; a) − ln q_n(z_nj)),

and one of them then becomes its z, with these weights. That is exact for any q and any S (Neal 2003; Shestopaloff and
Neal 2013, ensembles of latent values), and lets θ move as if z had almost been integrated out.
"""

import math

import numpy as np

from pmlda.kernels.jit import inner, kernel
from pmlda.kernels.partition import BLOCK_WORDS, load, log_partitions, store
from pmlda.kernels.special import gamma_functions, log
from pmlda.kernels.streams import (
    PURPOSE_CANDIDATE,
    PURPOSE_CHOICE,
    PURPOSE_TRANSFER,
    PURPOSE_WALK,
    STREAM_SIZE,
    log_gamma,
    normal,
    point,
    uniform,
    uniform_pair,
)
from pmlda.types import FloatArray, IntArray


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
    stream = np.empty(STREAM_SIZE, np.uint64)
    for i in range(len(segments)):
        d = segments[i, 2]
        for n in range(segments[i, 0], segments[i, 1]):
            word = np.uint64(n - starts[d])
            point(stream, key, np.uint64(sweep), np.uint64(d), word, PURPOSE_CANDIDATE)
            for k in range(n_topics):
                candidates[n, 0, k] = log_z[n, k]
            for j in range(1, n_candidates):
                for k in range(n_topics):
                    candidates[n, j, k] = log_gamma(stream, shapes[n, k]) - math.log(rates[n, k])
                total = log_sum(candidates[n, j], n_topics)
                for k in range(n_topics):
                    candidates[n, j, k] -= total
            total_shape = shapes[n].sum()
            for j in range(n_candidates):
                density, weighted = 0.0, 0.0
                for k in range(n_topics):
                    density += (shapes[n, k] - 1.0) * candidates[n, j, k]
                    shares[n, k, j] = math.exp(candidates[n, j, k])
                    weighted += rates[n, k] * shares[n, k, j]
                log_q[n, j] = density - total_shape * math.log(weighted)


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


@inner
def log_sum(weights: FloatArray, n: int) -> float:
    """ln Σ exp of the first n entries."""
    top = -np.inf
    for j in range(n):
        top = max(top, weights[j])
    total = 0.0
    for j in range(n):
        total += math.exp(weights[j] - top)
    return top + math.log(total)


@kernel
def log_marginals(fits: FloatArray, rest: FloatArray, first: int, last: int) -> float:
    """Σ_n ln Σ_j exp(fit + rest) over words first to last − 1. Twin: twins_gibbs.log_marginals."""
    n_candidates = fits.shape[1]
    weights = np.empty(n_candidates)
    total = 0.0
    for n in range(first, last):
        for j in range(n_candidates):
            weights[j] = fits[n, j] + rest[n, j]
        total += log_sum(weights, n_candidates)
    return total


@inner
def log_prior(a: FloatArray, alpha: FloatArray, scale_rate: float, n_words: int) -> float:
    """ln p(ln a) + N times the normaliser of Dir(a)."""
    s = a.sum()
    normaliser, _, _ = gamma_functions(s)
    value = (1.0 - alpha.sum()) * math.log(s) - scale_rate * s
    for k in range(len(a)):
        one, _, _ = gamma_functions(a[k])
        normaliser -= one
        value += alpha[k] * math.log(a[k])
    return float(value + n_words * normaliser)


@inner
def _log_document(
    a: FloatArray,
    alpha: FloatArray,
    scale_rate: float,
    first: int,
    last: int,
    candidates: FloatArray,
    weights: FloatArray,
    scratch: FloatArray,
) -> float:
    """ln p(ln a) + Σ_n ln Σ_j exp(weights_nj + ln Dir(z_nj; a)), where weights = fit − ln q."""
    n_topics, n_candidates = len(a), weights.shape[1]
    value = log_prior(a, alpha, scale_rate, last - first)
    for n in range(first, last):
        for j in range(n_candidates):
            total = weights[n, j]
            for k in range(n_topics):
                total += (a[k] - 1.0) * candidates[n, j, k]
            scratch[j] = total
        value += log_sum(scratch, n_candidates)
    return value


@kernel
def document_step(
    alpha: FloatArray,
    scale_rate: float,
    a: FloatArray,
    starts: IntArray,
    candidates: FloatArray,
    weights: FloatArray,
    widths: FloatArray,
    key: np.uint64,
    sweep: int,
    rounds: int,
    hold_pi: bool,
    hold_s: bool,
    first: int,
    last: int,
    accepted: FloatArray,
) -> None:
    """Random walks of ln a of documents first to last − 1, each word standing for all of its candidates.

    In a round, ln s moves alone, then each ln a_k; widths (D, K + 1) are the lengths of these steps, and accepted,
    (D, K + 1), becomes the shares accepted. Twin: twins_gibbs.document_step.
    """
    n_topics = a.shape[1]
    stream = np.empty(STREAM_SIZE, np.uint64)
    new, scratch = np.empty(n_topics), np.empty(weights.shape[1])
    for d in range(first, last):
        point(stream, key, np.uint64(sweep), np.uint64(d), np.uint64(0), PURPOSE_WALK)
        accepted[d] = 0.0
        now = a[d]
        begin, end = starts[d], starts[d + 1]
        value = _log_document(now, alpha, scale_rate, begin, end, candidates, weights, scratch)
        for _ in range(rounds):
            for move in range(n_topics + 1):
                if (move == 0 and hold_s) or (move > 0 and hold_pi):
                    continue
                step = math.exp(widths[d, move] * normal(stream))
                total = 0.0
                for k in range(n_topics):
                    new[k] = now[k] * step if move == 0 or move == k + 1 else now[k]
                    total += new[k]
                if hold_s:  # π alone: additive in its log ratios
                    for k in range(n_topics):
                        new[k] *= now.sum() / total
                threshold = math.log(uniform(stream))
                if new.min() < 1e-300 or total > 1e12:
                    continue
                proposed = _log_document(new, alpha, scale_rate, begin, end, candidates, weights, scratch)
                if threshold < proposed - value:
                    now[:] = new
                    value = proposed
                    accepted[d, move] += 1.0 / rounds


@kernel
def weigh_candidates(
    a: FloatArray, document: IntArray, candidates: FloatArray, log_q: FloatArray, first: int, last: int, out: FloatArray
) -> None:
    """out[n, j] = Σ_k (a_k − 1) ln z_njk − ln q: what prior and proposal weigh. Twin: twins_gibbs.weigh_candidates."""
    n_topics = a.shape[1]
    for n in range(first, last):
        d = document[n]
        for j in range(candidates.shape[1]):
            total = -log_q[n, j]
            for k in range(n_topics):
                total += (a[d, k] - 1.0) * candidates[n, j, k]
            out[n, j] = total


@kernel
def choose_candidates(
    fits: FloatArray,
    rest: FloatArray,
    candidates: FloatArray,
    shares: FloatArray,
    segments: IntArray,
    starts: IntArray,
    key: np.uint64,
    sweep: int,
    z: FloatArray,
    log_z: FloatArray,
    out: FloatArray,
) -> None:
    """One candidate of each word becomes its z, with probability proportional to exp(fit + rest).

    Row i of out becomes: words of segment i that changed, and Σ of the chosen fits. Twin:
    twins_gibbs.choose_candidates.
    """
    n_candidates, n_topics = candidates.shape[1], candidates.shape[2]
    stream = np.empty(STREAM_SIZE, np.uint64)
    weights = np.empty(n_candidates)
    for i in range(len(segments)):
        d = segments[i, 2]
        out[i, 0] = out[i, 1] = 0.0
        for n in range(segments[i, 0], segments[i, 1]):
            point(stream, key, np.uint64(sweep), np.uint64(d), np.uint64(n - starts[d]), PURPOSE_CHOICE)
            for j in range(n_candidates):
                weights[j] = fits[n, j] + rest[n, j]
            level = math.log(uniform(stream)) + log_sum(weights, n_candidates)
            chosen, so_far = 0, -np.inf
            for j in range(n_candidates):
                high, low = max(so_far, weights[j]), min(so_far, weights[j])
                so_far = high + math.log1p(math.exp(low - high)) if low > -np.inf else high
                chosen = j
                if so_far >= level:
                    break
            for k in range(n_topics):
                log_z[n, k] = candidates[n, chosen, k]
                z[n, k] = shares[n, k, chosen]
            out[i, 0] += 1.0 if chosen > 0 else 0.0
            out[i, 1] += fits[n, chosen]


@inner
def _draw_pairs(
    shift: FloatArray,
    accept: FloatArray,
    n_words: int,
    key: np.uint64,
    sweep: np.uint64,
    document: np.uint64,
    first_word: int,
    block: np.uint64,
) -> None:
    """Two numbers for each word. A function of its own, or the compiler does not vectorise it."""
    for j in range(n_words):
        first, second = uniform_pair(key, sweep, document, np.uint64(first_word + j), PURPOSE_TRANSFER, block)
        shift[j] = first
        accept[j] = second


@kernel
def transfer_step(
    code: int,
    table: FloatArray,
    constant: float,
    scores: FloatArray,
    z: FloatArray,
    log_z: FloatArray,
    a: FloatArray,
    starts: IntArray,
    segments: IntArray,
    widths: FloatArray,
    key: np.uint64,
    sweep: int,
    rounds: int,
    out: FloatArray,
) -> None:
    """Every pair of topics in turn exchanges some membership: z_i + δ, z_k − δ with δ uniform on ±widths[i, k].

    Local steps, for words that q_n does not describe well. Row i of out becomes: the share accepted of segment i times
    its words, and Σ of the fits. Rows of scores are the words of the segments. Twin: twins_gibbs.transfer_step.
    """
    n_topics = z.shape[1]
    first_row = segments[0, 0]
    shape = (n_topics, BLOCK_WORDS)
    old, log_old, new, score = np.empty(shape), np.empty(shape), np.empty(shape), np.empty(shape)
    shift, accept = np.empty(BLOCK_WORDS), np.empty(BLOCK_WORDS)
    fit, fit_new, log_i, log_k = (
        np.empty(BLOCK_WORDS),
        np.empty(BLOCK_WORDS),
        np.empty(BLOCK_WORDS),
        np.empty(BLOCK_WORDS),
    )
    scratch = np.empty(table.shape[1])
    n_moves = rounds * n_topics * (n_topics - 1) // 2
    for segment in range(len(segments)):
        d = segments[segment, 2]
        accepted, total = 0.0, 0.0
        for first in range(segments[segment, 0], segments[segment, 1], BLOCK_WORDS):
            n_words = min(BLOCK_WORDS, segments[segment, 1] - first)
            load(z, first, n_words, old)
            load(log_z, first, n_words, log_old)
            load(scores, first - first_row, n_words, score)
            fit_block(code, table, constant, old, score, n_words, scratch, fit)
            move = 0
            for _ in range(rounds):
                for i in range(n_topics):
                    for k in range(i):
                        _draw_pairs(
                            shift,
                            accept,
                            n_words,
                            key,
                            np.uint64(sweep),
                            np.uint64(d),
                            first - starts[d],
                            np.uint64(move),
                        )
                        move += 1
                        width = 2.0 * widths[i, k]
                        new[:, :n_words] = old[:, :n_words]
                        for j in range(n_words):
                            delta = width * (shift[j] - 0.5)
                            new[i, j] = old[i, j] + delta
                            new[k, j] = old[k, j] - delta
                            log_i[j] = log(max(new[i, j], 1e-300))
                            log_k[j] = log(max(new[k, j], 1e-300))
                        fit_block(code, table, constant, new, score, n_words, scratch, fit_new)
                        for j in range(n_words):
                            if new[i, j] > 1e-290 and new[k, j] > 1e-290:
                                ratio = fit_new[j] - fit[j]
                                ratio += (a[d, i] - 1.0) * (log_i[j] - log_old[i, j])
                                ratio += (a[d, k] - 1.0) * (log_k[j] - log_old[k, j])
                                if math.log(accept[j]) < ratio:
                                    old[i, j], old[k, j] = new[i, j], new[k, j]
                                    log_old[i, j], log_old[k, j] = log_i[j], log_k[j]
                                    fit[j] = fit_new[j]
                                    accepted += 1.0
            store(old, n_words, first, z)
            store(log_old, n_words, first, log_z)
            for j in range(n_words):
                total += fit[j]
        out[segment, 0] = accepted / max(n_moves, 1)
        out[segment, 1] = total


@inner
def fit_block(
    code: int,
    table: FloatArray,
    constant: float,
    z: FloatArray,
    score: FloatArray,
    n_words: int,
    scratch: FloatArray,
    fit: FloatArray,
) -> None:
    """fit[j] = z·ℓ − A(z) for a block of words; memberships outside the simplex may give anything."""
    log_partitions(code, table, constant, z, n_words, scratch, fit)
    for j in range(n_words):
        fit[j] = -fit[j]
    for k in range(len(z)):
        for j in range(n_words):
            fit[j] += z[k, j] * score[k, j]
