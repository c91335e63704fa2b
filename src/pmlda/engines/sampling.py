"""The loop over the sweeps of a sampler: local steps on all shards, sums, topic update, and so on.

In memory there is one shard, and chains run in parallel on threads. pipeline.shards runs the same chains over shards on
disk.
"""

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np

from pmlda.engines.base import Info, Outcome, Rules, Sampler, State, Sums, Task, TopicUpdate, add_up
from pmlda.engines.collect import Record, Take, Tally, agreement, join, match_topics, summarise
from pmlda.engines.diagnostics import (
    NOT_MIXED_ESS,
    NOT_MIXED_RHAT,
    Remedy,
    as_sentence,
    effective_sample_size,
    split_rhat,
)
from pmlda.engines.parameters import Checked, Plan
from pmlda.families.base import Family
from pmlda.parallel.interrupt import deferred_interrupt
from pmlda.parallel.threads import Workers
from pmlda.storage.archive import register
from pmlda.types import BoolArray, Fixed, FloatArray, Topics

# Distance between the seeds of chains; seeds stay below 2^31.
CHAIN_SEEDS = 1_000_003
# A run longer than EARLY_SECONDS is judged then, if it has made EARLY_SWEEPS sweeps, and again after as long.
EARLY_SECONDS, EARLY_SWEEPS = 45.0, 100


@register
class Told(NamedTuple):
    """Instructions for a local step: the topics, and what becomes of the previous draw (None during warm-up)."""

    sweep: int
    topics: Topics
    take: Take | None


class Chain:
    """The part of a chain that all shards share: topics, their record, what becomes of the last draw."""

    def __init__(self, topics: Topics, record: Record, topic_update: TopicUpdate) -> None:
        self.topics, self.record, self.take = topics, record, None
        self._topic_update = topic_update

    topics: Topics
    take: Take | None

    @property
    def sweep(self) -> int:
        """Number of completed sweeps."""
        return len(self.record.trace)

    def told(self) -> Told:
        """Instructions for the next sweep."""
        return Told(self.sweep, self.topics, self.take)

    def advance(self, sums: Sequence[Sums]) -> Info:
        """Complete a sweep with the sums that the shards returned."""
        self.topics, info = self._topic_update.update(self.topics, add_up(sums), self.sweep)
        self.take = self.record.add(self.topics, info)
        return info

    def to_table(self) -> dict[str, Any]:
        """The content as a table."""
        return {"topics": self.topics, "take": self.take, "record": self.record.to_table()}

    def take_up(self, table: dict[str, Any]) -> None:
        """Restore the chain from a table."""
        self.topics, self.take = table["topics"], table["take"]
        self.record.take_up(self.topics, table["record"])


class LocalChain:
    """The part of a chain that belongs to one shard: the state of the engine, and a tally of the draws."""

    def __init__(self, state: State, tally: Tally) -> None:
        self.state, self.tally = state, tally

    def settle(self, take: Take | None, workers: Workers) -> None:
        """Add the last draw to the tally."""
        if take is not None:
            self.tally.add(self.state.latents, take, workers)

    def step(self, told: Told, move: Callable[[Any], Sums], workers: Workers) -> Sums:
        """Run one sweep over the words of the shard, in place."""
        self.settle(told.take, workers)
        state: Any = self.state
        self.state = state._replace(sweep=told.sweep, topics=told.topics)
        sums = move(self.state)
        self.state = state._replace(sweep=told.sweep + 1, topics=told.topics)
        return sums

    def to_table(self) -> dict[str, Any]:
        """The content as a table."""
        return {"state": self.state, "tally": self.tally.to_table()}

    @classmethod
    def new(cls, state: State, plan: Plan) -> "LocalChain":
        """A chain before its first sweep."""
        return cls(state, Tally(plan))

    @classmethod
    def from_table(cls, table: dict[str, Any], plan: Plan) -> "LocalChain":
        """The inverse of to_table."""
        local = cls(table["state"], Tally(plan))
        local.tally.take_up(local.state.latents, table["tally"])
        return local


class Chains(NamedTuple):
    """Everything that is needed to extend a fit in memory."""

    chains: list[Chain]
    locals: list[LocalChain]
    fixed: Fixed


def sweeps(
    chains: Sequence[Chain], step: Callable[[list[Chain]], list[list[Sums]]], n_sweeps: int
) -> Iterator[tuple[Chain, Info]]:
    """Yield every chain after each of its sweeps, until all have completed n_sweeps; the caller may stop earlier.

    step : for every chain, the sums that each shard returns for its next sweep
    """
    while going := [chain for chain in chains if chain.sweep < n_sweeps]:
        for chain, sums in zip(going, step(going), strict=True):
            yield chain, chain.advance(sums)


# ── in memory ──────────────────────────────────────────────────────────────────────────────────────────────────
def sample(engine: Sampler, task: Task, fixed: Fixed, start: Callable[[], Sequence[State]]) -> Outcome:
    """Run all chains to the end, from their last checkpoints or else from their initial states."""
    names = chain_names(engine, task.checked)
    kept = [task.series(name).read_latest() for name in names]
    states = start() if None in kept else []
    plan = shared_plan(engine, task.checked)
    chains, locals_ = [], []
    for number, content in enumerate(kept):
        local = (
            LocalChain.new(states[number], plan) if content is None else LocalChain.from_table(content["local"], plan)
        )
        rules = rules_of(task.checked, task.seed, fixed, number)
        chain = new_chain(engine, task.family, rules, local.state.topics)
        if content is not None:
            chain.take_up(content["chain"])
        chains.append(chain)
        locals_.append(local)
    return extend(engine, task, Chains(chains, locals_, fixed), task.checked.plan.n_sweeps)


