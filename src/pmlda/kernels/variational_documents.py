"""Variational inference, the step that visits documents: a_d = s_d π_d."""

import math

import numpy as np

from pmlda.kernels.jit import inner, kernel
from pmlda.kernels.special import gamma_functions
from pmlda.kernels.variational import SMALLEST
from pmlda.types import FloatArray, IntArray


@inner
def _document_bound(
    a: FloatArray,
    sum_log_z: FloatArray,
    n_words: int,
    alpha: FloatArray,
    scale_rate: float,
    slope: FloatArray,
    curve: FloatArray,
) -> tuple[float, float]:
    """N[ln Γ(s) − Σ ln Γ(a_k)] + a·Σ_n E[ln z_n] + ln p(π, s), its slopes, and its curvature diag(curve) + rest·11ᵀ.

    The prior is the density of ln a: Σ α_k ln π_k + ln s − λs. Modes are taken in these coordinates because those of
    π itself sit in a corner wherever α_k < 1.
    """
    n_topics = len(a)
    s = a.sum()
    log_gamma, digamma_s, trigamma_s = gamma_functions(s)
    alpha_sum = alpha.sum()
    value = n_words * log_gamma + (1.0 - alpha_sum) * math.log(s) - scale_rate * s
    for k in range(n_topics):
        log_gamma, digamma, trigamma = gamma_functions(a[k])
        value += alpha[k] * math.log(a[k]) + a[k] * sum_log_z[k] - n_words * log_gamma
        slope[k] = n_words * (digamma_s - digamma) + sum_log_z[k] + alpha[k] / a[k]
        slope[k] += (1.0 - alpha_sum) / s - scale_rate
        curve[k] = -n_words * trigamma - alpha[k] / (a[k] * a[k])
    return value, n_words * trigamma_s - (1.0 - alpha_sum) / (s * s)


@kernel
def document_step(
    alpha: FloatArray,
    scale_rate: float,
    a: FloatArray,
    sum_log_z: FloatArray,
    sizes: IntArray,
    steps: int,
    hold_pi: bool,
    hold_s: bool,
    first: int,
    last: int,
    bound: FloatArray,
) -> None:
    """Newton steps in ln a for documents first to last − 1, each kept only if the document's bound rises.

    bound[d] becomes the document's own part of the bound. Where proportions or scales are held, the step is projected
    onto what is free. Twin: twins_variational.document_step.
    """
    n_topics = a.shape[1]
    slope, curve, step, new = np.empty(n_topics), np.empty(n_topics), np.empty(n_topics), np.empty(n_topics)
    for d in range(first, last):
        now = a[d]
        value, rest = _document_bound(now, sum_log_z[d], sizes[d], alpha, scale_rate, slope, curve)
        for _ in range(steps):
            if hold_pi and hold_s:
                break
            _newton(now, slope, curve, rest, hold_pi, hold_s, step)
            length = 1.0
            risen = False
            shortest = min(SMALLEST / now.min(), 1.0)
            for _ in range(12):
                total, total_new = now.sum(), 0.0
                for k in range(n_topics):
                    if hold_pi:  # all stop where the smallest has to
                        new[k] = now[k] * max(math.exp(length * step[k]), shortest)
                    else:
                        new[k] = max(now[k] * math.exp(length * step[k]), SMALLEST)
                    total_new += new[k]
                if hold_s:
                    for k in range(n_topics):
                        new[k] *= total / total_new
                new_value, new_rest = _document_bound(new, sum_log_z[d], sizes[d], alpha, scale_rate, slope, curve)
                if new_value >= value:
                    risen = True
                    break
                length *= 0.3
            if not risen:
                break
            gain = new_value - value
            now[:] = new
            value, rest = new_value, new_rest
            if gain < 1e-9 * (1.0 + abs(value)):
                break
        bound[d] = value


@inner
def _newton(
    a: FloatArray, slope: FloatArray, curve: FloatArray, rest: float, hold_pi: bool, hold_s: bool, step: FloatArray
) -> None:
    """A direction in ln a that leads up: Newton's where the curvature allows, damped to at most a factor of e²."""
    n_topics = len(a)
    if hold_pi:  # one dimension: all ln a move together
        g, h = 0.0, 0.0
        for k in range(n_topics):
            g += a[k] * slope[k]
            h += a[k] * a[k] * curve[k] + min(a[k] * slope[k], 0.0)
        total = a.sum()
        h = min(h + rest * total * total, -1e-3 * abs(g) - 1e-300)
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
        common = 0.0 if denominator < 1e-8 else rest * weighted / denominator
        if hold_s:  # Σ_k a_k step_k = 0
            common = weighted / squares
        for k in range(n_topics):
            d = a[k] * a[k] * curve[k] + min(a[k] * slope[k], 0.0)
            step[k] -= common * a[k] / d
    largest = 0.0
    for k in range(n_topics):
        largest = max(largest, abs(step[k]))
    if largest > 2.0:
        for k in range(n_topics):
            step[k] *= 2.0 / largest
