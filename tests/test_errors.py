"""Errors for users have one base and one exit code; everything else is a bug, says so, and leaves its traceback."""

import importlib
import pickle
import pkgutil
import re
from pathlib import Path

import pytest
from PIL import Image as Pillow
from typer.testing import CliRunner

import pmlda
from pmlda import errors
from pmlda.cli import app
from pmlda.cli.app import BAD_INPUT, BUG, INTERRUPTED
from pmlda.errors import PmldaError
from pmlda.evaluation.scenes import smooth_scene

SOURCES = Path(pmlda.__file__).parent
# What a module may raise beside these, and why. Users would take it for a bug.
MAY_RAISE = {
    "storage/atomic.py": {"FileExistsError"},  # as the system itself does where it has hard links
    "storage/store.py": {"FileNotFoundError"},  # what is not in memory is missing as a file would be
    "types.py": {"ValueError"},  # of a verdict in a model file, whose reader says which file it is
}
# What Python's own protocols demand, and mistakes of developers; no user sees these as answers to what they gave.
PROTOCOL_ERRORS = {"AttributeError", "TypeError", "IndexError", "KeyboardInterrupt", "ConnectionError"}


def own_classes():
    """Every exception that is defined in the package, and its warnings."""
    found = set()
    for module in pkgutil.walk_packages([str(SOURCES)], "pmlda."):
        if module.name.endswith("__main__"):
            continue
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, type) and issubclass(value, BaseException) and value.__module__.startswith("pmlda"):
                found.add(value)
    return found


def test_every_error_class_has_one_base_and_one_home():
    classes = own_classes()
    assert len(classes) >= 13
    warnings = {errors.LeftOutWarning, errors.WaitingWarning, errors.KernelCacheWarning}
    assert {each for each in classes if not issubclass(each, PmldaError)} == warnings
    assert {each.__module__ for each in classes} == {"pmlda.errors"}


def test_errors_are_also_what_python_calls_them():
    assert issubclass(PmldaError, ValueError)
    assert issubclass(errors.MissingLibraryError, ImportError)
    assert issubclass(errors.MissingFileError, FileNotFoundError)
    assert issubclass(errors.NotAFileError, IsADirectoryError)
    assert issubclass(errors.NumericalError, FloatingPointError)


@pytest.mark.parametrize("kind", sorted(own_classes(), key=str))
def test_an_error_tells_its_text_and_comes_back_from_another_process(kind):
    error = pickle.loads(pickle.dumps(kind("Give a number.")))
    assert type(error) is kind
    assert str(error) == "Give a number."
    assert type(kind.__new__(kind)) is kind  # how Dask makes it again


def test_no_module_raises_a_bare_value_error():
    own = {each.__name__ for each in own_classes()}
    for path in SOURCES.rglob("*.py"):
        raised = set(re.findall(r"\braise ([A-Z]\w*(?:Error|Interrupt))\b", path.read_text(encoding="utf-8")))
        own = {each.__name__ for each in own_classes()}
        allowed = own | PROTOCOL_ERRORS | MAY_RAISE.get(str(path.relative_to(SOURCES)), set())
        assert raised <= allowed, path


# ── the command line ───────────────────────────────────────────────────────────────────────────────────────────
@pytest.fixture
def picture(tmp_path):
    file = tmp_path / "scene.png"
    Pillow.fromarray(smooth_scene(40, 50, 2, 0.04, 0)[0]).save(file)
    return file


def segment_with(error, picture, monkeypatch):
    """`pmlda segment` where a part of the package raises."""

    def fail(*arguments, **settings):
        raise error

    monkeypatch.setattr("pmlda.pipeline.api.segment_asked", fail)
    return CliRunner().invoke(app, ["segment", str(picture), "--out", str(picture.parent / "out")])


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """Where traceback files go."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


@pytest.mark.parametrize(
    "bug",
    [
        ValueError("shapes do\nnot fit"),
        RuntimeError("?"),
        KeyError("topics"),
        ImportError("no such name"),
        ZeroDivisionError(),
    ],
)
def test_a_bug_says_so_and_leaves_its_traceback_in_a_file(bug, picture, monkeypatch, temporary):
    result = segment_with(bug, picture, monkeypatch)
    assert result.exit_code == BUG == 70
    (file,) = temporary.iterdir()
    assert re.fullmatch(r"pmlda-traceback-\w+\.txt", file.name)
    (line,) = [each for each in result.stderr.splitlines() if each]
    assert line.startswith(f"Error: This is a bug in pmlda ({type(bug).__name__}")
    assert repr(str(file)) in line
    details = file.read_text(encoding="utf-8")
    assert "Traceback (most recent call last)" in details
    assert "in fail" in details
    assert str(bug) in details
    assert not (picture.parent / "out").exists()


def test_a_bug_without_a_place_for_its_traceback_prints_it(picture, monkeypatch, temporary):
    monkeypatch.setattr("tempfile.NamedTemporaryFile", lambda *a, **b: (_ for _ in ()).throw(OSError(28, "full")))
    result = segment_with(RuntimeError("?"), picture, monkeypatch)
    assert result.exit_code == BUG
    assert "This is a bug in pmlda (RuntimeError: ?)" in result.stderr
    assert "in fail" in result.stderr


@pytest.mark.parametrize(
    "error", [PmldaError("Give more."), errors.NumericalError("Give more."), OSError("Give more.")]
)
def test_an_error_for_the_user_is_one_line_and_leaves_no_file(error, picture, monkeypatch, temporary):
    result = segment_with(error, picture, monkeypatch)
    assert result.exit_code == BAD_INPUT == 2
    assert result.stderr == "Error: Give more.\n"
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize(("error", "details"), [(MemoryError(), ""), (MemoryError("4 GB."), " (4 GB)")])
def test_memory_that_ran_out_is_no_bug_and_comes_with_advice(error, details, picture, monkeypatch, temporary):
    result = segment_with(error, picture, monkeypatch)
    assert result.exit_code == BAD_INPUT
    advice = (
        "Free some, or give a smaller picture; `pmlda segment` with --out NAME.zarr or NAME.tif works tile by tile."
    )
    assert result.stderr == f"Error: Memory ran out{details}. {advice}\n"
    assert list(temporary.iterdir()) == []


def test_ctrl_c_is_no_bug(picture, monkeypatch, temporary):
    result = segment_with(KeyboardInterrupt(), picture, monkeypatch)
    assert result.exit_code == INTERRUPTED == 130
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("name", ["maps\udcff", "maps\udcff.tif"])
def test_a_name_that_is_not_utf_8_is_no_bug(name, picture):
    result = CliRunner().invoke(app, ["segment", str(picture), "-k", "2", "--out", str(picture.parent / name)])
    assert result.exit_code == (BAD_INPUT if name.endswith(".tif") else 0), result.stderr


@pytest.mark.parametrize("option", ["documents", "features"])
def test_a_number_of_too_many_digits_is_no_bug(option, picture):
    spec = {"documents": "slic:", "features": "sonar:"}[option] + "9" * 5000
    result = CliRunner().invoke(
        app, ["segment", str(picture), f"--{option}", spec, "--out", str(picture.parent / "out")]
    )
    assert result.exit_code == BAD_INPUT
    assert "at most 4096 characters" in result.stderr


def test_exit_codes_are_in_the_help():
    shown = " ".join(CliRunner().invoke(app, ["--help"]).output.split())
    assert "70, a bug in" in shown
