"""Scaling brings features to comparable units and topics back."""

import numpy as np
import pytest

from pmlda.features.moments import BLOCK_ROWS, blocks, moments
from pmlda.features.scaling import KINDS, Scaling


@pytest.fixture
def values():
    rng = np.random.default_rng(0)
    return rng.normal(size=(500, 4)) @ rng.normal(size=(4, 4)) * [1e-3, 1, 50, 1e4] + [5, -3, 1e3, 0]


@pytest.mark.parametrize("kind", KINDS)
def test_undo_is_the_inverse_of_apply(kind, values):
    scaling = Scaling(kind).fit(values)
    np.testing.assert_allclose(scaling.undo(scaling.apply(values)), values, rtol=1e-9, atol=1e-9)


def test_standard_gives_mean_0_and_deviation_1(values):
    scaled = Scaling().fit(values).apply(values)
    np.testing.assert_allclose(scaled.mean(axis=0), 0, atol=1e-10)
    np.testing.assert_allclose(scaled.std(axis=0), 1, rtol=1e-10)


def test_whiten_gives_the_identity_and_keeps_each_feature_itself(values):
    scaled = Scaling("whiten").fit(values).apply(values)
    np.testing.assert_allclose(np.cov(scaled.T, bias=True), np.eye(4), atol=1e-8)
    # The symmetric root turns features as little as possible: each stays correlated with itself.
    assert all(np.corrcoef(scaled[:, i], values[:, i])[0, 1] > 0 for i in range(4))


def test_none_changes_nothing(values):
    np.testing.assert_array_equal(Scaling("none").fit(values).apply(values), values)


@pytest.mark.parametrize("kind", ["standard", "whiten"])
def test_constant_features_are_divided_by_one(kind, values):
    for constant in (0.0, 0.1, 1e6):
        data = np.column_stack([values, np.full(len(values), constant)]).astype(np.float32)
        scaling = Scaling(kind).fit(data)
        assert np.abs(scaling.apply(data)[:, 4]).max() < 1e-6 * max(1.0, constant)
        moved = data[:1].astype(np.float64)
        moved[0, 4] += 2.0
        assert scaling.apply(moved)[0, 4] - scaling.apply(data[:1])[0, 4] == pytest.approx(2.0, rel=1e-3)


@pytest.mark.parametrize("kind", ["standard", "whiten"])
def test_a_feature_that_varies_by_its_last_bit_is_constant(kind, values):
    last_bit = np.nextafter(np.float32(1000.0), np.float32(2000.0))
    data = np.column_stack([values, np.where(np.arange(len(values)) % 2, 1000.0, last_bit)]).astype(np.float32)
    assert np.abs(Scaling(kind).fit(data).apply(data)[:, 4]).max() < 1e-3


def test_whitening_does_not_blow_up_rounding_noise(values):
    jitter = 1e-6 * values[:, 1].std() * np.random.default_rng(1).normal(size=len(values))
    twice = np.column_stack([values[:, 1], values[:, 1] + jitter])
    scaled = Scaling("whiten").fit(twice).apply(twice)
    difference = scaled[:, 0] - scaled[:, 1]
    assert difference.std() < 1e-2  # without a floor it would be √2
    assert scaled.std(axis=0) == pytest.approx([2**-0.5] * 2, rel=1e-2)


