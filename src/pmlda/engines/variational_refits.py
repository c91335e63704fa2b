"""Engine "variational", refits: how far memberships depend on the documents, on the start and on the prior of scales.

Intervals of a word given the topics leave out that topics, documents and the choice between optima are uncertain too.
Each refit learns topics again, from new starts, on documents drawn with replacement (the bagged posterior of Huggins
and Miller 2019, 2023), with its own rate λ if neighbouring words repeat each other. The spread of memberships between
refits is added to that of each word. docs/model.md gives the reasons and the measurements.
"""

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

import numpy as np

from pmlda.engines import variational_steps as steps
from pmlda.engines import variational_tuning as tuning
from pmlda.engines.base import Task, topics_too
from pmlda.engines.collect import match
from pmlda.engines.corpus import Group
from pmlda.engines.documents import labelled_rows, take_rows
from pmlda.engines.parameters import LARGEST_POWER, Checked
from pmlda.engines.variational_learning import learn, settings_of
from pmlda.parallel.interrupt import deferred_interrupt
from pmlda.parallel.progress import silent
from pmlda.parallel.threads import Workers
from pmlda.storage.checkpoints import no_checkpoints
from pmlda.types import Documents, Fixed, FloatArray, IntArray, Refits, Topics

STAGE = "refitting"
"""What progress bars call it."""


def refit(task: Task, topics: Topics, given: FloatArray | None) -> Refits | None:
    """Topics of every refit, in the order of these topics; None if there is nothing to refit, or Ctrl-C ended it.

    given : (K, p) initial means given by the user, or None
    """
    powers = spread_powers(task.checked.n_refits)
    if task.checked.fixed.means or not powers:
        return None
    series = task.series(STAGE)
    kept = series.read_latest()
    if kept is not None:
        return Refits(np.asarray(kept["means"]), np.asarray(kept["spread"]), np.asarray(kept["powers"]))
    task.report(STAGE, 0, len(powers))
    with deferred_interrupt() as interrupted:
        found = task.workers.map(lambda i: _refit_once(task, i, powers[i], topics, given), range(len(powers)))
        if interrupted():
            return None
    task.report(STAGE, len(powers), len(powers))
    ordered = [in_order_of(topics, each, task) for each in found]
    means, spread = (np.array(each) for each in zip(*ordered, strict=True))
    refits = Refits(means, spread, np.array(powers))
    series.write_if_due(len(powers), refits._asdict, at_once=True)
    return refits


def spread_powers(n_refits: int) -> list[float]:
    """The power of the design effect by which each refit multiplies λ, evenly from 0 to LARGEST_POWER.

    Where design_effect neighbouring words repeat each other, N words tell as much as N / design_effect independent ones
    or more, and counting fewer words is the same as a larger λ. The data cannot say how many it is.

    >>> spread_powers(2)
    [0.125, 0.375]
    """
    return [LARGEST_POWER * (i + 0.5) / n_refits for i in range(n_refits)]


def _refit_once(task: Task, number: int, power: float, topics: Topics, given: FloatArray | None) -> Topics:
    """Topics from documents drawn with replacement; on one thread, since refits are shared among threads."""
    rng = np.random.default_rng([task.seed, number])
    checked, plan = task.checked, task.checked.variational_plan
    # Half of the refits may return to the topics that were found, unless their own are better; the others never see
    # them, and so tell whether other topics do as well.
    also = [topics] if number % 2 else []
    with Workers(1) as workers:
        again = task._replace(
            documents=resample(rng, task.documents, checked),
            checked=checked._replace(
                power=power,
                n_init=tuning.REFIT_STARTS - len(also),
                variational_plan=plan._replace(tol=tuning.REFIT_TOL * plan.tol),
            ),
            seed=int(rng.integers(2**31 - 1)),
            workers=workers,
            report=silent,
            series=no_checkpoints,
        )
        return learn(again, given, also)[0].topics


