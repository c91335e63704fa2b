"""A run → a Fit: posterior mean, best sample, draws within a memory limit, traces."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from pmlda.engines.paper import Info, State
from pmlda.interrupt import deferred_interrupt
from pmlda.kernels.paper import accumulate
from pmlda.progress import Report, silent
from pmlda.types import Draws, Estimate, Fit, FloatArray, IntArray, Latents, Topics
from pmlda.workers import Workers, chunks


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


def collect(
    run: Iterator[tuple[State, Info]],
    plan: Plan,
    workers: Workers,
    *,
    spread_per_topic: bool,
    renumber: bool = True,
    report: Report = silent,
) -> Fit:
    """Follow a run to its end, or until Ctrl-C, which keeps what was done once warm-up is over.

    renumber : put topics in the order of the first draw, where nothing but their order tells them apart
    """
    trace: list[float] = []
    sums: _Sums | None = None
    with deferred_interrupt() as interrupted:
        for state, info in run:
            trace.append(info.log_joint)
            report("sampling", len(trace), plan.n_sweeps, log_joint=info.log_joint, **info.acceptance)
            if len(trace) > plan.burn_in:
                if sums is None:
                    sums = _Sums(state, plan, spread_per_topic, renumber)
                sums.add(state, info, workers)
            if len(trace) == plan.n_sweeps or interrupted():
                break
        stopped_early = len(trace) < plan.n_sweeps
    if sums is None:
        raise KeyboardInterrupt(
            f"Interrupted after {len(trace)} of {plan.n_sweeps} sweeps, before the {plan.burn_in} sweeps of warm-up "
            "were over: there is no result yet."
        )
    return sums.finish(np.array(trace), stopped_early)


class _Sums:
    """Running sums over draws, and the draws that are kept."""

    def __init__(self, first: State, plan: Plan, spread_per_topic: bool, renumber: bool) -> None:
        latents = first.latents
        self._plan, self._spread_per_topic, self._renumber = plan, spread_per_topic, renumber
        self._reference = self._topics = first.topics
        self._order = np.arange(len(first.topics.means))
        self._total = np.zeros_like(latents.memberships)
        self._dominant = np.zeros_like(latents.memberships)
        self._proportions = np.zeros_like(latents.log_proportions)
        self._scales = np.zeros_like(latents.scales)
        self._means = np.zeros_like(first.topics.means)
        self._spread = np.zeros_like(first.topics.spread)
        self._acceptance: dict[str, float] = {}
        self._count = 0
        self._best: Estimate | None = None
        self._best_value = -np.inf
        self._kept: list[tuple[int, Topics]] = []
        self._kept_latents: list[tuple[int, FloatArray, FloatArray, FloatArray]] = []
        self._latent_stride = latent_stride(latents, plan)

    def add(self, state: State, info: Info, workers: Workers) -> None:
        """Take in the state after one more sweep, its topics renumbered to match the first draw."""
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
        if self._count % self._plan.thin == 0:
            self._kept.append((state.sweep, topics))
        if self._latent_stride and self._count % self._latent_stride == 0:
            self._kept_latents.append(
                (
                    state.sweep,
                    np.exp(latents.log_proportions[:, self._order]),
                    latents.scales.copy(),
                    latents.memberships[:, self._order].astype(np.float32),
                )
            )
        self._count += 1

    def finish(self, log_joint: FloatArray, interrupted: bool) -> Fit:
        """The averages and the kept draws."""
        n = self._count
        if self._best is None:
            raise FloatingPointError(
                "The log joint density was not finite in any sweep. Features or prior settings (alpha, scale_rate) "
                "of extreme size can cause this: standardise the features (sklearn.preprocessing.StandardScaler), or "
                "choose milder settings."
            )
        topics = Topics(self._means / n, self._spread / n)
        return Fit(
            mean=Estimate(topics, self._total / n, self._proportions / n, self._scales / n),
            best=self._best,
            dominance=self._dominant / n,
            trace=log_joint,
            acceptance={block: total / n for block, total in self._acceptance.items()},
            draws=self._draws(),
            interrupted=interrupted,
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


def latent_stride(latents: Latents, plan: Plan) -> int:
    """Every how many sweeps memberships are kept so that all fit in plan.draws_memory; 0 if not even one does."""
    one = 4 * latents.memberships.size + 8 * (latents.log_proportions.size + latents.scales.size)
    affordable = plan.draws_memory // one
    if affordable == 0:
        return 0
    n_draws = -(-(plan.n_sweeps - plan.burn_in) // plan.thin)
    return plan.thin * int(-(-n_draws // affordable))


def match_topics(reference: Topics, topics: Topics) -> IntArray:
    """The order in which topics come closest to the reference: topics.means[order] ≈ reference.means."""
    scale = np.concatenate([reference.means, topics.means]).std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    distance = ((reference.means[:, None] - topics.means[None]) / scale) ** 2
    return np.asarray(linear_sum_assignment(distance.sum(axis=2))[1], dtype=np.int64)
