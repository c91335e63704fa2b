"""Results as tables: shares of topics with their intervals, and topics by feature, as csv.reader reads them."""

import csv
import json

import numpy as np
import pytest
from typer.testing import CliRunner

from pmlda import segment
from pmlda.cli import app
from pmlda.evaluation.scenes import smooth_scene
from pmlda.images.area import IN_DEGREES, pixel_area
from pmlda.metrics import match_topics
from pmlda.segmentation import Segmentation
from pmlda.types import Georeference, Image

NAMES = ('sand, "wet"', "rock; 2")


def read(path):
    """The rows of a table, by its head."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def placed(seed=0, crs="EPSG:32632", size=(40, 56), name='a, "b"\nc.png'):
    """A scene with pixels of 2 × 3 units, and a hole."""
    rasterio = pytest.importorskip("rasterio")
    place = Georeference(rasterio.CRS.from_string(crs).to_wkt(), (2.0, 0.0, 500_000.0, 0.0, -3.0, 5_300_000.0))
    valid = np.ones(size, bool)
    valid[:10, :5] = False
    return Image(smooth_scene(*size, 2, 0.04, seed)[0], valid, ("red", "green", "blue"), name, place)


@pytest.fixture(scope="module")
def found():
    return segment(placed(), 2, documents="windows:20", names=NAMES, refits=3)


@pytest.fixture(scope="module")
def folder(found, tmp_path_factory):
    return found.save(tmp_path_factory.mktemp("tables") / "out")


def test_a_share_is_the_mean_of_its_map_in_pixels_and_on_the_map(found, folder):
    rows = read(folder / "shares.csv")
    assert [row["topic"] for row in rows] == list(NAMES)
    assert {row["picture"] for row in rows} == {'a, "b"\nc.png'}
    for k, (row, share) in enumerate(zip(rows, found.shares, strict=True)):
        mean = np.nanmean(found.memberships[..., k], dtype=np.float64)
        assert float(row["share"]) == share.share == pytest.approx(mean, abs=1e-6)
        assert share.low < share.share < share.high
        assert (float(row["low 90 %"]), float(row["high 90 %"])) == (share.low, share.high)
        assert float(row["pixels"]) == pytest.approx(mean * (40 * 56 - 50))
        assert (float(row["area"]), row["area unit"]) == (pytest.approx(6.0 * float(row["pixels"])), "m²")


def test_the_record_and_a_loaded_result_tell_the_same_shares(found, folder):
    record = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    assert record["pictures"][0]["shares"] == [share._asdict() for share in found.shares]
    assert Segmentation.load(folder).shares == found.shares


def test_degrees_are_no_unit_of_area(tmp_path):
    found = segment(placed(crs="EPSG:4326"), 2, documents="windows:20")
    assert {(share.area, share.unit) for share in found.shares} == {(None, IN_DEGREES)}
    rows = read(found.save(tmp_path / "out") / "shares.csv")
    assert {(row["area"], row["area unit"]) for row in rows} == {("", IN_DEGREES)}


@pytest.mark.parametrize(
    ("crs", "unit"), [("EPSG:2263", "US survey ft²"), ("", "map unit²"), ("nonsense", "map unit²")]
)
def test_areas_are_in_the_unit_of_the_coordinate_system(crs, unit):
    assert pixel_area(Georeference(crs, (2.0, 1.0, 0.0, 1.0, -2.0, 0.0))) == (5.0, unit)


def test_one_table_holds_all_pictures(tmp_path):
    pictures = [smooth_scene(30, 40, 2, 0.04, seed)[0] for seed in (0, 1)]
    found = segment(pictures, 2, documents="windows:20")
    out = found.save(tmp_path / "out")
    rows = read(out / "shares.csv")
    assert len(rows) == 4
    assert [float(row["share"]) for row in rows] == [share.share for shares in found.shares for share in shares]
    for index, part in enumerate(sorted(path for path in out.iterdir() if path.is_dir())):
        assert read(part / "shares.csv") == rows[2 * index : 2 * index + 2]
    assert Segmentation.load(out).shares == found.shares


@pytest.mark.parametrize("suffix", ["zarr", "tif"])
def test_tiles_have_a_table_of_the_whole_picture(suffix, tmp_path):
    picture, out = placed(size=(70, 90), name="scene"), tmp_path / f"maps.{suffix}"
    tiles = segment(picture, 2, block=64, documents="windows:20", out=out)
    table = out / "shares.csv" if suffix == "zarr" else tmp_path / "maps-shares.csv"
    for k, (row, share) in enumerate(zip(read(table), tiles.shares, strict=True)):
        assert share.share == pytest.approx(np.nanmean(tiles.memberships[:][..., k], dtype=np.float64), abs=1e-6)
        assert share.pixels == pytest.approx(share.share * (70 * 90 - 50))
        assert (float(row["share"]), row["picture"], row["area unit"]) == (share.share, "scene", "m²")
    assert Segmentation.load(out).shares == tiles.shares


def test_a_model_without_uncertainty_leaves_intervals_empty(tmp_path):
    found = segment(smooth_scene(30, 40, 2, 0.04, 0)[0], 2, model="fcm")
    assert all(share.low is None and share.high is None for share in found.shares)
    assert {row["low 90 %"] for row in read(found.save(tmp_path / "out") / "shares.csv")} == {""}


def test_topics_are_known_as_well_as_refits_agree(found, folder):
    rows = read(folder / "topics.csv")
    assert [(row["topic"], row["feature"]) for row in rows] == [(t, f) for t in NAMES for f in found.feature_names]
    np.testing.assert_array_equal([float(row["mean"]) for row in rows], found.topics.ravel())
    std = np.array([float(row["standard deviation"]) for row in rows])
    spread = np.array([found.recipe.to_features(means) for means in found.recipe.model.refits_.means]).std(axis=0)
    assert (std > 0).all()
    np.testing.assert_array_equal([value.std for value in Segmentation.load(folder).topic_values], std)
    assert ((std > 0.9 * spread.ravel()) & (std < 3.0 * spread.ravel() + 1.0)).all()


def test_wavelengths_have_a_column_of_their_own(tmp_path):
    bands = ("450 nm", "0.55 µm", "650 nm", "750 nm")
    rng = np.random.default_rng(0)
    cube = rng.dirichlet([0.5, 0.5], (20, 30)) @ rng.random((2, 4)) + 0.01 * rng.normal(size=(20, 30, 4))
    found = segment(Image(cube, np.ones((20, 30), bool), bands, "cube"), 2, features="spectral")
    rows = read(found.save(tmp_path / "out") / "topics.csv")
    assert [row["feature"] for row in rows[:4]] == list(bands)
    assert [float(row["wavelength nm"]) for row in rows[:4]] == [450.0, 550.0, 650.0, 750.0]


def test_the_command_prints_the_shares(tmp_path):
    out = tmp_path / "out"
    runner = CliRunner()
    runner.invoke(app, ["simulate", "--out", str(tmp_path / "scene"), "--size", "40", "-k", "2"])
    picture = str(tmp_path / "scene" / "picture.png")
    result = runner.invoke(app, ["segment", picture, "-k", "2", "--out", str(out), "--json"])
    shares = json.loads(result.stdout)["pictures"][0]["shares"]
    assert [share["topic"] for share in shares] == ["topic 1", "topic 2"]
    assert sum(share["share"] for share in shares) == pytest.approx(1.0, abs=1e-6)
    assert all("area" not in share for share in shares)  # nothing is known of the map


def test_intervals_contain_the_true_shares():
    """8 shares of 4 scenes. If 90 % are inside, fewer than 5 of 8 are so by chance in 1 of 200 tests."""
    inside = []
    for seed in range(4):
        picture, truth = smooth_scene(40, 40, 2, 0.05, seed)
        found = segment(picture, 2)
        true = truth.mean(axis=(0, 1), dtype=np.float64)
        order = match_topics(found.memberships.astype(np.float64), truth.astype(np.float64))
        inside += [found.shares[k].low <= true[j] <= found.shares[k].high for j, k in enumerate(order)]
        assert found.shares[0].high - found.shares[0].low < 0.25
    assert sum(inside) >= 5
