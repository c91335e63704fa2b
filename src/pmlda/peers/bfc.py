"""Bayesian fuzzy clustering (Glenn, Zare and Gader 2015): words → draws of memberships and prototypes.

The model makes fuzzy c-means a posterior. Its likelihood gives every word a Gaussian around each prototype, with
precision β uₙₖᵐ; its prior of memberships is Dir(α) times what cancels the normalising factors of those. What is left,
and sampled, is

    ln p = −½ β Σₙ Σₖ uₙₖᵐ ‖xₙ − yₖ‖² + Σₙ Σₖ (αₖ − 1) ln uₙₖ − ½ Σₖ (yₖ − μ)ᵀ (γ Σ)⁻¹ (yₖ − μ) + constant

with μ and Σ the mean and covariance of the data. The paper has β = 1, so that the unit of the features decides how
sharp memberships are; here it can be set, and by default follows the noise. The paper proposes memberships from Dir(1)
and prototypes by small steps; bfc_sampler.py has a chain for the same density that moves faster.
"""

import numpy as np
from numpy.typing import ArrayLike

from pmlda.engines.diagnostics import (
    MIN_DRAWS,
    NOT_MIXED_ESS,
    NOT_MIXED_RHAT,
    effective_sample_size,
    split_rhat,
    too_short,
)
from pmlda.engines.parameters import sizable_array
from pmlda.peers.base import Learnt, Peer, Task, starting_rows
from pmlda.peers.bfc_sampler import Model, alone, collect, run
from pmlda.peers.distances import blocks, nearest_centre
from pmlda.peers.fcm import check_fuzzifier, minimise, spread_out
from pmlda.types import FloatArray, IntArray, Verdict
from pmlda.validate import choice, positive_array, whole

# Starts of fuzzy c-means, from which the chain starts, and how they stop.
STARTS, START_TOL, START_SWEEPS = 4, 1e-4, 200
# Words between centres count as noise, which makes it two to four times too large. Of 0.3, 1, 3, 10, 30 and 100, 3 came
# nearest to the truth with m = 1.5, on words simulated from PM-LDA and on a made-up picture alike.
SHARPNESS = 3.0
# The noise is never taken to be smaller than this share of the data's variance, nor a direction of the prior.
LEAST_NOISE, LEAST_DIRECTION = 1e-6, 1e-9


