"""Spectra: forms, axes, what is left out, and the way back to bands and shares."""

import numpy as np
import pytest
from sklearn.decomposition import PCA

from pmlda.evaluation.experiments.endmembers import constrained_least_squares
from pmlda.evaluation.experiments.spectra import KINDS, made_up_cube
from pmlda.features import compute_features, find_features
from pmlda.features.automatic import complete_features, complete_settings
from pmlda.features.spectral import FORMS, to_form
from pmlda.pipeline.shares import to_shares
from pmlda.settings import Settings
from tests.features.pictures import picture


def mixtures(shape=(12, 15), n_bands=10, light=(0.2, 5.0), seed=0):
    """(H, W, B) mixtures of three materials of length one in varying light, the materials, and (N, 3) their shares."""
    rng = np.random.default_rng(seed)
    materials = to_form(rng.uniform(0.1, 1.0, (3, n_bands)), "unit")
    shares = rng.dirichlet([0.7, 0.7, 0.7], shape)
    pixels = rng.uniform(*light, (*shape, 1)) * (shares @ materials)
    return pixels, materials, shares.reshape(-1, 3)


def fitted(spec, pixels):
    features = find_features(spec).fit(picture(pixels))
    return features, features.compute(picture(pixels)).values.reshape(-1, len(features.names)).astype(float)


# ── forms ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_on_the_plane_shares_of_materials_of_length_one_are_recovered_whatever_the_light():
    pixels, materials, shares = mixtures()
    features, values = fitted("spectral:auto,pca2", pixels)
    corners = features.compute(picture(materials[None])).values[0].astype(float)
    weights = constrained_least_squares(values, corners)
    np.testing.assert_allclose(to_shares(weights, features.share_weights(corners)), shares, atol=1e-4)
    assert np.abs(weights - shares).max() > 0.01  # which weights on the plane are not


def test_scaled_to_length_one_mixtures_leave_the_straight_line_and_on_the_plane_they_stay_on_it():
    spectra = np.array([[0.8, 0.2], [0.2, 0.8]])
    # (0.8, 0.2) of length one is (0.970, 0.243), to which the nearest shares that sum to one are 0.8638 and 0.1362.
    bent = constrained_least_squares(to_form(spectra, "unit"), np.eye(2))
    np.testing.assert_allclose(bent[0], [0.8638, 0.1362], atol=1e-4)
    corners = to_form(np.eye(2), "plane")
    straight = constrained_least_squares(to_form(spectra, "plane"), corners)
    np.testing.assert_allclose(to_shares(straight, np.linalg.norm(corners, axis=1)), spectra, atol=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_a_spectrum_of_zeros_stays_one(form):
    spectra = np.vstack([np.zeros(4), np.ones(4), np.arange(4.0)])
    assert np.isfinite(to_form(spectra, form)).all()
    assert (to_form(spectra, form)[0] == 0).all()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("kind", "form"), [("shade", "plane"), ("variety", "plane"), ("dark water", "raw")])
def test_light_is_taken_out_unless_that_would_make_noise_of_a_dark_material(kind, form, seed):
    features = find_features("spectral:auto,pca2").fit(picture(made_up_cube(40, kind, seed).pixels))
    assert FORMS[int(features.state()["0.form"][0])] == form


def test_light_is_taken_out_of_noisy_spectra_too_if_it_varies_more_than_they_are_noisy():
    pixels, *_ = mixtures((60, 60), n_bands=60, light=(0.5, 1.5))
    pixels += 0.008 * np.random.default_rng(1).normal(size=pixels.shape)
    plane, raw = (find_features(f"spectral:{form},pca2,noise").fit(picture(pixels)) for form in ("plane", "raw"))
    outside = [(each.compute(picture(pixels)).values.astype(float) ** 2).sum(axis=(0, 1)) for each in (plane, raw)]
    held = [each[:2].sum() / each.sum() for each in outside]
    assert held[1] < held[0] < 0.95  # what is asked for is there
    features = find_features("spectral:auto,pca2").fit(picture(pixels))
    assert FORMS[int(features.state()["0.form"][0])] == "plane"


def test_a_picture_half_of_which_is_black_keeps_its_light():
    pixels, *_ = mixtures()
    pixels[:, ::2] = 0.0
    features = find_features("spectral:auto,pca2").fit(picture(pixels))
    assert FORMS[int(features.state()["0.form"][0])] == "raw"


def test_a_pixel_without_light_is_like_the_mean_and_changes_no_axis():
    pixels, *_ = mixtures((30, 30))
    valid = np.ones((30, 30), bool)
    valid[4, 5] = False
    masked = find_features("spectral:auto,pca2,noise").fit(picture(pixels, valid))
    pixels[4, 5] = -1.0
    features = find_features("spectral:auto,pca2,noise").fit(picture(pixels))
    np.testing.assert_allclose(features.state()["0.axes"], masked.state()["0.axes"], atol=1e-9)
    np.testing.assert_array_equal(features.compute(picture(pixels)).values[4, 5], 0.0)


def test_a_plane_without_any_light_is_refused():
    with pytest.raises(ValueError, match="need light"):
        find_features("spectral:plane,pca2").fit(picture(np.zeros((3, 3, 4))))


# ── what is left out ──────────────────────────────────────────────────────────────────────────────────────────────


