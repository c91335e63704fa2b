"""The chain of Bayesian fuzzy clustering: words + the density that bfc.py states → draws of memberships and prototypes.

Memberships walk in log-ratios, where a word near a prototype and one between several want steps of about the same
length. Prototypes are drawn from their conditional distribution, which is Gaussian. Arrays of memberships are (K, N).
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from pmlda.peers.distances import blocks, squared_distances, squared_lengths
from pmlda.peers.fcm import memberships
from pmlda.types import FloatArray

# Share of proposals to accept, to which the length of each word's steps is adapted during warm-up; its first length.
TARGET, FIRST_STEP = 0.35, 1.0
# Memberships start no smaller than this.
LEAST_START = 1e-3


class Model(NamedTuple):
    """The density: m, α (K,), β, and the variances (p,) of the prior of prototypes, whose mean is 0."""

    m: float
    alpha: FloatArray
    beta: float
    prior_variances: FloatArray


class State(NamedTuple):
    """Where the chain is after a sweep. The next sweep overwrites log_u.

    log_u : (K, N) logarithms of memberships
    prototypes : (K, p)
    log_joint, accepted : the density there, and the share of proposals that were accepted
    """

    log_u: FloatArray
    prototypes: FloatArray
    log_joint: float
    accepted: float


class Kept(NamedTuple):
    """What is kept of a chain, clusters in one order.

    mean, std : (K, N) of memberships after warm-up
    prototypes : (S, K, p) draws after warm-up
    best_u, best_prototypes : (K, N), (K, p) the draw of largest density, warm-up included
    log_joint : (n_sweeps,)
    acceptance : share of accepted proposals after warm-up
    """

    mean: FloatArray
    std: FloatArray
    prototypes: FloatArray
    best_u: FloatArray
    best_prototypes: FloatArray
    log_joint: FloatArray
    acceptance: float


def log_joint(words: FloatArray, log_u: FloatArray, prototypes: FloatArray, model: Model) -> float:
    """The logarithm of the density that is sampled, as bfc.py states it. The chain keeps track of it by sums."""
    d2 = ((words - prototypes[:, None]) ** 2).sum(axis=2)
    likelihood = -0.5 * model.beta * (np.exp(model.m * log_u) * d2).sum()
    prior = ((model.alpha - 1.0) @ log_u).sum() - 0.5 * (prototypes**2 / model.prior_variances).sum()
    return float(likelihood + prior)


def run(
    rng: np.random.Generator, words: FloatArray, prototypes: FloatArray, model: Model, n_sweeps: int, steps: int
) -> Iterator[State]:
    """States after every sweep. Steps are adapted in the first half only, so that the second is a Markov chain."""
    squares = squared_lengths(words)
    log_u, lengths = first_memberships(words, prototypes, model.m), np.full(len(words), FIRST_STEP)
    for t in range(n_sweeps):
        totals, sums, moments = np.zeros(len(prototypes)), np.zeros_like(prototypes), np.zeros(len(prototypes))
        accepted = prior = 0.0
        for at in blocks(len(words)):
            walkers = Walkers(
                log_u[:, at], 0.5 * model.beta * squared_distances(words[at], squares[at], prototypes), model
            )
            share = np.zeros(len(squares[at]))
            for _ in range(steps):
                changes = lengths[at] * rng.standard_normal(walkers.log_u.shape)
                share += walkers.move(changes, rng.standard_exponential(len(share))) / steps
            if t < n_sweeps // 2:
                lengths[at] *= np.exp((share - TARGET) / np.sqrt(1.0 + t))
            log_u[:, at] = walkers.log_u
            weights = np.exp(model.m * walkers.log_u)
            totals += weights.sum(axis=1)
            sums += weights @ words[at]
            moments += weights @ squares[at]
            accepted += float(share.sum())
            prior += float((model.alpha - 1.0) @ walkers.log_u.sum(axis=1))
        prototypes = draw_prototypes(rng, totals, sums, model)
        # Σₙ uᵐ‖x − y‖² from sums over words, since the prototypes have moved.
        fuzzy = moments.sum() - 2.0 * (prototypes * sums).sum() + totals @ (prototypes**2).sum(axis=1)
        value = prior - 0.5 * model.beta * fuzzy - 0.5 * (prototypes**2 / model.prior_variances).sum()
        yield State(log_u, prototypes, float(value), accepted / len(words))


class Walkers:
    """Memberships of some words that walk, prototypes held: ln u (K, n), and energy ½β‖x − y‖² (K, n)."""

    def __init__(self, log_u: FloatArray, energy: FloatArray, model: Model) -> None:
        self.log_u, self._energy, self._model = log_u, energy, model
        self._density = self._log_density(log_u)

    def _log_density(self, log_u: FloatArray) -> FloatArray:
        """In log-ratios, in which duₖ counts as duₖ / uₖ: α where the density of u itself has α − 1."""
        return np.asarray(self._model.alpha @ log_u - (np.exp(self._model.m * log_u) * self._energy).sum(axis=0))

    def move(self, changes: FloatArray, patience: FloatArray) -> FloatArray:
        """Propose u exp(change), normalised; accept where ln density falls by less than patience ~ Exp(1)."""
        proposed = normalised(self.log_u + changes)
        density = self._log_density(proposed)
        accepted = self._density - density < patience
        self.log_u = np.where(accepted, proposed, self.log_u)
        self._density = np.where(accepted, density, self._density)
        return accepted.astype(np.float64)


def draw_prototypes(rng: np.random.Generator, totals: FloatArray, sums: FloatArray, model: Model) -> FloatArray:
    """From their conditional: totals (K,) and sums (K, p) are Σₙ uᵐ and Σₙ uᵐ x; a Gaussian in each coordinate."""
    precision = model.beta * totals[:, None] + 1.0 / model.prior_variances
    return np.asarray(model.beta * sums / precision + rng.standard_normal(sums.shape) / np.sqrt(precision))


def first_memberships(words: FloatArray, prototypes: FloatArray, m: float) -> FloatArray:
    """(K, N) ln u of fuzzy c-means, none too small to find its way back."""
    return normalised(np.log(np.maximum(memberships(words, prototypes, m).T, LEAST_START)))


def normalised(log_u: FloatArray) -> FloatArray:
    """ln u whose u sum to one over clusters."""
    shifted = log_u - log_u.max(axis=0)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=0)))


def collect(states: Iterator[State], reference: FloatArray, n_sweeps: int) -> Kept:
    """Means and draws of the second half of a chain. Its density does not mind how clusters are numbered, so every draw
    is renumbered to lie nearest to the reference (K, p)."""
    trace, draws, accepted = np.empty(n_sweeps), [], []
    best, best_u, best_prototypes = -np.inf, np.empty(0), reference
    total = squared = np.zeros(1)
    for t, state in enumerate(states):
        trace[t] = state.log_joint
        order = nearest_order(reference, state.prototypes)
        if state.log_joint > best:
            best, best_u, best_prototypes = state.log_joint, np.exp(state.log_u[order]), state.prototypes[order]
        if t >= n_sweeps // 2:
            u = np.exp(state.log_u[order])
            total, squared = total + u, squared + u**2
            draws.append(state.prototypes[order])
            accepted.append(state.accepted)
    mean = total / len(draws)
    mean /= mean.sum(axis=0)
    std = np.sqrt(np.maximum(squared / len(draws) - mean**2, 0.0))
    return Kept(mean, std, np.stack(draws), best_u, best_prototypes, trace, float(np.mean(accepted)))


def nearest_order(reference: FloatArray, prototypes: FloatArray) -> FloatArray:
    """(K,) prototypes[order] lies nearest to the reference."""
    d2 = ((reference[:, None] - prototypes) ** 2).sum(axis=2)
    return np.asarray(linear_sum_assignment(d2)[1])


def alone(
    words: FloatArray, prototypes: FloatArray, model: Model, n_steps: int, seed: int
) -> tuple[FloatArray, FloatArray]:
    """(K, N) means and deviations of memberships, prototypes known, after as many steps of warm-up as are counted.

    All words walk by the same random numbers: each for itself takes a random walk, and gets the same memberships
    whatever other words there are.
    """
    rng = np.random.default_rng(seed)
    energy = 0.5 * model.beta * squared_distances(words, squared_lengths(words), prototypes)
    walkers = Walkers(first_memberships(words, prototypes, model.m), energy, model)
    lengths, total, squared = np.full(len(words), FIRST_STEP), np.zeros_like(energy), np.zeros_like(energy)
    for t in range(2 * n_steps):
        changes = lengths * rng.standard_normal((len(prototypes), 1))
        accepted = walkers.move(changes, rng.standard_exponential(1))
        if t < n_steps:
            lengths *= np.exp((accepted - TARGET) / np.sqrt(1.0 + t))
        else:
            u = np.exp(walkers.log_u)
            total += u
            squared += u**2
    mean = total / total.sum(axis=0)
    return mean, np.sqrt(np.maximum(squared / n_steps - mean**2, 0.0))
