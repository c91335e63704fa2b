"""Variational inference, the end: posterior means and standard deviations of words, better than those of q.

Topic by topic. Given z_k, the other topics share 1 − z_k as q has it, Dir(γ without γ_k), which does not depend on z_k.
The density of z_k is then that of its prior, Beta(a_k, Σa − a_k), times e^φ with φ = E[z·ℓ − A | z_k], a function of
one variable, and is integrated numerically. For two topics this is the posterior itself.
"""

import math

import numpy as np

from pmlda.kernels.additive import additive_line
from pmlda.kernels.arguments import FaceBlock, LabelledPrior, LineBlock, LogPartition, MomentBlock
from pmlda.kernels.jit import inner, kernel
from pmlda.kernels.labels import labelled_prior
from pmlda.kernels.log_partition import BLOCK_WORDS, load, log_partition_at
from pmlda.kernels.special import exp, log
from pmlda.types import FloatArray, IntArray, Labels

# Nodes of the trapezoidal rule in ln z − ln(1 − z), over so many standard deviations of q on either side. The rule is
# very accurate for smooth bumps: against thousands of nodes, means differ by 0.001 and deviations by 1 %.
NODES, REACH = 12, 4.5
# Poles of the prior, z^(a − 1), reach to where the rest of the density has changed by this part, or to LONGEST_POLE:
# nodes cannot resolve them, but there is a formula.
POLE, LONGEST_POLE = 0.4, 0.15
# Nodes span at least this much, also where q sits in a pole.
SHORTEST_SPAN = 1.0
# Other topics that follow z_k at most double its variance.
MOST_GAIN = 0.5
TINY = 1e-300


@inner
def _leave_out(gamma: FloatArray, k: int, n_words: int, face: FaceBlock) -> None:
    """The sum of γ without topic k, added up so that it keeps its digits, and shares of it."""
    for j in range(n_words):
        face.total[j] = TINY
    for i in range(len(gamma)):
        if i != k:
            for j in range(n_words):
                face.total[j] += gamma[i, j]
    for i in range(len(gamma)):
        for j in range(n_words):
            face.shares[i, j] = gamma[i, j] / face.total[j] if i != k else 0.0


@inner
def _quadratic_line(table: FloatArray, score: FloatArray, k: int, n_words: int, line: LineBlock) -> None:
    """line.slope and bend where A is quadratic; face.pull = Gu. The moments of u are those of a Dirichlet."""
    n_topics = len(table)
    total, shares, pull = line.face.total, line.face.shares, line.face.pull
    for i in range(n_topics):
        for j in range(n_words):
            pull[i, j] = 0.0
        for o in range(n_topics):
            for j in range(n_words):
                pull[i, j] += table[i, o] * shares[o, j]
    for j in range(n_words):
        line.slope[j] = 0.0  # −E[u·ℓ]
        line.bend[j] = 0.0  # uᵀGu
        line.start[j] = 0.0  # u·g
    for i in range(n_topics):
        for j in range(n_words):
            line.slope[j] -= shares[i, j] * score[i, j]
            line.bend[j] += shares[i, j] * pull[i, j]
            line.start[j] += shares[i, j] * table[i, i]
    for j in range(n_words):
        c = 1.0 / (total[j] + 1.0)
        square = (1.0 - c) * line.bend[j] + c * line.start[j]
        line.slope[j] += score[k, j] - pull[k, j] + square
        line.bend[j] = table[k, k] - 2.0 * pull[k, j] + square


