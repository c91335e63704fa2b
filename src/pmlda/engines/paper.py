"""Algorithm 1 of the paper: Metropolis within Gibbs, every proposal independent of the current value.

State is what must be carried from sweep to sweep, Info is what is merely reported. docs/model.md lists how the
algorithm was read where its text leaves a choice.
"""

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from pmlda.engines.base import FIXED_TOPICS, Info, Rules, Sampler, Sums, Task
from pmlda.engines.corpus import Addressed, Cut, Group, add_statistics, sweep_key
from pmlda.engines.initial import first_means, start_latents, start_topics
from pmlda.engines.parameters import fix_topics, fixed_documents
from pmlda.families.base import Family, Terms
from pmlda.kernels import log_partition as kernels_partition
from pmlda.kernels import paper as kernels_paper
from pmlda.parallel.threads import Workers
from pmlda.storage.archive import register
from pmlda.types import Documents, Fixed, FloatArray, IntArray, Latents, Statistics, Topics

COMPILED = SimpleNamespace(
    document_step=kernels_paper.document_step,
    word_step=kernels_paper.word_step,
    word_prior_step=kernels_paper.word_prior_step,
    log_hidden=kernels_paper.log_hidden,
    sum_log=kernels_paper.sum_log,
    gram=kernels_paper.gram,
    sum_partition=kernels_partition.sum_partition,
)
"""The functions that visit documents and words. tests.twins.paper offers the same in NumPy."""


Pair = TypeVar("Pair", Topics, Terms)


# Repeated steps of one sweep draw from streams of keys this far apart; seeds are below 2^31.
STEP_KEY = 2**32


class Settings(NamedTuple):
    """How to sweep.

    alpha, scale_rate : (K,) and number, the priors of π and s
    seed : of all random numbers
    document_steps : proposals of each document's π and s per sweep
    prior_steps : further proposals of each word's z per sweep, from Dir(sπ); Algorithm 1 has none
    fixed : what does not move
    """

    alpha: FloatArray
    scale_rate: float
    seed: int
    document_steps: int = 1
    prior_steps: int = 0
    fixed: Fixed = Fixed()


@register
class State(NamedTuple):
    """After `sweep` sweeps. The arrays of latents are updated in place: copy what you want to keep."""

    sweep: int
    topics: Topics
    latents: Latents


def run(
    documents: Documents,
    family: Family,
    state: State,
    settings: Settings,
    workers: Workers,
    kernels: Any = COMPILED,
) -> Iterator[tuple[State, Info]]:
    """Sweep forever from the given state, all words in one shard; the caller decides when to stop.

    All that a sweep needs beyond its state follows from the state, and random numbers have addresses, so a run that
    is stopped and started again from its last state continues as if nothing had happened.
    """
    local, topics = LocalStep(documents, family, settings, workers, kernels), TopicUpdate(family, settings)
    for sweep in range(state.sweep, 2**32):
        moved, info = topics.update(state.topics, local.move(state), sweep)
        state = State(sweep + 1, moved, state.latents)
        yield state, info


class LocalStep:
    """The part of a sweep that visits words and documents."""

    def __init__(
        self, documents: Documents, family: Family, settings: Settings, workers: Workers, kernels: Any = COMPILED
    ) -> None:
        self._corpus, self._settings = Corpus(documents, family, workers, kernels), settings
        self._sum_log_z: FloatArray | None = None
        self._topics: Topics | None = None
        # Topics whose likelihood takes a visit to the words are moved here, where the words are.
        self._own_topics = None if family.quadratic else TopicStep(family, settings)

    def move(self, state: State) -> Sums:
        """Move documents and words, in place; topics too where sums over words do not tell enough of them."""
        corpus, settings, latents, sweep = self._corpus, self._settings, state.latents, state.sweep
        if self._sum_log_z is None:
            self._sum_log_z = corpus.sum_log(latents)
        if state.topics is not self._topics:
            self._topics, self._scores = state.topics, corpus.scores(state.topics)
        accepted = corpus.document_step(latents, self._sum_log_z, settings, sweep)
        accepted["memberships"], fit, self._sum_log_z, statistics = corpus.word_step(
            state.topics, self._scores, latents, settings, sweep
        )
        sums = Sums(
            statistics,
            fit,
            corpus.base,
            corpus.log_hidden(latents, self._sum_log_z, settings),
            len(latents.memberships),
            accepted,
        )
        if self._own_topics is None:
            return sums
        moved = self._own_topics.move(state.topics, sums, sweep, lambda at: corpus.sum_partition(at, latents))
        return sums._replace(topics=moved.topics, fit=moved.log_words, acceptance=accepted | moved.accepted)


