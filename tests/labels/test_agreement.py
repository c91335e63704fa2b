"""Strokes that contradict their pixels are told in a sentence, and others are left in peace."""

import numpy as np
import pytest

from pmlda.labels.agreement import found_under, judge

NAMES = ("water", "sky", "glow")


def judged(said, z, *, std=0.02, one_of=False, pixels=10):
    """One stroke over equal pixels."""
    said, nothing = np.array([said], float), np.zeros((1, 3))
    under = found_under(np.zeros(pixels, int), np.tile(z, (pixels, 1)), np.full((pixels, 3), std), 1)
    (entry,) = judge(nothing if one_of else said, said if one_of else nothing, under, NAMES)
    return entry


@pytest.mark.parametrize(
    ("said", "z", "one_of", "overlap"),
    [
        ([1, 0, 0], [0.9, 0.05, 0.05], False, 0.9),
        ([1, 0, 0], [0.3, 0.6, 0.1], False, 0.3),
        ([0.5, 0.5, 0], [0.9, 0.1, 0.0], False, 0.6),
        ([1, 1, 0], [0.1, 0.5, 0.4], True, 0.6),
    ],
)
def test_strokes_that_fit_their_pixels_have_their_overlap_and_no_sentence(said, z, one_of, overlap):
    entry = judged(said, z, one_of=one_of)
    assert entry.overlap == pytest.approx(overlap)
    assert entry.contradiction == ""
    np.testing.assert_allclose(entry.found, z)


@pytest.mark.parametrize(
    ("said", "z", "one_of", "sentence"),
    [
        (
            [1, 0, 0],
            [0.05, 0.9, 0.05],
            False,
            "Stroke 1 says water, but without it its 10 pixels are 0.05 ± 0.02 water and 0.90 sky. "
            "Check it, or ask for more topics.",
        ),
        (
            [0.5, 0, 0.5],
            [0.02, 0.96, 0.02],
            False,
            "Stroke 1 says 0.5 water and 0.5 glow, but without it its 10 pixels are 0.04 ± 0.02 that and 0.96 sky. "
            "Check it, or ask for more topics.",
        ),
        (
            [1, 0, 1],
            [0.05, 0.9, 0.05],
            True,
            "Stroke 1 says water or glow, but without it its 10 pixels are 0.10 ± 0.02 that and 0.90 sky. "
            "Check it, or ask for more topics.",
        ),
    ],
)
def test_strokes_that_contradict_their_pixels_are_told(said, z, one_of, sentence):
    assert judged(said, z, one_of=one_of).contradiction == sentence


def test_pixels_that_are_uncertain_contradict_nobody():
    assert judged([1, 0, 0], [0.1, 0.8, 0.1], std=0.05).contradiction
    assert judged([1, 0, 0], [0.1, 0.8, 0.1], std=0.25).contradiction == ""


def test_many_pixels_are_no_surer_than_one_because_they_repeat_each_other():
    few, many = (judged([1, 0, 0], [0.1, 0.8, 0.1], std=0.25, pixels=n) for n in (1, 10_000))
    assert (few.std, few.contradiction) == (pytest.approx(many.std), many.contradiction)


def test_a_stroke_over_two_tiles_is_judged_as_one_and_one_without_data_is_left_out():
    z = np.array([[0.9, 0.1, 0.0], [0.1, 0.9, 0.0], [0.2, 0.8, 0.0]])
    whole = found_under(np.array([2, 0, 2]), z, 0.1 * z, 3)
    tiles = [found_under(np.array([2, 0]), z[:2], 0.1 * z[:2], 3), found_under(np.array([2]), z[2:], 0.1 * z[2:], 3)]
    added = type(whole)(*(one + other for one, other in zip(*tiles, strict=True)))
    said = np.eye(3)
    entries = [judge(said, np.zeros((3, 3)), under, NAMES) for under in (whole, added)]
    assert [entry.said for entry in entries[0]] == ["water", "glow"]
    for one, other in zip(*entries, strict=True):
        np.testing.assert_array_equal(one.found, other.found)