@inner
def _place_nodes(gamma: FloatArray, a: float, b: float, n_words: int, line: LineBlock) -> None:
    """Where poles end and nodes lie, from slopes and bend, q = Beta(gamma, total) and the prior Beta(a, b)."""
    log_a, log_b = math.log(a), math.log(b)
    total = line.face.total
    for j in range(n_words):
        # Slopes of the logarithm of what multiplies a pole, seen from either end.
        rise = line.slope[j] - b + 1.0
        fall = line.bend[j] - line.slope[j] - a + 1.0
        root = math.sqrt(max(line.bend[j], 0.0))
        # The label bends so much more than the rest that their slopes may not cancel.
        low = min(POLE / (1.0 + abs(rise) + line.label_rise[j] + root + a), LONGEST_POLE)
        high = min(POLE / (1.0 + abs(fall) + line.label_drop[j] + root + b), LONGEST_POLE)
        rise += line.label_rise[j]
        fall -= line.label_drop[j]
        log_low, log_high = log(low), log(high)
        first, last = log_low - log(1.0 - low), log(1.0 - high) - log_high
        per_gamma, per_total = 1.0 / gamma[j], 1.0 / total[j]
        middle = log((gamma[j] + 0.5) / (total[j] + 0.5)) - per_gamma + per_total  # ≈ ψ(γ_k) − ψ(rest)
        variance = per_gamma * per_gamma + 1.0 / (gamma[j] + 0.5) + per_total * per_total + 1.0 / (total[j] + 0.5)
        reach = REACH * math.sqrt(variance)
        start = max(min(middle - reach, last - SHORTEST_SPAN), first)
        end = min(max(middle + reach, first + SHORTEST_SPAN), last)
        line.low[j], line.high[j] = low, high
        line.start[j], line.step[j] = start, (end - start) / (NODES - 1)
        # ∫ z^(a − 1) (1 + rise·z) dz from 0 to low.
        line.low_weight[j] = a * log_low - log_a + a * rise * low / (1.0 + a)
        line.high_weight[j] = b * log_high - log_b + b * fall * high / (1.0 + b) + line.slope[j] - 0.5 * line.bend[j]


@inner
def _weigh_prior(a: float, b: float, n_words: int, line: LineBlock) -> None:
    """z of every node, and log_weight = a ln z + b ln(1 − z). The odds of nodes form a geometric series."""
    odds, ratio = line.z[NODES], line.log_weight[NODES]
    for j in range(n_words):
        odds[j] = exp(line.start[j])
        ratio[j] = exp(line.step[j])
    for i in range(NODES):
        for j in range(n_words):
            above = 1.0 + odds[j]
            line.z[i, j] = odds[j] / above
            line.log_weight[i, j] = a * (line.start[j] + i * line.step[j]) - (a + b) * log(above)
            odds[j] *= ratio[j]


@inner
def _weigh_quadratic(n_words: int, line: LineBlock) -> None:
    """log_weight += φ."""
    for i in range(NODES):
        for j in range(n_words):
            z = line.z[i, j]
            line.log_weight[i, j] += z * (line.slope[j] - 0.5 * line.bend[j] * z)


@inner
def _fit_on_line(
    log_partition: LogPartition, step: float, k: int, z: float, shares: FloatArray, point: FloatArray, eta: FloatArray
) -> float:
    """step·z − A at z_k = z and the others' mean shares; where A is not quadratic, for one word."""
    for i in range(len(shares)):
        point[i] = (1.0 - z) * shares[i]
    point[k] = z
    code, table, constant = log_partition.code, log_partition.table, log_partition.constant
    return step * z - log_partition_at(code, table, constant, point, eta)


@inner
def _other_line(log_partition: LogPartition, score: FloatArray, k: int, n_words: int, line: LineBlock) -> None:
    """line.slope and bend of the parabola through φ at 0, ½ and 1, where A is not quadratic.

    face.pull[0] = E[u·(ℓ_k − ℓ)], [1] = φ(0) of the others' mean shares, [2] = what their spread adds to A at z_k = 0,
    by E[A] = (1 − c) A(u) + c Σ u_i A(corner i), which is exact for quadratic A
    """
    face, corners = line.face, line.face.corners
    n_topics = len(corners)
    step, base, spread = face.pull[0], face.pull[1], face.pull[2]
    point, eta = np.empty(n_topics), np.empty(log_partition.table.shape[1])
    for j in range(n_words):
        shares = face.shares[:, j]
        step[j] = 0.0
        chord = 0.0
        for i in range(n_topics):
            step[j] += shares[i] * (score[k, j] - score[i, j])
            chord += shares[i] * corners[i]
        base[j] = _fit_on_line(log_partition, step[j], k, 0.0, shares, point, eta)
        spread[j] = (chord + base[j]) / (face.total[j] + 1.0)
        middle = _fit_on_line(log_partition, step[j], k, 0.5, shares, point, eta) - base[j] + 0.75 * spread[j]
        end = step[j] - corners[k] - base[j] + spread[j]
        line.slope[j] = 4.0 * middle - end
        line.bend[j] = 8.0 * middle - 4.0 * end