class TopicUpdate:
    """The part of a sweep that proposes topics and judges them by sums over all words."""

    def __init__(self, family: Family, settings: Settings) -> None:
        self._step = TopicStep(family, settings)

    def update(self, topics: Topics, sums: Sums, sweep: int) -> tuple[Topics, Info]:
        """Topics after the sweep."""
        if sums.topics is not None:  # moved where the words are
            return sums.topics, Info(sums.fit + sums.log_hidden + self._step.free_prior(sums.topics), sums.shares)
        moved = self._step.move(topics, sums, sweep)
        log_joint = moved.log_words + sums.log_hidden + self._step.free_prior(moved.topics)
        return moved.topics, Info(log_joint, sums.shares | moved.accepted)


class Corpus(Cut):
    """The documents with the steps that visit them, shared among workers."""

    def __init__(self, documents: Documents, family: Family, workers: Workers, kernels: Any) -> None:
        super().__init__(documents, family, workers)
        self.kernels = kernels

    def scores(self, topics: Topics) -> FloatArray:
        """(N, K) ℓ, the one product of words and topics."""
        return np.concatenate(
            self.workers.map(lambda group: self.family.scores(self.documents.words[group.words], topics), self.groups)
        )

    def statistics(self, latents: Latents) -> Statistics:
        """ZᵀZ and ZᵀT(X)."""
        return add_statistics(self.workers.map(lambda group: self._statistics(group, latents), self.groups))

    def _statistics(self, group: Group, latents: Latents) -> Statistics:
        z = latents.memberships[group.words]
        gram = np.empty((z.shape[1], z.shape[1]))
        self.kernels.gram(z, 0, len(z), gram)  # several times as fast as BLAS for so narrow a matrix
        return Statistics(gram, self.family.weighted_statistic(z, self.documents.words[group.words]))

    def sum_log(self, latents: Latents) -> FloatArray:
        """(D, K) Σ_n ln z_n of each document."""
        out = np.empty((len(self.segments), latents.memberships.shape[1]))
        self.kernels.sum_log(latents.log_memberships, self.segments, out)
        return self.per_document(out)

    def sum_partition(self, topics: Topics, latents: Latents) -> float:
        """Σ_n A(Σ_k z_nk η_k), by a visit to every word."""
        out = np.empty(len(self.segments))
        log_partition = self.log_partition(topics)
        self.workers.map(
            lambda group: self.kernels.sum_partition(
                log_partition, latents.memberships, self.segments[group.segments], out[group.segments]
            ),
            self.groups,
        )
        return float(out.sum())

    def log_hidden(self, latents: Latents, sum_log_z: FloatArray, settings: Settings) -> float:
        """Log density of all π, s, z and labels."""
        out, prior = np.empty(len(self.sizes)), self.prior(settings.alpha, settings.scale_rate)
        self.workers.map(
            lambda share: self.kernels.log_hidden(prior, latents, sum_log_z, self.document_range(share), out),
            self.document_shares,
        )
        return float(out.sum()) + self.log_labels(latents.log_memberships)

    def document_step(
        self, latents: Latents, sum_log_z: FloatArray, settings: Settings, sweep: int
    ) -> dict[str, float]:
        """Move π and s of every document, in place; the shares accepted."""
        out, prior = np.empty((len(self.sizes), 2)), self.prior(settings.alpha, settings.scale_rate)
        self.workers.map(
            lambda share: self.kernels.document_step(
                prior,
                latents,
                sum_log_z,
                self.document_range(share),
                settings.document_steps,
                sweep_key(settings.seed, sweep),
                settings.fixed,
                out,
            ),
            self.document_shares,
        )
        shares = out.sum(axis=0) / (len(out) * settings.document_steps)
        fixed = {"proportions": settings.fixed.proportions, "scales": settings.fixed.scales}
        return {name: float(share) for (name, fixed), share in zip(fixed.items(), shares, strict=True) if not fixed}

    def word_step(
        self, topics: Topics, scores: FloatArray, latents: Latents, settings: Settings, sweep: int
    ) -> tuple[float, float, FloatArray, Statistics]:
        """Move every z, in place: the share accepted, Σ_n z_n·ℓ_n − A(z_n), Σ_n ln z_n of documents, statistics.

        One group of words at a time goes through all of this, while it is in the processor's cache.
        """
        steps = [self.kernels.word_step] + [self.kernels.word_prior_step] * settings.prior_steps
        out = np.empty((len(self.segments), 2))
        sum_log_z = np.empty((len(self.segments), latents.memberships.shape[1]))
        log_partition, labels = self.log_partition(topics), self.labels(latents.memberships.shape[1])

        def of_group(group: Group) -> tuple[float, Statistics]:
            places = self.places(group)
            accepted = 0.0
            for i, step in enumerate(steps):
                key = sweep_key(settings.seed + i * STEP_KEY, sweep)
                step(log_partition, scores, latents, places, labels, key, out[group.segments])
                accepted += float(out[group.segments, 0].sum())
            self.kernels.sum_log(latents.log_memberships, places.segments, sum_log_z[group.segments])
            return accepted, self._statistics(group, latents)

        parts = self.workers.map(of_group, self.groups, n_words=len(scores))
        accepted = sum(part[0] for part in parts) / (len(steps) * len(scores))
        statistics = add_statistics([part[1] for part in parts])
        return accepted, float(out[:, 1].sum()), self.per_document(sum_log_z), statistics


