"""Features of a window: smoother memberships, and uncertainty of where in the window the pixel is."""

import numpy as np
import pytest

from pmlda import segment
from pmlda.evaluation.scenes import seabed
from pmlda.features import find_features
from pmlda.pipeline.footprint import Footprint


def test_flat_memberships_stay_as_they_are():
    valid = np.ones((30, 30), bool)
    memberships, std = Footprint(9).spread(np.full((900, 2), 0.5), np.full((900, 2), 0.1), valid)
    assert np.allclose(memberships, 0.5)
    assert np.allclose(std, 0.1)


def test_an_edge_is_uncertain_as_far_as_the_window_reaches():
    valid = np.ones((30, 60), bool)
    maps = np.zeros((30, 60, 2))
    maps[:, :30, 0], maps[:, 30:, 1] = 1.0, 1.0
    _, std = Footprint(9).spread(maps.reshape(-1, 2), np.zeros((1800, 2)), valid)
    rows = std.reshape(30, 60, 2)[15, :, 0]
    assert rows[29] == pytest.approx(np.sqrt(5 / 9 * 4 / 9))
    assert (rows[26:34] > 0.3).all()
    assert (rows[:26] == 0).all()
    assert (rows[34:] == 0).all()


def test_pixels_without_data_do_not_count():
    valid = np.ones((20, 20), bool)
    valid[:, 10:] = False
    memberships, std = Footprint(5).spread(np.full((200, 1), 0.7), np.zeros((200, 1)), valid)
    assert np.allclose(memberships, 0.7)
    assert np.allclose(std, 0.0, atol=1e-6)


@pytest.mark.parametrize(("spec", "side"), [("color", 1), ("sonar", 21), ("sonar:11", 11), ("sonar+intensity", 1)])
def test_features_know_their_window(spec, side):
    assert find_features(spec).footprint == side


def test_tiles_give_what_the_whole_picture_gives(tmp_path):
    picture, _ = seabed(192, 0)
    settings = {"features": "sonar:11", "documents": "windows:32", "design_effect": 30.0, "refits": 0, "sample": 0}
    whole = segment(picture, 3, **settings)
    tiled = segment(picture, 3, out=tmp_path / "maps.zarr", block=64, **settings)
    assert np.abs(np.asarray(tiled.memberships) - whole.memberships).max() < 1e-5
    assert np.abs(np.asarray(tiled.uncertainty, np.float32) - whole.uncertainty).max() < 1e-3
