"""Plans: every pixel in one tile, no document over a border, and what a run needs is told before it begins."""

import json
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

from pmlda.pipeline.blending import WIDEST_CELL
from pmlda.pipeline.tiles import Plan, inside, places_of, plan_tiles, shared, stripes_of, widen
from pmlda.settings import make_settings
from tests.pipeline.common import scene

SIDES = st.integers(1, 700)
WINDOWS = st.sampled_from([1, 4, 8, 16, 24, 32, 48, 64])


def plan_of(height, width, **settings):
    return plan_tiles((height, width), make_settings(settings))


@given(height=SIDES, width=SIDES, block=st.integers(64, 300), down=WINDOWS, right=WINDOWS)
def test_tiles_cover_every_pixel_once_and_no_window_crosses_their_borders(height, width, block, down, right):
    down, right = min(down, height), min(right, width)
    try:
        plan = plan_of(height, width, block=block, documents=f"windows:{down}x{right}")
    except ValueError as error:
        assert "Choose windows whose sides are powers of two" in str(error)  # noqa: PT017 (hypothesis)
        return
    seen = np.zeros((height, width), int)
    for number, each in enumerate(plan.tiles):
        assert each.number == number
        seen[each.rows, each.columns] += 1
        assert each.rows.start % down == each.columns.start % right == 0
        assert each.rows.start % WIDEST_CELL == each.columns.start % WIDEST_CELL == 0
        places = places_of(each, width)
        np.testing.assert_array_equal(places, np.arange(height * width).reshape(height, width)[each.rows, each.columns])
    assert (seen == 1).all()


@given(length=st.integers(1, 5000), side=st.integers(1, 600))
def test_the_last_tile_is_from_half_as_long_to_half_as_long_again(length, side):
    lengths = [each.stop - each.start for each in stripes_of(length, side)]
    assert sum(lengths) == length
    assert all(each == side for each in lengths[:-1])
    assert len(lengths) == 1 or side / 2 <= lengths[-1] < 1.5 * side


@given(height=SIDES, width=SIDES, halo=st.integers(0, 200), multiple=st.sampled_from([1, 4, 8]))
def test_margins_reach_as_far_as_asked_or_to_the_edge(height, width, halo, multiple):
    for tile in plan_of(height, width, block=128, documents="whole").tiles:
        rows, columns = widen(tile, halo, (height, width), multiple)
        assert rows.start % multiple == columns.start % multiple == 0
        assert rows.start <= max(tile.rows.start - halo, 0)
        assert columns.stop == min(tile.columns.stop + halo, width)
        there = np.zeros((height, width), bool)
        there[tile.rows, tile.columns] = True
        assert there[rows, columns][inside(tile, rows, columns)].all()
        assert there[rows, columns][inside(tile, rows, columns)].size == tile.n_pixels


@given(height=SIDES, width=SIDES, top=SIDES, left=SIDES)
def test_tiles_that_touch_a_rectangle_are_found(height, width, top, left):
    plan = plan_of(height, width, block=64, documents="whole")
    rows, columns = slice(top % height, top % height + 50), slice(left % width, left % width + 90)
    there = np.zeros((height, width), bool)
    there[rows, columns] = True
    expected = [each for each in plan.tiles if there[each.rows, each.columns].any()]
    assert plan.touching(plan.tiles[0], rows, columns) == expected
    for each in expected:
        here, within = shared(each, rows, columns)
        np.testing.assert_array_equal(
            places_of(each, width)[within], np.arange(height * width).reshape(height, width)[rows, columns][here]
        )


@given(shapes=st.lists(st.tuples(SIDES, SIDES), min_size=1, max_size=4), side=st.sampled_from([None, 64, 128]))
def test_tiles_of_several_pictures_are_numbered_through_and_touch_their_own_alone(shapes, side):
    plan = Plan(tuple(shapes), ("whole",) * len(shapes), side)
    assert [tile.number for tile in plan.tiles] == list(range(len(plan.tiles)))
    for picture, shape in enumerate(shapes):
        own = [tile for tile in plan.tiles if tile.picture == picture]
        assert sum(tile.n_pixels for tile in own) == shape[0] * shape[1]
        assert plan.touching(own[-1], slice(0, shape[0]), slice(0, shape[1])) == own
        assert all(plan.is_whole(tile) == (len(own) == 1) for tile in own)
    places = [places_of(tile, shapes[tile.picture][1]) for tile in plan.tiles]
    for one, other in pairwise(zip(plan.tiles, places, strict=True)):
        assert one[0].picture == other[0].picture or one[1].max() < other[1].min()


MEASURE = """
import json, re, sys
from pathlib import Path
from pmlda import segment
from pmlda.settings import make_settings
from pmlda.pipeline.needs import estimate_needs
from pmlda.pipeline.request import Asked
from pmlda.pipeline.tiled import TiledRun

source, out, choices = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
settings = make_settings(choices)
asked = Asked([source], [None], settings, settings.features, settings.documents)
needs = estimate_needs(TiledRun(asked, Path(out)).job(Path()), shards=False)
segment(source, choices.pop("topics"), out=out, n_jobs=1, **choices)
# ru_maxrss would be that of the process that runs the tests, where it was larger.
taken = 1024 * int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])
print(json.dumps([needs.memory, taken, needs.disk]))
"""


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_run_takes_no_more_than_was_told_and_not_a_third_of_it_either(tmp_path):
    pixels = np.tile(scene(), (5, 4, 1))[:640, :640]
    zarr.create_array(tmp_path / "scene.zarr", data=pixels, chunks=(128, 128, 3))
    choices = {
        "topics": 3,
        "features": "color+texture",
        "documents": "windows:64",
        "block": 640,
        "sweeps": 5,
        "refits": 3,
    }
    done = subprocess.run(
        [
            sys.executable,
            "-W",
            "ignore",
            "-c",
            MEASURE,
            tmp_path / "scene.zarr",
            tmp_path / "maps.zarr",
            json.dumps(choices),
        ],
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    memory, taken, disk = json.loads(done.stdout)
    assert taken <= memory <= 3 * taken
    written = sum(file.stat().st_size for file in (tmp_path / "maps.zarr").rglob("*") if file.is_file())
    assert written <= disk
