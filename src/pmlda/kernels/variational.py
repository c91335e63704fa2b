"""Variational inference, the step that visits words. q(z_n) = Dir(γ_n), and a_d = s_d π_d is their document's.

f(γ) = E[z]·ℓ − E[A(Σ z_k η_k)] is the part of a word's bound that knows its features. E[A] has a closed form where A
is quadratic (Gaussians with one covariance); elsewhere it is summed along lines (kernels.lines).
"""

import math

import numpy as np

from pmlda.kernels.jit import inlined, inner, kernel
from pmlda.kernels.lines import line_rule, opposite_face
from pmlda.kernels.partition import BLOCK_WORDS, load, log_partition_mean, store
from pmlda.kernels.special import gamma_functions
from pmlda.types import FloatArray, IntArray

# γ and a stay above this: smaller ones differ in nothing that can be seen, and their trigamma would overflow.
SMALLEST = 1e-10
# Steps grow while they succeed, up to so many times the full one: between two nearly equal optima the bound is flat.
LARGEST_RATE, FASTER, SLOWER = 8.0, 1.5, 0.25
# One step shrinks no γ to less than this part of it.
MOST_DOWN = 0.1


@inner
def _gamma_terms(
    gamma: FloatArray, n_words: int, log_gamma: FloatArray, digamma: FloatArray, inverse: FloatArray
) -> None:
    """log_gamma[j] += ln Γ(γ_j), digamma[j] = ψ, inverse[j] = 1 / ψ', for one topic of a block."""
    for j in range(n_words):
        first, second, third = gamma_functions(gamma[j])
        log_gamma[j] += first
        digamma[j] = second
        inverse[j] = 1.0 / third


@inner
def _quadratic_fit(
    table: FloatArray,
    score: FloatArray,
    m: FloatArray,
    c: FloatArray,
    n_words: int,
    fit: FloatArray,
    slope: FloatArray,
    slope_c: FloatArray,
) -> None:
    """f, ∂f/∂m and ∂f/∂c where A(z) = ½ zᵀGz: f = m·ℓ − ½[(1 − c) mᵀGm + c g·m], with g the diagonal of G."""
    n_topics = len(table)
    for j in range(n_words):
        fit[j] = 0.0
        slope_c[j] = 0.0
    for k in range(n_topics):
        g = table[k, k]
        row = slope[k]
        for j in range(n_words):
            row[j] = 0.0
        for i in range(n_topics):
            for j in range(n_words):
                row[j] += table[k, i] * m[i, j]
        for j in range(n_words):
            fit[j] += m[k, j] * (score[k, j] - 0.5 * ((1.0 - c[j]) * row[j] + c[j] * g))
            slope_c[j] += 0.5 * m[k, j] * (row[j] - g)
            row[j] = score[k, j] - (1.0 - c[j]) * row[j] - 0.5 * c[j] * g


@inner
def _slopes(
    code: int,
    table: FloatArray,
    constant: float,
    z: FloatArray,
    eta: FloatArray,
    mean: FloatArray,
    gradient: FloatArray,
) -> float:
    """A at z; gradient becomes its slopes along every z_k, η_k·∇A."""
    value = log_partition_mean(code, table, constant, z, eta, mean)
    for k in range(len(table)):
        gradient[k] = 0.0
        for j in range(table.shape[1]):
            gradient[k] += table[k, j] * mean[j]
    return value


