"""Gaussian mixture, by scikit-learn: words → components, and how probable it is that each made a word."""

import warnings
from typing import TYPE_CHECKING

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from pmlda.engines.diagnostics import optimiser_verdict
from pmlda.peers.base import Learnt, Peer, Task, starting_rows
from pmlda.types import FloatArray, IntArray
from pmlda.validate import choice, covariance_matrix, positive_array, real_array, require, shares_array, whole

if TYPE_CHECKING:
    from sklearn.mixture import GaussianMixture

COVARIANCES = ("full", "tied", "diag", "spherical")


class Gmm(Peer):
    """Gaussian mixture. Memberships are responsibilities: doubt about which component made a word, not degree.

    Parameters
    ----------
    n_components : int
        Number of components, K.
    covariance : {"full", "tied", "diag", "spherical"}
        As in scikit-learn: one matrix for each component, one for all, variances, or one variance for each.
    n_init : int
        Starts from k-means, of which the best by likelihood goes on. They are tried on at most 20,000 rows.
    tol : float
        It stops when a sweep gains less mean log density than this.
    max_iter : int
        Sweeps at most; a warning tells when they were too few.
    random_state : int, RandomState or None

    Attributes beside those of every peer
    -------------------------------------
    weights_ : (K,) share of each component
    covariances_ : shape by covariance, as in scikit-learn

    >>> X = np.random.default_rng(0).normal(size=(60, 2)) + np.repeat([[0.0], [9.0]], 30, axis=0)
    >>> Gmm(2, random_state=0).fit(X).weights_.round(2).tolist()
    [0.5, 0.5]
    """

    name = "gmm"

    weights_: FloatArray
    covariances_: FloatArray

    def __init__(
        self,
        n_components: int = 3,
        *,
        covariance: str = "full",
        n_init: int = 5,
        tol: float = 1e-4,
        max_iter: int = 500,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_components = n_components
        self.covariance = covariance
        self.n_init = n_init
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def _check_settings(self) -> None:
        choice("covariance", self.covariance, COVARIANCES)
        whole("n_init", self.n_init, 1)
        whole("max_iter", self.max_iter, 1)
        positive_array("tol", self.tol, ())

    def _learn(self, task: Task) -> Learnt:
        from sklearn.mixture import GaussianMixture  # late: slow to import

        settings = {"covariance_type": self.covariance, "tol": self.tol, "max_iter": self.max_iter}
        rows = starting_rows(task.words, task.n_topics, np.random.default_rng(task.seed))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # told by the verdict
            found = GaussianMixture(task.n_topics, n_init=self.n_init, random_state=task.seed, **settings).fit(rows)
            if rows is not task.words:
                start = {
                    "weights_init": found.weights_,
                    "means_init": found.means_,
                    "precisions_init": found.precisions_,
                }
                found = GaussianMixture(task.n_topics, random_state=task.seed, **start, **settings).fit(task.words)
        n_sweeps = int(found.n_iter_)
        told = {"limit": "max_iter", "settled": "The likelihood settled", "moving": "The likelihood still rose"}
        verdict = optimiser_verdict(n_sweeps, converged=bool(found.converged_), **told)
        fitted = {"weights_": found.weights_, "covariances_": found.covariances_ * task.units.size**2}
        return Learnt(found.means_, n_sweeps, verdict, fitted)

    def _weigh(self, words: FloatArray, document: IntArray, n_documents: int) -> FloatArray:
        return np.asarray(self._mixture().predict_proba(words))

    def _mixture(self) -> "GaussianMixture":
        """scikit-learn's own, in units, from the fitted attributes alone."""
        from sklearn.mixture import GaussianMixture

        mixture = GaussianMixture(len(self.topic_means_), covariance_type=self.covariance)
        mixture.weights_, mixture.means_ = self.weights_, self._centres
        mixture.covariances_ = self.covariances_ / self.unit_**2
        mixture.precisions_cholesky_ = inverse_roots(mixture.covariances_, self.covariance)
        return mixture

    def _check_loaded(self) -> None:
        K, p = self.topic_means_.shape
        shape = {"full": (K, p, p), "tied": (p, p), "diag": (K, p), "spherical": (K,)}[self.covariance]
        self.weights_ = shares_array("weights_", self.weights_, (K,))
        self.covariances_ = real_array("covariances_", self.covariances_, shape)
        if self.covariance in ("full", "tied"):
            for matrix in self.covariances_.reshape(-1, p, p):
                covariance_matrix("covariances_", matrix, p)
        require(bool(np.isfinite(inverse_roots(self.covariances_, self.covariance)).all()), "covariances_ are not such")


def inverse_roots(covariances: FloatArray, kind: str) -> FloatArray:
    """What scikit-learn calls precisions_cholesky_: upper triangular U with UUᵀ = Σ⁻¹, or 1/σ."""
    if kind in ("diag", "spherical"):
        require(bool((covariances > 0).all()), "Variances must be positive.")
        return np.asarray(1.0 / np.sqrt(covariances))
    return np.asarray(np.swapaxes(np.linalg.inv(np.linalg.cholesky(covariances)), -1, -2))
