"""Engine "variational": topics from a sample of the words, then every word; new documents; streams of batches.

engines.variational has the sweeps, engines.schedule which words they visit.
"""

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

import numpy as np

from pmlda.engines import variational_schedule as schedule
from pmlda.engines import variational_steps as steps
from pmlda.engines import variational_tuning as tuning
from pmlda.engines.base import FIXED_TOPICS, Engine, Outcome, Task
from pmlda.engines.initial import first_means, start_spread
from pmlda.engines.parameters import Checked, fix_topics, fixed_documents
from pmlda.parallel.interrupt import deferred_interrupt
from pmlda.parallel.progress import Report
from pmlda.storage.checkpoints import NoSeries, Series
from pmlda.types import Estimate, Fit, Fixed, FloatArray, Statistics, Topics


class Variational(Engine):
    """A Dirichlet distribution for every word, point estimates of the rest."""

    name = "variational"
    summary = "fast; takes topics and documents as known when it tells how sure memberships are"
    samples_words = True
    checkpoint_seconds = 0.0  # a fit is over before a checkpoint would be worth its while
    streams = True

    def fit(self, task: Task, given: FloatArray | None) -> Outcome:
        state, trace, interrupted = learn(task, given)
        if len(state.gamma) < len(task.documents.words):  # stopped before every word was seen
            state = visit_all_words(task, state.topics, known_documents(task))
        converged = len(trace) < task.checked.variational_plan.n_sweeps
        return Outcome(to_fit(task, state, trace, interrupted=interrupted, converged=converged))

    def transform(self, task: Task, topics: Topics) -> Fit:
        return to_fit(task, settle(task, topics), [], interrupted=False, converged=True)


def _settings(checked: Checked) -> steps.Settings:
    return steps.Settings(checked.alpha, checked.scale_rate, fixed=checked.fixed)


def learn(task: Task, given: FloatArray | None) -> tuple[steps.State, list[float], bool]:
    """The last state of a variational fit, its bounds, and whether Ctrl-C ended it."""
    checked, documents = task.checked, task.documents
    series = task.series("variational")
    kept = series.read_latest()
    since = None if kept is None else (kept["state"], kept["progress"])
    if kept is not None and since is not None and kept["complete"]:
        return since[0], list(since[1].bounds), False
    rng = np.random.default_rng(task.seed)
    starts = []
    for i in range(1 if given is not None else checked.n_init):
        means = first_means(rng, checked, documents, task.family, given)
        topics = start_spread(
            rng,
            documents.words,
            task.family,
            means,
            tuning.SPREAD_PARTS[i % len(tuning.SPREAD_PARTS)],
        )
        starts.append(fix_topics(checked, task.family, topics, given))
    plan = checked.variational_plan
    begin = schedule.Starts(starts, known_documents(task))
    stages = schedule.fit(documents, task.family, begin, _settings(checked), plan, rng, task.workers, since)
    return _follow(stages, task.report, plan.n_sweeps, series, since)


def known_documents(task: Task) -> FloatArray | None:
    """(D, K) s·π of every document where the user fixed one of them, the other at its prior mean."""
    fixed, checked = task.checked.fixed, task.checked
    if not (fixed.proportions or fixed.scales):
        return None
    n_documents = len(task.documents.sizes)
    pi = np.tile(checked.alpha / checked.alpha.sum(), (n_documents, 1))
    log_pi, scales = fixed_documents(checked, np.log(pi), np.full(n_documents, 1.0 / checked.scale_rate))
    return np.maximum(scales[:, None] * np.exp(log_pi), 1e-8)


def _follow(
    stages: Iterator[schedule.Place],
    report: Report,
    n_sweeps: int,
    series: Series | NoSeries,
    since: schedule.Place | None,
) -> tuple[steps.State, list[float], bool]:
    """The last state, the bounds of the stage that found the topics, and whether Ctrl-C ended it."""
    n_trials, place, stopped = 0, since, False

    def offer(state: steps.State, progress: schedule.Progress, *, at_once: bool, complete: bool) -> None:
        if progress.stage != schedule.STARTS:  # which take a moment, and are compared again
            n_done = len(progress.bounds) + (state.sweep if progress.stage == schedule.ALL_WORDS else 0)
            table = {"state": state, "progress": progress, "complete": complete}
            series.write_if_due(n_done, lambda: table, at_once=at_once)

    with deferred_interrupt() as interrupted:
        for state, progress in stages:
            place = state, progress
            n_trials += progress.stage == schedule.STARTS
            done = n_trials if progress.stage == schedule.STARTS else state.sweep
            report(progress.stage, done, n_sweeps, bound_per_word=progress.info.bound / len(state.gamma))
            stopped = interrupted()
            offer(state, progress, at_once=stopped, complete=False)
            if stopped:
                break
    assert place is not None  # there is at least one sweep
    if not stopped:
        offer(*place, at_once=True, complete=True)
    return place[0], list(place[1].bounds), stopped


