"""benchmarks/load.py: every load runs, small, and says how many bytes it holds."""

import importlib.util
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
# Bytes of each pixel or word: its data (results of pictures have a copy), and its memberships and deviations, in
# single precision for maps and double for words. Maps also have the document of each pixel, and words a label and γ.
LEAST_HELD = {
    "pictures": 2 * 3 + 2 * 3 * 4,
    "cube": 2 * 300 * 4 + 2 * 4 * 4,
    "topics": 2 * 3 + 2 * 20 * 4,
    "documents": 3 * 8 + 3 * 3 * 8,
    "words": 3 * 8 + 3 * 3 * 8,
    "plain": 2 * 3 + 2 * 3 * 4,
}


@pytest.fixture(scope="module")
def load():
    sys.path.insert(0, str(BENCHMARKS))
    spec = importlib.util.spec_from_file_location("load", BENCHMARKS / "load.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    sys.path.remove(str(BENCHMARKS))


@pytest.mark.parametrize("name", LEAST_HELD)
@pytest.mark.filterwarnings("ignore")
def test_what_is_held_in_memory_is_data_and_results(load, name, tmp_path):
    n = 4096
    load.LOADS[name].make(tmp_path, n)
    per_item = load.LOADS[name].run(tmp_path) / n
    assert LEAST_HELD[name] <= per_item <= LEAST_HELD[name] + 32


@pytest.mark.filterwarnings("ignore")
def test_maps_on_disk_are_not_held(load, tmp_path):
    load.LOADS["tiles"].make(tmp_path, 4096)
    assert load.LOADS["tiles"].run(tmp_path) == 0
    assert (tmp_path / "maps.zarr").is_dir()
