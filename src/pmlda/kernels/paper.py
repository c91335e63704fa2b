"""Algorithm 1 of the paper, the steps that visit documents and words."""

import math

import numpy as np

from pmlda.kernels.jit import inner, kernel
from pmlda.kernels.partition import log_partition
from pmlda.kernels.streams import PURPOSE_DOCUMENT, PURPOSE_WORD, STREAM_SIZE, log_dirichlet, point, uniform
from pmlda.types import FloatArray, IntArray


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

    Row d of out becomes: acceptances of π, of s, and Σ_n ln Dir(z_n; sπ). Twin: twins.document_step.
    """
    stream = np.empty(STREAM_SIZE, np.uint64)
    candidate = np.empty(len(alpha))
    for d in range(first, last):
        point(stream, key, sweep, d, 0, PURPOSE_DOCUMENT)
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
    stream = np.empty(STREAM_SIZE, np.uint64)
    exponent = np.empty(n_topics)
    candidate = np.empty(n_topics)
    log_candidate = np.empty(n_topics)
    scratch = np.empty(table.shape[1])
    for i in range(len(segments)):
        d = segments[i, 2]
        for k in range(n_topics):
            exponent[k] = s[d] * math.exp(log_pi[d, k]) - 1.0
        accepted = 0.0
        fit = 0.0
        for n in range(segments[i, 0], segments[i, 1]):
            point(stream, key, sweep, d, n - starts[d], PURPOSE_WORD)
            # Exponential numbers, normalised, are Dir(1_K).
            total = 0.0
            for k in range(n_topics):
                candidate[k] = -math.log(uniform(stream))
                total += candidate[k]
            log_total = math.log(total)
            fit_new = fit_old = prior_new = prior_old = 0.0
            for k in range(n_topics):
                log_candidate[k] = math.log(candidate[k]) - log_total
                candidate[k] /= total
                fit_new += candidate[k] * scores[n, k]
                fit_old += z[n, k] * scores[n, k]
                prior_new += exponent[k] * log_candidate[k]
                prior_old += exponent[k] * log_z[n, k]
            fit_new -= log_partition(code, table, constant, candidate, scratch)
            fit_old -= log_partition(code, table, constant, z[n], scratch)
            if math.log(uniform(stream)) < fit_new + prior_new - fit_old - prior_old:
                for k in range(n_topics):
                    z[n, k] = candidate[k]
                    log_z[n, k] = log_candidate[k]
                fit_old = fit_new
                accepted += 1.0
            fit += fit_old
        out[i, 0] = accepted
        out[i, 1] = fit


@kernel
def sum_log(log_z: FloatArray, segments: IntArray, out: FloatArray) -> None:
    """out[i] = Σ ln z_n over the words of segment i. Twin: twins.sum_log."""
    for i in range(len(segments)):
        for k in range(log_z.shape[1]):
            total = 0.0
            for n in range(segments[i, 0], segments[i, 1]):
                total += log_z[n, k]
            out[i, k] = total


@kernel
def accumulate(z: FloatArray, position: IntArray, total: FloatArray, dominant: FloatArray, first: int, last: int) -> None:
    """Add words first to last − 1 to running sums, topic k counted as topic position[k]. Twin: twins.accumulate."""
    for n in range(first, last):
        best = 0
        for k in range(z.shape[1]):
            total[n, position[k]] += z[n, k]
            if z[n, k] > z[n, best]:
                best = k
        dominant[n, position[best]] += 1.0
