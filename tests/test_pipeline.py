"""segment() makes maps that are right on pictures whose truth is known, without seams, the same every time."""

from dataclasses import replace

import numpy as np
import pytest
from skimage.data import rocket

from pmlda import segment
from pmlda.engines.collect import match_topics
from pmlda.evaluation.scenes import COLOURS, smooth_scene
from pmlda.partitions import border_jump
from pmlda.pipeline import subsample
from pmlda.recipe import load_recipe
from pmlda.types import Topics

SIZE = 48


@pytest.fixture(scope="module")
def scene():
    return smooth_scene(SIZE, SIZE, 3, 0.04, 1)


@pytest.fixture(scope="module")
def found(scene):
    return segment(scene[0], 3, documents="slic:20")


def in_true_order(found):
    order = match_topics(Topics(COLOURS[:3], np.empty(0)), Topics(found.topics, np.empty(0)))
    return found.memberships[..., order]


def test_memberships_are_close_to_the_truth(found, scene):
    """Knowing nothing, 1/3 of each, has an error of 0.31; this noise alone costs 0.09 with the true colours."""
    error = np.sqrt(((in_true_order(found) - scene[1]) ** 2).mean())
    assert error < 0.15


def test_maps_have_the_shape_of_the_picture(found):
    assert found.memberships.shape == found.uncertainty.shape == (SIZE, SIZE, 3)
    assert found.memberships.dtype == np.float32
    assert found.labels.shape == found.documents.shape == found.transition().shape == (SIZE, SIZE)
    np.testing.assert_allclose(found.memberships.sum(axis=2), 1.0, atol=1e-5)
    assert (found.uncertainty > 0).all()
    assert (found.uncertainty < 0.5).all()
    assert found.topics.shape == (3, 3)
    assert found.proportions.shape == (len(found.scales), 3)


def test_labels_and_transitions_follow_from_memberships(found):
    maps = found.memberships
    np.testing.assert_array_equal(found.labels, maps.argmax(axis=2))
    np.testing.assert_array_equal(found.transition(0.3, 0.5), ((maps >= 0.3) & (maps <= 0.5)).any(axis=2))
    with pytest.raises(ValueError, match="low"):
        found.transition(0.7, 0.3)


def test_the_same_picture_gives_the_same_maps_whatever_the_threads(found, scene):
    again = segment(scene[0], 3, documents="slic:20", n_jobs=2)
    np.testing.assert_array_equal(again.memberships, found.memberships)


def test_topics_come_from_dark_to_bright_whatever_the_seed(scene):
    topics = [segment(scene[0], 3, documents="slic:20", random_state=seed).topics for seed in (0, 1, 2)]
    for each in topics:
        assert (np.diff(each.mean(axis=1)) > 0).all()
        np.testing.assert_allclose(each, topics[0], atol=0.1)


def gradient(height, width):
    """From one colour to another, with a little noise."""
    x = np.linspace(0.0, 1.0, width)
    colours = np.stack([1.0 - x, x], axis=1) @ np.array([[0.2, 0.3, 0.6], [0.9, 0.6, 0.3]])
    noise = 0.01 * np.random.default_rng(0).normal(size=(height, width, 3))
    return np.clip(np.tile(colours, (height, 1, 1)) + noise, 0.0, 1.0)


def seam(found, part=np.s_[:]):
    """How much larger jumps are over the borders of documents than inside them."""
    across, inside = border_jump(found.memberships[part], found.documents[part])
    return across / inside


@pytest.mark.parametrize("documents", ["windows:24", "windows:24/12"])
def test_blending_removes_seams(documents):
    """Jumps over borders are at most half as large again as those of noise; also where ways of cutting are averaged."""
    tiled, blended = (seam(segment(gradient(72, 96), 2, documents=documents, blend=blend)) for blend in (0.0, 0.5))
    assert tiled > 1.5
    assert blended < 1.5


