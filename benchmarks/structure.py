"""Measure the structure of a checkout of pmlda, or of two checkouts side by side.

    python structure.py [checkout] [second checkout] [--list]

The files are read and parsed, and never imported. What each measure counts:

- entries: modules and folders right under src/pmlda, without names containing "__", py.typed, other files that are not
  Python, and folders that hold nothing but caches;
- layers: the lines of the first layers contract of import-linter in pyproject.toml, and its ignored imports;
- import path: imports that run when a module is imported, so none inside functions or under TYPE_CHECKING. Taking a
  name from a package is an import of its __init__, naming one of its modules is not. Modules that import each other in
  a cycle stand together in the path, each counted;
- public names: functions, classes and assigned names at the top level of a module, once per module;
- parameters: all but a leading self or cls, with keyword-only ones, *args and **kwargs, nested functions too;
- passages twice: the distinct texts of at least six lines that stand at two places and are as long as they can be for
  those two places. Blank lines and indentation are passed over, and texts of imports, comments and closing brackets
  alone are left out;
- numeric constants: names, private ones too, given a number, arithmetic of numbers, or a tuple of these at the top
  level of a module.
"""

import argparse
import ast
import re
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from graphlib import TopologicalSorter
from itertools import combinations
from pathlib import Path
from typing import Any

PACKAGE = "pmlda"
MOST_PARAMETERS = 8
PASSAGE_LINES = 6

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DEFINITIONS = (*FUNCTIONS, ast.ClassDef)
IMPORTS = (ast.Import, ast.ImportFrom)
COMMENT_OR_CLOSING = re.compile(r"#.*|[)\]},;:]+")

Graph = dict[str, set[str]]


@dataclass(frozen=True)
class Source:
    """A Python file under src: where it stands, its text and its tree."""

    path: Path
    name: str  # the dotted name of the module
    text: str
    tree: ast.Module

    @property
    def package(self) -> str:
        """The package that relative imports of this module start from."""
        return self.name if self.path.name == "__init__.py" else self.name.rpartition(".")[0]


@dataclass(frozen=True)
class Line:
    """A line that is not blank: its number, its stripped text, and whether it can make a passage worth reporting."""

    number: int
    text: str
    telling: bool


@dataclass(frozen=True)
class Checkout:
    """A checkout, its Python files read once."""

    root: Path

    @cached_property
    def sources(self) -> list[Source]:
        return [read_source(path, self.root) for path in sorted(self.root.glob("src/**/*.py"))]

    @cached_property
    def test_lines(self) -> int:
        return sum(count_lines(path.read_text("utf-8")) for path in self.root.glob("tests/**/*.py"))


@dataclass
class Report:
    """The rows of the table for one checkout, and the findings that --list prints."""

    rows: dict[str, str] = field(default_factory=dict)
    findings: dict[str, list[str]] = field(default_factory=dict)


# Reading


def read_source(path: Path, root: Path) -> Source:
    """Read and parse one file under src."""
    parts = path.relative_to(root / "src").with_suffix("").parts
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    text = path.read_text("utf-8")
    return Source(path.relative_to(root), name, text, ast.parse(text, str(path)))


def count_lines(text: str) -> int:
    """Lines as wc -l counts them, and a last line without its end too."""
    return text.count("\n") + (text != "" and not text.endswith("\n"))


def count_entries(package: Path) -> int:
    """Modules and folders right under the package."""
    named = (entry for entry in package.iterdir() if "__" not in entry.name)
    return sum(holds_files(entry) if entry.is_dir() else entry.suffix == ".py" for entry in named)


def holds_files(folder: Path) -> bool:
    """Whether a folder holds more than caches."""
    return any(path.is_file() and "__pycache__" not in path.parts for path in folder.rglob("*"))


def read_layers(pyproject: Path) -> tuple[int, int]:
    """Layers, and ignored imports, of the first contract that has layers."""
    settings = tomllib.loads(pyproject.read_text("utf-8"))
    contracts = settings.get("tool", {}).get("importlinter", {}).get("contracts", [])
    contract: dict[str, Any] = next((contract for contract in contracts if "layers" in contract), {})
    return len(contract.get("layers", [])), len(contract.get("ignore_imports", []))


# Walking trees


