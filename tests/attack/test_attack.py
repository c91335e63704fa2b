"""A seeded selection of `make attack`, in half a minute; what is selected is named in the two lists alone.

Kills at random moments are in tests/pipeline/test_kills.py.
"""

import random
from pathlib import Path

import pytest

from tests.attack import mutators
from tests.attack.attempts import attack
from tests.attack.judge import complaints, snapshot
from tests.attack.kinds import KINDS, Originals
from tests.attack.server import MOST_BYTES, Outcome, Server
from tests.attack.situations import SITUATIONS, tell

SEED = 0
# How many inputs of every kind; those of runs and their kin take long to make.
INPUTS = dict.fromkeys(("png", "png with alpha", "png with palette", "jpeg", "npy", "npz", "mat", "envi", "mask"), 1)
INPUTS |= dict.fromkeys(("tiff in strips", "tiff in tiles", "tiff in planes", "tiff of pages", "tiff, deflate"), 1)
INPUTS |= dict.fromkeys(("tiff, lzw", "geotiff", "zarr", "zarr 2", "zarr group", "netcdf", "hdf5"), 1)
INPUTS |= dict.fromkeys(("tiff of slices", "hdf5 of slices"), 1)
INPUTS |= dict.fromkeys(("strokes", "label image"), 1)
INPUTS |= dict.fromkeys(("model", "documents.csv", "run.json", "result", "settings", "options", "library"), 1)
QUICK_SITUATIONS = ("empty device as a picture", "read-only disk")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture(scope="module")
def goods(server, tmp_path_factory):
    return Originals(server, tmp_path_factory.mktemp("goods"))


@pytest.mark.parametrize("kind", INPUTS)
def test_damaged_inputs_are_refused_in_one_line_or_work(kind, server, goods, tmp_path):
    for number in range(INPUTS[kind]):
        verdict = attack(server, goods, kind, SEED, number, tmp_path / str(number))
        assert not verdict.wrong, str(verdict)


@pytest.mark.parametrize("name", QUICK_SITUATIONS)
def test_bad_situations_are_survived(name, server, goods, tmp_path):
    state, lines = tell(name, server, goods, tmp_path / "place")
    if state == "skipped":
        pytest.skip(lines[0])
    assert state == "worked", "\n".join(lines)


def test_what_is_selected_exists():
    assert set(INPUTS) <= set(KINDS)
    assert set(QUICK_SITUATIONS) <= set(SITUATIONS)


# ── the attacker itself ────────────────────────────────────────────────────────────────────────────────────────────
GOOD = Outcome(0, 1.0, 0, False, "", "")
REFUSED = GOOD._replace(code=2, said="Error: a.png is empty. Get it again.\n")
MISBEHAVIOUR = {
    "a bug": (GOOD._replace(code=70), "exit code 70"),
    "a crash": (GOOD._replace(code=-11), "exit code -11"),
    "a traceback": (REFUSED._replace(said="Traceback (most recent call last):\n"), "a traceback"),
    "two lines": (REFUSED._replace(said="a library says\nError: a.png is empty.\n"), "2 lines instead of one error"),
    "nothing said": (REFUSED._replace(said=""), "0 lines instead of one error"),
    "no name": (REFUSED._replace(said="Error: no.\n"), "an error that does not name what came"),
    "too late": (GOOD._replace(code=-9, late=True, seconds=60.0), "it did not end within 60 s"),
    "too much memory": (GOOD._replace(n_bytes=2 * MOST_BYTES), "4.0 GB of memory"),
}


@pytest.mark.parametrize(("outcome", "says"), MISBEHAVIOUR.values(), ids=MISBEHAVIOUR.keys())
def test_the_judge_sees_misbehaviour(outcome, says):
    assert says in complaints(outcome, {}, {}, ("a.png",))


def test_the_judge_accepts_results_and_clear_errors():
    assert complaints(GOOD, {}, {"maps": "40755", "maps/run.json": "1"}, ("a.png",)) == []
    assert complaints(REFUSED, {"a.png": "1"}, {"a.png": "1"}, ("a.png",)) == []


@pytest.mark.parametrize(
    ("name", "change", "says"),
    [
        ("a.png", lambda path: path.write_bytes(b"other"), "it has changed 'a.png'"),
        ("a.png", lambda path: path.unlink(), "it has removed 'a.png'"),
        ("b.png", lambda path: path.write_bytes(b"new"), "it has made 'b.png'"),
        ("maps", lambda path: path.mkdir(), "it has made 'maps'"),
        ("maps.run", lambda path: path.mkdir(), "it has left 'maps.run' and does not say so"),
        (".maps-01234567.part", lambda path: path.mkdir(), "it has made '.maps-01234567.part'"),
    ],
)
def test_the_judge_sees_what_a_refused_command_has_touched(name, change, says, tmp_path):
    (tmp_path / "a.png").write_bytes(b"picture")
    before = snapshot(tmp_path)
    change(tmp_path / name)
    assert complaints(REFUSED, before, snapshot(tmp_path), ("a.png",)) == [says]


def test_the_server_ends_what_takes_too_long_and_measures_memory(server, tmp_path):
    late = server.run(["simulate", "--size", "4096", "--out", "maps"], tmp_path, seconds=0.3)
    assert late.late
    assert late.code == -9
    small = server.run(["--version"], tmp_path)
    assert (small.code, small.said) == (0, "")
    assert 2**20 < small.n_bytes < MOST_BYTES


def test_mutators_are_seeded_and_change_what_they_are_given():
    data = bytes(range(256)) * 8
    for mutator in (mutators.damage_bytes, mutators.damage_text):
        twice = [[mutator(data, random.Random(seed)) for seed in range(40)] for _ in range(2)]
        assert twice[0] == twice[1]
        assert sum(changed != data for changed in twice[0]) > 30
    tree = {"a": [1, 2, {"b": "c"}], "d": None}
    changed = [mutators.to_json(mutators.damage_tree(tree, random.Random(seed))) for seed in range(40)]
    assert sum(each != mutators.to_json(tree) for each in changed) > 30
    assert tree == {"a": [1, 2, {"b": "c"}], "d": None}


def test_damaged_settings_ask_for_no_long_work():
    texts = ["topics = 127\n", '"refits": 3, "sweeps": 200000600', "seed = 127", f"topics = {10**11}"]
    assert [mutators.without_long_work(text) for text in texts] == [
        "topics = 9\n",
        '"refits": 3, "sweeps": 1000',
        *texts[2:],
    ]


def test_an_attempt_is_the_same_again(server, goods, tmp_path):
    verdicts = [attack(server, goods, "jpeg", 5, 3, tmp_path / name) for name in ("one", "other")]
    pictures = [Path(tmp_path / name / "a.jpg").read_bytes() for name in ("one", "other")]
    assert pictures[0] == pictures[1]
    assert verdicts[0].words == verdicts[1].words
    assert verdicts[0].state == verdicts[1].state
