"""The kernels of gibbs and gibbs_stretch in plain NumPy, same random numbers, for the reasons of kernels.twins."""

import math

import numpy as np
from scipy.special import gammaln, logsumexp, softmax

from pmlda.kernels.gibbs_stretch import LOWEST_EDGE
from pmlda.kernels.streams import (
    PURPOSE_CANDIDATE,
    PURPOSE_CHOICE,
    PURPOSE_STRETCH,
    PURPOSE_TRANSFER,
    PURPOSE_WALK,
)
from pmlda.types import FloatArray, IntArray
from tests.twins.paper import Stream, log_partitions, uniforms

# Gamma draws are accepted in 95 of 100 attempts or more: 20 are more than enough.
ATTEMPTS = 20


def log_gamma(shape: float, numbers: FloatArray) -> float:
    """ln of a gamma draw; four numbers for each attempt: two for a normal, one to accept, one for shapes below 1."""
    boost = math.log(numbers[0, 3]) / shape if shape < 1.0 else 0.0
    d = (shape + 1.0 if shape < 1.0 else shape) - 1.0 / 3.0
    for u, turn, accept, _ in numbers:
        x = math.sqrt(-2.0 * math.log(u)) * math.cos(2.0 * math.pi * turn)
        v = (1.0 + x / math.sqrt(9.0 * d)) ** 3
        if v > 0.0 and math.log(accept) < 0.5 * x * x + d * (1.0 - v + math.log(v)):
            return math.log(d * v) + boost
    raise AssertionError("no attempt was accepted")


def draw_candidates(
    shapes: FloatArray,
    rates: FloatArray,
    log_z: FloatArray,
    segments: IntArray,
    starts: IntArray,
    key: int,
    sweep: int,
    candidates: FloatArray,
    shares: FloatArray,
    log_q: FloatArray,
) -> None:
    """The word's own ln z, and draws of gamma variables divided by their sum."""
    for first, last, d in segments:
        for n in range(first, last):
            n_cells = (candidates.shape[1] - 1) * shapes.shape[1]
            u = uniforms(int(key), sweep, d, n - starts[d], int(PURPOSE_CANDIDATE), 4 * n_cells * ATTEMPTS)
            each = u.reshape(ATTEMPTS, candidates.shape[1] - 1, shapes.shape[1], 4).transpose(1, 2, 0, 3)
            fresh = []
            for row in each:
                log_g = np.array([log_gamma(float(a), cell) for a, cell in zip(shapes[n], row, strict=True)])
                log_g -= np.log(rates[n])
                fresh.append(log_g - logsumexp(log_g))
            candidates[n] = [log_z[n], *fresh]
            shares[n] = np.exp(candidates[n]).T
            log_q[n] = candidates[n] @ (shapes[n] - 1.0) - shapes[n].sum() * np.log(rates[n] @ shares[n])


def candidate_fits(
    code: int,
    table: FloatArray,
    constant: float,
    scores: FloatArray,
    shares: FloatArray,
    first: int,
    last: int,
    out: FloatArray,
) -> None:
    """z·ℓ − A(z) for every candidate."""
    for n in range(first, last):
        z = shares[n].T
        out[n] = z @ scores[n - first] - log_partitions(code, table, constant, z)


def log_marginals(fits: FloatArray, rest: FloatArray, first: int, last: int) -> float:
    """Σ_n ln Σ_j exp(fit + rest)."""
    return float(logsumexp((fits + rest)[first:last], axis=1).sum())


def log_prior(a: FloatArray, alpha: FloatArray, scale_rate: float) -> float:
    """ln p(ln a) up to a constant: the densities of π and s, and how ln a maps to them."""
    s, n_topics = a.sum(), len(a)
    log_density = (alpha - 1.0) @ np.log(a / s) - scale_rate * s
    log_jacobian = np.log(a).sum() - (n_topics - 1) * math.log(s)  # da = s^(K−1) dπ ds
    return float(log_density + log_jacobian)


def log_dirichlet(log_z: FloatArray, a: FloatArray) -> FloatArray:
    """ln Dir(z; a) along the last axis."""
    return np.asarray(gammaln(a.sum()) - gammaln(a).sum() + log_z @ (a - 1.0))


