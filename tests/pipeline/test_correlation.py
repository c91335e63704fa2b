"""The design effect: how many pixels repeat each other, estimated from the picture."""

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

from pmlda import segment
from pmlda.evaluation.scenes import smooth_scene
from pmlda.pipeline.correlation import design_effect, survey_lags


def field(sigma, size=600, noise=0.0, seed=0):
    rng = np.random.default_rng(seed)
    smooth = gaussian_filter(rng.normal(size=(size, size)), sigma) if np.max(sigma) else rng.normal(size=(size, size))
    return (smooth / smooth.std() + noise * rng.normal(size=(size, size)))[..., None]


def effect(values, labels=None):
    labels = np.zeros(values.shape[:2], np.int64) if labels is None else labels
    return design_effect([survey_lags(values, labels, (0, 0))])


def test_independent_pixels_repeat_nothing():
    assert effect(field(0.0)) == pytest.approx(1.0, abs=0.5)


@pytest.mark.parametrize("sigma", [2.0, 4.0])
def test_a_smoothed_field_has_its_own_area(sigma):
    # Smoothing white noise by σ gives correlation exp(−h²/4σ²), whose integral over the plane is 4πσ².
    assert effect(field(sigma)) == pytest.approx(4.0 * np.pi * sigma**2, rel=0.25)


def test_noise_of_single_pixels_is_left_out():
    assert effect(field(3.0, noise=1.0)) == pytest.approx(effect(field(3.0)), rel=0.3)


def test_streaks_are_longer_one_way():
    assert effect(field((1.5, 6.0))) == pytest.approx(4.0 * np.pi * 9.0, rel=0.35)


def test_correlation_ends_with_the_document():
    y, x = np.mgrid[:600, :600]
    windows = (y // 8) * 75 + x // 8
    assert effect(field(12.0), windows) < 0.3 * effect(field(12.0))


def test_constant_features_and_pixels_without_documents():
    assert effect(np.ones((20, 20, 2))) == 1.0
    labels = np.full((50, 50), -1)
    labels[:, :25] = 0
    values = field(3.0, 50)
    values[:, 25:] = 1e6  # no data
    assert effect(values, labels) < 200


def test_tiles_add_up_to_the_picture():
    values = field(2.0, 120)
    y, x = np.mgrid[:120, :120]
    windows = (y // 20) * 6 + x // 20  # which end where tiles end
    whole = survey_lags(values, windows, (0, 0))
    parts = [
        survey_lags(values[r : r + 60, c : c + 60], windows[r : r + 60, c : c + 60], (r, c))
        for r in (0, 60)
        for c in (0, 60)
    ]
    assert np.allclose(np.sum(parts, axis=0)[..., 0], whole[..., 0])


def test_segment_estimates_it_and_a_user_can_say_otherwise():
    picture, _ = smooth_scene(64, 64, n_topics=3, noise=0.04, seed=0)
    assert segment(picture, 3).recipe.model.design_effect > 3.0
    assert segment(picture, 3, design_effect=1.0).recipe.model.design_effect == 1.0
