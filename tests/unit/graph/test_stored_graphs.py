"""Graphs that earlier releases have stored: read, written and recovered by this one.

Each archive in `tests/data/graphs` is one format, made by the release that introduced it, and never
made anew.
"""

import json
import shutil
import tarfile
from pathlib import Path
from typing import Any

import lance
import pytest

import omnigraph as og
from omnigraph.core.commits.records import format_metadata
from omnigraph.core.layout import MANIFEST
from tests.data.graphs.make import FILL

ARCHIVES = sorted((Path(__file__).parents[2] / "data" / "graphs").glob("*.tar.xz"))

PEOPLE = """
query people() {
  match { $p: Person }
  return { $p.name as name, $p.born as born, $p.tags as tags, $p.big as big, $p.place as place }
  order { name }
}
"""
KNOWS = """
query knows() {
  match { $a: Person  $a $k: knows $b }
  return { $a.name as a, $b.name as b, $k.since as since }
  order { a }
}
"""
FOUND = (
    'query found() { match { $n: Note  search($n.body, "pattern") } return { $n.title as title } }'
)


@pytest.fixture(params=ARCHIVES, ids=lambda path: path.name.removesuffix(".tar.xz"))
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    archive: Path = request.param
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path, filter="data")
    expected = json.loads(archive.with_name(archive.name.replace(".tar.xz", ".json")).read_text())
    return tmp_path / "sample.omni", expected


def names(graph: og.Graph, *, branch: str = "main", at: str | None = None) -> list[Any]:
    return [row["name"] for row in graph.query(PEOPLE, branch=branch, at=at)]


def test_every_format_is_there() -> None:
    assert [path.name for path in ARCHIVES] == [
        "format-4.tar.xz",
        "format-5.tar.xz",
        "format-6.tar.xz",
    ]


def test_it_is_read_as_it_was_written(stored: tuple[Path, dict[str, Any]]) -> None:
    path, expected = stored
    with og.open(str(path), mode="r") as graph:
        people = {row["name"]: row for row in graph.query(PEOPLE)}
        assert list(people) == ["Ada", "Bo", "Di"]
        assert str(people["Ada"]["born"]) == "1815-12-10"
        assert people["Ada"]["tags"] == ["a", "b"]
        assert people["Ada"]["big"] == 2**64 - 1
        assert str(people["Bo"]["born"]) == "1900-01-01"
        assert people["Bo"]["tags"] == []
        assert people["Di"]["place"] == [0.0, 1.0]
        assert [(row["a"], row["b"]) for row in graph.query(KNOWS)] == [
            ("Ada", "Bo"),
            ("Di", "Ada"),
        ]
        assert graph.query(FOUND).to_pylist() == [{"title": "engine"}]
        assert graph.read_blob("Person", "Bo", "picture") == b"hello"
        commits = graph.commits.list("main")
        assert len(commits) == expected["commits"]
        assert str(commits[0].id) == expected["head"]
        assert names(graph, at=expected["first"]) == ["Ada", "Bo", "Cy"]


def test_reading_changes_no_file(stored: tuple[Path, dict[str, Any]]) -> None:
    path, _ = stored

    def files() -> dict[str, bytes]:
        return {str(item): item.read_bytes() for item in path.rglob("*") if item.is_file()}

    before = files()
    with og.open(str(path), mode="r") as graph:
        names(graph)
    assert files() == before


def test_it_is_written_and_read_again(stored: tuple[Path, dict[str, Any]]) -> None:
    path, expected = stored
    with og.open(str(path)) as graph:
        graph.mutate('query add() { insert Person { name: "Fy" } }')
        graph.load({"Person": [{"name": "Ada", "born": "1815-12-11"}]}, mode="merge")
        graph.branches.create("later")
        graph.mutate('query drop() { delete Person where name = "Bo" }', branch="later")
        graph.optimize()
    with og.open(str(path)) as graph:
        assert names(graph) == ["Ada", "Bo", "Di", "Fy"]
        assert names(graph, branch="later") == ["Ada", "Di", "Fy"]
        assert names(graph, at=expected["first"]) == ["Ada", "Bo", "Cy"]
        assert str(next(iter(graph.query(PEOPLE)))["born"]) == "1815-12-11"


def test_it_gets_the_mark_of_ours_by_writing(stored: tuple[Path, dict[str, Any]]) -> None:
    path, _ = stored
    og.relocate(path)
    og.open(str(path)).close()
    found = lance.dataset(path / MANIFEST).schema.metadata
    assert found == {key.encode(): value.encode() for key, value in format_metadata().items()}
    with og.open(str(path)) as graph:
        graph.mutate('query add() { insert Person { name: "Fy" } }', branch="draft")
        assert names(graph, branch="draft") == ["Ada", "Bo", "Di", "Ed", "Fy"]
    fork = lance.dataset(path / MANIFEST / "tree" / "draft")
    assert fork.schema.metadata == found


def test_a_repeated_key_is_still_known(stored: tuple[Path, dict[str, Any]]) -> None:
    path, expected = stored
    with og.open(str(path)) as graph:
        again = graph.mutate(FILL, idempotency_key="fill")
        assert again.commit is not None
        assert str(again.commit.id) == expected["first"]
        assert names(graph) == ["Ada", "Bo", "Di"]


def test_its_old_branch_knows_that_it_was_moved(stored: tuple[Path, dict[str, Any]]) -> None:
    path, _ = stored
    moved = path.with_name("moved.omni")
    shutil.move(path, moved)
    with og.open(str(moved)) as graph:
        assert "draft" in graph.branches.list()
        with pytest.raises(og.errors.GraphError) as failure:
            names(graph, branch="draft")
        assert failure.value.code == og.errors.Code.GRAPH_MOVED
