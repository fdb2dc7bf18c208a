"""Relocating, broken anywhere: a branch is refused or right, and never reads the other place."""

from __future__ import annotations

import pytest

import omnigraph as og
from omnigraph.errors import Code, Corrupt
from omnigraph.store.root import Root
from tests.faults.harness import FAULTS
from tests.faults.whole_graphs import (
    Undertaking,
    Workshop,
    break_at,
    calls_of,
    init_at,
    open_at,
    relocate_at,
    sample,
)

SCHEMA = "node Person { name: String @key }"
ALL = "query all() { match { $p: Person } return { $p.name as name } order { name } }"
ADD = "query add($n: String) { insert Person { name: $n } }"
EXPECTED = {"main": ["Ada"], "dev": ["Ada", "Bo"], "dev2": ["Ada", "Bo", "Cy"]}


def make(root: Root) -> None:
    """A graph with a branch and a branch of that; copied elsewhere it wants to be relocated."""
    with init_at(root, SCHEMA) as graph:
        graph.mutate(ADD, {"n": "Ada"})
        graph.branches.create("dev")
        graph.mutate(ADD, {"n": "Bo"}, branch="dev")
        graph.branches.create("dev2", "dev")
        graph.mutate(ADD, {"n": "Cy"}, branch="dev2")


def run(root: Root) -> None:
    relocate_at(root)


def judge_broken(root: Root) -> None:
    with open_at(root, "r") as graph:
        for branch, expected in EXPECTED.items():
            assert names_or_refusal(graph, branch) in (expected, Code.GRAPH_MOVED)
        assert names_or_refusal(graph, "main") == EXPECTED["main"]


def names_or_refusal(graph: og.Graph, branch: str) -> list[str] | Code:
    try:
        return [row["name"] for row in graph.query(ALL, branch=branch)]
    except Corrupt as refusal:
        return refusal.code


def judge_done(root: Root) -> None:
    assert relocate_at(root, dry_run=True).changed == 0
    with open_at(root) as graph:
        for branch, expected in EXPECTED.items():
            assert [row["name"] for row in graph.query(ALL, branch=branch)] == expected
        graph.mutate(ADD, {"n": "Di"}, branch="dev2")
        graph.branches.merge("dev2", "main")
        assert len(graph.query(ALL).to_pylist()) == 4


RELOCATION = Undertaking(
    name="relocation", make=make, run=run, judge_broken=judge_broken, judge_done=judge_done
)


@pytest.mark.parametrize("fault", FAULTS)
def test_broken_at_some_storage_calls(workshop: Workshop, fault: str) -> None:
    break_at(workshop, RELOCATION, FAULTS[fault], sample(calls_of(workshop, RELOCATION), 4))


@pytest.mark.deep
@pytest.mark.parametrize("fault", FAULTS)
def test_broken_at_every_storage_call(workshop: Workshop, fault: str) -> None:
    break_at(workshop, RELOCATION, FAULTS[fault], calls_of(workshop, RELOCATION))
