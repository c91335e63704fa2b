"""What no mixture of the topics explains is new; what is like the pixels that topics were learnt from is not."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from pmlda import segment
from pmlda.errors import InputError
from pmlda.evaluation.scenes import smooth_scene
from pmlda.families.rows import group_equal_rows
from pmlda.pipeline import novelty
from pmlda.pipeline.novelty import own_limit, score
from pmlda.recipe import Calibration, load_recipe, save_recipe
from pmlda.segmentation import Segmentation

QUICK = {"random_state": 0, "refits": 0, "documents": "windows:16"}
OBJECT = np.s_[30:36, 40:48]
SHAPE = (72, 96)


def scene(seed, n_topics=3):
    return smooth_scene(*SHAPE, n_topics, 0.04, seed)[0]


@pytest.fixture(scope="module")
def found():
    return segment(scene(0), 3, **QUICK)


def strange(picture):
    """The same with an object of a colour that none of its own make."""
    picture = picture.copy()
    picture[OBJECT] = (20, 240, 40)
    return picture


def test_the_score_is_uniform_on_pixels_of_the_training_kind_and_there_only(found):
    other = found.apply(scene(7))
    for maps, within in ((found, 0.01), (other, 0.05)):
        shares = [(maps.novelty < level).mean() for level in (0.25, 0.5, 0.75, 0.9)]
        np.testing.assert_allclose(shares, (0.25, 0.5, 0.75, 0.9), atol=within)
    assert abs((found.novelty > 0.99).mean() - 0.01) < 0.002
    assert (other.novelty > 0.99).mean() < 0.02
    new = found.apply(strange(scene(7)))
    assert new.novelty[OBJECT].min() > 0.999
    assert new.novelty.max() < 1.0


def test_an_object_in_the_picture_itself_is_found():
    novelty = segment(strange(scene(0)), 3, **QUICK).novelty
    inside = np.zeros(SHAPE, bool)
    inside[OBJECT] = True
    assert roc_auc_score(inside.ravel(), novelty.ravel()) > 0.99


def test_a_topic_that_was_left_out_is_new():
    picture, truth = smooth_scene(*SHAPE, 4, 0.04, 2)
    known = truth[..., 3] < 0.01
    novelty = segment(picture, 3, mask=known, **QUICK).apply(picture).novelty
    new = truth[..., 3] > 0.5
    assert roc_auc_score(new[known | new], novelty[known | new]) > 0.95
    assert (novelty[known] > 0.99).mean() < 0.02


def test_mixtures_that_were_never_seen_are_not_new():
    """Black, white and red in large patches: pink was nowhere, but is a mixture."""
    rng = np.random.default_rng(0)
    patches = np.kron(rng.integers(0, 3, (9, 12)), np.ones((8, 8), int))
    colours = 255.0 * np.array([[0.1, 0.1, 0.1], [0.9, 0.9, 0.9], [0.8, 0.1, 0.1]])
    noise = 6.0 * rng.normal(size=(2, *SHAPE, 3))
    found = segment((colours[patches] + noise[0]).astype(np.uint8), 3, **QUICK)
    pink = found.apply((colours[1:].mean(axis=0) + noise[1]).astype(np.uint8))
    assert (pink.novelty > 0.99).mean() < 0.02


def test_spectra_are_new_in_what_their_components_leave_out():
    rng = np.random.default_rng(0)
    at = np.arange(24)
    materials = np.stack([0.5 + 0.4 * np.sin(0.2 * (k + 1) * at + k) for k in range(3)])
    shares = rng.dirichlet([0.5, 0.5, 0.5], SHAPE)
    cube = shares @ materials + 0.01 * rng.normal(size=(*SHAPE, 24))
    found = segment(cube, 3, **QUICK)
    assert found.recipe.usual.sizes.shape == (3, 2)
    cube[OBJECT] += 0.1 * (at % 2)
    assert found.apply(cube).novelty[OBJECT].min() > 0.99


@pytest.mark.parametrize("suffix", ["zarr", "tif"])
def test_tiles_have_the_same_map_and_the_same_judgement(suffix, found, tmp_path):
    tiles = segment(scene(0), 3, **QUICK, block=64, out=tmp_path / f"maps.{suffix}")
    again = Segmentation.load(tmp_path / f"maps.{suffix}")
    # Topics are learnt from words in another order, and differ in their last digits.
    np.testing.assert_allclose(np.asarray(tiles.novelty), found.novelty, atol=1e-3)
    np.testing.assert_array_equal(np.asarray(again.novelty), np.asarray(tiles.novelty))
    np.testing.assert_array_equal(np.asarray(again.to_xarray().novelty), np.asarray(tiles.novelty))
    assert again.fit_checks == tiles.fit_checks
    assert tiles.fit_checks[0].state == found.fit_checks[0].state == "fits"
    assert tiles.fit_checks[0].figures["new"] == pytest.approx(found.fit_checks[0].figures["new"], abs=1e-3)


def test_pixels_of_the_same_colour_are_looked_at_once_and_found_as_they_would_be(found, monkeypatch):
    repeated, looked = np.tile(scene(0)[:24, :32], (3, 3, 1)), []

    def grouped(words):
        rows, which = group_equal_rows(words)
        looked.append(len(rows) / len(words))
        return rows, which

    monkeypatch.setattr(novelty, "group_equal_rows", grouped)
    once = found.apply(repeated)
    assert max(looked) < 0.5
    monkeypatch.setattr(novelty, "group_equal_rows", lambda words: (np.arange(len(words)), np.arange(len(words))))
    each = found.apply(repeated)
    np.testing.assert_allclose(once.novelty, each.novelty, atol=1e-4)
    np.testing.assert_array_equal(once.memberships, each.memberships)


def test_a_model_file_keeps_the_scale_and_an_earlier_one_tells_nothing(found, tmp_path):
    save_recipe(tmp_path / "model.pmlda", found.recipe)
    kept = load_recipe(tmp_path / "model.pmlda")
    for mine, theirs in zip(kept.usual, found.recipe.usual, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    save_recipe(tmp_path / "model.pmlda", found.recipe._replace(usual=None))
    earlier = Segmentation([], load_recipe(tmp_path / "model.pmlda"), [], [], [], found.proportions, found.scales)
    maps = earlier.apply(scene(0))
    assert maps.novelty_maps == maps.novelty_of(0) or maps.novelty_of(0) is None
    assert str(maps.verdict) == "The topics were learnt elsewhere, and were not checked against it."
    with pytest.raises(InputError, match="do not tell what is new"):
        _ = maps.novelty


@pytest.mark.parametrize("wrong", [{"tail": 0.0}, {"quantiles": np.array([2.0, 1.0])}, {"sizes": np.ones((3, 3))}])
def test_a_scale_that_is_none_is_refused(found, wrong, tmp_path):
    save_recipe(tmp_path / "model.pmlda", found.recipe._replace(usual=found.recipe.usual._replace(**wrong)))
    with pytest.raises(Exception, match=r"model\.pmlda"):
        load_recipe(tmp_path / "model.pmlda")


def test_models_without_a_distribution_of_pixels_tell_nothing(tmp_path):
    maps = segment(scene(0), 3, model="fcm", random_state=0)
    assert (maps.novelty_of(0), maps.fit_checks[0].state) == (None, "unknown")
    assert not (maps.save(tmp_path / "maps") / "novelty.tif").exists()


def test_the_score_keeps_the_order_of_what_is_far_and_never_reaches_one():
    usual = Calibration(np.ones((3, 1)), np.array([0.0, 0.0, 1.0, 2.0]), 0.01, 5.0)
    scores = score(usual, np.array([0.0, 0.5, 2.0, 3.0, 4.0, 1e30]))
    assert scores[0] == 0.0
    assert (np.diff(scores) > 0).all()
    assert scores[2] == pytest.approx(0.99)
    assert scores[-1] < 1.0


def test_own_limit_is_beyond_five_deviations_of_normal_noise():
    """Of distances in three dimensions hardly any is farther, whatever lies far beyond."""
    rng = np.random.default_rng(0)
    distances = np.linalg.norm(rng.normal(size=(100_000, 3)), axis=1)
    tail = 0.01
    for objects in (0.0, 0.2):
        mixed = np.where(rng.random(len(distances)) < objects, 100.0, distances)
        quantiles = np.quantile(mixed, -np.expm1(np.log(tail) * np.linspace(0.0, 1.0, 256)))
        limit = own_limit(Calibration(np.ones((3, 1)), quantiles, tail, 5.0))
        assert (distances > limit).mean() < 1e-3
        assert limit < 10.0
    assert own_limit(Calibration(np.ones((3, 1)), np.zeros(256), tail, 5.0)) == np.inf
