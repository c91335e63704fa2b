"""Untrusted results: one line says what is wrong with them, without waiting, and without unpacking gigabytes."""

import json
import os
import random
import shutil
import zipfile

import numpy as np
import pytest
import tifffile

from pmlda import segment
from pmlda.errors import PmldaError
from pmlda.output.load import load, read_record, renew_reports
from pmlda.output.places import beside
from pmlda.recipe import load_recipe, model_facts
from tests.program import run
from tests.tree_mutations import STRANGE, Archive, mutated, places, too_deep

FORMS = ("out", "out.zarr", "out.tif")
SHAPE = (70, 66)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """One picture in all forms of results."""
    folder, rng = tmp_path_factory.mktemp("results"), np.random.default_rng(0)
    tifffile.imwrite(folder / "picture.tif", rng.integers(0, 256, (*SHAPE, 3), dtype=np.uint8), photometric="rgb")
    for form in FORMS:
        segment(folder / "picture.tif", 2, out=folder / form, documents="windows:20", block=64, refits=0)
    return folder


@pytest.fixture
def copies(results, tmp_path):
    return shutil.copytree(results, tmp_path / "results")


def assert_refused(result, says, action=load):
    with pytest.raises(PmldaError, match=says) as caught:
        action(result)
    text = str(caught.value)
    assert len(text.splitlines()) == 1
    assert len(text) < 1000


def change_record(result, change):
    file = beside(result, "run.json")
    record = json.loads(file.read_text(encoding="utf-8"))
    change(record)
    file.write_text(json.dumps(record), encoding="utf-8")


@pytest.mark.parametrize("form", FORMS)
def test_a_sound_result_stays_readable(results, form):
    record = read_record(results / form)
    assert record == load(results / form).record
    assert record["pictures"][0]["shape"] == [*SHAPE, 3]


# ── run.json ───────────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("key", ["settings", "features", "seed", "sweeps", "verdict", "seconds", "pictures"])
@pytest.mark.parametrize("form", FORMS)
def test_a_record_lacks_nothing(copies, form, key):
    change_record(copies / form, lambda record: record.pop(key))
    assert_refused(copies / form, f"cannot be used: in its run.json, '{key}' is wrong", renew_reports)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("verdict",), ["[/bold]"]),
        (("verdict",), "\ud800"),
        (("seconds",), {"fit": "[/bold]"}),
        (("seconds",), {"fit": float("nan")}),
        (("seed",), 10**400),
        (("features",), [1]),
        (("interrupted",), []),
        (("pictures",), []),
        (("pictures", 0, "shape"), [70, -66, 3]),
        (("pictures", 0, "notes"), "abc"),
        (("settings", "topics"), [[]]),
    ],
)
def test_values_of_other_types_are_refused(copies, path, value):
    def change(record):
        for step in path[:-1]:
            record = record[step]
        record[path[-1]] = value

    change_record(copies / "out", change)
    assert_refused(copies / "out", "in its run.json", renew_reports)


@pytest.mark.parametrize(("key", "value"), [("shape", [70, 660, 3]), ("pixels_with_data", 10**9), ("documents", 5)])
def test_a_record_is_that_of_its_maps(copies, key, value):
    change_record(copies / "out.zarr", lambda record: record.update({key: value}))
    assert_refused(copies / "out.zarr", "cannot be used")


def test_what_belongs_to_maps_in_tiles_means_nothing_in_a_folder(copies):
    change_record(copies / "out", lambda record: record.update(shape=["a"], pixels_with_data={}, later=[1]))
    assert not {"shape", "pixels_with_data", "later"} & set(load(copies / "out").record)


@pytest.mark.parametrize("form", FORMS)
def test_nesting_and_size_of_a_record_are_limited(copies, form):
    file = beside(copies / form, "run.json")
    text = file.read_text(encoding="utf-8")
    file.write_text(too_deep(text, random.Random(0)), encoding="utf-8")
    assert_refused(copies / form, r"run\.json is damaged")
    file.write_text(text + " " * 2**23, encoding="utf-8")
    assert_refused(copies / form, "which such a file never is")


# ── pipes and devices ──────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("name", ["run.json", "documents.csv", "model.pmlda", "overview.npz"])
@pytest.mark.parametrize("form", FORMS[1:])
def test_a_pipe_in_a_result_is_not_waited_for(copies, form, name):
    file = beside(copies / form, name)
    file.unlink()
    os.mkfifo(file)
    assert_refused(copies / form, "is a named pipe, not a regular file")
    file.unlink()
    file.symlink_to("/dev/zero")
    assert_refused(copies / form, "is a device, not a regular file")


