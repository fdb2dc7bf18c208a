"""A graph through its public face, on every kind of storage."""

import shutil
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.store.io.objects import open_objects
from omnigraph.store.root import Root
from omnigraph.types import AccessChoice
from tests.conformance.conftest import IDS
from tests.conformance.seaweed import BUCKET

SCHEMA = "node P { k: String @key  t: String @index }\nedge Knows: P -> P"
FILL = """
query fill() {
  insert P { k: "a", t: "graphs weave" }
  insert P { k: "b", t: "tables hold" }
  insert Knows { from: "a", to: "b" }
}
"""
PAIRS = "query pairs() { match { $a: P  $a knows $b } return { $a.k as a, $b.k as b } }"
FIND = 'query find() { match { $a: P  search($a.t, "weaving") } return { $a.k as k } }'


@pytest.mark.parametrize("access", ["dense", "direct"])
def test_change_branch_ask_search(root: Root, access: AccessChoice) -> None:
    options = dict(root.storage_options)
    with og.init(root.uri, SCHEMA, storage_options=options) as graph:
        graph.mutate(FILL)
        graph.branches.create("x")
        gone = graph.mutate('query q() { delete P where k = "b" }', branch="x")
        assert (gone.affected_nodes, gone.affected_edges) == (1, 1)
        assert graph.ensure_indices().commit is not None
    with og.open(root.uri, "r", storage_options=options) as graph:
        assert graph.query(PAIRS, access=access).to_pylist() == [{"a": "a", "b": "b"}]
        assert graph.query(PAIRS, branch="x", access=access).to_pylist() == []
        assert graph.query(FIND, access=access).to_pylist() == [{"k": "a"}]
        assert [commit.kind for commit in graph.commits.list()] == [
            "ensure_indices",
            "mutation",
            "init",
        ]


def test_a_branch_of_a_copy_is_refused_until_it_is_relocated(root: Root) -> None:
    options = dict(root.storage_options)
    with og.init(root.uri, SCHEMA, storage_options=options) as graph:
        graph.mutate(FILL)
        graph.branches.create("x")
        graph.mutate('query q() { delete P where k = "b" }', branch="x")
    copy = Root.parse(f"{root.uri}-copy", options)
    source, target = open_objects(root), open_objects(copy)
    for info in source.list(""):
        target.put(info.path, source.get(info.path))
    with og.open(copy.uri, storage_options=options) as graph:
        assert graph.query(PAIRS).to_pylist() == [{"a": "a", "b": "b"}]
        with pytest.raises(og.errors.Corrupt) as caught:
            graph.query(PAIRS, branch="x")
        assert caught.value.code is og.errors.Code.GRAPH_MOVED
        assert caught.value.details["recorded"] == root.uri
        graph.branches.create("y")
        graph.mutate('query q() { delete P where k = "b" }', branch="y")
        assert graph.query(PAIRS, branch="y").to_pylist() == []
    found = og.relocate(copy.uri, storage_options=options)
    assert found.changed == 6  # two versions of the fork of the manifest and of each table
    for info in source.list(""):
        source.delete(info.path)
    with og.open(copy.uri, storage_options=options) as graph:
        assert graph.query(PAIRS, branch="x").to_pylist() == []
        graph.mutate('query q() { insert P { k: "c", t: "x" } }', branch="x")
        graph.branches.merge("x", "main")
        assert graph.query(PAIRS).to_pylist() == []


def test_a_copy_goes_to_s3_and_back(s3_options: dict[str, str], tmp_path: Path) -> None:
    backup = f"s3://{BUCKET}/{IDS.new()}"
    with og.init(tmp_path / "here", SCHEMA) as graph:
        graph.mutate(FILL)
        graph.branches.create("x")
        graph.mutate('query q() { delete P where k = "b" }', branch="x")
        there = graph.copy_to(backup, storage_options=s3_options)
    with og.open(backup, "r", storage_options=s3_options) as graph:
        assert graph.query(PAIRS).to_pylist() == [{"a": "a", "b": "b"}]
        assert graph.query(PAIRS, branch="x").to_pylist() == []
        back = graph.copy_to(tmp_path / "back")
        again = graph.copy_to(f"{backup}-2", storage_options=s3_options)
    assert there.files == back.files == again.files
    shutil.rmtree(tmp_path / "here")
    with og.open(tmp_path / "back") as graph:
        assert graph.query(PAIRS, branch="x").to_pylist() == []
        graph.branches.merge("x", "main")
        assert graph.query(PAIRS).to_pylist() == []