SMOOTH = {"gradient": (lambda: gradient(200, 300), np.s_[:]), "sky": (rocket, np.s_[:110, 130:300])}


@pytest.mark.parametrize("documents", ["auto", "slic:200"])
@pytest.mark.parametrize(("picture", "part"), SMOOTH.values(), ids=SMOOTH.keys())
def test_default_settings_leave_no_seams(picture, part, documents):
    """Superpixels follow what edges there are, in noise too, so that jumps over their borders are a little larger.

    The few superpixels of the sky follow real edges: where one document leaves no seam at all, jumps over the same
    borders are 1.7 times those inside. Documents add no more than a third to that.
    """
    found = segment(picture(), documents=documents)
    if (documents, picture) == ("auto", rocket):
        seamless = replace(segment(picture(), documents="whole"), document_maps=found.document_maps)
        assert seam(found, part) < 1.33 * seam(seamless, part)
    else:
        assert seam(found, part) < 1.5


def test_pixels_without_data_stay_without(scene):
    mask = np.ones((SIZE, SIZE), bool)
    mask[10:20, 5:30] = False
    found = segment(scene[0], 3, documents="windows:16", mask=mask)
    assert np.isnan(found.memberships[~mask]).all()
    assert np.isfinite(found.memberships[mask]).all()
    assert (found.labels[~mask] == -1).all()
    assert (found.documents[~mask] == -1).all()
    assert not found.transition(0.0, 1.0)[~mask].any()


def test_several_pictures_share_topics(scene):
    found = segment([scene[0], scene[0][:30]], 3, documents="windows:16")
    assert [maps.shape for maps in found.memberships] == [(SIZE, SIZE, 3), (30, SIZE, 3)]
    assert len(found.scales) == 9 + 6
    first, second = found.memberships
    assert np.abs(first[:14] - second[:14]).mean() < 0.02


def test_overlapping_windows_are_averaged(scene, monkeypatch):
    averaged = segment(scene[0], 3, documents="windows:16/8")
    np.testing.assert_allclose(averaged.memberships.sum(axis=2), 1.0, atol=1e-5)
    plain = segment(scene[0], 3, documents="windows:16")
    error, plain_error = (np.sqrt(((in_true_order(each) - scene[1]) ** 2).mean()) for each in (averaged, plain))
    assert error < plain_error
    monkeypatch.setattr(subsample, "DOCUMENT_WORDS", 100)  # of 256 words of a window
    monkeypatch.setattr(subsample, "ALL_WORDS", 1)
    fewer = segment(scene[0], 3, documents="windows:16/8")
    assert 0.0 < np.sqrt(((fewer.memberships - averaged.memberships) ** 2).mean()) < 0.03


def test_applied_to_the_same_picture_topics_give_the_same_maps(scene):
    """Documents are described each by itself, whoever asks; a sample decides where there are more words than needed."""
    found = segment(scene[0], 3, documents="windows:24", sample=1000)
    np.testing.assert_array_equal(found.apply(scene[0]).memberships, found.memberships)


def test_topics_apply_to_another_picture_and_from_a_file(found, tmp_path):
    other, truth = smooth_scene(SIZE, 40, 3, 0.04, 2)
    direct = found.apply(other)
    error = np.sqrt(((in_true_order(direct) - truth) ** 2).mean())
    assert direct.memberships.shape == (SIZE, 40, 3)
    assert error < 0.16
    np.testing.assert_array_equal(direct.topics, found.topics)
    found.save(tmp_path / "out")
    from pmlda.pipeline.api import apply

    np.testing.assert_array_equal(
        apply(load_recipe(tmp_path / "out" / "model.pmlda"), other).memberships, direct.memberships
    )


def test_a_function_can_be_the_features(scene):
    def grey(pixels):
        return pixels.mean(axis=2)

    found = segment(scene[0], 2, features=grey, documents="whole")
    assert found.topics.shape == (2, 1)
    assert found.feature_names == ("grey",)


