"""The help of every command: each option is explained, and says what holds without it."""

import re
from typing import Any

import pytest
import typer
from typer.main import get_command

from pmlda.cli import app
from pmlda.settings import Settings

COMMANDS: dict[str, Any] = get_command(app).commands


def unexplained(parameter):
    """What is wrong with the help of an option or argument, or nothing."""
    text = parameter.help or ""
    if not text.endswith("."):
        return f"{parameter.name}: {text!r} is no sentence"
    is_told = parameter.required or getattr(parameter, "is_flag", False) or parameter.default is not None
    if not is_told and "[default" not in text:
        return f"{parameter.name}: {text!r} says no default"
    return None


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_explained_with_its_default(name):
    parameters = [each for each in COMMANDS[name].params if each.name != "help"]
    assert [fault for each in parameters if (fault := unexplained(each)) is not None] == []


def test_an_option_without_its_default_is_noticed():
    other = typer.Typer()

    @other.command()
    def dream(
        silent: str | None = typer.Option(None), vague: str | None = typer.Option(None, help="Something else.")
    ) -> None:
        """Sleep."""

    found = [unexplained(each) for each in get_command(other).params]
    assert [fault is None for fault in found[:2]] == [False, False]


def test_defaults_in_the_help_of_segment_are_those_of_settings():
    told = {
        each.name: re.search(r"\[default: (\w+)[\].]|(\w+) \\\[default\]", each.help)
        for each in COMMANDS["segment"].params
    }
    checked = {}
    for name, match in told.items():
        if match and name in Settings.model_fields:
            default = Settings.model_fields[name].default
            checked[name] = (match[1] or match[2], str(int(default) if isinstance(default, float) else default))
    checked = {name: pair for name, pair in checked.items() if pair[0] not in ("none", "all")}
    assert {"topics", "looks", "seed", "documents", "family", "engine", "model"} <= checked.keys()
    assert {name for name, (said, true) in checked.items() if said != true} == set()