def document_step(
    alpha: FloatArray,
    scale_rate: float,
    a: FloatArray,
    starts: IntArray,
    candidates: FloatArray,
    weights: FloatArray,
    widths: FloatArray,
    key: int,
    sweep: int,
    rounds: int,
    hold_pi: bool,
    hold_s: bool,
    first: int,
    last: int,
    accepted: FloatArray,
) -> None:
    """Random walks of ln a; a held s is restored after each move of one ln a_k."""
    n_topics = a.shape[1]
    for d in range(first, last):
        stream = Stream(int(key), sweep, d, 0, int(PURPOSE_WALK))
        here = slice(starts[d], starts[d + 1])

        def log_density(a: FloatArray, here: slice = here) -> float:
            words = logsumexp(weights[here] + log_dirichlet(candidates[here], a), axis=1)
            return log_prior(a, alpha, scale_rate) + float(words.sum())

        accepted[d] = 0.0
        moves = [] if hold_s else [(0, np.ones(n_topics))]
        moves += [] if hold_pi else [(k + 1, unit) for k, unit in enumerate(np.eye(n_topics))]
        for _ in range(rounds):
            for move, direction in moves:
                new = a[d] * np.exp(widths[d, move] * stream.normal() * direction)
                total = new.sum()
                if hold_s:
                    new *= a[d].sum() / total
                threshold = math.log(stream.uniform())
                allowed = new.min() >= 1e-300 and total <= 1e12
                if allowed and threshold < log_density(new) - log_density(a[d]):
                    a[d] = new
                    accepted[d, move] += 1.0 / rounds


def weigh_candidates(
    a: FloatArray, document: IntArray, candidates: FloatArray, log_q: FloatArray, first: int, last: int, out: FloatArray
) -> None:
    """What prior and proposal weigh."""
    for n in range(first, last):
        out[n] = candidates[n] @ (a[document[n]] - 1.0) - log_q[n]


def choose_candidates(
    fits: FloatArray,
    rest: FloatArray,
    candidates: FloatArray,
    shares: FloatArray,
    segments: IntArray,
    starts: IntArray,
    key: int,
    sweep: int,
    z: FloatArray,
    log_z: FloatArray,
    out: FloatArray,
) -> None:
    """A draw from the candidates by their cumulative probabilities."""
    for i, (first, last, d) in enumerate(segments):
        words = np.arange(first, last)
        u = uniforms(int(key), sweep, d, words - starts[d], int(PURPOSE_CHOICE), 1)
        cumulative = np.cumsum(softmax((fits + rest)[first:last], axis=1), axis=1)
        chosen = np.minimum((cumulative < u).sum(axis=1), fits.shape[1] - 1)
        log_z[first:last] = candidates[words, chosen]
        z[first:last] = shares[words, :, chosen]
        out[i] = (chosen > 0).sum(), fits[words, chosen].sum()


def transfer_step(
    code: int,
    table: FloatArray,
    constant: float,
    scores: FloatArray,
    z: FloatArray,
    log_z: FloatArray,
    a: FloatArray,
    starts: IntArray,
    segments: IntArray,
    widths: FloatArray,
    key: int,
    sweep: int,
    rounds: int,
    out: FloatArray,
) -> None:
    """Exchanges between pairs of topics, word by word."""
    n_topics = z.shape[1]
    pairs = [(i, k) for i in range(n_topics) for k in range(i)] * rounds
    out[:] = 0.0
    for segment, (first, last, d) in enumerate(segments):
        for n in range(first, last):
            u = uniforms(int(key), sweep, d, n - starts[d], int(PURPOSE_TRANSFER), 2 * len(pairs))
            score = scores[n - segments[0, 0]]

            def fit(z: FloatArray, score: FloatArray = score) -> float:
                return float(z @ score - log_partitions(code, table, constant, z[None])[0])

            for move, (i, k) in enumerate(pairs):
                delta = widths[i, k] * (2.0 * u[2 * move] - 1.0)
                new = z[n].copy()
                new[i] += delta
                new[k] -= delta
                if min(new[i], new[k]) <= 1e-290:
                    continue
                log_new = log_z[n].copy()
                log_new[[i, k]] = np.log(new[[i, k]])
                log_ratio = fit(new) - fit(z[n]) + (log_new - log_z[n]) @ (a[d] - 1.0)
                if math.log(u[2 * move + 1]) < log_ratio:
                    z[n], log_z[n] = new, log_new
                    out[segment, 0] += 1.0 / len(pairs)
            out[segment, 1] += fit(z[n])


