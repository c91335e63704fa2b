"""Families of topic distributions from segment() and the command: features, scaling, files, tiles, and bad pictures."""

import json

import numpy as np
import pytest
import tifffile
from typer.testing import CliRunner

from pmlda import resume, segment
from pmlda.cli import app
from pmlda.errors import PmldaError
from pmlda.evaluation.scenes import photon_counts, smooth_scene
from pmlda.families import find_family
from pmlda.metrics import membership_rmse
from pmlda.pipeline.family import choose_family
from pmlda.recipe import load_recipe, model_facts
from pmlda.segmentation import Segmentation
from pmlda.settings import make_settings
from tests.stops import StoppedError, stop_after, watched

# A few sweeps from one start are enough for what is tested here.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
QUICK = {"documents": "windows:12", "refits": 0, "sweeps": 12, "n_init": 1}
RATES = np.array([[24.0, 3.0, 9.0], [2.0, 18.0, 9.0]])
SIDE = 24


def picture_of(family: str, seed: int = 0):
    """A small picture of words that mix as the family says, and the memberships (H, W, 2)."""
    truth = smooth_scene(SIDE, SIDE, 2, 0.0, seed)[1].astype(np.float64)
    rng = np.random.default_rng(seed)
    if family == "poisson":
        return rng.poisson(np.exp(truth @ np.log(RATES))).astype(np.uint16), truth
    if family == "gamma":
        return rng.gamma(4.0, 1.0 / (truth @ (4.0 / RATES))), truth
    if family == "bernoulli":
        eta = truth @ np.array([[3.0, -3.0] * 6, [-3.0, 3.0] * 6])
        return (rng.random(eta.shape) < 1.0 / (1.0 + np.exp(-eta))).astype(np.uint8), truth
    theta = np.array([[0.7, 0.2, 0.05, 0.05], [0.05, 0.05, 0.2, 0.7]])
    eta = truth @ np.log(theta)
    return np.argmax(eta + rng.gumbel(size=eta.shape), axis=2).astype(np.uint8), truth


def correlation(found, truth) -> float:
    """The larger of both, since topics may be the other way round."""
    return max(float(np.corrcoef(found[..., 0].ravel(), truth[..., k].ravel())[0, 1]) for k in (0, 1))