class Bfc(Peer):
    """Bayesian fuzzy clustering. Memberships are posterior means.

    Posterior means are drawn towards 1 / K where the data leave memberships open; the sample of largest density is
    kept beside them.

    Parameters
    ----------
    n_components : int
        Number of clusters, K.
    fuzzifier : float
        m > 1, as in fuzzy c-means.
    alpha : float or (K,) array
        Of the Dirichlet prior of memberships. 1 prefers none; smaller values make them crisper.
    scale : float or "auto"
        β, by which squared distances are multiplied. "auto" is three over the variance, by feature, of words around
        the nearest centre of fuzzy c-means. Larger values come nearer to fuzzy c-means itself.
    prior_spread : float
        γ, the covariance of the prior of prototypes in units of that of the data. 3 is that of the authors' program.
    n_sweeps : int
        Sweeps, warm-up included, which is half of them.
    steps : int
        Proposals of each word's memberships in a sweep.
    random_state : int, RandomState or None

    Attributes beside those of every peer
    -------------------------------------
    membership_std_ : (N, K) standard deviations of the draws
    map_memberships_, map_means_ : (N, K) and (K, p), the sample of largest density
    prototype_draws_ : (S, K, p) draws after warm-up
    log_joint_ : (n_sweeps,) the density above, without its constant
    acceptance_ : share of proposals of memberships that were accepted after warm-up
    scale_ : β

    >>> X = np.random.default_rng(0).normal(size=(40, 1)) + np.repeat([[0.0], [9.0]], 20, axis=0)
    >>> model = Bfc(2, n_sweeps=400, random_state=0).fit(X)
    >>> bool(np.abs(np.sort(model.topic_means_.ravel()) - [0.0, 9.0]).max() < 1.5), model.prototype_draws_.shape
    (True, (200, 2, 1))
    """

    name = "bfc"

    scale_: float
    log_joint_: FloatArray
    acceptance_: float
    prototype_draws_: FloatArray
    map_memberships_: FloatArray
    map_means_: FloatArray

    def __init__(
        self,
        n_components: int = 3,
        *,
        fuzzifier: float = 1.5,
        alpha: ArrayLike = 1.0,
        scale: float | str = "auto",
        prior_spread: float = 3.0,
        n_sweeps: int = 1000,
        steps: int = 5,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_components = n_components
        self.fuzzifier = fuzzifier
        self.alpha = alpha
        self.scale = scale
        self.prior_spread = prior_spread
        self.n_sweeps = n_sweeps
        self.steps = steps
        self.random_state = random_state

    def _check_settings(self) -> None:
        check_fuzzifier(self.fuzzifier)
        positive_array("alpha", self.alpha, (), (self.n_components,))
        positive_array("prior_spread", self.prior_spread, ())
        whole("n_sweeps", self.n_sweeps, 2)
        whole("steps", self.steps, 1)
        if isinstance(self.scale, str):
            choice("scale", self.scale, ("auto",))
        else:
            positive_array("scale", self.scale, ())

    def _learn(self, task: Task) -> Learnt:
        rng = np.random.default_rng(task.seed)
        # In the eigenvectors of the data's covariance the prior of prototypes has independent coordinates.
        variances, axes = np.linalg.eigh(np.cov(task.words.T, bias=True).reshape(task.words.shape[1], -1))
        words = task.words @ axes
        centres = start(words, task.n_topics, self.fuzzifier, rng)
        beta = noise_precision(words, centres) if isinstance(self.scale, str) else self.scale * task.units.size**2
        model = self._model(beta, self.prior_spread * np.maximum(variances, LEAST_DIRECTION * variances.max()))
        kept = collect(run(rng, words, centres, model, self.n_sweeps, self.steps), centres, self.n_sweeps)
        fitted = {
            "scale_": beta / task.units.size**2,
            "log_joint_": kept.log_joint,
            "acceptance_": kept.acceptance,
            "prototype_draws_": task.units.back(kept.prototypes @ axes.T),
            "map_memberships_": kept.best_u.T,
            "map_means_": task.units.back(kept.best_prototypes @ axes.T),
        }
        means = kept.prototypes.mean(axis=0) @ axes.T
        return Learnt(means, self.n_sweeps, judge(kept.prototypes), fitted, kept.mean.T, kept.std.T)

    def _model(self, beta: float, prior_variances: FloatArray) -> Model:
        alpha = positive_array("alpha", self.alpha, (), (self.n_components,))
        return Model(float(self.fuzzifier), alpha, beta, prior_variances)

    def _weigh(self, words: FloatArray, document: IntArray, n_documents: int) -> FloatArray:
        return self._weigh_with_std(words, document, n_documents)[0]

    def _weigh_with_std(self, words: FloatArray, document: IntArray, n_documents: int) -> tuple[FloatArray, FloatArray]:
        """Means and deviations of each word's memberships, prototypes taken as known; words do not mind each other."""
        model = self._model(self.scale_ * self.unit_**2, np.empty(0))
        n_steps = self.n_sweeps * self.steps // 2
        found = [alone(words[at], self._centres, model, n_steps, self.seed_) for at in blocks(len(words))]
        mean, std = (np.concatenate([each[i] for each in found], axis=1).T for i in range(2))
        return mean, std

    def _check_loaded(self) -> None:
        self.scale_ = float(sizable_array("scale_", self.scale_, (), power=2))


def start(words: FloatArray, n_topics: int, m: float, rng: np.random.Generator) -> FloatArray:
    """(K, p) centres of fuzzy c-means, the best of a few starts."""
    rows = starting_rows(words, n_topics, rng)
    starts = [spread_out(rows, n_topics, rng) for _ in range(STARTS)]
    tried = [minimise(rows, each, m, START_TOL, START_SWEEPS) for each in starts]
    best = min(tried, key=lambda each: each.objective)
    return best.centres


def noise_precision(words: FloatArray, centres: FloatArray) -> float:
    """β by default: SHARPNESS over the variance, by feature, of words around the nearest centre."""
    variance = float(nearest_centre(words, centres)[1].mean() / words.shape[1])
    return SHARPNESS / max(variance, LEAST_NOISE)


def judge(prototypes: FloatArray) -> Verdict:
    """Whether draws (S, K, p) of one chain, the second half of its sweeps, have mixed."""
    n_draws = len(prototypes)
    if n_draws < MIN_DRAWS:
        return too_short(2 * n_draws)
    rhat, ess = float(split_rhat(prototypes[None]).max()), float(effective_sample_size(prototypes[None]).min())
    numbers = f"R-hat {rhat:.3f}, effective sample size (ESS) {ess:.0f}"
    if rhat > NOT_MIXED_RHAT or ess < NOT_MIXED_ESS:
        return Verdict("not_converged", f"Prototypes have not mixed: {numbers}.", "Give a larger n_sweeps.")
    return Verdict("converged", f"Prototypes have mixed: {numbers}.")
