"""Variational inference, the step that visits words. q(z_n) = Dir(γ_n), and a_d = s_d π_d is their document's.

f(γ) = E[z]·ℓ − E[A(Σ z_k η_k)] is the part of a word's bound that knows its features (kernels.variational_fit).
"""

import numpy as np

from pmlda.kernels.additive import additive_fit
from pmlda.kernels.arguments import Climb, DirichletBlock, FitBlock, LabelledPrior, LocalSums, LogPartition
from pmlda.kernels.jit import inlined, inner, kernel, total_of
from pmlda.kernels.labels import labelled_prior
from pmlda.kernels.log_partition import load, store
from pmlda.kernels.partition_blocks import count_words
from pmlda.kernels.special import LN_2, gamma_functions, log, shifted_gamma_functions, split
from pmlda.kernels.variational_documents import SMALLEST
from pmlda.kernels.variational_fit import other_fit, quadratic_fit
from pmlda.types import FloatArray, IntArray, Labels

# Words that are treated together: many short loops go over a block, and each costs something before its first word.
BLOCK_WORDS = 128
# Steps grow while they succeed, up to so many times the full one: between two nearly equal optima the bound is flat.
LARGEST_RATE, FASTER, SLOWER = 8.0, 1.5, 0.25
# A rate that has shrunk to nothing may have been a matter of rounding: the next visit starts from no less than this.
SMALLEST_RATE = 1e-3
# One step shrinks no γ to less than this part of it.
MOST_DOWN = 0.1
# A bound has not fallen if it is lower by no more than this part of it, which is rounding.
ROUNDING = 1e-12
# Pivots that rounding has eaten are kept above this part of the diagonal.
SMALLEST_PIVOT = 1e-13
# Rows of scratch that there is one of for all topics.
ROWS = 8


@inner
def _total_terms(gamma: FloatArray, n_words: int, work: FloatArray, value: FloatArray) -> None:
    """What depends on γ₀ alone: value begins as −ln Γ(γ₀), but for a logarithm that _evaluate adds."""
    per_total, c, digamma_0, trigamma_0, power, factor = work[0], work[1], work[4], work[5], work[6], work[7]
    for j in range(n_words):
        value[j] = gamma[0, j]
    for k in range(1, len(gamma)):
        for j in range(n_words):
            value[j] += gamma[k, j]
    for j in range(n_words):
        total = value[j]
        inverse = 1.0 / (total * (total + 1.0))
        per_total[j] = inverse * (total + 1.0)
        c[j] = inverse * total
        log_gamma, digamma_0[j], trigamma_0[j], _, per_p = shifted_gamma_functions(total)
        value[j] = -log_gamma
        power[j], factor[j] = split(per_p)


@inner
def _topic_terms(
    gamma: FloatArray,
    a: float,
    n_words: int,
    work: FloatArray,
    trigamma: FloatArray,
    m: FloatArray,
    log_z: FloatArray,
    value: FloatArray,
) -> None:
    """For one topic: ψ', E[z_k], E[ln z_k], and value += ln Γ(γ_k) + (a_k − γ_k) E[ln z_k], but for that logarithm."""
    per_total, digamma_0, power, factor = work[0], work[4], work[6], work[7]
    for j in range(n_words):
        log_gamma, digamma, trigamma[j], p, _ = shifted_gamma_functions(gamma[j])
        log_z[j] = digamma - digamma_0[j]
        m[j] = gamma[j] * per_total[j]
        value[j] += log_gamma + (a - gamma[j]) * log_z[j]
        e, factor[j] = split(factor[j] * p)
        power[j] += e