@pytest.mark.parametrize(
    ("family", "features", "least"),
    [
        ("poisson", "spectral:raw", 0.8),
        ("gamma", "spectral:raw", 0.7),
        ("bernoulli", "spectral:raw", 0.8),
        ("categorical", "intensity", 0.4),
    ],
)
def test_every_family_finds_its_own_topics_in_pixels_as_they_are(family, features, least, tmp_path):
    picture, truth = picture_of(family)
    more = {"looks": 4} if family == "gamma" else {}
    found = segment(picture, 2, family=family, out=tmp_path / "maps", **more, **QUICK)
    assert found.recipe.features.spec == features
    assert found.recipe.scaling.kind == "none"
    assert found.recipe.model.family_.name == family
    assert correlation(found.memberships, truth) > least
    # The file keeps the family, with its settings, and so do the model and what is read again.
    again = Segmentation.load(tmp_path / "maps")
    assert again.settings.family == family == json.loads((tmp_path / "maps/run.json").read_text())["settings"]["family"]
    np.testing.assert_array_equal(again.topics, found.topics)
    assert len(again.feature_names) == again.topics.shape[1]
    facts = model_facts(tmp_path / "maps/model.pmlda")
    assert facts["family"].lower() == family
    assert len(facts["features"]) == again.topics.shape[1]
    # Other pictures follow from the same topics, also with the recipe from the file.
    here = found.apply(picture[: SIDE // 2])
    there = load_recipe(tmp_path / "maps/model.pmlda")
    np.testing.assert_array_equal(there.model.topic_means_, found.recipe.model.topic_means_)
    assert here.memberships.shape == (SIDE // 2, SIDE, 2)
    assert np.isfinite(here.memberships).all()


def test_looks_are_the_shape_of_gamma():
    assert choose_family(make_settings({"family": "gamma", "looks": 4})).shape == 4.0
    assert choose_family(make_settings({})) == "gaussian"
    picture, _ = picture_of("gamma")
    one, four = (segment(picture, 2, family="gamma", looks=looks, **QUICK) for looks in (1, 4))
    assert four.recipe.model.family_.shape == 4.0
    assert not np.array_equal(one.memberships, four.memberships)


def test_topics_of_symbols_are_probabilities_in_the_order_of_symbols():
    picture, _ = picture_of("categorical")
    found = segment(picture, 2, family="categorical", **QUICK)
    assert found.feature_names == ("symbol 0", "symbol 1", "symbol 2", "symbol 3")
    np.testing.assert_allclose(found.topics.sum(axis=1), 1.0)
    low, high = found.topics @ np.arange(4)
    assert low < high


@pytest.mark.parametrize("covariance", ["topic-diagonal", "topic-full"])
def test_topics_may_have_covariances_of_their_own(covariance, tmp_path):
    picture, _ = smooth_scene(SIDE, SIDE, 2, 0.05, 0)
    found = segment(picture, 2, covariance=covariance, **QUICK)
    assert found.recipe.model.topic_covariances_.shape[0] == 2
    assert found.recipe.scaling.kind == "standard"


def test_counts_in_tiles_are_counts_in_memory(tmp_path):
    picture, _ = picture_of("poisson")
    big = np.tile(picture, (5, 1, 1))
    same = {"family": "poisson", "documents": "windows:12", "refits": 0, "sweeps": 5, "n_init": 1, "sample": 2000}
    whole = segment(big, 2, **same)
    tiled = segment(big, 2, out=tmp_path / "maps.zarr", block=64, **same)
    np.testing.assert_array_equal(tiled.memberships[:], whole.memberships)


@pytest.mark.parametrize("family", ["poisson", "categorical"])
def test_a_sampler_over_tiles_starts_at_rates_and_not_around_their_mean(family, tmp_path):
    picture, _ = picture_of(family)
    same = QUICK | {"sweeps": 4, "design_effect": 1, "block": 64}
    found = segment(picture, 2, family=family, engine="gibbs", out=tmp_path / "maps.zarr", **same)
    assert np.isfinite(found.memberships[:]).all()
    assert (found.topics > 0).all()
    assert load_recipe(tmp_path / "maps.zarr/model.pmlda").model.n_features_in_ == (3 if family == "poisson" else 1)


@pytest.mark.parametrize("engine", ["variational", "gibbs"])
def test_a_run_with_a_family_and_ignored_values_is_resumed_to_the_same_bits(engine, tmp_path, monkeypatch):
    """Everything that decides on the result is in the folder of the run."""
    picture = picture_of("gamma")[0]
    picture[:3, :3] = 0.0
    picture[10, 10] = 99.0
    np.save(tmp_path / "radar.npy", picture)
    chosen = {"family": "gamma", "looks": 4, "nodata": 0, "ignore_saturated": 90, "fixed": {"scales": 0.7}}
    chosen |= QUICK | {"engine": engine, "checkpoint": 1e-9, "sweeps": 20}
    whole = segment(tmp_path / "radar.npy", 2, out=tmp_path / "whole", **chosen)
    with watched(monkeypatch, stop_after(5, sampling=engine == "gibbs")), pytest.raises(StoppedError):
        segment(tmp_path / "radar.npy", 2, out=tmp_path / "maps", **chosen)
    again = resume(tmp_path / "maps")
    np.testing.assert_array_equal(again.memberships, whole.memberships)
    assert again.settings == whole.settings
    assert int(np.isnan(whole.memberships[..., 0]).sum()) == 10


def test_counts_may_have_labels():
    picture, truth = picture_of("poisson")
    labels = np.zeros((SIDE, SIDE), np.uint8)
    labels[truth[..., 1] > 0.95] = 1  # the other way round than from dark to bright
    labels[truth[..., 0] > 0.95] = 2
    found = segment(picture, 2, family="poisson", labels=labels, **QUICK)
    assert np.corrcoef(found.memberships[..., 0].ravel(), truth[..., 1].ravel())[0, 1] > 0.8


# ── what cannot be ─────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize(
    ("family", "change", "says"),
    [
        ("poisson", lambda x: x.astype(float) + 0.5, r"counts \(0, 1, 2, …\) but got .* Give raw counts"),
        ("poisson", lambda x: x.astype(int) - 30, r"counts \(0, 1, 2, …\) but got -"),
        ("gamma", lambda x: x * (x > 9), r"positive features but got 0.0 .*nodata=0 leaves zeros out"),
        ("bernoulli", lambda x: 2 * x, "zeros and ones but got 2.0"),
        ("categorical", lambda x: np.stack([x, x], axis=2), "one column, .* but got 2"),
        ("categorical", lambda x: x + 0.5, r"the symbols 0, 1, 2, … but got .*\.5"),
    ],
)
def test_pixels_that_a_family_cannot_produce_are_named_with_their_picture(family, change, says, tmp_path):
    picture = change(picture_of(family)[0])
    np.save(tmp_path / "cells.npy", picture)
    for out in (None, tmp_path / "maps.zarr"):
        with pytest.raises(PmldaError, match=f"^cells, features=.*family='{family}' needs {says}"):
            segment(tmp_path / "cells.npy", 2, family=family, out=out, **QUICK)
    assert not (tmp_path / "maps.zarr").exists()
    assert not (tmp_path / "maps.zarr.run").exists()


def test_symbols_that_were_not_learnt_are_named_with_their_picture():
    picture, _ = picture_of("categorical")
    found = segment(picture, 2, family="categorical", **QUICK)
    with pytest.raises(PmldaError, match=r"^array, .*needs the symbols 0 to 3 but got 7"):
        found.apply(np.full_like(picture, 7))


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"family": "posson"}, "family='posson' is not known"),
        ({"family": "poisson", "model": "fcm"}, "model='fcm' has no families"),
        ({"fixed": {"scales": 1.0}, "model": "gmm"}, "model='gmm' fixes nothing"),
        ({"family": "poisson", "covariance": "full"}, "covariance='full' was given, but family='poisson' has none"),
        ({"family": "poisson", "looks": 2}, "looks=2 was given, but family='poisson' has none"),
        ({"family": "gamma", "scaling": "standard"}, "needs numbers as they were measured"),
        ({"family": "categorical", "topics": {"a": [1.0, 2.0, 3.0]}}, "are probabilities of symbols"),
        ({"family": "poisson", "topics": {"a": [1.0, 2.0, 3.0]}}, "can only take all of them, exactly"),
    ],
)
def test_what_does_not_suit_a_family_is_refused(settings, says):
    with pytest.raises(PmldaError, match=says):
        segment(picture_of("poisson")[0], 2, **(QUICK | settings))


