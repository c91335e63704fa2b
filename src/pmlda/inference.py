"""Documents + checked parameters → a Fit, by the engine that the user chose."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from pmlda.checks import Checked, fix_topics, fixed_documents, given_means
from pmlda.engines import collect, paper, schedule, variational
from pmlda.engines.corpus import Held
from pmlda.families import Family
from pmlda.interrupt import deferred_interrupt
from pmlda.progress import Report, silent
from pmlda.start import start_latents, start_means, start_spread, start_topics
from pmlda.types import Documents, Estimate, Fit, FloatArray, Topics
from pmlda.workers import Workers

HELD_TOPICS = Held(means=True, spread=True)


class Task(NamedTuple):
    """What every engine is given: centred documents and their family, parameters, seed, helpers."""

    documents: Documents
    family: Family
    checked: Checked
    seed: int
    workers: Workers
    report: Report = silent


def fit(task: Task, offset: FloatArray) -> Fit:
    """Learn everything. offset was subtracted from the words, and is to be from means that the user gave."""
    given = given_means(task.checked, task.family, task.documents.words.shape[1])
    if given is not None:
        given = given - offset
    return _ENGINES[task.checked.engine](task, given)


def transform(task: Task, topics: Topics) -> Fit:
    """Learn everything but the topics."""
    if task.checked.engine == "paper":
        return _follow_paper(task, topics, HELD_TOPICS, np.random.default_rng(task.seed))
    settings = _settings(task.checked)._replace(accelerate=False, held=HELD_TOPICS)
    state = variational.start(task.documents, topics, settings)
    first, _ = next(
        variational.run(task.documents, task.family, state, settings._replace(steps=schedule.FIRST_STEPS), task.workers)
    )
    sweeps = variational.run(task.documents, task.family, first, settings, task.workers)
    plan = task.checked.variational_plan
    for state, _ in schedule.until_settled(sweeps, plan, plan.n_sweeps):
        first = state
    return _variational_result(task, first, [], interrupted=False, converged=True)


# ── paper ──────────────────────────────────────────────────────────────────────────────────────────────────────
def _fit_paper(task: Task, given: FloatArray | None) -> Fit:
    rng = np.random.default_rng(task.seed)
    means = _first_means(task, rng, given)
    topics = start_topics(rng, task.documents.words, task.family, means)
    return _follow_paper(task, fix_topics(task.checked, task.family, topics, given), task.checked.held, rng)


def _follow_paper(task: Task, topics: Topics, held: Held, rng: np.random.Generator) -> Fit:
    """Start the sampler at these topics and follow it to its end."""
    checked = task.checked
    latents = start_latents(rng, task.documents, task.family, topics, checked.scale_rate, task.workers)
    if held != HELD_TOPICS:
        log_pi, scales = fixed_documents(checked, latents.log_proportions, latents.scales)
        latents = latents._replace(log_proportions=log_pi, scales=scales)
    settings = paper.Settings(
        checked.alpha, checked.scale_rate, task.seed, checked.document_steps, checked.prior_steps, held
    )
    run = paper.run(task.documents, task.family, paper.State(0, topics, latents), settings, task.workers)
    renumber = checked.interchangeable and not (held.means or held.spread or held.proportions)
    return collect.collect(
        run,
        checked.plan,
        task.workers,
        spread_per_topic=task.family.spread_per_topic,
        renumber=renumber,
        report=task.report,
    )


def _first_means(task: Task, rng: np.random.Generator, given: FloatArray | None) -> FloatArray:
    if given is not None:
        return given
    if task.checked.init == "prior":
        return task.family.draw_topics(rng, task.checked.n_topics).means
    return start_means(rng, task.documents, task.family, task.checked.n_topics)


# ── variational ────────────────────────────────────────────────────────────────────────────────────────────────
def _settings(checked: Checked) -> variational.Settings:
    return variational.Settings(checked.alpha, checked.scale_rate, held=checked.held)


def _fit_variational(task: Task, given: FloatArray | None) -> Fit:
    checked, documents = task.checked, task.documents
    rng = np.random.default_rng(task.seed)
    n_starts = 1 if given is not None else checked.n_init
    starts = []
    for _ in range(n_starts):
        means = _first_means(task, rng, given)
        topics = start_spread(rng, documents.words, task.family, means)
        starts.append(fix_topics(checked, task.family, topics, given))
    a = _known_documents(task)
    plan, settings = checked.variational_plan, _settings(checked)
    stages = schedule.fit(documents, task.family, starts, a, settings, plan, rng, task.workers)
    state, trace, interrupted = _follow(stages, task.report, plan.n_sweeps)
    if len(state.gamma) < len(documents.words):  # stopped before every word was seen
        state = _see_all_words(task, state.topics, a)
    return _variational_result(task, state, trace, interrupted=interrupted, converged=len(trace) < plan.n_sweeps)


def _known_documents(task: Task) -> FloatArray | None:
    """(D, K) s·π of every document where the user fixed one of them, the other at its prior mean."""
    held, checked = task.checked.held, task.checked
    if not (held.proportions or held.scales):
        return None
    n_documents = len(task.documents.sizes)
    pi = np.tile(checked.alpha / checked.alpha.sum(), (n_documents, 1))
    log_pi, scales = fixed_documents(checked, np.log(pi), np.full(n_documents, 1.0 / checked.scale_rate))
    return np.maximum(scales[:, None] * np.exp(log_pi), 1e-8)


def _follow(
    stages: Iterator[tuple[variational.State, schedule.Progress]], report: Report, n_sweeps: int
) -> tuple[variational.State, list[float], bool]:
    """The last state, the bounds of the stage that found the topics, and whether Ctrl-C ended it."""
    trace: list[float] = []
    counts: dict[str, int] = {}
    found = None
    with deferred_interrupt() as interrupted:
        for state, progress in stages:
            found = state
            counts[progress.stage] = counts.get(progress.stage, 0) + 1
            if progress.stage == schedule.TOPICS:
                trace.append(progress.info.bound)
            report(
                progress.stage, counts[progress.stage], n_sweeps, bound_per_word=progress.info.bound / len(state.gamma)
            )
            if interrupted():
                return state, trace, True
    if found is None:
        raise ValueError("A variational fit needs at least one sweep.")
    return found, trace, False


def _see_all_words(task: Task, topics: Topics, a: FloatArray | None) -> variational.State:
    settings = _settings(task.checked)._replace(accelerate=False, steps=schedule.FIRST_STEPS, held=HELD_TOPICS)
    start = variational.start(task.documents, topics, settings, a)
    sweeps = variational.run(task.documents, task.family, start, settings, task.workers)
    return next(sweeps)[0]


def _variational_result(
    task: Task, state: variational.State, trace: list[float], *, interrupted: bool, converged: bool
) -> Fit:
    scales = state.a.sum(axis=1)
    corpus = variational.Corpus(task.documents, task.family, task.workers)
    estimate = Estimate(state.topics, corpus.posterior_means(state), state.a / scales[:, None], scales)
    return Fit(estimate, None, None, np.array(trace), {}, None, interrupted, state.gamma, converged)


_ENGINES: dict[str, Callable[[Task, FloatArray | None], Fit]] = {
    "variational": _fit_variational,
    "paper": _fit_paper,
}
