"""Algorithm 1 of the paper, the steps that visit documents and words."""

import math

import numpy as np

from pmlda.kernels.jit import inner, kernel
from pmlda.kernels.log_partition import BLOCK_WORDS, load, log_partitions
from pmlda.kernels.streams import (
    PURPOSE_DOCUMENT,
    PURPOSE_WORD,
    PURPOSE_WORD_PRIOR,
    STREAM_SIZE,
    log_dirichlet,
    point,
    uniform,
    uniform_pair,
)
from pmlda.types import FloatArray, IntArray

LN_2 = math.log(2.0)


@inner
def _log_normaliser(log_pi: FloatArray, s: float) -> float:
    """ln Γ(s) − Σ_k ln Γ(s π_k), where s π_k may be too small for a float."""
    total = math.lgamma(s)
    log_s = math.log(s)
    for k in range(len(log_pi)):
        log_a = log_s + log_pi[k]
        total -= math.lgamma(math.exp(log_a)) if log_a > -23.0 else -log_a
    return total


@inner
def _log_memberships(log_pi: FloatArray, s: float, sum_log_z: FloatArray, n_words: int) -> float:
    """Σ_n ln Dir(z_n; sπ) of one document, from its statistics alone."""
    total = n_words * _log_normaliser(log_pi, s)
    for k in range(len(log_pi)):
        total += (s * math.exp(log_pi[k]) - 1.0) * sum_log_z[k]
    return total


@kernel
def log_hidden(
    alpha: FloatArray,
    scale_rate: float,
    log_pi: FloatArray,
    s: FloatArray,
    sum_log_z: FloatArray,
    sizes: IntArray,
    first: int,
    last: int,
    out: FloatArray,
) -> None:
    """out[d] = ln Dir(π; α) + ln Exp(s; λ) + Σ_n ln Dir(z_n; sπ). Twin: twins.log_hidden."""
    constant = math.lgamma(alpha.sum()) + math.log(scale_rate)
    for k in range(len(alpha)):
        constant -= math.lgamma(alpha[k])
    for d in range(first, last):
        total = constant - scale_rate * s[d] + _log_memberships(log_pi[d], s[d], sum_log_z[d], sizes[d])
        for k in range(len(alpha)):
            total += (alpha[k] - 1.0) * log_pi[d, k]
        out[d] = total


@kernel
def document_step(
    alpha: FloatArray,
    scale_rate: float,
    log_pi: FloatArray,
    s: FloatArray,
    sum_log_z: FloatArray,
    sizes: IntArray,
    key: np.uint64,
    sweep: int,
    steps: int,
    hold_pi: bool,
    hold_s: bool,
    first: int,
    last: int,
    out: FloatArray,
) -> None:
    """π and s of documents first to last − 1: `steps` proposals each, from their priors, which therefore cancel.

    Row d of out becomes the acceptances of π and of s. Twin: twins.document_step.
    """
    stream = np.empty(STREAM_SIZE, np.uint64)
    candidate = np.empty(len(alpha))
    for d in range(first, last):
        point(stream, key, np.uint64(sweep), np.uint64(d), np.uint64(0), PURPOSE_DOCUMENT)
        out[d, 0] = out[d, 1] = 0.0
        current = _log_memberships(log_pi[d], s[d], sum_log_z[d], sizes[d])
        for _ in range(steps):
            if not hold_pi:
                log_dirichlet(stream, alpha, candidate)
                value = _log_memberships(candidate, s[d], sum_log_z[d], sizes[d])
                if math.log(uniform(stream)) < value - current:
                    log_pi[d] = candidate
                    current = value
                    out[d, 0] += 1.0
            if not hold_s:
                s_candidate = -math.log(uniform(stream)) / scale_rate
                value = _log_memberships(log_pi[d], s_candidate, sum_log_z[d], sizes[d])
                if math.log(uniform(stream)) < value - current:
                    s[d] = s_candidate
                    current = value
                    out[d, 1] += 1.0


