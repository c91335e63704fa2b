"""Whatever the pages per field tell a reader to type runs in order, from an empty folder, and writes what they say."""

import re
import shlex
import warnings
from contextlib import nullcontext
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pmlda.cli import app
from pmlda.parallel.progress import Clock
from tests.test_docs import CODE_SPAN, ROOT, text_of

PAGES = [ROOT / "docs" / f"{name}.md" for name in ("photographs", "sonar", "hyperspectral", "microscopy", "counts")]
TASKS = ROOT / "docs" / "fields.md"
SHELL_BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
# A command with this comment is one that does not come to its end, for the sake of the next.
STOPPED = "# interrupted"


def commands_of(page):
    """The lines of all blocks of a page, those that end in a backslash joined with the next."""
    blocks = SHELL_BLOCK.findall(page.read_text(encoding="utf-8"))
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def tasks():
    """The rows of the table: what is typed, and the files that come out."""
    rows = [line.split("|")[1:-1] for line in TASKS.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    return [(row[0].strip(), CODE_SPAN.findall(row[2]), CODE_SPAN.findall(row[3])) for row in rows[1:]]


def type_in(line, monkeypatch):
    """One line of a shell: the program in this process, and Python."""
    program, *arguments = shlex.split(line, comments=True)
    with warnings.catch_warnings(), monkeypatch.context() as patch:
        warnings.simplefilter("ignore")  # python -c shows them
        if program == "python":
            assert arguments[0] == "-c", line
            exec(compile(arguments[1], line, "exec"), {"__name__": "__main__"})
            return
        assert program == "pmlda", line
        if stopped := line.endswith(STOPPED):
            patch.setattr(Clock, "__call__", stop_before_maps)
        result = CliRunner().invoke(app, arguments)
    assert result.exit_code == (130 if stopped else 0), f"{line}\n{result.output}"


def stop_before_maps(clock, stage):
    """Ctrl-C when topics have been learnt."""
    if stage == "maps":
        raise KeyboardInterrupt
    return nullcontext()


def assert_named_files_exist(names, page):
    """Those that lie in a folder, such as `maps/shares.csv`, if the folder is one that was made here."""
    inside = [name for name in names if re.fullmatch(r"[\w.*-]+(/[\w.*-]+)+", name)]
    made = [name for name in inside if Path(name.split("/")[0]).exists()]
    missing = [name for name in made if not list(Path().glob(name))]
    assert not missing, f"{page}: {missing}"
    assert made, f"{page} names no file of a result"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_a_page_says_can_be_typed(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    commands = commands_of(page)
    assert len(commands) >= 3
    for line in commands:
        type_in(line, monkeypatch)
    assert_named_files_exist(CODE_SPAN.findall(text_of(page)), page.name)


@pytest.mark.parametrize(("who", "lines", "files"), tasks(), ids=lambda value: value if isinstance(value, str) else "")
def test_each_task_of_the_table_is_done_by_its_commands(who, lines, files, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert lines
    for line in lines:
        type_in(line, monkeypatch)
    assert_named_files_exist(files, who)


def test_the_table_has_seven_tasks():
    assert len(tasks()) == 7


def test_pages_show_pictures_that_load_quickly():
    for page in PAGES:
        pictures = re.findall(r"!\[[^\]]{20,}\]\((images/[^)]+)\)", page.read_text(encoding="utf-8"))
        assert pictures, page
        assert max((ROOT / "docs" / picture).stat().st_size for picture in pictures) < 160_000, page


def test_a_command_that_fails_and_a_file_that_is_missing_are_noticed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AssertionError, match=r"missing\.png"):
        type_in("pmlda segment missing.png --out maps", monkeypatch)
    (tmp_path / "maps").mkdir()
    with pytest.raises(AssertionError, match=r"shares\.csv"):
        assert_named_files_exist(["maps/shares.csv"], "a page")
