"""Rivals are asked at many settings, and stand at their best."""

import numpy as np
import pytest

from pmlda.evaluation.experiments.rivals import MODELS, Answer, all_answers, best_of, errors_of, full_size, told
from pmlda.evaluation.scenes import smooth_scene
from pmlda.metrics import membership_rmse
from pmlda.pipeline.api import segment


@pytest.fixture(scope="module")
def asked():
    picture, truth = smooth_scene(24, 30, 3, 0.05, 0)
    answers, grid = all_answers(segment(picture, 3, documents="windows:12"), 2, ("windows:16", "windows:8"))
    return answers, grid, grid.thinned(truth)


def test_every_answer_is_about_the_same_pixels_and_sums_to_one(asked):
    answers, _, truth = asked
    for answer in answers:
        assert answer.maps.shape == truth.shape == (12, 15, 3), answer.setting
        np.testing.assert_allclose(answer.maps.sum(axis=2), 1.0, atol=1e-5, err_msg=answer.setting)


def test_no_two_answers_of_a_model_have_the_same_setting(asked):
    settings = [(answer.model, answer.setting) for answer in asked[0]]
    assert len(set(settings)) == len(settings)
    counts = {model: sum(answer.model == model for answer in asked[0]) for model in MODELS}
    assert counts == {"PM-LDA": 1, "FCM, paper": 1, "FCM": 21, "LDA": 12, "GMM": 4}


def test_the_best_answer_of_a_model_has_no_larger_error_than_any_other(asked):
    answers, _, truth = asked
    best = best_of(answers, lambda maps: membership_rmse(maps, truth))
    row = errors_of(best, truth)
    for answer in answers:
        assert row[answer.model] <= membership_rmse(answer.maps, truth) + 1e-4, answer.setting
    assert row["PM-LDA is best"] == (row["PM-LDA"] < min(row[model] for model in MODELS[1:]))
    assert f"on {int(row['PM-LDA is best'])} of 1 scenes" in told([row], "scenes")


def test_best_of_keeps_the_least_loss_of_each_model():
    answers = [Answer("a", str(value), np.array([[[value]]])) for value in (3.0, 1.0, 2.0)]
    assert best_of(answers, lambda maps: float(maps.sum()))["a"].setting == "1.0"


def test_a_grid_of_pixels_becomes_squares_of_the_picture():
    assert full_size(np.array([[1, 2]]), 2, (2, 3)).tolist() == [[1, 1, 2], [1, 1, 2]]
