"""The robot user draws where a careful person would."""

from itertools import combinations

import numpy as np
import pytest
from scipy.ndimage import binary_dilation

from pmlda import segment
from pmlda.evaluation.robot import covered, first_strokes, next_stroke, told_shares, transition_strokes
from pmlda.evaluation.scenes import smooth_scene, sunset

SCENES = {"sunset": lambda: sunset(150, 200, 3)[1], "smooth": lambda: smooth_scene(160, 160, 4, 0.06, 3)[1]}


def centres(strokes):
    """(n, 2) x and y of each stroke."""
    return np.array([stroke["points"][0] for stroke in strokes])


def covered_by(strokes, shape):
    return [covered(stroke, shape) for stroke in strokes]


@pytest.mark.parametrize("scene", SCENES)
def test_first_strokes_lie_on_the_purest_part_of_their_topic(scene):
    shares = SCENES[scene]()
    strokes = first_strokes(shares, np.random.default_rng(0))
    assert [stroke["topic"] for stroke in strokes] == np.repeat(1 + np.arange(shares.shape[2]), 5).tolist()
    for stroke, mask in zip(strokes, covered_by(strokes, shares.shape[:2]), strict=True):
        own = shares[..., stroke["topic"] - 1]
        # A hand that misses by a pixel stays close to the purest 3 %.
        assert own[mask].mean() >= np.quantile(own, 0.95)


@pytest.mark.parametrize("draw", [first_strokes, transition_strokes])
@pytest.mark.parametrize("scene", SCENES)
def test_strokes_are_whole_discs_within_the_picture_and_touch_no_other(draw, scene):
    shares = SCENES[scene]()
    masks = covered_by(draw(shares, np.random.default_rng(1)), shares.shape[:2])
    assert {int(mask.sum()) for mask in masks} == {29}  # a disc of radius 3, nothing cut off
    grown = [binary_dilation(mask, np.ones((3, 3))) for mask in masks]
    assert not any((grown[i] & masks[j]).any() for i, j in combinations(range(len(masks)), 2))


@pytest.mark.parametrize("draw", [first_strokes, transition_strokes])
def test_other_seeds_draw_elsewhere_and_the_same_seed_does_not(draw):
    shares = SCENES["sunset"]()
    one, other, again = (centres(draw(shares, np.random.default_rng(seed))) for seed in (0, 1, 0))
    assert (one == again).all()
    assert (one != other).any(axis=1).mean() > 0.9


def test_a_topic_that_is_pure_almost_nowhere_is_labelled_where_it_is_purest():
    shares = np.zeros((60, 60, 2))
    shares[..., 0] = 1.0
    shares[20:40, 20:40] = [0.0, 1.0]
    strokes = first_strokes(shares, np.random.default_rng(0), per_topic=4, purest=0.001)
    inside = [shares[mask][:, 1].mean() for mask in covered_by(strokes[4:], (60, 60))]
    assert min(inside) > 0.85


def test_half_and_half_strokes_lie_in_transitions_and_not_on_outlines():
    shares = np.zeros((80, 120, 3))
    ramp = np.clip(np.linspace(-0.5, 1.5, 80), 0.0, 1.0)
    shares[:, :80, 0], shares[:, :80, 1] = 1.0 - ramp, ramp
    shares[:, 80:, 2] = 1.0
    shares[:, 79] = 0.5 * (shares[:, 78] + shares[:, 80])  # an outline of pixels that have half of two topics
    strokes = transition_strokes(shares, np.random.default_rng(0), count=50)  # as many as there is room for
    assert len(strokes) > 5
    for stroke, mask in zip(strokes, covered_by(strokes, (80, 120)), strict=True):
        assert stroke["shares"] == [0.5, 0.5, 0.0]
        assert abs(shares[mask][:, 0].mean() - 0.5) < 0.1
        assert shares[mask][:, :2].min() >= 0.2


def test_where_there_is_no_room_there_are_fewer_strokes():
    shares = np.zeros((40, 60, 3))
    shares[..., 0], shares[..., 1] = 0.9, 0.1  # the second topic leads nowhere, and nothing is half and half
    shares[10:17, 10:27] = [0.0, 0.0, 1.0]
    strokes = first_strokes(shares, np.random.default_rng(0))
    told = [stroke["topic"] for stroke in strokes]
    assert told.count(1) == 5
    assert 2 not in told
    assert 1 <= told.count(3) <= 2
    assert transition_strokes(shares, np.random.default_rng(0)) == []


def test_a_correction_goes_to_the_middle_of_the_largest_error_and_tells_the_truth():
    shares = np.zeros((60, 90, 3))
    shares[..., 0] = 1.0
    shares[10:20, 10:20] = [0.0, 1.0, 0.0]
    shares[25:50, 50:80] = [0.0, 0.0, 1.0]
    found = np.tile([1.0, 0.0, 0.0], (60, 90, 1))
    stroke = next_stroke(shares, found, np.random.default_rng(0))
    assert stroke["topic"] == 3
    assert np.hypot(*(centres([stroke])[0] - [64.5, 37.0])) < 5.0
    found[25:50, 50:80] = shares[25:50, 50:80]
    assert next_stroke(shares, found, np.random.default_rng(0))["topic"] == 2


def test_a_correction_of_a_mixture_tells_tenths_where_they_are_asked_for():
    shares = np.tile([1.0, 0.0, 0.0], (50, 50, 1))
    shares[10:40, 10:40] = [0.32, 0.52, 0.16]
    found = np.tile([1.0, 0.0, 0.0], (50, 50, 1))
    soft = next_stroke(shares, found, np.random.default_rng(0), soft=True)
    assert soft["shares"] == [0.3, 0.5, 0.2]
    assert "topic" not in soft
    assert next_stroke(shares, found, np.random.default_rng(0))["topic"] == 2


def test_a_correction_is_not_drawn_again_where_one_is():
    shares = np.zeros((60, 60, 2))
    shares[..., 0] = 1.0
    found = np.full((60, 60, 2), 0.5)
    strokes = []
    for seed in range(5):
        strokes.append(next_stroke(shares, found, np.random.default_rng(seed), drawn=strokes))
    masks = covered_by(strokes, (60, 60))
    assert {int(mask.sum()) for mask in masks} == {29}
    assert not any((a & b).any() for a, b in combinations(masks, 2))


def test_pixels_know_what_was_told_of_them():
    strokes = [
        {"topic": 2, "points": [[10, 5]], "radius": 3},
        {"shares": [0.5, 0.0, 0.5], "points": [[4, 20]], "radius": 2},
    ]
    told = told_shares(strokes, (30, 25), 3)
    assert told[5, 10].tolist() == [0.0, 1.0, 0.0]
    assert told[20, 4].tolist() == [0.5, 0.0, 0.5]
    assert np.isfinite(told).all(axis=2).sum() == 29 + 13
    assert np.isnan(told[10, 10]).all()  # x is the column


def test_segment_takes_what_the_robot_draws():
    picture, shares = sunset(60, 80, 0)
    strokes = first_strokes(shares, np.random.default_rng(0), per_topic=2)
    strokes += transition_strokes(shares, np.random.default_rng(0), count=1, radius=1)
    maps = segment(picture, 3, labels=strokes, documents="slic:12", refits=0).memberships
    # Topics are numbered as strokes say, so that nothing has to be matched.
    assert np.sqrt(np.mean((maps - shares) ** 2)) < 0.1
    for stroke, mask in zip(strokes[:6], covered_by(strokes[:6], (60, 80)), strict=True):
        assert maps[mask][:, stroke["topic"] - 1].mean() > 0.9
