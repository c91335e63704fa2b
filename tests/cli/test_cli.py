"""The command line does what the package does, says one clear line when it cannot, and leaves nothing half-done."""

import json
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
import zarr
from PIL import Image as Pillow
from typer.testing import CliRunner

from pmlda.cli import app
from pmlda.evaluation.scenes import smooth_scene
from pmlda.images import read_image
from pmlda.images.library import read_library
from pmlda.pipeline.collect import collect
from tests import program


@pytest.fixture(scope="module")
def picture(tmp_path_factory):
    file = tmp_path_factory.mktemp("pictures") / "scene.png"
    Pillow.fromarray(smooth_scene(40, 50, 2, 0.04, 0)[0]).save(file)
    return file


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_a_picture_becomes_a_folder_of_maps(picture, tmp_path):
    result = run("segment", picture, "--topics", 2, "--documents", "windows:20", "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert "report.html" in result.output
    assert read_image(tmp_path / "out" / "memberships.tif").pixels.shape == (40, 50, 2)


def test_a_model_file_is_shown_by_a_program_that_did_nothing_else(picture, tmp_path):
    """What model files may hold must be known without anything else having been imported."""
    run("segment", picture, "-k", 2, "--documents", "whole", "--set", "refits=0", "--out", tmp_path / "out")
    told = program.run("info", tmp_path / "out" / "model.pmlda", "--json")
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout)["family"] == "Gaussian"


def test_json_is_all_that_machines_see(picture, tmp_path):
    result = run("segment", picture, "-k", 2, "--set", "documents=whole", "--json", "--out", tmp_path / "out")
    answer = json.loads(result.stdout)
    assert answer["settings"]["topics"] == 2
    assert answer["state"] == "converged"
    assert answer["verdict"].startswith("The fit converged after")
    assert answer["settings"]["documents"] == "whole"
    assert answer["reports"] == [str(tmp_path / "out" / "report.html")]


def test_settings_come_from_a_file_and_options_come_first(picture, tmp_path):
    file = tmp_path / "settings.toml"
    file.write_text('topics = 4\ndocuments = "whole"\n', encoding="utf-8")
    result = run("segment", picture, "--settings", file, "--topics", 2, "--json", "--out", tmp_path / "out")
    settings = json.loads(result.stdout)["settings"]
    assert (settings["topics"], settings["documents"]) == (2, "whole")


def test_a_model_applies_to_another_picture(picture, tmp_path):
    run("segment", picture, "-k", 2, "--documents", "whole", "--out", tmp_path / "first")
    result = run("apply", tmp_path / "first" / "model.pmlda", picture, "--out", tmp_path / "second")
    assert result.exit_code == 0, result.output
    assert read_image(tmp_path / "second" / "memberships.tif").pixels.shape == (40, 50, 2)
    told = run("info", tmp_path / "first" / "model.pmlda", "--json")
    assert json.loads(told.stdout)["topics"] == 2
    assert "whole" in run("report", tmp_path / "first").output


def stripped(page):
    """A report without its date, its seconds and its maps, in which uncertainty was rounded."""
    return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC|>[^<>]+ s<|data:image/png;base64,[^\"]*", "", page)


def test_a_report_that_was_deleted_is_made_again(picture, tmp_path):
    out = tmp_path / "out"
    run("segment", picture, "-k", 2, "--documents", "windows:20", "--out", out)
    before = (out / "report.html").read_text(encoding="utf-8")
    (out / "report.html").unlink()
    result = run("report", out)
    assert result.exit_code == 0, result.output
    assert "windows:20" in result.output
    after = (out / "report.html").read_text(encoding="utf-8")
    assert stripped(after) == stripped(before)
    assert json.loads(run("report", out, "--json").stdout)["reports"] == [str(out / "report.html")]
    assert not list(out.glob(".*.part"))


