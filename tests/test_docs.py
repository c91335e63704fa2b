"""Pages link to what exists, and the page about the paper names nothing that does not."""

import ast
import re
import shlex
import tomllib
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from typer.main import get_command

from pmlda import PMLDA, Segmentation
from pmlda.cli import app
from pmlda.engines.registry import ENGINES
from pmlda.evaluation.experiments import NAMES
from pmlda.features import find_features
from pmlda.images import read_image
from pmlda.partitions import partition
from pmlda.settings import Settings, make_settings
from pmlda.types import Convergence

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
PAPER = ROOT / "docs" / "paper.md"
PACKAGE = ROOT / "src" / "pmlda"
INSTALL = ROOT / "docs" / "install.md"
PICTURES = ROOT / "docs" / "pictures.md"
TOUR = ROOT / "docs" / "tour.md"
# Where the figures that the page quotes come from.
SOURCES = [ROOT / "docs" / name for name in ("experiments.md", "benchmarks.md", "model.md")]
# Names in code that are no more than names: files that experiments write, and options that rows mention.
PLAIN = {"results.json", "--data FOLDER"}

CODE_BLOCK = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
CODE_SPAN = re.compile(r"`([^`]+)`")
LINK = re.compile(r"\]\(([^)\s]+)\)")


@cache
def text_of(page):
    """A page without its blocks of code, in which brackets are no links and # is no heading."""
    return CODE_BLOCK.sub("", page.read_text(encoding="utf-8"))


