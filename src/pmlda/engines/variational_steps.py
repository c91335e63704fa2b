"""Variational inference: q(z_n) = Dir(γ_n) for every word, point estimates of the rest. Every step raises one bound.

A sweep visits the words (γ), the documents (a = sπ) and the topics in turn. Sweeps are extrapolated, and that is undone
where the bound would fall (engines.variational_extrapolation). docs/model.md derives the steps.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from pmlda.engines import variational_tuning as tuning
from pmlda.engines.corpus import Cut, Group, add_statistics
from pmlda.engines.variational_extrapolation import Extrapolation, Momentum, Squarem
from pmlda.engines.variational_topics import climb, log_prior
from pmlda.families.base import Conjugate, Family
from pmlda.kernels.additive import split_expected
from pmlda.kernels.arguments import LocalSums
from pmlda.kernels.lines import expected_partition
from pmlda.kernels.variational import local_step
from pmlda.kernels.variational_documents import document_step
from pmlda.kernels.variational_moments import posterior_moments
from pmlda.kernels.variational_refits import move_under_refits
from pmlda.parallel.threads import Workers
from pmlda.storage.archive import register
from pmlda.types import Documents, Fixed, FloatArray, Statistics, Topics


class Settings(NamedTuple):
    """How to sweep.

    alpha, scale_rate : (K,) and number, the priors of π and s
    design_effect, power : how many words repeat each other, and the power of it by which λ is multiplied, see PMLDA
    share : part of the words that are visited; words that are left out cannot repeat others
    steps : natural-gradient steps of each word per sweep
    accelerate : whether to extrapolate
    fixed : what does not move
    """

    alpha: FloatArray
    scale_rate: float
    steps: int = 2
    accelerate: bool = True
    fixed: Fixed = Fixed()
    design_effect: float = 1.0
    power: float = 0.0
    share: float = 1.0

    @property
    def rate(self) -> float:
        """The effective rate λ: scale_rate times a power of the design effect."""
        return float(self.scale_rate * max(1.0, self.design_effect * self.share) ** self.power)


@register
class Past(NamedTuple):
    """What the next sweep needs to know of those before.

    bound : of the last one
    points, reach : of its extrapolation
    """

    bound: float = -np.inf
    points: tuple[FloatArray, ...] = ()
    reach: float = 0.0


@register
class State(NamedTuple):
    """After `sweep` sweeps, all that a run needs to go on. The arrays are updated in place: copy what you want to keep.

    gamma : (N, K) the Dirichlet of each word
    rates : (N,) how bold the next step of each word is
    a : (D, K) s_d π_d of each document
    """

    sweep: int
    topics: Topics
    gamma: FloatArray
    rates: FloatArray
    a: FloatArray
    past: Past = Past()


@register
class Info(NamedTuple):
    """What is reported of a sweep: the bound at the topics and documents it found, and the change per word."""

    bound: float
    change: float


def start(documents: Documents, topics: Topics, settings: Settings, a: FloatArray | None = None) -> State:
    """The state before the first sweep: every word a little surer than its document."""
    n_words, n_topics = len(documents.words), len(topics.means)
    if a is None:
        a = np.full((len(documents.sizes), n_topics), 1.0 / (settings.rate * n_topics))
    gamma = (np.maximum(a, 0.1) + 1.0 / n_topics)[documents.document]
    return State(0, topics, gamma, np.ones(n_words), a)


def run(
    documents: Documents, family: Family, state: State, settings: Settings, workers: Workers
) -> Iterator[tuple[State, Info]]:
    """Sweep forever from the given state; the caller decides when to stop.

    A run that is stopped and started again from its last state continues as if nothing had happened.
    """
    corpus = Corpus(documents, family, workers)
    if state.sweep == 0:
        corpus.guess(state, settings)
    yield from sweep_corpus(corpus, state, settings)


def sweep_corpus(corpus: "Corpus", state: State, settings: Settings) -> Iterator[tuple[State, Info]]:
    """What run does, where the documents have been cut already."""
    leaps, n_words = Leaps(corpus.family, settings, state.past), len(corpus.documents.words)
    while True:
        previous = state.past.bound
        trial = leaps.extrapolate(state)
        if trial is None:
            local = corpus.local_step(state, settings)
        else:
            saved = state.gamma.copy(), state.rates.copy()
            local = corpus.local_step(trial, settings)
            kept = corpus.bound(trial, local, settings) >= previous
            leaps.judge(kept)
            if kept:
                state = trial
            else:
                state.gamma[:], state.rates[:] = saved
                local = corpus.local_step(state, settings)
        bound = corpus.bound(state, local, settings)
        corpus.document_step(state.a, local.sum_log_z, settings, tuning.DOCUMENT_STEPS)
        topics = corpus.topic_step(state, local.statistics, settings.fixed)
        state = State(state.sweep + 1, topics, state.gamma, state.rates, state.a)
        state = state._replace(past=leaps.note(state, bound))
        yield state, Info(bound, (bound - previous) / n_words)


class Local(NamedTuple):
    """What a visit to the words leaves.

    statistics : Σ E[zzᵀ] and Σ E[z] T(x)ᵀ
    sum_log_z : (D, K) Σ E[ln z] of each document
    bound : the words' part of the bound
    """

    statistics: Statistics
    sum_log_z: FloatArray
    bound: float


class Corpus(Cut):
    """The documents with the steps that visit them, shared among workers."""

    def guess(self, state: State, settings: Settings) -> None:
        """A first γ for every word, in place, where A is quadratic: least squares, surer where topics are far apart.

        Where counts are split among topics, a few steps: words that do not know yet what they are would pull all topics
        to the middle, from where they return slowly.
        """
        family, words, told = self.family, self.documents.words, self.documents.told
        n_topics = len(state.topics.means)
        if family.additive:
            self.local_step(state, settings._replace(steps=tuning.ALONE_STEPS))
        if not family.quadratic or n_topics == 1:
            return
        gram = family.table(state.topics)
        diagonal, ones = np.diag(gram), np.ones(n_topics)
        # min ½ zᵀGz − z·ℓ with Σz = 1, and a ridge for topics that are nearly collinear.
        system = np.ones((n_topics + 1, n_topics + 1))
        system[:-1, :-1] = gram + 1e-3 * (np.trace(gram) / n_topics + 1e-300) * np.eye(n_topics)
        system[-1, -1] = 0.0
        inverse = np.linalg.inv(system)[:-1]

        def of_group(group: Group) -> None:
            z = family.scores(words[group.words], state.topics) @ inverse[:, :-1].T + inverse[:, -1]
            np.clip(z, 0.01, None, out=z)
            z /= (z @ ones)[:, None]
            apart = (z @ diagonal - np.einsum("ij,ij->i", z @ gram, z)) / (n_topics - 1)
            z *= np.maximum(apart, 1.0)[:, None]
            z += state.a[self.documents.document[group.words]]
            if told is not None:
                z += told.counts[told.row[group.words]]
            state.gamma[group.words] = z

        self.workers.map(of_group, self.groups)

    def local_step(self, state: State, settings: Settings) -> Local:
        """Move every γ, in place."""
        family, words = self.family, self.documents.words
        log_partition = self.log_partition(state.topics)
        n_topics = len(log_partition.table)
        sum_log_z = np.empty((len(self.segments), n_topics))
        bound = np.empty(len(self.segments))

        def of_group(group: Group) -> Statistics:
            x = words[group.words]
            means, gram = np.empty((len(x), n_topics)), np.empty((n_topics, n_topics))
            local_step(
                self.in_group(log_partition, group),
                family.scores(x, state.topics),
                state.a,
                self.segments[group.segments],
                self.labels(n_topics),
                settings.steps,
                state.gamma,
                state.rates,
                LocalSums(means, gram, sum_log_z[group.segments], bound[group.segments]),
            )
            return Statistics(gram, family.weighted_statistic(means, x))

        statistics = add_statistics(self.workers.map(of_group, self.groups))
        return Local(statistics, self.per_document(sum_log_z), float(bound.sum()))

    def step_group(
        self, group: Group, topics: Topics, a: FloatArray, gamma: FloatArray, settings: Settings
    ) -> FloatArray:
        """γ of the words of one group (n, K), which are moved in place under these topics and a (D, K)."""
        segments, n_topics = self.segments[group.segments].copy(), gamma.shape[1]
        segments[:, :2] -= group.words.start
        scores = self.family.scores(self.documents.words[group.words], topics)
        means, gram = np.empty_like(gamma), np.empty((n_topics, n_topics))
        log_partition = self.in_group(self.log_partition(topics), group)
        sums = LocalSums(means, gram, np.empty((len(segments), n_topics)), np.empty(len(segments)))
        rates, labels = np.ones(len(gamma)), self.labels(n_topics)
        local_step(log_partition, scores, a, segments, labels, settings.steps, gamma, rates, sums)
        return gamma

    def move_group(
        self,
        group: Group,
        topics: Sequence[Topics],
        a: FloatArray,
        gamma: FloatArray,
        n_steps: int,
        shift: FloatArray,
        squares: FloatArray,
    ) -> FloatArray:
        """(R, R) products of how far E[z] of the words of one group moves under R other topics with a (R, D, K).

        shift, squares : (N, K) become the sum over R of how far it moves, and of the squares of that
        """
        segments, rows = self.segments[group.segments].copy(), group.words
        segments[:, :2] -= rows.start
        parts = [self.log_partition(each) for each in topics]
        scores = np.array([self.family.scores(self.documents.words[rows], each) for each in topics])
        gram = np.empty((len(topics), len(topics)))
        move_under_refits(
            self.in_group(parts[0], group),
            np.array([each.table for each in parts]),
            scores,
            np.ascontiguousarray(a),
            segments,
            self.labels(gamma.shape[1]),
            n_steps,
            gamma[rows],
            shift[rows],
            squares[rows],
            gram,
        )
        return gram

    def document_step(self, a: FloatArray, sum_log_z: FloatArray, settings: Settings, steps: int) -> float:
        """Move a of every document, in place; their part of the bound."""
        out, prior = np.empty(len(self.sizes)), self.prior(settings.alpha, settings.rate)
        self.workers.map(
            lambda share: document_step(prior, a, sum_log_z, self.document_range(share), steps, settings.fixed, out),
            self.document_shares,
        )
        return float(out.sum())

    def posterior_moments(self, state: State) -> tuple[FloatArray, FloatArray]:
        """(N, K) mean and standard deviation of every membership, better than those of q."""
        means, std = np.empty_like(state.gamma), np.empty_like(state.gamma)

        def of_group(group: Group) -> None:
            rows = group.words
            means[rows], std[rows] = self.moments_of_group(group, state.topics, state.a, state.gamma[rows])

        self.workers.map(of_group, self.groups)
        return means, std

    def moments_of_group(
        self, group: Group, topics: Topics, a: FloatArray, gamma: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """(n, K) mean and standard deviation of the words of one group, whose γ under these topics and a is known."""
        segments = self.segments[group.segments].copy()
        segments[:, :2] -= group.words.start
        scores = self.family.scores(self.documents.words[group.words], topics)
        means, std = np.empty_like(gamma), np.empty_like(gamma)
        labels = self.labels(gamma.shape[1])
        log_partition = self.in_group(self.log_partition(topics), group)
        posterior_moments(log_partition, scores, a, segments, labels, gamma, means, std)
        return means, std

    def bound(self, state: State, local: Local, settings: Settings) -> float:
        """The whole bound, up to constants of the priors of π and s."""
        documents = self.document_step(state.a, local.sum_log_z, settings, 0)
        base = self.family.log_base_total(self.base, len(self.documents.words), state.topics)
        return local.bound + documents + base + log_prior(self.family, state.topics)

    def topic_step(self, state: State, statistics: Statistics, fixed: Fixed) -> Topics:
        """Better topics: the best ones where there is a formula, otherwise a few steps uphill."""
        topics, family = state.topics, self.family
        if fixed.means and (fixed.spread or not topics.spread.size):
            return topics
        if family.additive and family.conjugate is not None:
            return self._share_out(family.conjugate, state, statistics)
        if family.conjugate is not None:
            return best_topics(family.conjugate, topics, statistics, self.base, len(self.documents.words), fixed)
        return climb(family, topics, statistics, fixed, partial(self.expected_partition, state.gamma))

    def _share_out(self, family: Conjugate, state: State, statistics: Statistics) -> Topics:
        """Better rates where counts are split among topics: each topic's counts over how much of it there is.

        Features have nothing to do with each other: each goes a longer way after a success, a shorter one after a
        failure, and stays where it was if its part of the bound would fall.
        """
        rates, exposure = state.topics.means, -statistics.weighted
        length = np.ones(rates.shape[1])

        def judge(rates: FloatArray) -> tuple[FloatArray, FloatArray]:
            """(p,) each feature's part of the bound, and (K, p) the counts that topics get."""
            values, split = self._split_expected(Topics(rates, state.topics.spread), state.gamma)
            linear = family.log_free_prior_by_value(rates) - exposure * rates
            return values + linear.sum(axis=0), split

        best, split = judge(rates)
        for _ in range(tuning.RATE_STEPS):
            target = family.given_means(state.topics, Statistics(statistics.gram, np.maximum(split, 0.0))).mode
            trial = rates * (target / rates) ** length
            value, parts = judge(trial)
            risen = value >= best
            rates, split = np.where(risen, trial, rates), np.where(risen, parts, split)
            best, length = np.where(risen, value, best), np.where(risen, 1.5 * length, 0.25 * length)
        return state.topics._replace(means=rates)

    def _split_expected(self, topics: Topics, gamma: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(p,) Σ_n x_nj E[ln η_j], up to what rates do not change, and (K, p) how many counts each topic gets."""
        log_partition = self.log_partition(topics)

        def of_group(group: Group) -> tuple[FloatArray, FloatArray]:
            values, split = np.empty(topics.means.shape[1]), np.empty_like(topics.means)
            split_expected(log_partition, gamma, group.words.start, group.words.stop, values, split)
            return values, split

        parts = self.workers.map(of_group, self.groups)
        return np.asarray(sum(part[0] for part in parts)), np.asarray(sum(part[1] for part in parts))

    def expected_partition(
        self, gamma: FloatArray, topics: Topics, wants_slopes: bool, n_bends: int
    ) -> tuple[float, FloatArray, FloatArray]:
        """Σ_n E[A], its slopes along every η_k, and n_bends rows of its second derivatives; empty if not wanted."""
        log_partition = self.log_partition(topics)
        n_topics, q = log_partition.table.shape

        def of_group(group: Group) -> tuple[float, FloatArray, FloatArray]:
            slopes = np.empty((n_topics, q) if wants_slopes else (0, 0))
            bends = np.empty((n_topics, n_topics, n_bends) if n_bends else (0, 0, 0))
            words = group.words
            return expected_partition(log_partition, gamma, words.start, words.stop, slopes, bends), slopes, bends

        parts = self.workers.map(of_group, self.groups)
        total, slopes, bends = parts[0]
        for part in parts[1:]:
            total, slopes, bends = total + part[0], slopes + part[1], bends + part[2]
        return total, slopes, bends


def best_topics(
    family: Conjugate, topics: Topics, statistics: Statistics, base: FloatArray, n_words: float, fixed: Fixed
) -> Topics:
    """The most probable means, then the most probable spread, from sums over words."""
    if not fixed.means:
        topics = topics._replace(means=family.given_means(topics, statistics).mode)
    if not fixed.spread:
        topics = topics._replace(spread=family.given_spread(topics.means, statistics, base, n_words).mode)
    return topics


class Leaps:
    """States ⇄ the vectors of an extrapolation: topics without bounds, ln a, and ln γ where words come along."""

    def __init__(self, family: Family, settings: Settings, past: Past) -> None:
        self._family, self._held, self._wanted = family, settings.fixed, settings.accelerate
        self._rule: Extrapolation = (Momentum if family.creeps else Squarem)(past.points, past.reach)

    def note(self, state: State, bound: float) -> Past:
        """Remember where a sweep has led."""
        if self._wanted:
            self._rule.note(self._vector(state))
        return Past(bound, self._rule.points, self._rule.reach)

    def extrapolate(self, state: State) -> State | None:
        """Where the last sweeps seem to lead, or None."""
        vector = self._rule.propose()
        return None if vector is None else self._state(state, vector)

    def judge(self, kept: bool) -> None:
        """Be bolder after a success, and more careful after a failure."""
        self._rule.judge(kept)

    def _vector(self, state: State) -> FloatArray:
        free = self._family.free(state.topics)
        words = [np.log(state.gamma).ravel()] if self._rule.takes_words else []
        return np.concatenate([free.means.ravel(), free.spread.ravel(), np.log(state.a).ravel(), *words])

    def _state(self, state: State, vector: FloatArray) -> State | None:
        free = self._family.free(state.topics)
        sizes = free.means.size, free.spread.size, state.a.size
        means, spread, log_a, log_gamma = np.split(vector, np.cumsum(sizes))
        topics = self._family.from_free(Topics(means.reshape(free.means.shape), spread.reshape(free.spread.shape)))
        topics = topics._replace(means=self._family.nearest(topics.means))
        with np.errstate(all="ignore"):
            if not self._family.allows(topics) or not np.isfinite(self._family.log_prior(topics).total):
                return None
        a = np.exp(np.clip(log_a, tuning.SMALLEST_LOG, tuning.LARGEST_LOG).reshape(state.a.shape))
        if self._held.scales:  # proportions that are held stay by themselves: ln a is linear in ln s
            a *= (state.a.sum(axis=1) / a.sum(axis=1))[:, None]
        if self._rule.takes_words:
            step = log_gamma.reshape(state.gamma.shape) - np.log(state.gamma)
            farthest = tuning.FARTHEST_WORD
            state = state._replace(gamma=state.gamma * np.exp(np.clip(step, -farthest, farthest)))
        return state._replace(topics=topics, a=a)
