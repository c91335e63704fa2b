"""Topics that are possible: bounds of the estimator, of features and of pictures."""

import numpy as np
import pytest
from sklearn.base import clone

from pmlda import PMLDA, Segmentation, segment
from pmlda.features import find_features
from pmlda.features.scaling import Scaling
from pmlda.pipeline.learning import topic_bounds
from pmlda.recipe import load_recipe, save_recipe
from tests.features.pictures import noise, picture

INSIDE = (np.array([0.0, -np.inf]), np.array([1.0, 0.9]))
DRIFTING = {"scale_rate": 0.02, "design_effect": 1.0}


@pytest.fixture(scope="module")
def corpus():
    """Words of three topics, two of which lie outside the bounds, in documents that mix them all."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(12), 50)
    z = np.concatenate([rng.dirichlet(rng.dirichlet(np.ones(3)) * 2.0, size=50) for _ in range(12)])
    return z @ np.array([[-0.3, 0.2], [0.5, 1.3], [1.2, 0.4]]) + 0.05 * rng.normal(size=(600, 2)), groups


def dusk(side=96, seed=0):
    """An 8-bit photograph of a sunset over dark land, with pixels of 0; no document is of one topic alone."""
    y, x = np.indices((side, side)) / side
    land = 1.0 / (1.0 + np.exp(-9.0 * (y - 0.55 + 0.05 * np.sin(6.0 * x))))
    sun = np.exp(-((x - 0.5) ** 2 + (y - 0.35) ** 2) / 0.04)
    sky = np.stack([0.6 + 0.3 * y, np.full_like(y, 0.5), 0.6 - 0.3 * y], axis=2)
    light = (1.0 - land)[:, :, None] * (sky + sun[:, :, None] * [0.4, 0.6, 0.5])
    light += 0.01 * np.random.default_rng(seed).normal(size=light.shape)
    return np.rint(255.0 * np.clip(light, 0.0, 1.0)).astype(np.uint8)


def is_inside(means, bounds=INSIDE):
    return bool((means >= bounds[0]).all() and (means <= bounds[1]).all())


@pytest.mark.filterwarnings("ignore:.*(have not mixed|too few)")
@pytest.mark.parametrize("covariance", ["isotropic", "diagonal", "full"])
@pytest.mark.parametrize("engine", ["variational", "gibbs", "paper"])
def test_topics_stay_between_their_bounds(corpus, engine, covariance):
    X, groups = corpus
    n_sweeps = 1000 if engine == "variational" else 30
    options = {"engine": engine, "covariance": covariance, "n_sweeps": n_sweeps, "n_jobs": 1, "random_state": 0}
    free, bounded = (PMLDA(3, topic_bounds=bounds, **options).fit(X, groups=groups) for bounds in (None, INSIDE))
    assert not is_inside(free.topic_means_)
    assert is_inside(bounded.topic_means_)
    if engine == "variational":
        assert is_inside(bounded.refits_.means)
        assert (np.diff(bounded.bound_) >= -1e-9 * np.abs(bounded.bound_[1:])).all()
        assert (bounded.topic_means_ == INSIDE[1]).any()
    else:
        assert is_inside(bounded.draws_.means)
        assert np.isfinite(bounded.log_joint_).all()


def test_bounds_that_are_never_reached_change_no_bit(corpus):
    X, groups = corpus
    free, wide = (PMLDA(3, topic_bounds=b, random_state=0).fit(X, groups=groups) for b in (None, (-99.0, 99.0)))
    np.testing.assert_array_equal(free.topic_means_, wide.topic_means_)
    np.testing.assert_array_equal(free.memberships_, wide.memberships_)


def test_streams_stay_between_the_bounds(corpus):
    X, groups = corpus
    model = PMLDA(3, topic_bounds=INSIDE, random_state=0)
    for shift in (0.0, 0.1, -0.1):
        assert is_inside(model.partial_fit(X + shift, groups=groups).topic_means_)


def test_bounds_are_cloned_saved_and_loaded(corpus, tmp_path):
    X, groups = corpus
    model = PMLDA(3, topic_bounds=INSIDE, random_state=0, n_refits=0).fit(X, groups=groups)
    again = clone(model).fit(X, groups=groups)
    np.testing.assert_array_equal(model.topic_means_, again.topic_means_)
    model.save(tmp_path / "model.pmlda")
    loaded = PMLDA.load(tmp_path / "model.pmlda")
    np.testing.assert_array_equal(loaded.topic_bounds, INSIDE)
    np.testing.assert_array_equal(loaded.family_.means.box, INSIDE)
    np.testing.assert_array_equal(loaded.transform(X, groups=groups), model.transform(X, groups=groups))
    np.testing.assert_array_equal(clone(loaded).fit(X, groups=groups).topic_means_, model.topic_means_)


def test_checkpoints_belong_to_their_bounds(corpus, tmp_path):
    X, groups = corpus
    options = {"engine": "paper", "n_sweeps": 8, "random_state": 0}
    model = PMLDA(3, topic_bounds=INSIDE, **options).fit(X, groups=groups, checkpoint=tmp_path)
    again = PMLDA(3, topic_bounds=INSIDE, **options).fit(X, groups=groups, checkpoint=tmp_path)
    np.testing.assert_array_equal(model.topic_means_, again.topic_means_)
    with pytest.raises(ValueError, match="topic_bounds"):
        PMLDA(3, topic_bounds=(0.0, 1.0), **options).fit(X, groups=groups, checkpoint=tmp_path)


@pytest.mark.parametrize("init", ["prior", "extremes", "given"])
def test_every_start_is_between_the_bounds(corpus, init):
    X, groups = corpus
    start = np.array([[0.0, 0.1], [0.5, 0.9], [1.0, 0.2]]) if init == "given" else init
    model = PMLDA(3, topic_bounds=INSIDE, init=start, engine="paper", n_sweeps=4, random_state=0, n_jobs=1)
    assert is_inside(model.fit(X, groups=groups).draws_.means)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"topic_bounds": 3.0}, r"topic_bounds=3\.0: give a pair"),
        ({"topic_bounds": (1.0, 0.0)}, "leave nothing between 1 and 0"),
        ({"topic_bounds": (np.zeros(3), 1.0)}, r"lower bound of topic means has shape \(3,\)"),
        ({"topic_bounds": (0.0, 1.0), "covariance": "topic-full"}, "cannot be bounded"),
        ({"topic_bounds": (0.0, 1.0), "family": "bernoulli"}, "cannot be bounded"),
        ({"topic_bounds": INSIDE, "init": np.full((3, 2), 1.1)}, r"init has 6 value\(s\) outside the bounds"),
        ({"topic_bounds": INSIDE, "fixed": {"topics": -np.eye(3, 2)}}, r"fixed\['topics'\] has 1 value\(s\) outside"),
    ],
)
def test_bounds_that_do_not_fit_get_one_clear_error(corpus, settings, message):
    X = np.abs(corpus[0]) > 0.5 if settings.get("family") else corpus[0]
    with pytest.raises(ValueError, match=message):
        PMLDA(3, **settings).fit(X, groups=corpus[1])


def test_features_know_what_is_possible():
    bytes_, floats = picture(noise((24, 25, 3))), picture(noise((24, 25, 3)) / 255.0)
    grey, signed = picture(noise((24, 25)).astype(np.uint16)), picture(noise((24, 25)).astype(np.int16))
    infinity = np.inf
    for spec, image, low, high in [
        ("color", bytes_, [0.0] * 3, [1.0] * 3),
        ("color", floats, [-infinity] * 3, [infinity] * 3),
        ("color:lab", floats, [0.0, -infinity, -infinity], [1.0, infinity, infinity]),
        ("intensity", bytes_, [0.0], [255.0]),
        ("intensity", grey, [0.0], [65535.0]),
        ("intensity", signed, [-32768.0], [32767.0]),
        ("intensity", floats, [-infinity], [infinity]),
        ("sonar", bytes_, [0.0, 0.0], [10.0, 8.0]),
        ("sonar:11", grey, [-infinity, 0.0], [infinity, np.log2(121)]),
        ("sunset", bytes_, [-infinity, 0.0, 0.0], [infinity, 1.0, 1.0]),
        ("ripple+intensity", bytes_, [0.0, 0.0], [infinity, 255.0]),
        ("grain", bytes_, [-infinity, 0.0, 0.0, 0.0], [infinity] * 4),
        ("spectral:raw", bytes_, [-infinity] * 3, [infinity] * 3),
    ]:
        np.testing.assert_array_equal(find_features(spec).fit([image]).possible, [low, high], spec)
    mixed = find_features("color").fit([bytes_, floats])
    assert np.isinf(mixed.possible).all()


@pytest.mark.parametrize("n_bands", [1, 3])
@pytest.mark.parametrize(
    "spec", ["color", "color:lab", "intensity", "sonar:5", "ripple", "sunset", "winn", "winn:signed"]
)
def test_no_value_of_a_feature_is_impossible(spec, n_bands):
    if n_bands == 1 and spec in ("color", "color:lab", "sunset"):
        pytest.skip("takes three bands")
    shape = (30, 31, n_bands)
    for pixels in (noise(shape), 255 * (noise(shape) > 127), np.random.default_rng(0).normal(size=shape)):
        image = picture(pixels if pixels.dtype.kind == "f" else pixels.astype(np.uint8))
        features = find_features(f"{spec}+texture+grain:2").fit([image])
        low, high = features.possible
        values = features.compute(image).values
        assert (values >= low).all()
        assert (values <= high * (1 + 1e-6)).all()


def test_scaled_bounds_are_inside_when_scaling_is_undone():
    rng = np.random.default_rng(0)
    limits = np.array([[0.0, -np.inf, 0.1], [1.0, 8.0, np.inf]])
    for _ in range(200):
        scaling = Scaling("standard").fit(rng.random((9, 3)) * 10.0 ** rng.uniform(-3, 3, 3))
        back = scaling.undo(scaling.apply_limits(limits))
        np.testing.assert_allclose(back, limits, rtol=1e-9, atol=1e-12)
        assert (back[0] >= limits[0]).all()
        assert (back[1] <= limits[1]).all()


def test_a_box_stays_one_only_if_features_are_scaled_one_by_one():
    features = find_features("color").fit([picture(noise((24, 25, 3)))])
    values = np.random.default_rng(0).random((50, 3))
    low, high = topic_bounds(features, Scaling("none").fit(values))
    assert (low.tolist(), high.tolist()) == ([0.0] * 3, [1.0] * 3)
    assert topic_bounds(features, Scaling("standard").fit(values)) is not None
    assert topic_bounds(features, Scaling("whiten").fit(values)) is None


def test_topics_of_a_photograph_are_colours_and_were_not_without_bounds(tmp_path):
    free, bounded = (segment(dusk(), 3, bounds=bounds, refits=3, **DRIFTING) for bounds in ("none", "auto"))
    assert not is_inside(free.topics, (0.0, 1.0))
    assert free.recipe.model.topic_bounds is None
    assert is_inside(bounded.topics, (0.0, 1.0))
    recipe = bounded.recipe
    assert is_inside(recipe.scaling.undo(recipe.model.refits_.means.reshape(-1, 3)), (0.0, 1.0))
    save_recipe(tmp_path / "model.pmlda", recipe)
    again = load_recipe(tmp_path / "model.pmlda")
    np.testing.assert_array_equal(again.topics, bounded.topics)
    np.testing.assert_array_equal(again.model.topic_bounds, recipe.model.topic_bounds)
    np.testing.assert_array_equal(again.features.state()["0.possible"], [0.0, 1.0])


@pytest.mark.filterwarnings("ignore:.*(have not mixed|too few)")
@pytest.mark.parametrize("engine", ["variational", "gibbs"])
def test_topics_learnt_in_tiles_are_colours_too(tmp_path, engine):
    pytest.importorskip("zarr")
    sweeps = 1000 if engine == "variational" else 12
    asked = {"engine": engine, "block": 64, "documents": "windows:16", "refits": 0, "sweeps": sweeps}
    segment(dusk(), 3, out=tmp_path / "maps.zarr", **asked, **DRIFTING)
    found = Segmentation.load(tmp_path / "maps.zarr")
    assert is_inside(found.topics, (0.0, 1.0))
    assert found.recipe.model.topic_bounds is not None
    np.testing.assert_array_equal(found.apply(dusk(64, seed=1)).topics, found.topics)


def test_floats_and_whitened_features_have_no_bounds():
    for image, settings in ((dusk() / 255.0, {}), (dusk(), {"scaling": "whiten"})):
        assert segment(image, 2, refits=0, **settings).recipe.model.topic_bounds is None


def test_other_models_take_no_bounds():
    assert segment(dusk(48), 2, model="kmeans").topics.shape == (2, 3)