def test_a_folder_of_something_else_has_no_report(tmp_path):
    for folder in (tmp_path, tmp_path / "nowhere"):
        result = run("report", folder)
        assert result.exit_code == 2
        assert "not a folder that `pmlda segment` wrote" in result.output
    assert list(tmp_path.iterdir()) == []


def test_features_and_documents_are_listed():
    result = run("features")
    for word in ("color", "sonar", "winn", "texture", "spectral", "slic:200", "ncuts:40", "windows:64"):
        assert word in result.output
    assert {line["name"] for line in json.loads(run("features", "--json").stdout)["features"]} >= {"color", "sunset"}


def test_the_command_starts_without_numpy():
    code = "import sys, pmlda.cli; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_a_made_up_picture_comes_with_its_truth(tmp_path):
    result = run("simulate", "--topics", 3, "--size", 32, "--out", tmp_path / "made")
    assert result.exit_code == 0, result.output
    truth = read_image(tmp_path / "made" / "truth.tif").pixels
    assert truth.shape == (32, 32, 3)
    assert abs(float(truth.sum(axis=2).mean()) - 1.0) < 1e-5


@pytest.mark.parametrize("kind", ["colours", "seabed", "speckle", "photons", "cells", "spectra", "tissue"])
def test_pictures_of_every_kind_are_made_and_found_by_a_pattern(kind, tmp_path):
    result = run("simulate", "--kind", kind, "--size", 64, "--pictures", 2, "--out", tmp_path / "made")
    assert result.exit_code == 0, result.output
    found = collect([tmp_path / "made" / "picture-*"]).pictures
    assert len(found) == 2
    for number, path in enumerate(found):
        picture = read_image(path, z="max" if kind == "cells" else None)
        memberships = read_image(tmp_path / "made" / f"truth-{number + 1}.tif")
        assert picture.pixels.shape[:2] == memberships.pixels.shape[:2] == (64, 64)
        np.testing.assert_allclose(memberships.pixels[memberships.valid].sum(axis=1), 1.0, atol=1e-5)


def test_true_memberships_are_no_pictures_of_their_folder(tmp_path):
    run("simulate", "--size", 24, "--out", tmp_path / "made")
    assert [path.name for path in collect([tmp_path / "made"]).pictures] == ["picture.png"]


def test_spectra_come_with_a_library_that_has_their_wavelengths(tmp_path):
    result = run("simulate", "--kind", "spectra", "--size", 24, "--out", tmp_path / "made")
    assert "library.csv" in result.output
    names, spectra, wavelengths = read_library(tmp_path / "made" / "library.csv")
    assert names == ("soil", "tree", "water", "plastic")
    assert spectra.shape == (4, len(read_image(tmp_path / "made" / "picture.hdr").bands))
    np.testing.assert_allclose(wavelengths[[0, -1]], [400, 1000])


