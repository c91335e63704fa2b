"""Names of topics come out right in every file of a result, whatever is in them."""

import csv
import io
import json
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
from PIL import Image as Pillow

from pmlda import segment
from pmlda.errors import ModelFileError
from pmlda.evaluation.scenes import smooth_scene
from pmlda.images import read_image
from pmlda.output.figures import comparison
from pmlda.output.folder import map_file
from pmlda.recipe import load_recipe, model_facts, save_recipe
from pmlda.segmentation import Segmentation

NAMES = ("tiefes Öl", '<b>"sand", wet</b>', r"$\frac$ mixed/..")
GIVEN = '"tiefes Öl","<b>""sand"", wet</b>",' + NAMES[2]


@pytest.fixture(scope="module")
def picture(tmp_path_factory):
    file = tmp_path_factory.mktemp("pictures") / "scene.png"
    Pillow.fromarray(smooth_scene(40, 52, 3, 0.04, 0)[0]).save(file)
    return file


def run(*arguments):
    command = [sys.executable, "-m", "pmlda", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)


@pytest.fixture(scope="module")
def saved(picture, tmp_path_factory):
    out = tmp_path_factory.mktemp("named") / "out"
    done = run("segment", picture, "--names", GIVEN, "--documents", "windows:20", "--json", "--out", out)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["topics"] == list(NAMES)
    return out


def test_the_command_names_topics_in_every_file(saved):
    assert {file.name for file in (saved / "maps").iterdir()} == {
        "1-tiefes-Öl.png",
        "2-b-sand-wet-b.png",
        "3-frac-mixed.png",
        "mixed.png",
        "novelty.png",
        "residual.png",
        "uncertainty.png",
    }
    assert read_image(saved / "memberships.tif").bands == read_image(saved / "uncertainty.tif").bands == NAMES
    with (saved / "documents.csv").open(encoding="utf-8", newline="") as file:
        assert next(csv.reader(file)) == ["document", "pixels", "scale", *NAMES]
    assert json.loads((saved / "run.json").read_text(encoding="utf-8"))["topics"] == list(NAMES)
    assert "&lt;b&gt;&#34;sand&#34;, wet&lt;/b&gt;" in (saved / "report.html").read_text(encoding="utf-8")
    assert NAMES[1] not in (saved / "report.html").read_text(encoding="utf-8")


def test_names_come_back_with_the_result_and_stay_when_it_is_applied(saved, picture):
    found = Segmentation.load(saved)
    assert found.topic_names == found.apply(str(picture)).topic_names == NAMES
    assert model_facts(saved / "model.pmlda")["names"] == list(NAMES)


def test_the_model_is_shown_with_names(saved):
    told = run("info", saved)
    assert told.returncode == 0, told.stderr
    assert "mean of tiefes Öl" in told.stdout


def test_figures_show_names_as_they_are_and_take_none_for_a_formula(saved):
    figure = Segmentation.load(saved).plot()
    titles = [axis.get_title().replace("\n", " ") for axis in figure.axes]
    assert titles[1:4] == list(NAMES)
    figure.savefig(io.BytesIO())  # a formula that is none would be an error now


def test_long_titles_end_before_the_next_panel(picture):
    names = ["W" * 20 + " " + "m" * 39, "a", "b"]
    figure = segment(picture, 3, names=names, documents="whole", refits=0).plot()
    figure.draw_without_rendering()
    boxes = [axis.title.get_window_extent() for axis in figure.axes[:4]]
    assert all(not one.overlaps(other) for one, other in pairwise(boxes))


def test_a_truth_of_fewer_topics_is_not_given_their_names():
    maps = np.random.default_rng(0).dirichlet([1, 1, 1], (8, 9)).astype(np.float32)
    figure = comparison(np.zeros((8, 9, 3), np.uint8), {"a": maps, "truth": maps[..., :2]}, topic_names=["x", "y", "z"])
    titles = [axis.get_title().replace("\n", " ") for axis in figure.axes]
    assert {"a: x", "a: y", "a: z", "truth: topic 1", "truth: topic 2"} <= set(titles)


def test_names_that_differ_in_signs_alone_have_files_of_their_own(saved):
    settings = Segmentation.load(saved).settings.model_copy(update={"names": ("a b", "a/b", "A-B")})
    assert len({map_file(settings, k).lower() for k in range(3)}) == 3


def test_a_model_file_whose_names_are_those_of_another_number_of_topics_is_refused(saved, tmp_path):
    recipe = load_recipe(saved / "model.pmlda")
    other = recipe.settings.model_copy(update={"topics": 2, "names": ("a", "b")})
    save_recipe(tmp_path / "other.pmlda", recipe._replace(settings=other))
    with pytest.raises(ModelFileError, match="settings are those of 2 topics"):
        load_recipe(tmp_path / "other.pmlda")


def test_wrong_names_are_one_line_and_exit_code_2(picture, tmp_path):
    done = run("segment", picture, "--names", "water,sky", "--out", tmp_path / "out")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Error: Setting names has 2 of them for 3 topics")
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "out").exists()
