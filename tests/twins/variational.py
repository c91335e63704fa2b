"""The kernels of engine "variational" in plain NumPy, with the same arguments, as in tests.twins.paper.

An average over Dir(γ) is a weighted sum over a few points. Weights and points are rational functions of γ, so their
slopes come from a complex step, exact to rounding, and are not derived a second time.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, expit, gammaln, logit, polygamma, softmax

from pmlda.kernels.arguments import ADDITIVE, DocumentPrior, DocumentRange, LocalSums, LogPartition
from pmlda.kernels.variational import FASTER, LARGEST_RATE, MOST_DOWN, ROUNDING, SLOWER, SMALLEST_RATE
from pmlda.kernels.variational_documents import (
    LEAST_CURVATURE,
    LEAST_DENOMINATOR,
    LEAST_GAIN,
    LONGEST_STEP,
    MOST_TRIALS,
    SHORTER,
    SMALLEST,
    SMALLEST_CURVATURE,
)
from pmlda.kernels.variational_moments import LONGEST_POLE, MOST_GAIN, NODES, POLE, REACH, SHORTEST_SPAN
from pmlda.types import Fixed, FloatArray, IntArray, Labels
from tests.twins.additive import fits_of_logs, gradient_of_logs, line_logs
from tests.twins.counts import take
from tests.twins.labels import expected_label, label_slopes, log_label, row_of
from tests.twins.paper import log_partitions

# For complex steps: f(x + ih) = f(x) + ih f'(x), without the cancellation of a difference.
TINY = 1e-100


def gamma_functions(x: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """ln Γ(x), ψ(x), ψ'(x)."""
    return gammaln(x), digamma(x), polygamma(1, x)


