"""Finding, stacking, functions, errors, and state."""

import numpy as np
import pytest

from pmlda.features import Features, compute_features, find_features
from pmlda.storage import archive as files
from tests.features.pictures import flat, noise, picture


def brightness(pixels):
    return pixels.mean(axis=2)


def test_a_sum_is_its_parts_side_by_side():
    image = picture(noise((12, 15, 3)))
    both, color, texture = (compute_features(spec, image) for spec in ("color+texture", "color", "texture"))
    np.testing.assert_array_equal(both.values, np.concatenate([color.values, texture.values], axis=2))
    assert both.names == color.names + texture.names


def test_a_list_mixes_names_sums_and_functions():
    stack = compute_features(["color:lab + intensity", brightness], picture(noise((12, 15, 3))))
    assert stack.names == ("L", "a", "b", "intensity", "brightness")
    np.testing.assert_allclose(stack.values[:, :, 3], stack.values[:, :, 4])


def test_names_stay_distinct():
    names = compute_features("color+sunset", picture(noise((9, 9, 3)))).names
    assert names == ("red", "green", "blue", "gradient_y", "red (2)", "blue (2)")


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("colour", ["'colour'", "Did you mean 'color'?", "intensity", "spectral"]),
        ("Sonar", ["Did you mean 'sonar'?"]),
        ("color+textur", ["'textur'", "Did you mean 'texture'?"]),
        ("qqqq", ["'qqqq'", "Choose among"]),
        ("", ["not known"]),
        ("color:hsv", ["'color:hsv'", "'color:lab'"]),
        ("color:", ["option must follow"]),
        ("texture:3", ["texture has no options"]),
        ("sonar:4", ["odd"]),
        ("sonar:-5", ["odd"]),
        ("sonar:wide", ["odd"]),
        ("grain:0", ["'grain:12'"]),
        ("grain:12,15", ["'grain:12'"]),
        ("grain:12,squares", ["'grain:12,root'"]),
        ("ripple:1", ["wavelengths"]),
        ("ripple:8,x", ["wavelengths"]),
        ("winn:abs", ["'winn:signed'"]),
        ("spectral:pca", ["'spectral:pca5'"]),
        ("spectral:pca0", ["'spectral:pca5'"]),
        ("spectral:pca2,pca3", ["'spectral:pca5'"]),
        ([], ["give a name"]),
        (3, ["give a name"]),
        (None, ["give a name"]),
    ],
)
def test_what_is_not_known_is_said_with_what_to_do(spec, words):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (the words are checked below)
        find_features(spec)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("spec", "n_bands", "words"),
    [
        ("color", 1, ["has 1", "3 bands", "use features='intensity'"]),
        ("color", 2, ["has 2", "'spectral'"]),
        ("color:lab", 5, ["has 5", "'spectral'"]),
        ("sunset", 1, ["has 1", "use features='intensity'"]),
        ("spectral:pca4", 3, ["4 components", "3 bands", "'pca3'"]),
    ],
)
def test_wrong_bands_are_said_with_what_to_use(spec, n_bands, words):
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        compute_features(spec, picture(flat(n_bands), name="reef.tif"))
    for word in [*words, "reef.tif"]:
        assert word in str(caught.value)


def test_an_image_without_data_has_no_features():
    with pytest.raises(ValueError, match="no valid pixel"):
        compute_features("intensity", picture(flat(1), np.zeros((40, 50), bool)))
    with pytest.raises(ValueError, match="no valid pixel"):
        compute_features("intensity", picture(np.full((3, 3), np.nan)))


def test_what_is_no_image_is_refused():
    with pytest.raises(ValueError, match="complex"):
        compute_features("intensity", picture(np.ones((3, 3), complex)))
    with pytest.raises(ValueError, match="mask"):
        compute_features("intensity", picture(np.ones((3, 3)), np.ones((2, 3), bool)))


def test_numbers_too_large_for_float32_are_refused():
    with pytest.raises(ValueError, match="too large"), np.errstate(over="ignore"):
        compute_features("spectral", picture(np.full((3, 3, 4), 1e300)))


def test_a_function_may_return_one_or_several_values():
    image = picture(noise((6, 7, 3)))
    assert compute_features(brightness, image).names == ("brightness",)
    stack = compute_features(lambda pixels: pixels[:, :, :2] > 100, image)
    assert stack.names == ("<lambda>_1", "<lambda>_2")
    assert stack.values.dtype == np.float32