def extend(engine: Sampler, task: Task, kept: Chains, n_sweeps: int) -> Outcome:
    """Continue until every chain has completed n_sweeps, chains in parallel."""
    names = chain_names(engine, task.checked)
    numbered = keep_numbers(task.checked, kept.fixed)
    watch = Watch(len(names), n_sweeps - max(chain.sweep for chain in kept.chains), task.remedy, numbered)

    def follow(number: int) -> None:
        chain, local, name = kept.chains[number], kept.locals[number], names[number]
        series = task.series(name)

        def table() -> dict[str, Any]:
            return {"chain": chain.to_table(), "local": local.to_table()}

        with nullcontext(task.workers) if len(names) == 1 else Workers(1) as workers:
            rules = rules_of(task.checked, task.seed, kept.fixed, number)
            move = engine.local_step(task.documents, task.family, rules, workers).move
            for _, info in sweeps([chain], lambda _: [[local.step(chain.told(), move, workers)]], n_sweeps):
                watch.note(number, chain.topics)
                task.report(name, chain.sweep, n_sweeps, log_joint=info.log_joint, **info.acceptance)
                over = chain.sweep >= n_sweeps or interrupted()
                series.write_if_due(chain.sweep, table, at_once=over)
                if over:
                    break
            local.settle(chain.take, workers)
            chain.take = None

    with deferred_interrupt() as interrupted:
        task.workers.map(follow, range(len(names)))
    records = [chain.record for chain in kept.chains]
    orders = agreement(records, n_sweeps, numbered)
    found = join(
        [local.tally.summary(record.count) for local, record in zip(kept.locals, records, strict=True)], orders
    )
    return Outcome(summarise(records, found, orders, n_sweeps), kept)


class Watch:
    """Says once, early in a long run, that its topics will not have mixed when it ends."""

    def __init__(self, n_chains: int, n_sweeps: int, remedy: Remedy, numbered: BoolArray | None = None) -> None:
        self._topics: list[list[Topics]] = [[] for _ in range(n_chains)]
        self._n_sweeps, self._remedy, self._numbered = n_sweeps, remedy, numbered
        self._due = time.monotonic() + EARLY_SECONDS

    def note(self, number: int, topics: Topics) -> None:
        """Take in the topics of a chain after a sweep, warm-up included; the first chain judges when it is time."""
        from sklearn.exceptions import ConvergenceWarning

        if self._due == np.inf:  # it has spoken
            return
        self._topics[number].append(topics)
        if number or time.monotonic() < self._due:
            return
        n = min(len(each) for each in self._topics)
        if n < EARLY_SWEEPS:
            return
        text = self.judge(n)
        self._due = np.inf if text is not None else time.monotonic() + EARLY_SECONDS
        if text is not None:
            self._topics.clear()  # of every sweep so far
            warnings.warn(text, ConvergenceWarning, stacklevel=2)

    def judge(self, n: int) -> str | None:
        """What is to be said after n sweeps, from the second half of them; None if all may end well."""
        reference = self._topics[0][n - 1]
        draws = np.array([[self._means(reference, each) for each in chain[n // 2 : n]] for chain in self._topics])
        rhat = float(split_rhat(draws, n_jobs=1).max())
        ess = float(effective_sample_size(draws, n_jobs=1).min())
        if rhat <= NOT_MIXED_RHAT or ess * self._n_sweeps / n >= NOT_MIXED_ESS:
            return None
        return (
            f"After {n} of {self._n_sweeps} sweeps the R-hat of the topics is {rhat:.2f}: they will hardly have mixed "
            f"at the end of the run. {as_sentence(self._remedy.instead)}"
        )

    def _means(self, reference: Topics, topics: Topics) -> FloatArray:
        return topics.means[match_topics(reference, topics, self._numbered)]


# ── what runs in memory and on disk share ──────────────────────────────────────────────────────────────────────
def chain_names(engine: Sampler, checked: Checked) -> list[str]:
    """Names of the chains, for progress bars and checkpoints."""
    count = engine.count_chains(checked)
    return ["sampling"] if count == 1 else [f"chain {number + 1}" for number in range(count)]


def rules_of(checked: Checked, seed: int, fixed: Fixed, number: int, shard: int | None = None) -> Rules:
    """What the sweeps of a chain obey."""
    return Rules(checked, (seed + CHAIN_SEEDS * number) % 2**31, fixed, shard)


def new_chain(engine: Sampler, family: Family, rules: Rules, topics: Topics) -> Chain:
    """A chain before its first sweep."""
    numbered = keep_numbers(rules.checked, rules.fixed)
    record = Record(rules.checked.plan, spread_per_topic=family.spread_per_topic, numbered=numbered)
    return Chain(topics, record, engine.topic_update(family, rules))


def shared_plan(engine: Sampler, checked: Checked) -> Plan:
    """The plan of one chain, with its part of the memory for draws."""
    return checked.plan._replace(draws_memory=checked.plan.draws_memory // engine.count_chains(checked))


def keep_numbers(checked: Checked, fixed: Fixed) -> BoolArray:
    """(K,) which topics keep their number, because something that is known tells them from others."""
    return checked.numbered | bool(fixed.means or fixed.spread or fixed.proportions)