def stretch(log_z: FloatArray, k: int, r: float, edge: float) -> tuple[FloatArray, FloatArray]:
    """(N, K) ln z after z_k → ε (z_k/ε)^(1/r), the others in proportion, and (N,) the log Jacobians on the simplex.

    Only where z_k < ε = exp(edge).

    In the coordinates z_k and (z_i / (1 − z_k)), which stay, the volume is (1 − z_k)^(K−2).
    """
    others = np.delete(np.arange(log_z.shape[1]), k)
    log_rest = logsumexp(log_z[:, others], axis=1)
    # ln z_k itself cannot tell how far z_k is from one when it is close.
    log_k = np.where(log_rest < -1.0, np.log1p(-np.exp(np.minimum(log_rest, -1.0))), log_z[:, k])
    stays = (log_k >= edge) & (edge < 0.0)
    log_k_new = edge + (np.where(stays, edge - 1.0, log_k) - edge) / r
    near = (log_rest < -23.0) & ~stays
    log_rest_new = np.where(near, log_rest - math.log(r), np.log(-np.expm1(np.where(near, -1.0, log_k_new))))
    new = log_z + (log_rest_new - log_rest)[:, None]
    new[:, k] = log_k_new
    log_jacobian = -math.log(r) + new[:, k] - log_k + (log_z.shape[1] - 2) * (log_rest_new - log_rest)
    return np.where(stays[:, None], log_z, new), np.where(stays, 0.0, log_jacobian)


def stretch_all(log_z: FloatArray, r: float) -> tuple[FloatArray, FloatArray]:
    """(N, K) ln z with all log ratios divided by r, and (N,) the log Jacobians: dz = Π z_k · d(log ratios)."""
    new = log_z / r - logsumexp(log_z / r, axis=1, keepdims=True)
    return new, (new - log_z).sum(axis=1) - (log_z.shape[1] - 1) * math.log(r)


def stretch_step(
    code: int,
    table: FloatArray,
    constant: float,
    scores: FloatArray,
    z: FloatArray,
    log_z: FloatArray,
    alpha: FloatArray,
    scale_rate: float,
    a: FloatArray,
    starts: IntArray,
    widths: FloatArray,
    key: int,
    sweep: int,
    first: int,
    last: int,
    accepted: FloatArray,
) -> None:
    """a_k and all memberships of a document move together, by Metropolis and Hastings with a Jacobian."""
    n_topics, n_moves = z.shape[1], widths.shape[1]
    for d in range(first, last):
        stream = Stream(int(key), sweep, d, 0, int(PURPOSE_STRETCH))
        here = slice(starts[d], starts[d + 1])

        def log_density(a: FloatArray, z: FloatArray, log_z: FloatArray, here: slice = here) -> float:
            fits = (z * scores[here]).sum(axis=1) - log_partitions(code, table, constant, z)
            return log_prior(a, alpha, scale_rate) + float((fits + log_dirichlet(log_z, a)).sum())

        accepted[d] = 0.0
        for move in range(n_moves):
            k = move % n_topics if move < n_moves - 1 else n_topics
            r = math.exp(widths[d, move] * stream.normal())
            edge = LOWEST_EDGE * stream.uniform() if move >= n_topics else 0.0
            threshold = math.log(stream.uniform())
            moved = np.arange(n_topics) == k if k < n_topics else np.ones(n_topics, bool)
            new_a = np.where(moved, a[d] * r, a[d])
            if new_a.min() < 1e-290 or new_a.max() > 1e12:
                continue
            new, log_jacobian = stretch(log_z[here], k, r, edge) if k < n_topics else stretch_all(log_z[here], r)
            log_ratio = log_density(new_a, np.exp(new), new) - log_density(a[d], z[here], log_z[here])
            if threshold < log_ratio + log_jacobian.sum():
                a[d], z[here], log_z[here] = new_a, np.exp(new), new
                accepted[d, move] = 1.0
