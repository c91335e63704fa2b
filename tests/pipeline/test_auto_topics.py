"""topics="auto" in pictures: in memory, in a folder, in tiles, with labels, from the command line."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from pmlda import Segmentation, choose_n_topics, segment
from pmlda.cli import app
from pmlda.errors import PmldaError
from pmlda.evaluation.scenes import smooth_scene
from pmlda.images.windowed import open_windowed
from pmlda.pipeline.howmany import BLOCK_SIDE, blocks_of, count_axes, cut

QUICK = {"refits": 0, "n_init": 1, "features": "color"}


@pytest.fixture(scope="module")
def picture():
    return smooth_scene(64, 64, 2, 0.05, 4)[0]


@pytest.fixture(scope="module")
def choice(picture):
    return choose_n_topics(picture)


def test_the_number_of_colours_is_found(choice):
    assert choice.n_topics == 2


def test_a_run_has_the_number_and_says_why(picture, choice, tmp_path):
    found = segment(picture, "auto", out=tmp_path / "maps", **QUICK)
    assert found.memberships.shape[2] == choice.n_topics == found.settings.topics
    assert found.choice == choice == Segmentation.load(tmp_path / "maps").choice
    assert json.loads((tmp_path / "maps" / "run.json").read_text())["settings"]["topics"] == 2
    assert "How many topics" in (tmp_path / "maps" / "report.html").read_text()
    again = segment(picture, found.settings.topics, **QUICK)
    np.testing.assert_array_equal(again.memberships, found.memberships)


def test_tiles_have_the_same_number_and_the_command_says_it(picture, choice, tmp_path):
    file, out = tmp_path / "picture.npy", tmp_path / "maps.zarr"
    np.save(file, picture)
    settings = [word for name, value in QUICK.items() for word in ("--set", f"{name}={value}")]
    run = CliRunner().invoke(app, ["segment", str(file), "--topics", "auto", *settings, "--out", str(out)])
    assert run.exit_code == 0, run.output
    assert choice.reason in run.stdout
    found = Segmentation.load(out)
    assert found.choice == choice
    assert "How many topics" in found.path.joinpath("report.html").read_text()


def test_labels_that_name_more_topics_win(picture, choice):
    labels = np.zeros((64, 64), int)
    labels[:4, :4], labels[30:34, 30:34] = 1, 4
    found = choose_n_topics(picture, labels=labels)
    assert found.n_topics == 4
    assert "labels or known topics name as many" in found.reason
    known = choose_n_topics(picture, topics={name: [value] * 3 for value, name in enumerate("abc")})
    assert known.n_topics == 3


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"model": "fcm"}, "is answered by model"),
        ({"names": ["a", "b"]}, "Give the number of topics"),
        ({"fixed": {"proportions": [0.5, 0.5]}}, "Give the number of topics"),
    ],
)
def test_what_makes_no_sense_is_refused(picture, more, said):
    with pytest.raises(PmldaError, match=said):
        segment(picture, "auto", **more)


def test_one_colour_is_refused():
    with pytest.raises(PmldaError, match="nothing to tell apart"):
        segment(np.full((32, 32, 3), 7, np.uint8), "auto")


def test_an_existing_output_is_refused_before_anything_is_computed(picture, tmp_path):
    (tmp_path / "maps").mkdir()
    (tmp_path / "maps" / "mine.txt").write_text("mine")
    with pytest.raises(PmldaError, match="maps"):
        segment(picture, "auto", out=tmp_path / "maps", stage=lambda name: pytest.fail(name))


def test_the_command_draws_the_reasons(picture, tmp_path):
    file, figure = tmp_path / "picture.npy", tmp_path / "topics.png"
    np.save(file, picture)
    run = CliRunner().invoke(app, ["topics", str(file), "--out", str(figure), "--json"])
    assert run.exit_code == 0, run.output
    assert json.loads(run.stdout)["n_topics"] == 2
    assert figure.read_bytes()[:4] == b"\x89PNG"
    assert CliRunner().invoke(app, ["topics", str(file), "--out", str(figure)]).exit_code == 2
    text = CliRunner().invoke(app, ["topics", str(file), "--out", str(figure), "--overwrite"]).stdout
    assert [line.endswith("←") for line in text.splitlines()].count(True) == 1


def test_large_pictures_are_read_in_blocks_all_over(picture):
    blocks = blocks_of(0, (3000, 2000))
    assert len(blocks) == 64
    assert {block.rows.stop - block.rows.start for block in blocks} == {BLOCK_SIDE}
    assert max(block.columns.stop for block in blocks) <= 2000
    assert open_windowed(picture).shape == (64, 64, 3)


def test_cells_that_are_scored_touch_at_corners():
    window, scored = cut((32, 32), 4, whole=False)
    assert window.max() == 0
    assert scored.mean() == 0.5
    assert scored[:4, :4].all()
    assert scored[4:8, 4:8].all()
    assert not scored[:4, 4:8].any()


@pytest.mark.parametrize(
    ("side", "cell", "n_windows"), [(50, 2, 36), (64, 2, 64), (160, 2, 196), (400, 2, 196), (96, 16, 9)]
)
def test_small_pictures_have_windows_enough_with_cells_of_both_kinds(side, cell, n_windows):
    window, scored = cut((side, side), cell, whole=True)
    sizes, late = np.bincount(window.ravel()), np.bincount(window.ravel(), scored.ravel())
    assert len(sizes) == n_windows
    assert (late > 0).all()
    assert (late < sizes).all()


def test_axes_of_noise_alone_do_not_count():
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(900, 4))
    steps = 0.5 * 2.0 * np.eye(4) * 900
    assert count_axes(noise, np.vstack([steps, np.full((1, 4), 900.0)])) == 1
