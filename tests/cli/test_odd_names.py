"""Names of files and other untrusted texts: they do not break a run after its fit, and do not steer the terminal."""

import json
import os
import shutil

import pytest
from rich.table import Table
from typer.testing import CliRunner

from pmlda.cli import app
from pmlda.cli.app import show_table
from tests import program

QUICK = ["-k", "2", "--documents", "windows:20", "--set", "refits=0"]
LATIN = b"caf\xe9"  # not UTF-8
HOSTILE = "a[bold]b\x1b]0;x\x07:bug:\n"
# Where Python takes names and streams for ASCII.
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@pytest.mark.parametrize("out", [b"", b".zarr"], ids=["folder", "zarr"])
def test_names_that_are_not_utf8_get_a_result_in_any_locale(out, picture, tmp_path):
    """Of the picture, its mask, the settings and the output at once."""
    folder, name = os.fsencode(tmp_path), LATIN + out
    os.rename(picture, os.path.join(folder, LATIN + b".png"))
    shutil.copy(os.path.join(folder, LATIN + b".png"), os.path.join(folder, "mäsk.png".encode()))
    with open(os.path.join(folder, LATIN + b".toml"), "wb") as file:
        file.write(b"topics = 2\n")
    more = ["--mask", "mäsk.png".encode(), "--settings", LATIN + b".toml", "--out", name]
    done = program.run("segment", LATIN + b".png", *QUICK, *more, cwd=folder, environment=ASCII, text=False)
    assert done.returncode == 0, done.stderr
    assert b"Result: caf\\xe9" in done.stdout
    page = os.path.join(folder, name, b"report.html")
    with open(page, encoding="utf-8") as file:
        assert "caf\\xe9" in file.read()
    told = program.run("report", name, *(["--json"] if out else []), cwd=folder, environment=ASCII, text=False)
    assert told.returncode == 0, told.stderr
    if out:
        assert json.loads(told.stdout)["out"].encode("ascii", "surrogateescape") == name
    else:
        assert b"caf\\xe9, 40\\xd750\\xd73" in told.stdout


def test_a_tiff_that_cannot_be_written_under_its_name_is_refused_before_the_run(picture, tmp_path):
    for name, environment in ((LATIN + b".tif", {}), ("café.tif".encode(), ASCII)):
        done = program.run("segment", picture, *QUICK, "--out", name, environment=environment, text=False, cwd=tmp_path)
        assert done.returncode == 2
        assert b"whose name is not UTF-8 here" in done.stderr
        assert b"fit" not in done.stdout
    assert os.listdir(tmp_path) == [picture.name]


def test_names_do_not_steer_the_terminal(picture, tmp_path):
    odd = tmp_path / f"{HOSTILE}.png"
    picture.rename(odd)
    done = CliRunner().invoke(app, ["segment", str(odd), *QUICK, "--out", str(tmp_path / HOSTILE)])
    assert done.exit_code == 0, done.output
    told = CliRunner().invoke(app, ["report", str(tmp_path / HOSTILE)], env={"COLUMNS": "400"})
    missing = CliRunner().invoke(app, ["segment", f"{HOSTILE}.png", "--out", str(tmp_path / "maps")])
    for output in (done.output, told.output, missing.output):
        assert "a[bold]b\\x1b]0;x\\x07:bug:\\n" in output
        assert "\x1b" not in output
    assert missing.exit_code == 2


def test_texts_of_an_untrusted_result_do_not_steer_the_terminal(picture, tmp_path):
    out = tmp_path / "maps"
    assert CliRunner().invoke(app, ["segment", str(picture), *QUICK, "--out", str(out)]).exit_code == 0
    record = json.loads((out / "run.json").read_text(encoding="utf-8"))
    record["verdict"] = HOSTILE
    (out / "run.json").write_text(json.dumps(record), encoding="utf-8")
    told = CliRunner().invoke(app, ["report", str(out)], env={"COLUMNS": "400"})
    assert told.exit_code == 0, told.output
    assert "a[bold]b\\x1b]0;x\\x07:bug:\\n" in told.output
    assert "\x1b" not in told.output
    assert json.loads(CliRunner().invoke(app, ["report", str(out), "--json"]).stdout)["verdict"] == record["verdict"]


def test_cells_of_tables_are_plain(capsys):
    show_table(Table("name"), [[HOSTILE], ["[red]x[/red]"]])
    shown = capsys.readouterr().out
    assert "a[bold]b\\x1b]0;x\\x07:bug:\\n" in shown
    assert "[red]x[/red]" in shown
