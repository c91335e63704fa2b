"""What an engine is. Words come in shards, each some whole documents; topics are shared by all of them.

A sampler is four things: where to start; a local step, which moves what is hidden about the words of one shard and
returns sums over them; an update, which moves the topics given the sums over all shards; and a summary of the draws.
One shard in memory or ten thousand on disk make no difference to it. docs/extending.md adds an engine step by step.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from pmlda.engines.corpus import Held
from pmlda.engines.parameters import Checked
from pmlda.families.base import Family
from pmlda.parallel.progress import Report, silent
from pmlda.parallel.threads import Workers
from pmlda.storage.archive import register
from pmlda.storage.checkpoints import OpenSeries, no_checkpoints
from pmlda.types import Documents, Fit, FloatArray, Latents, Statistics, Topics

# Random numbers of different shards have keys this far apart; seeds, and steps of one sweep, stay below it.
SHARD_KEY = 2**40
HELD_TOPICS = Held(means=True, spread=True)


class Task(NamedTuple):
    """What an engine is given: centred documents and their family, parameters, seed, threads, checkpoints.

    shard : None where the documents are all there are; otherwise which part of them they are
    """

    documents: Documents
    family: Family
    checked: Checked
    seed: int
    workers: Workers
    report: Report = silent
    series: OpenSeries = no_checkpoints
    shard: int | None = None


def around(documents: Documents, family: Family, offset: FloatArray) -> tuple[Documents, Family]:
    """Documents and family moved so that offset lies at zero; as they are where the family has no location.

    Large offsets cost digits in ℓ and ZᵀX, so a family with a location is computed around the middle of the data.
    """
    if not family.has_location:
        return documents, family
    return documents._replace(words=documents.words - offset), family.shifted(-offset)


class Outcome(NamedTuple):
    """A fit, and what is needed to go on sampling, where that is possible."""

    fit: Fit
    chains: Any = None


class Engine(ABC):
    """One way to infer everything. Engines hold no data; what a run needs travels in a Task.

    name : what users call it
    summary : one line on what it does
    samples_words : whether topics are learnt from a sample of the words, and maps follow from topics and documents;
        otherwise the engine visits every word, and maps are what it found there
    checkpoint_seconds : how often a long run keeps what it needs to resume, unless the user says otherwise; 0 is never
    streams : whether it can learn from one batch of documents after the other
    warns : whether a fit that has not converged is worth a warning
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    samples_words: ClassVar[bool] = False
    checkpoint_seconds: ClassVar[float] = 60.0
    streams: ClassVar[bool] = False
    warns: ClassVar[bool] = True

    @abstractmethod
    def fit(self, task: Task, given: FloatArray | None) -> Outcome:
        """Learn everything. given : (K, p) means that the user gave, or None"""

    @abstractmethod
    def transform(self, task: Task, topics: Topics) -> Fit:
        """Learn everything but the topics."""


class Info(NamedTuple):
    """What is reported of a sweep.

    log_joint : ln p(topics, π, s, Z, X); topics that are held count as known, without a prior
    acceptance : the share of accepted proposals by block
    """

    log_joint: float
    acceptance: dict[str, float]


class State(Protocol):
    """What a sampler knows of one shard after `sweep` sweeps; a NamedTuple, with whatever else the engine carries.

    latents : what is hidden about the words of the shard, moved in place
    """

    @property
    def sweep(self) -> int: ...
    @property
    def topics(self) -> Topics: ...
    @property
    def latents(self) -> Latents: ...


@register
class Sums(NamedTuple):
    """What the update of the topics needs of all words: sums over shards.

    statistics : ZᵀZ and ZᵀT(X), where topics are updated from them
    fit : Σ z·ℓ − A(z)
    base : what the family needs of the words alone, see Family.summarise
    log_hidden : log density of all π, s and z
    n_words, n_shards : how many
    acceptance : shares accepted by block, to be divided by n_shards
    topics : where topics can only be moved together with the words, which takes a single shard, the topics found
    """

    statistics: Statistics | None
    fit: float
    base: FloatArray
    log_hidden: float
    n_words: int
    acceptance: dict[str, float]
    topics: Topics | None = None
    n_shards: int = 1

    @property
    def shares(self) -> dict[str, float]:
        """Accepted proposals by block, averaged over shards."""
        return {name: value / self.n_shards for name, value in self.acceptance.items()}


def add_up(parts: Sequence[Sums]) -> Sums:
    """The sum over shards, neighbours first, then neighbours of these: accurate, and always in the same order."""
    parts = list(parts)
    while len(parts) > 1:
        pairs = [_add(parts[i], parts[i + 1]) for i in range(0, len(parts) - 1, 2)]
        parts = pairs + parts[len(pairs) * 2 :]
    return parts[0]


def _add(one: Sums, other: Sums) -> Sums:
    for each in (one, other):
        assert each.topics is None, "Topics that move together with the words take all words in one shard."
    statistics = None
    if one.statistics is not None and other.statistics is not None:
        statistics = Statistics(*(a + b for a, b in zip(one.statistics, other.statistics, strict=True)))
    return Sums(
        statistics,
        one.fit + other.fit,
        np.asarray(one.base + other.base),
        one.log_hidden + other.log_hidden,
        one.n_words + other.n_words,
        {name: value + other.acceptance.get(name, 0.0) for name, value in one.acceptance.items()},
        None,
        one.n_shards + other.n_shards,
    )


class LocalStep(Protocol):
    """The step of a sampler on one shard, with whatever it computes once and keeps between sweeps."""

    def move(self, state: Any) -> Sums:
        """Move what is hidden about the words, in place, under the topics of the state."""


class TopicUpdate(Protocol):
    """The step of a sampler on the topics."""

    def update(self, topics: Topics, sums: Sums, sweep: int) -> tuple[Topics, Info]:
        """Topics after this sweep, given the sums over all words."""


class Rules(NamedTuple):
    """What the sweeps of one chain obey: parameters, seed of the chain, what is held, and the key of the shard."""

    checked: Checked
    seed: int
    held: Held
    shard: int | None = None

    @property
    def key(self) -> int:
        """Of the random numbers of words and documents."""
        return self.seed if self.shard is None else self.seed + (self.shard + 1) * SHARD_KEY


class Sampler(Engine):
    """An engine that draws from the posterior, sweep by sweep; engines.sampling runs it."""

    def count_chains(self, checked: Checked) -> int:
        """How many chains run side by side."""
        return 1

    @abstractmethod
    def start(self, task: Task, given: FloatArray | None) -> Sequence[State]:
        """The first state of every chain, found from the words of the only shard."""

    @abstractmethod
    def start_known(self, task: Task, topics: Topics, held: Held) -> Sequence[State]:
        """The first state of every chain on one shard, topics known or as a start."""

    @abstractmethod
    def local_step(self, documents: Documents, family: Family, rules: Rules, workers: Workers) -> LocalStep:
        """The step on the words of one shard."""

    @abstractmethod
    def topic_update(self, family: Family, rules: Rules) -> TopicUpdate:
        """The step on the topics."""

    def fit(self, task: Task, given: FloatArray | None) -> Outcome:
        from pmlda.engines.sampling import sample  # the loop runs engines, and knows this interface

        return sample(self, task, task.checked.held, lambda: self.start(task, given))

    def transform(self, task: Task, topics: Topics) -> Fit:
        from pmlda.engines.sampling import sample

        return sample(self, task, HELD_TOPICS, lambda: self.start_known(task, topics, HELD_TOPICS)).fit