def rule(gamma: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """(N, P, K) points and (N, P) weights for averages over Dir(γ_n): m, and four points towards every corner."""
    n_topics, n = gamma.shape[1], gamma.sum(axis=1)
    m = gamma / n[:, None]
    points, weights = [m], [np.full(len(m), 2.0 - n_topics)]
    for k, corner in enumerate(np.eye(n_topics)):
        others = m * (1.0 - corner)
        rest = others.sum(axis=1)
        # z_k is Beta(γ_k, γ₀ − γ_k). To E[z_k(1 − z_k) f] the ends contribute nothing, and it is an average of f over
        # Beta(γ_k + 1, γ₀ − γ_k + 1), whose Gauss rule has the roots of its second Jacobi polynomial; E[1] and E[z_k]
        # give the ends their weights.
        first, second = gamma[:, k] + 1.0, n - gamma[:, k] + 1.0
        both = first + second
        linear, constant = (first + 1.0) / (both + 2.0), first * (first + 1.0) / ((both + 1.0) * (both + 2.0))
        off = np.sqrt(linear**2 - constant)
        x, y = linear - off, linear + off
        of_y = (first / both - x) / (y - x)
        between = m[:, k] * rest * n / (n + 1.0)
        at_x, at_y = between * (1.0 - of_y) / (x * (1.0 - x)), between * of_y / (y * (1.0 - y))
        one = m[:, k] - at_x * x - at_y * y
        for z, weight in ((0.0 * x, 1.0 - at_x - at_y - one), (x, at_x), (y, at_y), (x / x, one)):
            points.append(z[:, None] * corner + (1.0 - z)[:, None] * others / rest[:, None])
            weights.append(rest * weight)
    return np.stack(points, axis=1), np.stack(weights, axis=1)


def mean_statistics(log_partition: LogPartition, z: FloatArray) -> FloatArray:
    """(N, q) ∇A at Σ_k z_nk η_k, the mean of T there. Not for code 0, where η is not in the table."""
    code, table, constant = log_partition.code, log_partition.table, log_partition.constant
    eta = z @ table
    p = round((math.sqrt(1 + 4 * eta.shape[1]) - 1) / 2) if code == 6 else eta.shape[1] // 2
    first, precision = eta[:, :p], eta[:, p:]
    if code == 1:
        return np.exp(eta)
    if code == 2:
        return np.asarray(expit(eta))
    if code == 3:
        return -constant / eta
    if code == 4:
        return np.asarray(softmax(eta, axis=1))
    if code == 5:
        centre = first / precision
        return np.hstack([centre, -0.5 * (centre**2 + 1.0 / precision)])
    covariances = np.linalg.inv(precision.reshape(-1, p, p))
    centre = np.einsum("nij,nj->ni", covariances, first)
    squares = covariances + centre[:, :, None] * centre[:, None, :]
    return np.hstack([centre, -0.5 * squares.reshape(len(z), -1)])


def variances(log_partition: LogPartition, mean: FloatArray) -> FloatArray:
    """(N, ·) of every feature, from ∇A; for code 5 the second derivatives of A along b², −bΛ and Λ²."""
    code = log_partition.code
    if code == 5:
        centre, square = np.split(mean, 2, axis=1)
        variance = -2.0 * square - centre**2
        return np.hstack([variance, centre * variance, variance * (centre**2 + 0.5 * variance)])
    return np.asarray({1: mean, 2: mean * (1.0 - mean), 3: mean**2 / (log_partition.constant or 1.0), 4: mean}[code])


def bends(log_partition: LogPartition, z: FloatArray) -> FloatArray:
    """(N, K, K) ηᵀ∇²A η, how A bends along z: the covariance of η_k·T(x) and η_l·T(x) for words x of those z."""
    code, table = log_partition.code, log_partition.table
    if code == 0:
        return np.broadcast_to(table, (len(z), *table.shape))
    mean = mean_statistics(log_partition, z)
    if code <= 4:
        variance = variances(log_partition, mean)
        slopes = mean @ table.T if code == 4 else np.zeros((len(z), len(table)))
        return np.einsum("ki,ni,li->nkl", table, variance, table) - slopes[:, :, None] * slopes[:, None]
    p = table.shape[1] // 2 if code == 5 else round((math.sqrt(1 + 4 * table.shape[1]) - 1) / 2)
    precisions = table[:, p:, None] * np.eye(p) if code == 5 else table[:, p:].reshape(-1, p, p)
    covariances = np.linalg.inv(np.einsum("nk,kij->nij", z, precisions))
    # r·x − ½ xᵀΛx has the slope r = b_k − Λ_k c at the centre c, and the covariance of squares is ½ tr(SΛ_k SΛ_l).
    off = table[:, :p] - np.einsum("kij,nj->nki", precisions, mean[:, :p])
    products = np.einsum("nij,kjm->nkim", covariances, precisions)
    linear = np.einsum("nki,nij,nlj->nkl", off, covariances, off)
    return np.asarray(linear + 0.5 * np.einsum("nkij,nlji->nkl", products, products))


def point_fits(log_partition: LogPartition, scores: FloatArray, points: FloatArray) -> FloatArray:
    """(N, P) z·ℓ_n − A(z) at the points z (N, P, K)."""
    partitions = log_partitions(log_partition, points.reshape(-1, points.shape[2]))
    return np.asarray((points * scores[:, None]).sum(axis=2) - partitions.reshape(points.shape[:2]))


def expected_fits(log_partition: LogPartition, scores: FloatArray, gamma: FloatArray) -> FloatArray:
    """(N,) f(γ) = E[z·ℓ − A(z)]."""
    if log_partition.code == ADDITIVE:
        m = gamma / gamma.sum(axis=1, keepdims=True)
        return np.asarray((m * scores).sum(axis=1) + fits_of_logs(log_partition, gamma))
    points, weights = rule(gamma)
    return np.asarray((weights * point_fits(log_partition, scores, points)).sum(axis=1))


def fit_gradients(log_partition: LogPartition, scores: FloatArray, gamma: FloatArray) -> FloatArray:
    """(N, K) ∇f(γ): how weights and points move, and the fits with them."""
    if log_partition.code == ADDITIVE:
        total = gamma.sum(axis=1, keepdims=True)
        along_means = (scores - (gamma * scores).sum(axis=1, keepdims=True) / total) / total
        return np.asarray(along_means + gradient_of_logs(log_partition, gamma))
    points, weights = rule(gamma)
    flat = points.reshape(-1, points.shape[2])
    table = log_partition.table
    slopes = flat @ table if log_partition.code == 0 else mean_statistics(log_partition, flat) @ table.T
    slopes = scores[:, None] - slopes.reshape(points.shape)
    fits = point_fits(log_partition, scores, points)
    gradient = np.empty_like(gamma)
    for k, direction in enumerate(np.eye(gamma.shape[1])):
        points_k, weights_k = (moved.imag / TINY for moved in rule(gamma + 1j * TINY * direction))
        gradient[:, k] = (weights_k * fits + weights * (points_k * slopes).sum(axis=2)).sum(axis=1)
    return gradient


def expected_logs(gamma: FloatArray) -> FloatArray:
    """(N, K) E[ln z]."""
    return np.asarray(digamma(gamma) - digamma(gamma.sum(axis=1, keepdims=True)))


def word_bounds(log_partition: LogPartition, scores: FloatArray, gamma: FloatArray) -> FloatArray:
    """(N,) E[fit] − E[ln q] − Σ_k E[ln z_k]; with ln Γ(s) − Σ ln Γ(a_k) + a·E[ln z] it is a word's whole bound."""
    log_beta = gammaln(gamma).sum(axis=1) - gammaln(gamma.sum(axis=1))
    fits = expected_fits(log_partition, scores, gamma)
    return np.asarray(fits + log_beta - (gamma * expected_logs(gamma)).sum(axis=1))


def newton_steps(
    log_partition: LogPartition, scores: FloatArray, a: FloatArray, labels: Labels, row: int, gamma: FloatArray
) -> FloatArray:
    """(N, K) (F + C)⁻¹∇: Fisher's information of Dir(γ), the curvature of (1 − c) A(m) along m, and the slope.

    Where means add, A is not a function of m alone, and C is left out.
    """
    n, n_topics = gamma.sum(axis=1), gamma.shape[1]
    information = polygamma(1, gamma)[:, :, None] * np.eye(n_topics) - polygamma(1, n)[:, None, None]
    gradient = fit_gradients(log_partition, scores, gamma) + np.einsum("nij,nj->ni", information, a - gamma)
    gradient += label_slopes(labels, row, gamma)
    m = gamma / n[:, None]
    slopes = (np.eye(n_topics) - m[:, :, None]) / n[:, None, None]  # ∂m_i / ∂γ_k
    if log_partition.code != ADDITIVE:
        information += (n / (n + 1.0))[:, None, None] * np.einsum(
            "nji,njk,nkl->nil", slopes, bends(log_partition, m), slopes
        )
    # Entries differ by a factor of 10¹²: divided by the roots of the diagonal, they do not.
    root = np.sqrt(np.einsum("nii->ni", information))
    scaled = information / (root[:, :, None] * root[:, None])
    return np.asarray(np.linalg.solve(scaled, (gradient / root)[:, :, None])[:, :, 0] / root)


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
    """Newton-like steps for γ, all words of a segment at once."""
    means, gram, sum_log_z, bound = out
    gram[:] = 0.0
    for i, (first, last, d, label) in enumerate(segments):
        here, row = slice(first, last), slice(first - segments[0, 0], last - segments[0, 0])
        model = (take(log_partition, row), scores[row])
        now, rate = gamma[here], rates[here]
        value = word_bounds(*model, now) + expected_logs(now) @ a[d] + expected_label(labels, label, now)
        for _ in range(steps):
            step = rate[:, None] * newton_steps(*model, a[d], labels, label, now)
            new = np.maximum(np.maximum(now + step, MOST_DOWN * now), SMALLEST)
            new_value = word_bounds(*model, new) + expected_logs(new) @ a[d] + expected_label(labels, label, new)
            better = new_value >= value - ROUNDING * np.abs(value)
            now[better], value[better] = new[better], new_value[better]
            rate[:] = np.where(better, np.minimum(FASTER * rate, LARGEST_RATE), SLOWER * rate)
        np.maximum(rate, SMALLEST_RATE, out=rate)
        total = now.sum(axis=1, keepdims=True)
        means[row] = now / total
        # E[z_i z_k] = γ_i (γ_k + δ_ik) / γ₀(γ₀ + 1)
        scale = total * (total + 1.0)
        gram += (now / scale).T @ now + np.diag((now / scale).sum(axis=0))
        sum_log_z[i] = expected_logs(now).sum(axis=0)
        bound[i] = (word_bounds(*model, now) + expected_label(labels, label, now)).sum()


def beta_nodes(
    prior: FloatArray, q: FloatArray, slope: FloatArray, bend: FloatArray, told: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """(N, NODES + 2) points, logarithms of their weights, and (N, 2) lengths of the poles, which are the last two.

    For z^(a − 1) (1 − z)^(b − 1) but for e^φ and the label between the poles. prior = a, b; q; and told, the slopes of
    ln p(label) into the line from either end : (N, 2)
    """
    slopes = np.stack([slope - prior[:, 1] + 1.0, bend - slope - prior[:, 0] + 1.0], axis=1)
    steep = 1.0 + np.abs(slopes) + np.abs(told) + np.sqrt(np.maximum(bend, 0.0))[:, None] + prior
    slopes += told
    pole = np.minimum(POLE / steep, LONGEST_POLE)
    first, last = logit(pole[:, 0]), logit(1.0 - pole[:, 1])
    middle = np.log((q[:, 0] + 0.5) / (q[:, 1] + 0.5)) - 1.0 / q[:, 0] + 1.0 / q[:, 1]
    reach = REACH * np.sqrt((1.0 / q**2 + 1.0 / (q + 0.5)).sum(axis=1))
    start = np.maximum(np.minimum(middle - reach, last - SHORTEST_SPAN), first)
    end = np.minimum(np.maximum(middle + reach, first + SHORTEST_SPAN), last)
    x = np.linspace(start, end, NODES, axis=1)
    log_weight = prior[:, :1] * x - prior.sum(axis=1, keepdims=True) * np.logaddexp(0.0, x)
    log_weight += np.log((end - start) / (NODES - 1))[:, None]
    log_weight[:, [0, -1]] -= math.log(2.0)
    in_poles = prior * np.log(pole) - np.log(prior) + prior * slopes * pole / (1.0 + prior)
    in_poles[:, 1] += slope - 0.5 * bend
    inside = pole * prior / (1.0 + prior)
    points = np.hstack([expit(x), inside[:, :1], 1.0 - inside[:, 1:]])
    return points, np.hstack([log_weight, in_poles]), pole


def line_moments(
    log_partition: LogPartition,
    scores: FloatArray,
    a: FloatArray,
    labels: Labels,
    row: int,
    gamma: FloatArray,
    k: int,
) -> tuple[FloatArray, FloatArray]:
    """(N,) mean and variance of z_k, the other topics sharing the rest as under q.

    A label is p(label | z) on the line. Its powers of z_k and 1 − z_k join the prior; what is left has a value at every
    node, and at both ends a value and a slope.
    """
    corner = np.eye(gamma.shape[1])[k]
    others = gamma * (1.0 - corner)
    rest = others.sum(axis=1)
    shares = others / rest[:, None]
    is_additive = log_partition.code == ADDITIVE
    at_zero = log_partitions(log_partition, shares)
    pure = np.zeros(len(corner)) if is_additive else log_partitions(log_partition, np.eye(len(corner)))
    # E[A] over Dir(γ) is (1 − c) A(m) + c m·A(corners) for quadratic A; what it adds to A(m) shrinks with (1 − z)².
    spread = (shares @ pure - at_zero) / (rest + 1.0)

    def fits(z: FloatArray) -> FloatArray:
        """φ(z) − φ(0) for z (N, P)."""
        points = z[:, :, None] * corner + (1.0 - z)[:, :, None] * shares[:, None]
        linear = (scores[:, k] - (shares * scores).sum(axis=1))[:, None] * z
        if is_additive:
            logs = line_logs(log_partition, shares, rest, k, np.hstack([z, np.zeros((len(z), 1))]))
            return np.asarray(linear + logs[:, :-1] - logs[:, -1:])
        partition = log_partitions(log_partition, points.reshape(-1, len(corner))).reshape(z.shape)
        return np.asarray(linear - partition + at_zero[:, None] + spread[:, None] * z * (2.0 - z))

    middle, end = fits(np.tile([0.5, 1.0], (len(gamma), 1))).T
    slope, bend = 4.0 * middle - end, 8.0 * middle - 4.0 * end
    counts, any_of, strength = labels.counts[row], labels.any_of[row], labels.strength[row]
    # Σ any_of z on the line is z_k if k is all it may be, 1 − z_k times a constant if it may not be k, and otherwise
    # z_k + (1 − z_k) times what the others that it may be share of the rest.
    alone, excluded = strength * any_of[k] * (any_of.sum() == 1.0), strength * (1.0 - any_of[k])
    left = strength - alone - excluded
    allowed = shares @ any_of if left > 0.0 else np.ones(len(gamma))
    powers = np.array([counts[k] + alone, counts.sum() - counts[k] + excluded])
    prior = np.tile(np.array([a[k], a.sum() - a[k]]) + powers, (len(gamma), 1))
    into = left * np.stack([1.0 / allowed - 1.0, allowed - 1.0], axis=1)
    z, log_weight, pole = beta_nodes(prior, np.stack([gamma[:, k], rest], axis=1), slope, bend, into)
    own = pole**2 * prior / (prior + 2.0) / (prior + 1.0) ** 2
    log_weight[:, :NODES] += fits(z[:, :NODES])
    log_weight[:, :NODES] += left * np.log(z[:, :NODES] + (1.0 - z[:, :NODES]) * allowed[:, None])
    log_weight[:, NODES] += left * np.log(allowed)
    weight = softmax(log_weight, axis=1)
    mean = (weight * z).sum(axis=1)
    variance = (weight * (z - mean[:, None]) ** 2).sum(axis=1) + (weight[:, NODES:] * own).sum(axis=1)
    if log_partition.code == 0 and len(corner) > 2:
        variance /= 1.0 - np.minimum(variance * followed(log_partition.table, scores, shares, rest, k, mean), MOST_GAIN)
    return mean, variance


def followed(
    table: FloatArray, scores: FloatArray, shares: FloatArray, rest: FloatArray, k: int, mean: FloatArray
) -> FloatArray:
    """(N,) κ: how much less a word's fit bends along z_k if the other topics follow in the direction Cov(u) D."""
    z = mean[:, None]
    slopes = (2.0 * z - 1.0) * table[k] + 2.0 * (1.0 - z) * shares @ table - scores
    covariance = np.eye(len(table)) * shares[:, None] - shares[:, :, None] * shares[:, None]
    covariance /= (rest + 1.0)[:, None, None]
    step = np.einsum("nij,nj->ni", covariance, slopes)
    along = (slopes * step).sum(axis=1)
    return np.asarray(along**2 / (along + (1.0 - mean) ** 2 * np.einsum("ni,ij,nj->n", step, table, step)))


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
    """Every z_k by itself, on the line from the others' mean to its corner."""
    first = segments[0, 0]
    for begin, end, d, label in segments:
        here, row = gamma[begin:end], slice(begin - first, end - first)
        topics = range(gamma.shape[1])
        moments = [line_moments(take(log_partition, row), scores[row], a[d], labels, label, here, k) for k in topics]
        mean, variance = np.stack(moments, axis=2)
        means[row] = mean / mean.sum(axis=1, keepdims=True)
        std[row] = np.sqrt(np.clip(variance, 0.0, means[row] * (1.0 - means[row])))


def expected_partition(
    log_partition: LogPartition, gamma: FloatArray, first: int, last: int, slopes: FloatArray, bends: FloatArray
) -> float:
    """Σ E[A] over a range of words, its slopes along η, and its second derivatives feature by feature."""
    points, weights = rule(gamma[first:last])
    z, w = points.reshape(-1, points.shape[2]), weights.ravel()
    mean = mean_statistics(log_partition, z)
    if slopes.size:
        slopes[:] = (w[:, None] * z).T @ mean
    if bends.size:
        variance = variances(log_partition, mean)
        full = np.einsum("n,nk,nl,ni->kli", w, z, z, variance)
        bends[:] = full * np.tril(np.ones(full.shape[:2]))[:, :, None]
    return float(w @ log_partitions(log_partition, z))


def document_bound(log_a: FloatArray, sum_log_z: FloatArray, n_words: int, prior: DocumentPrior, row: int) -> float:
    """Σ_n E[ln Dir(z_n; a)] + Σ ln z, and the density of ln a up to a constant: Π π_k^α_k p(label | π) · s e^(−λs)."""
    alpha, scale_rate, labels = prior
    a, s = np.exp(log_a), np.exp(log_a).sum()
    words = n_words * (gammaln(s) - gammaln(a).sum()) + a @ sum_log_z
    told = log_label(labels, row, np.log(a / s))
    return float(words + alpha @ np.log(a / s) + told + math.log(s) - scale_rate * s)


def document_curvature(
    a: FloatArray, sum_log_z: FloatArray, n_words: int, prior: DocumentPrior, row: int
) -> tuple[FloatArray, FloatArray, float]:
    """Slopes of the bound along ln a, and its curvature diag(d) + common·aaᵀ with every d made negative.

    Of a label that says "one of these", what topics have to do with each other is left out of the curvature.
    """
    alpha, scale_rate, labels = prior
    alpha, any_of, strength = alpha + labels.counts[row], labels.any_of[row], labels.strength[row]
    s = a.sum()
    slope = a * (n_words * (digamma(s) - digamma(a)) + sum_log_z)
    slope += alpha - alpha.sum() * a / s + a / s - scale_rate * a
    common = n_words * polygamma(1, s) + (alpha.sum() - 1.0) / s**2
    diagonal = -(a**2) * n_words * polygamma(1, a) - alpha
    if strength > 0.0:
        inside = any_of * a / (any_of @ a)  # of the topics that it may be, the share of each
        slope += strength * (inside - a / s)
        diagonal -= strength * inside**2
        common += strength / s**2
    return slope, diagonal + np.minimum(slope, 0.0), float(common)


def newton(a: FloatArray, slope: FloatArray, diagonal: FloatArray, common: float, fixed: Fixed) -> FloatArray:
    """Newton's step in ln a, along what is free and no longer than LONGEST_STEP in any direction."""
    curvature = np.diag(diagonal) + common * np.outer(a, a)
    if fixed.proportions:
        along = min(curvature.sum(), -LEAST_CURVATURE * abs(slope.sum()) - SMALLEST_CURVATURE)
        step = np.full(len(a), -slope.sum() / along)
    elif fixed.scales:  # Lagrange: the best step with a·step = 0
        bordered = np.block([[np.diag(diagonal), a[:, None]], [a[None], np.zeros((1, 1))]])
        step = np.linalg.solve(bordered, np.append(-slope, 0.0))[:-1]
    elif 1.0 + common * (a**2 / diagonal).sum() < LEAST_DENOMINATOR:  # not concave
        step = -slope / diagonal
    else:
        step = np.linalg.solve(curvature, -slope)
    return np.asarray(step * min(1.0, LONGEST_STEP / max(np.abs(step).max(), 1e-300)))


def document_step(
    prior: DocumentPrior,
    a: FloatArray,
    sum_log_z: FloatArray,
    documents: DocumentRange,
    steps: int,
    fixed: Fixed,
    bound: FloatArray,
) -> None:
    """Newton steps in ln a, shortened until the bound does not fall."""
    for d in range(documents.first, documents.last):
        document = (sum_log_z[d], int(documents.starts[d + 1] - documents.starts[d]), prior, row_of(prior.labels, d))
        bound[d] = document_bound(np.log(a[d]), *document)
        for _ in range(0 if fixed.proportions and fixed.scales else steps):
            step = newton(a[d], *document_curvature(a[d], *document), fixed)
            factors = [np.exp(SHORTER**i * step) for i in range(MOST_TRIALS)]
            tries = [np.maximum(a[d] * factor, SMALLEST) for factor in factors]
            if fixed.proportions:
                tries = [a[d] * np.maximum(factor, min(SMALLEST / a[d].min(), 1.0)) for factor in factors]
            if fixed.scales:
                tries = [new * a[d].sum() / new.sum() for new in tries]
            values = [document_bound(np.log(new), *document) for new in tries]
            risen = [i for i in range(MOST_TRIALS) if values[i] >= bound[d]]
            if not risen:
                break
            gain = values[risen[0]] - bound[d]
            a[d], bound[d] = tries[risen[0]], values[risen[0]]
            if gain < LEAST_GAIN * (1.0 + abs(bound[d])):
                break