def test_all_rates_may_be_known():
    picture, truth = picture_of("poisson")
    known = {"first": RATES[0], "second": RATES[1]}
    found = segment(picture, 2, family="poisson", topics=known, **QUICK)
    np.testing.assert_allclose(found.topics, RATES)
    assert np.sqrt(np.mean((found.memberships - truth) ** 2)) < 0.15


def test_topics_whose_means_add_are_held_by_the_prior_of_scales():
    picture, truth = photon_counts(32, 20, "arithmetic", 0)
    found = segment(picture, 3, family="additive-poisson", refits=0)
    assert found.recipe.model.scale_rate == 1.0
    assert found.recipe.features.spec == "spectral:raw"
    assert membership_rmse(found.memberships, truth) < 0.1
    given = segment(picture, 3, family="additive-poisson", scale_rate=0.5, refits=0)
    assert given.recipe.model.scale_rate == 0.5


def test_families_are_found_where_they_are():
    """A family that is registered is one that pictures can have: nothing else lists them."""
    for name in ("poisson", "bernoulli", "gamma", "categorical"):
        assert type(find_family(choose_family(make_settings({"family": name})))) is type(find_family(name))


# ── fixed values ───────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("engine", ["variational", "gibbs"])
def test_fixed_scales_hold_in_every_document(engine):
    picture, _ = smooth_scene(SIDE, SIDE, 2, 0.05, 0)
    more = QUICK | {"engine": engine, "sweeps": 20, "fixed": {"scales": 0.25}}
    found = segment(picture, 2, **more)
    np.testing.assert_allclose(found.scales, 0.25, rtol=1e-6)
    np.testing.assert_allclose(found.apply(picture[:12]).scales, 0.25, rtol=1e-6)


