"""The exact sampler, the steps that visit words: every word carries S candidate memberships, and sums over them.

Candidate 0 is the word's own z, the others are fresh draws from a q_n that never changes. Proportions,
scales and topics move while each word stands for all of its candidates,

    p(x_n | θ) ≈ Σ_j exp(fit_nj + ln Dir(z_nj; a) − ln q_n(z_nj)),

and one of them then becomes its z, with these weights. That is exact for any q and any S (Neal 2003; Shestopaloff and
Neal 2013, ensembles of latent values), and lets θ move as if z had almost been integrated out. Where a word has a
label, its probability is one more factor of the weights.
"""

import math

import numpy as np

from pmlda.kernels.arguments import (
    DocumentPrior,
    DocumentRange,
    Ensemble,
    GibbsLatents,
    LabelledPrior,
    LogPartition,
    Moves,
    Places,
    SweepKey,
    WordBlock,
)
from pmlda.kernels.gibbs_candidates import log_sums
from pmlda.kernels.jit import inner, kernel
from pmlda.kernels.labels import add_any_of, labelled_prior, row_of
from pmlda.kernels.log_partition import BLOCK_WORDS, fit_block, load, store
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
from pmlda.types import Fixed, FloatArray, IntArray, Labels, Latents

# A walk leads to no a_k below and no s above these: ln Γ(a) divides by a, and for large s its differences are rounding
# errors.
SMALLEST_A, LARGEST_S = 1e-300, 1e12
# An exchange that leaves no more membership than the first is refused; logarithms are of no less than the second.
SMALLEST_EXCHANGED, SMALLEST_LOGGED = 1e-290, 1e-300


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
def log_marginals(ensemble: Ensemble, first: int, last: int) -> float:
    """Σ_n ln Σ_j exp(fit + rest) over words first to last − 1. Twin: tests.twins.gibbs.log_marginals."""
    fits, rest = ensemble.fits, ensemble.rest
    n_candidates = fits.shape[1]
    weights = np.empty(n_candidates)
    total = 0.0
    for n in range(first, last):
        for j in range(n_candidates):
            weights[j] = fits[n, j] + rest[n, j]
        total += log_sum(weights, n_candidates)
    return total


@inner
def longest_document(documents: DocumentRange) -> int:
    """Words of the longest document in the range."""
    longest = 0
    for d in range(documents.first, documents.last):
        longest = max(longest, documents.starts[d + 1] - documents.starts[d])
    return longest


@inner
def log_prior(a: FloatArray, prior: LabelledPrior, scale_rate: float, n_words: int) -> float:
    """ln p(ln a) + N times the normaliser of Dir(a), for a (K,). prior : of the document's proportions"""
    alpha = prior.concentration
    s = a.sum()
    normaliser, _, _ = gamma_functions(s)
    value = (1.0 - alpha.sum()) * math.log(s) - scale_rate * s
    for k in range(len(a)):
        one, _, _ = gamma_functions(a[k])
        normaliser -= one
        value += alpha[k] * math.log(a[k])
    if prior.strength > 0.0:
        inside = 0.0
        for k in range(len(a)):
            inside += prior.any_of[k] * a[k]
        value += prior.strength * math.log(inside / s)
    return float(value + n_words * normaliser)


@inner
def _log_document(
    a: FloatArray,
    prior: LabelledPrior,
    scale_rate: float,
    log_z: FloatArray,
    weights: FloatArray,
    n_words: int,
    scratch: FloatArray,
) -> float:
    """ln p(ln a) + Σ_n ln Σ_j exp(weights_jn + ln Dir(z_jn; a)), where weights = fit − log_q.

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
    value = log_prior(a, prior, scale_rate, n_words)
    for n in range(n_words):
        value += totals[n]
    return value


@inner
def _load_document(ensemble: Ensemble, first: int, n_words: int, log_z: FloatArray, weights: FloatArray) -> None:
    """log_z (S, K, n) and weights (S, n) of a document's words, as _log_document needs them."""
    for j in range(len(weights)):
        load(ensemble.candidates[:, j], first, n_words, log_z[j])
        for n in range(n_words):
            weights[j, n] = ensemble.fits[first + n, j] - ensemble.log_q[first + n, j]


