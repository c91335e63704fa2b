"""Unmixing: corners, constrained least squares, forms of spectra, and whole pictures."""

from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import nnls
from typer.testing import CliRunner

from pmlda.cli import app
from pmlda.errors import DataError
from pmlda.evaluation.experiments import unmixing
from pmlda.evaluation.experiments.endmembers import constrained_least_squares, vertex_components
from pmlda.evaluation.experiments.spectra import (
    KINDS,
    Cube,
    made_up_cube,
    read_cube,
    read_cubes,
)
from pmlda.evaluation.experiments.unmixing import (
    BLIND,
    OURS,
    PAPER,
    RIVALS,
    TOLD,
    Runs,
    Unmixed,
    best_scores,
    ours,
    score,
)
from pmlda.features.spectral import to_form

REAL = Path(__file__).parents[4] / "shared" / "data" / "hsi"


def corners_and_mixtures(n_materials, n_bands, seed, noise=0.0):
    """(K, B) random materials, and (N, B) mixtures of which the first K are pure."""
    rng = np.random.default_rng(seed)
    materials = rng.uniform(0.1, 1.0, (n_materials, n_bands))
    shares = np.vstack([np.eye(n_materials), rng.dirichlet(np.ones(n_materials), 300)])
    return materials, shares @ materials + noise * rng.normal(size=(len(shares), n_bands)), shares


def in_one_order(spectra):
    return spectra[np.argsort(spectra[:, 0])]


# ── vertex component analysis ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("affine", [True, False, None])
@pytest.mark.parametrize(("n_materials", "n_bands"), [(2, 2), (3, 20), (6, 40)])
def test_where_every_material_has_a_pure_pixel_vca_finds_all_of_them_from_every_start(n_materials, n_bands, affine):
    materials, spectra, _ = corners_and_mixtures(n_materials, n_bands, seed=n_bands)
    for found in vertex_components(spectra, n_materials, 5, affine=affine):
        np.testing.assert_allclose(in_one_order(found), in_one_order(materials), atol=1e-9)


def test_on_a_plane_vca_does_not_mind_light_and_shade():
    materials, spectra, _ = corners_and_mixtures(3, 20, seed=0)
    light = np.random.default_rng(1).uniform(0.2, 2.0, len(spectra))[:, None]
    (found,) = vertex_components(light * spectra, 3, affine=False)
    np.testing.assert_allclose(
        to_form(in_one_order(found), "unit"), to_form(in_one_order(light[:3] * materials), "unit"), atol=1e-9
    )


def test_vca_takes_the_plane_where_noise_is_small_and_principal_components_where_it_is_large():
    _, spectra, _ = corners_and_mixtures(3, 50, seed=0)
    noise = np.random.default_rng(2).normal(size=spectra.shape)
    for size, affine in ((1e-4, False), (1.0, True)):
        noisy = spectra + size * noise
        np.testing.assert_array_equal(vertex_components(noisy, 3)[0], vertex_components(noisy, 3, affine=affine)[0])


def test_more_materials_than_bands_are_refused():
    with pytest.raises(ValueError, match="9 materials were asked for in 20 spectra of 4 bands"):
        vertex_components(np.ones((20, 4)), 9)


# ── constrained least squares ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("n_materials", [1, 2, 3, 5])
def test_mixtures_without_noise_give_back_their_shares(n_materials):
    materials, spectra, shares = corners_and_mixtures(n_materials, 12, seed=0)
    np.testing.assert_allclose(constrained_least_squares(spectra, materials), shares, atol=1e-8)


def test_noisy_mixtures_have_the_answer_of_a_general_solver():
    materials, spectra, _ = corners_and_mixtures(4, 12, seed=0, noise=0.3)
    found = constrained_least_squares(spectra, materials)
    assert (found == 0).any(axis=1).mean() > 0.3  # the constraint binds for many
    heavy = 1e4  # a row of ones that weighs so much makes the sum one
    system = np.vstack([materials.T, np.full(4, heavy)])
    expected = np.array([nnls(system, np.append(x, heavy))[0] for x in spectra])
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert (found >= 0).all()
    np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=1e-12)


def test_two_materials_that_are_the_same_still_have_an_answer():
    alike = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    found = constrained_least_squares(np.array([[0.6, 0.4]]), alike)
    np.testing.assert_allclose(found @ alike, [[0.6, 0.4]], atol=1e-9)


def test_spectra_and_materials_of_unequal_bands_are_refused():
    with pytest.raises(ValueError, match=r"spectra have shape \(5, 3\) and endmembers \(2, 4\)"):
        constrained_least_squares(np.ones((5, 3)), np.ones((2, 4)))


# ── made-up pictures ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", KINDS)
def test_a_made_up_picture_is_its_shares_of_its_materials_in_light_and_noise(kind):
    cube = made_up_cube(40, kind, 0)
    np.testing.assert_allclose(cube.abundances.sum(axis=2), 1.0)
    assert 0.2 < (cube.abundances.max(axis=2) < 0.9).mean() < 0.6  # soft pixels
    assert (cube.abundances.max(axis=(0, 1)) > 0.98).all()  # nearly pure ones
    mixed = cube.abundances @ cube.endmembers
    light = (cube.pixels * mixed).sum(axis=2, keepdims=True) / (mixed**2).sum(axis=2, keepdims=True)
    left = cube.pixels - light * mixed
    allowed = {"shade": 0.004, "dark water": 0.004, "variety": 0.02}[kind]
    assert left.std() < 1.1 * allowed