@inner
def _evaluate(
    log_partition: LogPartition,
    score: FloatArray,
    prior: LabelledPrior,
    q: DirichletBlock,
    row: int,
    n_words: int,
    wants_slopes: bool,
    work: FloatArray,
    matrix: FloatArray,
) -> None:
    """q.m, q.log_z and q.bound at q.gamma; in work and matrix what _direction needs besides, if slopes are wanted.

    score : (K, B); prior : of these words; row : of the first in counts; work : (ROWS + 3K, B) and matrix : (K, K, B)
    scratch
    """
    gamma_terms(prior.concentration, q, n_words, work)
    add_fit(log_partition, score, prior, q, row, n_words, wants_slopes, work, matrix)


@inner
def gamma_terms(a: FloatArray, q: DirichletBlock, n_words: int, work: FloatArray) -> None:
    """What depends on q.gamma, and on the prior's concentrations a, alone: q.m, q.log_z, and where q.bound begins."""
    trigamma = _by_topic(work, len(q.gamma))[0]
    _total_terms(q.gamma, n_words, work, q.bound)
    for k in range(len(q.gamma)):
        _topic_terms(q.gamma[k], a[k], n_words, work, trigamma[k], q.m[k], q.log_z[k], q.bound)


@inner
def add_fit(
    log_partition: LogPartition,
    score: FloatArray,
    prior: LabelledPrior,
    q: DirichletBlock,
    row: int,
    n_words: int,
    wants_slopes: bool,
    work: FloatArray,
    matrix: FloatArray,
) -> None:
    """q.bound after gamma_terms, whose work this is, and its slopes; arguments as in _evaluate."""
    gamma, bound = q.gamma, q.bound
    c, fit, slope_c, power, factor = work[1], work[2], work[3], work[6], work[7]
    _, slope, pull = _by_topic(work, len(gamma))
    _fit(
        log_partition.quadratic, log_partition.additive, log_partition.other, log_partition, score, q, row, n_words,
        wants_slopes, (work[4], work[5]), c, FitBlock(fit, slope_c, slope, pull), matrix,
    )  # fmt: skip
    # ln Γ of γ₀ and of every γ_k share one logarithm, of a product kept as 2^power · factor.
    for j in range(n_words):
        bound[j] += fit[j] - (power[j] * LN_2 + log(factor[j]))
    if prior.strength > 0.0:
        for j in range(n_words):
            _, digamma, _ = gamma_functions(_any_of(prior, gamma, j))
            bound[j] += prior.strength * (digamma - work[4, j])


@inner
def _fit(
    quadratic: bool | None,
    additive: bool | None,
    other: bool | None,
    log_partition: LogPartition,
    score: FloatArray,
    q: DirichletBlock,
    row: int,
    n_words: int,
    wants_slopes: bool,
    of_total: tuple[FloatArray, FloatArray],
    c: FloatArray,
    out: FitBlock,
    matrix: FloatArray,
) -> None:
    """What features say of words, by kind of A: the fit of q.m, its slopes, and matrix where A is not quadratic."""
    if quadratic is not None:
        quadratic_fit(log_partition.table, score, q.m, c, n_words, out)
    if additive is not None:
        additive_fit(log_partition, score, q, row, n_words, of_total, out)
        for i in range(len(matrix)):  # the counts of a word bend f, not A: its step has F alone
            for k in range(len(matrix)):
                for j in range(n_words):
                    matrix[i, k, j] = 0.0
    if other is not None:
        other_fit(log_partition, score, q.m, c, n_words, wants_slopes, out, matrix)


@inlined
def _any_of(prior: LabelledPrior, gamma: FloatArray, j: int) -> float:
    """Σ γ_k of the topics that word j may be. E[ln Σ z_k] over them is ψ of this − ψ(γ₀)."""
    total = 0.0
    for k in range(len(gamma)):
        total += prior.any_of[k] * gamma[k, j]
    return total


