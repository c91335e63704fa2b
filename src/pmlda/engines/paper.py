"""Algorithm 1 of the paper: Metropolis within Gibbs, every proposal independent of the current value.

State is what must be carried from sweep to sweep, Info is what is merely reported. docs/model.md lists how the
algorithm was read where its text leaves a choice.
"""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from pmlda.engines.corpus import Cut, Group, Held, add_statistics
from pmlda.families import Family, Terms
from pmlda.kernels import log_partition as kernels_partition
from pmlda.kernels import paper as kernels_paper
from pmlda.parallel.threads import Workers
from pmlda.storage.archive import register
from pmlda.types import Documents, FloatArray, Latents, Statistics, Topics

COMPILED = SimpleNamespace(
    document_step=kernels_paper.document_step,
    word_step=kernels_paper.word_step,
    word_prior_step=kernels_paper.word_prior_step,
    log_hidden=kernels_paper.log_hidden,
    sum_log=kernels_paper.sum_log,
    gram=kernels_paper.gram,
    sum_partition=kernels_partition.sum_partition,
)
"""The functions that visit documents and words. kernels.twins offers the same in NumPy."""


Pair = TypeVar("Pair", Topics, Terms)


# Repeated steps of one sweep draw from streams of keys this far apart; seeds are below 2^31.
STEP_KEY = 2**32


class Settings(NamedTuple):
    """How to sweep.

    alpha, scale_rate : (K,) and number, the priors of π and s
    seed : of all random numbers
    document_steps : proposals of each document's π and s per sweep
    prior_steps : further proposals of each word's z per sweep, from Dir(sπ); Algorithm 1 has none
    held : what does not move
    """

    alpha: FloatArray
    scale_rate: float
    seed: int
    document_steps: int = 1
    prior_steps: int = 0
    held: Held = Held()


@register
class State(NamedTuple):
    """After `sweep` sweeps. The arrays of latents are updated in place: copy what you want to keep."""

    sweep: int
    topics: Topics
    latents: Latents


class Info(NamedTuple):
    """What is reported of a sweep.

    log_joint : ln p(topics, π, s, Z, X); topics that are held count as known, without a prior
    acceptance : the share of accepted proposals by block
    """

    log_joint: float
    acceptance: dict[str, float]


def run(
    documents: Documents,
    family: Family,
    state: State,
    settings: Settings,
    workers: Workers,
    kernels: Any = COMPILED,
) -> Iterator[tuple[State, Info]]:
    """Sweep forever from the given state; the caller decides when to stop.

    All that a sweep needs beyond its state follows from the state, and random numbers have addresses, so a run that
    is stopped and started again from its last state continues as if nothing had happened.
    """
    corpus = Corpus(documents, family, workers, kernels)
    weighed, latents = weigh(family, state.topics), state.latents
    scores = corpus.scores(weighed.topics)
    sum_log_z = corpus.sum_log(latents)
    generator = Addressed(settings.seed)
    for sweep in range(state.sweep, 2**32):
        accepted = corpus.document_step(latents, sum_log_z, settings, sweep)
        accepted["memberships"], fit, sum_log_z, statistics = corpus.word_step(
            weighed.topics, scores, latents, settings, sweep
        )
        moved, log_words, accepted_topics = topic_step(
            generator.at(sweep), corpus, weighed, latents, statistics, fit, settings.held
        )
        if moved is not weighed:
            weighed = moved
            scores = corpus.scores(weighed.topics)
        log_joint = log_words + corpus.log_hidden(latents, sum_log_z, settings) + free_prior(weighed, settings.held)
        yield State(sweep + 1, weighed.topics, latents), Info(log_joint, accepted | accepted_topics)


