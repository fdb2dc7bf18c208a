"""Random histories of schemas on two branches, against a model of dictionaries.

Every commit is asked again at the end, with the schema that it had; states are compared with each
other, and the branches are merged both ways.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import omnigraph as og
from omnigraph.errors import Code, Conflict
from omnigraph.runtime.ids import UlidIds
from tests.property.schema_model import STEP, SchemaClash, Side, act, merged, state


def check_merge(graph: og.Graph, base: Side, ours: Side, theirs: Side) -> Side | None:
    """Merge the draft into main, as the model does; None when it has to be refused."""
    before = graph.snapshot().commit
    try:
        expected, is_disputed = merged(base, ours, theirs)
    except SchemaClash:
        with pytest.raises(Conflict) as caught:
            graph.branches.merge("draft")
        assert caught.value.code is Code.MERGE_CONFLICT
        assert "schema_conflicts" in caught.value.details
        assert graph.snapshot().commit == before
        return None
    if is_disputed:
        with pytest.raises(Conflict):
            graph.branches.merge("draft")
        assert graph.snapshot().commit == before
        return None
    graph.branches.merge("draft")
    assert state(graph, expected) == expected.shown()
    return expected


def check(histories: tuple[list[Any], list[Any], list[Any], list[Any]], folder: Any) -> None:
    before, ours, theirs, later = histories
    with og.init(str(folder / UlidIds().new()), schema="node T0 { name: String @key }") as graph:
        commits: list[tuple[str, Side]] = []

        def run(branch: str, side: Side, steps: list[Any]) -> Side:
            for step in steps:
                side = act(graph, branch, side, step)
                commits.append((graph.snapshot(branch).commit, side))
            return side

        base = run("main", Side(), [("insert", "p0", "p0", "r0", 0), *before])
        graph.branches.create("draft")
        main, draft = run("main", base, ours), run("draft", base, theirs)
        done = check_merge(graph, base, main, draft)
        if done is not None:
            # What both know now is the base of the next merge.
            commits.append((graph.snapshot().commit, done))
            check_merge(graph, draft, run("main", done, later), run("draft", draft, later[:1]))
        reader = og.open(graph.uri, mode="r")
        for commit, side in commits:
            assert state(reader, side, at=commit) == side.shown()
        check_diff(reader, commits[0], commits[-1])
        check_diff(reader, commits[-1], commits[0])


def check_diff(graph: og.Graph, older: tuple[str, Side], newer: tuple[str, Side]) -> None:
    before, after = older[1].aligned(newer[1].columns), newer[1].aligned(newer[1].columns)
    names = {**before, **after}
    expected = {name for name in names if before.get(name) != after.get(name)}
    assert {item.id for item in graph.diff(older[0], newer[0])} == expected


STEPS = st.lists(STEP, max_size=4)
HISTORIES = st.tuples(STEPS, STEPS, STEPS, st.lists(STEP, max_size=2))


@given(histories=HISTORIES)
@settings(max_examples=8, deadline=None)
def test_schema_histories_are_those_of_the_model(
    histories: tuple[list[Any], list[Any], list[Any], list[Any]],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    check(histories, tmp_path_factory.mktemp("schemas"))


@pytest.mark.deep
@given(histories=HISTORIES)
@settings(max_examples=300, deadline=None)
def test_many_schema_histories_are_those_of_the_model(
    histories: tuple[list[Any], list[Any], list[Any], list[Any]],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    check(histories, tmp_path_factory.mktemp("schemas"))
