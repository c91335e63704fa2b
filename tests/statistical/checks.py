"""Two tests that a sampler draws from the stated posterior, for any engine and any family. Both are exact however
slowly the sampler mixes, because they start from the truth, which is itself a draw of the posterior.

Joint distribution (after Geweke 2004 and Gandy and Scott 2020): start from an exact draw of everything, alternate two
sweeps with fresh words, and fresh labels, given what is hidden. A correct sampler leaves the joint distribution as it
was, so the mean of every function is the same at the end as at the start. Chains are independent, so standard errors
are exact. Functions of labels are compared before and after each pair of sweeps, with the labels that it knew: a
sampler that forgets labels altogether leaves the distribution of all else as it was, and fresh labels would agree with
whatever it draws.

Calibration (Talts, Betancourt, Simpson, Vehtari and Gelman 2018, with the chains of Besag and Clifford 1989): from the
truth go backwards, then forwards along several independent chains. Their ends and the truth are exchangeable, so the
rank of the truth among them is uniform.
"""

import os
from collections import deque
from collections.abc import Iterator
from itertools import islice

import numpy as np

from pmlda.engines import gibbs, paper
from pmlda.families import Family
from pmlda.model import draw_words, log_labels, log_words
from pmlda.parallel.threads import Workers
from pmlda.types import Documents, FloatArray, Labels, Latents, Topics
from tests.problems import Problem, draw_all, observe
from tests.statistical.adapters import Gibbs, Paper

State = paper.State | gibbs.State
Engine = Paper | Gibbs
PAPER = Paper()

FULL = os.environ.get("PMLDA_FULL_CALIBRATION") == "1"
SEED = int(os.environ.get("PMLDA_TEST_SEED", "20160509"))

# A false alarm at 5 standard errors has probability 5.7e-7 for each number compared.
ALARM = 5.0


def joint_scores(problem: Problem, n_chains: int, *, n_rounds: int = 10, engine: Engine = PAPER) -> FloatArray:
    """By how many standard errors the mean of each function has moved after n_rounds of two sweeps and fresh data."""
    rng = np.random.default_rng(SEED)
    changes = []
    with Workers(1) as workers:
        for chain in range(n_chains):
            topics, documents, latents = draw_all(rng, problem)
            state = engine.start(problem, topics, latents)
            before, gained = summary(documents, state), 0.0
            for _ in range(n_rounds):
                # Proposals look at the data, so they are made anew for new words, as a fit would.
                family = problem.family.informed_by(documents.words)
                gained = gained - of_labels(documents, state)
                state = after(engine.run(problem, documents, family, state, SEED + chain, workers), 2)
                gained = gained + of_labels(documents, state)
                words = draw_words(rng, family, state.topics, state.latents.memberships)
                documents = observe(rng, problem, documents._replace(words=words), state.latents)
            changes.append(np.concatenate([summary(documents, state) - before, gained]))
    changes = np.array(changes)
    error = changes.std(axis=0, ddof=1) / np.sqrt(n_chains)
    return changes.mean(axis=0) / np.where(error > 0, error, 1.0)


def after(run: Iterator[tuple[State, object]], n_sweeps: int) -> State:
    """The state after n_sweeps more sweeps."""
    return deque(islice(run, n_sweeps), maxlen=1)[0][0]


def summary(documents: Documents, state: State) -> FloatArray:
    """Bounded functions of everything, so that means and their errors exist whatever the prior's tails."""
    latents, topics = state.latents, state.topics
    z, x = latents.memberships[:, 0], documents.words
    log_z = latents.log_memberships[:, 0]
    values = [
        latents.log_proportions[0, 0],
        np.log(latents.scales[0]),
        latents.scales.mean(),
        z.mean(),
        (z**2).mean(),
        (z[0] * z[1]),
        log_z.mean(),
        *topics.means[0],
        *(np.abs(topics.means[0]) * np.abs(topics.means[-1])),
        *np.log(np.maximum(np.abs(topics.spread.ravel()[:2]), 1e-300)),
        *x.mean(axis=0),
        *(x**2).mean(axis=0),
        *(z[:, None] * x).mean(axis=0),
        *((z[:, None] * x).mean(axis=0) * topics.means[0, : x.shape[1]]),
    ]
    return np.arctan(np.array(values))


