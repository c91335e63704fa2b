"""The kernels of engine "gibbs" in plain NumPy, with the same arguments and random numbers, as in tests.twins.paper."""

import math

import numpy as np
from scipy.special import gammaln, logsumexp, softmax

from pmlda.kernels.arguments import (
    DocumentPrior,
    DocumentRange,
    Ensemble,
    GibbsLatents,
    LogPartition,
    Moves,
    Places,
    SweepKey,
)
from pmlda.kernels.gibbs import LARGEST_S, SMALLEST_A, SMALLEST_EXCHANGED
from pmlda.kernels.gibbs_stretch import LARGEST_A, LOWEST_EDGE
from pmlda.kernels.gibbs_stretch import SMALLEST_A as SMALLEST_STRETCHED_A
from pmlda.kernels.streams import (
    PURPOSE_CANDIDATE,
    PURPOSE_CHOICE,
    PURPOSE_STRETCH,
    PURPOSE_TRANSFER,
    PURPOSE_WALK,
)
from pmlda.types import Fixed, FloatArray, IntArray, Labels, Latents
from tests.twins.counts import take
from tests.twins.labels import log_label, row_of
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
    places: Places,
    labels: Labels,
    sweep_key: SweepKey,
    ensemble: Ensemble,
) -> None:
    """The word's own ln z, and draws of gamma variables divided by their sum."""
    candidates, shares, log_q = ensemble.candidates, ensemble.shares, ensemble.log_q
    for first, last, d, label in places.segments:
        for n in range(first, last):
            n_cells = (candidates.shape[1] - 1) * shapes.shape[1]
            u = uniforms(sweep_key, d, n - places.starts[d], PURPOSE_CANDIDATE, 4 * n_cells * ATTEMPTS)
            each = u.reshape(ATTEMPTS, candidates.shape[1] - 1, shapes.shape[1], 4).transpose(1, 2, 0, 3)
            fresh = []
            for row in each:
                log_g = np.array([log_gamma(float(a), cell) for a, cell in zip(shapes[n], row, strict=True)])
                log_g -= np.log(rates[n])
                fresh.append(log_g - logsumexp(log_g))
            candidates[n] = [log_z[n], *fresh]
            shares[n] = np.exp(candidates[n]).T
            log_q[n] = candidates[n] @ (shapes[n] - 1.0) - shapes[n].sum() * np.log(rates[n] @ shares[n])
            log_q[n] -= log_label(labels, label, candidates[n])


def candidate_fits(log_partition: LogPartition, scores: FloatArray, ensemble: Ensemble, first: int, last: int) -> None:
    """z·ℓ − A(z) for every candidate."""
    for n in range(first, last):
        z = ensemble.shares[n].T
        ensemble.fits[n] = z @ scores[n - first] - log_partitions(take(log_partition, np.full(len(z), n - first)), z)


def log_marginals(ensemble: Ensemble, first: int, last: int) -> float:
    """Σ_n ln Σ_j exp(fit + rest)."""
    return float(logsumexp((ensemble.fits + ensemble.rest)[first:last], axis=1).sum())


def log_prior(a: FloatArray, prior: DocumentPrior, d: int) -> float:
    """ln p(ln a) of document d up to a constant: the densities of π with its label and of s, and how ln a maps."""
    alpha, scale_rate, labels = prior
    s, n_topics = a.sum(), len(a)
    log_pi = np.log(a / s)
    log_density = (alpha - 1.0) @ log_pi - scale_rate * s + log_label(labels, row_of(labels, d), log_pi)
    log_jacobian = np.log(a).sum() - (n_topics - 1) * math.log(s)  # da = s^(K−1) dπ ds
    return float(log_density + log_jacobian)


def log_dirichlet(log_z: FloatArray, a: FloatArray) -> FloatArray:
    """ln Dir(z; a) along the last axis."""
    return np.asarray(gammaln(a.sum()) - gammaln(a).sum() + log_z @ (a - 1.0))


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
    """Random walks of ln a; a held s is restored after each move of one ln a_k."""
    n_topics, weights = a.shape[1], ensemble.fits - ensemble.log_q
    widths, accepted = moves
    for d in range(documents.first, documents.last):
        stream = Stream(sweep_key, d, 0, PURPOSE_WALK)
        here = slice(documents.starts[d], documents.starts[d + 1])

        def log_density(a: FloatArray, here: slice = here, d: int = d) -> float:
            words = logsumexp(weights[here] + log_dirichlet(ensemble.candidates[here], a), axis=1)
            return log_prior(a, prior, d) + float(words.sum())

        accepted[d] = 0.0
        directions = [] if fixed.scales else [(0, np.ones(n_topics))]
        directions += [] if fixed.proportions else [(k + 1, unit) for k, unit in enumerate(np.eye(n_topics))]
        for _ in range(rounds):
            for move, direction in directions:
                new = a[d] * np.exp(widths[d, move] * stream.normal() * direction)
                total = new.sum()
                if fixed.scales:
                    new *= a[d].sum() / total
                threshold = math.log(stream.uniform())
                allowed = new.min() >= SMALLEST_A and total <= LARGEST_S
                if allowed and threshold < log_density(new) - log_density(a[d]):
                    a[d] = new
                    accepted[d, move] += 1.0 / rounds


