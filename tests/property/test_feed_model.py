"""The change feed of random histories: replayed from any cursor, it gives the present state."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import omnigraph as og
from omnigraph.runtime.ids import UlidIds
from tests.property.test_merge_model import SCHEMA, STEP, Entities, act, state

STEPS = st.lists(
    st.one_of(STEP, st.sampled_from([("merge", "", "", 0), ("index", "", "", 0)])),
    min_size=2,
    max_size=8,
)
Step = tuple[str, str, str, int]


def image(change: og.Change) -> dict[str, Any]:
    assert change.after is not None
    return {"id": change.id, **change.after}


def replayed(graph: og.Graph, start: Entities, cursor: str, limit: int) -> Entities:
    """A state, once the events behind a cursor are applied to it."""
    found = dict(start)
    while True:
        page = graph.changes.poll(cursor, limit=limit)
        for event in page.events:
            key = event.change.type, event.change.id
            assert (key in found) == (event.change.operation != "insert")
            if event.change.after is None:
                del found[key]
            else:
                found[key] = image(event.change)
        cursor = page.cursor
        if not page.more:
            return found


def do(graph: og.Graph, step: Step) -> None:
    if step[0] == "merge":
        graph.branches.merge("draft", resolve="theirs")
    elif step[0] == "index":
        graph.ensure_indices()
    else:
        act(graph, "main", step)


def check_feed(steps: list[Step], limit: int, folder: Any) -> None:
    with og.init(str(folder / UlidIds().new()), schema=SCHEMA) as graph:
        cursors = [(dict[Any, Any](), graph.changes.poll(start="now").cursor)]
        graph.load({"Person": [{"name": "p0", "a": 0, "b": 0}, {"name": "p1"}]})
        graph.branches.create("draft")
        act(graph, "draft", ("relink", "p0", "p1", 2))
        act(graph, "draft", ("insert", "p3", "p3", 1))
        for step in steps:
            do(graph, step)
            base = graph.changes.baseline()
            known = {(item.type, item.id): image(item) for item in base}
            assert known == state(graph, "main")
            cursors.append((known, base.cursor))
        now = state(graph, "main")
        for known, cursor in cursors:
            assert replayed(graph, known, cursor, limit) == now


def check_reverts(steps: list[Step], folder: Any) -> None:
    """A commit that was taken back, and the taking back taken back, is the original."""
    with og.init(str(folder / UlidIds().new()), schema=SCHEMA) as graph:
        graph.load({"Person": [{"name": "p0", "a": 0, "b": 0}, {"name": "p1"}]})
        graph.branches.create("draft")
        act(graph, "draft", ("relink", "p0", "p1", 2))
        for step in steps:
            do(graph, step)
        for commit in graph.commits.list()[:-1]:
            if graph.branches.revert(commit.id, dry_run=True).conflicts:
                continue
            before = state(graph, "main")
            done = graph.branches.revert(commit.id)
            if done.commit is None:
                assert not done.counts, "only what has changed nothing leaves nothing to take back"
            else:
                graph.branches.revert(done.commit.id)
            assert state(graph, "main") == before


@given(steps=STEPS, limit=st.sampled_from([1, 3, 1_000]))
@settings(max_examples=3, deadline=None)
def test_the_feed_gives_the_state_from_any_cursor(
    steps: list[Step], limit: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    check_feed(steps, limit, tmp_path_factory.mktemp("feed"))


@given(steps=STEPS)
@settings(max_examples=2, deadline=None)
def test_a_revert_of_a_revert_is_the_original(
    steps: list[Step], tmp_path_factory: pytest.TempPathFactory
) -> None:
    check_reverts(steps, tmp_path_factory.mktemp("revert"))


@pytest.mark.deep
@given(steps=STEPS, limit=st.sampled_from([1, 3, 1_000]))
@settings(max_examples=150, deadline=None)
def test_many_feeds_give_the_state_from_any_cursor(
    steps: list[Step], limit: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    check_feed(steps, limit, tmp_path_factory.mktemp("feed"))


@pytest.mark.deep
@given(steps=STEPS)
@settings(max_examples=80, deadline=None)
def test_many_reverts_of_reverts_are_the_original(
    steps: list[Step], tmp_path_factory: pytest.TempPathFactory
) -> None:
    check_reverts(steps, tmp_path_factory.mktemp("revert"))
