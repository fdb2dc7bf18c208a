"""Tables of new types: made beside everything that others write to, visible with their commit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.core.publish.publisher import Published
from omnigraph.core.repository import Repository
from omnigraph.core.write import Prepared
from omnigraph.exec import tuning
from tests.graphs import clean
from tests.large_merges import BY_TASKS

BEFORE = "node Person { name: String @key }\n"
CITY = BEFORE + "node City { name: String @key }\n"
LARGER = BEFORE + "node City { name: String @key  size: I32? }\n"
COUNT = "query q() { match { $c: City } return { $c.name as name } order { name } }"


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    made = og.init(tmp_path / "g.omni", schema=BEFORE)
    for name in ("one", "two"):
        made.branches.create(name)
        made.schema.apply(CITY, branch=name)
        made.load({"City": [{"name": name}]}, branch=name)
    return made


def cities(graph: og.Graph, branch: str = "main") -> list[object]:
    return [row["name"] for row in og.open(graph.uri).query(COUNT, branch=branch)]


def assert_heads_are_published(repo: Repository) -> None:
    """Nobody has landed a version on a table that the commits of the graph do not have."""
    for branch in repo.branches.list():
        for pin in repo.snapshot(branch).tables.values():
            head = repo.tables.head(pin.path, pin.table_branch)
            assert head == pin.version, f"{pin.table_key} on {branch}"


def before_its_commit(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Let others act once, when the next write is prepared."""
    commit, waiting = Repository.commit, [act]

    def patched(repo: Repository, prepared: Prepared) -> Published:
        while waiting:
            waiting.pop()()
        return commit(repo, prepared)

    monkeypatch.setattr(Repository, "commit", patched)


def side_by_side(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Let another one prepare its write when the next one is prepared, and be the second."""
    commit, waiting, done = Repository.commit, [act], list[Published]()

    def first(repo: Repository, prepared: Prepared) -> Published:
        def second(other: Repository, its: Prepared) -> Published:
            if not done:
                done.append(commit(repo, prepared))
            return commit(other, its)

        if waiting:
            monkeypatch.setattr(Repository, "commit", second)
            waiting.pop()()
            return done[0]
        return commit(repo, prepared)

    monkeypatch.setattr(Repository, "commit", first)


def merge(graph: og.Graph, source: str, into: str) -> None:
    og.open(graph.uri).branches.merge(source, into)


def apply(graph: og.Graph, schema: str, branch: str) -> None:
    og.open(graph.uri).schema.apply(schema, branch=branch)


@pytest.mark.parametrize("into", ["main", "third"])
def test_two_merges_at_once_leave_no_version_behind(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch, into: str
) -> None:
    if into != "main":
        graph.branches.create(into)
    side_by_side(monkeypatch, lambda: merge(graph, "two", into))
    merge(graph, "one", into)
    assert cities(graph, into) == ["one", "two"]
    assert_heads_are_published(graph._repo)
    graph.mutate('query q() { insert City { name: "three" } }', branch=into)
    kinds = [commit.kind for commit in graph.commits.list(into)]
    assert "recovery" not in kinds


@pytest.mark.parametrize("branch", ["main", "third"])
def test_two_schemas_at_once_leave_no_version_behind(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch, branch: str
) -> None:
    if branch != "main":
        graph.branches.create(branch)

    def second() -> None:
        with pytest.raises(og.errors.Conflict, match="has changed meanwhile"):
            apply(graph, LARGER, branch)

    side_by_side(monkeypatch, second)
    apply(graph, CITY, branch)
    assert_heads_are_published(graph._repo)
    apply(graph, LARGER, branch)
    graph.mutate('query q() { insert City { name: "three", size: 3 } }', branch=branch)
    assert cities(graph, branch) == ["three"]
    assert_heads_are_published(graph._repo)


@pytest.mark.parametrize("size", ["small", "large"])
def test_a_merge_that_ends_before_its_intent_leaves_nothing_in_the_way(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch, size: str
) -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    before_its_commit(monkeypatch, stop)
    with (
        tuning.tuned(**BY_TASKS if size == "large" else {}),
        pytest.raises(KeyboardInterrupt),
    ):
        merge(graph, "one", "main")
    before = stored(graph)
    apply(graph, LARGER, "main")
    merge(graph, "two", "main")
    assert cities(graph) == ["two"]
    assert_heads_are_published(graph._repo)
    repo = og.open(graph.uri)._repo
    clean(repo, keep=100)
    pinned = {
        pin.path for name in repo.branches.list() for pin in repo.snapshot(name).tables.values()
    }
    assert stored(graph) == pinned
    assert len(before - pinned) == 1
    assert cities(graph) == ["two"]


def stored(graph: og.Graph) -> set[str]:
    """The folders of tables."""
    return {f"nodes/{item.name}" for item in (Path(graph.uri) / "nodes").iterdir()}
