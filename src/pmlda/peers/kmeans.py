"""K-means, by scikit-learn: words → centres, and the nearest of them for each word."""

import numpy as np

from pmlda.engines.diagnostics import optimiser_verdict
from pmlda.peers.base import Learnt, Peer, Task, starting_rows
from pmlda.peers.distances import nearest_centre
from pmlda.types import FloatArray, IntArray
from pmlda.validate import positive_array, whole


class Kmeans(Peer):
    """K-means. Memberships are one for the nearest centre and zero for all others.

    Parameters
    ----------
    n_components : int
        Number of clusters, K.
    n_init : int
        Starts, by the rule of k-means++, of which the best by inertia goes on. They are tried on at most 20,000 rows.
    tol : float
        It stops when centres move by less than this, in units of the data's variance; see scikit-learn's KMeans.
    max_iter : int
        Sweeps at most.
    random_state : int, RandomState or None

    >>> X = np.array([[0.0], [0.1], [0.9], [1.0]])
    >>> Kmeans(2, random_state=0).fit(X).memberships_[:, 0].sum().item()
    2.0
    """

    name = "kmeans"

    def __init__(
        self,
        n_components: int = 3,
        *,
        n_init: int = 10,
        tol: float = 1e-4,
        max_iter: int = 300,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_components = n_components
        self.n_init = n_init
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def _check_settings(self) -> None:
        whole("n_init", self.n_init, 1)
        whole("max_iter", self.max_iter, 1)
        positive_array("tol", self.tol, ())

    def _learn(self, task: Task) -> Learnt:
        from sklearn.cluster import KMeans  # late: slow to import

        K, stop = task.n_topics, {"tol": self.tol, "max_iter": self.max_iter}
        rows = starting_rows(task.words, K, np.random.default_rng(task.seed))
        found = KMeans(K, n_init=self.n_init, random_state=task.seed, **stop).fit(rows)
        if rows is not task.words:
            found = KMeans(K, init=found.cluster_centers_, n_init=1, **stop).fit(task.words)
        n_sweeps = int(found.n_iter_)
        told = {"limit": "max_iter", "settled": "K-means settled", "moving": "Centres still moved"}
        verdict = optimiser_verdict(n_sweeps, converged=n_sweeps < self.max_iter, **told)
        return Learnt(found.cluster_centers_, n_sweeps, verdict, {})

    def _weigh(self, words: FloatArray, document: IntArray, n_documents: int) -> FloatArray:
        return np.asarray(np.eye(len(self.topic_means_))[nearest_centre(words, self._centres)[0]])
