"""Algorithm 1 of the paper: Metropolis within Gibbs, every proposal independent of the current value.

State is what must be carried from sweep to sweep, Info is what is merely reported. docs/model.md lists how the
algorithm was read where its text leaves a choice.
"""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from pmlda.documents import cut_segments
from pmlda.families import Family, Terms
from pmlda.kernels import paper as kernels_paper
from pmlda.kernels import partition as kernels_partition
from pmlda.types import Documents, FloatArray, Latents, Statistics, Topics
from pmlda.workers import Workers, chunks

COMPILED = SimpleNamespace(
    document_step=kernels_paper.document_step,
    word_step=kernels_paper.word_step,
    log_hidden=kernels_paper.log_hidden,
    sum_log=kernels_paper.sum_log,
    sum_partition=kernels_partition.sum_partition,
)
"""The functions that visit documents and words. kernels.twins offers the same in NumPy."""


class Held(NamedTuple):
    """What stays at its starting value."""

    means: bool = False
    spread: bool = False
    proportions: bool = False
    scales: bool = False


class Settings(NamedTuple):
    """alpha (K,), scale_rate: the priors; seed: of all random numbers; document_steps: proposals of π and s per sweep."""

    alpha: FloatArray
    scale_rate: float
    seed: int
    document_steps: int = 1
    held: Held = Held()


class State(NamedTuple):
    """After `sweep` sweeps. The arrays of latents are updated in place: copy what you want to keep."""

    sweep: int
    topics: Topics
    latents: Latents


class Info(NamedTuple):
    """log_joint: ln p(topics, π, s, Z, X); acceptance: the share of accepted proposals in this sweep, by block."""

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
    topics, latents = state.topics, state.latents
    scores = corpus.scores(topics)
    sum_log_z = corpus.sum_log(latents)
    for sweep in range(state.sweep, 2**32):
        accepted = corpus.document_step(latents, sum_log_z, settings, sweep)
        accepted["memberships"], fit = corpus.word_step(topics, scores, latents, settings.seed, sweep)
        sum_log_z = corpus.sum_log(latents)
        moved, log_words, accepted_topics = topic_step(
            _generator(settings.seed, sweep), corpus, topics, latents, fit, settings.held
        )
        if moved is not topics:
            topics = moved
            scores = corpus.scores(topics)
        log_joint = log_words + corpus.log_hidden(latents, sum_log_z, settings) + family.log_prior(topics).total
        yield State(sweep + 1, topics, latents), Info(log_joint, accepted | accepted_topics)


def _generator(seed: int, sweep: int) -> np.random.Generator:
    """Random numbers for the topics, addressed by (seed, sweep)."""
    return np.random.Generator(np.random.Philox(key=seed, counter=[0, 0, 0, sweep]))


