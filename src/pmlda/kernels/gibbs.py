"""The exact sampler, the steps that visit words: every word carries S candidate memberships, and sums over them.

Candidate 0 is the word's own z, the others are fresh draws from a q_n that never changes. Proportions,
scales and topics move while each word stands for all of its candidates,

    p(x_n | θ) ≈ Σ_j exp(fit_nj + ln Dir(z_nj; a) − ln q_n(z_nj)),

and one of them then becomes its z, with these weights. That is exact for any q and any S (Neal 2003; Shestopaloff and
Neal 2013, ensembles of latent values), and lets θ move as if z had almost been integrated out.
"""

import math

import numpy as np

from pmlda.kernels.gibbs_candidates import log_sums
from pmlda.kernels.jit import inner, kernel
from pmlda.kernels.log_partition import BLOCK_WORDS, load, log_partitions, store
from pmlda.kernels.special import exp, gamma_functions, log
from pmlda.kernels.streams import (
    PURPOSE_CHOICE,
    PURPOSE_TRANSFER,
    PURPOSE_WALK,
    STREAM_SIZE,
    normal,
    point,
    uniform,
    uniform_pairs,
)
from pmlda.types import FloatArray, IntArray


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
def longest_of(starts: IntArray, first: int, last: int) -> int:
    """Words of the longest document from first to last − 1."""
    longest = 0
    for d in range(first, last):
        longest = max(longest, starts[d + 1] - starts[d])
    return longest


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
    log_z: FloatArray,
    weights: FloatArray,
    n_words: int,
    scratch: FloatArray,
) -> float:
    """ln p(ln a) + Σ_n ln Σ_j exp(weights_jn + ln Dir(z_jn; a)), where weights = fit − ln q.

    log_z : (S, K, n) candidates; weights : (S, n); scratch : (S + 2, n)
    """
    n_candidates, n_topics = log_z.shape[0], log_z.shape[1]
    terms = scratch[:n_candidates]
    for j in range(n_candidates):
        terms[j, :n_words] = weights[j, :n_words]
        for k in range(n_topics):
            for n in range(n_words):
                terms[j, n] += (a[k] - 1.0) * log_z[j, k, n]
    totals = scratch[n_candidates + 1]
    log_sums(terms, n_words, -1, scratch[n_candidates], totals)
    value = log_prior(a, alpha, scale_rate, n_words)
    for n in range(n_words):
        value += totals[n]
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
    n_candidates, n_topics = weights.shape[1], a.shape[1]
    longest = longest_of(starts, first, last)
    stream = np.empty(STREAM_SIZE, np.uint64)
    new, scratch = np.empty(n_topics), np.empty((n_candidates + 2, longest))
    log_z, weight = np.empty((n_candidates, n_topics, longest)), np.empty((n_candidates, longest))
    for d in range(first, last):
        point(stream, key, np.uint64(sweep), np.uint64(d), np.uint64(0), PURPOSE_WALK)
        accepted[d] = 0.0
        now = a[d]
        size = starts[d + 1] - starts[d]
        load(weights, starts[d], size, weight)
        for j in range(n_candidates):
            load(candidates[:, j], starts[d], size, log_z[j])
        value = _log_document(now, alpha, scale_rate, log_z, weight, size, scratch)
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
                proposed = _log_document(new, alpha, scale_rate, log_z, weight, size, scratch)
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
            top, total = weights.max(), 0.0
            for j in range(n_candidates):
                weights[j] = exp(weights[j] - top)
                total += weights[j]
            left = uniform(stream) * total
            chosen = -1
            while left > 0.0 and chosen < n_candidates - 1:
                chosen += 1
                left -= weights[chosen]
            for k in range(n_topics):
                log_z[n, k] = candidates[n, chosen, k]
                z[n, k] = shares[n, k, chosen]
            out[i, 0] += 1.0 if chosen > 0 else 0.0
            out[i, 1] += fits[n, chosen]


@inner
def _propose_exchange(
    z_i: FloatArray,
    z_k: FloatArray,
    width: float,
    shift: FloatArray,
    accept: FloatArray,
    n_words: int,
    new_i: FloatArray,
    new_k: FloatArray,
    log_i: FloatArray,
    log_k: FloatArray,
) -> None:
    """z_i + δ, z_k − δ and their logarithms; accept becomes its logarithm."""
    for j in range(n_words):
        delta = width * (shift[j] - 0.5)
        new_i[j] = z_i[j] + delta
        new_k[j] = z_k[j] - delta
        log_i[j] = log(max(new_i[j], 1e-300))
        log_k[j] = log(max(new_k[j], 1e-300))
        accept[j] = log(accept[j])


@inner
def _settle_exchange(
    power_i: float,
    power_k: float,
    accept: FloatArray,
    n_words: int,
    z_i: FloatArray,
    z_k: FloatArray,
    log_z_i: FloatArray,
    log_z_k: FloatArray,
    fit: FloatArray,
    new_i: FloatArray,
    new_k: FloatArray,
    log_i: FloatArray,
    log_k: FloatArray,
    fit_new: FloatArray,
) -> float:
    """Where the exchange is accepted, the new in place of the old; elsewhere the other way round. How many were."""
    for j in range(n_words):
        ratio = fit_new[j] - fit[j] + power_i * (log_i[j] - log_z_i[j]) + power_k * (log_k[j] - log_z_k[j])
        taken = accept[j] < ratio and new_i[j] > 1e-290 and new_k[j] > 1e-290
        z_i[j] = new_i[j] = new_i[j] if taken else z_i[j]
        z_k[j] = new_k[j] = new_k[j] if taken else z_k[j]
        log_z_i[j] = log_i[j] if taken else log_z_i[j]
        log_z_k[j] = log_k[j] if taken else log_z_k[j]
        fit[j] = fit_new[j] if taken else fit[j]
        accept[j] = 1.0 if taken else 0.0
    return float(accept[:n_words].sum())


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
            new[:, :n_words] = old[:, :n_words]
            move = 0
            for _ in range(rounds):
                for i in range(n_topics):
                    for k in range(i):
                        uniform_pairs(
                            shift,
                            accept,
                            n_words,
                            key,
                            np.uint64(sweep),
                            np.uint64(d),
                            first - starts[d],
                            PURPOSE_TRANSFER,
                            np.uint64(move),
                        )
                        move += 1
                        width = 2.0 * widths[i, k]
                        _propose_exchange(old[i], old[k], width, shift, accept, n_words, new[i], new[k], log_i, log_k)
                        fit_block(code, table, constant, new, score, n_words, scratch, fit_new)
                        accepted += _settle_exchange(
                            a[d, i] - 1.0, a[d, k] - 1.0, accept, n_words,
                            old[i], old[k], log_old[i], log_old[k], fit, new[i], new[k], log_i, log_k, fit_new,
                        )  # fmt: skip
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