def resample(rng: np.random.Generator, documents: Documents, checked: Checked) -> Documents:
    """As many documents drawn with replacement, thinned to about tuning.REFIT_SAMPLE words.

    Few documents, and those of which the user knows something, stay; their words are drawn instead, except words with
    labels: what the user says of this picture would be the same if the rest of it were drawn again.
    """
    n_documents, sizes = len(documents.sizes), documents.sizes
    by_word = n_documents < tuning.LEAST_RESAMPLED or checked.fixed.proportions or checked.fixed.scales
    told = labelled_rows(documents, tuning.REFIT_SAMPLE)
    known = np.unique(documents.document[told])
    if documents.told_documents is not None:
        known = np.union1d(known, np.flatnonzero(documents.told_documents.row))
    if by_word:
        chosen, again = np.arange(n_documents), np.ones(n_documents, bool)
    else:
        others = np.setdiff1d(np.arange(n_documents), known, assume_unique=True)
        drawn = others[rng.integers(len(others), size=len(others))] if len(others) else others
        chosen = np.concatenate([known, drawn])
        again = np.arange(len(chosen)) < len(known)
    each = max(tuning.REFIT_LEAST, tuning.REFIT_SAMPLE // n_documents)
    if not by_word:
        most = int(np.searchsorted(np.cumsum(np.minimum(sizes[chosen], each)), tuning.REFIT_SAMPLE)) + 1
        chosen = chosen[: max(most, len(known))]
    rows = [_some_rows(rng, documents, int(d), each, bool(new)) for d, new in zip(chosen, again, strict=False)]
    if len(told):
        edges = np.searchsorted(told, documents.starts)
        own = [told[edges[d] : edges[d + 1]] for d in chosen]
        rows = [_with_labels(documents, *pair) for pair in zip(rows, own, strict=True)]
    document = np.repeat(np.arange(len(rows)), [len(part) for part in rows])
    return take_rows(documents, np.concatenate(rows), chosen, document)


def _with_labels(documents: Documents, rows: IntArray, told: IntArray) -> IntArray:
    """Rows of a document without those that have labels, and these labelled ones."""
    if documents.told is None or len(told) == 0:
        return rows
    return np.sort(np.concatenate([rows[documents.told.row[rows] == 0], told]))


def _some_rows(rng: np.random.Generator, documents: Documents, d: int, most: int, again: bool) -> IntArray:
    """Rows of one document, at most so many; again : drawn with replacement."""
    first, size = documents.starts[d], documents.sizes[d]
    if again:
        return np.asarray(first + np.sort(rng.integers(size, size=min(size, most))))
    if size <= most:
        return np.arange(first, first + size)
    return np.asarray(first + np.sort(rng.choice(size, most, replace=False)))


def in_order_of(topics: Topics, others: Topics, task: Task) -> Topics:
    """Other topics, each with the number of the topic that it is nearest to; those that are told apart keep theirs."""
    unit = task.documents.words.std(axis=0) + 1e-12 if task.family.has_location else 1.0
    apart = (((topics.means[:, None] - others.means[None]) / unit) ** 2).sum(axis=2)
    return others.order(match(apart, task.checked.numbered), spread_too=task.family.spread_per_topic)


# ── memberships under every refit ──────────────────────────────────────────────────────────────────────────────────
def documents_under(task: Task, state: steps.State, refits: Refits) -> FloatArray:
    """(1 + B, D, K) sπ of all documents: as found, and under every refit.

    Every refit starts documents elsewhere, because a document may have several optima too: where there are more topics
    than features can tell apart, different proportions lead to the same words. A few sweeps over some words of each are
    enough. What is found of a document depends on none of the others, so that tiles give what the whole picture gives.
    """
    rows = some_words(task.documents)
    some = task.documents if len(rows) == len(task.documents.words) else _take(task.documents, rows)
    corpus, found = steps.Corpus(some, task.family, task.workers), [state.a]
    fixed = topics_too(task.checked.fixed)
    for number, (topics, power) in enumerate(members(refits)):
        settings = settings_of(task.checked)._replace(power=power, accelerate=False, fixed=fixed)
        there = steps.start(some, topics, settings, elsewhere(state.a, number, fixed))
        sweeps = steps.sweep_corpus(corpus, there, settings)
        found.append(list(islice(sweeps, tuning.REFIT_SWEEPS))[-1][0].a)
    return np.stack(found)


def elsewhere(a: FloatArray, number: int, fixed: Fixed) -> FloatArray:
    """(D, K) where documents start under a refit: their proportions moved towards one topic, each topic in turn.

    >>> elsewhere(np.array([[4.0, 4.0]]), 1, Fixed()).round(1).tolist()
    [[2.8, 5.2]]
    """
    if fixed.proportions:
        return a.copy()
    moved = (1.0 - tuning.REFIT_MOVE) * a
    moved[:, number % a.shape[1]] += tuning.REFIT_MOVE * a.sum(axis=1)
    return moved


def members(refits: Refits) -> Iterator[tuple[Topics, float]]:
    """Topics of every refit, and the power of the design effect that multiplies λ."""
    for means, spread, power in zip(refits.means, refits.spread, refits.powers, strict=True):
        yield Topics(means, spread), float(power)


def some_words(documents: Documents) -> IntArray:
    """Rows of at most tuning.REFIT_WORDS words of every document, evenly spread over it, and all that have labels."""
    kept = np.minimum(documents.sizes, tuning.REFIT_WORDS)
    if (kept == documents.sizes).all():
        return np.arange(len(documents.words))
    number = np.arange(kept.sum()) - np.repeat(np.cumsum(kept) - kept, kept)
    rows = np.repeat(documents.starts[:-1], kept) + number * np.repeat(documents.sizes, kept) // np.repeat(kept, kept)
    return rows if documents.told is None else np.union1d(rows, labelled_rows(documents))


def _take(documents: Documents, rows: IntArray) -> Documents:
    """All documents with some of their words."""
    return take_rows(documents, rows, np.arange(len(documents.sizes)), documents.document[rows])


class Spread(NamedTuple):
    """How memberships differ between what was found and its refits.

    shift : (N, K) sum over refits of how far they lead from what was found
    squares : (N, K) sum of the squares of that
    distances : (1 + B, 1 + B) root mean squared difference of all memberships between what was found and its refits
    """

    shift: FloatArray
    squares: FloatArray
    distances: FloatArray

    @property
    def n(self) -> int:
        """Number of answers: what was found, and its refits."""
        return len(self.distances)

    def mean(self, found: FloatArray) -> FloatArray:
        """(N, K) memberships that were found, moved to the mean over all refits."""
        moved = self.shift / self.n  # and then in place: words may be many
        moved += found
        np.clip(moved, 0.0, 1.0, out=moved)
        moved /= moved.sum(axis=1, keepdims=True)
        return moved

    @property
    def variance(self) -> FloatArray:
        """(N, K) between refits: of one more like these, whose own variance is known from a few of them alone.

        That is Student's distribution with n − 1 degrees of freedom, s²(1 + 1/n)(n − 1)/(n − 3).
        """
        n = self.n
        variance = self.shift**2
        variance /= n
        np.subtract(self.squares, variance, out=variance)
        np.maximum(variance, 0.0, out=variance)
        variance *= (1.0 + 1.0 / n) / (n - 3.0)
        return variance


def words_under(task: Task, state: steps.State, refits: Refits, a: FloatArray) -> Spread:
    """How the memberships of all words differ between refits.

    state : the words as found, from where a few steps lead to where they are under a refit
    a : (1 + B, D, K) sπ of documents, as documents_under returns it
    """
    corpus = steps.Corpus(task.documents, task.family, task.workers)
    topics = [each for each, _ in members(refits)]
    one, more = tuning.REFIT_STEPS
    told_apart = len(state.topics.means) - 1 <= task.documents.words.shape[1]
    n_steps = one if told_apart else more
    shift, squares = np.empty_like(state.gamma), np.empty_like(state.gamma)

    def of_group(group: Group) -> FloatArray:
        return corpus.move_group(group, topics, a[1:], state.gamma, n_steps, shift, squares)

    gram = np.zeros((len(a), len(a)))
    gram[1:, 1:] = np.sum(task.workers.map(of_group, corpus.groups), axis=0) / state.gamma.size
    size = np.diag(gram)
    return Spread(shift, squares, np.sqrt(np.maximum(size[:, None] + size - 2.0 * gram, 0.0)))


def average_draws(task: Task, state: steps.State, draws: Refits, a: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(N, K) mean and standard deviation of every membership, over draws of topics and documents.

    Given a draw, words depend on nothing else, so that each has a posterior of its own. The variance is the mean of
    those within draws, and the variance between their means.

    state, a : as in words_under; what was found is no draw, and words only start from there
    """
    corpus = steps.Corpus(task.documents, task.family, task.workers)
    settings = settings_of(task.checked)._replace(steps=tuning.DRAW_STEPS)
    mean, std = np.empty_like(state.gamma), np.empty_like(state.gamma)

    def of_group(group: Group) -> None:
        start, n = state.gamma[group.words], len(draws.means)
        total, squares = np.zeros_like(start), np.zeros_like(start)
        for (topics, _), prior in zip(members(draws), a[1:], strict=True):
            gamma = corpus.step_group(group, topics, prior, start.copy(), settings)
            means, deviations = corpus.moments_of_group(group, topics, prior, gamma)
            total += means
            squares += means**2 + deviations**2
        mean[group.words] = total / n
        std[group.words] = np.sqrt(np.maximum(squares / n - (total / n) ** 2, 0.0))

    task.workers.map(of_group, corpus.groups)
    return mean, std
