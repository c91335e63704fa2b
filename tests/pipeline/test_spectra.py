"""Pictures of many bands at the defaults: shares of materials, in memory, in tiles and in other pictures."""

from pathlib import Path

import numpy as np
import pytest
import xarray
from scipy.optimize import linear_sum_assignment

from pmlda import Segmentation, segment
from pmlda.evaluation.experiments.spectra import KINDS, made_up_cube, read_cubes
from pmlda.metrics import match_topics, spectral_angle
from pmlda.pipeline.shares import Found, to_shares
from pmlda.recipe import model_facts

REAL = Path(__file__).parents[3] / "shared" / "data" / "hsi"


def error(found, cube):
    """Root mean squared error of shares, with materials matched."""
    z, truth = (np.asarray(each, float).reshape(-1, 3) for each in (found.memberships, cube.abundances))
    cost = ((z[:, :, None] - truth[:, None, :]) ** 2).mean(axis=0)
    return float(np.sqrt(cost[linear_sum_assignment(cost)].mean()))


# ── how good ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("kind", "most"), [("shade", 0.035), ("variety", 0.05), ("dark water", 0.09)])
def test_shares_of_made_up_materials_are_found(kind, most):
    assert list(KINDS) == ["shade", "dark water", "variety"]  # all of them
    for size, seed in ((40, 0), (40, 1), (80, 2)):
        cube = made_up_cube(size, kind, seed)
        assert error(segment(cube.pixels, 3), cube) < most


@pytest.mark.skipif(not REAL.is_dir(), reason="needs Samson and Moffett in ../shared/data/hsi")
@pytest.mark.parametrize("seed", range(2))
def test_shares_of_published_pictures_are_found(seed):
    for cube, most in zip(read_cubes(REAL), (0.047, 0.030), strict=True):
        assert error(segment(cube.pixels, 3, random_state=seed), cube) <= most


def test_topics_are_spectra_in_the_units_of_the_bands():
    cube = made_up_cube(40, "shade", 0)
    found = segment(1000.0 * cube.pixels, 3)
    assert found.topics.shape == (3, 80)
    assert found.feature_names == found.images[0].bands
    order = match_topics(found.memberships.reshape(-1, 3), cube.abundances.reshape(-1, 3))
    assert spectral_angle(found.topics[order], cube.endmembers).max() < 0.05
    lengths = np.linalg.norm(1000.0 * cube.pixels, axis=2)
    np.testing.assert_allclose(np.linalg.norm(found.topics, axis=1), lengths.mean(), rtol=1e-9)


def test_where_spectra_keep_their_light_topics_are_as_bright_as_their_materials():
    cube = made_up_cube(40, "dark water", 0)
    found = segment(cube.pixels, 3)
    order = match_topics(found.memberships.reshape(-1, 3), cube.abundances.reshape(-1, 3))
    bright = np.linalg.norm(found.topics[order], axis=1)
    np.testing.assert_allclose(bright, np.linalg.norm(cube.endmembers, axis=1), atol=0.15)