def test_a_kind_that_is_not_known_and_topics_of_one_that_has_its_own_are_refused(tmp_path):
    unknown = run("simulate", "--kind", "sea", "--out", tmp_path / "made")
    assert unknown.exit_code == 2
    assert "'seabed'" in unknown.stderr
    topics = run("simulate", "--kind", "seabed", "--topics", 4, "--out", tmp_path / "made")
    assert topics.exit_code == 2
    assert "Leave out --topics" in topics.stderr
    small = run("simulate", "--kind", "seabed", "--size", 24, "--out", tmp_path / "made")
    assert small.exit_code == 2
    assert "--size 64" in small.stderr
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("segment", "missing.png"), "missing.png"),
        (("segment", "PICTURE", "--features", "colour"), "Did you mean 'color'"),
        (("segment", "PICTURE", "--documents", "slik:20"), "slic"),
        (("segment", "PICTURE", "--documents", "windows:4000"), "4000"),
        (("segment", "PICTURE", "--engine", "nuts"), "engine"),
        (("segment", "PICTURE", "--topics", "0"), "topics"),
        (("segment", "PICTURE", "--set", "topic=3"), "Did you mean 'topics'"),
        (("segment", "PICTURE", "--set", "topics"), "name=value"),
        (("segment", "PICTURE", "--settings", "missing.toml"), "missing.toml"),
        (("segment", "PICTURE", "--mask", "missing.png"), "missing.png"),
        (("apply", "PICTURE", "PICTURE"), "not a usable model file"),
    ],
)
def test_errors_are_one_line_with_exit_code_2(picture, tmp_path, arguments, says):
    filled = [str(picture) if argument == "PICTURE" else argument for argument in arguments]
    result = run(*filled, "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert says in result.output
    assert "Traceback" not in result.output
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_empty_is_refused_before_any_work(picture, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("", encoding="utf-8")
    result = run("segment", picture, "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert "not empty" in result.output


def test_a_stack_of_a_file_with_several_variables_is_read_as_options_say(tmp_path):
    scene = smooth_scene(40, 50, 2, 0.04, 0)[0]
    names, stack = ("z", "y", "x", "c"), np.stack([scene // 2, scene])
    group = zarr.create_group(tmp_path / "a.zarr")
    group.create_array("stack", shape=stack.shape, dtype="u1", dimension_names=names)[...] = stack
    group.create_array("other", shape=(5, 5), dtype="u1")
    asked = ("--key", "stack", "--z", "max", "--bands", "3,2,1")
    usual = ("-k", 2, "--documents", "windows:20", "--set", "refits=0")
    result = run("segment", tmp_path / "a.zarr", *asked, *usual, "--json", "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    settings = json.loads(result.stdout)["settings"]
    assert (settings["key"], settings["z"], settings["t"], settings["bands"]) == ("stack", "max", "all", "3,2,1")
    again = run("apply", tmp_path / "out", tmp_path / "a.zarr", "--json", "--out", tmp_path / "again")
    assert json.loads(again.stdout)["pictures"][0]["sha256"] == json.loads(result.stdout)["pictures"][0]["sha256"]
    first = run("apply", tmp_path / "out", tmp_path / "a.zarr", "--z", 1, "--json", "--out", tmp_path / "first")
    assert json.loads(first.stdout)["settings"]["z"] == 1
    for option, says in ((("--z", 3), "has 2 slices, and z=3"), (("--key", "stock"), "It holds: other (5, 5), stack")):
        refused = run("segment", tmp_path / "a.zarr", *asked, *option, "--out", tmp_path / "no")
        assert refused.exit_code == 2
        assert says in refused.output


def test_a_pattern_is_many_pictures_and_those_that_cannot_be_read_are_named_at_the_end(picture, tmp_path):
    folder = tmp_path / "scans"
    folder.mkdir()
    for name in ("s10.png", "s9.png"):
        shutil.copy(picture, folder / name)
    (folder / "s11.png").write_bytes(b"\x89PNG cut short")
    usual = ("-k", 2, "--documents", "windows:20", "--set", "refits=0")
    result = run("segment", folder / "*.png", *usual, "--out", tmp_path / "out")
    assert result.exit_code == 3, result.output
    assert result.stderr.rstrip().splitlines()[-1].startswith(f"Left out: {folder / 's11.png'} cannot be read")
    assert [path.name for path in sorted((tmp_path / "out").glob("0*"))] == ["001-s9", "002-s10"]
    applied = run("apply", tmp_path / "out", folder, "--json", "--out", tmp_path / "applied")
    assert applied.exit_code == 3
    assert [each["path"] for each in json.loads(applied.stdout)["left_out"]] == [str(folder / "s11.png")]
    (folder / "s11.png").unlink()
    assert run("segment", folder, *usual, "--out", tmp_path / "all").exit_code == 0
    nothing = run("segment", folder / "*.tif", "--out", tmp_path / "no")
    assert nothing.exit_code == 2
    assert "No file matches" in nothing.output
    assert not (tmp_path / "no").exists()
