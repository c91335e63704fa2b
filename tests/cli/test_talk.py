"""What commands say: plain lines of progress without a terminal, --quiet, --verbose, and kernels that are compiled."""

import subprocess
import sys
from contextlib import nullcontext

from typer.testing import CliRunner

from pmlda.cli import app
from pmlda.cli.talk import Talk
from pmlda.kernels import cache, warm
from pmlda.parallel import progress


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_quiet_prints_nothing_but_errors(picture, tmp_path):
    quick = "-k", 2, "--documents", "whole", "--set", "refits=0", "--quiet", "--out"
    result = run("segment", picture, *quick, tmp_path / "out")
    assert (result.exit_code, result.output) == (0, "")
    result = run("segment", picture, *quick, tmp_path / "out")
    assert result.exit_code == 2
    assert result.output.startswith("Error: ")


def test_verbose_prints_seconds_and_settings(picture, tmp_path):
    result = run(
        "segment", picture, "-k", 2, "-v", "--documents", "whole", "--set", "refits=0", "--out", tmp_path / "out"
    )
    assert result.exit_code == 0, result.output
    assert "Seconds: reading " in result.output
    assert "Settings: topics=2, " in result.output


def test_without_a_terminal_there_is_no_bar(picture, tmp_path):
    result = run("segment", picture, "-k", 2, "--documents", "whole", "--set", "refits=0", "--out", tmp_path / "out")
    assert "━" not in result.output


def test_plain_lines_come_at_a_pace_and_tell_the_end(capsys, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    lines = progress.Lines(10.0, sys.stdout)
    for sweep in range(1, 26):
        now[0] = float(sweep)
        lines("sampling", sweep, 100, acceptance=0.25)
    lines("refitting", 1, 6)
    lines.end()
    assert capsys.readouterr().out.splitlines() == [
        "sampling: 10 of 100, acceptance 0.25",
        "sampling: 20 of 100, acceptance 0.25",
        "sampling: 25 of 100, acceptance 0.25",
    ]


def test_plain_lines_of_chains_that_run_at_the_same_time_keep_the_pace(capsys, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    lines = progress.Lines(10.0, sys.stdout)
    for sweep in range(1, 26):
        for number in (1, 2):
            now[0] += 0.5
            lines(f"chain {number}", sweep, 25)
    lines.end()
    assert capsys.readouterr().out.splitlines() == [
        "chain 2: 10 of 25",
        "chain 2: 20 of 25",
        "chain 2: 25 of 25",
    ]


def test_kernels_are_counted_whoever_compiles_them(capsys, monkeypatch):
    left = [["a", "b", "c"], ["a", "b", "c"], ["c"]]
    monkeypatch.setattr(warm, "missing", lambda *_: left.pop(0))
    monkeypatch.setattr(warm, "helped", lambda kind: nullcontext())
    with Talk().compiling():
        cache._listener("a")
        cache._listener("c")
    told = capsys.readouterr().err
    assert told.splitlines() == [
        "Compiling kernels (once per machine): 1 of 3 …",
        "Compiling kernels (once per machine): 3 of 3 …",
    ]


def test_warmup_says_where_kernels_are():
    result = run("warmup")
    assert result.exit_code == 0, result.output
    assert f"Compiled kernels: {cache.places().folder}" in result.output.replace("\n", "")


def test_warmup_without_a_folder_is_an_error(monkeypatch, tmp_path):
    monkeypatch.setenv("PMLDA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cache, "can_write", lambda folder: False)
    monkeypatch.setattr(cache, "_places", None)
    result = run("warmup")
    assert result.exit_code == 2
    assert "PMLDA_CACHE_DIR" in result.output


def test_shells_complete_commands():
    asked = {"_PMLDA_COMPLETE": "complete_bash", "COMP_WORDS": "pmlda seg", "COMP_CWORD": "1"}
    result = CliRunner().invoke(app, [], prog_name="pmlda", env=asked)
    assert result.output.split() == ["segment"]


def test_nothing_heavy_is_imported_before_the_first_stage():
    """Scientific libraries that only fits need are not there when a picture is about to be read."""
    check = (
        "import sys, pmlda.cli, pmlda.pipeline.api, pmlda.pipeline.request\n"
        "heavy = ['pandas', 'sklearn', 'scipy.stats', 'scipy.optimize', 'matplotlib', 'skimage', 'jinja2', 'dask']\n"
        "sys.exit(', '.join(name for name in heavy if name in sys.modules) or 0)"
    )
    told = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True)
    assert told.returncode == 0, told.stderr


LOADED = """
import sys
import pmlda.cli.talk as talk
from pmlda.cli import app
def told(name):
    print([name, *sorted({"sklearn", "pandas", "scipy.stats", "matplotlib", "skimage"} & set(sys.modules))])
    raise SystemExit
talk.print_stage = told
app(sys.argv[1:])
"""


def test_the_first_stage_begins_before_large_libraries_are_imported(picture, tmp_path):
    words = [sys.executable, "-c", LOADED, "segment", str(picture), "--out", str(tmp_path / "maps")]
    ran = subprocess.run(words, capture_output=True, text=True, check=True)
    assert ran.stdout == "['reading']\n"
