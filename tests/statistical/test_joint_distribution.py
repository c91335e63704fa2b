"""Every family: sweeps leave the joint distribution of topics, π, s, Z and X as it was."""

import numpy as np
import pytest

from tests.problems import KNOWN, PROBLEMS
from tests.statistical.adapters import Paper
from tests.statistical.checks import ALARM, FULL, joint_scores

N_CHAINS = 6_000 if FULL else 200


def test_further_proposals_leave_the_joint_distribution_unchanged():
    """Options beyond Algorithm 1, together: 19 numbers, false alarm 1e-5."""
    scores = joint_scores(PROBLEMS["poisson"], N_CHAINS // 2, engine=Paper(prior_steps=2, document_steps=3))
    assert np.abs(scores).max() < ALARM, scores.round(1)


@pytest.mark.parametrize("name", PROBLEMS)
def test_sweeps_leave_the_joint_distribution_unchanged(name):
    """About 20 numbers for each of 10 families at 5 standard errors: a false alarm in all with probability 1e-4."""
    scores = joint_scores(PROBLEMS[name], N_CHAINS)
    print(f"{name}: {N_CHAINS} chains, largest of {len(scores)} scores {np.abs(scores).max():.2f} standard errors")
    assert np.abs(scores).max() < ALARM, scores.round(1)


@pytest.mark.parametrize("name", KNOWN if FULL else ["known", "known, per topic"])
def test_known_topics_leave_the_joint_distribution_unchanged(name):
    """About 20 numbers for each of 4 kinds at 5 standard errors: a false alarm in all with probability 5e-5."""
    scores = joint_scores(KNOWN[name], N_CHAINS // 2)
    print(f"{name}: {N_CHAINS // 2} chains, largest of {len(scores)} scores {np.abs(scores).max():.2f} standard errors")
    assert np.abs(scores).max() < ALARM, scores.round(1)