def test_labels_can_be_the_documents(scene):
    labels = np.arange(SIZE)[:, None] // 12 * np.ones((1, SIZE), int)
    found = segment(scene[0], 2, documents=labels)
    np.testing.assert_array_equal(found.documents, labels)
    assert len(found.scales) == 4


def test_labels_may_leave_pixels_out(scene):
    labels = np.arange(SIZE)[:, None] // 12 * np.ones((1, SIZE), int)
    labels[:, 40:] = -1
    found = segment([scene[0], scene[0]], 2, documents=[labels, labels])
    assert len(found.scales) == 8
    for maps in found.memberships:
        assert np.isnan(maps[:, 40:]).all()
        assert np.isfinite(maps[:, :40]).all()


def test_samplers_make_maps_too(scene):
    with pytest.warns(UserWarning, match="have not mixed"):
        found = segment(scene[0][:24, :24], 2, documents="windows:12", engine="gibbs", sweeps=60)
    assert found.memberships.shape == (24, 24, 2)
    assert (found.uncertainty > 0).all()


@pytest.mark.parametrize(
    ("picture", "settings", "says"),
    [
        (np.zeros((8, 8, 3)), {}, "same features"),
        (np.zeros((1, 1, 3)), {}, "same features"),
        (np.eye(8), {}, "only 2 different"),
        (np.stack([np.eye(8), np.full((8, 8), np.nan)], axis=2), {}, "band 2 of 2 holds no finite number"),
        (np.zeros((0, 5, 3)), {}, "0"),
        (np.random.default_rng(0).random((4, 4, 3)), {"documents": "windows:64"}, "window"),
        (np.random.default_rng(0).random((4, 4, 3)), {"documents": "slic:200"}, "200"),
        (np.random.default_rng(0).random((4, 4, 3)), {"features": "colour"}, "Did you mean 'color'"),
        (np.random.default_rng(0).random((4, 4, 1)), {"features": "color"}, "intensity"),
        (np.random.default_rng(0).random((4, 4, 3)), {"n_topics": 40, "documents": "whole"}, "only 16 different"),
        (np.random.default_rng(0).random((4, 4, 3)), {"topic": 3}, "Did you mean 'topics'"),
        (np.full((4, 4, 3), np.nan), {}, "data"),
        ([], {}, "no picture"),
        ("missing.png", {}, "missing.png"),
    ],
)
def test_bad_input_gets_one_clear_error(picture, settings, says):
    with pytest.raises((ValueError, OSError), match=says):
        segment(picture, **settings)


def test_a_sample_of_pixels_finds_the_same_topics_and_gives_maps_of_all(scene):
    """About 600 of the 2304 pixels of each document decide; topics differ by a few hundredths."""
    picture = np.tile(scene[0], (2, 2, 1))
    part, everything = (segment(picture, 3, documents="windows:48", sample=n, blend=0.0) for n in (2400, 0))
    assert 2000 <= part.recipe.model.document_sizes_.sum() <= 2800
    assert everything.recipe.model.document_sizes_.sum() == 4 * SIZE * SIZE
    assert np.isfinite(part.memberships).all()
    np.testing.assert_allclose(part.topics, everything.topics, atol=0.1)
    assert np.sqrt(((part.memberships - everything.memberships) ** 2).mean()) < 0.1


@pytest.mark.filterwarnings("ignore:.*have not mixed")
def test_samplers_of_pixels_that_repeat_nothing_and_other_models_see_every_pixel(scene):
    asked = {"documents": "whole", "sweeps": 30, "sample": 100}
    for settings in ({"engine": "gibbs", "design_effect": 1}, {"engine": "paper"}):
        small = segment(scene[0][:24, :24], 2, **asked | settings)
        assert small.recipe.model.document_sizes_.sum() == 24 * 24
    fuzzy = segment(scene[0][:24, :24], 2, model="fcm", documents="whole", sample=100)
    assert fuzzy.recipe.model.document_sizes_.sum() == 24 * 24