def visit_all_words(task: Task, topics: Topics, a: FloatArray | None) -> steps.State:
    settings = _settings(task.checked)._replace(accelerate=False, steps=tuning.FIRST_STEPS, fixed=FIXED_TOPICS)
    start = steps.start(task.documents, topics, settings, a)
    sweeps = steps.run(task.documents, task.family, start, settings, task.workers)
    return next(sweeps)[0]


def settle(task: Task, topics: Topics) -> steps.State:
    """The variational posterior of documents with the topics held."""
    settings = _settings(task.checked)._replace(accelerate=False, fixed=FIXED_TOPICS)
    state = visit_all_words(task, topics, None)
    # Always as many sweeps: a rule for stopping would let documents that are described together depend on each other.
    sweeps = steps.run(task.documents, task.family, state, settings, task.workers)
    return list(islice(sweeps, tuning.DOCUMENT_SWEEPS))[-1][0]


def infer_memberships(task: Task, topics: Topics, a: FloatArray) -> Fit:
    """Memberships alone: topics and a = sπ of every document are known, and words do not depend on each other."""
    settings = _settings(task.checked)._replace(accelerate=False, steps=tuning.ALONE_STEPS, fixed=Fixed(*4 * [True]))
    start = steps.start(task.documents, topics, settings, a)
    state, info = next(steps.run(task.documents, task.family, start, settings, task.workers))
    return to_fit(task, state, [info.bound], interrupted=False, converged=True)


def to_fit(task: Task, state: steps.State, trace: list[float], *, interrupted: bool, converged: bool) -> Fit:
    scales = state.a.sum(axis=1)
    means, std = steps.Corpus(task.documents, task.family, task.workers).posterior_moments(state)
    estimate = Estimate(state.topics, means, state.a / scales[:, None], scales)
    return Fit(estimate, None, None, np.array(trace), {}, None, interrupted, state.gamma, converged, std)


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
        first = Variational().fit(task, given).fit
        topics, memory, rate = first.mean.topics, None, 1.0
        a = first.mean.proportions * first.mean.scales[:, None]
        state = steps.start(task.documents, topics, _settings(task.checked), a)
        if first.concentrations is not None:
            state = state._replace(gamma=first.concentrations)
    else:
        state = settle(task, topics)
        total = memory.n_words + len(task.documents.words)
        rate = max(len(task.documents.words) / total, (memory.n_batches + 1) ** -0.7)
    corpus = steps.Corpus(task.documents, task.family, task.workers)
    settings = _settings(task.checked)
    for _ in range(tuning.BATCH_SWEEPS):
        local = corpus.local_step(state, settings)
        corpus.document_step(state.a, local.sum_log_z, settings, tuning.DOCUMENT_STEPS)
        learnt = _remember(memory, local, corpus, rate)
        state = state._replace(topics=_blend(task, corpus, state, topics, learnt, local, rate))
    return to_fit(task, state, [local.bound], interrupted=False, converged=True), learnt


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
    if family.conjugate is not None:
        sums = Statistics(n * learnt.gram, n * learnt.weighted)
        return steps.best_topics(family.conjugate, state.topics, sums, n * learnt.base, n, fixed)
    better, old = family.free(corpus.topic_step(state, local.statistics, fixed)), family.free(before)
    return family.from_free(Topics(*((1.0 - rate) * a + rate * b for a, b in zip(old, better, strict=True))))


def _remember(memory: Memory | None, local: steps.Local, corpus: steps.Corpus, rate: float) -> Memory:
    """Averages that have moved towards those of a batch."""
    n = len(corpus.documents.words)
    batch = (local.statistics.gram / n, local.statistics.weighted / n, corpus.base / n)
    if memory is None:
        return Memory(*batch, float(n), 1)
    gram, weighted, base = ((1.0 - rate) * old + rate * new for old, new in zip(memory[:3], batch, strict=True))
    return Memory(gram, weighted, base, memory.n_words + n, memory.n_batches + 1)
