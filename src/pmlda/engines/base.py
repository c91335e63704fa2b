"""The interface of engines. Words come in shards of complete documents; topics are shared by all shards.

A sampler consists of an initial state; a local step, which moves the latent variables of one shard and returns sums
over its words; and a topic update, which moves the topics given the sums over all shards. One shard in memory and ten
thousand on disk make no difference to it. docs/extending.md adds an engine step by step.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from pmlda.engines.diagnostics import EXTEND, Remedy
from pmlda.engines.parameters import Checked
from pmlda.families.base import Family
from pmlda.parallel.progress import Report, silent
from pmlda.parallel.threads import Workers
from pmlda.storage.archive import register
from pmlda.storage.checkpoints import OpenSeries, no_checkpoints
from pmlda.types import Documents, Fit, Fixed, FloatArray, Latents, Refits, Statistics, Topics

# Random numbers of different shards have keys this far apart; seeds, and steps of one sweep, stay below it.
SHARD_KEY = 2**40
FIXED_TOPICS = Fixed(means=True, spread=True)


def topics_too(fixed: Fixed) -> Fixed:
    """The same, and topics."""
    return fixed._replace(means=True, spread=True)


class Task(NamedTuple):
    """The input of an engine: centred documents and their family, parameters, seed, threads, checkpoints.

    shard : index of the shard, or None if the documents are all there are
    refits : topics of refits, beside topics that are known; engines that make none ignore it
    remedy : what a long run advises early, if its chains will not mix
    """

    documents: Documents
    family: Family
    checked: Checked
    seed: int
    workers: Workers
    report: Report = silent
    series: OpenSeries = no_checkpoints
    shard: int | None = None
    refits: Refits | None = None
    remedy: Remedy = EXTEND


def around(documents: Documents, family: Family, offset: FloatArray) -> tuple[Documents, Family]:
    """Documents and family shifted so that offset is at zero; unchanged if the family has no location.

    Large offsets cost digits in ℓ and ZᵀX, so the data of a family with a location are centred.
    """
    if not family.has_location:
        return documents, family
    return documents._replace(words=documents.words - offset), family.shifted(-offset)


class Outcome(NamedTuple):
    """A fit, and what is needed to extend it, if that is possible."""

    fit: Fit
    chains: Any = None


class Engine(ABC):
    """An inference method. Engines contain no data; the input of a fit is a Task.

    name : the name that users give
    summary : one line on what it does
    samples_words : whether topics are learnt from a subsample of the words, and maps follow from topics and documents;
        otherwise the engine visits every word, and maps are its results
    thins_words : whether, of a picture, it visits no more pixels than tell something new; the others follow from its
        draws
    checkpoint_seconds : default interval between checkpoints of a long run; 0 disables them
    streams : whether it can learn from successive batches of documents
    warns : whether a fit that has not converged is worth a warning
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    samples_words: ClassVar[bool] = False
    thins_words: ClassVar[bool] = False
    checkpoint_seconds: ClassVar[float] = 60.0
    streams: ClassVar[bool] = False
    warns: ClassVar[bool] = True

    @abstractmethod
    def fit(self, task: Task, given: FloatArray | None) -> Outcome:
        """Infer everything. given : (K, p) initial means given by the user, or None"""

    @abstractmethod
    def transform(self, task: Task, topics: Topics) -> Fit:
        """Infer everything but the topics."""


class Info(NamedTuple):
    """What is reported about a sweep.

    log_joint : ln p(topics, π, s, Z, X); topics that are held count as known, without a prior. Where topics are drawn
        from counts that were split among them, it is that of the topics before the draw
    acceptance : the acceptance rate of proposals by block
    """

    log_joint: float
    acceptance: dict[str, float]


class State(Protocol):
    """The state of a sampler on one shard after `sweep` sweeps; a NamedTuple, with whatever else the engine needs.

    latents : the latent variables of the shard, updated in place
    """

    @property
    def sweep(self) -> int: ...
    @property
    def topics(self) -> Topics: ...
    @property
    def latents(self) -> Latents: ...


@register
class Sums(NamedTuple):
    """Sums over the words of one or several shards, for the topic update.

    statistics : ZᵀZ and ZᵀT(X), if topics are updated from them
    fit : Σ z·ℓ − A(z)
    base : what the family needs of the words alone, see Family.summarise
    log_hidden : log density of all π, s and z
    n_words, n_shards : number of words and of shards
    acceptance : sum over shards of the acceptance rates by block
    topics : the topics, if they can only be moved together with the words, which requires a single shard
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
        """Acceptance rates by block, averaged over shards."""
        return {name: value / self.n_shards for name, value in self.acceptance.items()}


def add_up(parts: Sequence[Sums]) -> Sums:
    """The sum over shards, added pairwise: accurate, and always in the same order."""
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
    """The step of a sampler on one shard, with whatever it precomputes and keeps between sweeps."""

    def move(self, state: Any) -> Sums:
        """Move the latent variables in place, given the topics of the state; return sums over the words."""


class TopicUpdate(Protocol):
    """The step of a sampler that moves the topics."""

    def update(self, topics: Topics, sums: Sums, sweep: int) -> tuple[Topics, Info]:
        """Topics after this sweep, given the sums over all words."""


class Rules(NamedTuple):
    """What the sweeps of one chain obey: parameters, seed of the chain, what is held, and the key of the shard."""

    checked: Checked
    seed: int
    fixed: Fixed
    shard: int | None = None

    @property
    def key(self) -> int:
        """Of the random numbers of words and documents."""
        return self.seed if self.shard is None else self.seed + (self.shard + 1) * SHARD_KEY


class Sampler(Engine):
    """An engine that draws from the posterior, sweep by sweep; engines.sampling runs it."""

    def count_chains(self, checked: Checked) -> int:
        """Number of chains that run in parallel."""
        return 1

    @abstractmethod
    def start(self, task: Task, given: FloatArray | None) -> Sequence[State]:
        """The initial state of every chain, from the words of the only shard."""

    @abstractmethod
    def start_known(self, task: Task, topics: Topics, fixed: Fixed) -> Sequence[State]:
        """The initial state of every chain on one shard, given topics that are known or initial values."""

    @abstractmethod
    def local_step(self, documents: Documents, family: Family, rules: Rules, workers: Workers) -> LocalStep:
        """The local step on one shard."""

    @abstractmethod
    def topic_update(self, family: Family, rules: Rules) -> TopicUpdate:
        """The topic update."""

    def fit(self, task: Task, given: FloatArray | None) -> Outcome:
        from pmlda.engines.sampling import sample  # the loop runs engines, and knows this interface

        return sample(self, task, task.checked.fixed, lambda: self.start(task, given))

    def transform(self, task: Task, topics: Topics) -> Fit:
        from pmlda.engines.sampling import sample

        fixed = topics_too(task.checked.fixed)
        return sample(self, task, fixed, lambda: self.start_known(task, topics, fixed)).fit
