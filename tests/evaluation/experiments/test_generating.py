"""What lies between two topics."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from pmlda.evaluation.experiments.generating import CASES, MEANS, bend, mixed_gaussian, run


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("z", [0.0, 0.3, 0.8, 1.0])
def test_a_word_between_topics_has_the_product_of_their_densities_raised_to_its_memberships(case, z):
    mean, covariance = mixed_gaussian(z, MEANS, CASES[case])
    at = np.random.default_rng(0).normal(scale=5.0, size=(20, 2))
    logs = [multivariate_normal(MEANS[k], CASES[case][k]).logpdf(at) for k in (0, 1)]
    ratio = multivariate_normal(mean, covariance).logpdf(at) - (1.0 - z) * logs[0] - z * logs[1]
    np.testing.assert_allclose(ratio, ratio[0], atol=1e-9)  # the same up to a constant that makes it a density


def test_the_path_is_straight_for_equal_covariances_and_bends_for_unequal_ones():
    assert bend(CASES["equal"]) < 1e-12
    # Halfway the means are (4, −2): that far from the line through (−4, −4) and (6, 6).
    assert bend(CASES["unequal"]) == pytest.approx(6.0 / np.sqrt(2.0))


def test_words_that_the_package_draws_are_where_the_formula_says():
    rows = run(None, 1, True).rows
    assert len(rows) == 22
    # 110 numbers, each standard normal: the largest exceeds 5 by chance once in 16 000 sets of draws.
    assert max(max(row["mean off"], row["covariance off"]) for row in rows) < 5.0
