"""Every family: the truth ranks uniformly among draws of the posterior."""

import numpy as np
import pytest

from tests.problems import KNOWN, PROBLEMS
from tests.statistical.checks import ALARM, FULL, calibration_scores

N_REPLICATES = 1_500 if FULL else 40


@pytest.mark.parametrize("name", [*PROBLEMS, *(KNOWN if FULL else ["known"])])
def test_the_truth_ranks_uniformly_among_draws(name):
    """14 numbers for each of 10 families and 4 kinds of known topics at 5 standard errors: a false alarm in all with
    probability 1e-4."""
    scores = calibration_scores((PROBLEMS | KNOWN)[name], N_REPLICATES)
    print(
        f"{name}: {N_REPLICATES} replicates, largest of {len(scores)} scores {np.abs(scores).max():.2f} standard errors"
    )
    assert np.abs(scores).max() < ALARM, scores.round(1)
