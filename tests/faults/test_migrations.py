"""Taking over a graph of the original, broken anywhere: it reads the same, and the rest is done."""

from __future__ import annotations

from pathlib import Path

import lance
import pytest

import omnigraph as og
from omnigraph.core.commits.records import MARK
from omnigraph.core.layout import MANIFEST
from tests.faults.harness import FAULTS, Lab
from tests.faults.whole_graphs import Undertaking, break_at, calls_of, sample
from tests.originals import FEATURE, LATER, PEOPLE, make_original

ALL = "query all() { match { $p: Person } return { $p.name as name } order { name } }"
ADD = "query add($n: String) { insert Person { name: $n } }"
MAIN_NAMES, FEATURE_NAMES = ["Ada", "Bo", "Di"], ["Ada", "Bo", "Cy"]


def make_first(path: Path) -> None:
    make_original(path, 1)


def make_third(path: Path) -> None:
    make_original(path, 3)


def run(path: Path) -> None:
    """Take main over by opening, and the branch by a write to it."""
    og.relocate(path)
    with og.open(path) as graph:
        graph.mutate(ADD, {"n": "Ed"}, branch="feature", idempotency_key="one")


def judge_broken(path: Path) -> None:
    with og.open(path, "r") as graph:
        assert [row["name"] for row in graph.query(ALL)] == MAIN_NAMES
        assert str(graph.commits.list()[0].id) == LATER
        assert [row["name"] for row in graph.query(ALL, at=PEOPLE)] == ["Ada", "Bo"]


def judge_done(path: Path) -> None:
    judge_broken(path)
    for place in (path / MANIFEST, path / MANIFEST / "tree" / "feature"):
        assert lance.dataset(place).schema.metadata[MARK.encode()] == b"6"
    with og.open(path) as graph:
        found = [str(commit.id) for commit in graph.commits.list("feature")]
        assert (found[1], len(found)) == (FEATURE, 5)
        names = [row["name"] for row in graph.query(ALL, branch="feature")]
        assert names == [*FEATURE_NAMES, "Ed"]
        graph.branches.merge("feature", "main")
        graph.recover()


def undertaking(name: str) -> Undertaking:
    make = make_first if name == "first" else make_third
    return Undertaking(
        name=f"migration-{name}",
        make=make,
        run=run,
        judge_broken=judge_broken,
        judge_done=judge_done,
    )


@pytest.mark.parametrize("fault", FAULTS)
def test_broken_at_some_storage_calls(lab: Lab, fault: str) -> None:
    work = undertaking("first")
    break_at(lab, work, FAULTS[fault], sample(calls_of(lab, work), 4))


@pytest.mark.deep
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", ["first", "third"])
def test_broken_at_every_storage_call(lab: Lab, name: str, fault: str) -> None:
    work = undertaking(name)
    break_at(lab, work, FAULTS[fault], calls_of(lab, work))
