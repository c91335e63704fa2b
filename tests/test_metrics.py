"""Metrics: known answers, brute-force checks, properties that hold for any maps, and errors that say what to do."""

from itertools import permutations

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from pmlda.metrics import (
    auc,
    below_curve,
    calibration,
    crisp_iou,
    interval_coverage,
    match_topics,
    membership_rmse,
    operating_point,
    roc,
    soft_iou,
    spectral_angle,
)

seeds = st.integers(0, 2**32 - 1)


def memberships(seed, n=40, k=4):
    return np.random.default_rng(seed).dirichlet(np.ones(k), n)


# ── detection ─────────────────────────────────────────────────────────────────────────────────────────────────────


@given(seeds)
def test_the_area_is_the_share_of_pairs_in_the_right_order(seed):
    rng = np.random.default_rng(seed)
    truth = np.arange(30) % 3 == 0
    score = rng.integers(0, 6, 30) / 5.0  # with ties, which count half
    above = score[truth][:, None] - score[~truth]
    assert auc(score, truth) == pytest.approx(np.mean((above > 0) + 0.5 * (above == 0)))


def test_a_map_gives_what_its_rows_give():
    score, truth = np.linspace(0, 1, 12) ** 2, np.arange(12) % 2 == 0
    for ours, theirs in zip(roc(score.reshape(3, 4), truth.reshape(3, 4)), roc(score, truth), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_masked_pixels_do_not_count_whatever_they_hold():
    score, truth, mask = [0.1, np.nan, 0.9, 0.3], [0, 1, 1, 0], [1, 0, 1, 1]
    assert auc(score, truth, mask=mask) == 1.0
    assert operating_point([0, 0, 1, 1], truth, mask=mask) == (0.5, 1.0)


@given(seeds)
def test_the_best_threshold_at_its_false_positive_rate_is_on_the_curve_and_less_is_below(seed):
    rng = np.random.default_rng(seed)
    score, truth = rng.random(50).round(1), np.arange(50) < 20
    curve = roc(score, truth)[:2]
    points = [operating_point(score > threshold, truth) for threshold in np.arange(-0.05, 1.1, 0.1)]
    for point in points:
        best = max(other for other in points if other[0] == point[0])
        assert not below_curve(best, *curve)
        assert below_curve((best[0], max(best[1] - 0.01, 0.0)), *curve) or best[1] == 0.0


def test_on_a_vertical_rise_the_upper_end_counts():
    curve = [0.0, 0.2, 0.2, 1.0], [0.0, 0.1, 0.8, 1.0]
    assert below_curve((0.2, 0.5), *curve)
    assert not below_curve((0.2, 0.8), *curve)
    assert below_curve((0.1, 0.04), *curve)
    assert not below_curve((0.1, 0.06), *curve)
    assert below_curve((0.6, 0.89), *curve)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: auc([0.1, 0.2], [True, True]), "truth is True at all 2 pixels"),
        (lambda: roc([0.1, 0.2], [False, False]), "truth is False at all 2 pixels"),
        (lambda: auc([0.1, 0.2, 0.3], [True, False]), r"sizes differ: score \(3,\), truth \(2,\)"),
        (lambda: auc([0.1, np.nan], [True, False]), "score contains NaN.*mask="),
        (lambda: auc([0.1, 0.2], [2, 4]), "truth == 4"),
        (lambda: auc([0.1, 0.2], [0, 1], mask=[0, 0]), "No pixel counts"),
        (lambda: auc([0.1, 0.2], [0, 1], mask=[1, 0, 1]), r"mask has shape \(3,\)"),
        (lambda: operating_point([0.3, 0.2], [0, 1]), "predicted has values other than"),
        (lambda: below_curve((0.5, 0.5), [0.0, 1.0, 0.5], [0.0, 0.5, 1.0]), "as from roc"),
        (lambda: below_curve((50.0, 0.5), [0.0, 1.0], [0.0, 1.0]), "between 0 and 1"),
    ],
)
def test_what_detection_refuses(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# ── memberships ───────────────────────────────────────────────────────────────────────────────────────────────────


@given(seeds)
def test_the_matching_is_the_best_of_all_permutations(seed):
    found, truth = memberships(seed), memberships(seed + 1)
    best = min(np.mean((found[:, list(order)] - truth) ** 2) for order in permutations(range(4)))
    assert membership_rmse(found, truth) == pytest.approx(np.sqrt(best))


@given(seeds)
def test_renumbered_topics_are_found_again(seed):
    truth = memberships(seed)
    shuffled = np.random.default_rng(seed).permutation(4)
    found = truth[:, shuffled]
    for by in ("error", "correlation"):
        np.testing.assert_array_equal(found[:, match_topics(found, truth, by=by)], truth)


def test_correlation_does_not_mind_contrast():
    """A pale map of the first topic is nearer to the second in squares, but has the shape of the first."""
    truth = np.array([[1.0, 0.0], [1.0, 0.0], [0.9, 0.1], [0.8, 0.2]])
    found = np.array([[0.12, 0.88], [0.12, 0.88], [0.11, 0.89], [0.10, 0.90]])
    assert match_topics(found, truth).tolist() == [1, 0]
    assert match_topics(found, truth, by="correlation").tolist() == [0, 1]


def test_a_topic_too_many_is_left_out_and_its_share_is_error():
    truth = memberships(0, k=3)
    split = np.column_stack([0.3 * truth[:, 0], truth[:, 1:], 0.7 * truth[:, 0]])
    assert match_topics(split, truth).tolist() == [3, 1, 2]
    expected = np.sqrt(np.mean(0.09 * truth[:, 0] ** 2) / 3.0)
    assert membership_rmse(split, truth) == pytest.approx(expected)


def test_a_constant_map_correlates_with_nothing():
    truth = memberships(1, k=2)
    found = np.column_stack([np.full(40, 0.5), truth[:, 0]])
    assert match_topics(found, truth, by="correlation").tolist() == [1, 0]


def test_maps_with_holes_need_a_mask():
    truth = memberships(2).reshape(5, 8, 4)
    holed = truth.copy()
    holed[1, 2] = np.nan
    with pytest.raises(ValueError, match=r"found contains NaN.*mask="):
        membership_rmse(holed, truth)
    assert membership_rmse(holed, truth, mask=np.isfinite(holed[..., 0])) == 0.0


@pytest.mark.parametrize(
    ("found", "truth", "by", "message"),
    [
        (np.ones((3, 2)), np.ones((4, 2)), "error", r"found has shape \(3, 2\) and truth \(4, 2\)"),
        (np.ones((3, 2)), np.ones((3, 3)), "error", "2 topics were found, but truth has 3"),
        (np.ones(3), np.ones(3), "error", "topics last"),
        (np.ones((3, 2)), np.ones((3, 2)), "angle", "by='angle' is not known"),
    ],
)
def test_what_matching_refuses(found, truth, by, message):
    with pytest.raises(ValueError, match=message):
        match_topics(found, truth, by=by)


@given(st.floats(0.0, np.pi), st.floats(0.1, 100.0))
def test_the_angle_is_the_angle_whatever_the_brightness(angle, brightness):
    turned = brightness * np.array([[np.cos(angle), np.sin(angle)]])
    assert spectral_angle([[1.0, 0.0]], turned)[0] == pytest.approx(angle, abs=1e-12)


def test_spectra_that_have_no_angle():
    with pytest.raises(ValueError, match="zeros has no direction"):
        spectral_angle([[0.0, 0.0]], [[1.0, 0.0]])
    with pytest.raises(ValueError, match=r"shapes \(1, 2\) and \(1, 3\)"):
        spectral_angle([[1.0, 0.0]], [[1.0, 0.0, 0.0]])


# ── overlap ───────────────────────────────────────────────────────────────────────────────────────────────────────


@given(seeds)
def test_of_crisp_memberships_soft_and_crisp_overlap_are_one(seed):
    rng = np.random.default_rng(seed)
    found, truth = rng.permutation(np.arange(30) % 3), rng.permutation(np.arange(30) % 3)
    np.testing.assert_allclose(soft_iou(np.eye(3)[found], np.eye(3)[truth]).sum(), crisp_iou(found, truth).sum())


def test_overlap_of_labels_that_are_not_equally_many():
    truth = np.array([[0, 0, 1, 1], [0, 0, 1, 2]])
    np.testing.assert_allclose(crisp_iou(np.zeros((2, 4), int), truth), [0.5, 0.0, 0.0])
    np.testing.assert_allclose(crisp_iou(np.arange(8).reshape(2, 4), truth), [1 / 4, 1 / 3, 1.0])


def test_a_map_overlaps_fully_with_itself_under_a_mask():
    truth = memberships(3)
    mask = np.arange(40) % 2 == 0
    np.testing.assert_array_equal(soft_iou(truth[:, ::-1], truth, mask=mask), np.ones(4))


def test_what_overlap_refuses():
    with pytest.raises(ValueError, match="found has type float64"):
        crisp_iou([0.5, 1.0], [0, 1])
    with pytest.raises(ValueError, match="sizes differ"):
        crisp_iou([0, 1, 1], [0, 1])
    with pytest.raises(ValueError, match="at least 0"):
        soft_iou([[-0.1, 1.1]], [[0.0, 1.0]])


# ── calibration ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_intervals_of_the_right_distribution_hold_their_level_and_narrower_ones_do_not():
    """4000 pixels of 3 topics: a share has a standard error below 0.008 × √3; five of them are allowed."""
    truth = np.random.default_rng(0).dirichlet([2.0, 2.0, 2.0], 4000)

    def central(level, more=1.0):
        """Ends of intervals of the marginals of Dir(2, 2, 2), which are Beta(2, 4)."""
        ends = scipy.stats.beta(2.0 * more, 4.0 * more).interval(level)
        return tuple(np.full(truth.shape, end) for end in ends)

    table = calibration(central, truth)
    assert [row["nominal"] for row in table] == [0.5, 0.8, 0.9, 0.95]
    for row in table:
        assert abs(row["actual"] - row["nominal"]) < 0.07
    too_sure = calibration(lambda level: central(level, 8.0), truth)
    assert all(row["actual"] < row["nominal"] - 0.2 for row in too_sure)


def test_coverage_counts_ends_and_leaves_out_masked_pixels():
    low, high = np.zeros((2, 2, 3)), np.full((2, 2, 3), 0.5)
    truth = np.zeros((2, 2, 3))
    truth[0, 0], truth[1, 1] = 0.5, np.nan
    truth[0, 1, 0] = 0.6
    assert interval_coverage(low, high, truth, mask=[[1, 1], [1, 0]]) == pytest.approx(8 / 9)


def test_what_coverage_refuses():
    with pytest.raises(ValueError, match="give low first"):
        interval_coverage([0.5], [0.4], [0.45])
    with pytest.raises(ValueError, match="sizes differ"):
        interval_coverage([0.5], [0.6, 0.7], [0.45])
    with pytest.raises(ValueError, match="NaN"):
        interval_coverage([0.5], [0.6], [np.nan])