@pytest.mark.parametrize("kind", KINDS)
def test_abundances_are_told_better_by_pmlda_than_by_any_rival_that_is_not_told_the_materials(kind):
    # At full size, the seed that the command tries first; the command does the same for ten.
    cube = made_up_cube(unmixing.SIZE, kind, list(KINDS).index(kind))
    best = best_scores(cube, unmixing.all_runs(cube, 1, small=False))
    assert set(best) == {OURS, PAPER, *RIVALS, TOLD}
    assert best[OURS].median < min(best[model].median for model in RIVALS)
    assert best[OURS].median < 0.08
    if kind != "variety":  # knowing the materials helps, if they are the same everywhere
        assert best[TOLD].median < best[OURS].median


def test_materials_are_matched_and_the_median_of_several_starts_is_reported():
    truth = np.random.default_rng(0).dirichlet([1.0, 1.0], (6, 7))
    cube = Cube("plain", truth @ np.eye(2), truth, np.eye(2), ("soil", "tree"))
    exact = truth.reshape(-1, 2)
    found = [Unmixed((1 - e) * exact[:, ::-1] + e / 2, 3.0 * np.eye(2)[::-1]) for e in (0.2, 0.0, 0.4)]
    scored = score(Runs("model", "", "", found), cube)
    assert scored.rmse[0] == 0.0
    assert scored.median == scored.rmse[1] == pytest.approx(scored.rmse[2] / 2)
    np.testing.assert_allclose(scored.typical.shares, 0.8 * exact + 0.1)
    np.testing.assert_allclose(scored.angles, 0.0, atol=1e-12)


# ── files ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def arrays(kind="shade"):
    cube = made_up_cube(unmixing.SMALL_SIZE, kind, 0)
    return {
        "cube": cube.pixels.astype(np.float32),
        "abundances": cube.abundances.astype(np.float32),
        "endmembers": cube.endmembers,
        "names": np.array(cube.materials),
    }


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "hsi").mkdir()
    for name, kind in (("samson", "shade"), ("moffett", "dark water")):
        np.savez(tmp_path / "hsi" / f"{name}.npz", **arrays(kind))
    return tmp_path / "hsi"


def test_both_pictures_are_read_from_their_folder_or_from_the_one_above(folder):
    for one, other in zip(read_cubes(folder), read_cubes(folder.parent), strict=True):
        np.testing.assert_array_equal(one.pixels, other.pixels)
    assert [cube.name for cube in read_cubes(folder)] == ["Samson", "Moffett"]


def test_every_model_is_measured_on_both_pictures(folder):
    outcome = unmixing.run(folder, 1, True)
    models = [OURS, PAPER, BLIND, TOLD, "FCM", "GMM"]
    assert sorted((row["picture"], row["model"]) for row in outcome.rows) == sorted(
        (picture, model) for picture in ("Samson", "Moffett") for model in models
    )
    assert {row["setting"] for row in outcome.rows if row["model"] == OURS} == {"spectra: plane", "spectra: raw"}
    assert set(outcome.figures) == {"samson", "samson-spectra", "moffett", "moffett-spectra"}
    assert "Samson: PM-LDA's abundance error is" in outcome.remark


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"abundances": np.full((5, 7, 3), 1 / 3)}, r"cube \(20, 20, 80\), abundances \(5, 7, 3\).*Expected"),
        ({"endmembers": np.ones((3, 4))}, r"endmembers \(3, 4\)"),
        ({"names": np.array(["soil", "tree"])}, r"names \(2,\)"),
        ({"cube": np.ones((20, 20))}, r"cube \(20, 20\)"),
        ({"abundances": np.full((20, 20, 3), 0.5)}, "do not sum to 1"),
        ({"cube": np.full((20, 20, 80), np.nan)}, "NaN"),
    ],
)
def test_arrays_that_do_not_fit_each_other_are_refused(tmp_path, changed, words):
    np.savez(tmp_path / "samson.npz", **arrays() | changed)
    with pytest.raises(DataError, match=words):
        read_cube(tmp_path / "samson.npz", "Samson")


def refusal(folder, tmp_path):
    """The one line of a command that must fail and write nothing."""
    command = ["reproduce", "unmixing", "--data", str(folder), "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 2, result.output
    assert not (tmp_path / "out").exists()
    assert len(result.stderr.strip().splitlines()) == 1
    return result.stderr


def test_a_folder_that_lacks_a_picture_says_which_and_what_it_has(folder, tmp_path):
    (folder / "moffett.npz").rename(folder / "cuprite.npz")
    told = refusal(folder, tmp_path)
    assert "lacks moffett.npz" in told
    assert "Found: cuprite.npz, samson.npz" in told


def test_a_file_that_lacks_an_array_says_what_was_expected(folder, tmp_path):
    np.savez(folder / "samson.npz", cube=np.ones((4, 4, 5)))
    told = refusal(folder, tmp_path)
    assert "holds cube" in told
    assert "cube, abundances, endmembers, names" in told


# ── the real pictures ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.skipif(not REAL.is_dir(), reason="real pictures are read from ../shared/data/hsi, which is not there")
@pytest.mark.parametrize(("index", "form", "bar"), [(0, "plane", 0.05), (1, "raw", 0.04)], ids=["Samson", "Moffett"])
def test_abundances_of_a_real_picture_are_as_near_to_the_published_ones_as_the_docs_say(index, form, bar):
    cube = read_cubes(REAL)[index]
    found = score(ours(cube, [0]), cube)
    assert found.runs.setting == f"spectra: {form}"
    assert found.median <= bar
    blind = best_scores(cube, unmixing.least_squares(cube, form, small=False))[BLIND]
    assert found.median < blind.median