class Addressed:
    """Random numbers for the topics, addressed by (seed, sweep)."""

    def __init__(self, seed: int) -> None:
        self._generator = np.random.Generator(np.random.Philox(key=seed))
        self._start: Any = self._generator.bit_generator.state

    def at(self, sweep: int) -> np.random.Generator:
        """A generator at the start of the sweep's numbers. Moving one is ten times as fast as making one."""
        self._start["state"]["counter"][:] = 0, 0, 0, sweep
        self._generator.bit_generator.state = self._start
        return self._generator


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
        table = self.family.table(topics)
        self.workers.map(
            lambda group: self.kernels.sum_partition(
                self.family.code,
                table,
                self.family.constant,
                latents.memberships,
                self.segments[group.segments],
                out[group.segments],
            ),
            self.groups,
        )
        return float(out.sum())

    def log_hidden(self, latents: Latents, sum_log_z: FloatArray, settings: Settings) -> float:
        """Log density of all π, s and z."""
        out = np.empty(len(self.sizes))
        self.workers.map(
            lambda share: self.kernels.log_hidden(
                settings.alpha,
                settings.scale_rate,
                latents.log_proportions,
                latents.scales,
                sum_log_z,
                self.sizes,
                *share,
                out,
            ),
            self.document_shares,
        )
        return float(out.sum())

    def document_step(
        self, latents: Latents, sum_log_z: FloatArray, settings: Settings, sweep: int
    ) -> dict[str, float]:
        """Move π and s of every document, in place; the shares accepted."""
        out = np.empty((len(self.sizes), 2))
        self.workers.map(
            lambda share: self.kernels.document_step(
                settings.alpha,
                settings.scale_rate,
                latents.log_proportions,
                latents.scales,
                sum_log_z,
                self.sizes,
                np.uint64(settings.seed),
                sweep,
                settings.document_steps,
                settings.held.proportions,
                settings.held.scales,
                *share,
                out,
            ),
            self.document_shares,
        )
        shares = out.sum(axis=0) / (len(out) * settings.document_steps)
        held = {"proportions": settings.held.proportions, "scales": settings.held.scales}
        return {name: float(share) for (name, fixed), share in zip(held.items(), shares, strict=True) if not fixed}

    def word_step(
        self, topics: Topics, scores: FloatArray, latents: Latents, settings: Settings, sweep: int
    ) -> tuple[float, float, FloatArray, Statistics]:
        """Move every z, in place: the share accepted, Σ_n z_n·ℓ_n − A(z_n), Σ_n ln z_n of documents, statistics.

        One group of words at a time goes through all of this, while it is in the processor's cache.
        """
        steps = [self.kernels.word_step] + [self.kernels.word_prior_step] * settings.prior_steps
        out = np.empty((len(self.segments), 2))
        sum_log_z = np.empty((len(self.segments), latents.memberships.shape[1]))
        table = self.family.table(topics)

        def of_group(group: Group) -> tuple[float, Statistics]:
            segments = self.segments[group.segments]
            accepted = 0.0
            for i, step in enumerate(steps):
                step(
                    self.family.code,
                    table,
                    self.family.constant,
                    scores,
                    latents.memberships,
                    latents.log_memberships,
                    latents.log_proportions,
                    latents.scales,
                    self.documents.starts,
                    segments,
                    np.uint64(settings.seed + i * STEP_KEY),
                    sweep,
                    out[group.segments],
                )
                accepted += float(out[group.segments, 0].sum())
            self.kernels.sum_log(latents.log_memberships, segments, sum_log_z[group.segments])
            return accepted, self._statistics(group, latents)

        parts = self.workers.map(of_group, self.groups, n_words=len(scores))
        accepted = sum(part[0] for part in parts) / (len(steps) * len(scores))
        statistics = add_statistics([part[1] for part in parts])
        return accepted, float(out[:, 1].sum()), self.per_document(sum_log_z), statistics

    def log_words(self, topics: Topics, latents: Latents, statistics: Statistics) -> float:
        """Σ_n ln p(x_n | z_n): for shared-covariance Gaussians from the statistics alone, no pass over the words."""
        partition = self.family.partition_from_gram(topics, statistics.gram)
        if partition is None:
            partition = self.sum_partition(topics, latents)
        fit = float((self.family.natural(topics) * statistics.weighted).sum())
        return fit - partition + self.log_base(topics)

    def log_base(self, topics: Topics) -> float:
        """Σ_n ln h(x_n)."""
        return self.family.log_base_total(self.base, len(self.documents.words), topics)


class Weighed(NamedTuple):
    """Topics with their log prior and log proposal densities, unit by unit: what a Hastings ratio needs."""

    topics: Topics
    prior: Terms
    proposal: Terms


def weigh(family: Family, topics: Topics) -> Weighed:
    """Topics with their densities."""
    return Weighed(topics, family.log_prior(topics), family.log_proposal(topics))


def free_prior(weighed: Weighed, held: Held) -> float:
    """Log prior of the topics' blocks that are not held."""
    return float(sum(getattr(weighed.prior, name).sum() for name in weighed.prior._fields if not getattr(held, name)))


def topic_step(
    rng: np.random.Generator,
    corpus: Corpus,
    weighed: Weighed,
    latents: Latents,
    statistics: Statistics,
    fit: float,
    held: Held,
) -> tuple[Weighed, float, dict[str, float]]:
    """Propose every mean, then the spread, unit by unit: topics, their log likelihood, the shares accepted.

    The topics returned are the same object if nothing was accepted.
    """
    log_words = fit + corpus.log_base(weighed.topics)
    blocks = [name for name in ("means", "spread") if getattr(weighed.topics, name).size and not getattr(held, name)]
    if not blocks:
        return weighed, log_words, {}
    candidate = weigh(corpus.family, corpus.family.propose(rng, len(weighed.topics.means)))
    accepted = {}
    for name in blocks:
        gains = hastings(candidate, name) - hastings(weighed, name)
        thresholds = np.log(rng.random(len(gains)))
        count = 0
        if name == "means":
            alone = corpus.family.gains_by_mean(weighed.topics, candidate.topics.means, statistics)
            if alone is not None and (thresholds >= alone + gains).all():  # the usual case, settled at once
                accepted[name] = 0.0
                continue
        for unit in range(len(gains)):
            trial = replace_unit(weighed.topics, candidate.topics, name, unit, len(gains))
            log_words_trial = corpus.log_words(trial, latents, statistics)
            if thresholds[unit] < log_words_trial - log_words + gains[unit]:
                prior = replace_unit(weighed.prior, candidate.prior, name, unit, len(gains))
                proposal = replace_unit(weighed.proposal, candidate.proposal, name, unit, len(gains))
                weighed, log_words = Weighed(trial, prior, proposal), log_words_trial
                count += 1
        accepted[name] = count / len(gains)
    return weighed, log_words, accepted


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
