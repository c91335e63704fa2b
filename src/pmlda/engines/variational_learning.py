"""Engine "variational", learning: topics from a sample of the words, then every word; documents under known topics.

engines.variational_steps has the sweeps, engines.variational_schedule which words they visit.
"""

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np

from pmlda.engines import variational_schedule as schedule
from pmlda.engines import variational_steps as steps
from pmlda.engines import variational_tuning as tuning
from pmlda.engines.base import Task, topics_too
from pmlda.engines.initial import first_means, start_spread
from pmlda.engines.parameters import Checked, fix_topics, fixed_documents
from pmlda.parallel.interrupt import deferred_interrupt
from pmlda.parallel.progress import Report
from pmlda.storage.checkpoints import NoSeries, Series
from pmlda.types import FloatArray, Topics


def settings_of(checked: Checked) -> steps.Settings:
    return steps.Settings(
        checked.alpha,
        checked.base_rate,
        fixed=checked.fixed,
        design_effect=checked.design_effect,
        power=checked.power,
    )


def learn(task: Task, given: FloatArray | None, also: Sequence[Topics] = ()) -> tuple[steps.State, list[float], bool]:
    """The last state of a variational fit, its bounds, and whether Ctrl-C ended it.

    given : (K, p) initial means given by the user, or None
    also : topics that compete with the other starts
    """
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
    begin = schedule.Starts([*starts, *also], known_documents(task))
    stages = schedule.fit(documents, task.family, begin, settings_of(checked), plan, rng, task.workers, since)
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
    fixed = topics_too(task.checked.fixed)
    settings = settings_of(task.checked)._replace(accelerate=False, steps=tuning.FIRST_STEPS, fixed=fixed)
    start = steps.start(task.documents, topics, settings, a)
    sweeps = steps.run(task.documents, task.family, start, settings, task.workers)
    return next(sweeps)[0]


def settle(task: Task, topics: Topics) -> steps.State:
    """The variational posterior of documents with the topics held."""
    settings = settings_of(task.checked)._replace(accelerate=False, fixed=topics_too(task.checked.fixed))
    state = visit_all_words(task, topics, known_documents(task))
    # Always as many sweeps: a rule for stopping would let documents that are described together depend on each other.
    sweeps = steps.run(task.documents, task.family, state, settings, task.workers)
    return list(islice(sweeps, tuning.DOCUMENT_SWEEPS))[-1][0]
