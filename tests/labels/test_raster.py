"""Which pixels a brush touches and which rings enclose, against every pixel looked at by itself."""

from itertools import pairwise

import numpy as np
import pytest

from pmlda.labels import raster
from pmlda.labels.raster import brush, enclosed, pixels_of


def touched(lines, radius, shape):
    """The distance of every pixel to every segment."""
    y, x = np.mgrid[: shape[0], : shape[1]]
    found = np.zeros(shape, bool)
    for line in lines:
        for a, b in list(pairwise(line)) or [(line[0], line[0])]:
            along = b - a
            square = float(along @ along)
            t = np.clip(((x - a[0]) * along[0] + (y - a[1]) * along[1]) / square, 0, 1) if square else 0.0
            found |= np.hypot(x - a[0] - t * along[0], y - a[1] - t * along[1]) <= radius + 1e-9
    return np.flatnonzero(found)


@pytest.mark.parametrize("at_once", [raster.AT_ONCE, 7])
def test_a_brush_touches_the_pixels_within_its_radius(monkeypatch, at_once):
    monkeypatch.setattr(raster, "AT_ONCE", at_once)
    rng = np.random.default_rng(0)
    for case in range(150):
        shape = tuple(rng.integers(1, 40, 2))
        lines = [rng.uniform(-10, 50, (rng.integers(1, 5), 2)) for _ in range(rng.integers(1, 4))]
        lines = [np.round(line) for line in lines] if case % 3 == 0 else lines
        radius = rng.choice([0.0, 0.5, 1.0, 2.5, 7.0])
        np.testing.assert_array_equal(pixels_of(brush(lines, radius, shape)), touched(lines, radius, shape))


@pytest.mark.parametrize("at_once", [raster.AT_ONCE, 7])
def test_rings_enclose_what_is_inside_an_odd_number_of_them(monkeypatch, at_once):
    from matplotlib.path import Path

    monkeypatch.setattr(raster, "AT_ONCE", at_once)
    rng = np.random.default_rng(1)
    for _ in range(100):
        shape, ring = tuple(rng.integers(1, 40, 2)), rng.uniform(-10, 50, (3, 2))
        hole = ring.mean(axis=0) + 0.5 * (ring - ring.mean(axis=0))
        y, x = np.mgrid[: shape[0], : shape[1]]
        centres = np.stack([x.ravel(), y.ravel()], axis=1)
        inside = Path(ring).contains_points(centres) ^ Path(hole).contains_points(centres)
        np.testing.assert_array_equal(pixels_of(enclosed([ring, hole], shape)), np.flatnonzero(inside))


def test_shapes_side_by_side_share_no_pixel_and_leave_none_out():
    left = np.array([[0, 0], [4, 0], [4, 6], [0, 6]], float)
    found = [pixels_of(enclosed([left + np.array([4.0 * i, 0.0])], (6, 8))) for i in range(2)]
    assert sorted(np.concatenate(found)) == list(range(48))


def test_a_stroke_across_a_very_large_picture_needs_its_own_pixels_alone():
    corner = np.array([[0.0, 0.0], [2e5, 1e5]])
    runs = brush([corner], 1.0, (100_000, 200_000))  # 20 gigapixels
    # |x − 2y| ≤ √5 in every row: five pixels, but fewer at the edge of the picture.
    assert len(runs) == 100_000
    assert (runs[:, 1] - runs[:, 0])[1:-1].tolist() == [5] * 99_998