@inner
def _other_fit(
    code: int,
    table: FloatArray,
    constant: float,
    score: FloatArray,
    m: FloatArray,
    c: FloatArray,
    n_words: int,
    fit: FloatArray,
    slope: FloatArray,
    slope_c: FloatArray,
) -> None:
    """The same for any other A, by the rule along lines to the corners. docs/model.md derives the slopes."""
    n_topics, q = table.shape
    eta, mean = np.empty(q), np.empty(q)
    here, face, point, corner = np.empty(n_topics), np.empty(n_topics), np.empty(n_topics), np.empty(n_topics)
    gradient, face_slopes, corners = np.empty(n_topics), np.empty(n_topics), np.empty(n_topics)
    for k in range(n_topics):
        corner[:] = 0.0
        corner[k] = 1.0
        corners[k] = log_partition_mean(code, table, constant, corner, eta, eta[:0])
    for j in range(n_words):
        n = 1.0 / c[j] - 1.0
        here[:] = m[:, j]
        total = (2.0 - n_topics) * _slopes(code, table, constant, here, eta, mean, gradient)
        along_n = 0.0
        for i in range(n_topics):
            slope[i, j] = score[i, j] - (2.0 - n_topics) * gradient[i]
        for k in range(n_topics):
            rest = opposite_face(here, k, face)
            x, zero, inside, one = line_rule(here[k], n)
            at_zero = _slopes(code, table, constant, face, eta, mean, gradient)
            for i in range(n_topics):
                point[i] = (1.0 - x) * face[i]
                face_slopes[i] = rest * zero * gradient[i]
            point[k] = x
            at_x = _slopes(code, table, constant, point, eta, mean, gradient)
            along_x, along_face = 0.0, 0.0
            for i in range(n_topics):
                along_x += gradient[i] * ((1.0 if i == k else 0.0) - face[i])
                face_slopes[i] += rest * inside * (1.0 - x) * gradient[i]
                along_face += face_slopes[i] * face[i]
            line = zero * at_zero + inside * at_x + one * corners[k]
            total += rest * line
            # How the rule itself moves with m_k and with n: u = E[z_k(1 − z_k)], inside = u / x(1 − x).
            x_m, x_n = n / (n + 2.0), (2.0 * here[k] - 1.0) / ((n + 2.0) * (n + 2.0))
            width = x * (1.0 - x)
            u_m = (1.0 - 2.0 * here[k]) * n / (n + 1.0)
            u_n = here[k] * rest / ((n + 1.0) * (n + 1.0))
            inside_m = (u_m - inside * (1.0 - 2.0 * x) * x_m) / width
            inside_n = (u_n - inside * (1.0 - 2.0 * x) * x_n) / width
            one_m, one_n = 1.0 - inside_m * x - inside * x_m, -inside_n * x - inside * x_n
            line_m = -(one_m + inside_m) * at_zero + inside_m * at_x + one_m * corners[k] + inside * along_x * x_m
            line_n = -(one_n + inside_n) * at_zero + inside_n * at_x + one_n * corners[k] + inside * along_x * x_n
            along_n += rest * line_n
            slope[k, j] += line - rest * line_m - along_face / rest
            for i in range(n_topics):
                if i != k:
                    slope[i, j] -= face_slopes[i] / rest
        fit[j] = -total
        for i in range(n_topics):
            fit[j] += here[i] * score[i, j]
        slope_c[j] = along_n / (c[j] * c[j])


@inner
def _evaluate(
    code: int,
    table: FloatArray,
    constant: float,
    score: FloatArray,
    a: FloatArray,
    gamma: FloatArray,
    n_words: int,
    work: FloatArray,
    matrix: FloatArray,
    m: FloatArray,
    log_z: FloatArray,
    step: FloatArray,
    value: FloatArray,
) -> None:
    """At γ: the bound of each word, and the step (F + C)⁻¹∇ that leads towards its maximum. m, log_z: E[z], E[ln z].

    F = diag ψ'(γ) − ψ'(γ₀) 11ᵀ is the curvature of what Dirichlets contribute (the natural gradient has F alone), and C
    that of the likelihood along m where A is quadratic, for words that some topics pin down far more tightly than
    others. docs/model.md derives both.
    """
    n_topics = len(gamma)
    total, c, fit, slope_c = work[0], work[1], work[2], work[3]
    digamma_0, inverse_0, mean_slope, excess = work[4], work[5], work[6], work[7]
    root, slope = work[8 : 8 + n_topics], work[8 + n_topics : 8 + 2 * n_topics]
    for j in range(n_words):
        total[j] = 0.0
        value[j] = 0.0
        mean_slope[j] = 0.0
        excess[j] = 0.0
    for k in range(n_topics):
        for j in range(n_words):
            total[j] += gamma[k, j]
            excess[j] += a[k] - gamma[k, j]
    _gamma_terms(total, n_words, value, digamma_0, inverse_0)
    for j in range(n_words):
        value[j] = -value[j]
        c[j] = 1.0 / (total[j] + 1.0)
    for k in range(n_topics):
        _gamma_terms(gamma[k], n_words, value, log_z[k], root[k])
        for j in range(n_words):
            log_z[k, j] -= digamma_0[j]
            m[k, j] = gamma[k, j] / total[j]
            value[j] += (a[k] - gamma[k, j]) * log_z[k, j]
            root[k, j] = math.sqrt(root[k, j])
    if code == 0:
        _quadratic_fit(table, score, m, c, n_words, fit, slope, slope_c)
    else:
        _other_fit(code, table, constant, score, m, c, n_words, fit, slope, slope_c)
    for k in range(n_topics):
        for j in range(n_words):
            mean_slope[j] += m[k, j] * slope[k, j]
    # ∂f/∂γ_k = (∂f/∂m_k − m·∂f/∂m) / γ₀ − c² ∂f/∂c, and F(a − γ) from the rest; in units in which diag ψ' is one.
    for j in range(n_words):
        value[j] += fit[j]
    for k in range(n_topics):
        for j in range(n_words):
            h = (slope[k, j] - mean_slope[j]) / total[j] - c[j] * c[j] * slope_c[j]
            step[k, j] = root[k, j] * (h - excess[j] / inverse_0[j]) + (a[k] - gamma[k, j]) / root[k, j]
    _curvature(code == 0, table, m, c, total, root, inverse_0, n_words, slope, fit, matrix)
    _solve(matrix, n_words, step)
    for k in range(n_topics):
        for j in range(n_words):
            step[k, j] *= root[k, j]


