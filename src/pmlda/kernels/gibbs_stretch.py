"""The exact sampler, stretches: a_k of a document moves together with the memberships of all its words."""

import math

import numpy as np

from pmlda.kernels.arguments import (
    DocumentPrior,
    DocumentRange,
    GibbsLatents,
    LogPartition,
    Moves,
    SweepKey,
    WordBlock,
)
from pmlda.kernels.gibbs import log_prior, longest_document
from pmlda.kernels.gibbs_candidates import log_sums
from pmlda.kernels.jit import inner, kernel
from pmlda.kernels.labels import labelled_prior, log_label, row_of
from pmlda.kernels.log_partition import fit_block, load, store
from pmlda.kernels.special import exp, exp_minus_one, log, log_one_minus
from pmlda.kernels.streams import PURPOSE_STRETCH, STREAM_SIZE, normal, point, uniform
from pmlda.types import FloatArray, Labels

# Stretches of small memberships are of those below ε, with ln ε uniform between this and 0.
LOWEST_EDGE = -7.0
# A stretch leads to no a_k outside these: ln Γ(a) divides by a, and for large a its differences are rounding errors.
SMALLEST_A, LARGEST_A = 1e-290, 1e12
# Where ln(1 − z_k) is below this, ln z_k is computed from it.
CLOSE_TO_ONE = -1.0
# Where ln z_k is above the first, 1 − z_k would underflow and is taken to first order. Logarithms are of no less than
# the second.
NEAREST_TO_ONE, SMALLEST_LOGGED = -1e-290, 1e-300


@inner
def _stretch(
    log_z: FloatArray,
    n_words: int,
    k: int,
    r: float,
    edge: float,
    scratch: FloatArray,
    new: FloatArray,
    jacobian: FloatArray,
) -> None:
    """new = ln z after z_k → ε (z_k/ε)^(1/r) where z_k < ε = exp(edge), the others in proportion.

    jacobian becomes the log Jacobian on the simplex, of each word. Memberships of ε or more stay.

    log_z, new : (K, n); jacobian : (n,); scratch : (n,) ln(1 − z_k), and then by how much the others shift
    """
    n_topics, log_r = len(log_z), math.log(r)
    log_sums(log_z, n_words, k, jacobian, scratch)
    for j in range(n_words):
        rest = scratch[j]
        # Where z_k is close to one its logarithm has lost the digits that the others have kept.
        log_k = log_one_minus(exp(min(rest, CLOSE_TO_ONE))) if rest < CLOSE_TO_ONE else log_z[k, j]
        moves = edge == 0.0 or log_k < edge
        new_k = edge + (log_k - edge) / r
        rest_new = log(max(-exp_minus_one(new_k), SMALLEST_LOGGED)) if new_k < NEAREST_TO_ONE else rest - log_r
        shift = rest_new - rest if moves else 0.0
        new[k, j] = new_k if moves else log_z[k, j]
        jacobian[j] = new_k - log_k - log_r + (n_topics - 2) * shift if moves else 0.0
        scratch[j] = shift
    for i in range(n_topics):
        if i != k:
            for j in range(n_words):
                new[i, j] = log_z[i, j] + scratch[j]


@inner
def _stretch_all(
    log_z: FloatArray, n_words: int, r: float, scratch: FloatArray, new: FloatArray, jacobian: FloatArray
) -> None:
    """new = ln z after z → z^(1/r) / Σ z^(1/r): log ratios divided by r; the rest as in _stretch."""
    n_topics = len(log_z)
    for i in range(n_topics):
        for j in range(n_words):
            new[i, j] = log_z[i, j] / r
    log_sums(new, n_words, -1, jacobian, scratch)
    jacobian[:n_words] = -(n_topics - 1) * math.log(r)
    for i in range(n_topics):
        for j in range(n_words):
            new[i, j] -= scratch[j]
            jacobian[j] += new[i, j] - log_z[i, j]


