"""Merges of random histories, against a model that merges dictionaries.

The model knows the values of every entity at the merge base and on both sides, and nothing about
tables. Both must find the same conflicts, or the same merged state; in between there are folds,
compactions, overwrites and index builds, which change nothing.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import omnigraph as og
from omnigraph.runtime.ids import UlidIds

SCHEMA = """
node Person { name: String @key  a: I32?  b: I32? }
edge Knows: Person -> Person { w: I32?  @key(src, dst) }
"""
NAMES = ["p0", "p1", "p2", "p3"]
COLUMNS = {"Person": ("a", "b"), "Knows": ("from", "to", "w")}
Entities = dict[tuple[str, str], dict[str, Any]]

STEP = st.tuples(
    st.sampled_from(
        [
            *("insert", "set_a", "set_b", "delete", "link", "relink", "unlink"),
            *("reload", "optimize", "index"),
        ]
    ),
    st.sampled_from(NAMES),
    st.sampled_from(NAMES),
    st.integers(0, 2),
)


def act(graph: og.Graph, branch: str, step: tuple[str, str, str, int]) -> None:
    """Do something that may find nothing to do."""
    what, one, other, value = step
    texts = {
        "insert": f'insert Person {{ name: "{one}", a: {value} }}',
        "set_a": f'update Person set {{ a: {value} }} where name = "{one}"',
        "set_b": f'update Person set {{ b: {value} }} where name = "{one}"',
        "delete": f'delete Person where name = "{one}"',
        "link": f'insert Knows {{ from: "{one}", to: "{other}" }}',
        "relink": f'insert Knows {{ from: "{one}", to: "{other}", w: {value} }}',
        "unlink": f'delete Knows where from = "{one}"',
    }
    if what == "optimize":
        graph.optimize(branch=branch)
    elif what == "index":
        graph.ensure_indices(branch=branch)
    elif what == "reload":
        people = [row for (kind, _), row in state(graph, branch).items() if kind == "Person"]
        rows = {row["id"]: {"name": row["id"], "a": row["a"], "b": row["b"]} for row in people}
        rows[one] = {"name": one, "a": value, "b": None}
        graph.load({"Person": list(rows.values())}, branch=branch, mode="overwrite")
    else:
        try:
            graph.mutate(f"query q() {{ {texts[what]} }}", branch=branch)
        except og.errors.ConstraintViolated:
            assert what in ("link", "relink"), "only an end that is missing breaks a rule here"


def state(graph: og.Graph, branch: str) -> Entities:
    now = graph.snapshot(branch)
    people = now.query("query q() { match { $p: Person } return { $p } }")
    edges = now.query("query q() { match { $x: Person  $x $k: knows $y } return { $k } }")
    found = {("Person", row["p"]["id"]): row["p"] for row in people}
    return found | {("Knows", row["k"]["id"]): row["k"] for row in edges}


def merged(
    base: Entities, ours: Entities, theirs: Entities
) -> tuple[Entities, set[tuple[str, str]]]:
    """Merge dictionaries; the second value names the conflicts by kind and id."""
    result: Entities = dict(ours)
    conflicts: set[tuple[str, str]] = set()
    for key in theirs.keys() | base.keys():
        b, o, t = base.get(key), ours.get(key), theirs.get(key)
        if t in (b, o):
            continue
        if o == b:
            if t is None:
                result.pop(key, None)
            else:
                result[key] = t
        elif o is None or t is None:
            conflicts.add(("delete_vs_update", key[1]))
        else:
            kind = "divergent_insert" if b is None else "divergent_update"
            cells = dict(o)
            for name in COLUMNS[key[0]]:
                if b is None or (o[name] != b[name] and t[name] != b[name]):
                    if o[name] != t[name]:
                        conflicts.add((kind, key[1]))
                elif t[name] != b[name]:
                    cells[name] = t[name]
            result[key] = cells
    for (kind_name, name), row in result.items():
        if kind_name == "Knows" and any(
            ("Person", row[end]) not in result for end in ("from", "to")
        ):
            names = (name, row["from"], row["to"])
            is_disputed = any(("delete_vs_update", each) in conflicts for each in names)
            if not is_disputed:
                conflicts.add(("orphan_edge", name))
    return result, conflicts


def applied(diff: og.Diff, start: Entities) -> Entities:
    """A state with the changes that a diff tells."""
    found = dict(start)
    for change in diff:
        key = change.type, change.id
        assert found.get(key) == (change.before and {"id": change.id, **change.before})
        if change.after is None:
            del found[key]
        else:
            found[key] = {"id": change.id, **change.after}
    return found


def check_sides(graph: og.Graph) -> None:
    """Settled by one side, a merge is the mirrored merge, settled by the other."""
    for ours, theirs in (("ours", "theirs"), ("theirs", "ours")):
        graph.branches.create(f"main-{ours}", "main")
        graph.branches.create(f"draft-{ours}", "draft")
        graph.branches.merge("draft", into=f"main-{ours}", resolve=ours)
        graph.branches.merge("main", into=f"draft-{ours}", resolve=theirs)
        found = state(graph, f"main-{ours}")
        assert found == state(graph, f"draft-{ours}")
        for (kind, _), row in found.items():
            assert kind != "Knows" or {("Person", row["from"]), ("Person", row["to"])} <= set(found)


HISTORIES = st.tuples(
    st.lists(STEP, max_size=4), st.lists(STEP, max_size=5), st.lists(STEP, max_size=5)
)


def check(histories: tuple[list[Any], list[Any], list[Any]], folder: Any) -> None:
    before, ours, theirs = histories
    with og.init(str(folder / UlidIds().new()), schema=SCHEMA) as graph:
        graph.load({"Person": [{"name": "p0", "a": 0, "b": 0}, {"name": "p1"}]})
        for step in before:
            act(graph, "main", step)
        start = graph.branches.create("draft").head
        base = state(graph, "main")
        for branch, steps in (("main", ours), ("draft", theirs)):
            for step in steps:
                act(graph, branch, step)
        sides = state(graph, "main"), state(graph, "draft")
        assert applied(graph.diff("main", "draft"), sides[0]) == sides[1]
        assert applied(graph.diff("draft", "main"), sides[1]) == sides[0]
        graph.branches.create("base", at=start)
        assert graph.branches.merge("base").outcome == "already_up_to_date"
        assert state(graph, "main") == sides[0]
        expected, conflicts = merged(base, *sides)
        found = graph.branches.merge("draft", dry_run=True)
        assert {(item.kind.value, str(item.id)) for item in found.conflicts} == conflicts
        mirrored = graph.branches.merge("main", into="draft", dry_run=True)
        assert {(item.kind.value, str(item.id)) for item in mirrored.conflicts} == conflicts
        if conflicts:
            with pytest.raises(og.errors.Conflict):
                graph.branches.merge("draft")
            assert state(graph, "main") == sides[0]
            check_sides(graph)
            return
        graph.branches.merge("draft")
        assert state(graph, "main") == expected
        assert state(graph, "draft") == sides[1]
        graph.branches.merge("main", into="draft")
        assert graph.diff("main", "draft").is_empty


@given(histories=HISTORIES)
@settings(max_examples=8, deadline=None)
def test_merges_are_those_of_the_model(
    histories: tuple[list[Any], list[Any], list[Any]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    check(histories, tmp_path_factory.mktemp("merge"))


@pytest.mark.deep
@given(histories=HISTORIES)
@settings(max_examples=300, deadline=None)
def test_many_merges_are_those_of_the_model(
    histories: tuple[list[Any], list[Any], list[Any]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    check(histories, tmp_path_factory.mktemp("merge"))
