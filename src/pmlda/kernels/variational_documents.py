"""Variational inference, the step that visits documents: a_d = s_d π_d."""

import math

import numpy as np

from pmlda.kernels.arguments import DocumentPrior, DocumentRange, LabelledPrior
from pmlda.kernels.jit import inner, kernel, total_of
from pmlda.kernels.labels import labelled_prior, row_of
from pmlda.kernels.special import gamma_functions
from pmlda.types import Fixed, FloatArray

# γ and a stay above this: smaller ones differ in nothing that can be seen, and their trigamma would overflow.
SMALLEST = 1e-10
# A step that lowers the bound is shortened to this part of it, so many times at most.
SHORTER, MOST_TRIALS = 0.3, 12
# Steps end when one gains less than this part of the bound.
LEAST_GAIN = 1e-9
# No ln a moves further in one step: a factor of e².
LONGEST_STEP = 2.0
# Along one dimension, the curvature is kept below zero: at least this part of the slope, or this.
LEAST_CURVATURE, SMALLEST_CURVATURE = 1e-3, 1e-300
# Sherman and Morrison's denominator is zero where the bound stops being concave; below this, only the diagonal is used.
LEAST_DENOMINATOR = 1e-8


@inner
def _document_bound(
    a: FloatArray,
    sum_log_z: FloatArray,
    n_words: int,
    prior: LabelledPrior,
    scale_rate: float,
    slope: FloatArray,
    curve: FloatArray,
) -> tuple[float, float]:
    """N[ln Γ(s) − Σ ln Γ(a_k)] + a·Σ_n E[ln z_n] + ln p(π, s), its slopes, and its curvature diag(curve) + rest·11ᵀ.

    The prior is the density of ln a: Σ α_k ln π_k + ln s − λs. Modes are taken in these coordinates because those of
    π itself sit in a corner wherever α_k < 1.
    """
    alpha = prior.concentration
    n_topics = len(a)
    s = total_of(a)
    log_gamma, digamma_s, trigamma_s = gamma_functions(s)
    alpha_sum = total_of(alpha)
    value = n_words * log_gamma + (1.0 - alpha_sum) * math.log(s) - scale_rate * s
    for k in range(n_topics):
        log_gamma, digamma, trigamma = gamma_functions(a[k])
        value += alpha[k] * math.log(a[k]) + a[k] * sum_log_z[k] - n_words * log_gamma
        slope[k] = n_words * (digamma_s - digamma) + sum_log_z[k] + alpha[k] / a[k]
        slope[k] += (1.0 - alpha_sum) / s - scale_rate
        curve[k] = -n_words * trigamma - alpha[k] / (a[k] * a[k])
    rest = n_words * trigamma_s - (1.0 - alpha_sum) / (s * s)
    if prior.strength > 0.0:  # strength · ln Σ π_k over the topics that it contains
        inside = 0.0
        for k in range(n_topics):
            inside += prior.any_of[k] * a[k]
        value += prior.strength * math.log(inside / s)
        for k in range(n_topics):
            slope[k] += prior.strength * (prior.any_of[k] / inside - 1.0 / s)
            curve[k] -= prior.strength * prior.any_of[k] / (inside * inside)
        rest += prior.strength / (s * s)
    return value, rest


@kernel
def document_step(
    prior: DocumentPrior,
    a: FloatArray,
    sum_log_z: FloatArray,
    documents: DocumentRange,
    steps: int,
    fixed: Fixed,
    bound: FloatArray,
) -> None:
    """Newton steps in ln a for the documents in the range, each kept only if the document's bound rises.

    a (D, K) is updated in place, from sum_log_z (D, K) Σ E[ln z]; bound (D,) becomes each document's own part of the
    bound. Where proportions or scales are held, the step is projected onto what is free. Twin:
    tests.twins.variational.document_step.
    """
    starts, n_topics = documents.starts, a.shape[1]
    slope, curve, step, new = np.empty(n_topics), np.empty(n_topics), np.empty(n_topics), np.empty(n_topics)
    for d in range(documents.first, documents.last):
        now, size = a[d], starts[d + 1] - starts[d]
        own = labelled_prior(prior.alpha, prior.labels, row_of(prior.labels, d))
        value, rest = _document_bound(now, sum_log_z[d], size, own, prior.scale_rate, slope, curve)
        for _ in range(steps):
            if fixed.proportions and fixed.scales:
                break
            _newton(now, slope, curve, rest, fixed, step)
            length = 1.0
            risen = False
            smallest = now[0]
            for k in range(1, n_topics):
                smallest = min(smallest, now[k])
            shortest = min(SMALLEST / smallest, 1.0)
            for _ in range(MOST_TRIALS):
                total, total_new = total_of(now), 0.0
                for k in range(n_topics):
                    if fixed.proportions:  # all stop where the smallest has to
                        new[k] = now[k] * max(math.exp(length * step[k]), shortest)
                    else:
                        new[k] = max(now[k] * math.exp(length * step[k]), SMALLEST)
                    total_new += new[k]
                if fixed.scales:
                    for k in range(n_topics):
                        new[k] *= total / total_new
                new_value, new_rest = _document_bound(new, sum_log_z[d], size, own, prior.scale_rate, slope, curve)
                if new_value >= value:
                    risen = True
                    break
                length *= SHORTER
            if not risen:
                break
            gain = new_value - value
            for k in range(n_topics):
                now[k] = new[k]
            value, rest = new_value, new_rest
            if gain < LEAST_GAIN * (1.0 + abs(value)):
                break
        bound[d] = value


@inner
def _newton(a: FloatArray, slope: FloatArray, curve: FloatArray, rest: float, fixed: Fixed, step: FloatArray) -> None:
    """A direction in ln a that leads up: Newton's where the curvature allows, and no longer than LONGEST_STEP."""
    n_topics = len(a)
    if fixed.proportions:  # one dimension: all ln a move together
        g, h = 0.0, 0.0
        for k in range(n_topics):
            g += a[k] * slope[k]
            h += a[k] * a[k] * curve[k] + min(a[k] * slope[k], 0.0)
        total = total_of(a)
        h = min(h + rest * total * total, -LEAST_CURVATURE * abs(g) - SMALLEST_CURVATURE)
        for k in range(n_topics):
            step[k] = -g / h
    else:
        # Curvature diag(d) + rest·aaᵀ with every d below zero; Sherman and Morrison, unless that is not concave.
        weighted, squares = 0.0, 0.0
        for k in range(n_topics):
            d = a[k] * a[k] * curve[k] + min(a[k] * slope[k], 0.0)
            step[k] = -a[k] * slope[k] / d
            weighted += a[k] * step[k]
            squares += a[k] * a[k] / d
        denominator = 1.0 + rest * squares
        common = 0.0 if denominator < LEAST_DENOMINATOR else rest * weighted / denominator
        if fixed.scales:  # Σ_k a_k step_k = 0
            common = weighted / squares
        for k in range(n_topics):
            d = a[k] * a[k] * curve[k] + min(a[k] * slope[k], 0.0)
            step[k] -= common * a[k] / d
    largest = 0.0
    for k in range(n_topics):
        largest = max(largest, abs(step[k]))
    if largest > LONGEST_STEP:
        for k in range(n_topics):
            step[k] *= LONGEST_STEP / largest
