"""Every family: sweeps leave the joint distribution of topics, π, s, Z and X as it was."""

import numpy as np
import pytest

from tests.problems import PROBLEMS
from tests.statistical.checks import ALARM, FULL, joint_scores

N_CHAINS = 6_000 if FULL else 1_000


@pytest.mark.parametrize("name", PROBLEMS)
def test_sweeps_leave_the_joint_distribution_unchanged(name):
    """About 20 numbers for each of 9 families at 5 standard errors: a false alarm in all with probability 1e-4."""
    scores = joint_scores(PROBLEMS[name], N_CHAINS)
    print(f"{name}: {N_CHAINS} chains, largest of {len(scores)} scores {np.abs(scores).max():.2f} standard errors")
    assert np.abs(scores).max() < ALARM, scores.round(1)
