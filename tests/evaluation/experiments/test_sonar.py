"""Sonar: seabeds with known shares, and labelled pictures."""

import json

import numpy as np
import pytest

from pmlda.evaluation.experiments import reproduce
from pmlda.evaluation.experiments.rivals import MODELS
from pmlda.evaluation.experiments.sonar import interesting, made_up, means_of
from pmlda.evaluation.experiments.sonar_files import Labelled, read_folder
from tests.evaluation.experiments.folders import write_sonar


def test_ripples_that_fade_are_told_better_by_pmlda_than_by_any_rival_at_its_best():
    # The paper's features alone, at full size; the command does the same for ten seeds.
    outcome = made_up(1, small=False, feature_sets=("sonar",))
    row = outcome.rows[0]
    assert row["PM-LDA"] < min(row[model] for model in MODELS[1:])
    assert row["PM-LDA"] < 0.7 * row["1/K"]
    rippled = outcome.details["two largest topics of rippled ground"][0]
    first, second = rippled["PM-LDA"]
    assert first > 2 * second, "most of the rippled ground is one topic"
    assert f"{first:.2f} and {second:.2f} by PM-LDA" in outcome.remark


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_sonar(tmp_path_factory.mktemp("sonar"))


def test_labelled_pictures_of_all_three_kinds_are_found(folder):
    pictures = {picture.name: picture for picture in read_folder(folder)}
    assert {name: picture.bottoms for name, picture in pictures.items()} == {
        "snippet": ["ripple", "bright"],  # what is between two bottoms is left out
        "strip": ["flat", "rock", "ripple"],
        "sas_hf": ["ripple", "bright", "flat"],
    }
    assert pictures["strip"].counted.all()
    assert pictures["snippet"].counted.sum() == 36 * 36 + 40 * 40


def test_the_folder_above_will_do(folder, tmp_path):
    (tmp_path / "sonar").symlink_to(folder)
    assert len(read_folder(tmp_path)) == 3


def test_each_bottom_has_an_area_under_the_curve(folder, tmp_path):
    outcome = reproduce("sonar", tmp_path / "out", folder, small=True)
    assert [row["bottom"] for row in outcome.rows] == ["ripple", "bright"]
    assert all(0.5 <= row[model] <= 1.0 for row in outcome.rows for model in MODELS)
    assert list(outcome.figures) == ["snippet"]
    record = json.loads((tmp_path / "out" / "results.json").read_text(encoding="utf-8"))
    assert record["data"] == folder.name
    assert [(row["sonar"], row["pictures"]) for row in record["means"]] == [("synthetic aperture", 1)] * 2


def test_means_are_taken_over_pictures_of_one_kind():
    same = {"features": "sonar", "bottom": "flat"}
    areas = [("side scan", 0.5), ("side scan", 0.7), ("synthetic aperture", 0.9)]
    rows = [{"sonar": kind} | same | dict.fromkeys(MODELS, area) for kind, area in areas]
    found = [(row["sonar"], row["pictures"], row["PM-LDA"]) for row in means_of(rows)]
    assert found == [("side scan", 2, 0.6), ("synthetic aperture", 1, 0.9)]


def test_of_a_long_strip_the_part_with_all_bottoms_is_drawn():
    regions = {name: np.zeros((10, 300), bool) for name in ("flat", "ripple")}
    regions["flat"][:, :200] = True
    regions["ripple"][:, 200:] = True
    part = interesting(Labelled("strip", np.zeros((10, 300)), regions))
    assert part.stop - part.start == 80
    assert part.start < 200 < part.stop
