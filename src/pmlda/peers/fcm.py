"""Fuzzy c-means (Bezdek 1981): words → centres and memberships that fall off with distance.

It minimises Σₙ Σₖ uₙₖᵐ ‖xₙ − cₖ‖² over centres c and memberships u, whose rows sum to one. Given centres,
uₙₖ ∝ dₙₖ^(−2/(m−1)) with d the distance; given memberships, a centre is the mean of the words weighted by uᵐ. All of it
is done in logarithms, because that power is the hundredth or more for fuzzifiers m near 1.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pmlda.engines.diagnostics import optimiser_verdict
from pmlda.peers.base import Learnt, Peer, Task, starting_rows
from pmlda.peers.distances import blocks, squared_distances, squared_lengths
from pmlda.types import FloatArray, IntArray
from pmlda.validate import positive_array, real_array, require, whole

# Weights of a cluster that sum to less than this are computed again relative to its largest.
TINY = 1e-200


class Fcm(Peer):
    """Fuzzy c-means.

    Parameters
    ----------
    n_components : int
        Number of clusters, K.
    fuzzifier : float
        m > 1: near 1 memberships are crisp, large ones make them all alike. The paper used 1.5.
    n_init : int
        Starts, by the rule of k-means++, of which the one with the smallest objective goes on. They are tried on at
        most 20,000 rows.
    init : (K, p) array or None
        Centres to start from, instead.
    tol : float
        It stops when no centre moves by more than this in a sweep, in units of the root mean squared distance of
        the data from their mean.
    max_iter : int
        Sweeps at most; a warning tells when they were too few.
    random_state : int, RandomState or None

    Attributes beside those of every peer
    -------------------------------------
    objective_ : float, Σₙ Σₖ uₙₖᵐ ‖xₙ − cₖ‖² at the end

    >>> X = np.array([[0.0], [0.1], [0.9], [1.0]])
    >>> sorted(Fcm(2, random_state=0).fit(X).topic_means_.round(2).ravel().tolist())
    [0.05, 0.95]
    """

    name = "fcm"

    objective_: float

    def __init__(
        self,
        n_components: int = 3,
        *,
        fuzzifier: float = 1.5,
        n_init: int = 4,
        init: ArrayLike | None = None,
        tol: float = 1e-5,
        max_iter: int = 1000,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_components = n_components
        self.fuzzifier = fuzzifier
        self.n_init = n_init
        self.init = init
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def _check_settings(self) -> None:
        check_fuzzifier(self.fuzzifier)
        whole("n_init", self.n_init, 1)
        whole("max_iter", self.max_iter, 1)
        positive_array("tol", self.tol, ())

    def _learn(self, task: Task) -> Learnt:
        rng, stop = np.random.default_rng(task.seed), (self.fuzzifier, self.tol, self.max_iter)
        if self.init is None:
            rows = starting_rows(task.words, task.n_topics, rng)
            starts = [spread_out(rows, task.n_topics, rng) for _ in range(self.n_init)]
        else:
            rows = task.words
            starts = [task.units.into(real_array("init", self.init, (task.n_topics, rows.shape[1])))]
        found = min((minimise(rows, start, *stop) for start in starts), key=lambda each: each.objective)
        if rows is not task.words:
            found = minimise(task.words, found.centres, *stop)
        objective = {"objective_": found.objective * task.units.size**2}
        told = {"limit": "max_iter", "settled": "Fuzzy c-means settled", "moving": "Centres still moved"}
        verdict = optimiser_verdict(found.n_sweeps, converged=found.converged, **told)
        return Learnt(found.centres, found.n_sweeps, verdict, objective)

    def _weigh(self, words: FloatArray, document: IntArray, n_documents: int) -> FloatArray:
        return memberships(words, self._centres, self.fuzzifier)


class Minimum(NamedTuple):
    """Where a run ended."""

    centres: FloatArray
    objective: float
    n_sweeps: int
    converged: bool


def check_fuzzifier(fuzzifier: float) -> None:
    m = float(real_array("fuzzifier", fuzzifier, ()))
    require(m > 1.0, f"fuzzifier={fuzzifier!r}: give a number above 1. At 1 fuzzy c-means would be k-means.")


def minimise(words: FloatArray, centres: FloatArray, m: float, tol: float, max_iter: int) -> Minimum:
    """Sweeps until no centre moves by more than tol. The objective is that of the last but one centres."""
    lengths = squared_lengths(words)
    objective, moved, n_sweeps = np.inf, np.inf, 0
    while moved > tol and n_sweeps < max_iter:
        found, objective = sweep(words, lengths, centres, m)
        moved = float(np.sqrt(((found - centres) ** 2).sum(axis=1).max()))
        centres = found
        n_sweeps += 1
    return Minimum(centres, objective, n_sweeps, moved <= tol)


def sweep(
    words: FloatArray, lengths: FloatArray, centres: FloatArray, m: float, shift: FloatArray | None = None
) -> tuple[FloatArray, float]:
    """The centres that follow from the memberships that follow from these, and the objective of both at these.

    shift : (K,) taken from the logarithm of each cluster's memberships, so that their weights do not vanish
    """
    K = len(centres)
    totals, sums, largest = np.zeros(K), np.zeros_like(centres), np.full(K, -np.inf)
    objective = 0.0
    for at in blocks(len(words)):
        log_u, log_j = log_memberships(squared_distances(words[at], lengths[at], centres), m)
        largest = np.maximum(largest, log_u.max(axis=1))
        weights = np.exp(m * (log_u if shift is None else log_u - shift[:, None]))
        totals += weights.sum(axis=1)
        sums += weights @ words[at]
        objective += float(np.exp(log_j).sum())
    if shift is None and totals.min() < TINY:
        return sweep(words, lengths, centres, m, np.where(np.isfinite(largest), largest, 0.0))
    used = totals > 0  # a cluster of no word at all stays where it is
    return np.where(used[:, None], sums / np.where(used, totals, 1.0)[:, None], centres), objective


def memberships(words: FloatArray, centres: FloatArray, m: float) -> FloatArray:
    """(N, K) memberships, given the centres."""
    found = np.empty((len(words), len(centres)))
    for at in blocks(len(words)):
        d2 = squared_distances(words[at], squared_lengths(words[at]), centres)
        found[at] = np.exp(log_memberships(d2, m)[0]).T
    return found


def log_memberships(d2: FloatArray, m: float) -> tuple[FloatArray, FloatArray]:
    """(K, N) ln u, and (N,) the logarithm of each word's part of the objective, Σₖ uₖᵐ dₖ².

    With those memberships the part is (Σₖ dₖ^(−2/(m−1)))^(1−m). A word that is on a centre belongs to it wholly, and to
    several on which it is in equal parts.
    """
    with np.errstate(divide="ignore"):
        log_d2 = np.log(d2)
    on_centre = np.isneginf(log_d2).any(axis=0)
    if on_centre.any():
        log_d2[:, on_centre] = np.where(np.isneginf(log_d2[:, on_centre]), 0.0, np.inf)
    nearest = log_d2.min(axis=0)
    log_u = (nearest - log_d2) / (m - 1.0)
    log_sum = np.log(np.exp(log_u).sum(axis=0))
    log_j = np.where(on_centre, -np.inf, nearest - (m - 1.0) * log_sum)
    return log_u - log_sum, log_j


def spread_out(words: FloatArray, n_centres: int, rng: np.random.Generator) -> FloatArray:
    """Words to start from, by the rule of k-means++: each is drawn ∝ its squared distance from those before."""
    chosen = [words[rng.integers(len(words))]]
    d2 = np.full(len(words), np.inf)
    while len(chosen) < n_centres:
        d2 = np.minimum(d2, ((words - chosen[-1]) ** 2).sum(axis=1))
        chosen.append(words[rng.choice(len(words), p=d2 / d2.sum())])
    return np.stack(chosen)
