"""The exact sampler: proportions, scales and topics move while every word stands for several candidate memberships.

A sweep: fresh candidates for every word; random walks of every document's ln(sπ) and of the topics, words summed over
their candidates; one candidate chosen for each word; then topics once more, from their conjugate distribution given
the memberships where there is one. kernels.gibbs says why this is exact. Step lengths and the distributions that make
candidates are learnt while warming up, and then stay.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from pmlda.engines.corpus import Held
from pmlda.engines.gibbs_steps import STRETCH_ROUNDS, Corpus, Ensemble, Settings, concentrations, make_ensemble
from pmlda.engines.paper import Addressed
from pmlda.engines.proposals import Proposals, learn_proposals
from pmlda.engines.walks import Walk, make_walks
from pmlda.families import Family, Gaussian
from pmlda.parallel.threads import Workers
from pmlda.storage.archive import register
from pmlda.types import Documents, FloatArray, Latents, Statistics, Topics


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


class Info(NamedTuple):
    """What is reported of a sweep, as in engines.paper."""

    log_joint: float
    acceptance: dict[str, float]


def start(
    topics: Topics,
    latents: Latents,
    family: Family,
    held: Held,
    shapes: FloatArray,
    rates: FloatArray | None = None,
) -> State:
    """The state before the first sweep, with step lengths and candidates to begin with.

    shapes, rates : (N, K) as in Proposals; rates are one unless given
    """
    n_documents, n_topics = latents.log_proportions.shape
    proposals = Proposals(
        shapes.copy(), np.ones_like(shapes) if rates is None else rates.copy(), np.zeros((2, *shapes.shape))
    )
    widths = np.full((n_documents, n_topics + 1), 0.5)
    stretches = np.full((n_documents, STRETCH_ROUNDS * n_topics + 1), 0.3)
    walks = make_walks(family, topics, len(shapes), held)
    return State(0, topics, latents, Tuning(widths, stretches, walks, proposals))


def run(
    documents: Documents,
    family: Family,
    state: State,
    settings: Settings,
    workers: Workers,
) -> Iterator[tuple[State, Info]]:
    """Sweep forever from the given state; the caller decides when to stop."""
    corpus = Corpus(documents, family, workers)
    topics, latents, tuning = state.topics, state.latents, state.tuning
    n_words = len(latents.memberships)
    ensemble = make_ensemble(latents, settings)
    generator = Addressed(settings.seed)
    for sweep in range(state.sweep, 2**32):
        rng = generator.at(sweep)
        topics, fit, acceptance = move_words(corpus, State(sweep, topics, latents, tuning), ensemble, settings, rng)
        if isinstance(family, Gaussian) and not (settings.held.means and settings.held.spread):
            statistics = corpus.statistics(latents)
            topics = draw_topics(rng, family, topics, statistics, corpus.base, n_words, settings.held)
            log_words = log_words_of(family, topics, statistics, corpus.base, n_words)
        else:
            log_words = fit + family.log_base_total(corpus.base, n_words, topics)
        log_joint = log_words + corpus.log_hidden(latents, settings) + free_prior(family, topics, settings.held)
        yield State(sweep + 1, topics, latents, tuning), Info(log_joint, acceptance)


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
    family: Gaussian,
    topics: Topics,
    statistics: Statistics,
    base: FloatArray,
    n_words: int,
    held: Held,
) -> Topics:
    """Means, then covariance, from their conditional distributions given the memberships; sums over words suffice."""
    if not held.means:
        topics = topics._replace(means=family.given_means(topics, statistics).draw(rng))
    if not held.spread:
        scatter = family.scatter(topics.means, statistics, base)
        topics = topics._replace(spread=family.noise.draw_given(rng, scatter, n_words))
    return topics


def log_words_of(family: Gaussian, topics: Topics, statistics: Statistics, base: FloatArray, n_words: int) -> float:
    """Σ_n ln p(x_n | z_n) for shared-covariance Gaussians, from sums over words alone."""
    fit = float((family.natural(topics) * statistics.weighted).sum())
    return fit - family.partition_from_gram(topics, statistics.gram) + family.log_base_total(base, n_words, topics)


def free_prior(family: Family, topics: Topics, held: Held) -> float:
    """Log prior of the topics' blocks that are not held."""
    prior = family.log_prior(topics)
    return float((0.0 if held.means else prior.means.sum()) + (0.0 if held.spread else prior.spread.sum()))
