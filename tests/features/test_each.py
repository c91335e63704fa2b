"""Each feature gives the known answer on a small image."""

import numpy as np
import pytest
from scipy.special import ndtr

from pmlda.features import compute_features, find_features, list_features
from pmlda.features.filters import blob, gaussian_weights, slope, smooth
from pmlda.features.ripple import gabor
from tests.features.pictures import flat, noise, picture, wave

EVERY = [
    "intensity", "color", "color:lab", "sonar", "sonar:5", "ripple", "ripple:8", "sunset", "winn", "winn:signed",
    "texture", "grain", "grain:3,root", "spectral", "spectral:unit", "spectral:pca2", "spectral:unit,pca2",
    "color+texture",
]  # fmt: skip
BANDS = [(spec, n) for spec in EVERY for n in (1, 3, 5) if n == 3 or not any(s in spec for s in ("color", "sunset"))]
BANDS = [(spec, n) for spec, n in BANDS if n > 1 or "pca" not in spec]


def column(stack, name):
    return stack.values[:, :, stack.names.index(name)]


@pytest.mark.parametrize(("spec", "n_bands"), BANDS)
def test_shape_type_and_names(spec, n_bands):
    stack = compute_features(spec, picture(noise((17, 23, n_bands))))
    assert stack.values.dtype == np.float32
    assert stack.values.shape == (17, 23, len(stack.names))
    assert len(set(stack.names)) == len(stack.names)
    assert np.isfinite(stack.values).all()


