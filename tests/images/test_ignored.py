"""Pixels whose values say that they shall not count: no-data numbers, saturation, shadow; whole and in windows."""

import json

import numpy as np
import pytest
import tifffile
from typer.testing import CliRunner

from pmlda import segment
from pmlda.cli import app
from pmlda.errors import ImageError, PmldaError
from pmlda.evaluation.scenes import smooth_scene
from pmlda.images import read_image
from pmlda.images.ignored import local_mean
from pmlda.images.windowed import open_windowed
from pmlda.output.load import read_record

QUICK = {"documents": "windows:16", "refits": 0}


def clipped_scene():
    """A picture of which 40 pixels reach the top of their type in some band."""
    picture = smooth_scene(40, 50, 2, 0.05, 0)[0].clip(0, 250)
    picture[3:7, 5:10, 0] = 255
    picture[20:25, 30:34, 2] = 255
    return picture


@pytest.mark.parametrize(
    ("values", "n_left_out"),
    [
        ({"ignore_saturated": True}, 40),
        ({"ignore_saturated": 255}, 40),
        ({"ignore_saturated": 256.0}, 0),
        ({"ignore_shadow": -1.0}, 0),
        ({"ignore_shadow": 1e9}, 2000),
    ],
)
def test_pixels_are_left_out_by_their_values(values, n_left_out):
    if n_left_out == 2000:
        with pytest.raises(ImageError, match="array has no pixel left: 2000 are in shadow"):
            read_image(clipped_scene(), **values)
        return
    image = read_image(clipped_scene(), **values)
    assert (~image.valid).sum() == n_left_out == max(image.ignored)
    assert len(image.notes) == 1


def test_a_pixel_counts_for_one_reason():
    image = read_image(clipped_scene(), nodata=255, ignore_saturated=True)
    assert image.ignored.saturated == 0
    assert image.notes[0] == "40 of 2000 pixels have no data."
    assert image.notes[1].startswith("No pixel is saturated (255 or more). If the camera saturates below")


@pytest.mark.parametrize("values", [{"ignore_saturated": 240}, {"ignore_shadow": 110.0}, {"nodata": 200}])
def test_windows_leave_out_what_the_whole_leaves_out(values):
    picture = clipped_scene()
    whole, parts = read_image(picture, **values), open_windowed(picture, **values)
    found, counts = np.zeros(whole.valid.shape, bool), np.zeros(2, int)
    for rows in (slice(0, 7), slice(7, 40)):
        for columns in (slice(0, 31), slice(31, 33), slice(33, 50)):
            part = parts.read(rows, columns)
            found[rows, columns] = part.valid
            counts += part.ignored
    assert 0 < (~found).sum() < found.size
    np.testing.assert_array_equal(found, whole.valid)
    assert tuple(counts) == whole.ignored
    assert parts.fingerprint != open_windowed(picture).fingerprint


def test_shadow_is_told_by_its_neighbourhood_and_not_by_single_dark_pixels():
    rng = np.random.default_rng(0)
    level = np.full((60, 60), 40.0)
    level[20:40, 20:40] = 2.0
    speckle = level * rng.exponential(size=level.shape)
    valid = read_image(speckle, ignore_shadow=6.0).valid
    assert not valid[21:39, 21:39].any()  # no rim is left of it
    assert valid[:18].all()
    assert (speckle[:15] < 6.0).sum() > 50
    holes = np.ones((60, 60), bool)
    holes[:9] = False
    assert np.isinf(local_mean(speckle[..., None], holes)[0]).all()


@pytest.mark.parametrize(
    ("picture", "values", "says"),
    [
        (
            clipped_scene() / 255.0,
            {"ignore_saturated": True},
            r"Saturated pixels of array .* type float64, .*--saturated-at",
        ),
        (np.full((8, 8), 255, np.uint8), {"ignore_saturated": True}, "no pixel left: 64 are saturated"),
        (clipped_scene(), {"ignore_saturated": "much"}, "ignore_saturated='much' is not a number"),
        (clipped_scene(), {"ignore_shadow": True}, "ignore_shadow=True is not a number"),
    ],
)
def test_what_cannot_be_ignored_is_refused(picture, values, says):
    with pytest.raises(ImageError, match=says):
        read_image(picture, **values)


def test_saturated_pixels_neither_learn_nor_count(tmp_path):
    """The maps are those of a mask over these pixels, in memory, in tiles, resumed settings and other pictures."""
    picture = clipped_scene()
    clipped = (picture == 255).any(axis=2)
    found = segment(picture, 2, ignore_saturated=True, **QUICK)
    np.testing.assert_array_equal(np.isnan(found.memberships[..., 0]), clipped)
    masked = segment(picture, 2, mask=~clipped, **QUICK)
    np.testing.assert_array_equal(found.memberships, masked.memberships)
    tiled = segment(picture, 2, ignore_saturated=True, out=tmp_path / "maps.zarr", **QUICK)
    np.testing.assert_array_equal(tiled.memberships[:], found.memberships)
    note = "40 of 2000 pixels (2 %) are saturated (255 or more) and were left out."
    assert note in found.images[0].notes
    assert note in read_record(tmp_path / "maps.zarr")["pictures"][0]["notes"]
    applied = found.apply(picture[:20])
    np.testing.assert_array_equal(np.isnan(applied.memberships[..., 0]), clipped[:20])


def test_a_picture_that_was_read_before_is_treated_alike():
    picture = clipped_scene()
    found = segment(read_image(picture), 2, ignore_saturated=True, **QUICK)
    np.testing.assert_array_equal(np.isnan(found.memberships[..., 0]), (picture == 255).any(axis=2))


def test_tiles_without_a_pixel_left_are_an_error(tmp_path):
    picture = np.full((80, 90, 3), 255, np.uint8)
    with pytest.raises(PmldaError, match="The picture has no pixel left: 7200 are saturated"):
        segment(picture, 2, ignore_saturated=True, out=tmp_path / "maps.zarr", **QUICK)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "setting", "says"),
    [
        (["--ignore-saturated"], ("ignore_saturated", True), "40 of 2000 pixels (2 %) are saturated"),
        (["--saturated-at", "251"], ("ignore_saturated", 251.0), "40 of 2000 pixels (2 %) are saturated"),
        (["--nodata", "255"], ("nodata", 255.0), "40 of 2000 pixels have no data."),
        (
            ["--ignore-shadow", "90"],
            ("ignore_shadow", 90.0),
            "are in shadow (squares of 9 × 9 pixels with a mean of 90 or less)",
        ),
    ],
)
def test_the_command_leaves_pixels_out_and_says_how_many(options, setting, says, tmp_path):
    tifffile.imwrite(tmp_path / "cells.tif", clipped_scene(), photometric="rgb")
    words = ["segment", str(tmp_path / "cells.tif"), "-k", "2", "--documents", "windows:16", "--set", "refits=0"]
    result = CliRunner().invoke(app, [*words, *options, "--out", str(tmp_path / "maps")])
    assert result.exit_code == 0, result.output
    assert says in result.stdout
    record = json.loads((tmp_path / "maps/run.json").read_text())
    assert record["settings"][setting[0]] == setting[1]
    assert any(says in note for note in record["pictures"][0]["notes"])
    assert says in (tmp_path / "maps/report.html").read_text(encoding="utf-8")