# ── documents.csv ──────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda rows: rows[:-1], "the shape"),
        (lambda rows: [row[:-1] for row in rows], "the shape"),
        (lambda rows: [*rows, rows[-1]], "the shape"),
        (lambda rows: rows[::-1], "not in order"),
        (lambda rows: [[*row[:2], "0", *row[3:]] for row in rows], "scales that are not above 0"),
        (lambda rows: [[*row[:2], "inf", *row[3:]] for row in rows], "scales that are not above 0"),
        (lambda rows: [[*row[:3], "-0.5", "1.5"] for row in rows], "proportions that are negative"),
        (lambda rows: [[*row[:3], "4", "5"] for row in rows], "do not sum to 1"),
        (lambda rows: [[*row[:3], "nan", "nan"] for row in rows], "do not sum to 1"),
        (lambda rows: [["[/bold]"] * 5 for row in rows], "cannot be used"),
        (lambda rows: [["1" * 2**16] * 5], "which such a file never is"),
    ],
)
@pytest.mark.parametrize("form", FORMS[:2])
def test_documents_are_those_of_the_maps(copies, form, change, says):
    file = beside(copies / form, "documents.csv")
    header, *lines = file.read_text(encoding="utf-8").splitlines()
    rows = change([line.split(",") for line in lines])
    file.write_text("\n".join([header, *(",".join(row) for row in rows)]), encoding="utf-8")
    assert_refused(copies / form, says)


# ── maps ───────────────────────────────────────────────────────────────────────────────────────────────────────────
def change_overview(file, **arrays):
    with np.load(file) as kept:
        np.savez_compressed(file.with_name("other.npz"), **(dict(kept) | arrays))
    file.with_name("other.npz").replace(file)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("memberships", -5.0, "memberships are not all between 0 and 1"),
        ("memberships", 1e30, "memberships are not all between 0 and 1"),
        ("memberships", 0.9, "do not sum to 1"),
        ("memberships", np.inf, "not all between 0 and 1|no pixel with data"),
        ("uncertainty", -0.1, "uncertainty is not all between 0 and 1"),
        ("uncertainty", 7.0, "uncertainty is not all between 0 and 1"),
    ],
)
@pytest.mark.parametrize("form", FORMS)
def test_maps_that_are_none_are_refused(copies, form, name, value, says):
    if form == "out":
        maps = np.full((2, *SHAPE), value, np.float32)
        tifffile.imwrite(copies / form / f"{name}.tif", maps, photometric="minisblack", planarconfig="separate")
    else:
        change_overview(beside(copies / form, "overview.npz"), **{name: np.full((*SHAPE, 2), value, np.float32)})
    assert_refused(copies / form, says, renew_reports)


@pytest.mark.parametrize(
    "arrays",
    [
        {"documents": np.full(SHAPE, 2**60)},
        {"documents": np.zeros(SHAPE)},
        {"pixels": np.zeros(SHAPE)},
        {"pixels": np.zeros((7, 6, 3))},
        {"valid": np.full(SHAPE, "x")},
        {"memberships": np.full((*SHAPE, 3), 1 / 3)},
    ],
)
def test_an_overview_is_that_of_its_maps(copies, arrays):
    change_overview(copies / "out.zarr" / "overview.npz", **arrays)
    assert_refused(copies / "out.zarr", "cannot be used")


def test_an_overview_does_not_unpack_to_gigabytes(copies):
    file = copies / "out.zarr" / "overview.npz"
    with zipfile.ZipFile(file, "a", zipfile.ZIP_DEFLATED, compresslevel=1) as archive, archive.open("a", "w") as entry:
        for _ in range(257):
            entry.write(bytes(2**20))
    assert_refused(copies / "out.zarr", "would unpack to 269,")


# ── anything else ──────────────────────────────────────────────────────────────────────────────────────────────────
def was_refused(read, path):
    """Whether a file was refused, in one line; any other exception fails the test."""
    text = ""
    try:
        read(path)
    except PmldaError as error:
        text = str(error)
    assert len(text.splitlines()) <= 1
    return text != ""


def test_whatever_is_wrong_with_a_record_is_one_line(copies):
    rng, refused = random.Random(0), 0
    for form in FORMS:
        file = beside(copies / form, "run.json")
        text = file.read_text(encoding="utf-8")
        for _ in range(60):
            file.write_text(json.dumps(mutated(json.loads(text), rng)), encoding="utf-8")
            refused += was_refused(read_record, copies / form)
    assert refused > 60


def test_whatever_is_wrong_with_a_model_is_one_line(results, tmp_path):
    rng, refused, whole = random.Random(1), 0, Archive(results / "out" / "model.pmlda")
    for _ in range(100):
        file = whole.spoilt(tmp_path / "model.pmlda", rng)
        refused += was_refused(model_facts, file) + was_refused(load_recipe, file)
    assert refused > 100


def test_mutations_reach_every_place_and_leave_the_tree_alone():
    tree, rng = {"a": [1, {"b": 2}]}, random.Random(0)
    assert set(places(tree)) == {("a",), ("a", 0), ("a", 1), ("a", 1, "b")}
    found = [mutated(tree, rng) for _ in range(1000)]
    assert tree == {"a": [1, {"b": 2}]}
    told = {json.dumps(each) for each in found}
    assert all(json.dumps({"a": value}) in told for value in STRANGE)


def test_the_program_tells_it_in_one_line(copies):
    """As a user meets it, with exit code 2."""
    change_record(copies / "out", lambda record: record.update(verdict=["[/bold]"]))
    ended = run("report", copies / "out")
    assert ended.returncode == 2
    assert len(ended.stderr.strip().splitlines()) == 1
