"""A variational fit in three stages: starts on a few words, topics on a sample of documents, then every word.

Topics are known long before every word has been seen, and the words of a document need nothing but the topics; so
sweeps over all words, the expensive ones, are few.
"""

from collections.abc import Generator, Iterator
from itertools import islice, pairwise
from typing import NamedTuple

import numpy as np

from pmlda.engines import variational_steps
from pmlda.engines import variational_tuning as tuning
from pmlda.engines.documents import labelled_rows, take_rows
from pmlda.engines.parameters import VariationalPlan
from pmlda.families.base import Family
from pmlda.parallel.threads import Workers
from pmlda.storage.archive import register
from pmlda.types import Documents, FloatArray, IntArray, Topics

STARTS, TOPICS, ALL_WORDS = "comparing starts", "learning topics", "visiting all words"
"""The stages, in order. Where the sample is everything, learning topics has visited all words."""


class Starts(NamedTuple):
    """Where a fit may start.

    topics : the best of these after a few sweeps
    a : (D, K) s·π of every document, where something of them is known
    """

    topics: list[Topics]
    a: FloatArray | None


@register
class Progress(NamedTuple):
    """Where a fit is. With the state beside it, all that a fit needs to go on once it has compared starts.

    stage : its name
    info : of the engine's last sweep
    over : whether that was the last sweep of the stage
    bounds : of all sweeps that learnt topics
    """

    stage: str
    info: variational_steps.Info
    over: bool = False
    bounds: tuple[float, ...] = ()


Place = tuple[variational_steps.State, Progress]


def fit(
    documents: Documents,
    family: Family,
    starts: Starts,
    settings: variational_steps.Settings,
    plan: VariationalPlan,
    rng: np.random.Generator,
    workers: Workers,
    since: Place | None = None,
) -> Iterator[Place]:
    """Yield (state, progress) after every sweep. Only states of the last stage hold all words.

    since : what an earlier fit of the same yielded after comparing starts, to go on as if nothing had happened
    """
    rows = choose_words(rng, documents, tuning.SAMPLE_WORDS)
    whole = len(rows) == len(documents.words)
    sample, sample_a = (documents, starts.a) if whole else take_words(documents, rows, starts.a)
    some = settings._replace(share=share_of(documents, rows))
    if since is None:
        topics = starts.topics[0]
        if len(starts.topics) > 1:
            trial, trial_a = take_words(sample, choose_words(rng, sample, tuning.TRIAL_WORDS), sample_a)
            best = yield from _compare_starts(trial, family, Starts(starts.topics, trial_a), some, plan, workers)
            topics = best[0].topics
            if family.creeps and len(trial.words) == len(sample.words) and best[0].sweep < plan.n_sweeps:
                since = best  # with the momentum of its words
        if since is None:
            state = variational_steps.start(sample, topics, some, sample_a)
            since = state, Progress(TOPICS, variational_steps.Info(state.past.bound, np.inf))
    if since[1].stage == TOPICS:
        since = yield from _learn_topics(sample, family, some, plan, workers, since)
    if not whole:
        yield from _visit_all_words(documents, family, rows, starts.a, settings, plan, workers, since)


