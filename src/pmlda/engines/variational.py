"""Engine "variational": a Dirichlet distribution for every word; refits; new documents; streams of batches.

engines.variational_learning has how topics are learnt, engines.variational_refits how sure they are.
"""

from typing import NamedTuple

import numpy as np

from pmlda.engines import variational_steps as steps
from pmlda.engines import variational_tuning as tuning
from pmlda.engines.base import Engine, Outcome, Task
from pmlda.engines.variational_learning import known_documents, learn, settings_of, settle, visit_all_words
from pmlda.engines.variational_refits import average_draws, documents_under, refit, words_under
from pmlda.types import Estimate, Fit, Fixed, FloatArray, Statistics, Topics


class Variational(Engine):
    """A Dirichlet distribution for every word, point estimates of the rest."""

    name = "variational"
    summary = "fast; a Dirichlet distribution for every word, refits for all else"
    samples_words = True
    checkpoint_seconds = 0.0  # a fit is over before a checkpoint would be worth its while
    streams = True

    def fit(self, task: Task, given: FloatArray | None) -> Outcome:
        state, trace, interrupted = learn(task, given)
        if len(state.gamma) < len(task.documents.words):  # stopped before every word was seen
            state = visit_all_words(task, state.topics, known_documents(task))
        refits = None if interrupted else refit(task, state.topics, given)
        converged = len(trace) < task.checked.variational_plan.n_sweeps
        fit = to_fit(task._replace(refits=refits), state, trace)
        return Outcome(fit._replace(interrupted=interrupted, converged=converged))

    def transform(self, task: Task, topics: Topics) -> Fit:
        return to_fit(task, settle(task, topics), [])


def infer_concentrations(task: Task, topics: Topics) -> FloatArray:
    """(1 + B, D, K) sπ of every document, as found and under each of B refits, without the memberships of its words."""
    state = settle(task, topics)
    return state.a[None] if task.refits is None else documents_under(task, state, task.refits)


def infer_memberships(task: Task, topics: Topics, a: FloatArray) -> Fit:
    """Memberships alone: topics and sπ of every document are known, and words do not depend on each other.

    a : (1, D, K), or (1 + B, D, K) with those of every refit
    """
    settings = settings_of(task.checked)._replace(accelerate=False, steps=tuning.ALONE_STEPS, fixed=Fixed(*4 * [True]))
    start = steps.start(task.documents, topics, settings, np.ascontiguousarray(a[0]))
    state, info = next(steps.run(task.documents, task.family, start, settings, task.workers))
    return to_fit(task if len(a) > 1 else task._replace(refits=None), state, [info.bound], a)


def to_fit(task: Task, state: steps.State, trace: list[float], a: FloatArray | None = None) -> Fit:
    """What was found of words and documents, and how far it depends on the refits, if there are any.

    a : (1 + B, D, K) sπ of documents, where they are known for every refit
    """
    scales, refits, spread = state.a.sum(axis=1), task.refits, None
    if refits is not None and a is None:
        a = documents_under(task, state, refits)
    if refits is not None and a is not None and refits.drawn:
        memberships, std = average_draws(task, state, refits, a)
    else:
        memberships, std = steps.Corpus(task.documents, task.family, task.workers).posterior_moments(state)
        if refits is not None and a is not None:
            spread = words_under(task, state, refits, a)
            memberships = spread.mean(memberships)
            np.square(std, out=std)
            std += spread.variance
            np.sqrt(std, out=std)
    estimate = Estimate(state.topics, memberships, state.a / scales[:, None], scales)
    fit = Fit(estimate, None, None, np.array(trace), {}, None, False, state.gamma)
    fit = fit._replace(std=std, refits=refits, refit_concentrations=state.a[None] if a is None else a)
    return fit if spread is None else fit._replace(refit_distances=spread.distances)


# ── streams ────────────────────────────────────────────────────────────────────────────────────────────────────
class Memory(NamedTuple):
    """What is remembered of earlier batches: averages over words, how many words, how many batches.

    gram, weighted : E[zzᵀ] and E[z] T(x)ᵀ
    base : xxᵀ, or whatever the family needs of words alone
    """

    gram: FloatArray
    weighted: FloatArray
    base: FloatArray
    n_words: float
    n_batches: int


def update(task: Task, topics: Topics | None, memory: Memory | None, given: FloatArray | None) -> tuple[Fit, Memory]:
    """Learn from one more batch of documents; the first batch is an ordinary fit.

    Averages move towards those of the batch by max(its share of all words, (batches + 1)^-0.7): early batches were seen
    with poorer topics and are forgotten, and the steps become small (Robbins and Monro 1951; Hoffman et al. 2013).
    """
    if topics is None or memory is None:
        first = Variational().fit(task._replace(checked=task.checked._replace(n_refits=0)), given).fit
        topics, memory, rate = first.mean.topics, None, 1.0
        a = first.mean.proportions * first.mean.scales[:, None]
        state = steps.start(task.documents, topics, settings_of(task.checked), a)
        if first.concentrations is not None:
            state = state._replace(gamma=first.concentrations)
    else:
        state = settle(task, topics)
        total = memory.n_words + len(task.documents.words)
        rate = max(len(task.documents.words) / total, (memory.n_batches + 1) ** -0.7)
    corpus = steps.Corpus(task.documents, task.family, task.workers)
    settings = settings_of(task.checked)
    for _ in range(tuning.BATCH_SWEEPS):
        local = corpus.local_step(state, settings)
        corpus.document_step(state.a, local.sum_log_z, settings, tuning.DOCUMENT_STEPS)
        learnt = _remember(memory, local, corpus, rate)
        state = state._replace(topics=_blend(task, corpus, state, topics, learnt, local, rate))
    return to_fit(task, state, [local.bound]), learnt


def _blend(
    task: Task,
    corpus: steps.Corpus,
    state: steps.State,
    before: Topics,
    learnt: Memory,
    local: steps.Local,
    rate: float,
) -> Topics:
    """Topics that suit the batch and the memory: the best ones where sums tell, otherwise part of the way there."""
    family, fixed, n = task.family, task.checked.fixed, learnt.n_words
    if family.conjugate is not None and not family.additive:
        sums = Statistics(n * learnt.gram, n * learnt.weighted)
        return steps.best_topics(family.conjugate, state.topics, sums, n * learnt.base, n, fixed)
    better, old = family.free(corpus.topic_step(state, local.statistics, fixed)), family.free(before)
    topics = family.from_free(Topics(*((1.0 - rate) * a + rate * b for a, b in zip(old, better, strict=True))))
    return topics._replace(means=family.nearest(topics.means))


def _remember(memory: Memory | None, local: steps.Local, corpus: steps.Corpus, rate: float) -> Memory:
    """Averages that have moved towards those of a batch."""
    n = len(corpus.documents.words)
    batch = (local.statistics.gram / n, local.statistics.weighted / n, corpus.base / n)
    if memory is None:
        return Memory(*batch, float(n), 1)
    gram, weighted, base = ((1.0 - rate) * old + rate * new for old, new in zip(memory[:3], batch, strict=True))
    return Memory(gram, weighted, base, memory.n_words + n, memory.n_batches + 1)
