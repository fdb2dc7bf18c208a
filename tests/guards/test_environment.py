"""The page of settings says what the code does, and only the edges read the environment."""

import ast
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from omnigraph.embed.config import _BOUNDS
from omnigraph.embed.http import RequestPolicy
from omnigraph.runtime.settings import Settings

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "omnigraph"
PAGE = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
VARIABLE = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|TERM|PATH")
# Who may read or change the environment of the process, and for what.
READERS = {
    "cli/environment.py": "the command line",
    "client/connecting.py": "omnigraph.connect, for the token",
    "cli/completing.py": "completion in shells, which imports nothing else",
    "graph/opening.py": "omnigraph.init and omnigraph.open",
    "dataplane/spark/opened.py": "Spark opens the format `omnigraph`",
    "dataplane/spark/config.py": "every public call that takes `spark=`",
    "dataplane/spark/connect.py": "a command of its own, which stops the server",
    "dataplane/spark/settings.py": "variables that a JVM is started with",
    "dataplane/run/memory.py": "a variable of Arrow, where Arrow is set up",
}
# Modules in which texts of this form name variables.
NAMERS = (
    *(SOURCE / name for name in ("cli/environment.py", "runtime/environment.py")),
    *(SOURCE / name for name in ("embed/config.py", "embed/provider.py")),
    SOURCE / "dataplane/run/memory.py",
    *sorted((SOURCE / "dataplane/spark").glob("*.py")),
)
# Texts of the same form that name conditions of Spark.
NO_VARIABLES = {"CONTEXT_UNAVAILABLE_FOR_REMOTE_CLIENT", "JAVA_GATEWAY_EXITED"}


def trees(paths: Iterator[Path] | tuple[Path, ...]) -> Iterator[tuple[Path, ast.Module]]:
    for path in paths:
        yield path, ast.parse(path.read_text(encoding="utf-8"))


def variables_in_code() -> set[str]:
    found = {f"OMNIGRAPH_{item.name.upper()}" for item in fields(Settings)}
    for _, tree in trees(NAMERS):
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found |= {node.value} if VARIABLE.fullmatch(node.value) else set()
    return found - NO_VARIABLES


def rows() -> list[list[str]]:
    lines = [line for line in PAGE.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def number(text: str) -> int:
    return int(text.replace(",", ""))


def test_only_the_edges_read_the_environment() -> None:
    found = set()
    for path, tree in trees(SOURCE.rglob("*.py")):
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr in {"environ", "environb", "getenv"}:
                found.add(path.relative_to(SOURCE).as_posix())
    assert found == set(READERS)
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    told = page.partition("| who reads | what for |")[2].partition("\n\n")[0]
    named = re.findall(r"`((?:\w+\.)+\w+)`", "".join(re.findall(r"^\| (.*?) \|", told, re.M)))
    assert {f"{name.replace('.', '/')}.py" for name in named} == found


def test_the_page_names_every_variable_and_no_other() -> None:
    named = {name for row in rows() for name in re.findall(r"`([^`]*)`", row[0] + row[1])}
    assert {name for name in named if VARIABLE.fullmatch(name)} == variables_in_code()


def test_the_page_has_the_defaults_and_ranges_of_the_settings() -> None:
    on_page = {}
    for row in rows():
        name = row[0].strip("`")
        if name in {item.name for item in fields(Settings)}:
            least, most = row[3].split(" to ")
            on_page[name] = (row[1].strip("`"), number(row[2]), number(least), number(most))
    assert on_page == {
        item.name: (f"OMNIGRAPH_{item.name.upper()}", item.default, *item.metadata["bounds"])
        for item in fields(Settings)
    }


def test_the_page_has_the_defaults_of_embedding() -> None:
    on_page = {row[0].strip("`"): row[1] for row in rows()}
    for name, (variable, _) in _BOUNDS.items():
        assert number(on_page[variable]) == getattr(RequestPolicy(), name), variable
