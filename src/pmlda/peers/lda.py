"""Visual-word LDA: words → the nearest of a dictionary → counts in documents → topics (Blei, Ng and Jordan 2003).

As the paper compares with it: the dictionary by k-means, the topics by scikit-learn's variational LDA.
"""

import numpy as np
from scipy.special import psi
from sklearn.cluster import KMeans
from sklearn.decomposition import LatentDirichletAllocation
from sklearn.metrics import pairwise_distances_argmin

from pmlda.peers.base import Learnt, Peer, Task, starting_rows
from pmlda.rows import count_distinct
from pmlda.types import FloatArray, IntArray
from pmlda.validate import positive_array, require, whole

# Sweeps between two looks at the perplexity, and how exactly each document is settled in a sweep.
LOOK_EVERY = 10
DOCUMENT_STEPS, DOCUMENT_TOL = 200, 1e-4


class Lda(Peer):
    """Latent Dirichlet allocation on visual words.

    The membership of a word is p(topic | word, document) ∝ doc_topic[k] · topic_word[k, w]: doubt about the one topic
    that it has, which depends on its document. Without groups all rows are one document, from which LDA cannot learn
    which words belong together.

    Parameters
    ----------
    n_components : int
        Number of topics, K.
    dictionary : int
        Number of visual words; fewer where the data have fewer different rows. The paper used 100 and 200.
    doc_topic_prior, topic_word_prior : float or None
        Of the two Dirichlet distributions; None is 1 / K, as in scikit-learn.
    n_init : int
        Starts, of which the one with the highest bound is kept.
    tol : float
        It stops when ten sweeps improve the perplexity by less than this.
    max_iter : int
        Sweeps at most; a warning tells when they were too few.
    random_state : int, RandomState or None

    Attributes beside those of every peer
    -------------------------------------
    dictionary_ : (V, p) centres of the visual words; topic_means_ are their means under each topic
    components_ : (K, V) the Dirichlet posterior of each topic's distribution of words

    >>> X = np.repeat([[0.0], [0.1], [0.9], [1.0]], 20, axis=0)
    >>> model = Lda(2, dictionary=4, random_state=0).fit(X, groups=np.repeat([0, 1], 40))
    >>> np.sort(model.topic_means_.ravel()).round(1).tolist(), model.memberships_.shape
    ([0.1, 0.9], (80, 2))
    """

    name = "lda"
    summary = "LDA on a dictionary of visual words: every word has one topic, more or less surely"

    dictionary_: FloatArray
    components_: FloatArray

    def __init__(
        self,
        n_components: int = 3,
        *,
        dictionary: int = 100,
        doc_topic_prior: float | None = None,
        topic_word_prior: float | None = None,
        n_init: int = 4,
        tol: float = 1e-3,
        max_iter: int = 500,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_components = n_components
        self.dictionary = dictionary
        self.doc_topic_prior = doc_topic_prior
        self.topic_word_prior = topic_word_prior
        self.n_init = n_init
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def _check_settings(self) -> None:
        whole("dictionary", self.dictionary, 1)
        whole("n_init", self.n_init, 1)
        whole("max_iter", self.max_iter, 1)
        positive_array("tol", self.tol, ())
        for name in ("doc_topic_prior", "topic_word_prior"):
            if getattr(self, name) is not None:
                positive_array(name, getattr(self, name), ())

    def _learn(self, task: Task) -> Learnt:
        rows = starting_rows(task.words, 1, np.random.default_rng(task.seed))
        size = min(self.dictionary, count_distinct(rows, self.dictionary))
        centres = KMeans(size, n_init=1, random_state=task.seed).fit(rows).cluster_centers_
        counts = count_words(task.words, centres, task.document, task.n_documents)
        seeds = np.random.default_rng(task.seed).integers(2**31, size=self.n_init)
        tried = [self._model(task.n_topics, int(seed)).fit(counts) for seed in seeds]
        best = max(tried, key=lambda model: model.score(counts))
        settled = f"The perplexity settled after {best.n_iter_} sweeps."
        rising = f"The perplexity still fell after {best.n_iter_} sweeps. Give a larger max_iter, or a larger tol."
        converged = best.n_iter_ < self.max_iter
        fitted = {"dictionary_": task.units.back(centres), "components_": best.components_}
        means = normalised(best.components_) @ centres
        return Learnt(means, int(best.n_iter_), converged, settled if converged else rising, fitted)

    def _weigh(self, words: FloatArray, document: IntArray, n_documents: int) -> FloatArray:
        centres = self._units.into(self.dictionary_)
        visual = pairwise_distances_argmin(words, centres)
        counts = count_words(words, centres, document, n_documents)
        doc_topic = self._fitted_model().transform(counts)
        return normalised(doc_topic[document] * normalised(self.components_).T[visual])

    def _model(self, n_topics: int, seed: int) -> LatentDirichletAllocation:
        return LatentDirichletAllocation(
            n_topics,
            doc_topic_prior=self.doc_topic_prior,
            topic_word_prior=self.topic_word_prior,
            learning_method="batch",
            max_iter=self.max_iter,
            evaluate_every=LOOK_EVERY,
            perp_tol=self.tol,
            max_doc_update_iter=DOCUMENT_STEPS,
            mean_change_tol=DOCUMENT_TOL,
            random_state=seed,
        )

    def _fitted_model(self) -> LatentDirichletAllocation:
        """scikit-learn's own, from the fitted attributes alone."""
        n_topics, size = self.components_.shape
        model = self._model(n_topics, self.seed_)
        model.components_ = self.components_
        totals = self.components_.sum(axis=1, keepdims=True)
        model.exp_dirichlet_component_ = np.exp(psi(self.components_) - psi(totals))
        model.doc_topic_prior_ = 1.0 / n_topics if self.doc_topic_prior is None else self.doc_topic_prior
        model.n_features_in_ = size
        return model

    def _check_loaded(self) -> None:
        K, p = self.topic_means_.shape
        size = len(self.dictionary_)
        require(np.shape(self.dictionary_) == (size, p) and size > 0, "dictionary_ has the wrong shape")
        require(bool(np.isfinite(self.dictionary_).all()), "dictionary_ is not finite")
        self.components_ = positive_array("components_", self.components_, (K, size))


def count_words(words: FloatArray, centres: FloatArray, document: IntArray, n_documents: int) -> IntArray:
    """(D, V) how often each visual word occurs in each document."""
    visual = pairwise_distances_argmin(words, centres)
    size = len(centres)
    return np.bincount(document * size + visual, minlength=n_documents * size).reshape(n_documents, size)


def normalised(values: FloatArray) -> FloatArray:
    """Rows that sum to one."""
    return np.asarray(values / values.sum(axis=1, keepdims=True))