def weigh_candidates(a: FloatArray, document: IntArray, ensemble: Ensemble, first: int, last: int) -> None:
    """What prior, label and proposal weigh."""
    for n in range(first, last):
        ensemble.rest[n] = ensemble.candidates[n] @ (a[document[n]] - 1.0) - ensemble.log_q[n]


def choose_candidates(
    ensemble: Ensemble, places: Places, sweep_key: SweepKey, latents: Latents, out: FloatArray
) -> None:
    """A draw from the candidates by their cumulative probabilities."""
    fits, rest = ensemble.fits, ensemble.rest
    for i, (first, last, d, _) in enumerate(places.segments):
        words = np.arange(first, last)
        u = uniforms(sweep_key, d, words - places.starts[d], PURPOSE_CHOICE, 1)
        cumulative = np.cumsum(softmax((fits + rest)[first:last], axis=1), axis=1)
        chosen = np.minimum((cumulative < u).sum(axis=1), fits.shape[1] - 1)
        latents.log_memberships[first:last] = ensemble.candidates[words, chosen]
        latents.memberships[first:last] = ensemble.shares[words, :, chosen]
        out[i] = (chosen > 0).sum(), fits[words, chosen].sum()


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
    """Exchanges between pairs of topics, word by word."""
    z, log_z, a = latents
    segments, starts = places
    n_topics = z.shape[1]
    pairs = [(i, k) for i in range(n_topics) for k in range(i)] * rounds
    out[:] = 0.0
    for segment, (first, last, d, row) in enumerate(segments):
        for n in range(first, last):
            u = uniforms(sweep_key, d, n - starts[d], PURPOSE_TRANSFER, 2 * len(pairs))
            row_of_word = n - segments[0, 0]
            score, own = scores[row_of_word], take(log_partition, slice(row_of_word, row_of_word + 1))

            def fit(z: FloatArray, score: FloatArray = score, own: LogPartition = own) -> float:
                return float(z @ score - log_partitions(own, z[None])[0])

            for move, (i, k) in enumerate(pairs):
                delta = widths[i, k] * (2.0 * u[2 * move] - 1.0)
                new = z[n].copy()
                new[i] += delta
                new[k] -= delta
                if min(new[i], new[k]) <= SMALLEST_EXCHANGED:
                    continue
                log_new = log_z[n].copy()
                log_new[[i, k]] = np.log(new[[i, k]])
                log_ratio = fit(new) - fit(z[n]) + (log_new - log_z[n]) @ (a[d] - 1.0)
                log_ratio += log_label(labels, row, log_new) - log_label(labels, row, log_z[n])
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
    log_partition: LogPartition,
    scores: FloatArray,
    latents: GibbsLatents,
    prior: DocumentPrior,
    documents: DocumentRange,
    labels: Labels,
    moves: Moves,
    sweep_key: SweepKey,
) -> None:
    """a_k and all memberships of a document move together, by Metropolis and Hastings with a Jacobian."""
    z, log_z, a = latents
    widths, accepted = moves
    n_topics, n_moves = z.shape[1], widths.shape[1]
    for d in range(documents.first, documents.last):
        stream = Stream(sweep_key, d, 0, PURPOSE_STRETCH)
        here = slice(documents.starts[d], documents.starts[d + 1])

        def log_density(a: FloatArray, z: FloatArray, log_z: FloatArray, here: slice = here, d: int = d) -> float:
            fits = (z * scores[here]).sum(axis=1) - log_partitions(take(log_partition, here), z)
            told = [log_label(labels, row_of(labels, n), one) for n, one in enumerate(log_z, here.start)]
            return log_prior(a, prior, d) + float((fits + log_dirichlet(log_z, a) + told).sum())

        accepted[d] = 0.0
        for move in range(n_moves):
            k = move % n_topics if move < n_moves - 1 else n_topics
            r = math.exp(widths[d, move] * stream.normal())
            edge = LOWEST_EDGE * stream.uniform() if move >= n_topics else 0.0
            threshold = math.log(stream.uniform())
            moved = np.arange(n_topics) == k if k < n_topics else np.ones(n_topics, bool)
            new_a = np.where(moved, a[d] * r, a[d])
            if new_a.min() < SMALLEST_STRETCHED_A or new_a.max() > LARGEST_A:
                continue
            new, log_jacobian = stretch(log_z[here], k, r, edge) if k < n_topics else stretch_all(log_z[here], r)
            log_ratio = log_density(new_a, np.exp(new), new) - log_density(a[d], z[here], log_z[here])
            if threshold < log_ratio + log_jacobian.sum():
                a[d], z[here], log_z[here] = new_a, np.exp(new), new
                accepted[d, move] = 1.0
