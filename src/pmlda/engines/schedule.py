"""A variational fit in three stages: starts on a few words, topics on a sample of documents, then every word.

Topics are known long before every word has been seen, and the words of a document need nothing but the topics; so
sweeps over all words, the expensive ones, are few.
"""

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

import numpy as np

from pmlda.engines import variational
from pmlda.families import Family
from pmlda.types import Documents, FloatArray, IntArray, Topics
from pmlda.workers import Workers

TRIAL_WORDS, TRIAL_SWEEPS = 4_000, 20
SAMPLE_WORDS = 16_000
# A sampled document keeps at least this many words, from which its proportions and scale can be told.
DOCUMENT_WORDS = 200
# The first sweep over all words makes more steps for each, and at most so many sweeps follow: until a sweep gains less
# than SETTLED per word. What moves later are memberships too small to be seen: the error of memberships is then within
# half a percent of what it would be after thirty more sweeps.
FIRST_STEPS, LATER_STEPS, FULL_SWEEPS, SETTLED = 5, 1, 8, 0.03
# Steps of words that depend on nothing but what is known.
ALONE_STEPS = 10


STARTS, TOPICS, ALL_WORDS = "comparing starts", "learning topics", "visiting all words"
"""The stages, in order. Where the sample is everything, learning topics has visited all words."""


class Plan(NamedTuple):
    """How long to go on.

    n_sweeps : at most so many sweeps in each stage
    tol : stop when three sweeps together gain less than three times this much bound per word
    """

    n_sweeps: int
    tol: float


class Progress(NamedTuple):
    """Where a fit is: the stage, and the info of the engine's last sweep."""

    stage: str
    info: variational.Info


def fit(
    documents: Documents,
    family: Family,
    starts: list[Topics],
    a: FloatArray | None,
    settings: variational.Settings,
    plan: Plan,
    rng: np.random.Generator,
    workers: Workers,
) -> Iterator[tuple[variational.State, Progress]]:
    """Yield (state, progress) after every sweep. Only states of the last stage hold all words.

    a : (D, K) s·π of every document to start from, where something of them is known
    """
    rows = choose_words(rng, documents, SAMPLE_WORDS)
    whole = len(rows) == len(documents.words)
    sample, sample_a = (documents, a) if whole else take_words(documents, rows, a)
    state: variational.State | None = None
    if len(starts) > 1:
        trial, trial_a = take_words(sample, choose_words(rng, sample, TRIAL_WORDS), sample_a)
        best = -np.inf
        for topics in starts:
            for found, info in islice(_run(trial, family, topics, trial_a, settings, workers), TRIAL_SWEEPS):
                yield found, Progress(STARTS, info)
            if info.bound > best:
                best, state = info.bound, found
        topics = starts[0] if state is None else state.topics
    else:
        topics = starts[0]
    runs = _run(sample, family, topics, sample_a, settings, workers)
    for state, info in until_settled(runs, plan, plan.n_sweeps):
        yield state, Progress(TOPICS, info)
    if whole or state is None:
        return
    if a is None:  # documents that were not sampled start from the average of those that were
        a = np.tile(np.exp(np.log(state.a).mean(axis=0)), (len(documents.sizes), 1))
        a[np.unique(documents.document[rows])] = state.a
    held = settings._replace(accelerate=False, held=settings.held._replace(means=True, spread=True))
    first = variational.start(documents, state.topics, held, a)
    start, info = next(variational.run(documents, family, first, held._replace(steps=FIRST_STEPS), workers))
    yield start, Progress(ALL_WORDS, info)
    bound = info.bound
    later = variational.run(documents, family, start, held._replace(steps=LATER_STEPS), workers)
    for state, info in islice(later, FULL_SWEEPS):
        yield state, Progress(ALL_WORDS, info)
        if info.bound - bound < SETTLED * len(documents.words):
            return
        bound = info.bound


def _run(
    documents: Documents,
    family: Family,
    topics: Topics,
    a: FloatArray | None,
    settings: variational.Settings,
    workers: Workers,
) -> Iterator[tuple[variational.State, variational.Info]]:
    return variational.run(documents, family, variational.start(documents, topics, settings, a), settings, workers)


def until_settled(
    run: Iterator[tuple[variational.State, variational.Info]], plan: Plan, n_sweeps: int
) -> Iterator[tuple[variational.State, variational.Info]]:
    """The run until three sweeps have gained next to nothing."""
    changes: list[float] = []
    for state, info in islice(run, n_sweeps):
        yield state, info
        changes.append(info.change)
        if len(changes) > 3 and sum(changes[-3:]) < 3.0 * plan.tol:
            return


def choose_words(rng: np.random.Generator, documents: Documents, n_words: int) -> IntArray:
    """Rows of about n_words words: random documents, large ones thinned evenly. All rows if there are no more."""
    total = len(documents.words)
    if total <= 1.5 * n_words:
        return np.arange(total)
    each = max(DOCUMENT_WORDS, n_words // len(documents.sizes))
    kept = np.minimum(documents.sizes, each)
    order = rng.permutation(len(kept))
    enough = int(np.searchsorted(np.cumsum(kept[order]), n_words)) + 1
    chosen = np.sort(order[:enough])
    rows = [
        documents.starts[d] + (np.arange(kept[d]) * documents.sizes[d] + rng.integers(documents.sizes[d])) // kept[d]
        for d in chosen
    ]
    limits = documents.starts[chosen + 1] - 1
    return np.concatenate([np.minimum(r, limit) for r, limit in zip(rows, limits, strict=True)])


def take_words(documents: Documents, rows: IntArray, a: FloatArray | None) -> tuple[Documents, FloatArray | None]:
    """The documents of some of their words, in ascending order, and their part of a."""
    chosen, document = np.unique(documents.document[rows], return_inverse=True)
    starts = np.concatenate([[0], np.cumsum(np.bincount(document))])
    taken = Documents(
        np.ascontiguousarray(documents.words[rows]), document, starts, documents.labels[chosen], np.arange(len(rows))
    )
    return taken, None if a is None else a[chosen]