@inner
def _draw_numbers(
    numbers: FloatArray, n_words: int, key: np.uint64, sweep: np.uint64, document: np.uint64, first_word: int
) -> None:
    """numbers[i, j] = number i of the stream of word first_word + j; words are innermost, for vector registers."""
    for i in range(0, len(numbers), 2):
        _draw_pairs(numbers[i], numbers[i + 1], n_words, key, sweep, document, first_word, np.uint64(i // 2))


@inner
def _draw_pairs(
    even: FloatArray,
    odd: FloatArray,
    n_words: int,
    key: np.uint64,
    sweep: np.uint64,
    document: np.uint64,
    first_word: int,
    block: np.uint64,
) -> None:
    """Numbers 2·block and 2·block + 1 of each word. A function of its own, or the compiler does not vectorise it."""
    for j in range(n_words):
        first, second = uniform_pair(key, sweep, document, np.uint64(first_word + j), PURPOSE_WORD, block)
        even[j] = first
        odd[j] = second


@inner
def _place_on_simplex(numbers: FloatArray, n_words: int, out: FloatArray) -> None:
    """out[:, j] = a draw from Dir(1_K): the gaps between the first K − 1 numbers of word j, sorted.

    Numbers lie on a grid of 2^-52. A gap of zero, about once in 10^15 draws, counts as half a step, so no membership is
    ever zero. Twin: twins.propose_memberships.
    """
    last = len(out) - 1
    for i in range(1, last):
        for k in range(i, 0, -1):  # insertion without branches, for many words at once
            low, high = numbers[k - 1], numbers[k]
            for j in range(n_words):
                low[j], high[j] = min(low[j], high[j]), max(low[j], high[j])
    rest = out[last]
    for j in range(n_words):
        rest[j] = 1.0
    for k in range(last):
        gap, edge = out[k], numbers[k]
        if k == 0:
            for j in range(n_words):
                gap[j] = edge[j]
        else:
            below = numbers[k - 1]
            for j in range(n_words):
                gap[j] = max(edge[j] - below[j], 2.0**-53)
        for j in range(n_words):
            rest[j] = 1.0 - edge[j]


@inner
def _subtract_from_scores(z: FloatArray, score: FloatArray, n_words: int, fit: FloatArray) -> None:
    """fit[j] = z·ℓ − fit[j], where fit holds A(z)."""
    for j in range(n_words):
        fit[j] = -fit[j]
    for k in range(len(z)):
        for j in range(n_words):
            fit[j] += z[k, j] * score[k, j]


@inner
def _octave(bits: int) -> float:
    """The whole number below log₂ of a positive float, read off its exponent."""
    return float((bits >> 52) - 1023)


@inner
def _bound_ratios(
    exponent: FloatArray,
    new: FloatArray,
    log_old: FloatArray,
    n_words: int,
    fit_new: FloatArray,
    fit_old: FloatArray,
    bound: FloatArray,
) -> None:
    """bound[j] ≥ the log ratio of word j, without a logarithm: ln z lies between ln 2 times its octave and the next.

    Most proposals are hopeless and end here; the others are judged exactly, so results are as if all had been.
    """
    for j in range(n_words):
        bound[j] = fit_new[j] - fit_old[j] + 1e-9 * (1.0 + abs(fit_new[j]) + abs(fit_old[j]))  # rounding
    bits = new.view(np.int64)
    for k in range(len(exponent)):
        e = exponent[k]
        upper = 1.0 if e > 0.0 else 0.0
        for j in range(n_words):
            bound[j] += e * (LN_2 * (_octave(bits[k, j]) + upper) - log_old[k, j])


@kernel
def word_step(
    code: int,
    table: FloatArray,
    constant: float,
    scores: FloatArray,
    z: FloatArray,
    log_z: FloatArray,
    log_pi: FloatArray,
    s: FloatArray,
    starts: IntArray,
    segments: IntArray,
    key: np.uint64,
    sweep: int,
    out: FloatArray,
) -> None:
    """Memberships of the words in the given segments: one proposal each from Dir(1_K), uniform on the simplex.

    Row i of out becomes: acceptances in segment i, and Σ_n z_n·ℓ_n − A(z_n) after the step. Twin: twins.word_step.
    """
    n_topics = z.shape[1]
    exponent = np.empty(n_topics)
    # One row per topic, one column per word of a block: loops over words are innermost and vectorise.
    numbers = np.empty((n_topics + n_topics % 2, BLOCK_WORDS))
    accept_bits = numbers[n_topics - 1].view(np.int64)
    new, log_new = np.empty((n_topics, BLOCK_WORDS)), np.empty(n_topics)
    old, log_old = np.empty((n_topics, BLOCK_WORDS)), np.empty((n_topics, BLOCK_WORDS))
    score = np.empty((n_topics, BLOCK_WORDS))
    fit_new, fit_old, bound = np.empty(BLOCK_WORDS), np.empty(BLOCK_WORDS), np.empty(BLOCK_WORDS)
    scratch = np.empty(table.shape[1])
    for i in range(len(segments)):
        d = segments[i, 2]
        for k in range(n_topics):
            exponent[k] = s[d] * math.exp(log_pi[d, k]) - 1.0
        accepted = 0.0
        fit = 0.0
        for first in range(segments[i, 0], segments[i, 1], BLOCK_WORDS):
            n_words = min(BLOCK_WORDS, segments[i, 1] - first)
            _draw_numbers(numbers, n_words, key, np.uint64(sweep), np.uint64(d), first - starts[d])
            _place_on_simplex(numbers, n_words, new)
            load(z, first, n_words, old)
            load(log_z, first, n_words, log_old)
            load(scores, first, n_words, score)
            log_partitions(code, table, constant, new, n_words, scratch, fit_new)
            log_partitions(code, table, constant, old, n_words, scratch, fit_old)
            _subtract_from_scores(new, score, n_words, fit_new)
            _subtract_from_scores(old, score, n_words, fit_old)
            _bound_ratios(exponent, new, log_old, n_words, fit_new, fit_old, bound)
            for j in range(n_words):
                if bound[j] > LN_2 * _octave(accept_bits[j]):
                    ratio = fit_new[j] - fit_old[j]
                    for k in range(n_topics):
                        log_new[k] = math.log(new[k, j])
                        ratio += exponent[k] * (log_new[k] - log_old[k, j])
                    if math.log(numbers[n_topics - 1, j]) < ratio:
                        for k in range(n_topics):
                            z[first + j, k] = new[k, j]
                            log_z[first + j, k] = log_new[k]
                        fit_old[j] = fit_new[j]
                        accepted += 1.0
                fit += fit_old[j]
        out[i, 0] = accepted
        out[i, 1] = fit


@kernel
def word_prior_step(
    code: int,
    table: FloatArray,
    constant: float,
    scores: FloatArray,
    z: FloatArray,
    log_z: FloatArray,
    log_pi: FloatArray,
    s: FloatArray,
    starts: IntArray,
    segments: IntArray,
    key: np.uint64,
    sweep: int,
    out: FloatArray,
) -> None:
    """One more proposal for every word, from its prior Dir(sπ), which therefore cancels. Not in the paper.

    Draws in log space reach memberships of any size, where proposals uniform on the simplex never come. Arguments and
    result as word_step. Twin: twins.word_prior_step.
    """
    n_topics = z.shape[1]
    stream = np.empty(STREAM_SIZE, np.uint64)
    concentration, draw = np.empty(n_topics), np.empty(n_topics)
    new, log_new = np.empty((n_topics, BLOCK_WORDS)), np.empty((n_topics, BLOCK_WORDS))
    old = np.empty((n_topics, BLOCK_WORDS))
    fit_new, fit_old, accept_number = np.empty(BLOCK_WORDS), np.empty(BLOCK_WORDS), np.empty(BLOCK_WORDS)
    scratch = np.empty(table.shape[1])
    for i in range(len(segments)):
        d = segments[i, 2]
        for k in range(n_topics):
            concentration[k] = max(s[d] * math.exp(log_pi[d, k]), 1e-300)
        accepted = 0.0
        fit = 0.0
        for first in range(segments[i, 0], segments[i, 1], BLOCK_WORDS):
            n_words = min(BLOCK_WORDS, segments[i, 1] - first)
            for j in range(n_words):
                word = np.uint64(first + j - starts[d])
                point(stream, key, np.uint64(sweep), np.uint64(d), word, PURPOSE_WORD_PRIOR)
                log_dirichlet(stream, concentration, draw)
                accept_number[j] = uniform(stream)
                for k in range(n_topics):
                    log_new[k, j] = draw[k]
                    new[k, j] = math.exp(draw[k])
            load(z, first, n_words, old)
            log_partitions(code, table, constant, new, n_words, scratch, fit_new)
            log_partitions(code, table, constant, old, n_words, scratch, fit_old)
            for j in range(n_words):
                value_new, value_old = -fit_new[j], -fit_old[j]
                for k in range(n_topics):
                    value_new += new[k, j] * scores[first + j, k]
                    value_old += old[k, j] * scores[first + j, k]
                if math.log(accept_number[j]) < value_new - value_old:
                    for k in range(n_topics):
                        z[first + j, k] = new[k, j]
                        log_z[first + j, k] = log_new[k, j]
                    fit += value_new
                    accepted += 1.0
                else:
                    fit += value_old
        out[i, 0] = accepted
        out[i, 1] = fit


@kernel
def sum_log(log_z: FloatArray, segments: IntArray, out: FloatArray) -> None:
    """out[i] = Σ ln z_n over the words of segment i. Twin: twins.sum_log.

    Sums are kept in as many lanes as a block has words, so that additions vectorise and keep their order.
    """
    n_topics = log_z.shape[1]
    block, lanes = np.empty((n_topics, BLOCK_WORDS)), np.empty((n_topics, BLOCK_WORDS))
    for i in range(len(segments)):
        lanes[:] = 0.0
        for first in range(segments[i, 0], segments[i, 1], BLOCK_WORDS):
            n_words = min(BLOCK_WORDS, segments[i, 1] - first)
            load(log_z, first, n_words, block)
            for k in range(n_topics):
                for j in range(n_words):
                    lanes[k, j] += block[k, j]
        for k in range(n_topics):
            out[i, k] = lanes[k].sum()


@kernel
def gram(z: FloatArray, first: int, last: int, out: FloatArray) -> None:
    """out = ZᵀZ of words first to last − 1. Twin: twins.gram."""
    n_topics = z.shape[1]
    block, lanes = np.empty((n_topics, BLOCK_WORDS)), np.zeros((n_topics, n_topics, BLOCK_WORDS))
    for start in range(first, last, BLOCK_WORDS):
        n_words = min(BLOCK_WORDS, last - start)
        load(z, start, n_words, block)
        for i in range(n_topics):
            for k in range(i + 1):
                for j in range(n_words):
                    lanes[i, k, j] += block[i, j] * block[k, j]
    for i in range(n_topics):
        for k in range(i + 1):
            out[i, k] = out[k, i] = lanes[i, k].sum()


@kernel
def accumulate(
    z: FloatArray, position: IntArray, total: FloatArray, dominant: FloatArray, first: int, last: int
) -> None:
    """Add words first to last − 1 to running sums, topic k counted as topic position[k]. Twin: twins.accumulate."""
    for n in range(first, last):
        best = 0
        for k in range(z.shape[1]):
            total[n, position[k]] += z[n, k]
            if z[n, k] > z[n, best]:
                best = k
        dominant[n, position[best]] += 1.0
