"""Maps written strip by strip and read again."""

import subprocess
import sys

import numpy as np
import pytest
import rasterio
import tifffile

from pmlda.errors import ImageError
from pmlda.images import open_windowed, read_image, write_maps
from pmlda.images.tiles import write_tiled
from pmlda.types import Georeference
from tests.images.pictures import PLACE, without_rasterio

HEIGHT, WIDTH = 530, 520  # two strips of tiles, the second lower, and the tiles on the right narrower


def some_maps(n_maps):
    maps = np.random.default_rng(0).random((HEIGHT, WIDTH, n_maps), dtype=np.float32)
    maps[515:520, 30:40] = np.nan
    maps[:512, 512:] = np.nan  # a tile without data
    return maps


def part_of(maps):
    return lambda rows, band: maps[rows, :, band]


@pytest.mark.parametrize("n_maps", [1, 2, 3, 4])
@pytest.mark.parametrize("kind", ["geo", "plain", "plain without rasterio"])
def test_maps_come_back_bit_by_bit(tmp_path, monkeypatch, kind, n_maps):
    maps, path = some_maps(n_maps), tmp_path / "maps.tif"
    names, place = [f"sand µ {number}" for number in range(n_maps)], PLACE if kind == "geo" else None
    if kind == "plain without rasterio":
        without_rasterio(monkeypatch)
    write_tiled(path, maps.shape, names, part_of(maps), georeference=place, description="how much")
    for image in (read_image(path), open_windowed(path).read(slice(None), slice(None))):
        np.testing.assert_array_equal(image.pixels.view(np.uint32), maps.view(np.uint32))
        np.testing.assert_array_equal(image.valid, np.isfinite(maps).all(axis=2))
        assert image.bands == tuple(names)
        assert image.georeference == place
    with tifffile.TiffFile(path) as tiff:
        page = tiff.pages.first
        assert page.is_tiled
        assert (page.tilelength, page.tilewidth) == (512, 512)
        assert page.compression == tifffile.COMPRESSION.ADOBE_DEFLATE
        assert tiff.is_ome == (place is None)


@pytest.mark.parametrize("kind", ["geo", "plain", "plain without rasterio"])
def test_whole_numbers_come_back_as_whole_numbers_however_large(tmp_path, monkeypatch, kind):
    numbers, path = np.arange(HEIGHT * WIDTH, dtype=np.int32).reshape(HEIGHT, WIDTH, 1) + 2**30, tmp_path / "maps.tif"
    numbers[40:600, 500:510] = -1
    if kind == "plain without rasterio":
        without_rasterio(monkeypatch)
    place = PLACE if kind == "geo" else None
    write_tiled(path, numbers.shape, ["a"], lambda rows, _: numbers[rows, :, 0], georeference=place, dtype="int32")
    for image in (read_image(path), open_windowed(path).read(slice(None), slice(None))):
        np.testing.assert_array_equal(image.pixels, numbers)
        assert image.pixels.dtype == np.int32
        assert image.georeference == place
        if kind == "geo":
            np.testing.assert_array_equal(image.valid, numbers[..., 0] >= 0)


def test_names_stay_where_gdal_is_missing(tmp_path, monkeypatch):
    maps, path = some_maps(2), tmp_path / "maps.tif"
    write_tiled(path, maps.shape, ["sand", "rock"], part_of(maps))
    without_rasterio(monkeypatch)
    image = read_image(path)
    np.testing.assert_array_equal(image.pixels, maps)
    assert image.bands == ("sand", "rock")


def test_tiled_and_untiled_maps_are_read_alike(tmp_path):
    maps = some_maps(3)
    write_maps(tmp_path / "whole.tif", maps, ["a", "b", "c"], georeference=PLACE)
    write_tiled(tmp_path / "tiled.tif", maps.shape, ["a", "b", "c"], part_of(maps), georeference=PLACE)
    whole, tiled = read_image(tmp_path / "whole.tif"), read_image(tmp_path / "tiled.tif")
    np.testing.assert_array_equal(whole.pixels, tiled.pixels)
    assert whole[2:3] + whole[4:] == tiled[2:3] + tiled[4:]


@pytest.mark.parametrize("place", [None, PLACE], ids=["plain", "geo"])
def test_every_part_is_asked_for_once(tmp_path, place):
    asked = []

    def read(rows, band):
        asked.append((rows.start, rows.stop, band))
        return np.zeros((rows.stop - rows.start, WIDTH))

    write_tiled(tmp_path / "maps.tif", (HEIGHT, WIDTH, 2), ["a", "b"], read, georeference=place)
    assert sorted(asked) == [(0, 512, 0), (0, 512, 1), (512, 530, 0), (512, 530, 1)]


def test_a_file_that_is_not_complete_never_has_its_name(tmp_path):
    def stop_half_way(rows, band):
        if rows.start:
            raise KeyboardInterrupt
        return np.zeros((512, WIDTH))

    with pytest.raises(KeyboardInterrupt):
        write_tiled(tmp_path / "maps.tif", (HEIGHT, WIDTH, 2), ["a", "b"], stop_half_way, georeference=PLACE)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "fragment"),
    [
        ({"shape": (HEIGHT, WIDTH)}, r"maps have shape \(530, 520\)"),
        ({"names": ["a"]}, "Give one name for each map"),
        ({"read": lambda rows, band: np.zeros((3, 3))}, r"shape \(3, 3\), expected \(512, 520\)"),
        ({"path": "maps.png"}, "written as TIFF"),
        ({"path": "nowhere/maps.tif"}, "does not exist"),
        ({"georeference": Georeference("nonsense", PLACE.transform)}, "nonsense"),
    ],
)
def test_maps_that_cannot_be_written_in_tiles(tmp_path, change, fragment):
    good = {"path": "maps.tif", "shape": (HEIGHT, WIDTH, 2), "names": ["a", "b"]}
    arguments = good | {"read": lambda rows, band: np.zeros((rows.stop - rows.start, WIDTH))} | change
    with pytest.raises(ImageError, match=fragment):
        write_tiled(tmp_path / arguments.pop("path"), **arguments)
    assert list(tmp_path.iterdir()) == []


MEASURE = """
import re, sys
from pathlib import Path
import numpy as np
from pmlda.images.tiles import write_tiled
from pmlda.types import Georeference

def peak():  # ru_maxrss begins with that of the process that runs the tests
    return 1024 * int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])

path, place = sys.argv[1], Georeference("", (1.0, 0.0, 7.0, 0.0, -1.0, 9.0)) if sys.argv[2] == "geo" else None
if sys.argv[2] == "plain without rasterio":
    sys.modules["rasterio"] = None
read = lambda rows, band: np.zeros((512, 2048), dtype=np.float32)
write_tiled(path, (512, 2048, 4), list("abcd"), read, georeference=place)  # libraries are loaded now
before = peak()
write_tiled(path, (20 * 512, 2048, 4), list("abcd"), read, georeference=place)
print(peak() - before)
"""


@pytest.mark.parametrize("kind", ["geo", "plain without rasterio"])
def test_memory_does_not_grow_with_the_picture(tmp_path, kind):
    """80 parts of 4.2 MB are 336 MB. GDAL may keep 67 MB of tiles, and each writer a few parts."""
    command = [sys.executable, "-c", MEASURE, str(tmp_path / "maps.tif"), kind]
    grown = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert grown < 150e6
    if kind == "geo":
        with rasterio.open(tmp_path / "maps.tif") as dataset:
            assert dataset.shape == (20 * 512, 2048)