@inlined
def _by_topic(work: FloatArray, n_topics: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The rows of work that there is one of for each topic: ψ', ∂f/∂m, and Gm or ∂f/∂γ, as FitBlock has them."""
    first, second = ROWS + n_topics, ROWS + 2 * n_topics
    return work[ROWS:first], work[first:second], work[second : second + n_topics]


@inner
def _direction(
    log_partition: LogPartition,
    prior: LabelledPrior,
    q: DirichletBlock,
    n_words: int,
    work: FloatArray,
    matrix: FloatArray,
    step: FloatArray,
) -> None:
    """The step (F + C)⁻¹∇ that leads towards the maximum of each word's bound, after _evaluate of the same q and work.

    F = diag ψ'(γ) − ψ'(γ₀) 11ᵀ is the curvature of what Dirichlets contribute (the natural gradient has F alone), and C
    that of the likelihood along m, for words that some topics pin down far more tightly than others. docs/model.md
    derives both. step : (K, B); matrix : (K, K, B) as _evaluate left it, overwritten
    """
    gamma, m, a = q.gamma, q.m, prior.concentration
    n_topics = len(gamma)
    per_total, c, slope_c, trigamma_0 = work[0], work[1], work[3], work[5]
    common, mean_slope = work[2], work[4]
    trigamma, slope, along_gamma = _by_topic(work, n_topics)
    for j in range(n_words):
        common[j] = 0.0
        mean_slope[j] = 0.0
    for k in range(n_topics):
        for j in range(n_words):
            common[j] += a[k] - gamma[k, j]
            mean_slope[j] += m[k, j] * slope[k, j]
    # ∂f/∂γ_k = (∂f/∂m_k − m·∂f/∂m) / γ₀ − c² ∂f/∂c, and F(a − γ) from the rest.
    for j in range(n_words):
        common[j] = c[j] * c[j] * slope_c[j] + common[j] * trigamma_0[j] + mean_slope[j] * per_total[j]
    for k in range(n_topics):
        for j in range(n_words):
            step[k, j] = slope[k, j] * per_total[j] - common[j] + trigamma[k, j] * (a[k] - gamma[k, j])
    if log_partition.additive:
        for k in range(n_topics):
            for j in range(n_words):
                step[k, j] += along_gamma[k, j]
    if prior.strength > 0.0:
        for j in range(n_words):
            _, _, trigamma_any = gamma_functions(_any_of(prior, gamma, j))
            for k in range(n_topics):
                step[k, j] += prior.strength * (prior.any_of[k] * trigamma_any - trigamma_0[j])
    _curvature(log_partition.quadratic, log_partition.table, m, n_words, work, matrix)
    _solve(matrix, trigamma, n_words, step)


@inner
def _curvature(
    quadratic: bool | None, table: FloatArray, m: FloatArray, n_words: int, work: FloatArray, matrix: FloatArray
) -> None:
    """matrix (K, K, words) = F + C, below the diagonal and on it. C = (1 − c) / γ₀² times G centred by m both ways.

    G is the table where A is quadratic; elsewhere ηᵀ∇²A η at m, which matrix holds to begin with.
    """
    n_topics = len(m)
    per_total, c, square, weight, trigamma_0 = work[0], work[1], work[2], work[4], work[5]
    trigamma, _, pull = _by_topic(work, n_topics)
    if quadratic is None:
        _multiply(matrix, m, n_words, pull)
    for j in range(n_words):
        square[j] = 0.0
        weight[j] = (1.0 - c[j]) * per_total[j] * per_total[j]
    for k in range(n_topics):
        for j in range(n_words):
            square[j] += m[k, j] * pull[k, j]
    for i in range(n_topics):
        for k in range(i + 1):
            if quadratic is not None:
                for j in range(n_words):
                    centred = table[i, k] - pull[i, j] - pull[k, j] + square[j]
                    matrix[i, k, j] = weight[j] * centred - trigamma_0[j]
            else:
                for j in range(n_words):
                    centred = matrix[i, k, j] - pull[i, j] - pull[k, j] + square[j]
                    matrix[i, k, j] = weight[j] * centred - trigamma_0[j]
        for j in range(n_words):
            matrix[i, i, j] += trigamma[i, j]


@inner
def _multiply(matrix: FloatArray, m: FloatArray, n_words: int, out: FloatArray) -> None:
    """out (K, B) = Gm for every word, from the lower triangles of G (K, K, B)."""
    n_topics = len(m)
    for k in range(n_topics):
        for j in range(n_words):
            out[k, j] = 0.0
        for i in range(n_topics):
            for j in range(n_words):
                out[k, j] += matrix[max(i, k), min(i, k), j] * m[i, j]


@inner
def _solve(matrix: FloatArray, diagonal: FloatArray, n_words: int, x: FloatArray) -> None:
    """x ← matrix⁻¹x for every word, in place, by LDLᵀ, which is stable for entries that differ by a factor of 10²⁰."""
    n_topics = len(x)
    for k in range(n_topics):
        pivot, x_k = matrix[k, k], x[k]
        for j in range(n_words):
            pivot[j] = 1.0 / max(pivot[j], SMALLEST_PIVOT * diagonal[k, j])
        for i in range(k + 1, n_topics):
            # Above the diagonal L, below it L·D, which later rows still need.
            factor, below, x_i = matrix[k, i], matrix[i, k], x[i]
            for j in range(n_words):
                factor[j] = below[j] * pivot[j]
                x_i[j] -= factor[j] * x_k[j]
            for q in range(k + 1, i + 1):
                _subtract(matrix[q, k], factor, n_words, matrix[i, q])
        for j in range(n_words):
            x_k[j] *= pivot[j]
    for i in range(n_topics - 2, -1, -1):
        for k in range(i + 1, n_topics):
            _subtract(matrix[i, k], x[k], n_words, x[i])


@inlined
def _subtract(first: FloatArray, second: FloatArray, n_words: int, out: FloatArray) -> None:
    """out −= first · second."""
    for j in range(n_words):
        out[j] -= first[j] * second[j]


@inner
def _move(gamma: FloatArray, step: FloatArray, rate: FloatArray, n_words: int, new: FloatArray) -> None:
    """A step times its rate, but down to no less than a part of what there was."""
    for k in range(len(gamma)):
        for j in range(n_words):
            new[k, j] = max(gamma[k, j] + rate[j] * step[k, j], MOST_DOWN * gamma[k, j], SMALLEST)


@inlined
def _better(new: float, old: float) -> bool:
    """Whether a bound did not fall, rounding apart; NaN is not better."""
    return new >= old - ROUNDING * abs(old)


@inner
def _take_risen(risen: FloatArray, new: FloatArray, n_words: int, old: FloatArray) -> None:
    """old becomes new for words whose bound has risen."""
    for k in range(len(old)):
        for j in range(n_words):
            old[k, j] = new[k, j] if risen[j] == 1.0 else old[k, j]


@inner
def _take_better(new: DirichletBlock, n_words: int, old: DirichletBlock, rate: FloatArray, risen: FloatArray) -> None:
    """old becomes new for words whose bound has risen, for which risen is then 1; rates (B,) follow."""
    for j in range(n_words):
        better = _better(new.bound[j], old.bound[j])
        old.bound[j] = new.bound[j] if better else old.bound[j]
        rate[j] = min(FASTER * rate[j], LARGEST_RATE) if better else SLOWER * rate[j]
        risen[j] = 1.0 if better else 0.0
    _take_risen(risen, new.gamma, n_words, old.gamma)
    _take_risen(risen, new.m, n_words, old.m)
    _take_risen(risen, new.log_z, n_words, old.log_z)


@inner
def climb(
    log_partition: LogPartition,
    score: FloatArray,
    prior: LabelledPrior,
    now: DirichletBlock,
    new: DirichletBlock,
    row: int,
    n_words: int,
    steps: int,
    work: FloatArray,
    matrix: FloatArray,
    room: Climb,
) -> None:
    """`steps` steps from `now`, which has been evaluated with slopes, each kept where it raises a word's bound."""
    if steps > 0:
        _direction(log_partition, prior, now, n_words, work, matrix, room.step)
    for number in range(steps):
        _move(now.gamma, room.step, room.rate, n_words, new.gamma)
        _evaluate(log_partition, score, prior, new, row, n_words, number + 1 < steps, work, matrix)
        _take_better(new, n_words, now, room.rate, room.risen)
        if number + 1 < steps:
            _direction(log_partition, prior, new, n_words, work, matrix, room.new_step)
            _take_risen(room.risen, room.new_step, n_words, room.step)


@kernel
def local_step(
    log_partition: LogPartition,
    scores: FloatArray,
    a: FloatArray,
    segments: IntArray,
    labels: Labels,
    steps: int,
    gamma: FloatArray,
    rates: FloatArray,
    out: LocalSums,
) -> None:
    """`steps` Newton-like steps for γ of every word in the segments, each kept only if the word's bound rises.

    gamma (N, K) and rates (N,) are updated in place. a : (D, K); segments : (M, 4) as in Places; scores has a row for
    each word of the segments, and so has log_partition.counts. The document's ln Γ(s) − Σ ln Γ(a_k) + a·E[ln z]
    completes out.bound to the words' bound: labels are part of it, and documents know nothing of them.
    Twin: tests.twins.variational.local_step.
    """
    n_topics = gamma.shape[1]
    first_word = segments[0, 0]
    n_most = BLOCK_WORDS if log_partition.quadratic else count_words(log_partition.table.shape[1])
    shape = (n_topics, BLOCK_WORDS)
    now = DirichletBlock(np.empty(shape), np.empty(shape), np.empty(shape), np.empty(BLOCK_WORDS))
    new = DirichletBlock(np.empty(shape), np.empty(shape), np.empty(shape), np.empty(BLOCK_WORDS))
    score, step, new_step = np.empty(shape), np.empty(shape), np.empty(shape)
    rate, risen = np.empty(BLOCK_WORDS), np.empty(BLOCK_WORDS)
    matrix, work = np.empty((n_topics, n_topics, BLOCK_WORDS)), np.empty((ROWS + 3 * n_topics, BLOCK_WORDS))
    log_lanes, bound_lanes = np.empty(shape), np.empty(BLOCK_WORDS)
    lanes = np.zeros((n_topics, n_topics, BLOCK_WORDS))
    for i in range(len(segments)):
        of_document = a[segments[i, 2]]
        prior = labelled_prior(of_document, labels, segments[i, 3])
        for j in range(BLOCK_WORDS):
            bound_lanes[j] = 0.0
            for k in range(n_topics):
                log_lanes[k, j] = 0.0
        for first in range(segments[i, 0], segments[i, 1], n_most):
            n_words = min(n_most, segments[i, 1] - first)
            load(scores, first - first_word, n_words, score)
            load(gamma, first, n_words, now.gamma)
            for j in range(n_words):
                rate[j] = rates[first + j]
            _evaluate(log_partition, score, prior, now, first - first_word, n_words, steps > 0, work, matrix)
            climb(
                log_partition, score, prior, now, new, first - first_word, n_words, steps, work, matrix,
                Climb(step, new_step, rate, risen),
            )  # fmt: skip
            for j in range(n_words):
                rates[first + j] = max(rate[j], SMALLEST_RATE)
                bound_lanes[j] += now.bound[j]
            store(now.gamma, n_words, first, gamma)
            store(now.m, n_words, first - first_word, out.means)
            _add_second_moments(now.m, now.gamma, n_words, work[0], lanes)
            for k in range(n_topics):
                for j in range(n_words):
                    log_lanes[k, j] += now.log_z[k, j]
        total = total_of(bound_lanes)
        for k in range(n_topics):
            out.sum_log_z[i, k] = total_of(log_lanes[k])
            total -= of_document[k] * out.sum_log_z[i, k]
        out.bound[i] = total
    for i in range(n_topics):
        for k in range(n_topics):
            out.gram[i, k] = total_of(lanes[max(i, k), min(i, k)])


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
