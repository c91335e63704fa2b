"""What an experiment cannot use is refused in one line: what came, what was expected. Nothing is written."""

import numpy as np
import pytest
from PIL import Image as Pillow
from typer.testing import CliRunner

from pmlda.cli import app
from tests.evaluation.experiments.folders import write_authors, write_regions, write_sonar


def refusal(tmp_path, *arguments):
    """The one line of a command that must fail and write nothing."""
    result = CliRunner().invoke(app, ["reproduce", *(str(a) for a in arguments), "--out", str(tmp_path / "out")])
    assert result.exit_code == 2, result.output
    assert not (tmp_path / "out").exists()
    assert len(result.stderr.strip().splitlines()) == 1
    return result.stderr


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["sunst"], ["no experiment 'sunst'", "Did you mean 'sunset'?", "generating, sonar, scale"]),
        (["sonar", "--data", "nowhere"], ["no folder 'nowhere'"]),
        (["all", "--data", "."], ["--data is for one experiment"]),
    ],
)
def test_what_is_asked_wrongly(tmp_path, arguments, expected):
    told = refusal(tmp_path, *arguments)
    assert all(text in told for text in expected), told


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sonar", ["weak_regions.json", "NAME_gt.png", "sas_hf.npz", "Found: cat.jpg"]),
        ("scale", ["sas_hf.npz", "sunset.npz", "Found: cat.jpg"]),
        ("sunset", ["lacks sunset1.jpg, sunset.npz", "Found: cat.jpg"]),
    ],
)
def test_a_folder_of_something_else(tmp_path, name, expected):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "cat.jpg").touch()
    told = refusal(tmp_path, name, "--data", tmp_path / "data")
    assert all(text in told for text in expected), told


def without_labels(folder):
    (folder / "sidescan" / "dev" / "strip_gt.png").unlink()


def without_picture(folder):
    (folder / "sidescan" / "dev" / "strip.png").unlink()


def labels_of_another_size(folder):
    Pillow.fromarray(np.zeros((5, 7), np.uint8)).save(folder / "sidescan" / "dev" / "strip_gt.png")


def labels_in_colour(folder):
    Pillow.fromarray(np.zeros((96, 96, 3), np.uint8)).save(folder / "sidescan" / "dev" / "strip_gt.png")


def broken_picture(folder):
    (folder / "sidescan" / "dev" / "strip.png").write_bytes(b"no picture")


def without_rectangles(folder):
    (folder / "sas" / "weak_regions.json").unlink()


def broken_rectangles(folder):
    (folder / "sas" / "weak_regions.json").write_text("{", encoding="utf-8")


def rectangle_outside(folder):
    write_regions(folder / "sas" / "weak_regions.json", {"snippet": {"ripple": [[0, 10, 90, 200]]}})


def rectangle_without_picture(folder):
    write_regions(folder / "sas" / "weak_regions.json", {"snipet": {"ripple": [[0, 10, 0, 10]]}})


def array_of_another_name(folder):
    np.savez(folder / "sas_hf.npz", picture=np.zeros((96, 96)))


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (without_labels, ["lacks strip_gt.png", "Found: strip.png"]),
        (without_picture, ["lacks strip.png", "Found: strip_gt.png"]),
        (labels_of_another_size, ["(96, 96)", "(5, 7)", "Expected the same"]),
        (labels_in_colour, ["(96, 96, 3)", "one number for each pixel"]),
        (broken_picture, ["strip.png", "cannot be read"]),
        (without_rectangles, ["lacks weak_regions.json", "Found: dev"]),
        (broken_rectangles, ["weak_regions.json", "Expected JSON"]),
        (rectangle_outside, ["'ripple'", "[0, 10, 90, 200]", "(96, 96)"]),
        (rectangle_without_picture, ["'snipet'", "snipet.png"]),
        (array_of_another_name, ["sas_hf.npz", "holds picture", "Expected the arrays image"]),
    ],
)
def test_sonar_pictures_that_do_not_fit_their_labels(tmp_path, spoil, expected):
    (tmp_path / "data").mkdir()
    spoil(write_sonar(tmp_path / "data"))
    told = refusal(tmp_path, "sonar", "--data", tmp_path / "data", "--small")
    assert all(text in told for text in expected), told


def test_strips_without_any_labelled_bottom_but_one_are_refused(tmp_path):
    folder = tmp_path / "data" / "sidescan" / "dev"
    folder.mkdir(parents=True)
    for name in ("strip.png", "strip_gt.png"):
        Pillow.fromarray(np.zeros((64, 64), np.uint8)).save(folder / name)
    told = refusal(tmp_path, "sonar", "--data", tmp_path / "data", "--small")
    assert "strip" in told
    assert "flat" in told


def lacks_an_array(folder):
    np.savez(folder / "sunset.npz", rgb=np.zeros((8, 9, 3)))


def not_an_archive(folder):
    (folder / "sunset.npz").write_bytes(b"PK\x03\x04 nothing")


def arrays_of_other_sizes(folder):
    np.savez(
        folder / "sunset.npz", rgb=np.zeros((8, 9, 3)), features=np.zeros((5, 8, 9)), superpixels=np.ones((7, 9), int)
    )


def broken_photograph(folder):
    (folder / "sunset1.jpg").write_bytes(b"\xff\xd8 no more")


@pytest.mark.parametrize(
    ("name", "spoil", "expected"),
    [
        ("sunset", lacks_an_array, ["holds rgb", "rgb, features, superpixels"]),
        ("sunset", not_an_archive, ["sunset.npz", "cannot be read"]),
        ("sunset", arrays_of_other_sizes, ["(7, 9)", "(H, W)"]),
        ("sunset", broken_photograph, ["sunset1.jpg", "cannot be read"]),
        ("scale", lacks_an_array, ["holds rgb", "rgb, superpixels"]),
        ("scale", not_an_archive, ["sunset.npz", "cannot be read"]),
        ("scale", arrays_of_other_sizes, ["(7, 9)", "(8, 9)"]),
    ],
)
def test_the_authors_files_that_are_not_as_they_should_be(tmp_path, name, spoil, expected):
    (tmp_path / "data").mkdir()
    spoil(write_authors(tmp_path / "data"))
    told = refusal(tmp_path, name, "--data", tmp_path / "data", "--small")
    assert all(text in told for text in expected), told