def _compare_starts(
    documents: Documents,
    family: Family,
    starts: Starts,
    settings: variational_steps.Settings,
    plan: VariationalPlan,
    workers: Workers,
) -> Generator[Place, None, Place]:
    """A few sweeps from every start; where the best has led, as if it had been learning topics.

    Where topics creep along ridges, starts drop out by halves, after rounds that have the same number of sweeps in all
    (successive halving, Jamieson and Talwalkar 2016): they differ soon, and sweeps that are saved lead farther along.
    """
    most = min(tuning.TRIAL_SWEEPS, plan.n_sweeps)
    nowhere = Progress(TOPICS, variational_steps.Info(-np.inf, np.inf))
    left = [(variational_steps.start(documents, topics, settings, starts.a), nowhere) for topics in starts.topics]
    while len(left) > 1:
        n_kept, n_sweeps = ((len(left) + 1) // 2, max(1, most // len(left))) if family.creeps else (1, most)
        found: list[Place] = []
        for begun, progress in left:
            state, info, bounds = begun, progress.info, progress.bounds
            sweeps = variational_steps.run(documents, family, begun, settings, workers)
            for state, info in islice(sweeps, n_sweeps - begun.sweep):
                bounds = (*bounds, info.bound)
                yield state, Progress(STARTS, info)
            found.append((state, Progress(TOPICS, info, bounds=bounds)))
        left = sorted(found, key=lambda place: -np.nan_to_num(place[1].info.bound, nan=-np.inf))[:n_kept]
    return left[0]


def _learn_topics(
    documents: Documents,
    family: Family,
    settings: variational_steps.Settings,
    plan: VariationalPlan,
    workers: Workers,
    since: Place,
) -> Generator[Place, None, Place]:
    """Sweeps until the bound has settled; where that has led."""
    state, progress = since
    if progress.over:
        return since
    bounds = progress.bounds
    run = variational_steps.run(documents, family, state, settings, workers)
    for state, info in run:
        bounds = (*bounds, info.bound)
        over = state.sweep >= plan.n_sweeps or is_settled(bounds, len(documents.words), plan, creeps=family.creeps)
        progress = Progress(TOPICS, info, over, bounds=bounds)
        yield state, progress
        if over:
            break
    return state, progress


def _visit_all_words(
    documents: Documents,
    family: Family,
    rows: IntArray,
    a: FloatArray | None,
    settings: variational_steps.Settings,
    plan: VariationalPlan,
    workers: Workers,
    since: Place,
) -> Iterator[Place]:
    """Sweeps over all words, topics held."""
    most = min(1 + tuning.FULL_SWEEPS, plan.n_sweeps)
    state, progress = since
    fixed = settings._replace(accelerate=False, fixed=settings.fixed._replace(means=True, spread=True))
    if progress.stage == TOPICS:
        if a is None:  # documents that were not sampled start from the average of those that were
            a = np.tile(np.exp(np.log(state.a).mean(axis=0)), (len(documents.sizes), 1))
            a[np.unique(documents.document[rows])] = state.a
        first = variational_steps.start(documents, state.topics, fixed, a)
        state, info = next(
            variational_steps.run(documents, family, first, fixed._replace(steps=tuning.FIRST_STEPS), workers)
        )
        progress = Progress(ALL_WORDS, info, over=state.sweep >= most, bounds=progress.bounds)
        yield state, progress
    if progress.over:
        return
    bound = state.past.bound
    run = variational_steps.run(documents, family, state, fixed._replace(steps=tuning.LATER_STEPS), workers)
    for state, info in run:
        over = info.bound - bound < tuning.SETTLED * len(documents.words) or state.sweep >= most
        yield state, Progress(ALL_WORDS, info, over, bounds=progress.bounds)
        if over:
            return
        bound = info.bound


def is_settled(bounds: tuple[float, ...], n_words: int, plan: VariationalPlan, *, creeps: bool) -> bool:
    """Whether the last sweeps have gained next to nothing: three, or a quarter of all where topics creep along ridges.

    These need some sweeps to gather momentum, and three gain little long before they arrive; and again after a leap
    that was undone, so that all of the quarter together may gain no more than what one of the three may.
    """
    window, most = (max(tuning.LEAST_SETTLED, len(bounds) // 4), plan.tol) if creeps else (3, 3.0 * plan.tol)
    if len(bounds) <= window:
        return False
    gains = [(after - before) / n_words for before, after in pairwise(bounds[-window - 1 :])]
    return sum(gains) < most


def choose_words(rng: np.random.Generator, documents: Documents, n_words: int) -> IntArray:
    """Rows of about n_words words: random documents, large ones thinned evenly. All rows if there are no more.

    Words with labels are among them.
    """
    total = len(documents.words)
    if total <= 1.5 * n_words:
        return np.arange(total)
    each = max(tuning.DOCUMENT_WORDS, n_words // len(documents.sizes))
    kept = np.minimum(documents.sizes, each)
    order = rng.permutation(len(kept))
    enough = int(np.searchsorted(np.cumsum(kept[order]), n_words)) + 1
    chosen = np.sort(order[:enough])
    rows = [
        documents.starts[d] + (np.arange(kept[d]) * documents.sizes[d] + rng.integers(documents.sizes[d])) // kept[d]
        for d in chosen
    ]
    limits = documents.starts[chosen + 1] - 1
    found = np.concatenate([np.minimum(r, limit) for r, limit in zip(rows, limits, strict=True)])
    return found if documents.told is None else np.union1d(found, labelled_rows(documents, n_words))


def share_of(documents: Documents, rows: IntArray) -> float:
    """Share of the words of the documents of these rows that the rows are."""
    chosen = np.unique(documents.document[rows])
    return len(rows) / float(documents.sizes[chosen].sum())


def take_words(documents: Documents, rows: IntArray, a: FloatArray | None) -> tuple[Documents, FloatArray | None]:
    """The documents of some of their words, in ascending order, and their part of a."""
    chosen, document = np.unique(documents.document[rows], return_inverse=True)
    taken = take_rows(documents, rows, chosen, document)
    return taken, None if a is None else a[chosen]