@inner
def _weigh_other(log_partition: LogPartition, k: int, n_words: int, line: LineBlock) -> None:
    """log_weight += φ, after _other_line."""
    face = line.face
    point, eta = np.empty(len(face.shares)), np.empty(log_partition.table.shape[1])
    for j in range(n_words):
        shares, step, base, spread = face.shares[:, j], face.pull[0, j], face.pull[1, j], face.pull[2, j]
        for i in range(NODES):
            z = line.z[i, j]
            fit = _fit_on_line(log_partition, step, k, z, shares, point, eta) - base
            line.log_weight[i, j] += fit + spread * z * (2.0 - z)


@inner
def _label_line(prior: LabelledPrior, k: int, n_words: int, line: LineBlock) -> float:
    """line.label, label_rise and label_drop, and the strength with which the label says "k or another".

    Its probability is then (z + (1 − z) u)^strength, with u what the others that it may be share of the rest.
    """
    shares, others = line.face.shares, 0.0
    for i in range(len(shares)):
        others += prior.any_of[i] if i != k else 0.0
    strength = prior.strength if prior.any_of[k] > 0.0 and others > 0.0 else 0.0
    for j in range(n_words):
        line.label[j] = 1.0
        if strength > 0.0:
            line.label[j] = TINY
            for i in range(len(shares)):
                line.label[j] += prior.any_of[i] * shares[i, j]  # that of k itself is zero
        line.label_rise[j] = strength * (1.0 - line.label[j]) / line.label[j]
        line.label_drop[j] = strength * (1.0 - line.label[j])
    return strength


@inner
def _weigh_label(strength: float, n_words: int, line: LineBlock) -> None:
    """log_weight += strength · ln(z + (1 − z) u); poles have its slopes already, and lack its value at z = 0."""
    for i in range(NODES):
        for j in range(n_words):
            z = line.z[i, j]
            line.log_weight[i, j] += strength * log(z + (1.0 - z) * line.label[j])
    for j in range(n_words):
        line.low_weight[j] += strength * log(line.label[j])


@inner
def _integrate(a: float, b: float, n_words: int, line: LineBlock, mean: FloatArray, variance: FloatArray) -> None:
    """Mean and variance of z_k; nodes at both ends count half. Of the line, only slope, bend and face stay."""
    top, low_weight, high_weight, weight = line.start, line.low_weight, line.high_weight, line.log_weight
    for j in range(n_words):
        top[j] = max(low_weight[j], high_weight[j])
    for i in range(NODES):
        for j in range(n_words):
            top[j] = max(top[j], weight[i, j])
    for j in range(n_words):
        low_weight[j] = exp(low_weight[j] - top[j])
        high_weight[j] = exp(high_weight[j] - top[j])
        variance[j] = low_weight[j] + high_weight[j]  # the sum of all weights, for now
        mean[j] = low_weight[j] * line.low[j] * a / (1.0 + a) + high_weight[j] * (1.0 - line.high[j] * b / (1.0 + b))
    for i in range(NODES):
        share = 0.5 if i in (0, NODES - 1) else 1.0
        for j in range(n_words):
            weight[i, j] = share * line.step[j] * exp(weight[i, j] - top[j])
            variance[j] += weight[i, j]
            mean[j] += weight[i, j] * line.z[i, j]
    for j in range(n_words):
        per_total = 1.0 / variance[j]
        mean[j] *= per_total
        from_low, from_high = mean[j] - line.low[j] * a / (1.0 + a), 1.0 - line.high[j] * b / (1.0 + b) - mean[j]
        # Besides, a pole has a variance of its own.
        own_low = line.low[j] * line.low[j] * a / ((a + 2.0) * (a + 1.0) * (a + 1.0))
        own_high = line.high[j] * line.high[j] * b / ((b + 2.0) * (b + 1.0) * (b + 1.0))
        variance[j] = low_weight[j] * (from_low * from_low + own_low)
        variance[j] += high_weight[j] * (from_high * from_high + own_high)
        variance[j] *= per_total
        line.step[j] = per_total
    for i in range(NODES):
        for j in range(n_words):
            off = line.z[i, j] - mean[j]
            variance[j] += weight[i, j] * line.step[j] * off * off