class Weighed(NamedTuple):
    """Topics with their log prior and log proposal densities, unit by unit: what a Hastings ratio needs."""

    topics: Topics
    prior: Terms
    proposal: Terms


def weigh(family: Family, topics: Topics) -> Weighed:
    """Topics with their densities."""
    return Weighed(topics, family.log_prior(topics), family.log_proposal(topics))


class Moved(NamedTuple):
    """Topics after a step, Σ_n ln p(x_n | z_n) under them, and the shares accepted."""

    topics: Topics
    log_words: float
    accepted: dict[str, float]


class TopicStep:
    """Proposals of every mean, then of the spread, unit by unit."""

    def __init__(self, family: Family, settings: Settings) -> None:
        self._family, self._held, self._random = family, settings.fixed, Addressed(settings.seed)
        self._weighed: Weighed | None = None

    def free_prior(self, topics: Topics) -> float:
        """Log prior of the topics' blocks that are not held."""
        prior = self._weigh(topics).prior
        return float(sum(getattr(prior, name).sum() for name in prior._fields if not getattr(self._held, name)))

    def _moving(self, name: str, n_units: int) -> IntArray:
        """The units that are proposed: all but topics whose means are known exactly."""
        exact = self._family.exact_means
        return np.arange(n_units) if name != "means" or exact is None else np.flatnonzero(~exact.all(axis=1))

    def _weigh(self, topics: Topics) -> Weighed:
        """Topics with their densities, which are those of the last step unless topics come from elsewhere."""
        if self._weighed is None or self._weighed.topics is not topics:
            self._weighed = weigh(self._family, topics)
        return self._weighed

    def move(self, topics: Topics, sums: Sums, sweep: int, visit: Callable[[Topics], float] | None = None) -> Moved:
        """Topics after one sweep; the same object if nothing was accepted.

        visit : Σ_n A(Σ_k z_nk η_k) under other topics, by a visit to the words, where sums do not tell it
        """
        family, weighed = self._family, self._weigh(topics)
        log_words = sums.fit + family.log_base_total(sums.base, sums.n_words, topics)
        blocks = [name for name in ("means", "spread") if getattr(topics, name).size and not getattr(self._held, name)]
        if not blocks or sums.statistics is None:
            return Moved(topics, log_words, {})
        rng = self._random.at(sweep)
        candidate = weigh(family, family.propose(rng, len(topics.means)))
        accepted = {}
        for name in blocks:
            gains = hastings(candidate, name) - hastings(weighed, name)
            thresholds = np.log(rng.random(len(gains)))
            units, count = self._moving(name, len(gains)), 0
            if name == "means":
                alone = family.gains_by_mean(weighed.topics, candidate.topics.means, sums.statistics)
                if alone is not None and (thresholds >= alone + gains)[units].all():  # the usual case, settled at once
                    accepted[name] = 0.0
                    continue
            for unit in units:
                trial = replace_unit(weighed.topics, candidate.topics, name, unit, len(gains))
                log_words_trial = log_likelihood(family, trial, sums, visit)
                if thresholds[unit] < log_words_trial - log_words + gains[unit]:
                    prior = replace_unit(weighed.prior, candidate.prior, name, unit, len(gains))
                    proposal = replace_unit(weighed.proposal, candidate.proposal, name, unit, len(gains))
                    weighed, log_words = Weighed(trial, prior, proposal), log_words_trial
                    count += 1
            accepted[name] = count / max(len(units), 1)
        self._weighed = weighed
        return Moved(weighed.topics, log_words, accepted)


