"""Files and folders are complete or absent; equal values have equal digests; registered states come back exactly."""

import hashlib
import json
import os
import subprocess
import sys
import tracemalloc
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest

from pmlda import families
from pmlda.engines import gibbs, paper
from pmlda.engines import variational_schedule as schedule
from pmlda.engines import variational_steps as steps
from pmlda.engines.proposals import Proposals
from pmlda.engines.walks import Walk
from pmlda.errors import ModelFileError, PmldaError, RunError
from pmlda.storage import archive
from pmlda.storage.atomic import (
    FolderLock,
    name_file,
    new_file,
    new_folder,
    remove_folder,
    remove_leftovers,
    write_file,
)
from pmlda.storage.digest import digest, digest_bytes
from pmlda.storage.run_folder import RunFolder
from pmlda.types import Draws, Estimate, FloatArray, Latents, Topics
from tests.disks import small_files


def names(folder):
    return sorted(path.name for path in folder.iterdir())


# ── atomic ─────────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize("name", ["a", "ä" * 127, "x" * 255])
def test_a_file_is_complete_or_as_it_was(durable, name, tmp_path):
    path = tmp_path / name

    def fail():
        with new_file(path, durable=durable) as part:
            part.write_text("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert names(tmp_path) == []
    write_file(path, b"old", durable=durable)
    with new_file(path, durable=durable) as part:
        part.write_text("new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert names(tmp_path) == [name]


def test_an_error_of_the_disk_names_the_file_and_not_its_hidden_name(tmp_path):
    """Whether it comes from an open file, which has no name, or from opening the hidden one."""
    with small_files(100), pytest.raises(OSError, match="File too large") as told:
        write_file(tmp_path / "a", bytes(1000))
    assert told.value.filename == str(tmp_path / "a")
    with pytest.raises(FileNotFoundError) as told:
        write_file(tmp_path / "missing" / "a", b"")
    assert told.value.filename == str(tmp_path / "missing" / "a")
    assert names(tmp_path) == []


def test_a_folder_is_complete_or_as_it_was(tmp_path):
    path = tmp_path / "a"

    def fail(error):
        with new_folder(path) as part:
            (part / "half").touch()
            raise error

    for error in (ZeroDivisionError, KeyboardInterrupt, OSError):
        with pytest.raises(error):
            fail(error)
        assert names(tmp_path) == []
    with new_folder(path) as part:
        (part / "old").touch()
    with pytest.raises(OSError, match="not empty"), new_folder(path) as part:
        (part / "new").touch()
    assert (names(tmp_path), names(path)) == (["a"], ["old"])
    with new_folder(path, check=lambda old: None) as part:
        (part / "new").touch()
        assert names(path) == ["old"]
    assert (names(tmp_path), names(path)) == (["a"], ["new"])


def test_an_old_folder_comes_back_where_the_new_one_cannot_take_its_place(tmp_path):
    path = tmp_path / "a"
    path.mkdir()
    (path / "old").touch()
    with pytest.raises(FileNotFoundError), new_folder(path, check=lambda old: None) as part:
        part.rmdir()
    assert (names(tmp_path), names(path)) == (["a"], ["old"])


def test_an_old_folder_stays_unless_it_may_be_replaced(tmp_path):
    path = tmp_path / "a"
    path.mkdir()
    (path / "old").touch()

    def check(old):
        assert names(old) == ["old"]
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), new_folder(path, check=check):
        pass
    assert (names(tmp_path), names(path)) == (["a"], ["old"])


@pytest.mark.parametrize("has_links", [True, False])
def test_a_file_gets_its_name_or_what_has_it_stays(has_links, tmp_path, monkeypatch):
    def refuse(*names):
        raise PermissionError(1, "Operation not permitted")

    if not has_links:
        monkeypatch.setattr(os, "link", refuse)
    made, path = tmp_path / "made", tmp_path / "a"
    made.write_text("new")
    name_file(made, path, replace=False)
    assert path.read_text() == made.read_text() == "new"
    path.unlink()
    path.write_text("mine")
    with pytest.raises(FileExistsError):
        name_file(made, path, replace=False)
    assert path.read_text() == "mine"
    name_file(made, path, replace=True)
    assert path.read_text() == "new"
    assert names(tmp_path) == ["a", "made"]


@pytest.mark.parametrize("link", [os.symlink, os.link, lambda canary, path: os.mkfifo(path)])
def test_no_file_of_a_folder_is_opened_through_a_link(link, tmp_path):
    canary, folder = tmp_path / "canary", tmp_path / "folder"
    canary.write_text("mine")
    folder.mkdir()
    link(canary, folder / "lock")
    with pytest.raises(RunError, match="'lock' in it is a link, or no ordinary file"):
        FolderLock(folder)
    assert canary.read_text() == "mine"


@pytest.mark.parametrize("name", ["a", "a*", "x" * 250])
def test_leftovers_of_killed_processes_are_found_by_name_and_kind(name, tmp_path):
    path = tmp_path / name
    killed = "import os, sys; from pathlib import Path; from pmlda.storage.atomic import new_folder\n"
    killed += "with new_folder(Path(sys.argv[1])) as part: (part / 'x').touch(); os._exit(0)"
    subprocess.run([sys.executable, "-c", killed, str(path)], check=True)
    (other,) = tmp_path.iterdir()
    assert other.name.startswith(".")
    remove_leftovers(tmp_path / "b")
    assert other.exists()
    remove_leftovers(path)
    assert names(tmp_path) == []


def test_what_a_living_process_writes_is_no_leftover(tmp_path):
    with new_folder(tmp_path / "a") as part:
        remove_leftovers(tmp_path / "a")
        assert part.exists()
    assert names(tmp_path) == ["a"]


def test_a_folder_that_was_moved_out_of_the_way_by_a_killed_process_comes_back(tmp_path):
    path = tmp_path / "a"
    path.mkdir()
    (path / "old").touch()
    killed = "import os, sys; from pathlib import Path; from pmlda.storage.atomic import new_folder\n"
    killed += "with new_folder(Path(sys.argv[1]), check=lambda old: os._exit(0)) as part: (part / 'x').touch()"
    subprocess.run([sys.executable, "-c", killed, str(path)], check=True)
    assert not path.exists()
    remove_leftovers(path)
    assert (names(tmp_path), names(path)) == (["a"], ["old"])


def test_a_folder_is_removed_at_once_or_stays(tmp_path):
    path = tmp_path / "a"
    path.mkdir()
    (path / "x").touch()
    remove_folder(path)
    assert names(tmp_path) == []
    with pytest.raises(OSError, match="No such file"):
        remove_folder(path)


def test_a_lock_keeps_other_processes_out_and_falls_with_its_own(tmp_path):
    hold = "import sys, time; from pathlib import Path; from pmlda.storage.atomic import FolderLock\n"
    hold += "lock = FolderLock(Path(sys.argv[1])); print('held', flush=True); time.sleep(60)"
    process = subprocess.Popen([sys.executable, "-c", hold, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "held\n"
        with pytest.raises(RunError, match=f"Another process \\(number {process.pid}\\) is at work"):
            FolderLock(tmp_path)
    finally:
        process.kill()
        process.communicate()
    with FolderLock(tmp_path):
        assert (tmp_path / "lock").read_text() == str(os.getpid())
        with pytest.raises(RunError, match="is at work"):
            FolderLock(tmp_path)
    FolderLock(tmp_path).release()


def test_a_second_run_leaves_the_first_one_and_its_lock_alone(tmp_path):
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    with RunFolder.create(tmp_path / "out", {"kind": "first"}):
        for _ in range(3):
            with pytest.raises(RunError, match="is at work"):
                RunFolder.create(tmp_path / "out", {"kind": "second"})
            with pytest.raises(RunError, match="is at work"):
                RunFolder.open(tmp_path / "out", dict)
    with pytest.raises(RunError, match="was not finished"):
        RunFolder.create(tmp_path / "out", {"kind": "second"})
    run, request = RunFolder.open(tmp_path / "out", dict)
    with run:
        assert request == {"kind": "first"}
    assert names(tmp_path) == ["out.run"]
    if before:
        assert len(os.listdir("/proc/self/fd")) == before


def test_a_damaged_line_of_a_log_is_left_out(tmp_path):
    with RunFolder.create(tmp_path / "out", {}) as run:
        run.log("begun")
        with (run.path / "log.jsonl").open("ab") as file:
            file.write(b'{"event": "\xb1"}\n{"event"')
        run.log("resumed")
        run.log("finished")
        assert [line["event"] for line in run.read_log()] == ["begun", "finished"]


# ── digests ────────────────────────────────────────────────────────────────────────────────────────────────────
class Pair(NamedTuple):
    a: object
    b: object


@dataclass
class Record:
    a: object
    b: object


class Thing:
    def __init__(self, a, b):
        self.a, self.b = a, b


DIFFERENT = [
    (),
    (None,),
    (None, None),
    ([None],),
    (0,),
    (False,),
    (0.0,),
    (-0.0,),
    ("",),
    (b"",),
    ("0",),
    ("ab", "c"),
    ("a", "bc"),
    ("a", "b", "c"),
    (["a", "b"], "c"),
    (["a", "b", "c"],),
    ({"a": "b"},),
    ({"a": {"b": 1}},),
    ({"a": {}, "b": 1},),
    (np.zeros(0),),
    (np.zeros(2),),
    (np.zeros(2, np.float32),),
    (np.zeros(2, ">f8"),),
    (np.zeros(4, np.float32),),
    (np.zeros((2, 1)),),
    (np.zeros((1, 2)),),
    (np.array(0.0),),
    (np.array(["a", "b"]),),
    (np.array(["a", "b"], dtype=object),),
    (np.array(["a", 1], dtype=object),),
    (np.array(["2001-01-01"], dtype="M8[D]"),),
    (Pair(1, 2),),
    (Record(1, 2),),
    (Thing(1, 2),),
    (Thing(1, Thing(1, 2)),),
]


def test_different_values_have_different_digests():
    assert len({digest(*values) for values in DIFFERENT}) == len(DIFFERENT)


def test_equal_values_have_equal_digests():
    rows = np.arange(12.0).reshape(3, 4)
    assert digest(rows) == digest(np.asfortranarray(rows)) == digest(rows[::-1][::-1]) != digest(rows.T)
    assert digest((1, [2, "x"])) == digest([1, (2, "x")])
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1}) != digest({"a": 2, "b": 1})
    assert digest(np.float64(0.1), np.int32(3), np.True_) == digest(0.1, 3, True)
    request = {"settings": {"topics": 3, "alpha": 0.1, "seed": None}, "images": ["a.png"], "n": 1}
    assert digest(json.loads(json.dumps(request))) == digest(request)


def test_digests_are_the_same_in_every_process():
    code = "import numpy as np; from pmlda.storage.digest import digest; print(digest({'b': 1, 'a': 2}, np.eye(2)))"
    found = {subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout for _ in range(2)}
    assert found == {digest({"a": 2, "b": 1}, np.eye(2)) + "\n"}
    assert digest_bytes(b"abc") == hashlib.sha256(b"abc").hexdigest()


@pytest.mark.parametrize("value", [len, lambda: 1, int, {1, 2}, object(), np.random.default_rng(0)])
def test_what_has_no_digest_is_refused(value):
    with pytest.raises(PmldaError, match="cannot be identified by its content"):
        digest([value])


def test_a_large_array_is_digested_without_a_copy():
    rows = np.zeros(2**25, np.uint8)
    tracemalloc.start()
    digest(rows)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**20


# ── what files hold ────────────────────────────────────────────────────────────────────────────────────────────
@archive.register
class Settings(NamedTuple):
    name: str
    sizes: tuple[int, ...]


@archive.register
@dataclass(frozen=True)
class Choice:
    value: object


@archive.register
class Machine:
    """Its __dict__ is all of its state, and declared."""

    mean: FloatArray | None
    count: int
    rate: float
    inner: list[Topics]

    def __init__(self):
        raise AssertionError("is never called")


def round_trip(value, path, kind=archive.CHECKPOINT):
    with path.open("wb") as stream:
        archive.write(stream, {"value": value}, kind)
    return archive.load(path, kind)["value"]


def assert_same(found, value):
    """Equal, of the same types, to the bit."""
    assert type(found) is type(value)
    if isinstance(value, np.ndarray):
        assert (found.dtype, found.shape, found.tobytes()) == (value.dtype, value.shape, value.tobytes())
    elif isinstance(value, np.generic):
        assert (found.dtype, found.tobytes()) == (value.dtype, value.tobytes())
    elif isinstance(value, dict):
        assert list(found) == list(value)
        for name in value:
            assert_same(found[name], value[name])
    elif isinstance(value, list | tuple):
        assert len(found) == len(value)
        for one, other in zip(found, value, strict=True):
            assert_same(one, other)
    elif isinstance(value, Machine | Choice | Walk):
        assert_same(vars(found), vars(value))
    else:
        assert repr(found) == repr(value)


def machine(**state):
    made = object.__new__(Machine)
    vars(made).update(state)
    return made


VALUES = [
    None,
    [True, 0, 2**70, "ä", float("inf"), -0.0, 0.1, float("nan")],
    (),
    (1, (2.0, "x"), [3]),
    [np.float64(0.1), np.float32(0.1), np.int64(3), np.uint8(3), np.True_, np.complex128(1j), np.float64("nan")],
    {"a.b": np.zeros(1), "a": {"b": np.ones(2)}},
    np.arange(6).reshape(2, 3),
    np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    np.array(0.5),
    np.zeros((0, 3), np.float32),
    np.array(["a", "ä"]),
    Settings("x", (1, 2)),
    Choice(Settings("x", ())),
    machine(mean=None, count=3, rate=np.float64(2.0), inner=[Topics(np.eye(2), np.array(1.5))]),
    Topics(np.eye(2), np.array(1.5)),
    [Latents(*[np.ones(2)] * 4), Estimate(Topics(np.eye(2), np.zeros(0)), *[np.ones(1)] * 3)],
    Draws(*[np.arange(3)] * 7, n_chains=2),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("kind", [archive.CHECKPOINT, archive.PART])
def test_files_of_a_run_bring_everything_back_exactly(value, kind, tmp_path):
    assert_same(round_trip(value, tmp_path / "a", kind), value)


def test_the_states_of_all_engines_are_registered(tmp_path):
    walk = Walk(np.arange(2), np.ones(2))
    walk.log_length += 0.1
    eye = np.eye(2)
    topics, latents = Topics(eye, np.array(1.0)), Latents(eye, eye, eye, np.ones(2))
    proposals = Proposals(eye, eye, np.zeros((2, 2, 2)))
    value = gibbs.State(3, topics, latents, gibbs.Tuning(eye, eye, [walk], proposals))
    assert_same(round_trip(value, tmp_path / "a"), value)
    past, info = steps.Past(0.5, (eye, eye), 3.0), steps.Info(1.0, 0.5)
    for value in (
        paper.State(3, topics, latents),
        schedule.Progress("settling", info, True, (1.0, 2.0)),
        steps.State(3, topics, eye, np.ones(2), eye, past),
    ):
        assert_same(round_trip(value, tmp_path / "a"), value)


@pytest.mark.parametrize(
    "value",
    [
        Topics("means", np.ones(1)),
        Topics(np.array(["a"]), np.ones(1)),
        Latents(np.eye(2), np.eye(2), None, np.ones(2)),
        machine(mean=None, count=True, rate=1.0, inner=[]),
        machine(mean=None, count=1, rate=1.0, inner=[1]),
        machine(mean=None, count=1, rate=1.0),
        machine(mean=None, count=1, rate=1.0, inner=[], propose=1),
        Draws(*[np.arange(3)] * 7, n_chains="2"),
    ],
)
def test_an_object_of_other_types_than_declared_counts_as_damage(value, tmp_path):
    with pytest.raises(ModelFileError, match="it is damaged"):
        round_trip(value, tmp_path / "a")


class Unknown(NamedTuple):
    a: int


@pytest.mark.parametrize("value", [Unknown(1), {1, 2}, object(), len, b"x"])
def test_files_of_a_run_refuse_what_is_not_registered(value, tmp_path):
    with pytest.raises(PmldaError, match=r"content\.value\.0 is a \w+, which these files do not keep"):
        round_trip([value], tmp_path / "a")


def test_model_files_hold_plain_values_and_families_only(tmp_path):
    def back(value):
        return round_trip(value, tmp_path / "a", archive.MODEL)

    assert_same(back((1, np.float64(0.5), np.int64(2), np.True_)), [1, 0.5, 2, True])
    assert_same(back(Topics(np.eye(2), np.zeros(0))), [np.eye(2), np.zeros(0)])
    assert type(back(families.Gamma(shape=4.0))) is families.Gamma
    for value in (Choice(1), machine(a=1)):
        with pytest.raises(PmldaError, match="which model files do not keep"):
            back(value)


@pytest.mark.parametrize(
    "value",
    [
        {"object": "pmlda.engines.walks.Walk", "fields": {}},
        {"object": "pmlda.types.Topics", "fields": {"means": 1, "spread": 2}},
        {"object": f"{__name__}.Machine", "fields": {"fit": 1}},
        {"object": ["Gamma"], "fields": {}},
        {"scalar": ["<f8", "00"]},
        {"tuple": [1]},
        {},
    ],
)
def test_an_untrusted_file_cannot_ask_for_more(value, tmp_path, monkeypatch):
    path = tmp_path / "a"
    plain = archive._encode
    monkeypatch.setattr(archive, "_encode", lambda *_: {"table": {"value": value}})
    with path.open("wb") as stream:
        archive.write(stream, {})
    monkeypatch.setattr(archive, "_encode", plain)
    with pytest.raises(ModelFileError, match="is not a usable model file"):
        archive.load(path)


def test_names_of_families_in_model_files_stay(tmp_path):
    family = families.find_family("gaussian", "full")
    round_trip(family, tmp_path / "a", archive.MODEL)
    encoded = archive._encode(family, {}, "x", archive.MODEL)
    assert encoded["object"] == "Gaussian"
    assert encoded["fields"]["noise"]["object"] == "FullNoise"


def test_two_classes_cannot_have_one_name_and_model_files_hold_no_plain_classes():
    with pytest.raises(TypeError, match="already registered"):
        archive.register(type("Gamma", (families.Gamma,), {}), in_models=True)
    with pytest.raises(TypeError, match="must not hold it"):
        archive.register(Thing, in_models=True)
    assert archive.register(Machine) is Machine
