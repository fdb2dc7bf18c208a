"""The truth table of merges: every state of an entity at the base and on both sides.

All rows of the table stand in one graph, each with an entity of its own, so that one merge decides
all of them. The model of `test_merge_model` says what must come out.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from tests.property.test_merge_model import SCHEMA, Entities, check_sides, merged, state

# Nothing, a first state, changes of one property, of the other one, of both; None is absent.
STATES: list[tuple[int, int] | None] = [None, (0, 0), (1, 0), (2, 0), (0, 1), (1, 1)]
WEIGHTS: list[int | None] = [None, 0, 1, 2]


def person(name: str, values: tuple[int, int] | None) -> Entities:
    if values is None:
        return {}
    return {("Person", name): {"id": name, "name": name, "a": values[0], "b": values[1]}}


def knows(one: str, other: str, weight: int | None) -> Entities:
    if weight is None:
        return {}
    name = f'["{one}","{other}"]'
    return {("Knows", name): {"id": name, "from": one, "to": other, "w": weight}}


HUB = person("hub", (0, 0))
Case = tuple[Entities, Entities, Entities]


def cases() -> Iterator[Case]:
    """The base and both sides of every row of the table."""
    yield from node_cases()
    yield from edge_cases()
    yield from end_cases()


def node_cases() -> Iterator[Case]:
    for number, (base, ours, theirs) in enumerate(product(STATES[:2], STATES, STATES)):
        name = f"n{number}"
        yield person(name, base), person(name, ours), person(name, theirs)


def edge_cases() -> Iterator[Case]:
    for number, weights in enumerate(product(WEIGHTS[:2], WEIGHTS, WEIGHTS)):
        end = person(f"e{number}", (0, 0)) | HUB
        base, ours, theirs = (end | knows("hub", f"e{number}", weight) for weight in weights)
        yield base, ours, theirs


def end_cases() -> Iterator[Case]:
    """A node that is left, changed or deleted, and an edge to it."""
    first: tuple[int, int] = (0, 0)
    sides: list[tuple[tuple[int, int] | None, int | None]] = [
        (None, None),
        *product([first, (1, 0)], WEIGHTS),
    ]
    for number, (weight, one, two) in enumerate(product(WEIGHTS[:2], sides, sides)):
        name = f"x{number}"
        base, ours, theirs = (
            HUB | person(name, values) | knows("hub", name, w)
            for values, w in ((first, weight), one, two)
        )
        yield base, ours, theirs


def apply(graph: og.Graph, branch: str, before: Entities, after: Entities) -> None:
    """Bring a branch from one state to another."""
    gone = [key for key in before if key not in after]
    texts = [f'delete Person where name = "{name}"' for kind, name in gone if kind == "Person"] + [
        f'delete Knows where from = "{before[key]["from"]}" and to = "{before[key]["to"]}"'
        for key in gone
        if key[0] == "Knows"
    ]
    if texts:
        graph.mutate(f"query q() {{ {' '.join(texts)} }}", branch=branch)
    changed = {key: row for key, row in after.items() if before.get(key) != row}
    tables: dict[str, list[dict[str, Any]]] = {}
    for (kind, _), row in changed.items():
        kept = {name: value for name, value in row.items() if name != "id"}
        tables.setdefault(kind, []).append(kept)
    if tables:
        graph.load(tables, mode="merge", branch=branch)


def filled(graph: og.Graph) -> tuple[Entities, Entities, Entities]:
    """A graph with all rows of the table."""
    base: Entities = {}
    ours: Entities = {}
    theirs: Entities = {}
    for case in cases():
        for whole, part in zip((base, ours, theirs), case, strict=True):
            whole.update(part)
    apply(graph, "main", {}, base)
    graph.branches.create("draft")
    apply(graph, "main", base, ours)
    apply(graph, "draft", base, theirs)
    assert (state(graph, "main"), state(graph, "draft")) == (ours, theirs)
    return base, ours, theirs


@pytest.mark.parametrize("maintained", [False, pytest.param(True, marks=pytest.mark.deep)])
def test_the_truth_table(tmp_path: Path, maintained: bool) -> None:
    with og.init(str(tmp_path / "g.omni"), schema=SCHEMA) as graph:
        base, ours, theirs = filled(graph)
        if maintained:
            graph.ensure_indices()
            graph.optimize()
            graph.optimize(branch="draft")
        expected, conflicts = merged(base, ours, theirs)
        found = graph.branches.merge("draft", dry_run=True)
        assert {(item.kind.value, str(item.id)) for item in found.conflicts} == conflicts
        assert len({kind for kind, _ in conflicts}) == 4
        mirrored = graph.branches.merge("main", into="draft", dry_run=True)
        assert {(item.kind.value, str(item.id)) for item in mirrored.conflicts} == conflicts
        if maintained:
            check_sides(graph)
        # What is in no conflict comes out as the model says.
        graph.branches.merge("draft", resolve="ours")
        now = state(graph, "main")
        disputed = {name for _, name in conflicts}
        disputed |= {
            row["to"] for key, row in expected.items() if key[1] in disputed and row.get("to")
        }
        settled = [
            key
            for key, row in expected.items()
            if key[1] not in disputed and row.get("to") not in disputed
        ]
        assert len(settled) > 200
        for key in settled:
            assert now[key] == expected[key], key