@inner
def _curvature(
    is_quadratic: bool,
    table: FloatArray,
    m: FloatArray,
    c: FloatArray,
    total: FloatArray,
    root: FloatArray,
    inverse_0: FloatArray,
    n_words: int,
    pull: FloatArray,
    square: FloatArray,
    matrix: FloatArray,
) -> None:
    """matrix (K, K, words) = D(F + C)D with D = diag ψ'(γ)^-½, below the diagonal and on it.

    C = (1 − c) / γ₀² times G centred in rows and columns by m.
    """
    n_topics = len(m)
    if is_quadratic:
        for j in range(n_words):
            square[j] = 0.0
        for k in range(n_topics):
            for j in range(n_words):
                pull[k, j] = 0.0
            for i in range(n_topics):
                for j in range(n_words):
                    pull[k, j] += table[k, i] * m[i, j]
            for j in range(n_words):
                square[j] += m[k, j] * pull[k, j]
    for i in range(n_topics):
        for k in range(i + 1):
            own = 1.0 if i == k else 0.0
            g = table[i, k] if is_quadratic else 0.0
            for j in range(n_words):
                likelihood = 0.0
                if is_quadratic:
                    likelihood = (1.0 - c[j]) * (g - pull[i, j] - pull[k, j] + square[j]) / (total[j] * total[j])
                matrix[i, k, j] = own + root[i, j] * root[k, j] * (likelihood - 1.0 / inverse_0[j])


@inner
def _solve(matrix: FloatArray, n_words: int, x: FloatArray) -> None:
    """x ← matrix⁻¹x for every word, by Cholesky in place. Pivots that rounding has eaten are kept above zero."""
    n_topics = len(x)
    for i in range(n_topics):
        for k in range(i):
            for q in range(k):
                for j in range(n_words):
                    matrix[i, k, j] -= matrix[i, q, j] * matrix[k, q, j]
            for j in range(n_words):
                matrix[i, k, j] /= matrix[k, k, j]
        for q in range(i):
            for j in range(n_words):
                matrix[i, i, j] -= matrix[i, q, j] * matrix[i, q, j]
        for j in range(n_words):
            matrix[i, i, j] = math.sqrt(max(matrix[i, i, j], 1e-13))
        for q in range(i):
            for j in range(n_words):
                x[i, j] -= matrix[i, q, j] * x[q, j]
        for j in range(n_words):
            x[i, j] /= matrix[i, i, j]
    for i in range(n_topics - 1, -1, -1):
        for q in range(i + 1, n_topics):
            for j in range(n_words):
                x[i, j] -= matrix[q, i, j] * x[q, j]
        for j in range(n_words):
            x[i, j] /= matrix[i, i, j]


@inner
def _move(gamma: FloatArray, step: FloatArray, rate: FloatArray, n_words: int, new: FloatArray) -> None:
    """A step times its rate, but down to no less than a part of what there was."""
    for k in range(len(gamma)):
        for j in range(n_words):
            new[k, j] = max(gamma[k, j] + rate[j] * step[k, j], MOST_DOWN * gamma[k, j], SMALLEST)


@inlined
def _better(new: float, old: float) -> bool:
    """Whether a bound did not fall, rounding apart; NaN is not better."""
    return new >= old - 1e-12 * abs(old)