@inner
def _let_others_follow(
    table: FloatArray,
    score: FloatArray,
    k: int,
    n_words: int,
    line: LineBlock,
    mean: FloatArray,
    variance: FloatArray,
) -> None:
    """variance /= 1 − κ variance: the bend that remains after the other topics have followed z_k is smaller by κ.

    How the slope along u changes with z_k is D; the best step from u along v = Cov(u) D gains
    κ = (D·v)² / (D·v + (1 − z_k)² vᵀGv). The line and face.pull are overwritten.
    """
    n_topics = len(table)
    total, shares, pull = line.face.total, line.face.shares, line.face.pull
    gain, bent, centre = line.slope, line.bend, line.start
    for j in range(n_words):
        centre[j] = 0.0
        gain[j] = 0.0
        bent[j] = 0.0
    for i in range(n_topics):
        for j in range(n_words):
            z = mean[j]
            pull[i, j] = (2.0 * z - 1.0) * table[k, i] + 2.0 * (1.0 - z) * pull[i, j] - score[i, j]
            centre[j] += shares[i, j] * pull[i, j]
    for i in range(n_topics):
        for j in range(n_words):
            off = pull[i, j] - centre[j]
            gain[j] += shares[i, j] * off * off
            pull[i, j] = shares[i, j] * off
    for i in range(n_topics):
        for o in range(i + 1):
            g = 2.0 * table[i, o] if o < i else table[i, i]
            for j in range(n_words):
                bent[j] += g * pull[i, j] * pull[o, j]
    for j in range(n_words):
        c = 1.0 / (total[j] + 1.0)
        rest = 1.0 - mean[j]
        along = c * gain[j]
        curved = along + rest * rest * c * c * max(bent[j], 0.0)
        kappa = along * along / (curved + TINY)
        variance[j] /= 1.0 - min(kappa * variance[j], MOST_GAIN)


@inner
def _store_moments(moments: MomentBlock, n_words: int, first: int, means: FloatArray, std: FloatArray) -> None:
    """Rows of means, made to add up to one, and of standard deviations, no larger than such means allow."""
    mean, variance = moments
    for j in range(n_words):
        total = 0.0
        for k in range(len(mean)):
            total += mean[k, j]
        for k in range(len(mean)):
            m = mean[k, j] / total
            means[first + j, k] = m
            std[first + j, k] = math.sqrt(max(min(variance[k, j], m * (1.0 - m)), 0.0))


