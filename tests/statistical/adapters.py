"""How the checks drive an engine: start from a truth, sweep on, and sweep with the steps in the opposite order.

Interchangeable: start(problem, topics, latents) → state; run(…, seed, workers) → (state, info) without end; and
backward(…, seed, workers) → state, one sweep of the time-reversed chain, which needs seeds from seed to seed + 3.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

from pmlda.engines import gibbs, gibbs_steps, gibbs_tuning, paper
from pmlda.engines.base import Info, Sums
from pmlda.families import Family
from pmlda.parallel.threads import Workers
from pmlda.types import Documents, Fixed, FloatArray, Latents, Topics
from tests.problems import Problem


class Paper:
    """Engine "paper"."""

    def __init__(self, kernels: Any = paper.COMPILED, **options: Any) -> None:
        self.kernels, self.options = kernels, options

    def settings(self, problem: Problem, seed: int) -> paper.Settings:
        """How to sweep."""
        return paper.Settings(np.array(problem.alpha), problem.scale_rate, seed, **self.options)

    def start(self, problem: Problem, topics: Topics, latents: Latents) -> paper.State:
        """The state before the first sweep."""
        return paper.State(0, topics, latents)

    def run(
        self, problem: Problem, documents: Documents, family: Family, state: paper.State, seed: int, workers: Workers
    ) -> Iterator[tuple[paper.State, Info]]:
        """Sweeps from the state."""
        return paper.run(documents, family, state, self.settings(problem, seed), workers, self.kernels)

    def backward(
        self, problem: Problem, documents: Documents, family: Family, state: paper.State, seed: int, workers: Workers
    ) -> paper.State:
        """A sweep whose steps run in the opposite order: spread, means from last to first, words, s, π.

        Each step is reversible, so this is the time reversal of a forward sweep. Topics are renumbered to turn their
        order around, and back before words and documents move, so that labels and the prior of proportions may tell
        them apart; the prior of topics may not. Steps have seeds of their own, because forward steps share one stream.
        """
        corpus = paper.Corpus(documents, family, workers, self.kernels)
        settings, known_turned = self.settings(problem, seed), turn_known(family)
        turn = np.arange(len(state.topics.means))[::-1]

        def turned(now: paper.State) -> paper.State:
            z, log_z, log_pi, s = now.latents
            latents = Latents(*(np.ascontiguousarray(a[:, turn]) for a in (z, log_z, log_pi)), s)
            return paper.State(now.sweep, now.topics.order(turn, spread_too=family.spread_per_topic), latents)

        state = turned(state)
        for i, fixed in enumerate((Fixed(means=True), Fixed(spread=True))):
            topics, latents, n_words = state.topics, state.latents, len(documents.words)
            visit = partial(corpus.sum_partition, latents=latents)
            sums = Sums(corpus.statistics(latents), 0.0, corpus.base, 0.0, n_words, {})
            log_words = paper.log_likelihood(family, topics, sums, visit)
            sums = sums._replace(fit=log_words - family.log_base_total(corpus.base, n_words, topics))
            step = paper.TopicStep(known_turned, settings._replace(fixed=fixed))
            state = state._replace(topics=step.move(topics, sums, i, visit).topics)
        state = turned(state)
        words = settings._replace(seed=seed + 1)
        _, _, sum_log_z, _ = corpus.word_step(state.topics, corpus.scores(state.topics), state.latents, words, 0)
        for i, fixed in enumerate((Fixed(proportions=True), Fixed(scales=True))):
            corpus.document_step(state.latents, sum_log_z, settings._replace(fixed=fixed, seed=seed + 2 + i), 0)
        return state


def turn_known(family: Family) -> Family:
    """The family with what it knows of topics from last to first."""
    if family.known_means is None:
        return family
    known = {name: getattr(family.means, name)[::-1] for name in ("known", "known_spread")}
    return replace(family, means=replace(family.means, **known))


# Step lengths of engine "gibbs": of each document's walk, of its stretches, and of each free number of the topics, in
# which a word of one family tells more than one of another. About a third of the proposals is accepted.
DOCUMENT_LENGTH, STRETCH_LENGTH = 1.2, 1.0
TOPIC_LENGTHS = {
    "gaussian, diagonal covariance per topic": 0.4,
    "gaussian, full covariance per topic": 0.2,
    "poisson": 0.35,
    "bernoulli": 1.0,
    "gamma": 0.35,
    "categorical": 1.0,
}


class Gibbs(NamedTuple):
    """Engine "gibbs" with candidates and step lengths that know nothing of the data nor of what is hidden.

    The sampler is exact whatever they are. Were they learnt, or chosen by the truth that a chain starts from, the
    chain would no longer be one of fixed steps, and the checks would not hold.
    """

    fixed: Fixed = Fixed()
    n_candidates: int = 3

    def settings(self, problem: Problem, seed: int) -> gibbs_steps.Settings:
        """How to sweep."""
        alpha = np.array(problem.alpha)
        return gibbs_steps.Settings(alpha, problem.scale_rate, seed, fixed=self.fixed, n_candidates=self.n_candidates)

    def candidates(self, problem: Problem) -> tuple[FloatArray, FloatArray]:
        """(N, K) shapes and rates of the distributions that make candidates, far from any posterior."""
        n, k = np.indices((sum(problem.sizes), problem.n_topics))
        return 0.4 + 0.3 * ((n + k) % 4), 0.4 + 0.3 * (n % 3) + 1.6 * (k == 0)

    def start(self, problem: Problem, topics: Topics, latents: Latents) -> gibbs.State:
        """The state before the first sweep, with fixed step lengths."""
        state = gibbs.start(topics, latents, problem.family, self.fixed, *self.candidates(problem))
        tuning = state.tuning
        tuning.widths[:], tuning.stretches[:] = DOCUMENT_LENGTH, STRETCH_LENGTH
        for walk in tuning.walks:
            walk.root = TOPIC_LENGTHS[problem.family.name] * np.eye(len(walk.chosen))
        return state

    def run(
        self, problem: Problem, documents: Documents, family: Family, state: gibbs.State, seed: int, workers: Workers
    ) -> Iterator[tuple[gibbs.State, Info]]:
        """Sweeps from the state."""
        return gibbs.run(documents, family, state, self.settings(problem, seed), workers)

    def backward(
        self, problem: Problem, documents: Documents, family: Family, state: gibbs.State, seed: int, workers: Workers
    ) -> gibbs.State:
        """A sweep whose steps run in the opposite order: covariance, means, exchanges, stretches, then candidates, the
        topics' walk, the documents' walks, choice.

        Each step is reversible, and choosing one of the candidates is the time reversal of drawing more of them. So
        this is the time reversal of a forward sweep, where there are two topics, hence one pair that exchanges, and
        where all topics walk together. Moves of length zero stay where they are, which lets those of a document run one
        by one, each with random numbers of its own.
        """
        corpus, settings = gibbs_steps.Corpus(documents, family, workers), self.settings(problem, seed)
        topics, latents, tuning = state.topics, state.latents, state.tuning
        rng = np.random.default_rng([seed, 0])
        if family.conjugate is not None:
            statistics = corpus.statistics(topics, latents, settings, 0)
            known = statistics, corpus.base, len(documents.words)
            topics = gibbs.draw_topics(rng, family, topics, *known, Fixed(means=True))
            topics = gibbs.draw_topics(rng, family, topics, *known, Fixed(spread=True))
        corpus.transfer_step(topics, latents, settings, 0)
        for i, lengths in enumerate(last_to_first(tuning.stretches)):
            corpus.stretch_step(topics, latents, lengths, settings, i, False)
        ensemble = empty_ensemble(len(documents.words), self.n_candidates, problem.n_topics)
        corpus.draw_candidates(tuning.proposals, latents, ensemble, settings, 0)
        corpus.candidate_fits(topics, ensemble)
        corpus.document_step(latents, ensemble, np.zeros_like(tuning.widths), settings, 0, False)
        topics, _ = corpus.walk_topics(rng, topics, ensemble, tuning.walks, False)
        moves = last_to_first(tuning.widths) * gibbs_tuning.DOCUMENT_ROUNDS
        with mock.patch.object(gibbs_tuning, "DOCUMENT_ROUNDS", 1):
            for i, lengths in enumerate(moves):
                corpus.document_step(latents, ensemble, lengths, settings, i + 1, False)
        corpus.choose(ensemble, latents, settings, 0)
        return state._replace(topics=topics)


def last_to_first(lengths: FloatArray) -> list[FloatArray]:
    """The lengths (D, M) of the last move with all others zero, then of the one before it, and so on."""
    return [lengths * (np.arange(lengths.shape[1]) == move) for move in reversed(range(lengths.shape[1]))]


def empty_ensemble(n_words: int, n_candidates: int, n_topics: int) -> gibbs_steps.Ensemble:
    """Room for candidates."""
    shapes = [(n_words, n_candidates, n_topics), (n_words, n_topics, n_candidates), *[(n_words, n_candidates)] * 3]
    return gibbs_steps.Ensemble(*(np.empty(shape) for shape in shapes))
