"""Models side by side: the same words for each, a table of times and scores, one figure."""

import json

import numpy as np
import pytest
import tifffile
from PIL import Image as Pillow
from typer.testing import CliRunner

from pmlda.cli import app
from pmlda.evaluation.compare import compare, comparison_figure, read_truth
from pmlda.evaluation.scenes import smooth_scene
from pmlda.images import read_image
from pmlda.output.places import MARK

SIZE = 40


@pytest.fixture(scope="module")
def scene():
    return smooth_scene(SIZE, SIZE, 3, 0.04, 2)


@pytest.fixture(scope="module")
def compared(scene):
    return compare(scene[0], ("pmlda", "kmeans", "fcm"), 3, truth=scene[1], documents="windows:20")


def test_every_model_has_a_row_with_its_time_and_scores(compared):
    assert [row["model"] for row in compared.rows] == ["pmlda", "kmeans", "fcm"]
    for row in compared.rows:
        assert set(row) == {"model", "seconds", "membership_rmse", "soft_iou", "crisp_iou"}


def test_colours_that_mix_are_told_best_by_the_model_that_mixes_them(compared):
    errors = {row["model"]: row["membership_rmse"] for row in compared.rows}
    assert errors["pmlda"] < 0.75 * errors["fcm"]
    assert errors["fcm"] < errors["kmeans"]


def test_labels_as_truth_give_an_auc_for_each_class(scene):
    labels = scene[1].argmax(axis=2)
    rows = compare(scene[0], ("pmlda",), 3, truth=labels, documents="whole").rows
    assert {"auc_0", "auc_1", "auc_2", "crisp_iou"} <= set(rows[0])
    assert all(0.9 < rows[0][f"auc_{k}"] <= 1.0 for k in range(3))


def test_the_figure_shows_soft_models_as_maps_and_crisp_ones_as_labels(compared):
    titles = [axis.get_title() for axis in comparison_figure(compared).axes]
    assert "picture" in titles
    assert "kmeans: labels" in titles
    assert {f"{name}: topic {k}" for name in ("pmlda", "fcm", "truth") for k in (1, 2, 3)} <= set(titles)


def test_truth_may_be_a_file(scene, tmp_path):
    picture = read_image(scene[0])
    tifffile.imwrite(tmp_path / "z.tif", scene[1], photometric="minisblack", planarconfig="contig")
    np.testing.assert_allclose(read_truth(tmp_path / "z.tif", picture, 3).memberships, scene[1])
    labels = scene[1].argmax(axis=2).astype(np.uint8)
    Pillow.fromarray(labels).save(tmp_path / "labels.png")
    np.testing.assert_array_equal(read_truth(tmp_path / "labels.png", picture, 3).labels, labels)


@pytest.mark.parametrize(
    ("models", "truth", "message"),
    [
        (("pmlda", "fmc"), None, "no model 'fmc'. Did you mean 'fcm'"),
        ((), None, "no model to compare"),
        (("fcm", "fcm"), None, "named twice"),
        (("fcm",), np.zeros((3, 4), int), r"shape \(3, 4\) but the picture has \(40, 40\)"),
        (("fcm",), np.zeros((SIZE, SIZE), int), "1 class"),
        (("fcm",), np.zeros((SIZE, SIZE)), "type float64"),
        (("fcm",), np.ones((SIZE, SIZE, 5)), "5 topics, but 3 are looked for"),
        (
            ("fcm",),
            np.full((SIZE, SIZE, 3), 200, np.uint8),
            "3 bands from 200 to 200: give memberships between 0 and 1",
        ),
        (("fcm",), np.full((SIZE, SIZE, 3), np.nan), "no pixel without NaN"),
        (("fcm",), np.ones((SIZE, SIZE, 2, 2)), r"shape \(40, 40, 2, 2\)"),
        (("fcm",), "missing.png", "'missing.png' was not found"),
        (("fcm",), "truth.doc", "ends in '.doc'"),
    ],
)
def test_what_cannot_be_compared_is_refused(scene, models, truth, message):
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        compare(scene[0], models, 3, truth=truth)


def test_a_class_that_is_absent_from_the_truth_takes_nothing_from_the_scores(scene):
    labels = np.where(scene[1].argmax(axis=2) == 1, 7, 200)  # of 256 possible labels two are there
    labels[:3] = -1
    compared = compare(scene[0], ("pmlda", "kmeans"), 3, truth=labels, documents="whole")
    assert {key for key in compared.rows[0] if key.startswith("auc")} == {"auc_7", "auc_200"}
    assert compared.rows[0]["auc_7"] > 0.9
    assert "truth: labels" in [axis.get_title() for axis in comparison_figure(compared).axes]


def test_a_material_that_is_nowhere_in_the_truth_overlaps_with_nothing(scene):
    absent = np.concatenate([scene[1], np.zeros((SIZE, SIZE, 1), np.float32)], axis=2)
    (row,) = compare(scene[0], ("fcm",), 4, truth=absent, documents="whole").rows
    (other,) = compare(scene[0], ("fcm",), 4, truth=scene[1], documents="whole").rows
    assert row["soft_iou"] == pytest.approx(other["soft_iou"] * 3 / 4)


@pytest.mark.parametrize("name", ["pmlda", "lda", "fcm", "bpm", "bfc", "gmm", "kmeans"])
def test_one_topic_is_everywhere_whatever_the_model(scene, name):
    labels = scene[1].argmax(axis=2)
    compared = compare(scene[0], (name,), 1, truth=labels, documents="windows:20")
    np.testing.assert_allclose(compared.found[name].memberships, 1.0)
    assert compared.rows[0]["auc_0"] == 0.5  # which tells nothing apart
    comparison_figure(compared)


def test_the_command_writes_a_figure_and_a_table(scene, tmp_path):
    Pillow.fromarray(scene[0]).save(tmp_path / "p.png")
    tifffile.imwrite(tmp_path / "z.tif", scene[1], photometric="minisblack", planarconfig="contig")
    command = ["compare", str(tmp_path / "p.png"), "--models", "pmlda,kmeans", "--documents", "whole"]
    command += ["--features", "color:lab", "--names", ",".join("abcdefgh"[: scene[1].shape[2]])]
    command += ["--truth", str(tmp_path / "z.tif"), "--out", str(tmp_path / "out"), "--json"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert [row["model"] for row in json.loads(result.stdout)["rows"]] == ["pmlda", "kmeans"]
    assert {path.name for path in (tmp_path / "out").iterdir()} == {MARK, "figure.png", "results.json"}


def test_a_misspelt_model_is_one_line_and_nothing_is_written(scene, tmp_path):
    Pillow.fromarray(scene[0]).save(tmp_path / "p.png")
    result = CliRunner().invoke(
        app, ["compare", str(tmp_path / "p.png"), "--models", "pmlda,gnm", "--out", str(tmp_path / "out")]
    )
    assert result.exit_code == 2
    assert "Did you mean 'gmm'?" in result.stderr
    assert not (tmp_path / "out").exists()
