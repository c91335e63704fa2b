"""Visual-word LDA: words → the nearest of a dictionary → counts in documents → topics.

As the paper compares with it: the dictionary by k-means, the topics by the variational Bayes of Blei, Ng and Jordan
(2003) with smoothed topics, as in scikit-learn's LatentDirichletAllocation, here for all documents at once.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, psi

from pmlda.engines.diagnostics import optimiser_verdict
from pmlda.engines.parameters import bounded_array, sizable_array
from pmlda.families.rows import count_distinct
from pmlda.peers.base import Learnt, Peer, Task, starting_rows
from pmlda.peers.distances import nearest_centre
from pmlda.types import FloatArray, IntArray
from pmlda.validate import positive_array, require, whole

# Steps of all documents in each sweep; when topics are known, as many as it takes, but not more than the second.
STEPS, MOST_STEPS = 10, 2000
# Documents have settled when no concentration changes by more than this share of the document's words.
SETTLED = 1e-7
# The shape of the gamma distribution that topics start from: nearly even, unlike each other by a tenth.
START_SHAPE = 100.0
LEAST_CHANCE = 1e-100


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
        It stops when a sweep gains less bound than this per word.
    max_iter : int
        Sweeps at most; a warning tells when they were too few.
    random_state : int, RandomState or None

    Attributes beside those of every peer
    -------------------------------------
    dictionary_ : (V, p) centres of the visual words; topic_means_ are their means under each topic
    components_ : (K, V) the Dirichlet posterior of each topic's distribution of words
    bound_ : (n_iter_,) trace of the bound

    >>> X = np.repeat([[0.0], [0.1], [0.9], [1.0]], 20, axis=0)
    >>> model = Lda(2, dictionary=4, random_state=0).fit(X, groups=np.repeat([0, 1], 40))
    >>> np.sort(model.topic_means_.ravel()).round(1).tolist(), model.memberships_.shape
    ([0.1, 0.9], (80, 2))
    """

    name = "lda"
    minds_groups = True

    dictionary_: FloatArray
    components_: FloatArray
    bound_: FloatArray

    def __init__(
        self,
        n_components: int = 3,
        *,
        dictionary: int = 100,
        doc_topic_prior: float | None = None,
        topic_word_prior: float | None = None,
        n_init: int = 4,
        tol: float = 1e-6,
        max_iter: int = 1000,
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
        from sklearn.cluster import KMeans  # late: slow to import

        rng = np.random.default_rng(task.seed)
        rows = starting_rows(task.words, 1, rng)
        size = min(self.dictionary, count_distinct(rows, self.dictionary))
        centres = KMeans(size, n_init=1, random_state=task.seed).fit(rows).cluster_centers_
        counts = count_words(nearest_centre(task.words, centres)[0], size, task.document, task.n_documents)
        starts = rng.gamma(START_SHAPE, 1.0 / START_SHAPE, (self.n_init, task.n_topics, size))
        tried = [maximise(counts, start, *self._priors(), self.tol, self.max_iter) for start in starts]
        best = max(tried, key=lambda each: each.bound[-1])
        n_sweeps = len(best.bound)
        verdict = optimiser_verdict(n_sweeps, converged=best.converged, limit="max_iter")
        means = normalised(best.topics) @ centres
        fitted = {"dictionary_": task.units.back(centres), "components_": best.topics, "bound_": best.bound}
        return Learnt(means, n_sweeps, verdict, fitted)

    def _weigh(self, words: FloatArray, document: IntArray, n_documents: int) -> FloatArray:
        visual, _ = nearest_centre(words, self._units.into(self.dictionary_))
        counts = count_words(visual, len(self.dictionary_), document, n_documents)
        doc_topic = normalised(settle(counts, self.components_, self._priors()[0]))
        return normalised(doc_topic[document] * normalised(self.components_).T[visual])

    def _priors(self) -> tuple[float, float]:
        given = (self.doc_topic_prior, self.topic_word_prior)
        first, second = (1.0 / self.n_components if prior is None else float(prior) for prior in given)
        return first, second

    def _check_loaded(self) -> None:
        K, p = self.topic_means_.shape
        size = len(np.atleast_1d(self.dictionary_))
        require(size > 0, "dictionary_ is empty")
        self.dictionary_ = bounded_array("dictionary_", self.dictionary_, (size, p))
        self.components_ = sizable_array("components_", self.components_, (K, size))


class Maximum(NamedTuple):
    """Where a run ended: topics (K, V), the bound after every sweep, and whether it settled."""

    topics: FloatArray
    bound: FloatArray
    converged: bool


def maximise(counts: FloatArray, topics: FloatArray, alpha: float, eta: float, tol: float, max_iter: int) -> Maximum:
    """Sweeps over documents and topics, each of which raises the bound.

    counts : (D, V); topics : (K, V) λ, where to start; alpha, eta : priors of documents and topics
    """
    documents = even(counts, len(topics), alpha)
    trace: list[float] = []
    converged = False
    while not converged and len(trace) < max_iter:
        beta = np.exp(mean_log(topics))
        for _ in range(STEPS):
            documents = document_step(counts, documents, beta, alpha)
        theta = np.exp(mean_log(documents))
        topics = eta + beta * (theta.T @ ratio(counts, theta @ beta))
        trace.append(bound(counts, documents, topics, alpha, eta))
        converged = len(trace) > 1 and trace[-1] - trace[-2] < tol * counts.sum()
    return Maximum(topics, np.array(trace), converged)


def settle(counts: FloatArray, topics: FloatArray, alpha: float) -> FloatArray:
    """(D, K) the Dirichlet posterior of each document's proportions, topics known; no document minds the others."""
    documents, beta = even(counts, len(topics), alpha), np.exp(mean_log(topics))
    moving = np.arange(len(counts))
    for _ in range(MOST_STEPS):
        found = document_step(counts[moving], documents[moving], beta, alpha)
        moved = np.abs(found - documents[moving]).max(axis=1)
        documents[moving] = found
        moving = moving[moved > SETTLED * counts[moving].sum(axis=1)]
        if len(moving) == 0:
            break
    return documents


def even(counts: FloatArray, n_topics: int, alpha: float) -> FloatArray:
    """(D, K) documents that have equally much of each topic."""
    return np.repeat(alpha + counts.sum(axis=1, keepdims=True) / n_topics, n_topics, axis=1)


def document_step(counts: FloatArray, documents: FloatArray, beta: FloatArray, alpha: float) -> FloatArray:
    """γ ← α + Σ_v counts_v p(topic | v), for every document at once; beta is exp E[ln β]."""
    theta = np.exp(mean_log(documents))
    return alpha + theta * (ratio(counts, theta @ beta) @ beta.T)


def bound(counts: FloatArray, documents: FloatArray, topics: FloatArray, alpha: float, eta: float) -> float:
    """The evidence lower bound, words summed over their topics."""
    chance = np.exp(mean_log(documents)) @ np.exp(mean_log(topics))
    words = float((counts * np.log(np.maximum(chance, LEAST_CHANCE))).sum())
    return words - divergence(documents, alpha) - divergence(topics, eta)


def divergence(posterior: FloatArray, prior: float) -> float:
    """Σ KL(Dir(posterior) ‖ Dir(prior, …, prior)) over rows."""
    totals, width = posterior.sum(axis=1), posterior.shape[1]
    of_posterior = gammaln(totals) - gammaln(posterior).sum(axis=1)
    of_prior = gammaln(width * prior) - width * gammaln(prior)
    return float((of_posterior - of_prior + ((posterior - prior) * mean_log(posterior)).sum(axis=1)).sum())


def mean_log(concentrations: FloatArray) -> FloatArray:
    """E[ln θ] under Dir(concentrations), row by row."""
    return np.asarray(psi(concentrations) - psi(concentrations.sum(axis=1, keepdims=True)))


def ratio(counts: FloatArray, chance: FloatArray) -> FloatArray:
    """counts / chance, of which the least is what it takes to stay a number."""
    return np.asarray(counts / np.maximum(chance, LEAST_CHANCE))


def count_words(visual: IntArray, size: int, document: IntArray, n_documents: int) -> FloatArray:
    """(D, V) how often each visual word occurs in each document."""
    found = np.bincount(document * size + visual, minlength=n_documents * size)
    return found.reshape(n_documents, size).astype(np.float64)


def normalised(values: FloatArray) -> FloatArray:
    """Rows that sum to one."""
    return np.asarray(values / values.sum(axis=1, keepdims=True))
