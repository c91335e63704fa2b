"""Plans: every pixel in one block, no document over a border, and what a run needs is told before it begins."""

import json
import subprocess
import sys

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

from pmlda.pipeline.tiles import TILE_MULTIPLE, inside, make_plan, places_of, stripes_of, widen
from pmlda.settings import make_settings
from tests.pipeline.common import scene

SIDES = st.integers(1, 700)
WINDOWS = st.sampled_from([1, 4, 8, 16, 24, 32, 48, 64])


def plan_of(height, width, **settings):
    return make_plan((height, width), make_settings(settings))


@given(height=SIDES, width=SIDES, block=st.integers(64, 300), down=WINDOWS, right=WINDOWS)
def test_blocks_cover_every_pixel_once_and_no_window_crosses_their_borders(height, width, block, down, right):
    down, right = min(down, height), min(right, width)
    try:
        plan = plan_of(height, width, block=block, documents=f"windows:{down}x{right}")
    except ValueError as error:
        assert "Choose windows whose sides are powers of two" in str(error)  # noqa: PT017 (hypothesis)
        return
    seen = np.zeros((height, width), int)
    for number, each in enumerate(plan.blocks):
        assert each.number == number
        seen[each.rows, each.columns] += 1
        assert each.rows.start % down == each.columns.start % right == 0
        assert each.rows.start % TILE_MULTIPLE == each.columns.start % TILE_MULTIPLE == 0
        places = places_of(each, width)
        np.testing.assert_array_equal(places, np.arange(height * width).reshape(height, width)[each.rows, each.columns])
    assert (seen == 1).all()


@given(length=st.integers(1, 5000), side=st.integers(1, 600))
def test_the_last_block_is_from_half_as_long_to_half_as_long_again(length, side):
    lengths = [each.stop - each.start for each in stripes_of(length, side)]
    assert sum(lengths) == length
    assert all(each == side for each in lengths[:-1])
    assert len(lengths) == 1 or side / 2 <= lengths[-1] < 1.5 * side


@given(height=SIDES, width=SIDES, halo=st.integers(0, 200), multiple=st.sampled_from([1, 4, 8]))
def test_margins_reach_as_far_as_asked_or_to_the_edge(height, width, halo, multiple):
    for block in plan_of(height, width, block=128, documents="whole").blocks:
        rows, columns = widen(block, halo, (height, width), multiple)
        assert rows.start % multiple == columns.start % multiple == 0
        assert rows.start <= max(block.rows.start - halo, 0)
        assert columns.stop == min(block.columns.stop + halo, width)
        there = np.zeros((height, width), bool)
        there[block.rows, block.columns] = True
        assert there[rows, columns][inside(block, rows, columns)].all()
        assert there[rows, columns][inside(block, rows, columns)].size == block.n_pixels


@given(height=SIDES, width=SIDES, top=SIDES, left=SIDES)
def test_blocks_that_touch_a_rectangle_are_found(height, width, top, left):
    plan = plan_of(height, width, block=64, documents="whole")
    rows, columns = slice(top % height, top % height + 50), slice(left % width, left % width + 90)
    there = np.zeros((height, width), bool)
    there[rows, columns] = True
    expected = [each.number for each in plan.blocks if there[each.rows, each.columns].any()]
    assert [each.number for each in plan.touching(rows, columns)] == expected


MEASURE = """
import json, resource, sys
from pmlda import segment
from pmlda.settings import make_settings
from pmlda.pipeline.needs import needs
from pmlda.pipeline.blocks import prepare

source, out, choices = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
job, _ = prepare(source, None, make_settings(choices), choices["features"])
segment(source, choices.pop("topics"), out=out, n_jobs=1, **choices)
print(json.dumps([needs(job).memory, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, needs(job).disk]))
"""


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_run_takes_no_more_than_was_told_and_not_a_third_of_it_either(tmp_path):
    pixels = np.tile(scene(), (5, 4, 1))[:640, :640]
    zarr.create_array(tmp_path / "scene.zarr", data=pixels, chunks=(128, 128, 3))
    choices = {"topics": 3, "features": "color+texture", "documents": "windows:64", "block": 640, "sweeps": 5}
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