@kernel
def local_step(
    code: int,
    table: FloatArray,
    constant: float,
    scores: FloatArray,
    a: FloatArray,
    segments: IntArray,
    steps: int,
    gamma: FloatArray,
    rates: FloatArray,
    means: FloatArray,
    gram: FloatArray,
    sum_log_z: FloatArray,
    bound: FloatArray,
) -> None:
    """`steps` Newton-like steps for γ of every word in the segments, each kept only if the word's bound rises.

    scores and means have a row for each word of these segments, gamma and rates for every word of the corpus. means
    becomes E[z], gram Σ E[zzᵀ], and for each segment sum_log_z Σ E[ln z] and bound Σ f + H − Σ_k E[ln z_k], so that
    the document's ln Γ(s) − Σ ln Γ(a_k) + a·E[ln z] completes the word's bound. Twin: twins_variational.local_step.
    """
    n_topics = gamma.shape[1]
    first_word = segments[0, 0]
    shape = (n_topics, BLOCK_WORDS)
    score, current, new = np.empty(shape), np.empty(shape), np.empty(shape)
    m, log_z, step = np.empty(shape), np.empty(shape), np.empty(shape)
    new_m, new_log_z, new_step = np.empty(shape), np.empty(shape), np.empty(shape)
    matrix = np.empty((n_topics, n_topics, BLOCK_WORDS))
    value, new_value, rate = np.empty(BLOCK_WORDS), np.empty(BLOCK_WORDS), np.empty(BLOCK_WORDS)
    work = np.empty((8 + 2 * n_topics, BLOCK_WORDS))
    log_lanes, bound_lanes = np.empty(shape), np.empty(BLOCK_WORDS)
    lanes = np.zeros((n_topics, n_topics, BLOCK_WORDS))
    for i in range(len(segments)):
        prior = a[segments[i, 2]]
        log_lanes[:] = 0.0
        bound_lanes[:] = 0.0
        for first in range(segments[i, 0], segments[i, 1], BLOCK_WORDS):
            n_words = min(BLOCK_WORDS, segments[i, 1] - first)
            load(scores, first - first_word, n_words, score)
            load(gamma, first, n_words, current)
            for j in range(n_words):
                rate[j] = rates[first + j]
            _evaluate(code, table, constant, score, prior, current, n_words, work, matrix, m, log_z, step, value)
            for _ in range(steps):
                _move(current, step, rate, n_words, new)
                _evaluate(
                    code,
                    table,
                    constant,
                    score,
                    prior,
                    new,
                    n_words,
                    work,
                    matrix,
                    new_m,
                    new_log_z,
                    new_step,
                    new_value,
                )
                for j in range(n_words):
                    better = _better(new_value[j], value[j])
                    value[j] = new_value[j] if better else value[j]
                    rate[j] = min(FASTER * rate[j], LARGEST_RATE) if better else SLOWER * rate[j]
                    work[0, j] = 1.0 if better else 0.0
                for k in range(n_topics):
                    for j in range(n_words):
                        keep = work[0, j] == 0.0
                        current[k, j] = current[k, j] if keep else new[k, j]
                        m[k, j] = m[k, j] if keep else new_m[k, j]
                        log_z[k, j] = log_z[k, j] if keep else new_log_z[k, j]
                        step[k, j] = step[k, j] if keep else new_step[k, j]
            for j in range(n_words):
                # A rate that has shrunk to nothing may have been a matter of rounding.
                rates[first + j] = max(rate[j], 1e-3)
                bound_lanes[j] += value[j]
            store(current, n_words, first, gamma)
            store(m, n_words, first - first_word, means)
            _add_second_moments(m, current, n_words, work[0], lanes)
            for k in range(n_topics):
                for j in range(n_words):
                    log_lanes[k, j] += log_z[k, j]
        total = bound_lanes.sum()
        for k in range(n_topics):
            sum_log_z[i, k] = log_lanes[k].sum()
            total -= prior[k] * sum_log_z[i, k]
        bound[i] = total
    for i in range(n_topics):
        for k in range(n_topics):
            gram[i, k] = lanes[max(i, k), min(i, k)].sum()


@inner
def _add_second_moments(m: FloatArray, gamma: FloatArray, n_words: int, c: FloatArray, lanes: FloatArray) -> None:
    """lanes += E[zzᵀ] = (1 − c) m mᵀ + c diag(m), below the diagonal and on it."""
    n_topics = len(m)
    for j in range(n_words):
        c[j] = 1.0
    for k in range(n_topics):
        for j in range(n_words):
            c[j] += gamma[k, j]
    for j in range(n_words):
        c[j] = 1.0 / c[j]
    for i in range(n_topics):
        for k in range(i + 1):
            extra = 1.0 if i == k else 0.0
            for j in range(n_words):
                lanes[i, k, j] += m[i, j] * ((1.0 - c[j]) * m[k, j] + c[j] * extra)
