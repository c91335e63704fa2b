"""How well topics predict words that were held out: half of the words of a document tell π and s, others are scored.

The score of a word is ln p(x) = ln ∫ Dir(z; sπ) p(x | z) dz. Half of the points that estimate the integral come from
the Dirichlet that the engine finds for the word, and half from its prior Dir(sπ), so that the ratio of densities is
bounded by 2 p(x | z). A mean of few points makes the logarithm too small, by half of its relative variance, and more so
for more topics: that is added again. The same documents have the same random numbers, whatever the threads.
"""

import numpy as np
from numpy.typing import NDArray

from pmlda.engines.base import Task
from pmlda.engines.documents import take_rows
from pmlda.engines.variational import infer_memberships
from pmlda.engines.variational_learning import settle
from pmlda.families.base import Family
from pmlda.model import draw_log_dirichlet, log_dirichlet
from pmlda.types import BoolArray, Documents, FloatArray, Topics

# Points for each word; words at a time, and numbers that may be held for them.
N_POINTS, WORDS_AT_ONCE, MOST_NUMBERS = 128, 256, 2**22
# Concentrations below this are all at corners, and their logarithms still finite.
SMALLEST = 1e-8


def score_words(task: Task, topics: Topics, scored: BoolArray) -> tuple[FloatArray, FloatArray]:
    """(N,) ln p(x) of scored words under π and s from the other words of their document, and (N, K) E[z]; else NaN.

    task : documents around the same centre as the topics; each has words of both kinds
    scored : (N,) which words are scored
    """
    documents, n_topics = task.documents, len(topics.means)
    giving, chosen = some_words(documents, ~scored)
    a = settle(task._replace(documents=giving), topics).a
    held, numbers = some_words(documents, scored)
    a = np.ascontiguousarray(a[np.searchsorted(chosen, numbers)])
    found = infer_memberships(task._replace(documents=held, refits=None), topics, a[None])
    prior = np.maximum(a, SMALLEST)[held.document]
    near = prior if found.concentrations is None else np.maximum(found.concentrations, SMALLEST)
    width = task.family.natural(topics).shape[1]
    at_once = max(1, min(WORDS_AT_ONCE, MOST_NUMBERS // (N_POINTS * width)))

    def of_part(first: int) -> FloatArray:
        rows = slice(first, first + at_once)
        rng = np.random.default_rng([task.seed, first])
        return log_evidence(rng, held.words[rows], prior[rows], near[rows], topics, task.family)

    logs = np.full(len(scored), np.nan)
    logs[scored] = np.concatenate(task.workers.map(of_part, range(0, len(prior), at_once)))
    memberships = np.full((len(scored), n_topics), np.nan)
    memberships[scored] = found.mean.memberships
    return logs, memberships


def log_evidence(
    rng: np.random.Generator,
    words: NDArray[np.floating],
    prior: FloatArray,
    near: FloatArray,
    topics: Topics,
    family: Family,
) -> FloatArray:
    """(n,) ln ∫ Dir(z; prior) p(x | z) dz of each word.

    prior, near : (n, K) concentrations; points come from both

    >>> from pmlda.families import Gaussian
    >>> topics, one = Topics(np.array([[0.0], [0.0]]), np.array(1.0)), np.ones((1, 2))
    >>> log_evidence(np.random.default_rng(0), np.zeros((1, 1)), one, one, topics, Gaussian()).round(4).tolist()
    [-0.9189]
    """
    n_topics, half = prior.shape[1], N_POINTS // 2
    repeated = [np.repeat(each, half, axis=0) for each in (near, prior)]
    log_z = np.concatenate([draw_log_dirichlet(rng, each).reshape(-1, half, n_topics) for each in repeated], axis=1)
    flat, (n, n_points) = log_z.reshape(-1, n_topics), log_z.shape[:2]
    log_prior, log_near = (log_dirichlet(flat, np.repeat(each, n_points, axis=0)) for each in (prior, near))
    log_weight = log_prior - np.logaddexp(log_prior, log_near) + np.log(2.0)
    log_weight = log_weight.reshape(n, n_points) + _log_likelihood(words, np.exp(log_z), topics, family)
    top = log_weight.max(axis=1, keepdims=True)
    weight = np.exp(log_weight - top)
    mean = weight.mean(axis=1)
    lost = 0.5 * weight.var(axis=1) / mean**2 / n_points
    return np.asarray(top[:, 0] + np.log(mean) + lost + family.log_base(words, topics))


def _log_likelihood(words: NDArray[np.floating], z: FloatArray, topics: Topics, family: Family) -> FloatArray:
    """(n, S) z·ℓ(x) − A(Σ z_k η_k) of every word at points of its own, z (n, S, K)."""
    fit = np.einsum("nsk,nk->ns", z, family.scores(words, topics))
    if family.quadratic:
        return np.asarray(fit - 0.5 * ((z @ family.table(topics)) * z).sum(axis=2))
    eta = family.natural(topics)
    return np.stack([fit[:, s] - family.partitions(words, z[:, s] @ eta, topics) for s in range(z.shape[1])], axis=1)


def some_words(documents: Documents, used: BoolArray) -> tuple[Documents, NDArray[np.int64]]:
    """The documents of some of their words, and the numbers (d,) of those that have any."""
    rows = np.flatnonzero(used)
    chosen, document = np.unique(documents.document[rows], return_inverse=True)
    return take_rows(documents, rows, chosen, document), chosen


def halves(documents: Documents) -> BoolArray:
    """(N,) the later half of the rows of every document, which lie together where rows lie as pixels do."""
    place = np.arange(len(documents.words)) - documents.starts[documents.document]
    return np.asarray(2 * place >= documents.sizes[documents.document])
