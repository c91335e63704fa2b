"""The exact sampler: proportions, scales and topics move while every word stands for several candidate memberships.

A sweep: fresh candidates for every word; random walks of every document's ln(sπ) and of the topics, words summed over
their candidates; one candidate chosen for each word; then topics once more, from their conjugate distribution given
the memberships where there is one. kernels.gibbs says why this is exact. Step lengths and the distributions that make
candidates are learnt while warming up, and then stay.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from pmlda.engines import gibbs_tuning, variational_steps
from pmlda.engines.base import Info, Rules, Sampler, Sums, Task
from pmlda.engines.corpus import Addressed
from pmlda.engines.gibbs_steps import Corpus, Ensemble, Settings, concentrations, make_ensemble
from pmlda.engines.parameters import Checked
from pmlda.engines.proposals import Proposals, learn_proposals, make_proposals
from pmlda.engines.variational_learning import known_documents, learn, settle, visit_all_words
from pmlda.engines.walks import Walk, make_walks
from pmlda.families.base import Conjugate, Family
from pmlda.model import draw_log_dirichlet
from pmlda.parallel.threads import Workers
from pmlda.storage.archive import register
from pmlda.types import Documents, Fixed, FloatArray, Latents, Statistics, Topics


@register
class Tuning(NamedTuple):
    """What warm-up has learnt.

    widths : (D, K + 1) step lengths of each document's ln s and ln a_k
    stretches : (D, R·K + 1) step lengths of each document's a_k in each round, and of all a_k, with its memberships
    walks : of the topics
    proposals : of candidates
    """

    widths: FloatArray
    stretches: FloatArray
    walks: list[Walk]
    proposals: Proposals


@register
class State(NamedTuple):
    """After `sweep` sweeps. Latents and tuning are updated in place: copy what you want to keep."""

    sweep: int
    topics: Topics
    latents: Latents
    tuning: Tuning


def start(
    topics: Topics,
    latents: Latents,
    family: Family,
    fixed: Fixed,
    shapes: FloatArray,
    rates: FloatArray | None = None,
) -> State:
    """The state before the first sweep, with step lengths and candidates to begin with.

    shapes, rates : (N, K) as in Proposals; rates are one by default
    """
    n_documents, n_topics = latents.log_proportions.shape
    proposals = Proposals(
        shapes.copy(), np.ones_like(shapes) if rates is None else rates.copy(), np.zeros((2, *shapes.shape))
    )
    widths = np.full((n_documents, n_topics + 1), 0.5)
    stretches = np.full((n_documents, gibbs_tuning.STRETCH_ROUNDS * n_topics + 1), 0.3)
    walks = make_walks(family, topics, len(shapes), fixed)
    return State(0, topics, latents, Tuning(widths, stretches, walks, proposals))


def run(
    documents: Documents,
    family: Family,
    state: State,
    settings: Settings,
    workers: Workers,
) -> Iterator[tuple[State, Info]]:
    """Sweep forever from the given state, all words in one shard; the caller decides when to stop."""
    local, topics = LocalStep(documents, family, settings, workers), TopicUpdate(family, settings)
    for sweep in range(state.sweep, 2**32):
        moved, info = topics.update(state.topics, local.move(state), sweep)
        state = state._replace(sweep=sweep + 1, topics=moved)
        yield state, info


class LocalStep:
    """The part of a sweep that visits words and documents."""

    def __init__(self, documents: Documents, family: Family, settings: Settings, workers: Workers) -> None:
        self._corpus, self._settings = Corpus(documents, family, workers), settings
        self._ensemble: Ensemble | None = None
        self._random = Addressed(settings.seed)
        fixed = settings.fixed
        self._has_sums = family.conjugate is not None and not (fixed.means and fixed.spread)

    def move(self, state: State) -> Sums:
        """Move words and documents, in place; topics too where they walk, which takes a single shard."""
        corpus, settings, latents = self._corpus, self._settings, state.latents
        if self._ensemble is None:
            self._ensemble = make_ensemble(latents, settings)
        rng = self._random.at(state.sweep)
        topics, fit, acceptance = move_words(corpus, state, self._ensemble, settings, rng)
        return Sums(
            corpus.statistics(topics, latents, settings, state.sweep) if self._has_sums else None,
            fit,
            corpus.base,
            corpus.log_hidden(latents, settings),
            len(latents.memberships),
            acceptance,
            topics if topics is not state.topics else None,
        )


class TopicUpdate:
    """The part of a sweep that draws topics given the memberships, where there is a conjugate distribution."""

    def __init__(self, family: Family, settings: Settings) -> None:
        self._family, self._held, self._random = family, settings.fixed, Addressed(settings.seed)

    def update(self, topics: Topics, sums: Sums, sweep: int) -> tuple[Topics, Info]:
        """Topics after the sweep, from sums over all words."""
        family, fixed = self._family, self._held
        judged = topics = topics if sums.topics is None else sums.topics
        conjugate, log_words = family.conjugate, None
        if conjugate is not None and sums.statistics is not None:
            rng = self._random.at(sweep)
            topics = draw_topics(rng, conjugate, topics, sums.statistics, sums.base, sums.n_words, fixed)
            log_words = log_words_of(conjugate, topics, sums.statistics, sums.base, sums.n_words)
        if log_words is None:  # known only of the topics under which words were visited
            log_words = sums.fit + family.log_base_total(sums.base, sums.n_words, judged)
        else:
            judged = topics
        return topics, Info(log_words + sums.log_hidden + free_prior(family, judged, fixed), sums.shares)


def move_words(
    corpus: Corpus, state: State, ensemble: Ensemble, settings: Settings, rng: np.random.Generator
) -> tuple[Topics, float, dict[str, float]]:
    """The part of a sweep that visits words and documents, in place: topics, Σ z·ℓ − A(z), the shares accepted.

    Topics move here only where they walk; where they are drawn, words and documents are all that changes, and those of
    different documents have nothing to do with each other.
    """
    sweep, topics, latents, tuning = state
    learning = sweep < settings.warm_up
    if learning:
        a = concentrations(latents)[corpus.documents.document]
        learn_proposals(tuning.proposals, latents.memberships, a, sweep, settings.warm_up)
    corpus.draw_candidates(tuning.proposals, latents, ensemble, settings, sweep)
    corpus.candidate_fits(topics, ensemble)
    acceptance = corpus.document_step(latents, ensemble, tuning.widths, settings, sweep, learning)
    topics, walked = corpus.walk_topics(rng, topics, ensemble, tuning.walks, learning)
    acceptance["memberships"] = corpus.choose(ensemble, latents, settings, sweep)
    acceptance |= corpus.stretch_step(topics, latents, tuning.stretches, settings, sweep, learning)
    acceptance["transfers"], fit = corpus.transfer_step(topics, latents, settings, sweep)
    if walked is not None:
        acceptance["topics"] = walked
    return topics, fit, acceptance


def draw_topics(
    rng: np.random.Generator,
    family: Conjugate,
    topics: Topics,
    statistics: Statistics,
    base: FloatArray,
    n_words: int,
    fixed: Fixed,
) -> Topics:
    """Means, then spread, from their conditional distributions given the memberships; sums over words suffice."""
    if not fixed.means:
        topics = topics._replace(means=family.given_means(topics, statistics).draw(rng))
    if not fixed.spread:
        topics = topics._replace(spread=family.given_spread(topics.means, statistics, base, n_words).draw(rng))
    return topics


def log_words_of(
    family: Conjugate, topics: Topics, statistics: Statistics, base: FloatArray, n_words: int
) -> float | None:
    """Σ_n ln p(x_n | z_n) from sums over words alone, where they tell."""
    partition = family.partition_from_gram(topics, statistics.gram)
    if partition is None:
        return None
    fit = float((family.natural(topics) * statistics.weighted).sum())
    return fit - partition + family.log_base_total(base, n_words, topics)


def free_prior(family: Family, topics: Topics, fixed: Fixed) -> float:
    """Log prior of the topics' blocks that are not held."""
    prior = family.log_prior(topics)
    return float((0.0 if fixed.means else prior.means.sum()) + (0.0 if fixed.spread else prior.spread.sum()))


