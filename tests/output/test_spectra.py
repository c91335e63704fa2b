"""Spectra of topics: a figure, matches in a library, and residuals that show what is none of the topics."""

import csv
import json

import numpy as np
import pytest
from typer.testing import CliRunner

from pmlda import segment
from pmlda.cli import app
from pmlda.errors import InputError
from pmlda.evaluation.scenes import smooth_scene
from pmlda.images import read_image
from pmlda.images.library import Spectra
from pmlda.matching import at_common_bands, spectral_angles
from pmlda.output.spectra import spectral_lines
from pmlda.segmentation import Segmentation
from pmlda.types import Image

AT = np.linspace(450.0, 2400.0, 24)
MATERIALS = {
    "water": 0.05 + 0.3 * np.exp(-(((AT - 500.0) / 300.0) ** 2)),
    'soil, "dry"': 0.2 + 0.3 * (AT - 450.0) / 2000.0,
    "leaf": 0.1 + 0.5 * np.exp(-(((AT - 1000.0) / 250.0) ** 2)),
}
STRANGE = np.s_[10:14, 20:25]


def make_cube():
    """Mixtures of three materials with noise of 0.01, and a patch of a fourth."""
    truth = smooth_scene(32, 40, 3, 0.0, 3)[1]
    cube = truth @ np.array(list(MATERIALS.values()))
    cube[STRANGE] = 0.2 + 0.5 * np.exp(-(((AT - 1900.0) / 100.0) ** 2))
    cube += 0.01 * np.random.default_rng(0).normal(size=cube.shape)
    return Image(cube, np.ones(cube.shape[:2], bool), tuple(f"{at:g} nm" for at in AT), "cube")


def write_library(path, unit="nm", factor=1.0, at=AT):
    """The materials and one more, in other units of brightness."""
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow([f"wavelength ({unit})", *MATERIALS, "quartz"])
        columns = [1000.0 * each for each in MATERIALS.values()]
        table.writerows([a * factor, *(c[i] for c in columns), 400.0 + 90.0 * (i % 2)] for i, a in enumerate(at))
    return path


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return write_library(tmp_path_factory.mktemp("library") / "minerals.csv")


@pytest.fixture(scope="module")
def found(library):
    return segment(make_cube(), 3, library=library, refits=3)


@pytest.fixture(scope="module")
def folder(found, tmp_path_factory):
    return found.save(tmp_path_factory.mktemp("spectra") / "out")