def of_labels(documents: Documents, state: State) -> FloatArray:
    """Bounded functions of labels with what they are of, those of words also with proportions; none without labels."""
    log_z, log_pi = state.latents.log_memberships, state.latents.log_proportions
    of_words, of_documents = documents.told, documents.told_documents
    pairs = ((of_words, log_z), (of_words, log_pi[documents.document]), (of_documents, log_pi))
    return np.concatenate([agreement(labels, logs) for labels, logs in pairs if labels is not None] or [[]])


def agreement(labels: Labels, log_z: FloatArray) -> FloatArray:
    """How probable labels are, how much of what they count is there, and how much of what they say it may be."""
    z, row = np.exp(log_z), labels.row
    counted = (labels.counts[row] * z).sum(axis=1)
    inside = labels.strength[row] * (labels.any_of[row] * z).sum(axis=1)
    first = labels.counts[row, 0] * log_z[:, 0]
    return np.arctan([each.mean() for each in (log_labels(labels, log_z), counted, inside, first)])


def calibration_scores(
    problem: Problem, n_replicates: int, *, n_draws: int = 7, n_sweeps: int = 12, engine: Engine = PAPER
) -> FloatArray:
    """Standard errors by which ranks of the truth differ from uniform: location, then dispersion, of each function."""
    rng = np.random.default_rng(SEED)
    ranks = []
    with Workers(1) as workers:
        for replicate in range(n_replicates):
            topics, documents, latents = draw_all(rng, problem)
            family = problem.family.informed_by(documents.words)
            seed = SEED + 1_000_000 * replicate
            truth = engine.start(problem, topics, latents)
            origin = truth
            for i in range(n_sweeps):
                origin = engine.backward(problem, documents, family, copied(origin), seed + 4 * i, workers)
            draws = []
            for chain in range(n_draws):
                run = engine.run(problem, documents, family, copied(origin), seed + 500_000 + chain, workers)
                draws.append(invariants(documents, after(run, n_sweeps), family))
            target = invariants(documents, truth, family)
            ties = rng.random((n_draws, len(target))) < rng.random(len(target))
            below = np.array(draws) < target
            ranks.append((below | ((np.array(draws) == target) & ties)).sum(axis=0))
    u = np.array(ranks) / n_draws
    levels = np.arange(n_draws + 1) / n_draws
    scores = []
    for values, reference in ((u, levels), ((u - 0.5) ** 2, (levels - 0.5) ** 2)):
        error = reference.std() / np.sqrt(n_replicates)
        scores.append((values.mean(axis=0) - reference.mean()) / error)
    return np.concatenate(scores)


def copied(state: State) -> State:
    """The same state in arrays of its own, since sweeps work in place."""
    return state._replace(latents=Latents(*(array.copy() for array in state.latents)))


def invariants(documents: Documents, state: State, family: Family) -> FloatArray:
    """Functions that do not change when topics are renumbered, labels with them."""
    latents: Latents = state.latents
    topics: Topics = state.topics
    values = np.array(
        [
            latents.scales[0],
            (np.exp(latents.log_proportions[0]) ** 2).sum(),
            (latents.memberships**2).sum(axis=1).mean(),
            topics.means[:, 0].sum(),  # the sum of all is a constant for the categorical family
            np.ptp(topics.means[:, 0]),
            topics.spread.sum() if topics.spread.size else topics.means.max(),
            log_words(documents.words, latents.memberships, topics, family).sum(),
        ]
    )
    return np.concatenate([values, of_labels(documents, state)])
