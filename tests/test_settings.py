"""Settings come from code, command line and files alike, and bad ones are refused with one sentence."""

import tomllib

import pytest

from pmlda.errors import SettingsError
from pmlda.settings import Settings, make_settings, parse_assignment, read_settings, write_settings


def test_settings_survive_their_file(tmp_path):
    settings = make_settings({"topics": 5, "documents": "slic:100", "alpha": 0.25, "seed": 7})
    file = tmp_path / "settings.toml"
    file.write_text(write_settings(settings), encoding="utf-8")
    assert make_settings(read_settings(file)) == settings
    assert set(tomllib.loads(file.read_text(encoding="utf-8"))) == set(Settings.model_fields)


def test_later_tables_win():
    assert make_settings({"topics": 2, "seed": 1}, {"topics": 4}) == make_settings({"topics": 4, "seed": 1})


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"topic": 3}, "Did you mean 'topics'"),
        ({"topics": 0}, "topics = 0"),
        ({"topics": "many"}, "topics = 'many'"),
        ({"scale_rate": -1.0}, "scale_rate = -1.0"),
        ({"seed": -1}, "seed = -1"),
        ({"high": 1.5}, "high = 1.5"),
        ({"low": 0.7}, "leave nothing between"),
    ],
)
def test_bad_settings_are_named(table, says):
    with pytest.raises(SettingsError, match=says):
        make_settings(table)


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"topics = ", "is not TOML"), (b"\xff\xfe\x00", "is not TOML"), (None, "cannot be read")],
)
def test_bad_files_are_named(tmp_path, content, says):
    file = tmp_path / "settings.toml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(SettingsError, match=says):
        read_settings(file)


@pytest.mark.parametrize(
    ("text", "table"),
    [
        ("topics=4", {"topics": 4}),
        ("alpha = 0.5", {"alpha": 0.5}),
        ("documents=slic:200", {"documents": "slic:200"}),
        ('features="color+texture"', {"features": "color+texture"}),
    ],
)
def test_assignments_are_toml_or_text(text, table):
    assert parse_assignment(text) == table


def test_an_assignment_needs_an_equals_sign():
    with pytest.raises(SettingsError, match="expected name=value"):
        parse_assignment("topics")


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"design_effect": 0.2}, "'auto', or input should be greater than or equal to 1"),
        ({"design_effect": "lots"}, "'auto', or input should be a valid number"),
        ({"refits": 2}, "Give 0, or at least 3"),
    ],
)
def test_how_sure_cannot_be_set_to_nonsense(table, says):
    with pytest.raises(SettingsError, match=says):
        make_settings(table)
