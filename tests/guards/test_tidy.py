"""House rules that no linter knows."""

import ast
import builtins
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TypeVar

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
MODULE_LINES_MAX = 600
FUNCTION_LINES_MAX = 90
CONFTEST_LINES_MAX = 150
Node = TypeVar("Node", bound=ast.AST)
ASKING = {"What", "How", "Who", "Whose", "Where", "Whether", "Which", "When", "Why"}

# Spelled in pieces, or this file would break its own rules.
MARKERS = ("TO" + "DO", "FIX" + "ME", "XX" + "X:")
REGISTRY_HOSTS = ("pypi" + ".org", "python" + "hosted.org", "anaconda" + ".org", "npmjs" + ".com")
TEXT_SUFFIXES = {".py", ".md", ".toml", ".lock", ".txt", ".cfg", ".ini", ".yaml", ".yml", ".json"}


def tracked() -> Iterator[Path]:
    """Every file of the project; without git, every file that is not a cache or an environment."""
    git = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    try:
        answer = subprocess.run(git, cwd=ROOT, capture_output=True, text=True, check=True)
        paths = [ROOT / name for name in answer.stdout.split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        paths = [
            path
            for path in ROOT.rglob("*")
            if not any(
                part.startswith(".") and part != ".ci" for part in path.parts[len(ROOT.parts) :]
            )
        ]
    yield from (path for path in paths if path.is_file())


def text_files() -> list[Path]:
    return [
        path
        for path in tracked()
        if path.suffix in TEXT_SUFFIXES or path.name in {"Makefile", "run", "LICENSE"}
    ]


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def nodes(*kinds: type[Node], inside: str = "") -> Iterator[tuple[str, Node]]:
    """The nodes of some kinds in every module, or in those of one layer, each with its place."""
    for path in SOURCES:
        if not inside or inside in path.relative_to(ROOT / "src").parts:
            for node in ast.walk(tree(path)):
                if isinstance(node, kinds):
                    yield f"{name(path)}:{getattr(node, 'lineno', 1)}", node


def test_modules_are_short() -> None:
    lengths = {name(path): len(path.read_text("utf-8").splitlines()) for path in SOURCES}
    assert {path: lines for path, lines in lengths.items() if lines > MODULE_LINES_MAX} == {}


def test_functions_are_short() -> None:
    long = [
        f"{place}: {lines} lines"
        for place, node in nodes(ast.FunctionDef, ast.AsyncFunctionDef)
        if (lines := (node.end_lineno or 0) - node.lineno + 1) > FUNCTION_LINES_MAX
    ]
    assert long == []


def test_modules_say_what_they_own() -> None:
    assert [name(path) for path in SOURCES if not ast.get_docstring(tree(path))] == []


# Classes of one name that are meant: the same thing in two layers, as the reason says.
NAMED_TWICE = {
    **dict.fromkeys(
        ("And", "Compare", "CompareOp", "Filter", "IsNull", "Not", "Or"),
        "a part of a query as it is written, and as it is planned",
    ),
}


def test_a_class_name_means_one_thing() -> None:
    known: dict[str, list[str]] = defaultdict(list)
    for place, node in nodes(ast.ClassDef):
        known[node.name].append(place)
    twice = {each: sorted(paths) for each, paths in known.items() if len(paths) > 1}
    assert {each: paths for each, paths in twice.items() if each not in NAMED_TWICE} == {}
    assert NAMED_TWICE.keys() <= twice.keys(), "an exception that is no longer needed"


def test_docstrings_say_what_a_thing_is() -> None:
    """A thing or an action stands first, not a question about it."""
    asking = [
        f"{place}: {text.splitlines()[0]}"
        for place, node in nodes(ast.AST)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and (text := ast.get_docstring(node))
        and (
            text.split(maxsplit=1)[0].strip(",.:") in ASKING
            or "?" in re.sub("`.*?`", "", text.splitlines()[0])
        )
    ]
    assert asking == []


def test_arguments_are_described_without_questions() -> None:
    asking = [
        f"{place}: {line.strip()}"
        for place, node in nodes(ast.AST)
        if isinstance(node, ast.ClassDef | ast.FunctionDef)
        for line in (ast.get_docstring(node) or "").splitlines()
        if re.fullmatch(r" +\w+: [^`]*\?", line)
    ]
    assert asking == []


def test_docstrings_name_errors_that_exist() -> None:
    known = {node.name for _, node in nodes(ast.ClassDef)} | set(vars(builtins))
    unknown = [
        f"{place}: {error}"
        for place, node in nodes(ast.AST)
        if isinstance(node, ast.ClassDef | ast.FunctionDef)
        for error in re.findall(
            r"^    ([A-Z]\w+):",
            (ast.get_docstring(node) or "").partition("Raises:")[2],
            re.MULTILINE,
        )
        if error not in known
    ]
    assert unknown == []


def test_imports_are_absolute() -> None:
    assert [place for place, node in nodes(ast.ImportFrom) if node.level] == []


def test_the_core_is_synchronous() -> None:
    """The server moves calls to threads; there are no asynchronous twins to keep in step."""
    found = [place for place, _ in nodes(ast.AsyncFunctionDef) if "/server/" not in place]
    assert found == []


def test_the_compiler_opens_and_prints_nothing() -> None:
    """The import contracts cannot see built-ins."""
    calls = [
        f"{place}: {node.func.id}"
        for place, node in nodes(ast.Call, inside="lang")
        if isinstance(node.func, ast.Name)
        and node.func.id in {"open", "print", "input", "exec", "eval", "__import__"}
    ]
    assert calls == []


def test_nothing_is_left_for_later() -> None:
    left = [
        f"{name(path)}: {marker}"
        for path in text_files()
        for marker in MARKERS
        if path.suffix in {".py", ".md", ".toml"} and marker in path.read_text(encoding="utf-8")
    ]
    assert left == []


def test_no_file_names_a_package_registry() -> None:
    """Where packages come from is the business of whoever installs."""
    naming = [
        f"{name(path)}: {host}"
        for path in text_files()
        for host in REGISTRY_HOSTS
        if host in path.read_text(encoding="utf-8", errors="replace")
    ]
    assert naming == []


def test_unit_tests_start_no_process() -> None:
    """What a process does to others is shown by tests/processes, tests/cli and tests/faults."""
    starting = [
        name(path)
        for path in (ROOT / "tests" / "unit").rglob("*.py")
        if re.search(r"^import (subprocess|multiprocessing)", path.read_text("utf-8"), re.MULTILINE)
    ]
    assert starting == []


def test_shared_fixtures_stay_few() -> None:
    for path in (ROOT / "tests").rglob("conftest.py"):
        assert len(path.read_text(encoding="utf-8").splitlines()) <= CONFTEST_LINES_MAX, name(path)


def test_the_lock_pins_and_hashes_everything() -> None:
    text = (ROOT / "requirements" / "dev.lock").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    pins = [line for line in lines if not line.startswith(" ")]
    assert all("==" in line and line.endswith("\\") for line in pins)
    assert all(line.strip().startswith("--hash=sha256:") for line in lines if line not in pins)
    assert "://" not in text