@kernel
def document_step(
    prior: DocumentPrior,
    a: FloatArray,
    ensemble: Ensemble,
    documents: DocumentRange,
    moves: Moves,
    rounds: int,
    sweep_key: SweepKey,
    fixed: Fixed,
) -> None:
    """Random walks of ln a of the documents in the range, each word standing for all of its candidates.

    In a round, ln s moves alone, then each ln a_k: K + 1 moves. a (D, K) is updated in place. Twin:
    tests.twins.gibbs.document_step.
    """
    n_candidates, n_topics = ensemble.fits.shape[1], a.shape[1]
    longest = longest_document(documents)
    stream = np.empty(STREAM_SIZE, np.uint64)
    new, scratch = np.empty(n_topics), np.empty((n_candidates + 2, longest))
    log_z, weights = np.empty((n_candidates, n_topics, longest)), np.empty((n_candidates, longest))
    for d in range(documents.first, documents.last):
        point(stream, sweep_key, np.uint64(d), np.uint64(0), PURPOSE_WALK)
        moves.accepted[d] = 0.0
        now = a[d]
        size = documents.starts[d + 1] - documents.starts[d]
        _load_document(ensemble, documents.starts[d], size, log_z, weights)
        own = labelled_prior(prior.alpha, prior.labels, row_of(prior.labels, d))
        value = _log_document(now, own, prior.scale_rate, log_z, weights, size, scratch)
        for _ in range(rounds):
            for move in range(n_topics + 1):
                if (move == 0 and fixed.scales) or (move > 0 and fixed.proportions):
                    continue
                step = math.exp(moves.widths[d, move] * normal(stream))
                total = 0.0
                for k in range(n_topics):
                    new[k] = now[k] * step if move == 0 or move == k + 1 else now[k]
                    total += new[k]
                if fixed.scales:  # π alone: additive in its log ratios
                    for k in range(n_topics):
                        new[k] *= now.sum() / total
                threshold = math.log(uniform(stream))
                if new.min() < SMALLEST_A or total > LARGEST_S:
                    continue
                proposed = _log_document(new, own, prior.scale_rate, log_z, weights, size, scratch)
                if threshold < proposed - value:
                    now[:] = new
                    value = proposed
                    moves.accepted[d, move] += 1.0 / rounds


@kernel
def weigh_candidates(a: FloatArray, document: IntArray, ensemble: Ensemble, first: int, last: int) -> None:
    """ensemble.rest = (a − 1)·ln z − log_q, what prior, label and proposal weigh, for words first to last − 1.

    a : (D, K); document : (N,) of each word

    Twin: tests.twins.gibbs.weigh_candidates.
    """
    candidates, log_q, rest = ensemble.candidates, ensemble.log_q, ensemble.rest
    n_topics = a.shape[1]
    for n in range(first, last):
        d = document[n]
        for j in range(candidates.shape[1]):
            total = -log_q[n, j]
            for k in range(n_topics):
                total += (a[d, k] - 1.0) * candidates[n, j, k]
            rest[n, j] = total


@kernel
def choose_candidates(
    ensemble: Ensemble, places: Places, sweep_key: SweepKey, latents: Latents, out: FloatArray
) -> None:
    """One candidate of each word becomes its z, with probability proportional to exp(fit + rest).

    Memberships are updated in place. Row i of out (M, 2) becomes: words of segment i that changed, and Σ of the chosen
    fits. Twin: tests.twins.gibbs.choose_candidates.
    """
    candidates, shares, fits, rest = ensemble.candidates, ensemble.shares, ensemble.fits, ensemble.rest
    z, log_z = latents.memberships, latents.log_memberships
    segments, starts = places
    n_candidates, n_topics = candidates.shape[1], candidates.shape[2]
    stream = np.empty(STREAM_SIZE, np.uint64)
    weights = np.empty(n_candidates)
    for i in range(len(segments)):
        d = segments[i, 2]
        out[i, 0] = out[i, 1] = 0.0
        for n in range(segments[i, 0], segments[i, 1]):
            point(stream, sweep_key, np.uint64(d), np.uint64(n - starts[d]), PURPOSE_CHOICE)
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
    old: WordBlock, i: int, k: int, width: float, shift: FloatArray, accept: FloatArray, n_words: int, new: WordBlock
) -> None:
    """In new, z_i + δ and z_k − δ with their logarithms; accept becomes its logarithm. shift, accept : (B,) uniform."""
    z_i, z_k = old.z[i], old.z[k]
    new_i, new_k, log_i, log_k = new.z[i], new.z[k], new.log_z[i], new.log_z[k]
    for j in range(n_words):
        delta = width * (shift[j] - 0.5)
        new_i[j] = z_i[j] + delta
        new_k[j] = z_k[j] - delta
        log_i[j] = log(max(new_i[j], SMALLEST_LOGGED))
        log_k[j] = log(max(new_k[j], SMALLEST_LOGGED))
        accept[j] = log(accept[j])


