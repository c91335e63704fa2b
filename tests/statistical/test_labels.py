"""Words and documents with labels, every engine and every family: the joint distribution stays, and truths rank evenly.

Labels are drawn from what they are labels of, some of them vague. Those of three topics say "one of these two".
"""

import numpy as np
import pytest

from tests.problems import PROBLEMS
from tests.statistical.adapters import Gibbs, Paper
from tests.statistical.checks import ALARM, FULL, calibration_scores, joint_scores

N_CHAINS, N_ROUNDS = (2_000, 5) if FULL else (80, 2)
N_REPLICATES, N_SWEEPS = (500, 6) if FULL else (30, 2)
ENGINES = {"paper": Paper(), "paper, further proposals": Paper(prior_steps=2, document_steps=3), "gibbs": Gibbs()}
LABELLED = {name: problem.labelled() for name, problem in PROBLEMS.items()}
THREE = {
    f"three unequal topics, {name}": LABELLED[name]._replace(n_topics=3, alpha=(1.5, 0.8, 2.5))
    for name in ("gaussian isotropic", "poisson", "additive poisson")
}
# Further proposals visit words in a way of their own, whatever the family.
PAIRS = [(engine, name) for engine in ("paper", "gibbs") for name in LABELLED | THREE]
PAIRS += [("paper, further proposals", name) for name in ("gamma", *THREE)]
# Time can be turned around where moves are the same from last to first: with two topics, and with no further proposals.
REVERSIBLE = [("paper", name) for name in LABELLED | THREE] + [("gibbs", name) for name in LABELLED]


def largest(what, scores):
    """The largest of the scores, printed."""
    print(f"{what}: largest of {len(scores)} scores {np.abs(scores).max():.2f} standard errors")
    return np.abs(scores).max()


@pytest.mark.parametrize(("engine", "name"), PAIRS)
def test_sweeps_leave_the_joint_distribution_of_everything_and_labels_unchanged(engine, name):
    """33 numbers for each of 27 pairs at 5 standard errors: a false alarm in all has 5e-4, or 2e-3 with 100 chains.

    With so few, errors are estimates that are too small at times (Student's t).
    """
    scores = joint_scores((LABELLED | THREE)[name], N_CHAINS, n_rounds=N_ROUNDS, engine=ENGINES[engine])
    assert largest(f"{engine}, {name}, {N_CHAINS} chains", scores) < ALARM, scores.round(1)


@pytest.mark.parametrize(("engine", "name"), REVERSIBLE)
def test_the_truth_ranks_uniformly_among_draws_given_words_and_labels(engine, name):
    """38 numbers for each of 22 pairs at 5 standard errors: a false alarm in all with probability 5e-4."""
    problem = (LABELLED | THREE)[name]
    scores = calibration_scores(problem, N_REPLICATES, n_sweeps=N_SWEEPS, engine=ENGINES[engine])
    assert largest(f"{engine}, {name}, {N_REPLICATES} replicates", scores) < ALARM, scores.round(1)