@pytest.mark.parametrize(
    ("function", "match"),
    [
        (lambda pixels: pixels[1:], r"shape \(5, 7, 3\).*\(6, 7\)"),
        (lambda pixels: pixels.mean(), r"shape \(\)"),
        (lambda pixels: pixels[:, :, :0], r"shape \(6, 7, 0\)"),
        (lambda pixels: pixels[..., None], "shape"),
        (lambda pixels: pixels[:, :, 0] * 1j, "real numbers"),
        (lambda pixels: pixels.astype(str), "real numbers"),
        (lambda pixels: np.where(pixels > 0, np.nan, 0.0), "finite"),
        (lambda pixels: np.full(pixels.shape, 1e200), "too large"),
    ],
)
def test_functions_are_checked(function, match):
    with pytest.raises(ValueError, match=match):
        compute_features(function, picture(np.full((6, 7, 3), 9, np.uint8)))


def test_a_function_sees_no_holes_and_may_fail_there():
    seen = []

    def spy(pixels):
        seen.append(pixels.copy())
        out = pixels[:, :, 0].astype(float)
        out[0, 0] = np.nan
        pixels[:] = 0  # its own copy
        return out

    valid = np.ones((4, 4), bool)
    valid[0, 0] = False
    pixels = np.full((4, 4, 1), 8.0)
    pixels[0, 0] = np.nan
    stack = compute_features([spy, "intensity"], picture(pixels, valid))
    assert len(seen) == 1
    assert (seen[0] == 8.0).all()
    assert (stack.values == 8.0).all()


def test_features_must_be_fitted_first():
    features = find_features("color")
    for use in (lambda: features.names, features.state, lambda: features.compute(picture(flat(3)))):
        with pytest.raises(ValueError, match="fit"):
            use()
    with pytest.raises(ValueError, match="no images"):
        features.fit([])


def test_found_features_are_returned_as_they_are():
    features = find_features("color")
    assert find_features(features) is features


def test_images_of_another_kind_are_refused():
    features = find_features("spectral").fit(picture(flat(4)))
    with pytest.raises(ValueError, match=r"5 bands.*4"):
        features.compute(picture(flat(5)))
    with pytest.raises(ValueError, match="different numbers of bands"):
        find_features("spectral").fit([picture(flat(4)), picture(flat(5))])
    with pytest.raises(ValueError, match="same bands"):
        find_features("winn").fit(picture(flat(3))).compute(picture(flat(1)))


@pytest.mark.parametrize("spec", ["color+winn:signed", "sonar:5+ripple:8,16", "spectral:unit,pca2+sunset+texture"])
def test_a_saved_state_gives_the_same_features(spec, tmp_path):
    rng = np.random.default_rng(0)
    one, other = (picture(scale * rng.random((12, 13, 3))) for scale in (40.0, 9.0))
    features = find_features(spec).fit([one])
    files.save(tmp_path / "features.pmlda", {"state": features.state()})
    again = Features.from_state(files.load(tmp_path / "features.pmlda")["state"])
    assert again.names == features.names
    assert again.spec == features.spec
    np.testing.assert_array_equal(again.compute(other).values, features.compute(other).values)
    fresh = compute_features(spec, other).values
    assert np.abs(fresh - features.compute(other).values).max() > 1e-3  # the state matters


def test_a_state_names_the_functions_that_it_cannot_hold():
    image = picture(noise((6, 7, 3)))
    features = find_features(["color", brightness]).fit([image])
    state = features.state()
    assert state["functions"] == ["brightness"]
    with pytest.raises(ValueError, match="not saved: brightness"):
        Features.from_state(state)
    again = Features.from_state(state, functions={"brightness": brightness})
    np.testing.assert_array_equal(again.compute(image).values, features.compute(image).values)


@pytest.mark.parametrize(
    "change",
    [
        {"0.range": np.array([0.0, 0.0, 1.0])},
        {"0.range": np.array([0.0])},
        {"0.range": np.array([0.0, np.nan, 1.0])},
        {"1.axes": np.zeros((3, 3))},
        {"spec": ["color+color", "spectral:pca2"]},
        {"spec": ["nothing", "spectral:pca2"]},
    ],
)
def test_a_broken_state_is_refused(change):
    state = find_features("color+spectral:pca2").fit(picture(noise((6, 7, 3)))).state()
    Features.from_state(state)
    with pytest.raises(ValueError):  # noqa: PT011 (which words depends on the change)
        Features.from_state(state | change)
