"""Every model makes the same kind of maps of a picture: folder, report, model file and command as for PM-LDA."""

import json
import warnings
from functools import cache
from typing import get_args

import numpy as np
import pytest
from PIL import Image as Pillow
from typer.testing import CliRunner

from pmlda import PMLDA, segment
from pmlda.cli import app
from pmlda.errors import InputError, ModelFileError, SettingsError
from pmlda.evaluation.scenes import COLOURS, smooth_scene
from pmlda.output.report import trace_drawing
from pmlda.peers import PEERS, make_peer
from pmlda.pipeline.api import apply
from pmlda.pipeline.learning import make_model
from pmlda.recipe import load_recipe, save_recipe
from pmlda.settings import Settings
from pmlda.storage.archive import load, save

QUICK = {"bfc": {"sweeps": 60}, "bpm": {"sweeps": 60}}
WITH_UNCERTAINTY = {"bfc", "bpm"}
WITH_TRACE = {"bfc", "bpm", "lda"}


def quick(picture, name, **settings):
    """Runs as short as these may say that they have not settled, which is not what these tests are about."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return segment(picture, 2, model=name, **({"documents": "windows:16"} | QUICK.get(name, {}) | settings))


@pytest.fixture(scope="module")
def picture():
    return smooth_scene(32, 40, 2, 0.04, 0)[0]


@pytest.fixture(scope="module")
def results(picture):
    """What each model makes of the picture, made when it is first asked for."""
    return cache(lambda name: quick(picture, name))


@pytest.fixture(scope="module", params=list(PEERS))
def found(request, results):
    return results(request.param)


def test_settings_know_every_model():
    assert get_args(Settings.model_fields["model"].annotation) == ("pmlda", *PEERS)


def test_maps_are_those_of_the_model(found, picture):
    name = found.settings.model
    assert found.memberships.shape == found.uncertainty.shape == (32, 40, 2)
    np.testing.assert_allclose(found.memberships.sum(axis=2), 1.0, atol=1e-5)
    expected = found.recipe.model.memberships_[:, found.recipe.order].reshape(32, 40, 2)
    np.testing.assert_allclose(found.memberships, expected, atol=1e-6)
    assert found.has_uncertainty == (name in WITH_UNCERTAINTY)
    assert (found.uncertainty > 0).any() == (name in WITH_UNCERTAINTY)
    assert found.proportions.shape == (6, 2)
    assert np.isfinite(found.scales).all()
    assert (np.diff(found.topics.mean(axis=1)) > 0).all()
    assert found.verdict == found.recipe.model.verdict_


def test_topics_are_near_the_colours_of_the_picture(found):
    """Dark to bright, in RGB from 0 to 1; centres lie inside of the corners, so only the nearest is asked for."""
    colours = COLOURS[:2][np.argsort(COLOURS[:2].mean(axis=1))]
    gaps = np.linalg.norm(found.topics[:, None] - colours, axis=2)
    assert gaps.argmin(axis=1).tolist() == [0, 1]


def test_a_folder_holds_everything(found, tmp_path):
    folder = found.save(tmp_path / "out")
    page = (folder / "report.html").read_text(encoding="utf-8")
    known = found.settings.model in WITH_UNCERTAINTY
    assert ("This model knows no uncertainty." in page) == (not known)
    assert ('value="doubt"' in page) == known
    assert ("after each sweep" in page) == (found.settings.model in WITH_TRACE)
    assert "NaN" not in page.split('id="data">')[1].split("</script>")[0]
    record = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    assert record["settings"]["model"] == found.settings.model
    assert (folder / "model.pmlda").stat().st_size < 40_000


def test_a_model_file_makes_the_same_maps(found, picture, tmp_path):
    save_recipe(tmp_path / "model.pmlda", found.recipe)
    again, direct = apply(load_recipe(tmp_path / "model.pmlda"), picture), found.apply(picture)
    np.testing.assert_array_equal(again.memberships, direct.memberships)
    np.testing.assert_array_equal(again.uncertainty, direct.uncertainty)
    assert again.verdict == direct.verdict
    assert again.verdict.state == "applied"
    # Documents and words are those of training, so that only what averages over its doubt may differ.
    assert np.abs(again.memberships - found.memberships).mean() < (
        0.05 if found.settings.model in WITH_UNCERTAINTY else 1e-6
    )


def test_a_model_file_with_a_part_missing_is_refused(found, tmp_path):
    file = tmp_path / "model.pmlda"
    save_recipe(file, found.recipe)
    whole = load(file)
    for part in ("topic_means_", "offset_", "unit_", "seed_", "n_features_in_"):
        damaged = whole | {"fitted": {name: value for name, value in whole["fitted"].items() if name != part}}
        save(tmp_path / "damaged.pmlda", damaged)
        with pytest.raises(ModelFileError, match="not a usable model file"):
            load_recipe(tmp_path / "damaged.pmlda")
    save(tmp_path / "damaged.pmlda", whole | {"fitted": whole["fitted"] | {"fit": 1}})
    with pytest.raises(ModelFileError, match="it sets 'fit'"):
        load_recipe(tmp_path / "damaged.pmlda")
    with pytest.raises(ModelFileError, match=f"it holds a model '{found.settings.model}'"):
        PMLDA.load(file)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("gmm", {"covariances_": -np.ones((2, 3, 3))}),
        ("gmm", {"weights_": np.array([1.0, -1.0])}),
        ("lda", {"components_": np.ones((2, 3))}),
        ("lda", {"dictionary_": np.full((100, 3), np.nan)}),
        ("bfc", {"scale_": -1.0}),
        ("bpm", {"topic_means_": np.zeros((2, 2))}),
        ("fcm", {"unit_": 0.0}),
    ],
)
def test_a_model_file_with_nonsense_is_refused(name, change, results, tmp_path):
    file = tmp_path / "model.pmlda"
    save_recipe(file, results(name).recipe)
    whole = load(file)
    save(file, whole | {"fitted": whole["fitted"] | change})
    with pytest.raises(ModelFileError, match="not a usable model file"):
        load_recipe(file)


def test_an_unknown_model_in_a_file_is_refused(results, tmp_path):
    file = tmp_path / "model.pmlda"
    save_recipe(file, results("kmeans").recipe)
    save(file, load(file) | {"model": "oracle"})
    with pytest.raises(ModelFileError, match="no model 'oracle'"):
        load_recipe(file)


def test_a_trace_is_drawn_where_there_is_one(found):
    assert (trace_drawing(found) is not None) == (found.settings.model in WITH_TRACE)


def test_settings_reach_the_model(picture):
    settings = {"fuzzifier": 2.5, "dictionary": 7, "sweeps": 50, "covariance": "diagonal", "seed": 3}
    for name, parts in {
        "fcm": {"fuzzifier": 2.5},
        "lda": {"dictionary": 7},
        "bfc": {"fuzzifier": 2.5, "n_sweeps": 50},
        "bpm": {"covariance": "diagonal", "n_sweeps": 50},
    }.items():
        model = make_model(Settings(model=name, topics=4, **settings), None, 0)
        assert model.get_params(deep=False).items() >= (parts | {"n_components": 4, "random_state": 3}).items()


def test_the_picture_is_what_rows_would_give(picture):
    """segment() does nothing that the model by itself would not: here colours, standardised."""
    found = quick(picture, "fcm", features="color")
    X = picture.reshape(-1, 3) / 255.0
    alone = make_peer("fcm", 2).fit(((X - X.mean(axis=0)) / X.std(axis=0)).astype(np.float32))
    order = np.argsort(alone.topic_means_.mean(axis=1))
    np.testing.assert_allclose(found.memberships.reshape(-1, 2), alone.memberships_[:, order], atol=1e-3)


def test_only_lda_minds_several_ways_of_cutting(picture):
    once, twice = (quick(picture, "fcm", documents=way) for way in ("windows:16", "windows:16/8"))
    np.testing.assert_array_equal(once.memberships, twice.memberships)
    once, twice = (quick(picture, "lda", documents=way) for way in ("windows:16", "windows:16/8"))
    assert np.abs(once.memberships - twice.memberships).max() > 1e-4


def test_a_misspelt_model_suggests_the_nearest(picture):
    with pytest.raises(SettingsError, match=r"model = 'fmc' cannot be used: Did you mean 'fcm'\?"):
        segment(picture, 2, model="fmc")
    with pytest.raises(InputError, match=r"engine='gibs' is not known. Did you mean 'gibbs'\?"):
        segment(picture, 2, engine="gibs")


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_the_command_takes_a_model(picture, tmp_path):
    Pillow.fromarray(picture).save(tmp_path / "scene.png")
    options = ("-k", 2, "--model", "fcm", "--set", "fuzzifier=2", "--json", "--out", tmp_path / "out")
    result = run("segment", tmp_path / "scene.png", *options)
    assert result.exit_code == 0, result.output
    settings = json.loads(result.stdout)["settings"]
    assert (settings["model"], settings["fuzzifier"]) == ("fcm", 2.0)
    facts = json.loads(run("info", tmp_path / "out" / "model.pmlda", "--json").stdout)
    assert (facts["model"], facts["topics"]) == ("fcm", 2)
    applied = run("apply", tmp_path / "out" / "model.pmlda", tmp_path / "scene.png", "--out", tmp_path / "again")
    assert applied.exit_code == 0, applied.output
    wrong = run("segment", tmp_path / "scene.png", "--model", "lad", "--out", tmp_path / "other")
    assert wrong.exit_code == 2
    assert "Did you mean 'lda'?" in wrong.stderr
