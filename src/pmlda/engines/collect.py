"""Draws of a sampler → a Fit: posterior mean, best sample, draws within a memory limit, traces. Chains → one Fit.

A Record is kept once for each chain, a Tally for each chain in each shard.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmlda.engines.base import Info
from pmlda.engines.parameters import Plan
from pmlda.errors import NumericalError
from pmlda.kernels.paper import accumulate
from pmlda.parallel.threads import Workers, chunks
from pmlda.storage.archive import register
from pmlda.types import BoolArray, Draws, Estimate, Fit, FloatArray, IntArray, Latents, Topics


@register
class Take(NamedTuple):
    """What becomes of the draw that a sweep has left, decided where the topics are: by all shards alike.

    sweep : its number, from 1
    order : (K,) new topic j is topic order[j] of the draw
    is_best : whether no draw before had a larger log joint density
    """

    sweep: int
    order: IntArray
    is_best: bool


class Record:
    """What is known of one chain in all shards: draws of the topics, traces, how topics are numbered.

    trace : log joint density after every sweep
    best_value : the largest of them after warm-up
    """

    def __init__(self, plan: Plan, *, spread_per_topic: bool, numbered: BoolArray | None = None) -> None:
        """numbered : (K,) topics that keep their number; others are put in the order of the first draw"""
        self.plan = plan
        self.trace: list[float] = []
        self.spread_per_topic, self._numbered = spread_per_topic, numbered
        self._acceptance: dict[str, float] = {}
        self.best_value = -np.inf
        self._best: Topics | None = None
        self._latest: Topics | None = None
        self._kept: list[tuple[int, Topics]] = []
        self.count = 0

    def add(self, topics: Topics, info: Info) -> Take | None:
        """Take in the topics after one more sweep; what the shards do with their draws, None while warming up."""
        self.trace.append(info.log_joint)
        if len(self.trace) <= self.plan.burn_in:
            return None
        if self.count == 0:
            self._reference = self._latest = topics
            self._order = np.arange(len(topics.means))
            self._means, self._spread = np.zeros_like(topics.means), np.zeros_like(topics.spread)
        if topics is not self._latest:
            self._latest = topics
            self._order = match_topics(self._reference, topics, self._numbered)
        topics = topics.order(self._order, spread_too=self.spread_per_topic)
        self._means += topics.means
        self._spread += topics.spread
        for block, share in info.acceptance.items():
            self._acceptance[block] = self._acceptance.get(block, 0.0) + share
        is_best = info.log_joint > self.best_value
        if is_best:
            self.best_value, self._best = info.log_joint, topics
        if self.count % self.plan.thin == 0:
            self._kept.append((len(self.trace), topics))
        self.count += 1
        return Take(len(self.trace), self._order, bool(is_best))

    def to_table(self) -> dict[str, Any]:
        """All of it as a table of plain values and arrays."""
        table: dict[str, Any] = {"trace": np.array(self.trace), "count": self.count}
        if self.count:
            table |= {"acceptance": self._acceptance, "best": self._best, "best_value": self.best_value}
            table |= {"reference": self._reference, "order": self._order, "sums": [self._means, self._spread]}
            table |= self.draws()
        return table

    def take_up(self, topics: Topics, table: dict[str, Any]) -> None:
        """Continue from the table of another record with the same plan, as if it were that one."""
        self.trace, self.count = table["trace"].tolist(), table["count"]
        if not self.count:
            return
        self._latest, self._reference, self._order = topics, table["reference"], table["order"]
        self._acceptance, self._best, self.best_value = table["acceptance"], table["best"], table["best_value"]
        self._means, self._spread = table["sums"]
        drawn = map(Topics, table["means"], table["spread"])
        self._kept = list(zip(table["sweeps"].tolist(), drawn, strict=True))

    def draws(self) -> dict[str, NDArray[Any]]:
        """sweeps (S,), means (S, …) and spread (S, …) of the draws that were kept."""
        return {
            "sweeps": np.array([sweep for sweep, _ in self._kept]),
            "means": np.stack([topics.means for _, topics in self._kept]),
            "spread": np.stack([topics.spread for _, topics in self._kept]),
        }

    @property
    def mean_topics(self) -> Topics:
        """The posterior mean."""
        return Topics(self._means / self.count, self._spread / self.count)

    @property
    def best_topics(self) -> Topics:
        """Those of the draw with the largest log joint density."""
        if self._best is None:
            raise NumericalError(
                "The log joint density was not finite in any sweep. Features or prior settings (alpha, scale_rate) "
                "of extreme size can cause this: standardise the features (sklearn.preprocessing.StandardScaler), or "
                "choose milder settings."
            )
        return self._best

    @property
    def acceptance(self) -> dict[str, float]:
        """Share of accepted proposals by block."""
        return {block: total / self.count for block, total in self._acceptance.items()}

    def require_draws(self, n_sweeps: int) -> None:
        """Refuse to summarise a chain that was interrupted before its first draw, or that diverged."""
        if self.count == 0:
            raise KeyboardInterrupt(
                f"Interrupted after {len(self.trace)} of {n_sweeps} sweeps, before the {self.plan.burn_in} sweeps of "
                "warm-up were over: there is no result yet."
            )
        _ = self.best_topics


Latest = tuple[FloatArray, FloatArray, FloatArray]
"""Memberships, proportions and scales."""


class Found(NamedTuple):
    """What chains have found of the words and documents of one shard.

    mean : over draws
    best : of every chain, its best draw
    dominance, std : (N, K) share of draws in which a topic is the largest; standard deviation, where draws are not kept
    draws : latent_sweeps, proportions, scales and memberships that were kept
    """

    mean: Latest
    best: list[Latest | None]
    dominance: FloatArray
    std: FloatArray | None
    draws: dict[str, NDArray[Any]]

    def order(self, order: IntArray) -> "Found":
        """The same with topics renumbered: new topic j is old topic order[j]."""
        if (order == np.arange(len(order))).all():
            return self

        def ordered(one: Latest) -> Latest:
            return one[0][:, order], one[1][:, order], one[2]

        kept = {name: self.draws[name][:, :, order] for name in ("proportions", "memberships")}
        return Found(
            ordered(self.mean),
            [None if one is None else ordered(one) for one in self.best],
            self.dominance[:, order],
            None if self.std is None else self.std[:, order],
            self.draws | kept,
        )


class Tally:
    """Running sums over the draws of one chain in one shard, and those draws that are kept."""

    def __init__(self, plan: Plan) -> None:
        self._plan, self._stride = plan, plan.thin
        self._count = 0
        self._best: Latest | None = None
        self._kept: list[tuple[int, FloatArray, FloatArray, FloatArray]] = []

    def _begin(self, latents: Latents) -> None:
        self._total = np.zeros_like(latents.memberships)
        self._dominant = np.zeros_like(latents.memberships)
        self._proportions = np.zeros_like(latents.log_proportions)
        self._scales = np.zeros_like(latents.scales)
        one = 4 * latents.memberships.size + 8 * (latents.log_proportions.size + latents.scales.size)
        self._most = self._plan.draws_memory // one
        # Draws tell how far memberships spread; where there is no room for any, their squares do.
        self._squares = None if self._plan.draws_memory else np.zeros_like(latents.memberships)

    def add(self, latents: Latents, take: Take, workers: Workers) -> None:
        """Take in a draw, its topics renumbered."""
        if self._count == 0:
            self._begin(latents)
        order = take.order
        position = np.argsort(order)
        workers.map(
            lambda part: accumulate(latents.memberships, position, self._total, self._dominant, part.start, part.stop),
            chunks(len(latents.memberships)),
        )
        if self._squares is not None:
            self._squares += latents.memberships[:, order] ** 2
        self._proportions += np.exp(latents.log_proportions[:, order])
        self._scales += latents.scales
        if take.is_best:
            pi = np.exp(latents.log_proportions[:, order])
            self._best = latents.memberships[:, order], pi, latents.scales.copy()
        if self._most and self._count % self._stride == 0:
            self._keep(take.sweep, latents, order)
        self._count += 1

    def _keep(self, sweep: int, latents: Latents, order: IntArray) -> None:
        """Keep a draw; when memory is full, drop every second one and keep half as many from now on."""
        if len(self._kept) == self._most:
            self._kept = self._kept[::2]
            self._stride *= 2
            if self._count % self._stride:
                return
        z, pi = latents.memberships[:, order], np.exp(latents.log_proportions[:, order])
        if len(self._kept) < self._most:
            self._kept.append((sweep, pi, latents.scales.copy(), z.astype(np.float32)))

    def to_table(self) -> dict[str, Any]:
        """All of it as a table of plain values and arrays."""
        if not self._count:
            return {"count": 0}
        sums = [self._total, self._dominant, self._proportions, self._scales, self._squares]
        return {"count": self._count, "stride": self._stride, "sums": sums, "best": self._best, "draws": self.draws()}

    def take_up(self, latents: Latents, table: dict[str, Any]) -> None:
        """Continue from the table of another tally with the same plan, as if it were that one."""
        self._count = table["count"]
        if not self._count:
            return
        self._begin(latents)
        self._stride, draws = table["stride"], table["draws"]
        self._total, self._dominant, self._proportions, self._scales, self._squares = table["sums"]
        self._best = None if table["best"] is None else tuple(table["best"])
        kept = zip(
            draws["latent_sweeps"].tolist(), draws["proportions"], draws["scales"], draws["memberships"], strict=True
        )
        # Copies: those that are dropped later would otherwise hold the memory of all.
        self._kept = [(sweep, pi.copy(), s.copy(), z.copy()) for sweep, pi, s, z in kept]

    def draws(self) -> dict[str, NDArray[Any]]:
        """latent_sweeps (R,), proportions (R, D, K), scales (R, D) and memberships (R, N, K) that were kept."""
        kept, (n_documents, n_topics) = self._kept, self._proportions.shape
        return {
            "latent_sweeps": np.array([draw[0] for draw in kept], dtype=np.int64),
            "proportions": np.stack([draw[1] for draw in kept]) if kept else np.empty((0, n_documents, n_topics)),
            "scales": np.stack([draw[2] for draw in kept]) if kept else np.empty((0, n_documents)),
            "memberships": np.stack([draw[3] for draw in kept]) if kept else np.empty((0, *self._total.shape), "f4"),
        }

    def summary(self, n: int) -> Found:
        """Averages over n draws."""
        mean = self._total / n, self._proportions / n, self._scales / n
        std = None
        if self._squares is not None:
            std = np.sqrt(np.maximum(self._squares / n - mean[0] ** 2, 0.0))
        return Found(mean, [self._best], self._dominant / n, std, self.draws())


def summarise(records: list[Record], found: Found, orders: list[IntArray], n_sweeps: int) -> Fit:
    """What several chains have found; n_sweeps is how many sweeps each was to make.

    found : of words and documents, joined over chains
    orders : for each chain, how its topics are numbered in what was found
    """
    best = max(range(len(records)), key=lambda i: records[i].best_value)
    per_topic = records[0].spread_per_topic
    topics = [one.mean_topics.order(o, spread_too=per_topic) for one, o in zip(records, orders, strict=True)]
    best_topics = records[best].best_topics.order(orders[best], spread_too=per_topic)
    length = min(len(record.trace) for record in records)
    blocks = records[0].acceptance
    return Fit(
        mean=Estimate(
            Topics(_average([one.means for one in topics]), _average([one.spread for one in topics])), *found.mean
        ),
        best=None if (latents := found.best[best]) is None else Estimate(best_topics, *latents),
        dominance=found.dominance,
        trace=np.mean([record.trace[:length] for record in records], axis=0),
        acceptance={name: float(np.mean([record.acceptance[name] for record in records])) for name in blocks},
        draws=join_draws(records, orders, found.draws),
        interrupted=any(len(record.trace) < n_sweeps for record in records),
        std=found.std,
    )


def agreement(records: list[Record], n_sweeps: int, numbered: BoolArray | None = None) -> list[IntArray]:
    """(K,) for each chain, the order in which its topics agree with those of the first chain.

    numbered : (K,) topics that keep their number
    """
    for record in records:
        record.require_draws(n_sweeps)
    same = np.arange(len(records[0].mean_topics.means))
    first = records[0].mean_topics
    return [same, *(match_topics(first, record.mean_topics, numbered) for record in records[1:])]


def join_draws(records: list[Record], orders: list[IntArray], latents: dict[str, NDArray[Any]]) -> Draws:
    """Draws of several chains one after another, each cut to the length of the shortest."""
    chains = [record.draws() for record in records]
    length = min(len(one["sweeps"]) for one in chains)
    spreads = [one["spread"][:length] for one in chains]
    if records[0].spread_per_topic:
        spreads = [one[:, o] for one, o in zip(spreads, orders, strict=True)]
    return Draws(
        np.concatenate([one["sweeps"][:length] for one in chains]),
        np.concatenate([one["means"][:length, o] for one, o in zip(chains, orders, strict=True)]),
        np.concatenate(spreads),
        latents["latent_sweeps"],
        latents["proportions"],
        latents["scales"],
        latents["memberships"],
        len(records),
    )


def join(found: list[Found], orders: list[IntArray]) -> Found:
    """What several chains have found of one shard, topics in one order: averages, and draws one after another."""
    ordered = [one.order(o) for one, o in zip(found, orders, strict=True)]
    memberships, proportions, scales = (_average([one.mean[i] for one in ordered]) for i in range(3))
    length = min(len(one.draws["latent_sweeps"]) for one in ordered)
    squares = [one.std**2 + one.mean[0] ** 2 for one in ordered if one.std is not None]
    return Found(
        (memberships, proportions, scales),
        [best for one in ordered for best in one.best],
        _average([one.dominance for one in ordered]),
        np.sqrt(np.maximum(_average(squares) - memberships**2, 0.0)) if squares else None,
        {name: np.concatenate([one.draws[name][:length] for one in ordered]) for name in ordered[0].draws},
    )


def _average(arrays: list[FloatArray]) -> FloatArray:
    return arrays[0] if len(arrays) == 1 else np.asarray(np.mean(arrays, axis=0))


def match_topics(reference: Topics, topics: Topics, numbered: BoolArray | None = None) -> IntArray:
    """The order in which topics come closest to the reference: topics.means[order] ≈ reference.means.

    numbered : (K,) topics that keep their number
    """
    scale = np.concatenate([reference.means, topics.means]).std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    distance = ((reference.means[:, None] - topics.means[None]) / scale) ** 2
    return match(distance.sum(axis=2), numbered)


def match(apart: FloatArray, numbered: BoolArray | None = None) -> IntArray:
    """(K,) the order of the columns in which the diagonal of apart (K, K) adds up to least.

    numbered : (K,) columns that stay where they are

    >>> match(np.array([[5.0, 0.0, 9.0], [0.0, 5.0, 9.0], [9.0, 9.0, 0.0]])).tolist()
    [1, 0, 2]
    >>> match(np.array([[5.0, 0.0, 0.0], [0.0, 5.0, 2.0], [0.0, 2.0, 5.0]]), np.array([True, False, False])).tolist()
    [0, 2, 1]
    """
    from scipy.optimize import linear_sum_assignment

    order = np.arange(len(apart))
    free = order if numbered is None else np.flatnonzero(~numbered)
    order[free] = free[linear_sum_assignment(apart[np.ix_(free, free)])[1]]
    return order