class Corpus:
    """The documents with what is computed from them once, and the steps that visit them, shared among workers."""

    def __init__(self, documents: Documents, family: Family, workers: Workers, kernels: Any) -> None:
        self.documents, self.family, self.workers, self.kernels = documents, family, workers, kernels
        self.segments = cut_segments(documents)
        self.first_segment = np.searchsorted(self.segments[:, 2], np.arange(len(documents.sizes)))
        self.segment_shares = workers.share(self.segments[:, 1] - self.segments[:, 0])
        self.document_shares = workers.share(documents.sizes)
        self.chunks = chunks(len(documents.words))
        self.base = sum(workers.map(lambda chunk: family.summarise(documents.words[chunk]), self.chunks))

    def scores(self, topics: Topics) -> FloatArray:
        """(N, K) ℓ, the one product of words and topics."""
        return np.concatenate(
            self.workers.map(lambda chunk: self.family.scores(self.documents.words[chunk], topics), self.chunks)
        )

    def statistics(self, latents: Latents) -> Statistics:
        """ZᵀZ and ZᵀT(X)."""

        def of_chunk(chunk: slice) -> Statistics:
            z = latents.memberships[chunk]
            return Statistics(z.T @ z, self.family.weighted_statistic(z, self.documents.words[chunk]))

        parts = self.workers.map(of_chunk, self.chunks)
        return Statistics(sum(part.gram for part in parts), sum(part.weighted for part in parts))  # type: ignore[arg-type]

    def sum_log(self, latents: Latents) -> FloatArray:
        """(D, K) Σ_n ln z_n of each document."""
        out = np.empty((len(self.segments), latents.memberships.shape[1]))
        self.workers.map(
            lambda share: self.kernels.sum_log(
                latents.log_memberships, self.segments[slice(*share)], out[slice(*share)]
            ),
            self.segment_shares,
        )
        return np.asarray(np.add.reduceat(out, self.first_segment, axis=0))

    def sum_partition(self, topics: Topics, latents: Latents) -> float:
        """Σ_n A(Σ_k z_nk η_k), by a visit to every word."""
        out = np.empty(len(self.segments))
        table = self.family.table(topics)
        self.workers.map(
            lambda share: self.kernels.sum_partition(
                self.family.code,
                table,
                self.family.constant,
                latents.memberships,
                self.segments[slice(*share)],
                out[slice(*share)],
            ),
            self.segment_shares,
        )
        return float(out.sum())

    def log_hidden(self, latents: Latents, sum_log_z: FloatArray, settings: Settings) -> float:
        """Log density of all π, s and z."""
        out = np.empty(len(self.documents.sizes))
        self.workers.map(
            lambda share: self.kernels.log_hidden(
                settings.alpha,
                settings.scale_rate,
                latents.log_proportions,
                latents.scales,
                sum_log_z,
                self.documents.sizes,
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
        out = np.empty((len(self.documents.sizes), 2))
        self.workers.map(
            lambda share: self.kernels.document_step(
                settings.alpha,
                settings.scale_rate,
                latents.log_proportions,
                latents.scales,
                sum_log_z,
                self.documents.sizes,
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
        self, topics: Topics, scores: FloatArray, latents: Latents, seed: int, sweep: int
    ) -> tuple[float, float]:
        """Move every z, in place; the share accepted, and Σ_n z_n·ℓ_n − A(z_n) afterwards."""
        out = np.empty((len(self.segments), 2))
        table = self.family.table(topics)
        self.workers.map(
            lambda share: self.kernels.word_step(
                self.family.code,
                table,
                self.family.constant,
                scores,
                latents.memberships,
                latents.log_memberships,
                latents.log_proportions,
                latents.scales,
                self.documents.starts,
                self.segments[slice(*share)],
                np.uint64(seed),
                sweep,
                out[slice(*share)],
            ),
            self.segment_shares,
        )
        accepted, fit = out.sum(axis=0)
        return float(accepted) / len(scores), float(fit)

    def log_words(self, topics: Topics, latents: Latents, statistics: Statistics) -> float:
        """Σ_n ln p(x_n | z_n): for shared-covariance Gaussians from the statistics alone, no pass over the words."""
        partition = self.family.partition_from_gram(topics, statistics.gram)
        if partition is None:
            partition = self.sum_partition(topics, latents)
        fit = float((self.family.natural(topics) * statistics.weighted).sum())
        return fit - partition + self.log_base(topics)

    def log_base(self, topics: Topics) -> float:
        """Σ_n ln h(x_n)."""
        return self.family.log_base_total(np.asarray(self.base), len(self.documents.words), topics)


def topic_step(
    rng: np.random.Generator, corpus: Corpus, topics: Topics, latents: Latents, fit: float, held: Held
) -> tuple[Topics, float, dict[str, float]]:
    """Propose every mean, then the spread, unit by unit: topics, their log likelihood, the shares accepted.

    The topics returned are the same object if nothing was accepted.
    """
    family = corpus.family
    log_words = fit + corpus.log_base(topics)
    blocks = [name for name in ("means", "spread") if getattr(topics, name).size and not getattr(held, name)]
    if not blocks:
        return topics, log_words, {}
    statistics = corpus.statistics(latents)
    candidate = family.propose(rng, len(topics.means))
    gain = weight_gain(family, candidate, topics)
    accepted = {}
    for name in blocks:
        gains = getattr(gain, name)
        thresholds = np.log(rng.random(len(gains)))
        count = 0
        for unit in range(len(gains)):
            trial = replace_unit(topics, candidate, name, unit, len(gains))
            log_words_trial = corpus.log_words(trial, latents, statistics)
            if thresholds[unit] < log_words_trial - log_words + gains[unit]:
                topics, log_words = trial, log_words_trial
                count += 1
        accepted[name] = count / len(gains)
    return topics, log_words, accepted


def weight_gain(family: Family, candidate: Topics, topics: Topics) -> Terms:
    """Prior over proposal density, candidate against current, in logarithms and unit by unit: the Hastings term."""
    new = _subtract(family.log_prior(candidate), family.log_proposal(candidate))
    old = _subtract(family.log_prior(topics), family.log_proposal(topics))
    return _subtract(new, old)


def _subtract(a: Terms, b: Terms) -> Terms:
    return Terms(a.means - b.means, a.spread - b.spread)


def replace_unit(topics: Topics, candidate: Topics, name: str, unit: int, n_units: int) -> Topics:
    """Topics with one unit of means or spread taken from the candidate."""
    values, new = getattr(topics, name), getattr(candidate, name)
    if values.ndim and len(values) == n_units:
        values = values.copy()
        values[unit] = new[unit]
    else:  # one unit that is the whole
        values = new
    return topics._replace(**{name: values})
