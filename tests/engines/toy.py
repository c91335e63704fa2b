"""A new engine in one file, as docs/extending.md describes it: memberships proposed uniformly, topics drawn.

python -m tests.engines.toy OUT: a run with it over tiles, to be killed; it takes its time.
"""

import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pmlda import segment
from pmlda.engines.base import Info, Rules, Sampler, Sums, Task
from pmlda.engines.initial import first_means, start_latents, start_topics
from pmlda.engines.registry import ENGINES
from pmlda.evaluation.scenes import smooth_scene
from pmlda.storage.archive import register
from pmlda.types import Fixed, Latents, Statistics, Topics

PAUSE = 0.0
ASKED: dict[str, Any] = {"engine": "toy", "documents": "windows:16", "block": 64, "sweeps": 12, "refits": 0}


@register
class State(NamedTuple):
    sweep: int
    topics: Topics
    latents: Latents


class Toy(Sampler):
    name = "toy"
    summary = "Metropolis steps of the memberships, conjugate draws of the topics"

    def start(self, task: Task, given: Any) -> list[State]:
        rng = np.random.default_rng(task.seed)
        means = first_means(rng, task.checked, task.documents, task.family, given)
        topics = start_topics(rng, task.documents.words, task.family, means)
        return self.start_known(task, topics, Fixed())

    def start_known(self, task: Task, topics: Topics, fixed: Fixed) -> list[State]:
        rng = np.random.default_rng([task.seed, task.shard or 0])
        latents = start_latents(rng, task.documents, task.family, topics, task.checked.scale_rate, task.workers)
        return [State(0, topics, latents)]

    def local_step(self, documents: Any, family: Any, rules: Rules, workers: Any) -> "Local":
        return Local(documents.words, family, rules.key)

    def topic_update(self, family: Any, rules: Rules) -> "Update":
        return Update(family, rules)


class Local:
    """Under a uniform prior of the memberships: proportions and scales stay where they start."""

    def __init__(self, words: Any, family: Any, key: int) -> None:
        self._words, self._family, self._key = words, family, key

    def move(self, state: State) -> Sums:
        time.sleep(PAUSE)
        family, z = self._family, state.latents.memberships
        rng = np.random.default_rng([self._key, state.sweep])
        proposed = rng.dirichlet(np.ones(z.shape[1]), len(z))
        now, then = (self._fit(each, state.topics) for each in (z, proposed))
        accepted = np.log(rng.random(len(z))) < then - now
        z[accepted] = proposed[accepted]
        state.latents.log_memberships[:] = np.log(z)
        statistics = Statistics(z.T @ z, family.weighted_statistic(z, self._words))
        fit = float(np.where(accepted, then, now).sum())
        return Sums(statistics, fit, family.summarise(self._words), 0.0, len(z), {"memberships": accepted.mean()})

    def _fit(self, z: Any, topics: Topics) -> Any:
        family = self._family
        partition = family.log_partition(z @ family.natural(topics), topics)
        return (z * family.scores(self._words, topics)).sum(axis=1) - partition


class Update:
    def __init__(self, family: Any, rules: Rules) -> None:
        self._family, self._seed, self._fixed = family, rules.seed, rules.fixed

    def update(self, topics: Topics, sums: Sums, sweep: int) -> tuple[Topics, Info]:
        conjugate, rng = self._family.conjugate, np.random.default_rng([self._seed, sweep])
        if not self._fixed.means:
            topics = topics._replace(means=conjugate.given_means(topics, sums.statistics).draw(rng))
        if not self._fixed.spread:
            given = conjugate.given_spread(topics.means, sums.statistics, sums.base, sums.n_words)
            topics = topics._replace(spread=given.draw(rng))
        log_words = sums.fit + self._family.log_base_total(sums.base, sums.n_words, topics)
        return topics, Info(log_words, sums.shares)


ENGINES["toy"] = Toy()


def scene() -> Any:
    """Six tiles."""
    return smooth_scene(130, 170, 3, 0.05, 0)[0]


if __name__ == "__main__":
    PAUSE = 0.02
    segment(scene(), 3, out=Path(sys.argv[1]), n_jobs=1, **ASKED)