def log_likelihood(family: Family, topics: Topics, sums: Sums, visit: Callable[[Topics], float] | None) -> float:
    """Σ_n ln p(x_n | z_n): for shared-covariance Gaussians from the sums alone, no pass over the words."""
    assert sums.statistics is not None
    partition = family.partition_from_gram(topics, sums.statistics.gram)
    if partition is None:
        assert visit is not None, f"Topics of the family {family.name!r} take all words in one shard."
        partition = visit(topics)
    fit = float((family.natural(topics) * sums.statistics.weighted).sum())
    return fit - partition + family.log_base_total(sums.base, sums.n_words, topics)


def hastings(weighed: Weighed, name: str) -> FloatArray:
    """(units,) log prior − log proposal of the means or of the spread."""
    return np.asarray(getattr(weighed.prior, name) - getattr(weighed.proposal, name))


def replace_unit(old: Pair, new: Pair, name: str, unit: int, n_units: int) -> Pair:
    """One unit of old.means or old.spread taken from new."""
    values, candidates = getattr(old, name), getattr(new, name)
    if values.ndim == 0 or len(values) != n_units:  # one unit that is the whole
        return old._replace(**{name: candidates})
    values = values.copy()
    values[unit] = candidates[unit]
    return old._replace(**{name: values})


class Paper(Sampler):
    """Algorithm 1 of the paper, one chain."""

    name = "paper"
    summary = "Algorithm 1 of the paper"
    warns = False  # its chain hardly ever mixes

    def start(self, task: Task, given: FloatArray | None) -> list[State]:
        rng = np.random.default_rng(task.seed)
        means = first_means(rng, task.checked, task.documents, task.family, given)
        topics = start_topics(rng, task.documents.words, task.family, means)
        topics = fix_topics(task.checked, task.family, topics, given)
        return [start_from(task, topics, task.checked.fixed, rng)]

    def start_known(self, task: Task, topics: Topics, fixed: Fixed) -> list[State]:
        return [start_from(task, topics, fixed, np.random.default_rng(task.seed))]

    def local_step(self, documents: Documents, family: Family, rules: Rules, workers: Workers) -> LocalStep:
        return LocalStep(documents, family, settings_of(rules, rules.key), workers)

    def topic_update(self, family: Family, rules: Rules) -> TopicUpdate:
        return TopicUpdate(family, settings_of(rules, rules.seed))


def settings_of(rules: Rules, seed: int) -> Settings:
    """How to sweep, with random numbers of this seed."""
    checked = rules.checked
    return Settings(checked.alpha, checked.scale_rate, seed, checked.document_steps, checked.prior_steps, rules.fixed)


def start_from(task: Task, topics: Topics, fixed: Fixed, rng: np.random.Generator) -> State:
    """The state before the first sweep, from these topics."""
    latents = start_latents(rng, task.documents, task.family, topics, task.checked.scale_rate, task.workers)
    if fixed != FIXED_TOPICS:  # of new documents nothing is known
        log_pi, scales = fixed_documents(task.checked, latents.log_proportions, latents.scales)
        latents = latents._replace(log_proportions=log_pi, scales=scales)
    return State(0, topics, latents)