def is_type_checking(node: ast.AST) -> bool:
    """Whether a node is an if over TYPE_CHECKING or typing.TYPE_CHECKING."""
    return isinstance(node, ast.If) and ast.unparse(node.test).rpartition(".")[2] == "TYPE_CHECKING"


def statements_run(body: list[ast.stmt], classes: bool = False) -> Iterator[ast.stmt]:
    """Statements that run on import, those under if, try, with and loops too, and those in classes where asked for."""
    for statement in body:
        yield statement
        if isinstance(statement, FUNCTIONS) or (isinstance(statement, ast.ClassDef) and not classes):
            continue
        blocks = [getattr(statement, name, []) for name in ("body", "orelse", "finalbody")]
        blocks += [part.body for name in ("handlers", "cases") for part in getattr(statement, name, [])]
        for block in blocks[1:] if is_type_checking(statement) else blocks:
            yield from statements_run(block, classes)


def assignments(tree: ast.Module) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Each target and value assigned at the top level; A, B = 1, 2 is taken apart."""
    for statement in statements_run(tree.body):
        if isinstance(statement, ast.Assign):
            for target in statement.targets:
                yield from paired(target, statement.value)
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            yield statement.target, statement.value


def paired(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Single targets with their values where a tuple is assigned to a tuple, otherwise target and value as they are."""
    both = (ast.Tuple, ast.List)
    if isinstance(target, both) and isinstance(value, both) and len(target.elts) == len(value.elts):
        for one, its_value in zip(target.elts, value.elts, strict=True):
            yield from paired(one, its_value)
    else:
        yield target, value


