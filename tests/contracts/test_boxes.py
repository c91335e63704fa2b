"""Boxes of possible means: the best point inside as in SciPy, draws inside, bits as before where none is in the way."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import lsq_linear

from pmlda.families import DiagonalNoise, Gaussian, NormalMeans, TopicDiagonalGaussian
from pmlda.families import means as means_module
from pmlda.families.boxes import Box, best_inside, draw_between, draw_inside
from pmlda.families.means import GivenMeans
from pmlda.types import Statistics, Topics
from tests.problems import PROBLEMS, bounded_means, draw_all

FAMILY = PROBLEMS["gaussian bounded"].family


def problem_of(rng, n, spread):
    """A curvature whose axes differ by 10^spread in length, a pull that leads far, and limits around zero."""
    rows = rng.normal(size=(n + 3, n)) * 10.0 ** rng.uniform(-spread / 2, spread / 2, n) + rng.normal(size=(n + 3, 1))
    curvature = rows.T @ rows
    return curvature, curvature @ (3.0 * rng.normal(size=n)), -rng.random(n), rng.random(n)


@pytest.mark.parametrize("spread", [0.0, 2.0, 4.0])
def test_the_best_point_in_a_box_is_scipys(spread):
    rng = np.random.default_rng(0)
    for _ in range(60):
        curvature, pull, low, high = problem_of(rng, int(rng.integers(1, 25)), spread)
        found = best_inside(curvature, pull, low, high, np.clip(np.linalg.solve(curvature, pull), low, high))
        root = np.linalg.cholesky(curvature)
        known = lsq_linear(root.T, np.linalg.solve(root, pull), (low, high), method="bvls", tol=1e-14).x
        np.testing.assert_allclose(found, known, atol=1e-7)


def test_the_best_point_does_not_depend_on_where_the_search_starts():
    rng = np.random.default_rng(1)
    curvature, pull, low, high = problem_of(rng, 18, 2.0)
    ends = [best_inside(curvature, pull, low, high, rng.uniform(low, high)) for _ in range(20)]
    np.testing.assert_allclose(ends, np.broadcast_to(ends[0], np.shape(ends)), atol=1e-9)
    assert ((ends[0] == low) | (ends[0] == high)).any()


def conditional_of(family, sizes=(60, 50), factor=3.0):
    """Means given memberships, with topics and statistics; the larger the factor, the further outside they would be."""
    topics, documents, latents = draw_all(np.random.default_rng(7), PROBLEMS["gaussian bounded"]._replace(sizes=sizes))
    z, x = latents.memberships, factor * documents.words
    sums = Statistics(z.T @ z, family.weighted_statistic(z, x))
    return family.given_means(topics, sums), topics, sums


def test_a_mode_inside_is_the_mode_without_bounds_bit_for_bit():
    wide = replace(FAMILY, means=replace(FAMILY.means, low=np.full(2, -1e3), high=np.full(2, 1e3)))
    free = replace(FAMILY, means=replace(FAMILY.means, low=None, high=None))
    for sizes in ((60, 50), (3, 2)):
        inside, unbounded = conditional_of(wide, sizes)[0], conditional_of(free, sizes)[0]
        assert isinstance(unbounded, GivenMeans)
        np.testing.assert_array_equal(inside.mode, unbounded.mode)
        draws = [each.draw(np.random.default_rng(3)) for each in (inside, unbounded)]
        np.testing.assert_array_equal(*draws)


def test_infinite_bounds_are_no_bounds():
    family = replace(FAMILY, means=replace(FAMILY.means, low=-np.inf, high=np.inf))
    assert isinstance(conditional_of(family)[0], GivenMeans)


def test_a_mode_outside_comes_to_the_edge_and_beats_the_clipped_one():
    inside, topics, sums = conditional_of(FAMILY)
    box, free = FAMILY.means.box, inside.free.mode
    assert not box.holds(free).all()
    assert box.holds(inside.mode).all()

    def log_density(means):
        each = topics._replace(means=means)
        fit = float((FAMILY.natural(each) * sums.weighted).sum()) - FAMILY.partition_from_gram(each, sums.gram)
        return fit + FAMILY.log_prior(each).total

    clipped = box.nearest(free)
    assert log_density(inside.mode) > log_density(clipped) + 1e-3
    rng = np.random.default_rng(0)
    for length in (1e-3, 1e-2, 1e-1):
        for _ in range(50):
            near = box.nearest(inside.mode + length * rng.normal(size=clipped.shape))
            assert log_density(near) <= log_density(inside.mode) + 1e-9


@pytest.mark.parametrize(
    ("low", "high"),
    [([-0.6, -np.inf], [0.5, 0.8]), ([-np.inf, -np.inf], [0.0, np.inf]), ([0.2, -0.1], [0.3, 0.1]), ([3, 4], [9, 9])],
    ids=["bounded", "half-space", "narrow", "far out"],
)
def test_prior_draws_inside_are_those_of_the_normal_that_lie_inside(low, high):
    """5 numbers for each of 4 boxes at 5 standard errors: a false alarm with probability 1e-5."""
    means = replace(bounded_means(), low=np.array(low), high=np.array(high))
    rng = np.random.default_rng(2)
    plain = rng.multivariate_normal(means.mean, means.covariance, 1_000_000)
    plain = plain[means.box.holds(plain)][:4000]
    drawn = means.draw(rng, 4000)
    assert means.box.holds(drawn).all()
    for function in (lambda x: x[:, 0], lambda x: x[:, 1], lambda x: x[:, 0] ** 2, lambda x: x[:, 0] * x[:, 1]):
        one, other = function(plain), function(drawn)
        error = np.hypot(one.std() / np.sqrt(len(one)), other.std() / np.sqrt(len(other)))
        assert abs(one.mean() - other.mean()) < 5.0 * error


def test_numbers_between_limits_are_scipys_truncated_normal():
    """KS test at 1e-6 for each of 5 intervals, also far out where probabilities vanish."""
    rng = np.random.default_rng(4)
    for low, high in [(-1.0, 2.0), (-np.inf, -3.0), (6.0, np.inf), (-39.5, -39.0), (50.0, 50.01)]:
        drawn = draw_between(rng, np.full(4000, low), np.full(4000, high))
        assert stats.kstest(drawn, stats.truncnorm(low, high).cdf).pvalue > 1e-6


@pytest.mark.parametrize("joint", [0, 1, 4])
def test_draws_given_the_memberships_leave_their_distribution_as_it_is(joint, monkeypatch):
    """From exact draws, one more step: 8 numbers for each of 3 kinds at 5 standard errors, false alarm 1.4e-5.

    joint : draws of all means that may lie inside, before numbers are redrawn one by one
    """
    monkeypatch.setattr(means_module, "JOINT_DRAWS", joint)
    inside = conditional_of(FAMILY, (3, 2), factor=1.0)[0]
    rng = np.random.default_rng(5)
    tried = (inside.free.draw(rng) for _ in range(60_000))
    exact = [means for means in tried if inside.box.holds(means).all()][:1000]
    assert len(exact) == 1000
    system = inside.system
    after = np.array([inside._replace(system=system._replace(now=means)).draw(rng) for means in exact])
    changes = (np.concatenate([after, after**2], axis=1) - np.concatenate([exact, np.square(exact)], axis=1)).reshape(
        len(exact), -1
    )
    assert inside.box.holds(after.reshape(-1, 2)).all()
    scores = changes.mean(axis=0) / (changes.std(axis=0) / np.sqrt(len(exact)))
    assert np.abs(scores).max() < 5.0, scores.round(1)


def test_means_outside_have_no_density_and_bounds_move_with_the_words():
    outside = Topics(np.array([[0.0, 0.0], [0.51, 0.0]]), np.array([1.0, 1.0]))
    assert np.isinf(FAMILY.log_prior(outside).means).tolist() == [False, True]
    offset = np.array([3.0, -70.0])
    moved = FAMILY.shifted(offset)
    np.testing.assert_array_equal(
        np.isinf(moved.log_prior(outside._replace(means=outside.means + offset)).means), [False, True]
    )
    np.testing.assert_array_equal(moved.nearest(outside.means + offset), FAMILY.nearest(outside.means) + offset)


def test_means_at_their_bounds_stay_possible_when_words_are_shifted_there_and_back():
    edge = np.array([[-0.6, 0.8], [0.5, 0.8]])
    for offset in (np.array([0.1, 0.7]), np.array([1e5, -1e-3])):
        moved = FAMILY.shifted(-offset)
        assert np.isfinite(moved.log_prior(Topics(edge - offset, np.ones(2))).means).all()


@pytest.mark.parametrize(
    ("low", "high", "message"),
    [
        (1.0, 1.0, "leave nothing between 1 and 1"),
        ([0.0, 2.0], 1.0, "leave nothing between 2 and 1"),
        (np.nan, 1.0, "contains NaN"),
        ("a", 1.0, "give a number"),
        (np.zeros((2, 2)), 1.0, "has shape"),
        (np.zeros(3), np.ones(2), "have shapes"),
    ],
)
def test_bounds_that_make_no_sense_are_refused(low, high, message):
    with pytest.raises(ValueError, match=message):
        NormalMeans(low=low, high=high)


def test_bounds_of_another_number_of_features_are_refused():
    with pytest.raises(ValueError, match=r"lower bound of topic means has shape \(3,\), expected a number or shape"):
        NormalMeans(low=np.zeros(3)).informed_by(np.random.default_rng(0).random((9, 2)))


def test_covariances_of_their_own_take_no_bounds():
    with pytest.raises(ValueError, match="cannot be bounded"):
        TopicDiagonalGaussian(means=NormalMeans(low=0.0))


def test_a_box_that_the_prior_does_not_reach_is_an_error_and_not_an_endless_search():
    with pytest.raises(ValueError, match="hardly reaches"):
        draw_inside(np.random.default_rng(0), np.zeros(1), np.eye(1), Box(np.array([40.0]), np.array([np.inf])), 1)


def test_a_family_with_bounds_is_described_by_its_settings():
    assert Gaussian(DiagonalNoise(), NormalMeans(low=0.0, high=[1.0, 2.0])).means.high == [1.0, 2.0]
