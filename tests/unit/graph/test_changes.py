"""The change feed and the changes of a commit."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import omnigraph as og
from omnigraph.exec.changes.cursor import Cursor, decode

SCHEMA = """
node Person { name: String @key  age: I32? }
edge Knows: Person -> Person { @key(src, dst) }
"""


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[og.Graph]:
    with og.init(str(tmp_path / "g.omni"), schema=SCHEMA) as graph:
        yield graph


def change(graph: og.Graph, text: str, branch: str = "main") -> str:
    commit = graph.mutate(f"query q() {{ {text} }}", branch=branch).commit
    assert commit is not None
    return commit.id


def history(graph: og.Graph) -> list[str]:
    """A few commits of each kind."""
    people = [{"name": f"p{number}", "age": number} for number in range(5)]
    loaded = graph.load({"Person": people}).commit.id
    linked = change(graph, 'insert Knows { from: "p0", to: "p1" }')
    graph.ensure_indices()
    aged = change(graph, "update Person set { age: 9 } where age > 2")
    gone = change(graph, 'delete Person where name = "p0"')
    graph.optimize()
    return [loaded, linked, aged, gone]


def applied(pages: list[og.ChangePage]) -> dict[str, int | None]:
    """The people that remain when all events are applied; repeating one changes nothing."""
    found: dict[str, int | None] = {}
    for event in (event for page in pages for event in page.events):
        if event.change.type == "Person":
            if event.change.after is None:
                found.pop(event.change.id, None)
            else:
                found[event.change.id] = event.change.after["age"]
    return found


def test_the_changes_of_each_commit(graph: og.Graph) -> None:
    loaded, linked, aged, gone = history(graph)
    assert graph.commits.changes(loaded).counts["node:Person"].inserted == 5
    assert list(graph.commits.changes(linked).counts) == ["edge:Knows"]
    assert [item.changed for item in graph.commits.changes(aged)] == [("age",), ("age",)]
    kinds = [(item.kind, item.operation) for item in graph.commits.changes(gone)]
    assert kinds == [("node", "delete"), ("edge", "delete")]
    first = graph.commits.list()[-1]
    assert graph.commits.changes(first.id).is_empty
    assert graph.commits.changes(graph.commits.list(limit=1)[0].id).is_empty, "it optimized"


@pytest.mark.parametrize("limit", [1, 2, 3, 1000])
def test_replaying_the_feed_gives_the_state(graph: og.Graph, limit: int) -> None:
    history(graph)
    pages = [graph.changes.poll(limit=limit)]
    while pages[-1].more:
        assert len(pages[-1].events) == limit
        pages.append(graph.changes.poll(pages[-1].cursor, limit=limit))
    now = graph.query("query q() { match { $p: Person } return { $p.name as n, $p.age as a } }")
    assert applied(pages) == {row["n"]: row["a"] for row in now}
    events = [event for page in pages for event in page.events]
    assert len(events) == 10, "each change once, with nothing for indexes and compaction"
    commits = [event.commit.id for event in events]
    assert commits == sorted(commits)
    assert graph.changes.poll(pages[-1].cursor).events == ()


def test_what_comes_after_now(graph: og.Graph) -> None:
    history(graph)
    page = graph.changes.poll(start="now")
    assert page.events == ()
    commit = change(graph, 'insert Person { name: "x" }')
    page = graph.changes.poll(page.cursor)
    assert [(event.commit.id, event.change.id) for event in page.events] == [(commit, "x")]


def test_a_commit_that_lands_while_a_feed_finds_nothing_new_is_for_its_next_page(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    cursor = graph.changes.poll(start="now").cursor
    repo = graph._repo
    commits = repo.commits

    def overtaken(*args: Any) -> Iterator[Any]:
        found = list(commits(*args))
        monkeypatch.undo()
        change(graph, 'insert Person { name: "late" }')
        return iter(found)

    monkeypatch.setattr(repo, "commits", overtaken)
    page = graph.changes.poll(cursor)
    assert not page.events
    [event] = graph.changes.poll(page.cursor).events
    assert event.change.id == "late"


def test_the_cursor_knows_its_filter(graph: og.Graph) -> None:
    history(graph)
    page = graph.changes.poll(types=["Knows"], operations=["insert", "delete"], limit=1)
    found = list(page.events)
    while page.more:
        page = graph.changes.poll(page.cursor, limit=1)
        found += page.events
    assert [(event.change.type, event.change.operation) for event in found] == [
        ("Knows", "insert"),
        ("Knows", "delete"),
    ]
    with pytest.raises(og.errors.InvalidInput, match="no type"):
        graph.changes.poll(types=["Nothing"])
    with pytest.raises(og.errors.InvalidInput, match="no operation"):
        graph.changes.poll(operations=["x"])  # type: ignore[list-item]
    with pytest.raises(og.errors.InvalidInput, match="'beginning' or 'now'"):
        graph.changes.poll(start="yesterday")  # type: ignore[arg-type]


def test_a_branch_made_again_under_its_name_is_another_one(graph: og.Graph) -> None:
    graph.branches.create("draft")
    change(graph, 'insert Person { name: "x" }', "draft")
    page = graph.changes.poll(branch="draft")
    assert [event.change.id for event in page.events] == ["x"]
    graph.branches.delete("draft")
    with pytest.raises(og.errors.NotFound):
        graph.changes.poll(page.cursor)
    graph.branches.create("draft")
    with pytest.raises(og.errors.Gone, match=r"graph\.changes\.baseline"):
        graph.changes.poll(page.cursor)
    base = graph.changes.baseline(branch="draft")
    assert list(base) == []
    change(graph, 'insert Person { name: "y" }', "draft")
    assert [e.change.id for e in graph.changes.poll(base.cursor).events] == ["y"]


def test_a_baseline_is_one_state_and_the_cursor_behind_it(graph: og.Graph) -> None:
    history(graph)
    base = graph.changes.baseline(types=["Person"], operations=["insert"])
    assert base.commit == graph.snapshot().commit
    change(graph, 'delete Person where name = "p1"')
    change(graph, 'insert Person { name: "x" }')
    found = {item.id: item for item in base}
    assert sorted(found) == ["p1", "p2", "p3", "p4"], "as it was at its commit"
    assert {(item.operation, item.before) for item in base} == {("insert", None)}
    assert found["p4"].after == {"age": 9, "name": "p4"}
    assert sum(batch.num_rows for _, batch in base.batches()) == 4
    assert [key for key, _ in base.batches()] == ["node:Person"]
    events = graph.changes.poll(base.cursor).events
    assert [(e.change.id, e.change.operation) for e in events] == [("x", "insert")]
    with pytest.raises(og.errors.InvalidInput, match="no type"):
        graph.changes.baseline(types=["Nothing"])


def test_a_branch_is_followed_through_what_it_was_made_from(graph: og.Graph) -> None:
    change(graph, 'insert Person { name: "a" }')
    graph.branches.create("draft")
    change(graph, 'insert Person { name: "b" }', "draft")
    change(graph, 'insert Person { name: "c" }')
    page = graph.changes.poll(branch="draft")
    assert [event.change.id for event in page.events] == ["a", "b"]


def test_following_yields_pages_as_they_come(graph: og.Graph) -> None:
    change(graph, 'insert Person { name: "a" }')
    pages = graph.changes.follow(start="beginning", every=0.001)
    assert [event.change.id for event in next(pages).events] == ["a"]
    change(graph, 'insert Person { name: "b" }')
    assert [event.change.id for event in next(pages).events] == ["b"]


@pytest.mark.parametrize(
    "text",
    ["", "x", "äöü", "e30", None, 7, base64.urlsafe_b64encode(b'{"v":1,"branch":3}').decode()],
)
def test_a_text_that_is_no_cursor(text: object) -> None:
    with pytest.raises(og.errors.InvalidInput, match="cursor"):
        decode(text)


def test_a_cursor_of_the_future() -> None:
    raw = json.dumps({"v": 2, "branch": "main", "incarnation": "x"}).encode()
    with pytest.raises(og.errors.InvalidInput, match="newer version"):
        decode(base64.urlsafe_b64encode(raw).decode())


TEXTS = st.text(max_size=8)


@given(
    st.builds(
        Cursor,
        branch=TEXTS,
        incarnation=TEXTS,
        commit=st.none() | TEXTS,
        type_key=st.none() | TEXTS,
        entity_id=st.none() | TEXTS,
        types=st.none() | st.lists(TEXTS, max_size=3).map(tuple),
        operations=st.none() | st.lists(TEXTS, max_size=3).map(tuple),
    )
)
def test_a_cursor_survives_its_text(cursor: Cursor) -> None:
    text = cursor.encode()
    assert decode(text) == cursor
    assert text.isascii()
    assert not set(text) & set("=+/ ")


def test_a_cursor_goes_on_when_its_branch_is_renamed(graph: og.Graph) -> None:
    graph.branches.create("draft")
    cursor = graph.changes.poll(branch="draft", start="now").cursor
    graph.branches.rename("draft", "final")
    graph.mutate('query q() { insert Person { name: "Zoe" } }', branch="final")
    graph.branches.create("draft")
    (event,) = graph.changes.poll(cursor).events
    assert event.change.id == "Zoe"
    with pytest.raises(og.errors.InvalidInput, match="other branch"):
        graph.changes.poll(cursor, branch="draft")
    graph.branches.delete("draft")
    for name in ("draft", "final"):
        assert len(graph.changes.poll(cursor, branch=name).events) == 1


@pytest.mark.parametrize(
    ("others", "named"),
    [
        ({"branch": "draft"}, "branch"),
        ({"types": ["Person"], "operations": ["insert"]}, "operations"),
        ({"types": []}, "types"),
    ],
)
def test_a_cursor_is_refused_for_what_it_was_not_made_for(
    graph: og.Graph, others: dict[str, Any], named: str
) -> None:
    graph.branches.create("draft")
    terms: dict[str, Any] = {"branch": "main", "types": ["Person"], "operations": ["update"]}
    cursor = graph.changes.poll(start="now", **terms).cursor
    assert graph.changes.poll(cursor, **terms).events == ()
    for call in (graph.changes.poll, graph.changes.follow):
        with pytest.raises(og.errors.InvalidInput, match=f"other {named};"):
            call(cursor, **others)