def names_in(target: ast.expr) -> set[str]:
    """Names that an assignment to this target binds."""
    return {node.id for node in ast.walk(target) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


# Imports


def import_graph(sources: list[Source]) -> Graph:
    """For each module of the package, the modules it imports when it is imported."""
    known = {source.name for source in sources}
    return {source.name: imports_of(source, known) - {source.name} for source in sources}


def imports_of(source: Source, known: set[str]) -> set[str]:
    """Modules of the package that one module imports."""
    found: set[str] = set()
    for statement in statements_run(source.tree.body, classes=True):
        if isinstance(statement, ast.Import):
            found.update(alias.name for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom):
            base = import_base(statement, source.package)
            named = [f"{base}.{alias.name}" for alias in statement.names]
            found.update(module if module in known else base for module in named)
    return found & known


def import_base(statement: ast.ImportFrom, package: str) -> str:
    """The module that a from-import names, relative ones made absolute."""
    if statement.level == 0:
        return statement.module or ""
    parts = package.split(".")
    return ".".join(parts[: len(parts) - statement.level + 1] + ([statement.module] if statement.module else []))


def reachable(graph: Graph, start: str) -> set[str]:
    """Modules imported by a module, directly or through others."""
    found: set[str] = set()
    waiting = [start]
    while waiting:
        new = graph[waiting.pop()] - found
        found |= new
        waiting.extend(new)
    return found


def components(graph: Graph) -> dict[str, tuple[str, ...]]:
    """For each module, the modules it is in a cycle with and itself; itself alone where there is no cycle."""
    reached = {module: reachable(graph, module) for module in graph}
    return {
        module: tuple(sorted({module} | {other for other in reached[module] if module in reached[other]}))
        for module in graph
    }


def longest_path(graph: Graph, component: dict[str, tuple[str, ...]]) -> list[str]:
    """The longest chain of imports, the importing module first, each cycle as one step with all its modules."""
    steps: dict[tuple[str, ...], set[tuple[str, ...]]] = {own: set() for own in component.values()}
    for module, imported in graph.items():
        own = component[module]
        steps[own] |= {component[other] for other in imported} - {own}
    path: dict[tuple[str, ...], list[str]] = {}
    for own in TopologicalSorter(steps).static_order():
        below = max((path[step] for step in sorted(steps[own])), key=len, default=[])
        path[own] = [*own, *below]
    return max(path.values(), key=len, default=[])


# Names, parameters and constants


def public_names(tree: ast.Module) -> set[str]:
    """Functions, classes and assigned names at the top level that do not begin with an underscore."""
    assigned = [names_in(target) for target, _ in assignments(tree)]
    return public_definitions(tree) | {name for name in set().union(*assigned) if not name.startswith("_")}


def public_definitions(tree: ast.Module) -> set[str]:
    """Functions and classes alone among the public names."""
    defined = (statement for statement in statements_run(tree.body) if isinstance(statement, DEFINITIONS))
    return {statement.name for statement in defined if not statement.name.startswith("_")}


def count_parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Parameters of a function, without a leading self or cls."""
    given = function.args
    positional = [argument.arg for argument in given.posonlyargs + given.args]
    own = positional[:1] in (["self"], ["cls"])
    starred = (given.vararg is not None) + (given.kwarg is not None)
    return len(positional) - own + len(given.kwonlyargs) + starred


def long_signatures(sources: list[Source]) -> list[str]:
    """Functions and methods with too many parameters, each with its place."""
    found = [
        (source.path, node.lineno, node.name, count_parameters(node))
        for source in sources
        for node in ast.walk(source.tree)
        if isinstance(node, FUNCTIONS) and count_parameters(node) > MOST_PARAMETERS
    ]
    return [f"{path}:{line}  {name} ({count})" for path, line, name, count in sorted(found)]


def is_number(value: ast.expr) -> bool:
    """Whether an expression is a number or arithmetic of numbers."""
    match value:
        case ast.Constant(value=constant):
            return isinstance(constant, int | float | complex) and not isinstance(constant, bool)
        case ast.UnaryOp(operand=operand):
            return is_number(operand)
        case ast.BinOp(left=left, right=right):
            return is_number(left) and is_number(right)
    return False


def is_numeric(value: ast.expr) -> bool:
    """Whether an expression is a number, arithmetic of numbers, or a tuple of these."""
    if isinstance(value, ast.Tuple):
        return bool(value.elts) and all(is_numeric(element) for element in value.elts)
    return is_number(value)


def numeric_constants(tree: ast.Module) -> set[str]:
    """Names at the top level of a module that are given numbers."""
    found = [names_in(target) for target, value in assignments(tree) if is_numeric(value)]
    return set().union(*found)


def count_names(sources: list[Source], find: Callable[[ast.Module], set[str]]) -> int:
    """How many names are found in all modules together."""
    return sum(len(find(source.tree)) for source in sources)


# Passages that stand twice


def lines_of(source: Source) -> list[Line]:
    """The lines of a file that are not blank."""
    imports = {
        number
        for node in ast.walk(source.tree)
        if isinstance(node, IMPORTS)
        for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    stripped = ((number, text.strip()) for number, text in enumerate(source.text.split("\n"), start=1))
    return [
        Line(number, text, number not in imports and not COMMENT_OR_CLOSING.fullmatch(text))
        for number, text in stripped
        if text
    ]


def repeated_passages(sources: list[Source]) -> list[str]:
    """Passages that stand at two places or more: length, places, and how each begins."""
    files = [lines_of(source) for source in sources]
    passages: dict[tuple[str, ...], set[tuple[int, int]]] = defaultdict(set)
    for first, second in equal_windows(files):
        run = run_from(files, first, second)
        if len(run) >= PASSAGE_LINES and any(line.telling for line in run):
            passages[tuple(line.text for line in run)] |= {first, second}
    return [
        describe(text, [f"{sources[file].path}:{files[file][start].number}" for file, start in sorted(places)])
        for text, places in sorted(passages.items(), key=lambda item: (-len(item[0]), sorted(item[1])))
    ]


def equal_windows(files: list[list[Line]]) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Pairs of places, as file and position, from which the lines of one window are equal."""
    windows: dict[tuple[str, ...], list[tuple[int, int]]] = defaultdict(list)
    for file, lines in enumerate(files):
        for start in range(len(lines) - PASSAGE_LINES + 1):
            windows[tuple(line.text for line in lines[start : start + PASSAGE_LINES])].append((file, start))
    for places in windows.values():
        yield from combinations(places, 2)


def run_from(files: list[list[Line]], first: tuple[int, int], second: tuple[int, int]) -> list[Line]:
    """The equal lines from two places on; none where they began earlier. In one file the two do not overlap."""
    (file, start), (other_file, other_start) = first, second
    lines, others = files[file], files[other_file]
    if start > 0 and other_start > 0 and lines[start - 1].text == others[other_start - 1].text:
        return []
    run: list[Line] = []
    for line, other in zip(lines[start:], others[other_start:], strict=False):
        if line.text != other.text or (file == other_file and start + len(run) == other_start):
            break
        run.append(line)
    return run


def describe(text: tuple[str, ...], places: list[str]) -> str:
    """One passage in words: its length, its places and its first and last line."""
    return f"{len(text)} lines at {', '.join(places)}\n      {text[0]}\n      ... {text[-1]}"


# The table


def measure(checkout: Checkout) -> Report:
    """All measures of one checkout."""
    report = Report()
    measure_size(checkout, report)
    measure_imports(checkout, report)
    measure_code(checkout, report)
    return report


def measure_size(checkout: Checkout, report: Report) -> None:
    """Files, lines, entries and layers."""
    lines = sum(count_lines(source.text) for source in checkout.sources)
    layers, ignored = read_layers(checkout.root / "pyproject.toml")
    report.rows["Python files in src"] = f"{len(checkout.sources):,}"
    report.rows["lines in src"] = f"{lines:,}"
    report.rows["test lines per source line"] = f"{checkout.test_lines / lines:.2f}"
    report.rows[f"entries of src/{PACKAGE}"] = f"{count_entries(checkout.root / 'src' / PACKAGE):,}"
    report.rows["layers"] = f"{layers:,}"
    report.rows["ignored imports of the layers"] = f"{ignored:,}"


def measure_imports(checkout: Checkout, report: Report) -> None:
    """The longest import path and the cycles."""
    graph = import_graph(checkout.sources)
    component = components(graph)
    path = longest_path(graph, component)
    cycles = sorted({own for own in component.values() if len(own) > 1})
    report.rows["longest import path, in modules"] = f"{len(path):,}"
    report.rows["modules in import cycles"] = f"{sum(map(len, cycles)):,}"
    report.findings["longest import path"] = path
    report.findings["import cycles"] = [", ".join(own) for own in cycles]


def measure_code(checkout: Checkout, report: Report) -> None:
    """Names, signatures, passages and constants."""
    sources = checkout.sources
    signatures = long_signatures(sources)
    passages = repeated_passages(sources)
    report.rows["public top-level names"] = f"{count_names(sources, public_names):,}"
    report.rows["  functions and classes alone"] = f"{count_names(sources, public_definitions):,}"
    report.rows[f"functions of more than {MOST_PARAMETERS} parameters"] = f"{len(signatures):,}"
    report.rows[f"passages of {PASSAGE_LINES} lines or more that stand twice"] = f"{len(passages):,}"
    report.rows["numeric module constants"] = f"{count_names(sources, numeric_constants):,}"
    report.findings[f"functions of more than {MOST_PARAMETERS} parameters"] = signatures
    report.findings["passages that stand twice"] = passages


def print_table(reports: list[Report]) -> None:
    """One row per measure, one column per checkout."""
    rows = {label: [report.rows[label] for report in reports] for label in reports[0].rows}
    if len(reports) > 1:
        rows = {"": ["before", "after"], **rows}
    width = max(map(len, rows))
    for label, values in rows.items():
        print(label.ljust(width), *(value.rjust(10) for value in values))


def print_findings(root: Path, report: Report) -> None:
    """The findings behind the numbers of one checkout."""
    for title, findings in report.findings.items():
        print(f"\n{root}: {title}, {len(findings)}")
        for finding in findings:
            print(f"  {finding}")


def main() -> None:
    """Read the arguments, measure, and print."""
    parser = argparse.ArgumentParser(description="Measure the structure of one checkout, or of two side by side.")
    parser.add_argument("checkouts", nargs="*", type=Path, default=[Path()], help="one checkout, or before and after")
    parser.add_argument("--list", action="store_true", help="list what was found, with file and line")
    given = parser.parse_args()
    if len(given.checkouts) > 2:
        parser.error("one or two checkouts, not more")
    for root in given.checkouts:
        if not (root / "src" / PACKAGE).is_dir():
            parser.error(f"{root} has no src/{PACKAGE}")
    reports = [measure(Checkout(root)) for root in given.checkouts]
    print_table(reports)
    if given.list:
        for root, report in zip(given.checkouts, reports, strict=True):
            print_findings(root, report)


if __name__ == "__main__":
    main()
