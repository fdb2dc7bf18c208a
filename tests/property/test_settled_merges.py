"""Merges that a side settles, where rules of the schema tie entities together.

Values are unique, edges have no key and may be moved, and a node that has edges has one or two of
them. Histories may have crossed, so that there are two merge bases. Whatever the conflicts are, a
side settles all of them, the rules hold in the result, and its counts are those of a diff.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import omnigraph as og
from omnigraph.runtime.ids import UlidIds
from tests.dice import Dice
from tests.examples import examples
from tests.property.test_merge_model import applied

SCHEMA = """
node Person { name: String @key  code: I32? @unique }
node Team { name: String @key  code: I32? @unique }
edge In: Person -> Team @card(1..2) { w: I32? @unique }
edge Likes: Person -> Person @card(0..1)
"""
Rows = dict[str, list[dict[str, Any]]]
Entities = dict[tuple[str, str], dict[str, Any]]

NAMES = ["a", "b", "c", "d"]
CODES = [None, 0, 1, 2]
GONE = ["Person where name", "Team where name", "In where from", "In where to"]
EDGES = {"In": ["i", "j", "k", "l", "m"], "Likes": ["x", "y", "z"]}


class Histories(Dice):
    """Histories that depend on a seed alone."""

    def load(self) -> Rows:
        """A few rows of each type; of values that are left out, an entity keeps its own."""
        rows: Rows = {}
        for kind in ("Person", "Team"):
            rows[kind] = [{"name": name} for name in self.some(NAMES)]
        for kind, ids in EDGES.items():
            rows[kind] = [
                {"id": name, "from": self.one(NAMES), "to": self.one(NAMES)}
                for name in self.some(ids)
            ]
        for kind, name in (("Person", "code"), ("Team", "code"), ("In", "w")):
            for row in rows[kind]:
                if self.is_so(0.5):
                    row[name] = self.one(CODES)
        return rows

    def history(self) -> list[Any]:
        """Rows that are loaded, and conditions by which entities are deleted."""
        return [
            f'{self.one(GONE)} = "{self.one(NAMES)}"' if self.is_so(0.3) else self.load()
            for _ in range(self.one([2, 3, 4, 5]))
        ]


def write(graph: og.Graph, branch: str, steps: Sequence[Any]) -> None:
    """Do what the rules allow."""
    for step in steps:
        try:
            if isinstance(step, str):
                graph.mutate(f"query q() {{ delete {step} }}", branch=branch)
            else:
                graph.load(step, mode="merge", branch=branch)
        except og.errors.ConstraintViolated:
            pass


def state(graph: og.Graph, branch: str) -> Entities:
    found = graph.changes.baseline(branch=branch)
    return {(item.type, item.id): {"id": item.id, **(item.after or {})} for item in found}


def check_rules(found: Entities) -> None:
    """Check every rule of the schema, by looking at everything."""
    values: Counter[tuple[str, str, int]] = Counter()
    edges: Counter[tuple[str, str]] = Counter()
    for (kind, _), row in found.items():
        values.update(
            (kind, name, row[name]) for name in ("code", "w") if row.get(name) is not None
        )
        if kind in ("In", "Likes"):
            edges[kind, row["from"]] += 1
            target = "Team" if kind == "In" else "Person"
            assert ("Person", row["from"]) in found
            assert (target, row["to"]) in found
    assert set(values.values()) <= {1}
    for (kind, _), count in edges.items():
        assert count <= (2 if kind == "In" else 1)


def cross(graph: og.Graph, side: Any) -> None:
    """Merge each branch into the other one, as it was before."""
    graph.branches.create("before", "main")
    graph.branches.merge("draft", resolve=side)
    graph.branches.merge("before", into="draft", resolve=side)


def check(graph: og.Graph, source: str, into: str, side: Any) -> None:
    copy = f"{into}-{side}"
    graph.branches.create(copy, into)
    before = state(graph, copy)
    plan = graph.branches.merge(source, into=copy, resolve=side, dry_run=True)
    assert not plan.conflicts
    done = graph.branches.merge(source, into=copy, resolve=side)
    assert (done.outcome, done.counts, done.settled) == (plan.outcome, plan.counts, plan.settled)
    after = state(graph, copy)
    check_rules(after)
    diff = graph.diff(into, copy)
    assert diff.counts == done.counts
    assert applied(diff, before) == after
    assert graph.branches.merge(source, into=copy).outcome == "already_up_to_date"


def check_histories(seed: int, folder: Path) -> None:
    dice = Histories(seed)
    with og.init(str(folder / UlidIds().new()), schema=SCHEMA) as graph:
        write(graph, "main", dice.history())
        graph.branches.create("draft")
        for number in range(dice.one([1, 2])):
            if number:
                cross(graph, dice.one(["ours", "theirs"]))
            for branch in ("main", "draft"):
                write(graph, branch, dice.history())
        found = graph.branches.merge("draft", dry_run=True)
        mirrored = graph.branches.merge("main", into="draft", dry_run=True)
        kinds = [Counter(item.kind for item in plan.conflicts) for plan in (found, mirrored)]
        assert kinds[0] == kinds[1]
        for source, into in (("draft", "main"), ("main", "draft")):
            for side in ("ours", "theirs"):
                check(graph, source, into, side)


@given(seed=st.integers(0, 1 << 32))
@examples(6, deadline=None)
def test_a_side_settles_whatever_there_is(
    seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    check_histories(seed, tmp_path_factory.mktemp("settled"))
