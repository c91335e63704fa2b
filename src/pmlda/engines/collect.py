"""A run of a sampler → a Fit: posterior mean, best sample, draws within a memory limit, traces. Chains → one Fit."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from pmlda.errors import NumericalError
from pmlda.kernels.paper import accumulate
from pmlda.parallel.progress import Report, silent
from pmlda.parallel.threads import Workers, chunks
from pmlda.types import Draws, Estimate, Fit, FloatArray, IntArray, Latents, Topics


class Plan(NamedTuple):
    """How long to run and what to keep.

    n_sweeps, burn_in : sweeps in all, and how many of them are warm-up
    thin : keep every thin-th draw of the topics
    draws_memory : bytes that draws of memberships, proportions and scales may take; further thinned to fit
    """

    n_sweeps: int
    burn_in: int
    thin: int = 1
    draws_memory: int = 2**28


class SamplerState(Protocol):
    """What every sampler yields as its state, among other things."""

    @property
    def sweep(self) -> int: ...
    @property
    def topics(self) -> Topics: ...
    @property
    def latents(self) -> Latents: ...


class SamplerInfo(Protocol):
    """What every sampler reports."""

    @property
    def log_joint(self) -> float: ...
    @property
    def acceptance(self) -> dict[str, float]: ...


Run = Iterator[tuple[SamplerState, SamplerInfo]]


class Collector:
    """Running sums over the draws of one chain, and the draws that are kept. Can be fed again later."""

    def __init__(self, plan: Plan, *, spread_per_topic: bool, renumber: bool = True, name: str = "sampling") -> None:
        """renumber : put topics in the order of the first draw, where nothing but their order tells them apart."""
        self.plan, self.name = plan, name
        self.trace: list[float] = []
        self.last: SamplerState | None = None
        self._spread_per_topic, self._renumber = spread_per_topic, renumber
        self._count = 0
        self._stride = plan.thin
        self._acceptance: dict[str, float] = {}
        self._best: Estimate | None = None
        self._best_value = -np.inf
        self._kept: list[tuple[int, Topics]] = []
        self._kept_latents: list[tuple[int, FloatArray, FloatArray, FloatArray]] = []

    def follow(
        self,
        run: Run,
        n_sweeps: int,
        interrupted: Callable[[], bool],
        workers: Workers,
        report: Report = silent,
        keep: Callable[[bool], None] = lambda over: None,
    ) -> None:
        """Take in the run until so many sweeps are done in all, or until interrupted.

        keep : called after every sweep, and told whether it was the last
        """
        if len(self.trace) >= n_sweeps:
            return
        for state, info in run:
            self.last = state
            self.trace.append(info.log_joint)
            if len(self.trace) > self.plan.burn_in:
                self._add(state, info, workers)
            report(self.name, len(self.trace), n_sweeps, log_joint=info.log_joint, **info.acceptance)
            over = len(self.trace) >= n_sweeps or interrupted()
            keep(over)
            if over:
                return

    def taken_in(self) -> dict[str, Any]:
        """All that it has taken in but the last state, as a table of plain values and arrays."""
        table: dict[str, Any] = {"trace": np.array(self.trace), "count": self._count}
        if self._count:
            table |= {"acceptance": self._acceptance, "best": self._best, "best_value": self._best_value}
            table |= {
                "reference": self._reference,
                "order": self._order,
                "stride": self._stride,
                "draws": self._draws(),
            }
            table["sums"] = [self._total, self._dominant, self._proportions, self._scales, self._means, self._spread]
        return table

    def take_up(self, last: Any, table: dict[str, Any]) -> None:
        """Go on from the state and the table of another collector with the same plan, as if it were that one."""
        self.last, self.trace, self._count = last, table["trace"].tolist(), table["count"]
        if not self._count:
            return
        self._begin(last)
        self._reference, self._order = table["reference"], table["order"]
        self._acceptance, self._best, self._best_value = table["acceptance"], table["best"], table["best_value"]
        self._total, self._dominant, self._proportions, self._scales, self._means, self._spread = table["sums"]
        self._stride, draws = table["stride"], table["draws"]
        topics = map(Topics, draws.means, draws.spread)
        self._kept = list(zip(draws.sweeps.tolist(), topics, strict=True))
        latents = zip(draws.latent_sweeps.tolist(), draws.proportions, draws.scales, draws.memberships, strict=True)
        # Copies: those that are dropped later would otherwise hold the memory of all.
        self._kept_latents = [(sweep, pi.copy(), s.copy(), z.copy()) for sweep, pi, s, z in latents]

    def _begin(self, first: SamplerState) -> None:
        latents = first.latents
        self._reference = self._topics = first.topics
        self._order = np.arange(len(first.topics.means))
        self._total = np.zeros_like(latents.memberships)
        self._dominant = np.zeros_like(latents.memberships)
        self._proportions = np.zeros_like(latents.log_proportions)
        self._scales = np.zeros_like(latents.scales)
        self._means = np.zeros_like(first.topics.means)
        self._spread = np.zeros_like(first.topics.spread)
        one = 4 * latents.memberships.size + 8 * (latents.log_proportions.size + latents.scales.size)
        self._most_latents = self.plan.draws_memory // one

    def _add(self, state: SamplerState, info: SamplerInfo, workers: Workers) -> None:
        """Take in the state after one more sweep, its topics renumbered to match the first draw."""
        if self._count == 0:
            self._begin(state)
        latents = state.latents
        if self._renumber and state.topics is not self._topics:
            self._topics = state.topics
            self._order = match_topics(self._reference, state.topics)
        topics = state.topics.order(self._order, spread_too=self._spread_per_topic)
        position = np.argsort(self._order)
        workers.map(
            lambda part: accumulate(latents.memberships, position, self._total, self._dominant, part.start, part.stop),
            chunks(len(latents.memberships)),
        )
        self._proportions += np.exp(latents.log_proportions[:, self._order])
        self._scales += latents.scales
        self._means += topics.means
        self._spread += topics.spread
        for block, share in info.acceptance.items():
            self._acceptance[block] = self._acceptance.get(block, 0.0) + share
        if info.log_joint > self._best_value:
            self._best_value = info.log_joint
            self._best = Estimate(
                topics,
                latents.memberships[:, self._order],
                np.exp(latents.log_proportions[:, self._order]),
                latents.scales.copy(),
            )
        if self._count % self.plan.thin == 0:
            self._kept.append((state.sweep, topics))
        if self._most_latents and self._count % self._stride == 0:
            self._keep_latents(state.sweep, latents)
        self._count += 1

    def _keep_latents(self, sweep: int, latents: Latents) -> None:
        """Keep a draw; when memory is full, drop every second one and keep half as many from now on."""
        if len(self._kept_latents) == self._most_latents:
            self._kept_latents = self._kept_latents[::2]
            self._stride *= 2
            if self._count % self._stride:
                return
        z, pi = latents.memberships[:, self._order], np.exp(latents.log_proportions[:, self._order])
        if len(self._kept_latents) < self._most_latents:
            self._kept_latents.append((sweep, pi, latents.scales.copy(), z.astype(np.float32)))

    def finish(self, n_sweeps: int) -> Fit:
        """The averages and the kept draws, of a chain that was to make so many sweeps."""
        n, done = self._count, len(self.trace)
        if n == 0:
            raise KeyboardInterrupt(
                f"Interrupted after {done} of {n_sweeps} sweeps, before the {self.plan.burn_in} sweeps of "
                "warm-up were over: there is no result yet."
            )
        if self._best is None:
            raise NumericalError(
                "The log joint density was not finite in any sweep. Features or prior settings (alpha, scale_rate) "
                "of extreme size can cause this: standardise the features (sklearn.preprocessing.StandardScaler), or "
                "choose milder settings."
            )
        topics = Topics(self._means / n, self._spread / n)
        return Fit(
            mean=Estimate(topics, self._total / n, self._proportions / n, self._scales / n),
            best=self._best,
            dominance=self._dominant / n,
            trace=np.array(self.trace),
            acceptance={block: total / n for block, total in self._acceptance.items()},
            draws=self._draws(),
            interrupted=done < n_sweeps,
        )

    def _draws(self) -> Draws:
        latents = self._kept_latents
        n_documents, n_topics = self._proportions.shape
        empty = (np.empty((0, n_documents, n_topics)), np.empty((0, n_documents)))
        memberships = np.empty((0, *self._total.shape), np.float32)
        return Draws(
            np.array([sweep for sweep, _ in self._kept]),
            np.stack([topics.means for _, topics in self._kept]),
            np.stack([topics.spread for _, topics in self._kept]),
            np.array([draw[0] for draw in latents], dtype=np.int64),
            np.stack([draw[1] for draw in latents]) if latents else empty[0],
            np.stack([draw[2] for draw in latents]) if latents else empty[1],
            np.stack([draw[3] for draw in latents]) if latents else memberships,
        )


def join_chains(fits: list[Fit], *, spread_per_topic: bool, renumber: bool) -> Fit:
    """One Fit from those of several chains, topics in the order of the first: averages, and draws one after another."""
    first = fits[0]
    if len(fits) == 1:
        return first
    if renumber:
        fits = [first] + [
            reorder(fit, match_topics(first.mean.topics, fit.mean.topics), spread_per_topic) for fit in fits[1:]
        ]
    means = [fit.mean for fit in fits]
    mean = Estimate(
        Topics(_average([one.topics.means for one in means]), _average([one.topics.spread for one in means])),
        _average([one.memberships for one in means]),
        _average([one.proportions for one in means]),
        _average([one.scales for one in means]),
    )
    draws = join_draws([fit.draws for fit in fits if fit.draws is not None])
    length = min(len(fit.trace) for fit in fits)
    best = max(fits, key=lambda fit: float(fit.trace.max()))
    return Fit(
        mean=mean,
        best=best.best,
        dominance=_average([fit.dominance for fit in fits if fit.dominance is not None]),
        trace=np.mean([fit.trace[:length] for fit in fits], axis=0),
        acceptance={name: float(np.mean([fit.acceptance[name] for fit in fits])) for name in first.acceptance},
        draws=draws,
        interrupted=any(fit.interrupted for fit in fits),
    )


def join_draws(chains: list[Draws]) -> Draws:
    """Draws of several chains one after another, each cut to the length of the shortest."""
    topics = min(len(one.sweeps) for one in chains)
    latents = min(len(one.latent_sweeps) for one in chains)

    def joined(name: str, length: int) -> NDArray[Any]:
        return np.concatenate([getattr(one, name)[:length] for one in chains])

    return Draws(
        joined("sweeps", topics),
        joined("means", topics),
        joined("spread", topics),
        joined("latent_sweeps", latents),
        joined("proportions", latents),
        joined("scales", latents),
        joined("memberships", latents),
        len(chains),
    )


def _average(arrays: list[FloatArray]) -> FloatArray:
    return np.asarray(np.mean(arrays, axis=0))


def reorder(fit: Fit, order: IntArray, spread_per_topic: bool) -> Fit:
    """The same fit with its topics renumbered: new topic j is old topic order[j]."""

    def estimate(one: Estimate) -> Estimate:
        topics = one.topics.order(order, spread_too=spread_per_topic)
        return Estimate(topics, one.memberships[:, order], one.proportions[:, order], one.scales)

    draws = fit.draws
    if draws is not None:
        draws = draws._replace(
            means=draws.means[:, order],
            spread=draws.spread[:, order] if spread_per_topic else draws.spread,
            proportions=draws.proportions[:, :, order],
            memberships=draws.memberships[:, :, order],
        )
    return fit._replace(
        mean=estimate(fit.mean),
        best=None if fit.best is None else estimate(fit.best),
        dominance=None if fit.dominance is None else fit.dominance[:, order],
        draws=draws,
    )


def match_topics(reference: Topics, topics: Topics) -> IntArray:
    """The order in which topics come closest to the reference: topics.means[order] ≈ reference.means."""
    scale = np.concatenate([reference.means, topics.means]).std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    distance = ((reference.means[:, None] - topics.means[None]) / scale) ** 2
    return np.asarray(linear_sum_assignment(distance.sum(axis=2))[1], dtype=np.int64)