def test_topics_are_named_by_the_entries_that_they_are_most_like(found, folder):
    assert {best[0].name for best in found.matches} == set(MATERIALS)
    assert all(best[0].angle < 3.0 < best[1].angle and best[0].n_bands == 24 for best in found.matches)
    with (folder / "topics.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["most similar"] for row in rows[::24]] == [best[0].name for best in found.matches]
    assert Segmentation.load(folder).matches == found.matches
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "Most like" in page
    assert "soil, &#34;dry&#34; (" in page


def test_a_library_in_micrometres_and_a_table_of_spectra_match_alike(found, tmp_path):
    again = found.match(write_library(tmp_path / "micrometres.csv", "µm", 0.001))
    for one, other in zip(again, found.matches, strict=True):
        assert [each.name for each in one] == [each.name for each in other]
        np.testing.assert_allclose([each.angle for each in one], [each.angle for each in other], atol=1e-6)
    assert len(found.match(MATERIALS, n=1)[0]) == 1


def test_only_bands_that_the_library_covers_are_compared():
    bands = [f"{at:g} nm" for at in (400.0, 500.0, 600.0, 700.0)]
    used, entries = at_common_bands(Spectra(("a",), np.array([[1.0, 3.0]]), np.array([500.0, 700.0])), bands, 4)
    assert used.tolist() == [1, 2, 3]
    assert entries.tolist() == [[1.0, 2.0, 3.0]]


@pytest.mark.parametrize(
    ("unit", "factor", "said"),
    [("nm", 10.0, "covers 0 of 24 bands"), ("nm", 0.001, "covers 0 of 24 bands"), ("cm", 1.0, "expected nm or µm")],
)
def test_a_library_of_other_wavelengths_or_units_is_refused(found, tmp_path, unit, factor, said):
    with pytest.raises(InputError, match=said):
        found.match(write_library(tmp_path / "other.csv", unit, factor))


def test_a_library_that_cannot_be_compared_is_refused_before_the_fit(library):
    with pytest.raises(InputError, match="24 values each, the picture has 3 bands"):
        segment(np.random.default_rng(0).random((8, 8, 3)), 2, features="spectral", library=library)
    with pytest.raises(InputError, match="are no spectra"):
        segment(np.random.default_rng(0).random((8, 8, 3)), 2, library=library)
    with pytest.raises(InputError, match="0 in all bands"):
        spectral_angles(np.ones((1, 2)), np.zeros((1, 2)))


def test_spectra_are_drawn_with_their_intervals(found, folder):
    assert read_image(folder / "spectra.png").pixels.shape[1] > 500
    lines = spectral_lines(found.recipe)
    np.testing.assert_allclose(lines.at, AT, rtol=1e-5)
    assert (lines.low < lines.mean).all()
    assert (lines.mean < lines.high).all()
    assert "Spectra of the topics; shaded" in (folder / "report.html").read_text(encoding="utf-8")


def test_lines_are_broken_where_bands_were_left_out(found):
    lines = spectral_lines(found.recipe)._replace(at=np.array([1.0, 2.0, 3.0, 30.0, 31.0]))
    assert lines.pieces() == [slice(0, 3), slice(3, 5)]


def test_pictures_of_colours_have_no_spectra(tmp_path):
    out = segment(smooth_scene(30, 30, 2, 0.04, 0)[0], 2).save(tmp_path / "out")
    assert not (out / "spectra.png").exists()
    assert "Spectra of the topics" not in (out / "report.html").read_text(encoding="utf-8")


def test_the_residual_is_one_where_the_model_fits_and_large_where_it_does_not(found, folder):
    far = np.zeros(found.residual.shape, bool)
    far[STRANGE] = True
    assert np.median(found.residual[~far]) == pytest.approx(1.0, abs=0.1)
    assert found.residual[far].min() > 3.0 > np.percentile(found.residual[~far], 99)
    assert read_image(folder / "residual.tif").bands == ("residual",)
    np.testing.assert_allclose(Segmentation.load(folder).residual, found.residual, rtol=1e-3)
    assert (folder / "maps" / "residual.png").exists()
    assert "What the topics do not explain" in (folder / "report.html").read_text(encoding="utf-8")


def test_another_picture_has_residuals_of_its_own(found):
    np.testing.assert_array_equal(found.apply(make_cube()).residual, found.residual)


@pytest.mark.parametrize("suffix", ["zarr", "tif"])
def test_residuals_and_spectra_of_tiles_lie_beside_the_maps(library, suffix, tmp_path):
    rng = np.random.default_rng(1)
    cube = make_cube()
    picture = cube._replace(pixels=np.tile(cube.pixels, (3, 3, 1)), valid=np.ones((96, 120), bool))
    picture.pixels[:] += 1e-3 * rng.normal(size=picture.pixels.shape)
    out = tmp_path / f"maps.{suffix}"
    tiles = segment(picture, 3, block=64, library=library, out=out)
    assert {best[0].name for best in tiles.matches} == set(MATERIALS)
    residual = np.asarray(tiles.residual[:], np.float32)
    assert residual.shape == (96, 120)
    assert residual[STRANGE].min() > 3.0 * np.median(residual)
    names = {path.name.removeprefix("maps-") for path in (out if suffix == "zarr" else tmp_path).iterdir()}
    assert {"spectra.png", "topics.csv", "shares.csv", "residual.tif" if suffix == "tif" else "residual"} <= names


def test_residuals_of_tiles_have_the_bits_of_the_whole_picture(tmp_path):
    picture = smooth_scene(100, 130, 2, 0.05, 0)[0]
    settings = {"documents": "windows:10", "blend": 0, "features": "color"}
    whole, tiles = segment(picture, 2, **settings), segment(picture, 2, block=64, out=tmp_path / "a.zarr", **settings)
    same = (whole.memberships == np.asarray(tiles.memberships[:])).all(axis=2)
    assert same.mean() > 0.99
    np.testing.assert_array_equal(np.asarray(tiles.residual[:])[same], whole.residual.astype(np.float16)[same])


def test_expected_spectra_are_those_of_the_topics_and_their_mixtures(found):
    np.testing.assert_allclose(found.inverse_transform(np.eye(3)), found.topics, rtol=1e-6)
    expected = found.inverse_transform()
    assert expected.shape == (32, 40, 24)
    assert np.isnan(found.inverse_transform([[np.nan] * 3])).all()
    with pytest.raises(InputError, match=r"give an array \(…, 3\)"):
        found.inverse_transform(np.ones((5, 2)))


def test_the_command_names_the_matches(library, tmp_path):
    np.savez(tmp_path / "cube.npz", cube=make_cube().pixels)
    command = ["segment", str(tmp_path / "cube.npz"), "-k", "3", "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(app, [*command, "--library", str(library), "--json"])
    assert result.exit_code == 0, result.output
    matches = json.loads(result.stdout)["matches"]
    assert {best[0]["name"] for best in matches} == set(MATERIALS)
    result = CliRunner().invoke(app, [*command[:-1], str(tmp_path / "other"), "--library", str(tmp_path / "none.csv")])
    assert result.exit_code == 2
    assert "There is no spectral library" in result.stderr
