"""An export whose process dies: nothing half-written has the name of something whole."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.runtime.failpoints import CRASH_STATUS

SCHEMA = "node Person { name: String @key }  edge Knows: Person -> Person"
PROGRAM = """
import sys
import omnigraph as og
from omnigraph.runtime.failpoints import Crash, Plan, arm
from omnigraph.store.io.storage_calls import StorageCall

graph, target, nth = sys.argv[1:]
with og.open(graph, "r") as opened:
    arm(Plan(faults=((StorageCall.OBJECT_PUT, Crash()),), nth=int(nth)))
    opened.export(target, overwrite=True, engine="inprocess")
"""


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    made = og.init(str(tmp_path / "graph"), schema=SCHEMA)
    made.load({"Person": [{"name": "a"}, {"name": "b"}], "Knows": [{"from": "a", "to": "b"}]})
    return made


def die(tmp_path: Path, target: str, nth: int) -> None:
    """Export in another process, which ends as it is about to name its nth file."""
    arguments = [str(tmp_path / "graph"), target, str(nth)]
    ended = subprocess.run([sys.executable, "-c", PROGRAM, *arguments], check=False)
    assert ended.returncode == CRASH_STATUS


def visible(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


def test_a_file_is_whole_or_not_there(graph: og.Graph, tmp_path: Path) -> None:
    target = tmp_path / "out" / "out.jsonl"
    die(tmp_path, str(target), 1)
    assert visible(target.parent) == []
    graph.export(target)
    whole = target.read_bytes()
    graph.mutate('query q() { insert Person { name: "c" } }')
    die(tmp_path, str(target), 1)
    assert target.read_bytes() == whole


def test_a_folder_without_a_manifest_is_not_taken_for_an_export(
    graph: og.Graph, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    die(tmp_path, f"{out}/", 3)
    assert visible(out) == ["Knows-00000.ndjson", "Person-00000.ndjson"]
    with pytest.raises(og.errors.InvalidInput, match="there already"):
        graph.export(out)
    done = graph.export(out, overwrite=True)
    assert json.loads((out / "_export.json").read_text())["commit"] == done.commit