class Gibbs(Sampler):
    """The exact sampler, several chains from the variational posterior."""

    name = "gibbs"
    summary = "draws from the exact posterior"
    thins_words = True

    def count_chains(self, checked: Checked) -> int:
        return checked.n_chains

    def start(self, task: Task, given: FloatArray | None) -> list[State]:
        found, _, interrupted = learn(task, given)
        if interrupted:
            raise KeyboardInterrupt("Interrupted before sampling began: there is no result yet.")
        if len(found.gamma) < len(task.documents.words):
            found = visit_all_words(task, found.topics, known_documents(task))
        return start_chains(task, found, task.checked.fixed)

    def start_known(self, task: Task, topics: Topics, fixed: Fixed) -> list[State]:
        return start_chains(task, settle(task, topics), fixed)

    def local_step(self, documents: Documents, family: Family, rules: Rules, workers: Workers) -> LocalStep:
        return LocalStep(documents, family, settings_of(rules, rules.key), workers)

    def topic_update(self, family: Family, rules: Rules) -> TopicUpdate:
        return TopicUpdate(family, settings_of(rules, rules.seed))


def settings_of(rules: Rules, seed: int) -> Settings:
    """How to sweep, with random numbers of this seed."""
    checked = rules.checked
    return Settings(checked.alpha, checked.scale_rate, seed, checked.plan.burn_in, rules.fixed)


def start_chains(task: Task, found: variational_steps.State, fixed: Fixed) -> list[State]:
    """Several chains, all from the variational posterior, each with memberships drawn from it."""
    shapes, rates = make_proposals(np.maximum(found.gamma, 1e-8), found.a[task.documents.document])
    scales = found.a.sum(axis=1)
    log_pi = np.log(found.a) - np.log(scales)[:, None]
    shard = [] if task.shard is None else [task.shard]
    states = []
    for chain in range(task.checked.n_chains):
        log_z = draw_log_dirichlet(np.random.default_rng([task.seed, chain, *shard]), shapes)
        latents = Latents(np.exp(log_z), log_z, log_pi.copy(), scales.copy())
        states.append(start(found.topics, latents, task.family, fixed, shapes, rates))
    return states