@inner
def _add_gains(
    old: WordBlock, new: WordBlock, a: FloatArray, new_a: FloatArray, n_words: int, gain: FloatArray
) -> None:
    """new.z = exp(new.log_z); to gain is added what the memberships gain in density, without its normaliser."""
    log_old, log_new, z = old.log_z, new.log_z, new.z
    for i in range(len(log_new)):
        for j in range(n_words):
            z[i, j] = exp(log_new[i, j])
            gain[j] += (new_a[i] - 1.0) * log_new[i, j] - (a[i] - 1.0) * log_old[i, j]


@inner
def _gain_of_labels(labels: Labels, first: int, n_words: int, old: FloatArray, new: FloatArray) -> float:
    """What the labels of a document's words gain in probability. old, new : (K, n) ln z"""
    gain = 0.0
    for j in range(min(n_words, len(labels.row))):
        row = labels.row[first + j]
        if row > 0:
            gain += log_label(labels, row, new[:, j]) - log_label(labels, row, old[:, j])
    return gain


@kernel
def stretch_step(
    log_partition: LogPartition,
    scores: FloatArray,
    latents: GibbsLatents,
    prior: DocumentPrior,
    documents: DocumentRange,
    labels: Labels,
    moves: Moves,
    sweep_key: SweepKey,
) -> None:
    """For every topic of the documents in the range: a_k → r a_k and z_nk → z_nk^(1/r) for all words together.

    Memberships far below what the data can tell are exponential in ln z at rate a_k, and this map keeps them so: a_k
    moves over orders of magnitude where it would otherwise be tied to them. After one round of all topics, further
    rounds stretch only memberships below an ε that is drawn anew for each move: words that the data do tell about stay
    where they are and do not stand in the way. The last move is of all topics at once, for documents of crisp words.
    R rounds have R·K + 1 moves, whose widths are those of ln r. Latents are updated in place; scores are (N, K). Twin:
    tests.twins.gibbs.stretch_step.
    """
    z, log_z, a = latents
    n_topics, n_moves = z.shape[1], moves.widths.shape[1]
    longest = longest_document(documents)
    shape = (n_topics, longest)
    old = WordBlock(np.empty(shape), np.empty(shape), np.empty(longest))
    new = WordBlock(np.empty(shape), np.empty(shape), np.empty(longest))
    score, gain, scratch = np.empty(shape), np.empty(longest), np.empty(longest)
    new_a, eta = np.empty(n_topics), np.empty(log_partition.table.shape[1])
    stream = np.empty(STREAM_SIZE, np.uint64)
    for d in range(documents.first, documents.last):
        point(stream, sweep_key, np.uint64(d), np.uint64(0), PURPOSE_STRETCH)
        first = documents.starts[d]
        size = documents.starts[d + 1] - first
        own = labelled_prior(prior.alpha, prior.labels, row_of(prior.labels, d))
        load(z, first, size, old.z)
        load(log_z, first, size, old.log_z)
        load(scores, first, size, score)
        fit_block(log_partition, old.z, score, size, first, eta, old.fit)
        for move in range(n_moves):
            k = move % n_topics if move < n_moves - 1 else n_topics
            r = math.exp(moves.widths[d, move] * normal(stream))
            edge = LOWEST_EDGE * uniform(stream) if move >= n_topics else 0.0
            threshold = math.log(uniform(stream))
            for i in range(n_topics):
                new_a[i] = a[d, i] * r if i == k or k == n_topics else a[d, i]
            moves.accepted[d, move] = 0.0
            if new_a.min() < SMALLEST_A or new_a.max() > LARGEST_A:
                continue
            if k == n_topics:
                _stretch_all(old.log_z, size, r, scratch, new.log_z, gain)
            else:
                _stretch(old.log_z, size, k, r, edge, scratch, new.log_z, gain)
            _add_gains(old, new, a[d], new_a, size, gain)
            fit_block(log_partition, new.z, score, size, first, eta, new.fit)
            ratio = log_prior(new_a, own, prior.scale_rate, size) - log_prior(a[d], own, prior.scale_rate, size)
            ratio += _gain_of_labels(labels, first, size, old.log_z, new.log_z)
            for j in range(size):
                ratio += gain[j] + (new.fit[j] - old.fit[j])
            if threshold < ratio:
                a[d] = new_a
                moves.accepted[d, move] = 1.0
                old, new = new, old
        store(old.z, size, first, z)
        store(old.log_z, size, first, log_z)
