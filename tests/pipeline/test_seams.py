"""Tiles cannot be seen: maps of a run tile by tile are those of the picture in one piece, whatever the features."""

import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy.ndimage import uniform_filter

from pmlda import segment
from pmlda.output import stored
from pmlda.partitions import border_jump
from pmlda.pipeline.tiles import plan_tiles
from pmlda.settings import make_settings
from tests.pipeline.common import SHAPE, scene

# Fits need not settle to be compared.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
QUICK = {"sweeps": 12, "refits": 0}


@pytest.fixture(autouse=True)
def _without_figures(monkeypatch):
    """A second of each run that has nothing to do with seams."""
    monkeypatch.setattr(stored.figures, "overview", lambda small, index: Figure())
    monkeypatch.setattr(stored, "write_report", lambda small, index, path: None)


def local_mean(pixels):
    """Looks three pixels far."""
    return uniform_filter(pixels.astype(np.float64), size=(7, 7, 1), mode="nearest")


def grey():
    """Noise on the left, ripples on the right."""
    noise, x = np.random.default_rng(0).normal(size=SHAPE), np.arange(SHAPE[1])
    return np.where(x < 90, noise, np.sin(x / 2.0) + 0.3 * noise)


def with_holes():
    """NaN in places of all sizes, over borders of tiles; the third tile of the first row has no data at all."""
    pixels = scene() / 255.0
    pixels[40:110, 50:70] = pixels[:7] = pixels[:64, 128:] = pixels[::9, ::5] = np.nan
    return pixels


def late():
    """The first tile has no data."""
    pixels = scene() / 255.0
    pixels[:64, :64] = np.nan
    return pixels


def mirrored():
    """Six bands; the largest entries of the first principal axis are equal but for their sign."""
    return np.concatenate([scene() / 255.0, scene()[::-1] / 255.0], axis=2)


def mask():
    used = np.ones(SHAPE)
    used[30:100, 50:75] = used[60:70] = used[::7, ::5] = 0
    return used


CASES = {
    "color": (scene, {"features": "color", "refits": 3}),
    "color, one document": (scene, {"features": "color", "documents": "whole"}),
    "color, one document, a first tile without data": (late, {"features": "color", "documents": "whole"}),
    "color+texture": (scene, {"features": "color+texture", "documents": "windows:16x32"}),
    "color+texture, NaN": (with_holes, {"features": "color+texture"}),
    "sonar, NaN": (lambda: with_holes().mean(axis=2), {"features": "sonar"}),
    "sonar+ripple": (grey, {"features": "sonar+ripple"}),
    "winn:energy, masked": (scene, {"features": "winn:energy", "mask": mask()}),
    "grain, one document": (scene, {"features": "grain", "documents": "whole"}),
    "sunset, masked": (scene, {"features": "sunset", "mask": mask()}),
    "spectral:pca2": (mirrored, {"features": "spectral:pca2"}),
    "a function, masked": (scene, {"features": local_mean, "halo": 3, "mask": mask()}),
    "no blending": (scene, {"features": "color", "blend": 0.0}),
    "few of many pixels": (scene, {"features": "color", "documents": "windows:32", "sample": 500}),
}


@pytest.mark.parametrize(("picture", "settings"), CASES.values(), ids=CASES.keys())
def test_maps_tile_by_tile_are_those_of_the_picture_in_one_piece(picture, settings, tmp_path):
    settings = {"documents": "windows:16"} | QUICK | settings
    plain = segment(picture(), 3, **settings)
    tiles = segment(picture(), 3, out=tmp_path / "maps.zarr", block=64, **settings)
    np.testing.assert_allclose(tiles.memberships[:], plain.memberships, atol=1e-6)
    np.testing.assert_allclose(tiles.uncertainty[:], plain.uncertainty, atol=1e-3)  # kept in float16
    np.testing.assert_array_equal(tiles.labels[:], plain.labels)
    np.testing.assert_allclose(tiles.topics, plain.topics, atol=1e-6)
    # Documents are the same, and numbered from tile to tile.
    numbers, used = tiles.documents[:], plain.documents >= 0
    np.testing.assert_array_equal(numbers >= 0, used)
    pairs = np.unique(np.stack([numbers[used], plain.documents[used]]), axis=1)
    assert pairs.shape[1] == len(plain.proportions) == len(tiles.proportions)
    np.testing.assert_allclose(tiles.proportions[pairs[0]], plain.proportions[pairs[1]], atol=1e-6)
    np.testing.assert_allclose(tiles.scales[pairs[0]], plain.scales[pairs[1]], rtol=1e-5)


def test_one_tile_gives_the_maps_of_many(tmp_path):
    maps = [
        segment(with_holes(), 3, out=tmp_path / f"{block}.zarr", block=block, documents="windows:16", **QUICK)
        for block in (64, 80, 1024)
    ]
    assert [found.record["tiles"] for found in maps] == [6, 4, 1]
    for found in maps[1:]:
        np.testing.assert_allclose(found.memberships[:], maps[0].memberships[:], atol=1e-6)


def gradient(height, width):
    """From one colour to another, with a little noise."""
    x = np.linspace(0.0, 1.0, width)[:, None]
    colours = (1.0 - x) * np.array([0.2, 0.3, 0.6]) + x * np.array([0.9, 0.6, 0.3])
    noise = 0.01 * np.random.default_rng(0).normal(size=(height, width, 3))
    return np.clip(np.tile(colours, (height, 1, 1)) + noise, 0.0, 1.0)


def test_superpixels_end_at_tiles_without_a_seam(tmp_path):
    """Jumps over borders of tiles are no larger than over borders of documents inside them."""
    settings = {"documents": "slic:60", "block": 64}
    found = segment(gradient(200, 300), 2, out=tmp_path / "maps.zarr", **settings)
    maps, documents = found.memberships[:], found.documents[:]
    numbers, within, seen = np.zeros((200, 300), np.int64), [], []
    for tile in plan_tiles((200, 300), make_settings(settings)).tiles:
        here = (tile.rows, tile.columns)
        numbers[here] = tile.number
        within.append(border_jump(maps[here], documents[here])[0])
        seen += np.unique(documents[here]).tolist()
    assert len(within) == 15
    assert seen == list(range(len(found.proportions)))  # none is in two tiles
    across, inside = border_jump(maps, numbers)
    assert across <= np.nanmean(within)
    assert across < 1.5 * inside
