"""Algorithm 1 of the paper, the steps that visit documents and words."""

import math

import numpy as np

from pmlda.kernels.arguments import DocumentPrior, DocumentRange, LabelledPrior, LogPartition, Places, SweepKey
from pmlda.kernels.jit import inner, kernel
from pmlda.kernels.labels import add_any_of, labelled_prior, log_any_of, log_label, row_of
from pmlda.kernels.log_partition import BLOCK_WORDS, load, log_partitions, subtract_from_scores
from pmlda.kernels.streams import (
    PURPOSE_DOCUMENT,
    PURPOSE_WORD,
    PURPOSE_WORD_PRIOR,
    STREAM_SIZE,
    log_dirichlet,
    point,
    uniform,
    uniform_pairs,
)
from pmlda.types import Fixed, FloatArray, IntArray, Labels, Latents

LN_2 = math.log(2.0)
# Below this ln x, Γ(x) is 1/x to ten digits.
SMALL_LOG = -23.0
# Uniform numbers lie on a grid of 2^-52; a membership of zero counts as half a step.
HALF_STEP = 2.0**-53
# How much larger than rounding errors of the fits a bound of their difference is made, in proportion to the fits.
ROUNDING = 1e-9
# Gamma draws need a shape above zero.
SMALLEST_SHAPE = 1e-300


@inner
def _log_normaliser(log_pi: FloatArray, s: float) -> float:
    """ln Γ(s) − Σ_k ln Γ(s π_k), where s π_k may be too small for a float."""
    total = math.lgamma(s)
    log_s = math.log(s)
    for k in range(len(log_pi)):
        log_a = log_s + log_pi[k]
        total -= math.lgamma(math.exp(log_a)) if log_a > SMALL_LOG else -log_a
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
    prior: DocumentPrior, latents: Latents, sum_log_z: FloatArray, documents: DocumentRange, out: FloatArray
) -> None:
    """out[d] = ln Dir(π; α) + ln p(label | π) + ln Exp(s; λ) + Σ_n ln Dir(z_n; sπ), for the documents in the range.

    sum_log_z : (D, K) Σ_n ln z_n; out : (D,)

    Twin: tests.twins.paper.log_hidden.
    """
    alpha, scale_rate, labels = prior
    log_pi, s, starts = latents.log_proportions, latents.scales, documents.starts
    constant = math.lgamma(alpha.sum()) + math.log(scale_rate)
    for k in range(len(alpha)):
        constant -= math.lgamma(alpha[k])
    for d in range(documents.first, documents.last):
        size = starts[d + 1] - starts[d]
        total = constant - scale_rate * s[d] + _log_memberships(log_pi[d], s[d], sum_log_z[d], size)
        for k in range(len(alpha)):
            total += (alpha[k] - 1.0) * log_pi[d, k]
        row = row_of(labels, d)
        if row > 0:
            total += log_label(labels, row, log_pi[d])
        out[d] = total


@kernel
def document_step(
    prior: DocumentPrior,
    latents: Latents,
    sum_log_z: FloatArray,
    documents: DocumentRange,
    steps: int,
    sweep_key: SweepKey,
    fixed: Fixed,
    out: FloatArray,
) -> None:
    """π and s of the documents in the range: `steps` proposals each, from their priors, which therefore cancel.

    The prior of π includes the counts of a document's label. Proportions and scales are updated in place. Row d of out
    (D, 2) becomes the acceptances of π and of s. Twin: tests.twins.paper.document_step.
    """
    log_pi, s, starts = latents.log_proportions, latents.scales, documents.starts
    stream = np.empty(STREAM_SIZE, np.uint64)
    candidate = np.empty(len(prior.alpha))
    for d in range(documents.first, documents.last):
        point(stream, sweep_key, np.uint64(d), np.uint64(0), PURPOSE_DOCUMENT)
        out[d, 0] = out[d, 1] = 0.0
        size = starts[d + 1] - starts[d]
        own = labelled_prior(prior.alpha, prior.labels, row_of(prior.labels, d))
        current = _log_memberships(log_pi[d], s[d], sum_log_z[d], size)
        for _ in range(steps):
            if not fixed.proportions:
                log_dirichlet(stream, own.concentration, candidate)
                value = _log_memberships(candidate, s[d], sum_log_z[d], size)
                gain = value - current
                if own.strength > 0.0:
                    gain += own.strength * (log_any_of(own.any_of, candidate) - log_any_of(own.any_of, log_pi[d]))
                if math.log(uniform(stream)) < gain:
                    log_pi[d] = candidate
                    current = value
                    out[d, 0] += 1.0
            if not fixed.scales:
                s_candidate = -math.log(uniform(stream)) / prior.scale_rate
                value = _log_memberships(log_pi[d], s_candidate, sum_log_z[d], size)
                if math.log(uniform(stream)) < value - current:
                    s[d] = s_candidate
                    current = value
                    out[d, 1] += 1.0