@pytest.mark.parametrize(("spec", "n_bands"), BANDS)
def test_a_hole_in_a_flat_image_leaves_no_trace(spec, n_bands):
    valid = np.ones((40, 50), bool)
    valid[10:30, 15:25] = valid[:3] = False
    pixels = flat(n_bands).copy()
    pixels[~valid] = 0
    values = compute_features(spec, picture(pixels, valid)).values
    np.testing.assert_allclose(values, np.broadcast_to(values[35, 40], values.shape), rtol=1e-5, atol=1e-4)
    whole = compute_features(spec, picture(flat(n_bands))).values
    np.testing.assert_allclose(values, whole, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(("spec", "n_bands"), BANDS)
def test_holes_full_of_nan_are_holes(spec, n_bands):
    pixels = np.random.default_rng(1).random((20, 30, n_bands))
    pixels[5:9, 5:9] = np.nan
    assert np.isfinite(compute_features(spec, picture(pixels)).values).all()


@pytest.mark.parametrize(("spec", "n_bands"), BANDS)
def test_rows_at_the_border_equal_those_inside(spec, n_bands):
    row = noise((1, 60, n_bands))
    values = compute_features(spec, picture(np.repeat(row, 50, axis=0))).values
    np.testing.assert_allclose(values, np.broadcast_to(values[25], values.shape), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("spec", "n_bands"), BANDS)
def test_one_pixel_is_an_image(spec, n_bands):
    assert np.isfinite(compute_features(spec, picture(flat(n_bands, (1, 1)))).values).all()


@pytest.mark.parametrize("spec", [spec for spec in EVERY if "pca" not in spec])
def test_an_8_bit_image_and_its_shares_of_255_are_the_same(spec):
    pixels = noise((20, 30, 3))
    pixels[0, 0] = 255
    whole, shares = (compute_features(spec, picture(p)).values for p in (pixels, pixels / 255.0))
    scale = 255.0 if spec in ("intensity", "spectral") else 1.0
    np.testing.assert_allclose(whole, shares * scale, rtol=1e-4, atol=1e-3)


def test_the_list_has_every_feature_and_all_of_them_work():
    lines = list_features()
    names = [line.name for line in lines]
    assert names == ["intensity", "color", "sonar", "ripple", "sunset", "winn", "texture", "grain", "spectral"]
    for name, summary, options in lines:
        plain = compute_features(name, picture(noise((9, 9, 3))))
        assert summary
        assert "\n" not in summary
        for option in options:
            if option.isalpha() and option.islower():  # others tell how numbers are written
                other = compute_features(f"{name}:{option}", picture(noise((9, 9, 3))))
                assert not np.array_equal(other.values, plain.values)


def test_intensity_is_the_band_or_the_mean():
    assert compute_features("intensity", picture([[7, 300]])).values.ravel().tolist() == [7.0, 300.0]
    assert compute_features("intensity", picture([[[1, 2, 6]]])).values.ravel().tolist() == [3.0]


def test_color_divides_by_what_the_type_can_hold():
    eight = compute_features("color", picture(np.array([[[0, 51, 255]]], np.uint8))).values
    np.testing.assert_allclose(eight[0, 0], [0, 0.2, 1], rtol=1e-6)
    sixteen = compute_features("color", picture(np.array([[[0, 13107, 65535]]], np.uint16))).values
    np.testing.assert_allclose(sixteen[0, 0], [0, 0.2, 1], rtol=1e-6)


def test_color_divides_floats_by_the_largest_valid_number_if_above_one():
    pixels = np.array([[[0.0, 2.0, 4.0], [900.0, 900.0, 900.0]]])
    image = picture(pixels, np.array([[True, False]]))
    np.testing.assert_allclose(compute_features("color", image).values[0], [[0, 0.5, 1], [0, 0.5, 1]])
    dark = compute_features("color", picture(np.full((2, 2, 3), 0.25)))
    np.testing.assert_allclose(dark.values, 0.25)


def test_lab_of_white_grey_and_red():
    pixels = np.array([[[255, 255, 255], [119, 119, 119], [255, 0, 0]]], np.uint8)
    lab = compute_features("color:lab", picture(pixels)).values[0]
    # CIE Lab of sRGB under D65: white (100, 0, 0), 119 is about L = 50, red (53.24, 80.09, 67.20).
    np.testing.assert_allclose(lab, [[1, 0, 0], [0.5003, 0, 0], [0.5324, 0.8009, 0.6720]], atol=1e-3)


def test_sonar_of_a_flat_image():
    stack = compute_features("sonar", picture(flat(1)))
    np.testing.assert_allclose(column(stack, "mean"), 2.0, rtol=1e-6)  # 51 / 255 · 10
    assert (column(stack, "entropy") == 0.0).all()


def test_sonar_at_a_step_edge():
    pixels = np.zeros((60, 60), np.uint8)
    pixels[:, 30:] = 255
    stack = compute_features("sonar", picture(pixels))
    mean, entropy = column(stack, "mean")[30], column(stack, "entropy")[30]
    share = 10 / 21  # columns 30 to 39 of the window around column 29
    assert mean[29] == pytest.approx(10 * share, rel=1e-5)
    assert entropy[29] == pytest.approx(-share * np.log2(share) - (1 - share) * np.log2(1 - share), abs=1e-6)
    assert entropy[19] == 0.0
    assert entropy[20] > 0.0
    assert mean[40] == pytest.approx(10.0)


def test_another_window_is_another_window():
    pixels = np.zeros((60, 60), np.uint8)
    pixels[:, 30:] = 255
    entropy = column(compute_features("sonar:5", picture(pixels)), "entropy")[30]
    assert entropy[27] == 0.0
    assert entropy[28] > 0.0


def test_twelve_bits_in_sixteen_use_all_levels():
    pixels = np.random.default_rng(0).integers(0, 4096, (40, 40)).astype(np.uint16)
    assert column(compute_features("sonar", picture(pixels)), "entropy").mean() > 7.0


def test_negative_decibels_have_entropy():
    decibels = np.random.default_rng(0).uniform(-80.0, -10.0, (40, 40))
    stack = compute_features("sonar", picture(decibels))
    assert column(stack, "entropy").mean() > 7.0
    assert column(stack, "mean").min() > 0.0


@pytest.mark.parametrize("angle", [0.0, np.pi / 8, np.pi / 2, 2.0])
@pytest.mark.parametrize("wavelength", [6, 12, 24])
def test_a_wave_is_a_ripple_and_noise_is_not(wavelength, angle):
    waves = compute_features("ripple", picture(wave(120, wavelength, angle))).values[30:-30, 30:-30]
    grain = compute_features("ripple", picture(noise((120, 120)))).values
    assert 0.7 < waves.mean() < 1.3
    assert waves.min() > 4.0 * grain.mean()
    assert grain.mean() < 0.2


def test_ripples_are_relative_to_their_own_contrast():
    strong, weak = (
        compute_features("ripple", picture(wave(100, 12, 0.5, amplitude))).values.mean() for amplitude in (0.4, 0.1)
    )
    assert weak == pytest.approx(strong, rel=0.02)


def test_a_flat_image_has_no_ripples():
    assert np.abs(compute_features("ripple", picture(flat(1))).values).max() < 1e-6


def test_gabor_filters_ignore_brightness():
    for wavelength in (6.0, 12.0, 24.0):
        spectrum = gabor((500, 600), wavelength, 0.7)
        assert abs(spectrum[0, 0]) < 1e-8
        assert spectrum.max() == pytest.approx(1.0, abs=0.05)


def test_waves_of_other_lengths_need_the_option():
    pixels = picture(wave(300, 60, 0.3))
    default, asked = (
        compute_features(spec, pixels).values[100:200, 100:200].mean() for spec in ("ripple", "ripple:60")
    )
    assert asked > 0.7
    assert default < 0.3


def test_sunset_is_the_slope_down_with_red_and_blue():
    pixels = np.zeros((40, 30, 3))
    pixels[:, :, :] = np.arange(40)[:, None, None] / 100.0  # grey, one hundredth brighter each row
    pixels[:, :, 2] *= 0.5
    stack = compute_features("sunset", picture(pixels))
    gradient = column(stack, "gradient_y")
    np.testing.assert_allclose(gradient[15:25], 0.01 * (1 - 0.5 * 0.0722), rtol=1e-4)
    np.testing.assert_allclose(column(stack, "red"), pixels[:, :, 0], rtol=1e-5)
    np.testing.assert_allclose(column(stack, "blue"), pixels[:, :, 2], rtol=1e-5)
    across = compute_features("sunset", picture(pixels.transpose(1, 0, 2)))
    assert np.abs(column(across, "gradient_y")).max() < 1e-6


def test_winn_has_the_filters_of_the_paper():
    grey, colour = (compute_features("winn", picture(noise((20, 20, n)))).names for n in (1, 3))
    assert (len(grey), len(colour)) == (3 + 4 + 4, 9 + 4 + 4)


@pytest.mark.parametrize("spec", ["winn", "winn:signed"])
def test_winn_on_a_flat_image_is_its_colour_and_nothing_else(spec):
    stack = compute_features(spec, picture(flat(3)))
    lab = 100 * compute_features("color:lab", picture(flat(3))).values[0, 0]
    np.testing.assert_allclose(stack.values[5, 5, :9], np.tile(lab, 3), rtol=1e-4, atol=1e-4)
    assert np.abs(stack.values[:, :, 9:]).max() < 1e-4


def test_winn_at_a_step_edge():
    pixels = np.zeros((41, 60), np.uint8)
    pixels[:, 30:] = 255
    signed, plain = (compute_features(spec, picture(pixels)) for spec in ("winn:signed", "winn"))
    across, down = column(signed, "derivative_2_x"), column(signed, "derivative_2_y")
    assert across[20].argmax() in (29, 30)
    assert across[20].max() > 30.0  # of a step of 100, σ times the peak of a Gaussian: 100 / √2π
    assert np.abs(down).max() < 1e-3
    laplacian = column(signed, "laplacian_2")[20]
    assert laplacian[28] > 1.0  # dark side
    assert laplacian[31] < -1.0  # bright side
    for name in ("derivative_4_x", "laplacian_8"):
        np.testing.assert_allclose(column(plain, name), np.log1p(np.abs(column(signed, name))), rtol=1e-5)
    np.testing.assert_allclose(column(plain, "gaussian_4_L"), column(signed, "gaussian_4_L"))


def test_winn_sees_fifteen_by_fifteen_pixels_and_no_more():
    pixels = np.zeros((41, 41), np.uint8)
    pixels[20, 20] = 255
    values = compute_features("winn:signed", picture(pixels)).values
    touched = np.abs(values).max(axis=2) > 1e-6
    rows, columns = np.nonzero(touched)
    assert (rows.min(), rows.max(), columns.min(), columns.max()) == (13, 27, 13, 27)


def test_texture_of_a_flat_image_is_nothing():
    stack = compute_features("texture", picture(flat(1)))
    assert len(stack.names) == 12
    assert np.abs(stack.values).max() < 1e-4


def test_texture_knows_stripes_from_grain():
    stripes, slanted = (compute_features("texture", picture(wave(80, 8, angle))) for angle in (0.0, np.pi / 4))
    grain = compute_features("texture", picture(noise((80, 80))))
    assert column(stripes, "coherence_2").min() > 0.95
    assert column(slanted, "coherence_2")[20:60, 20:60].min() > 0.95
    assert column(grain, "coherence_2").mean() < 0.5
    deviation = 100 * 0.4 / np.sqrt(2)
    np.testing.assert_allclose(column(stripes, "contrast_4")[40, 20:60], deviation, rtol=0.05)
    assert (column(grain, "gradient_1") > 3.0).all()
    assert (column(grain, "blob_1") > 3.0).all()


@pytest.mark.parametrize("spec", ["grain:16", "grain:16,root"])
def test_grain_changes_in_step_with_the_share_of_a_material(spec):
    rng = np.random.default_rng(0)
    weak, strong = (0.5 + spread * rng.uniform(-1.0, 1.0, (200, 240)) for spread in (0.1, 0.4))
    both = np.where(np.arange(240) < 120, weak, strong)
    one, other, mixed = (compute_features(spec, picture(pixels)).values.mean(axis=0) for pixels in (weak, strong, both))
    # At a column j the Gaussian window has a share Φ((j − 119.5) / 16) of the right half.
    share = ndtr((np.arange(240) - 119.5) / 16.0)
    expected = (1.0 - share)[:, None] * one + share[:, None] * other
    inside = np.s_[80:160]
    gap = np.abs(other - one)[inside, 1:].mean(axis=0)
    assert (np.abs(mixed - expected)[inside, 1:] < 0.05 * gap).all()


def test_grain_of_a_flat_image_is_its_brightness():
    stack = compute_features("grain", picture(flat(1)))
    assert stack.names == ("brightness", "gradient_1", "gradient_2", "gradient_4")
    np.testing.assert_allclose(column(stack, "brightness"), 20.0, rtol=1e-5)  # 51 / 255 · 100
    assert np.abs(stack.values[:, :, 1:]).max() < 1e-4


def test_spectral_is_every_band_as_it_is():
    pixels = noise((6, 7, 5)).astype(np.float64) * 1000.0
    stack = compute_features("spectral", picture(pixels))
    assert stack.names == ("b0", "b1", "b2", "b3", "b4")
    np.testing.assert_allclose(stack.values, pixels, rtol=1e-6)


def test_unit_spectra_have_length_one_and_forget_brightness():
    pixels = np.array([[[3.0, 4.0], [30.0, 40.0], [0.0, 0.0]]])
    values = compute_features("spectral:unit", picture(pixels)).values[0]
    np.testing.assert_allclose(values, [[0.6, 0.8], [0.6, 0.8], [0, 0]], rtol=1e-6)


def test_principal_components_are_those_of_scikit_learn():
    from sklearn.decomposition import PCA

    rng = np.random.default_rng(0)
    pixels = rng.normal(size=(20, 30, 4)) @ rng.normal(size=(4, 4)) + 5.0
    valid = rng.random((20, 30)) > 0.3
    values = compute_features("spectral:pca3", picture(pixels, valid)).values[valid]
    theirs = PCA(3, svd_solver="full").fit_transform(pixels[valid])
    signs = np.sign((values * theirs).sum(axis=0))
    np.testing.assert_allclose(values * signs, theirs, rtol=1e-4, atol=1e-4)


def test_components_of_one_image_serve_another():
    rng = np.random.default_rng(0)
    one, other = (picture(rng.normal(size=(9, 9, 4)) * [1, 2, 3, 9]) for _ in range(2))
    features = find_features("spectral:pca2").fit([one])
    moved = other._replace(pixels=other.pixels + 1.0)
    gap = features.compute(moved).values - features.compute(other).values
    np.testing.assert_allclose(gap, np.broadcast_to(gap[0, 0], gap.shape), atol=1e-4)
    assert np.abs(gap).max() > 0.1  # had it been learnt anew, the shift would have gone


def test_a_brightness_range_of_one_image_serves_another():
    bright, dark = (picture(np.full((4, 4, 3), value)) for value in (200.0, 50.0))
    features = find_features("color").fit([bright])
    np.testing.assert_allclose(features.compute(dark).values, 0.25)


def test_a_range_learnt_from_bytes_serves_floats():
    features = find_features("color").fit(picture(np.full((2, 2, 3), 9, np.uint8)))
    np.testing.assert_allclose(features.compute(picture(np.full((2, 2, 3), 51.0))).values, 0.2)
    np.testing.assert_allclose(features.compute(picture(np.full((2, 2, 3), 0.2))).values, 0.2)


@pytest.mark.parametrize("radius", [None, 7])
@pytest.mark.parametrize("sigma", [1.0, 2.0, 8.0])
def test_filters_keep_flat_regions_and_derivatives_ignore_them(sigma, radius):
    plane = np.full((30, 30), 77.7, np.float32)
    np.testing.assert_allclose(smooth(plane, sigma, radius), plane, rtol=1e-6)
    for response in (blob(plane, sigma, radius), slope(plane, sigma, 0, radius), slope(plane, sigma, 1, radius)):
        assert np.abs(response).max() < 1e-5
    assert gaussian_weights(sigma, radius).sum() == pytest.approx(1.0)


def test_the_laplacian_of_a_parabola_is_its_curvature():
    y, x = np.indices((61, 61)) - 30.0
    response = blob((x**2 + 2 * y**2).astype(np.float32), 2.0)
    assert response[30, 30] == pytest.approx(4.0 * (2 + 4), rel=0.01)  # σ² (f_xx + f_yy)
