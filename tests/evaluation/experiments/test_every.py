"""Every experiment runs by its name, writes what it found, and says the same to people and to machines."""

import json
import math

import numpy as np
import pytest
from PIL import Image as Pillow
from typer.testing import CliRunner

from pmlda.cli import app
from pmlda.evaluation import experiments
from pmlda.output.places import MARK


def run(*arguments):
    return CliRunner().invoke(app, ["reproduce", *(str(argument) for argument in arguments)])


@pytest.mark.parametrize("name", experiments.NAMES)
def test_an_experiment_without_data_writes_a_table_and_figures(name, tmp_path):
    outcome = experiments.reproduce(name, tmp_path / "out", seeds=1, small=True)
    record = json.loads((tmp_path / "out" / "results.json").read_text(encoding="utf-8"))
    assert record["experiment"] == name
    assert (record["data"], record["seeds"], record["small"]) == (None, 1, True)
    assert record["rows"] == outcome.rows
    assert record["remark"] == outcome.remark
    assert outcome.remark.endswith(".")
    assert len({tuple(row) for row in outcome.rows}) == 1, "rows of one table have the same columns"
    for row in outcome.rows:
        assert all(math.isfinite(value) for value in row.values() if isinstance(value, float)), row
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert written == {MARK, "results.json", *(f"{stem}.png" for stem in outcome.figures)}
    assert outcome.figures
    for stem in outcome.figures:
        picture = np.asarray(Pillow.open(tmp_path / "out" / f"{stem}.png").convert("L"))
        assert picture.std() > 5, f"{stem} is blank"


def test_the_command_prints_the_table_in_full_and_where_the_figures_are(tmp_path):
    result = run("scale", "--small", "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert "distance from 1/3" in result.stdout
    assert "…" not in result.stdout
    assert str(tmp_path / "out") in result.stdout
    answer = json.loads(run("scale", "--small", "--json", "--out", tmp_path / "again").stdout)
    assert [row["s"] for row in answer["scale"]["rows"]] == [3, 10, 300, 30000]


def test_all_of_them_have_a_folder_each(tmp_path, monkeypatch):
    monkeypatch.setattr(experiments, "NAMES", ("generating", "scale"))  # the others have had their turn
    result = run("all", "--small", "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert {path.name for path in (tmp_path / "out").iterdir()} == {MARK, "generating", "scale"}
    assert (tmp_path / "out" / "scale" / "results.json").is_file()