@cache
def anchors_of(page):
    """Anchors of the headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", text_of(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files_and_headings_that_exist(page):
    for link in LINK.findall(CODE_SPAN.sub("", text_of(page))):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page.name} links to {link}"
        assert not anchor or anchor in anchors_of(target), f"{page.name} links to {link}"


def is_python_name(text):
    """pmlda.module.Class.method, or a function of a test."""
    parts = text.split(".")
    if parts[0] not in ("pmlda", "tests") or not all(part.isidentifier() for part in parts):
        return False
    for n in range(len(parts), 0, -1):
        try:
            value = import_module(".".join(parts[:n]))
        except ModuleNotFoundError:
            continue
        for part in parts[n:]:
            if not hasattr(value, part):
                return False
            value = getattr(value, part)
        return True
    return False


def is_file(text):
    """A file of the repository, or a test in one: tests/file.py::test."""
    path, _, name = text.partition("::")
    if "/" not in path or not (ROOT / path).is_file():
        return False
    return not name or name in {
        node.name for node in ast.parse((ROOT / path).read_text(encoding="utf-8")).body if hasattr(node, "name")
    }


def are_settings(text):
    """name=value, name=value, of the estimator or of segment; features and documents must be some that there are."""
    try:
        call = ast.parse(f"f({text})", mode="eval").body
        given = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}
    except (SyntaxError, ValueError):
        return False
    of_pictures = {name: value for name, value in given.items() if name in Settings.model_fields}
    make_settings(of_pictures)
    if "features" in given:
        find_features(given["features"])
    if "documents" in given:
        partition(given["documents"], read_image(np.random.default_rng(0).random((64, 64))))
    return not call.args and given and given.keys() <= of_pictures.keys() | PMLDA().get_params().keys()


def is_command(text):
    """A command line that parses."""
    program, *arguments = shlex.split(text.replace("\\\n", " "))
    if program != "pmlda":
        return False
    commands = get_command(app).commands
    name, *arguments = arguments
    if name not in commands:
        return False
    given = commands[name].make_context(name, arguments).params if arguments else {}
    if name == "reproduce" and given["name"] not in (*NAMES, "all"):
        return False
    chosen = [(key, given[key]) for key in Settings.model_fields if given.get(key) is not None]
    chosen += map(split_assignment, given.get("assignments") or ())
    return not chosen or are_settings(", ".join(f"{key}={value!r}" for key, value in chosen))


def split_assignment(text):
    """What --set is given."""
    name, _, value = text.partition("=")
    return name, float(value) if value.isdecimal() else value


def exists(text):
    """Whether the package has what a piece of code names."""
    if text in PLAIN or text in ENGINES:
        return True
    if text.startswith("pmlda "):
        return is_command(text)
    return is_python_name(text) or is_file(text) or are_settings(text)


def test_whatever_the_page_about_the_paper_names_exists():
    spans = CODE_SPAN.findall(text_of(PAPER))
    assert len(spans) > 50
    assert [span for span in spans if not exists(span)] == []


def test_command_lines_of_the_page_about_the_paper_parse():
    blocks = [block for block in CODE_BLOCK.findall(PAPER.read_text(encoding="utf-8")) if ">>>" not in block]
    assert blocks
    for block in blocks:
        assert is_command(block.strip("`\n")), block


def command_lines(page):
    """Lines of blocks of code that call the command, as their words, without the comments behind them."""
    blocks = [block for block in CODE_BLOCK.findall(page.read_text(encoding="utf-8")) if ">>>" not in block]
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    words = [shlex.split(line.removeprefix("$ "), comments=True) for line in lines if re.match(r"(\$ )?pmlda ", line)]
    return [each for each in words if not each[1].startswith("-")]


def test_command_lines_of_all_pages_have_options_that_there_are():
    lines = [words for page in PAGES for words in command_lines(page)]
    assert len(lines) > 40
    for _, name, *arguments in lines:
        get_command(app).commands[name].make_context(name, arguments)


@pytest.mark.parametrize(
    "text",
    [
        "pmlda.model.log_document",
        "pmlda.no_module",
        "tests/test_model.py::test_of_nothing",
        "docs/nothing.md",
        "no_setting=1",
        "pmlda reproduce nothing --out x",
        "pmlda dream",
        "pmlda segment a.png --out b --set nothing=1",
        "something",
    ],
)
def test_what_does_not_exist_is_noticed(text):
    assert not exists(text)


def test_figures_on_the_page_about_the_paper_are_those_of_the_experiments():
    """A figure that was measured again has to change on both pages."""
    number = re.compile(r"(?<![\w.])\d+\.\d+(?![\w.])")
    measured = {figure for page in SOURCES for figure in number.findall(page.read_text(encoding="utf-8"))}
    quoted = number.findall(CODE_SPAN.sub("", text_of(PAPER)))
    assert len(quoted) > 30
    assert sorted(set(quoted) - measured) == []


def section(page, title):
    """The text below a heading of a page, up to the next one."""
    return page.read_text(encoding="utf-8").split(f"\n## {title}\n")[1].split("\n## ")[0]


def first_cells(text):
    """Code in the first column of the tables of a text."""
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| ")]
    return [span for row in rows[1:] for span in CODE_SPAN.findall(row)]


def test_what_the_reference_says_of_a_result_is_there():
    names = [
        re.match(r"(?:Segmentation\.)?(\w+)", span)[1]
        for span in first_cells(section(PICTURES, "The result in Python"))
    ]
    assert len(names) > 20
    assert [
        name for name in names if not hasattr(Segmentation, name) and name not in Segmentation.__annotations__
    ] == []


def test_every_state_of_a_verdict_is_explained():
    assert sorted(first_cells(section(PICTURES, "Reading the verdict"))) == sorted(get_args(Convergence))


def test_installing_tells_of_every_extra_and_every_environment_variable():
    page = INSTALL.read_text(encoding="utf-8")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert set(re.findall(r'"\.\[(\w+)\]"', page)) == set(extras)
    sources = "\n".join(path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py"))
    read = set(re.findall(r'"((?:PMLDA|NUMBA|XDG)_[A-Z_]+)"', sources))
    assert {"PMLDA_JOBS", "XDG_STATE_HOME"} <= read <= set(first_cells(section(INSTALL, "Environment variables")))


# A line of the tree on the page: how deep, what, and a slash after a folder.
BRANCH = re.compile(r"^((?:│   )*)[├└]── ([\w.]+)(/?)(?: |$)", re.MULTILINE)


def tree_of(text):
    """What the tree on the tour shows, as paths in the package; folders end in a slash."""
    paths, folders = [], []
    for indent, name, slash in BRANCH.findall(text):
        folders = [*folders[: len(indent) // 4], name + slash]
        paths.append("".join(folders))
    return paths


def modules_in(folder):
    """What a newcomer finds in a folder of the package: modules and subfolders, without the ways in of Python."""
    return {
        path.name + "/" * path.is_dir()
        for path in folder.iterdir()
        if path.suffix == ".py" or (path.is_dir() and path.name != "__pycache__")
    } - {"__init__.py", "__main__.py"}


def missing_in_tree(paths):
    """What is on disk and not shown: at the top, and in folders of which modules are shown."""
    opened = {"", *(f"{Path(path).parent}/" for path in paths if "/" in path.rstrip("/"))}
    return sorted(
        folder + name for folder in opened for name in modules_in(PACKAGE / folder) if folder + name not in paths
    )


def is_in_package(text):
    """folder/module.py, folder/ or folder/module.function, from src/pmlda on."""
    if text.endswith((".py", "/")):
        return (PACKAGE / text).exists() or is_file(text)
    return is_python_name(f"pmlda.{text.replace('/', '.')}")


def test_the_tour_shows_every_package_and_module_and_none_that_is_not_there():
    paths = tree_of(TOUR.read_text(encoding="utf-8"))
    assert len(paths) > 50
    assert [path for path in paths if not (PACKAGE / path).exists()] == []
    assert missing_in_tree(paths) == []


def test_functions_and_files_that_the_tour_names_exist():
    spans = [span for span in CODE_SPAN.findall(text_of(TOUR)) if re.fullmatch(r"[\w/]+/[\w.]*", span)]
    assert len(spans) > 50
    assert [span for span in spans if not is_in_package(span) and not (ROOT / span).exists()] == []


def test_a_tour_with_a_room_too_few_or_too_many_is_noticed():
    page = "├── cli/   the command\n│   ├── app.py   the app\n│   └── dream.py  sleeps\n├── model.py  the model\n"
    paths = tree_of(page)
    assert paths == ["cli/", "cli/app.py", "cli/dream.py", "model.py"]
    assert {"cli/talk.py", "engines/", "types.py"} <= set(missing_in_tree(paths))
    assert not is_in_package("cli/dream.py")
    assert not is_in_package("pipeline/steps.dream")