@pytest.mark.parametrize("n_bands", [2, 4])
@pytest.mark.parametrize("n_topics", [1, 2, 3, 5])
def test_few_bands_and_any_number_of_topics_give_maps(n_bands, n_topics):
    pixels = made_up_cube(20, "shade", 0).pixels[:, :, :: 80 // n_bands]
    found = segment(pixels, n_topics)
    assert found.topics.shape == (n_topics, n_bands)
    np.testing.assert_allclose(found.memberships.sum(axis=2), 1.0, atol=1e-5)


# ── everywhere the same ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", ["shade", "dark water"])
def test_shares_tile_by_tile_are_those_in_memory_and_so_are_other_pictures(kind, tmp_path):
    cube = made_up_cube(100, kind, 0)
    cube.pixels[3:9, 40:50] = np.nan
    plain = segment(cube.pixels, 3)
    tiles = segment(cube.pixels, 3, out=tmp_path / "maps.zarr", block=64)
    assert tiles.record["tiles"] > 1
    np.testing.assert_allclose(tiles.memberships[:], plain.memberships, atol=1e-5)
    np.testing.assert_allclose(tiles.uncertainty[:], plain.uncertainty, atol=1e-3)  # kept in float16
    np.testing.assert_allclose(tiles.topics, plain.topics, atol=1e-5)
    order = np.lexsort(plain.proportions.T), np.lexsort(np.asarray(tiles.proportions).T)
    np.testing.assert_allclose(np.asarray(tiles.proportions)[order[1]], plain.proportions[order[0]], atol=1e-4)
    for found in (plain, tiles):
        again = found.apply(cube.pixels)
        np.testing.assert_allclose(again.memberships, plain.memberships, atol=1e-5)
        np.testing.assert_allclose(again.uncertainty, plain.uncertainty, atol=1e-5)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_samplers_draw_memberships_and_give_shares_too(tmp_path):
    cube = made_up_cube(64, "shade", 1)
    for out in (None, tmp_path / "maps.zarr"):
        found = segment(cube.pixels, 3, engine="gibbs", sweeps=40, out=out, block=64)
        weights = found.recipe.share_weights
        assert error(found, cube) < 0.03
        undone = to_shares(np.asarray(found.memberships[:]).reshape(-1, 3), 1.0 / weights)
        np.testing.assert_allclose(
            to_shares(undone, weights), np.asarray(found.memberships[:]).reshape(-1, 3), atol=1e-6
        )
        drawn = Segmentation(**{**found.__dict__, "membership_maps": [undone.reshape(64, 64, 3)]})
        assert error(drawn, cube) > 1.5 * error(found, cube)  # memberships on the plane are not the shares


def test_a_result_folder_and_a_model_file_tell_the_spectra(tmp_path):
    cube = made_up_cube(20, "shade", 0)
    found = segment(cube.pixels, 3, out=tmp_path / "maps")
    again = Segmentation.load(tmp_path / "maps")
    np.testing.assert_array_equal(again.topics, found.topics)
    assert again.feature_names == found.feature_names
    facts = model_facts(tmp_path / "maps" / "model.pmlda")
    assert facts["features"] == list(found.feature_names)
    np.testing.assert_array_equal(facts["topic_means"], found.topics)
    np.testing.assert_allclose(again.apply(cube.pixels).memberships, found.memberships, atol=1e-6)


# ── shares ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_deviations_of_shares_are_those_of_dirichlet_draws():
    rng = np.random.default_rng(0)
    weights = np.array([0.5, 1.0, 3.0])
    for concentration in ([40.0, 30.0, 30.0], [200.0, 2.0, 1.0], [5.0, 300.0, 60.0]):
        draws = rng.dirichlet(concentration, 100_000)
        found = Found(draws.mean(axis=0)[None], draws.std(axis=0)[None]).as_shares(weights)
        drawn = to_shares(draws, weights)
        np.testing.assert_allclose(found.memberships[0], drawn.mean(axis=0), atol=0.01)
        np.testing.assert_allclose(found.std[0], drawn.std(axis=0), rtol=0.15)


def test_shares_of_certain_memberships_are_certain_and_keep_their_type():
    found = Found(np.eye(3, dtype=np.float32), np.zeros((3, 3), np.float32)).as_shares(np.array([0.1, 1.0, 9.0]))
    np.testing.assert_array_equal(found.memberships, np.eye(3))
    np.testing.assert_array_equal(found.std, 0.0)
    assert found.memberships.dtype == found.std.dtype == np.float32


def test_a_netcdf_with_its_bands_last_has_the_maps_of_its_cube_in_memory_and_in_tiles(tmp_path):
    cube = made_up_cube(70, "shade", 0).pixels[:, :24, :8].astype(np.float32)
    named = xarray.DataArray(cube, dims=("y", "x", "wavelength"), name="reflectance")
    named.to_netcdf(tmp_path / "a.nc", engine="scipy")
    expected = segment(cube, 3, refits=0).memberships
    for out in (None, tmp_path / "maps.zarr"):
        found = segment(tmp_path / "a.nc", 3, refits=0, out=out, block=64)
        np.testing.assert_allclose(np.asarray(found.memberships), expected, atol=1e-5)
