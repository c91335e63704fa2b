"""Engine "gibbs", every family: sweeps leave the joint distribution as it was, and the truth ranks uniformly."""

from dataclasses import replace

import numpy as np
import pytest

from pmlda.engines import gibbs_steps
from pmlda.families import Bernoulli
from pmlda.parallel.threads import Workers
from pmlda.types import Fixed
from tests.problems import KNOWN, PROBLEMS, draw_all, known_means
from tests.statistical.adapters import Gibbs, empty_ensemble
from tests.statistical.checks import ALARM, FULL, calibration_scores, joint_scores

N_CHAINS = 6_000 if FULL else 120
N_REPLICATES, N_SWEEPS = (1_500, 12) if FULL else (32, 2)
THREE = {"n_topics": 3, "alpha": (1.5, 0.8, 2.5)}
OTHERS = {
    "three unequal topics, gaussian": (PROBLEMS["gaussian isotropic"]._replace(**THREE), Gibbs()),
    "three unequal topics, poisson": (PROBLEMS["poisson"]._replace(**THREE), Gibbs()),
    "three unequal topics, additive poisson": (PROBLEMS["additive poisson"]._replace(**THREE), Gibbs()),
    "topics that walk one by one": (PROBLEMS["bernoulli"]._replace(family=Bernoulli(1.5, 1.0, 33)), Gibbs()),
    "two candidates": (PROBLEMS["poisson"], Gibbs(n_candidates=2)),
    "means held": (PROBLEMS["gaussian diagonal"], Gibbs(Fixed(means=True))),
    "covariances held": (PROBLEMS["gaussian per topic, diagonal"], Gibbs(Fixed(spread=True))),
    "proportions held": (PROBLEMS["gamma"]._replace(**THREE), Gibbs(Fixed(proportions=True))),
    "scales held": (PROBLEMS["gamma"]._replace(**THREE), Gibbs(Fixed(scales=True))),
} | {name: (problem, Gibbs()) for name, problem in KNOWN.items()}
# Two topics, because that is what a backward sweep takes.
PAIRS = {
    f"{first} and {second}, {name}": problem._replace(
        family=replace(problem.family, means=known_means(first, second, box=name == "known, bounded")),
        n_topics=2,
        alpha=(1.5, 1.5),
    )
    for name, problem in KNOWN.items()
    for first, second in (("roughly", "exact"), ("exact", "free"))
    if FULL or name == "known, bounded"
}


def largest(label, scores):
    """The largest of the scores, printed."""
    print(f"{label}: largest of {len(scores)} scores {np.abs(scores).max():.2f} standard errors")
    return np.abs(scores).max()


@pytest.mark.parametrize("name", PROBLEMS)
def test_sweeps_leave_the_joint_distribution_unchanged(name):
    """About 20 numbers for each of 10 families at 5 standard errors: a false alarm in all with probability 1e-4."""
    scores = joint_scores(PROBLEMS[name], N_CHAINS, n_rounds=5, engine=Gibbs())
    assert largest(f"{name}, {N_CHAINS} chains", scores) < ALARM, scores.round(1)


@pytest.mark.parametrize("name", OTHERS)
def test_sweeps_of_other_kinds_leave_the_joint_distribution_unchanged(name):
    """About 420 numbers in all, many of them of 33 features: a false alarm with probability 2.4e-4.

    What is held stays at the truth, so that the joint distribution stays as it was too.
    """
    problem, engine = OTHERS[name]
    scores = joint_scores(problem, N_CHAINS // 2, n_rounds=5, engine=engine)
    assert largest(f"{name}, {N_CHAINS // 2} chains", scores) < ALARM, scores.round(1)


@pytest.mark.parametrize("name", PROBLEMS | PAIRS)
def test_the_truth_ranks_uniformly_among_draws(name):
    """14 numbers for each of 18 problems at 5 standard errors: a false alarm in all with probability 1.4e-4.

    Draws are as many sweeps forwards from one origin as the origin is backwards from the truth, so draws and truth are
    exchangeable: ranks are uniform after two sweeps as after a thousand. That draws resemble each other, and the truth,
    costs power alone.
    """
    scores = calibration_scores((PROBLEMS | PAIRS)[name], N_REPLICATES, n_sweeps=N_SWEEPS, engine=Gibbs())
    assert largest(f"{name}, {N_REPLICATES} replicates", scores) < ALARM, scores.round(1)


def test_after_a_walk_of_the_topics_fits_are_those_of_the_topics_returned():
    """Joint distributions hardly change where they are not: the next sweep forgets it. So this is compared outright."""
    problem, engine = PROBLEMS["poisson"], Gibbs()
    rng = np.random.default_rng(0)
    topics, documents, latents = draw_all(rng, problem)
    tuning = engine.start(problem, topics, latents).tuning
    ensemble = empty_ensemble(len(documents.words), engine.n_candidates, problem.n_topics)
    settings = engine.settings(problem, 0)
    with Workers(1) as workers:
        corpus = gibbs_steps.Corpus(documents, problem.family, workers)
        for sweep in range(20):
            corpus.draw_candidates(tuning.proposals, latents, ensemble, settings, sweep)
            ensemble.rest[:] = -ensemble.log_q
            topics, _ = corpus.walk_topics(rng, topics, ensemble, tuning.walks, False)
            fits = ensemble.fits.copy()
            corpus.candidate_fits(topics, ensemble)
            np.testing.assert_array_equal(fits, ensemble.fits)
