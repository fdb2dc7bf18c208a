"""`at=`: every way to name a state, and what is said of names that name none."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.errors import Code, InvalidInput, NotFound

NAMES = "query all() { match { $p: Person } return { $p.name as name } order { name } }"


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[og.Graph]:
    with og.init(str(tmp_path / "g.omni"), schema="node Person { name: String @key }") as graph:
        for name in ("Ada", "Bo", "Cy"):
            add(graph, name)
        yield graph


def add(graph: og.Graph, name: str, branch: str = "main") -> None:
    graph.mutate(f'query q() {{ insert Person {{ name: "{name}" }} }}', branch=branch)


def names(graph: og.Graph, **state: Any) -> list[str]:
    return [row["name"] for row in graph.query(NAMES, **state)]


def test_commits_and_steps_back(graph: og.Graph) -> None:
    newest, second, *_ = graph.commits.list()
    assert names(graph, at=newest.id) == names(graph, at="main") == ["Ada", "Bo", "Cy"]
    for same in (second.id, "main~", "main~1", "~1", f"{newest.id}~1"):
        assert names(graph, at=same) == ["Ada", "Bo"]
    assert names(graph, at="main~3") == []
    assert names(graph, at="main~0") == ["Ada", "Bo", "Cy"]


def test_steps_back_cross_the_beginning_of_a_branch(graph: og.Graph) -> None:
    graph.branches.create("agent/42")
    add(graph, "Di", "agent/42")
    add(graph, "Ed", "agent/42")
    assert names(graph, at="agent/42~1") == ["Ada", "Bo", "Cy", "Di"]
    assert names(graph, at="agent/42~3") == ["Ada", "Bo"]
    assert names(graph, branch="agent/42", at="~2") == ["Ada", "Bo", "Cy"]


def test_times(graph: og.Graph) -> None:
    newest, second, *_, first = graph.commits.list()
    tick = timedelta(microseconds=1)
    assert names(graph, at=newest.created_at) == ["Ada", "Bo", "Cy"]
    assert names(graph, at=newest.created_at - tick) == ["Ada", "Bo"]
    elsewhere = second.created_at.astimezone(timezone(timedelta(hours=-7)))
    assert names(graph, at=elsewhere) == names(graph, at=elsewhere.isoformat()) == ["Ada", "Bo"]
    in_utc = second.created_at.astimezone(UTC).replace(tzinfo=None)
    assert names(graph, at=in_utc.isoformat(" ")) == ["Ada", "Bo"]  # a text without a zone
    assert names(graph, at=datetime(9999, 1, 1, tzinfo=UTC)) == ["Ada", "Bo", "Cy"]
    with pytest.raises(NotFound, match="has no commit at"):
        graph.query(NAMES, at=first.created_at - tick)


def test_a_time_is_that_of_the_branch(graph: og.Graph) -> None:
    graph.branches.create("side")
    add(graph, "Di", "side")
    made = graph.commits.list("side", limit=1)[0].created_at
    add(graph, "Ed")
    assert names(graph, at=made) == ["Ada", "Bo", "Cy"]
    assert names(graph, branch="side", at=made) == ["Ada", "Bo", "Cy", "Di"]


@pytest.mark.parametrize(
    ("revision", "code", "said"),
    [
        ("2024-05-01", Code.NOT_FOUND, "a time of day, too: 2024-05-01T00:00:00Z"),
        ("mian", Code.NOT_FOUND, "did you mean `main`"),
        ("mian~2", Code.NOT_FOUND, "did you mean `main`"),
        ("01ARZ3NDEKTSV4RRFFQ69G5FAV", Code.NOT_FOUND, "01ARZ3NDEKTSV4RRFFQ69G5FAV"),
        ("main~99", Code.NOT_FOUND, "there are 3"),
        ("main~x", Code.INPUT_INVALID, "how many commits"),
        ("main~1~1", Code.INPUT_INVALID, "how many commits"),
        ("", Code.NAME_INVALID, "empty"),
        ("../x", Code.NAME_INVALID, "segment"),
        ("2024-05-01T25:00:00Z", Code.INPUT_INVALID, "2024-05-01T12:00:00Z"),
        (datetime(2024, 5, 1), Code.INPUT_INVALID, "time zone"),
        (3, Code.INPUT_INVALID, "a text or a datetime"),
    ],
)
def test_what_names_no_state_is_refused(
    graph: og.Graph, revision: Any, code: Code, said: str
) -> None:
    with pytest.raises((InvalidInput, NotFound), match=said) as caught:
        graph.query(NAMES, at=revision)
    assert caught.value.code is code


READS: dict[str, Callable[[og.Graph, Any, Path], object]] = {
    "query": lambda graph, at, _: len(graph.query(NAMES, at=at)),
    "profile": lambda graph, at, _: len(graph.profile(NAMES, at=at).rows),
    "snapshot": lambda graph, at, _: graph.snapshot(at=at).counts["node:Person"],
    "export": lambda graph, at, out: graph.export(out / "p.jsonl", at=at).rows["node:Person"],
    "diff": lambda graph, at, _: 3 - graph.diff(at, "main").counts["node:Person"].inserted,
    "algorithms": lambda graph, at, _: len(list(graph.algorithms.pagerank("Person", at=at))),
}


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("way", ["commit", "steps", "datetime", "text"])
def test_every_reading_call_takes_every_way(
    graph: og.Graph, read: str, way: str, tmp_path: Path
) -> None:
    second = graph.commits.list()[1]
    at = {
        "commit": second.id,
        "steps": "main~1",
        "datetime": second.created_at,
        "text": second.created_at.isoformat(),
    }[way]
    assert READS[read](graph, at, tmp_path) == 2


def test_branches_start_from_any_revision(graph: og.Graph) -> None:
    second = graph.commits.list()[1]
    for name, at in (("a", second.id), ("b", "main~1"), ("c", second.created_at)):
        assert graph.branches.create(name, at=at).head == second.id
    add(graph, "Di", "a")
    own = graph.branches.show("a").head
    assert graph.branches.create("d", at="a~0").head == own
    with pytest.raises(NotFound, match="has no commit"):
        graph.branches.create("e", at=own)