def test_noise_is_the_length_of_what_the_components_leave_out():
    pixels, *_ = mixtures()
    features, values = fitted("spectral:raw,pca2,noise", pixels)
    assert features.names == ("component_1", "component_2", "left_out")
    spectra = pixels.reshape(-1, 10)
    axes = PCA(2, svd_solver="full").fit(spectra)
    left = np.linalg.norm(spectra - axes.inverse_transform(axes.transform(spectra)), axis=1)
    np.testing.assert_allclose(values[:, 2], left, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("spec", ["spectral:noise", "spectral:auto", "spectral:plane,noise"])
def test_what_needs_a_number_of_components_says_so(spec):
    with pytest.raises(ValueError, match="needs a number of components"):
        find_features(spec)


# ── the way back ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("spec", ["spectral:raw,pca3", "spectral:plane,pca2", "spectral:auto,pca2,noise"])
def test_components_are_undone_to_spectra_with_the_names_of_the_bands(spec):
    pixels, *_ = mixtures()
    features, values = fitted(spec, pixels)
    spectra = pixels.reshape(-1, 10)
    back = features.undo(values)
    np.testing.assert_allclose(to_form(back, "unit"), to_form(spectra, "unit"), atol=1e-3)
    assert features.undone_names == tuple(f"b{i}" for i in range(10))
    lengths = np.linalg.norm(spectra, axis=1)
    expected = lengths if "raw" in spec else lengths.mean()
    np.testing.assert_allclose(np.linalg.norm(back, axis=1), expected, rtol=1e-3)


def test_what_was_learnt_survives_saving():
    pixels, *_ = mixtures()
    features, values = fitted("spectral:auto,pca2,noise", pixels)
    again = type(features).from_state(features.state())
    np.testing.assert_array_equal(again.undo(values), features.undo(values))
    np.testing.assert_array_equal(again.share_weights(values), features.share_weights(values))
    assert again.undone_names == features.undone_names


@pytest.mark.parametrize("spec", ["spectral", "spectral:unit", "spectral:pca2", "spectral:unit,pca2"])
def test_states_of_earlier_versions_compute_what_they_did(spec):
    pixels, *_ = mixtures()
    features, values = fitted(spec, pixels)
    new = ("bands", "0.form", "0.length")
    earlier = {name: value for name, value in features.state().items() if name not in new}
    again = type(features).from_state(earlier)
    np.testing.assert_array_equal(again.compute(picture(pixels)).values.reshape(values.shape), values)
    assert again.undone_names == tuple(f"band_{i + 1}" for i in range(10))


@pytest.mark.parametrize("change", [{"0.form": np.array([7.0])}, {"0.length": np.zeros(1)}, {"0.form": np.zeros(2)}])
def test_broken_states_are_refused(change):
    state = find_features("spectral:auto,pca2").fit(picture(mixtures()[0])).state()
    with pytest.raises(ValueError):  # noqa: PT011 (which words depends on the change)
        find_features("spectral").from_state(state | change)


# ── auto ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("spec", "n_bands", "topics", "meant"),
    [
        ("auto", 1, 3, "intensity"),
        ("auto", 3, 3, "color"),
        ("auto", 2, 3, "spectral:raw"),
        ("auto", 2, 2, "spectral:raw"),
        ("auto", 4, 3, "spectral:auto,pca2,noise"),
        ("auto", 4, 5, "spectral:raw"),
        ("auto", 5, 1, "spectral:auto,pca1,noise"),
        ("spectral", 156, 4, "spectral:auto,pca3,noise"),
        ("spectral:plane", 156, 4, "spectral:plane,pca3,noise"),
        ("spectral:unit", 156, 4, "spectral:unit"),
        ("spectral:pca5", 156, 4, "spectral:pca5"),
        ("color+spectral", 3, 3, "color+spectral"),
    ],
)
def test_spectra_have_one_component_less_than_topics_if_there_are_more_bands_than_topics(spec, n_bands, topics, meant):
    assert complete_features(spec, n_bands, Settings(topics=topics)) == meant


@pytest.mark.parametrize(
    ("spec", "scaling", "covariance", "rate"),
    [
        ("spectral:auto,pca2,noise", "noise", "isotropic", 4.0),
        ("spectral:unit", "none", "isotropic", 4.0),
        ("spectral:raw", "standard", "full", 0.5),
        ("color", "standard", "full", 0.5),
        ("color+spectral:pca2", "standard", "full", 0.5),
    ],
)
def test_settings_left_at_auto_follow_the_features_and_others_stay(spec, scaling, covariance, rate):
    features = find_features(spec)
    found = complete_settings(Settings(), features)
    assert (found.scaling, found.covariance, found.scale_rate) == (scaling, covariance, rate)
    asked = Settings(scaling="whiten", covariance="diagonal", scale_rate=7.0)
    assert complete_settings(asked, features) == asked


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_of_any_type_give_the_same_components(kind):
    pixels = np.round(made_up_cube(20, kind, 0).pixels * 5000.0)
    values = [
        compute_features("spectral:auto,pca2,noise", picture(pixels.astype(t))).values for t in (np.uint16, np.float64)
    ]
    np.testing.assert_allclose(*values, rtol=1e-5, atol=1e-5)
