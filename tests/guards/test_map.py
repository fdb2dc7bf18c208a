"""The map of the main types names types that exist, where it says."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "map.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `(\w+)` \| `([\w.]+)` \|", re.MULTILINE)
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
