"""The map of types and the tables of modules name what exists, where they say."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "map.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `(\w+)` \| `([\w.]+)` \|", re.MULTILINE)
NAME = re.compile(r"`(\w+)`")
PICTURE = re.compile(r"```mermaid\n(.*?)```", re.DOTALL)
BOX = re.compile(r"^ {8}(\w+)(?:\[\"(\w+)\"\])?$", re.MULTILINE)


def classes(module: str) -> set[str]:
    path = (ROOT / "src" / "omnigraph" / Path(*module.split("."))).with_suffix(".py")
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.ClassDef)}


def test_the_types_are_where_the_map_says() -> None:
    rows = ROW.findall(PAGE)
    assert len(rows) > 40
    assert [(name, module) for name, module in rows if name not in classes(module)] == []


def test_every_box_of_a_picture_stands_in_a_table() -> None:
    listed = {name for name, _ in ROW.findall(PAGE)}
    boxes = {shown or name for text in PICTURE.findall(PAGE) for name, shown in BOX.findall(text)}
    assert boxes == listed


@pytest.mark.parametrize("layer", ["store", "core", "graph", "exec", "dataplane", "lang"])
def test_the_tables_of_layers_name_every_module(layer: str) -> None:
    """A newcomer finds each folder and module of a layer in docs/architecture.md."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = page.partition(f"| `{layer}` | what is in it |\n|---|---|\n")[2].partition("\n\n")[0]
    listed = [each for row in table.splitlines() for each in NAME.findall(row.split("|")[1])]
    folder = ROOT / "src" / "omnigraph" / layer
    there = {
        path.relative_to(folder).parts[0].removesuffix(".py")
        for path in folder.rglob("*.py")
        if path != folder / "__init__.py"
    }
    assert sorted(listed) == sorted(there)