@inner
def _draw_numbers(numbers: FloatArray, n_words: int, sweep_key: SweepKey, document: np.uint64, first_word: int) -> None:
    """numbers[i, j] = number i of the stream of word first_word + j; words are innermost, for vector registers."""
    for i in range(0, len(numbers), 2):
        pair = np.uint64(i // 2)
        uniform_pairs(numbers[i], numbers[i + 1], n_words, sweep_key, document, first_word, PURPOSE_WORD, pair)


@inner
def _place_on_simplex(numbers: FloatArray, n_words: int, out: FloatArray) -> None:
    """out[:, j] = a draw from Dir(1_K): the gaps between the first K − 1 numbers of word j, sorted.

    A gap of zero comes about once in 10^15 draws; HALF_STEP is why no membership is ever zero. Twin:
    tests.twins.paper.propose_memberships.
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
                gap[j] = max(edge[j] - below[j], HALF_STEP)
        for j in range(n_words):
            rest[j] = 1.0 - edge[j]


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
        bound[j] = fit_new[j] - fit_old[j] + ROUNDING * (1.0 + abs(fit_new[j]) + abs(fit_old[j]))
    bits = new.view(np.int64)
    for k in range(len(exponent)):
        e = exponent[k]
        upper = 1.0 if e > 0.0 else 0.0
        for j in range(n_words):
            bound[j] += e * (LN_2 * (_octave(bits[k, j]) + upper) - log_old[k, j])


@inner
def _gain_any_of(prior: LabelledPrior, new: FloatArray, old: FloatArray) -> float:
    """What a label that says "one of these" gains in log probability. new, old : (K,) ln z"""
    if prior.strength == 0.0:
        return 0.0
    return float(prior.strength * (log_any_of(prior.any_of, new) - log_any_of(prior.any_of, old)))


@kernel
def word_step(
    log_partition: LogPartition,
    scores: FloatArray,
    latents: Latents,
    places: Places,
    labels: Labels,
    sweep_key: SweepKey,
    out: FloatArray,
) -> None:
    """Memberships of the words in the given segments: one proposal each from Dir(1_K), uniform on the simplex.

    Memberships are updated in place. scores : (N, K). Row i of out (M, 2) becomes: acceptances in segment i, and
    Σ_n z_n·ℓ_n − A(z_n) after the step. Twin: tests.twins.paper.word_step.
    """
    z, log_z, log_pi, s = latents
    segments, starts = places
    n_topics = z.shape[1]
    a, exponent = np.empty(n_topics), np.empty(n_topics)
    # One row per topic, one column per word of a block: loops over words are innermost and vectorise.
    numbers = np.empty((n_topics + n_topics % 2, BLOCK_WORDS))
    accept_bits = numbers[n_topics - 1].view(np.int64)
    new, log_new = np.empty((n_topics, BLOCK_WORDS)), np.empty(n_topics)
    old, log_old = np.empty((n_topics, BLOCK_WORDS)), np.empty((n_topics, BLOCK_WORDS))
    score = np.empty((n_topics, BLOCK_WORDS))
    fit_new, fit_old, bound = np.empty(BLOCK_WORDS), np.empty(BLOCK_WORDS), np.empty(BLOCK_WORDS)
    eta = np.empty(log_partition.table.shape[1])
    for i in range(len(segments)):
        d = segments[i, 2]
        for k in range(n_topics):
            a[k] = s[d] * math.exp(log_pi[d, k])
        prior = labelled_prior(a, labels, segments[i, 3])
        for k in range(n_topics):
            exponent[k] = prior.concentration[k] - 1.0
        accepted = 0.0
        fit = 0.0
        for first in range(segments[i, 0], segments[i, 1], BLOCK_WORDS):
            n_words = min(BLOCK_WORDS, segments[i, 1] - first)
            _draw_numbers(numbers, n_words, sweep_key, np.uint64(d), first - starts[d])
            _place_on_simplex(numbers, n_words, new)
            load(z, first, n_words, old)
            load(log_z, first, n_words, log_old)
            load(scores, first, n_words, score)
            log_partitions(log_partition, new, n_words, first, 1, eta, fit_new)
            log_partitions(log_partition, old, n_words, first, 1, eta, fit_old)
            subtract_from_scores(new, score, n_words, fit_new)
            subtract_from_scores(old, score, n_words, fit_old)
            _bound_ratios(exponent, new, log_old, n_words, fit_new, fit_old, bound)
            add_any_of(prior, log_old, n_words, -1.0, bound)  # that of the new memberships is at most 0
            for j in range(n_words):
                if bound[j] > LN_2 * _octave(accept_bits[j]):
                    ratio = fit_new[j] - fit_old[j]
                    for k in range(n_topics):
                        log_new[k] = math.log(new[k, j])
                        ratio += exponent[k] * (log_new[k] - log_old[k, j])
                    ratio += _gain_any_of(prior, log_new, log_old[:, j])
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
    log_partition: LogPartition,
    scores: FloatArray,
    latents: Latents,
    places: Places,
    labels: Labels,
    sweep_key: SweepKey,
    out: FloatArray,
) -> None:
    """One more proposal for every word, from its prior Dir(sπ), which therefore cancels. Not in the paper.

    The prior includes the counts of the word's label.

    Draws in log space reach memberships of any size, where proposals uniform on the simplex never come. Arguments and
    result as word_step. Twin: tests.twins.paper.word_prior_step.
    """
    z, log_z, log_pi, s = latents
    segments, starts = places
    n_topics = z.shape[1]
    stream = np.empty(STREAM_SIZE, np.uint64)
    a, draw = np.empty(n_topics), np.empty(n_topics)
    new, log_new = np.empty((n_topics, BLOCK_WORDS)), np.empty((n_topics, BLOCK_WORDS))
    old = np.empty((n_topics, BLOCK_WORDS))
    fit_new, fit_old, accept_number = np.empty(BLOCK_WORDS), np.empty(BLOCK_WORDS), np.empty(BLOCK_WORDS)
    eta = np.empty(log_partition.table.shape[1])
    for i in range(len(segments)):
        d = segments[i, 2]
        for k in range(n_topics):
            a[k] = max(s[d] * math.exp(log_pi[d, k]), SMALLEST_SHAPE)
        prior = labelled_prior(a, labels, segments[i, 3])
        accepted = 0.0
        fit = 0.0
        for first in range(segments[i, 0], segments[i, 1], BLOCK_WORDS):
            n_words = min(BLOCK_WORDS, segments[i, 1] - first)
            for j in range(n_words):
                word = np.uint64(first + j - starts[d])
                point(stream, sweep_key, np.uint64(d), word, PURPOSE_WORD_PRIOR)
                log_dirichlet(stream, prior.concentration, draw)
                accept_number[j] = uniform(stream)
                for k in range(n_topics):
                    log_new[k, j] = draw[k]
                    new[k, j] = math.exp(draw[k])
            load(z, first, n_words, old)
            log_partitions(log_partition, new, n_words, first, 1, eta, fit_new)
            log_partitions(log_partition, old, n_words, first, 1, eta, fit_old)
            for j in range(n_words):
                value_new, value_old = -fit_new[j], -fit_old[j]
                for k in range(n_topics):
                    value_new += new[k, j] * scores[first + j, k]
                    value_old += old[k, j] * scores[first + j, k]
                gain = value_new - value_old + _gain_any_of(prior, log_new[:, j], log_z[first + j])
                if math.log(accept_number[j]) < gain:
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
    """out[i] = Σ ln z_n over the words of segment i. Twin: tests.twins.paper.sum_log.

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
    """out = ZᵀZ of words first to last − 1. Twin: tests.twins.paper.gram."""
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
    """Add words first to last − 1 to running sums, topic k counted as topic position[k].

    z, total, dominant : (N, K); position : (K,)

    Twin: tests.twins.paper.accumulate.
    """
    for n in range(first, last):
        best = 0
        for k in range(z.shape[1]):
            total[n, position[k]] += z[n, k]
            if z[n, k] > z[n, best]:
                best = k
        dominant[n, position[best]] += 1.0