def test_smaller_fixed_scales_make_crisper_maps():
    picture, _ = smooth_scene(SIDE, SIDE, 2, 0.15, 0)
    crisp, soft = (segment(picture, 2, fixed={"scales": scale}, **QUICK).memberships for scale in (0.05, 20.0))
    assert (crisp.max(axis=2) > 0.95).mean() > (soft.max(axis=2) > 0.95).mean() + 0.2


def test_fixed_proportions_say_which_topic_is_which():
    picture, _ = smooth_scene(SIDE, SIDE, 2, 0.05, 0)
    for given in ([0.3, 0.7], [0.7, 0.3]):
        found = segment(picture, 2, fixed={"proportions": given}, **(QUICK | {"documents": "whole"}))
        np.testing.assert_allclose(found.proportions, [given])


def test_proportions_are_not_fixed_where_features_do_not_mix_as_shares_do():
    cube = np.random.default_rng(0).random((SIDE, SIDE, 6)) + np.arange(6)
    with pytest.raises(PmldaError, match=r"do not mix as shares do\. Use features='spectral:raw'"):
        segment(cube, 2, features="spectral:plane", fixed={"proportions": [0.3, 0.7]}, **QUICK)


# ── the command ────────────────────────────────────────────────────────────────────────────────────────────────────
def test_the_command_takes_a_family(tmp_path):
    tifffile.imwrite(tmp_path / "radar.tif", picture_of("gamma")[0].astype(np.float32), photometric="minisblack")
    words = ["segment", str(tmp_path / "radar.tif"), "-k", "2", "--family", "gamma", "--looks", "4", "--json"]
    words += [word for name, value in QUICK.items() for word in ("--set", f"{name}={value}")]
    words += ["--set", "fixed={scales=0.5}"]
    result = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "maps")])
    assert result.exit_code == 0, result.output
    settings = json.loads(result.stdout)["settings"]
    assert (settings["family"], settings["looks"], settings["fixed"]) == ("gamma", 4.0, {"scales": 0.5})
    # settings.toml repeats the run.
    toml = ["segment", str(tmp_path / "radar.tif"), "--settings", str(tmp_path / "maps/settings.toml")]
    assert CliRunner().invoke(app, [*toml, "--out", str(tmp_path / "again")]).exit_code == 0
    first, second = (Segmentation.load(tmp_path / name).memberships for name in ("maps", "again"))
    np.testing.assert_array_equal(first, second)


def test_the_command_says_in_one_line_what_a_family_needs(tmp_path):
    tifffile.imwrite(tmp_path / "cells.tif", picture_of("gamma")[0].astype(np.float32), photometric="minisblack")
    words = ["segment", str(tmp_path / "cells.tif"), "--family", "poisson", "--out", str(tmp_path / "maps")]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 2
    assert not (tmp_path / "maps").exists()
    assert "cells, features='spectral:raw': family='poisson' needs counts" in " ".join(result.stderr.split())