@inner
def _line_moments(
    quadratic: bool | None,
    additive: bool | None,
    other: bool | None,
    log_partition: LogPartition,
    score: FloatArray,
    prior: LabelledPrior,
    gamma: FloatArray,
    k: int,
    row: int,
    n_words: int,
    line: LineBlock,
    out: MomentBlock,
) -> None:
    """Mean and variance of z_k, for a block of words. score and gamma : (K, B); row : of the first in counts"""
    n_topics = len(prior.concentration)
    a, b = prior.concentration[k], TINY
    for i in range(n_topics):
        b += prior.concentration[i] if i != k else 0.0
    _leave_out(gamma, k, n_words, line.face)
    strength = _label_line(prior, k, n_words, line)
    if strength == 0.0:  # "one of these" is z_k, if that is all it may be, or 1 − z_k times what others share
        a += prior.strength * prior.any_of[k]
        b += prior.strength * (1.0 - prior.any_of[k])
    if quadratic is not None:
        _quadratic_line(log_partition.table, score, k, n_words, line)
    if additive is not None:
        additive_line(log_partition, score, k, row, n_words, 0, line)
    if other is not None:
        _other_line(log_partition, score, k, n_words, line)
    _place_nodes(gamma[k], a, b, n_words, line)
    _weigh_prior(a, b, n_words, line)
    if quadratic is not None:
        _weigh_quadratic(n_words, line)
    if additive is not None:
        additive_line(log_partition, score, k, row, n_words, NODES, line)
    if other is not None:
        _weigh_other(log_partition, k, n_words, line)
    if strength > 0.0:
        _weigh_label(strength, n_words, line)
    _integrate(a, b, n_words, line, out.mean[k], out.variance[k])
    if quadratic is not None:  # noqa: SIM102 (numba drops no branch on "and")
        if n_topics > 2:
            _let_others_follow(log_partition.table, score, k, n_words, line, out.mean[k], out.variance[k])


@inner
def _make_line(other: bool | None, log_partition: LogPartition) -> LineBlock:
    """Room for a line, with A at the corners where it is not quadratic."""
    n_topics, q = log_partition.table.shape
    corners, pure, eta = np.zeros(n_topics), np.empty(n_topics), np.empty(q)
    if other is not None:
        for k in range(n_topics):
            for i in range(n_topics):
                pure[i] = 1.0 if i == k else 0.0
            code, table, constant = log_partition.code, log_partition.table, log_partition.constant
            corners[k] = log_partition_at(code, table, constant, pure, eta)
    rows, n = np.empty((11, BLOCK_WORDS)), max(n_topics, 3)
    nodes, weights = np.empty((NODES + 1, BLOCK_WORDS)), np.empty((NODES + 1, BLOCK_WORDS))
    shares, pull = np.empty((n_topics, BLOCK_WORDS)), np.empty((n, BLOCK_WORDS))
    face = FaceBlock(np.empty(BLOCK_WORDS), shares, pull, corners)
    return LineBlock(
        face, rows[0], rows[1], rows[2], rows[3], rows[4], rows[5], nodes, weights, rows[6], rows[7],
        rows[8], rows[9], rows[10],
    )  # fmt: skip


@kernel
def posterior_moments(
    log_partition: LogPartition,
    scores: FloatArray,
    a: FloatArray,
    segments: IntArray,
    labels: Labels,
    gamma: FloatArray,
    means: FloatArray,
    std: FloatArray,
) -> None:
    """means and std = mean and standard deviation of every membership of the words in the segments.

    a : (D, K); segments : (M, 4) as in Places; gamma : (N, K); scores, means and std have a row for each word of the
    segments. docs/model.md derives the formulas. Twin: tests.twins.variational.posterior_moments.
    """
    n_topics = gamma.shape[1]
    if n_topics == 1:
        for n in range(len(means)):
            means[n, 0] = 1.0
            std[n, 0] = 0.0
        return
    first_word = segments[0, 0]
    shape = (n_topics, BLOCK_WORDS)
    score, current, moments = np.empty(shape), np.empty(shape), MomentBlock(np.empty(shape), np.empty(shape))
    line = _make_line(log_partition.other, log_partition)
    for i in range(len(segments)):
        prior = labelled_prior(a[segments[i, 2]], labels, segments[i, 3])
        for first in range(segments[i, 0], segments[i, 1], BLOCK_WORDS):
            n_words = min(BLOCK_WORDS, segments[i, 1] - first)
            load(scores, first - first_word, n_words, score)
            load(gamma, first, n_words, current)
            for k in range(n_topics):
                _line_moments(
                    log_partition.quadratic, log_partition.additive, log_partition.other, log_partition, score, prior,
                    current, k, first - first_word, n_words, line, moments,
                )  # fmt: skip
            _store_moments(moments, n_words, first - first_word, means, std)