@inner
def _settle_exchange(
    a: FloatArray, i: int, k: int, accept: FloatArray, n_words: int, old: WordBlock, new: WordBlock
) -> float:
    """Where the exchange is accepted, the new in place of the old; elsewhere the other way round. How many were."""
    power_i, power_k = a[i] - 1.0, a[k] - 1.0
    z_i, z_k, log_z_i, log_z_k, fit = old.z[i], old.z[k], old.log_z[i], old.log_z[k], old.fit
    new_i, new_k, log_i, log_k, fit_new = new.z[i], new.z[k], new.log_z[i], new.log_z[k], new.fit
    for j in range(n_words):
        ratio = fit_new[j] - fit[j] + power_i * (log_i[j] - log_z_i[j]) + power_k * (log_k[j] - log_z_k[j])
        taken = accept[j] < ratio and new_i[j] > SMALLEST_EXCHANGED and new_k[j] > SMALLEST_EXCHANGED
        z_i[j] = new_i[j] = new_i[j] if taken else z_i[j]
        z_k[j] = new_k[j] = new_k[j] if taken else z_k[j]
        log_z_i[j] = log_i[j] if taken else log_z_i[j]
        log_z_k[j] = log_k[j] if taken else log_z_k[j]
        fit[j] = fit_new[j] if taken else fit[j]
        accept[j] = 1.0 if taken else 0.0
    return float(accept[:n_words].sum())


@kernel
def transfer_step(
    log_partition: LogPartition,
    scores: FloatArray,
    latents: GibbsLatents,
    places: Places,
    labels: Labels,
    widths: FloatArray,
    rounds: int,
    sweep_key: SweepKey,
    out: FloatArray,
) -> None:
    """Every pair of topics in turn exchanges some membership: z_i + δ, z_k − δ with δ uniform on ±widths[i, k].

    Local steps, for words that q_n does not describe well. Memberships are updated in place. scores has a row for each
    word of the segments, widths is (K, K). Row i of out (M, 2) becomes: the share accepted of segment i times its
    words, and Σ of the fits. Twin: tests.twins.gibbs.transfer_step.
    """
    z, log_z, a = latents
    segments, starts = places
    n_topics = z.shape[1]
    first_row = segments[0, 0]
    shape = (n_topics, BLOCK_WORDS)
    old = WordBlock(np.empty(shape), np.empty(shape), np.empty(BLOCK_WORDS))
    new = WordBlock(np.empty(shape), np.empty(shape), np.empty(BLOCK_WORDS))
    score, eta = np.empty(shape), np.empty(log_partition.table.shape[1])
    shift, accept = np.empty(BLOCK_WORDS), np.empty(BLOCK_WORDS)
    n_moves = rounds * n_topics * (n_topics - 1) // 2
    for segment in range(len(segments)):
        d = segments[segment, 2]
        prior = labelled_prior(a[d], labels, segments[segment, 3])
        accepted, total = 0.0, 0.0
        for first in range(segments[segment, 0], segments[segment, 1], BLOCK_WORDS):
            n_words = min(BLOCK_WORDS, segments[segment, 1] - first)
            word = first - starts[d]
            load(z, first, n_words, old.z)
            load(log_z, first, n_words, old.log_z)
            load(scores, first - first_row, n_words, score)
            fit_block(log_partition, old.z, score, n_words, first - first_row, eta, old.fit)
            add_any_of(prior, old.log_z, n_words, 1.0, old.fit)  # until the words have moved
            new.z[:, :n_words] = old.z[:, :n_words]
            move = np.uint64(0)
            for _ in range(rounds):
                for i in range(n_topics):
                    for k in range(i):
                        uniform_pairs(shift, accept, n_words, sweep_key, np.uint64(d), word, PURPOSE_TRANSFER, move)
                        move += np.uint64(1)
                        _propose_exchange(old, i, k, 2.0 * widths[i, k], shift, accept, n_words, new)
                        fit_block(log_partition, new.z, score, n_words, first - first_row, eta, new.fit)
                        if prior.strength > 0.0:
                            for other in range(n_topics):
                                if other != i and other != k:
                                    new.log_z[other, :n_words] = old.log_z[other, :n_words]
                            add_any_of(prior, new.log_z, n_words, 1.0, new.fit)
                        accepted += _settle_exchange(prior.concentration, i, k, accept, n_words, old, new)
            store(old.z, n_words, first, z)
            store(old.log_z, n_words, first, log_z)
            add_any_of(prior, old.log_z, n_words, -1.0, old.fit)
            for j in range(n_words):
                total += old.fit[j]
        out[segment, 0] = accepted / max(n_moves, 1)
        out[segment, 1] = total