@pytest.mark.parametrize("kind", KINDS)
def test_images_keep_their_shape_and_type(kind, values):
    scaling = Scaling(kind).fit(values)
    image = values.reshape(20, 25, 4).astype(np.float32)
    scaled = scaling.apply(image)
    assert (scaled.shape, scaled.dtype) == ((20, 25, 4), np.float32)
    np.testing.assert_allclose(scaled.reshape(-1, 4), scaling.apply(values), rtol=1e-3, atol=1e-3)
    assert scaling.undo(scaled).dtype == np.float64


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_state_scales_the_same(kind, values):
    scaling = Scaling(kind).fit(values)
    again = Scaling.from_state(scaling.state())
    np.testing.assert_allclose(again.apply(values), scaling.apply(values), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(again.undo(values), scaling.undo(values), rtol=1e-12)


@pytest.mark.parametrize(
    "change",
    [{"kind": "log"}, {"spread": np.zeros(4)}, {"spread": np.ones(3)}, {"mixing": np.zeros((4, 4))}],
)
def test_a_broken_state_is_refused(change, values):
    with pytest.raises(ValueError):  # noqa: PT011 (which words depends on the change)
        Scaling.from_state(Scaling("whiten").fit(values).state() | change)


def test_mistakes_are_said(values):
    with pytest.raises(ValueError, match="Choose one of"):
        Scaling("log")
    with pytest.raises(ValueError, match="not fitted"):
        Scaling().apply(values)
    with pytest.raises(ValueError, match="not fitted"):
        Scaling().state()
    with pytest.raises(ValueError, match="4 features"):
        Scaling().fit(values).apply(values[:, :2])
    with pytest.raises(ValueError, match="NaN"):
        Scaling().fit(np.array([[1.0], [np.nan]]))
    with pytest.raises(ValueError, match="shape"):
        Scaling().fit(np.ones(3))


def test_moments_of_several_blocks_are_those_of_all_rows():
    rows = np.random.default_rng(0).normal(size=(2 * BLOCK_ROWS + 5, 2)).astype(np.float32) + np.float32(1000.0)
    found = moments(blocks(rows))
    assert found.n == len(rows)
    np.testing.assert_allclose(found.mean, rows.mean(axis=0, dtype=np.float64), rtol=1e-12)
    np.testing.assert_allclose(found.covariance, np.cov(rows.T.astype(np.float64), bias=True), rtol=1e-9, atol=1e-9)


# ── noise of one size ─────────────────────────────────────────────────────────────────────────────────────────────


def uneven(n=4000):
    """Mixtures of three corners in two features, whose noise is 1 + slope·t; and the corners, the shares, the slope."""
    rng = np.random.default_rng(0)
    corners, slope = np.array([[-2.0, -1.0], [3.0, -1.0], [0.0, 2.0]]), np.array([0.2, 0.1])
    shares = rng.dirichlet([0.5, 0.5, 0.5], n)
    t = shares @ corners
    noise = np.abs(rng.normal(size=(n, 30))).mean(axis=1) * (1.0 + t @ slope)
    return np.column_stack([t, noise]), corners, shares, slope


def test_how_noise_grows_is_found_and_then_it_is_of_one_size():
    values, _, _, slope = uneven()
    scaling = Scaling("noise").fit(values)
    np.testing.assert_allclose(scaling.slope, slope, atol=0.01)
    step = 1e-6 * np.append(slope / np.linalg.norm(slope), 0.0)
    across = 1e-6 * np.array([-step[1], step[0], 0.0]) / np.linalg.norm(step)  # along which the noise does not change
    moves = np.linalg.norm(scaling.apply(values + across) - scaling.apply(values), axis=1)
    in_noise = moves * (1.0 + values[:, :2] @ slope)
    assert np.ptp(in_noise) < 0.05 * in_noise.mean() < np.ptp(moves)


def test_mixtures_stay_mixtures_and_their_shares_come_back():
    values, corners, shares, _ = uneven()
    scaling = Scaling("noise").fit(values)
    words, projected = scaling.apply(values), scaling.apply(np.column_stack([corners, np.ones(3)]))
    system = np.vstack([projected.T, np.ones(3)])
    memberships = np.linalg.solve(system, np.vstack([words.T, np.ones(len(words))])).T
    assert memberships.min() > -1e-9  # still inside the triangle
    weighted = memberships * scaling.share_weights(projected)
    np.testing.assert_allclose(weighted / weighted.sum(axis=1, keepdims=True), shares, atol=1e-9)
    assert np.abs(memberships - shares).max() > 0.1  # which they are not by themselves
    np.testing.assert_allclose(scaling.undo(projected), corners, atol=1e-9)


def test_noise_survives_saving_and_float32():
    values, *_ = uneven()
    scaling = Scaling("noise").fit(values)
    again = Scaling.from_state(scaling.state())
    np.testing.assert_array_equal(again.apply(values), scaling.apply(values))
    image = values.reshape(40, 100, 3).astype(np.float32)
    assert (again.apply(image).shape, again.apply(image).dtype) == ((40, 100, 2), np.float32)
    with pytest.raises(ValueError, match="fitted on 3 features"):
        again.apply(values[:, :2])


@pytest.mark.parametrize("size", [lambda t: np.zeros(len(t)), lambda t: 5.0 * t[:, 0], lambda t: np.ones(len(t))])
def test_noise_that_vanishes_is_negative_or_does_not_grow_leaves_finite_words_in_their_order(size):
    t = np.linspace(-1.0, 1.0, 101)[:, None]
    scaling = Scaling("noise").fit(np.column_stack([t, size(t)]))
    words = scaling.apply(np.column_stack([1.5 * t, size(t)]))[:, 0]  # beyond what was fitted too
    assert np.isfinite(words).all()
    assert (np.diff(words) > 0).all()
