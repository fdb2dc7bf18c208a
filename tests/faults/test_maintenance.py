"""Clean-up and repair, broken anywhere: every state is right or gone, and the rest is done.

The message of each commit says what a reader has to see there.
"""

from __future__ import annotations

import lance
import pytest

import omnigraph as og
from omnigraph.core.cleanup.cleaner import CleanupRequest
from omnigraph.core.cleanup.retention import RetentionPolicy
from omnigraph.core.failpoints import Fp
from omnigraph.core.layout import AUDIT
from omnigraph.errors import Gone
from omnigraph.runtime.failpoints import Refuse, armed
from omnigraph.store.root import Root
from omnigraph.types import MAIN, BranchName
from tests.faults.harness import FAULTS
from tests.faults.whole_graphs import (
    Undertaking,
    Workshop,
    break_at,
    calls_of,
    init_at,
    objects_of,
    open_at,
    relocate_at,
    sample,
)

SCHEMA = "node Person { name: String @key }\nnode City { name: String @key }"
LATER = "node Person { name: String @key  age: I32? }"
ALL = "query all() { match { $p: Person } return { $p.name as name } order { name } }"
ADD = "query add($n: String) { insert Person { name: $n } }"
KEEP = 2
REQUEST = CleanupRequest(policy=RetentionPolicy(keep=KEEP), superseded_us=0, left_us=0)


def add(graph: og.Graph, name: str, branch: str = "main") -> None:
    """Insert a person, in a commit that says who is there."""
    there = ",".join(sorted([*names(graph, branch=branch), name]))
    graph.mutate(ADD, {"n": name}, branch=branch, message=there)


def names(graph: og.Graph, *, branch: str | None = None, at: str | None = None) -> list[str]:
    return [row["name"] for row in graph.query(ALL, branch=branch, at=at)]


def make(root: Root) -> None:
    """Branches, a tag, a dropped type, a deleted branch whose files are there, and leftovers."""
    with init_at(root, SCHEMA) as graph:
        for name in "abc":
            add(graph, name)
        graph.tags.create("v1")
        graph.branches.create("dev")
        add(graph, "x", "dev")
        graph.branches.create("gone")
        add(graph, "never", "gone")
        with armed({Fp.DROP: Refuse()}, nth=3):
            graph.branches.delete("gone")
        graph.schema.apply(LATER, allow_data_loss=True, message="a,b,c")
        for name in "de":
            add(graph, name)
            add(graph, f"{name}{name}", "dev")
        graph.optimize(message="a,b,c,d,e")
    objects_of(root).put("nodes/0123456789abcdef/data/left.lance", b"of a writer that died")


def clean(root: Root) -> None:
    with open_at(root) as graph:
        done = graph._repo.cleanup(REQUEST, lambda _: None)
        assert [part.error for part in done.parts if part.error] == []


def judge_states(root: Root) -> int:
    """Every state is right, or gone if it may be; tell how many are there."""
    found = 0
    with open_at(root, "r") as graph:
        tagged = graph.tags.get("v1").commit
        for branch in graph.branches.list():
            for place, commit in enumerate(graph.commits.list(branch)):
                try:
                    seen = names(graph, at=commit.id)
                except Gone:
                    assert place >= KEEP
                    assert commit.id != tagged
                    continue
                if commit.message is not None:
                    assert seen == commit.message.split(",")
                found += 1
    return found


def judge_cleaning(root: Root) -> None:
    judge_states(root)
    with open_at(root) as graph:
        flaws = [each for each in graph.verify("rows").findings if each.severity == "error"]
        assert flaws == []


def judge_cleaned(root: Root) -> None:
    # Two of each branch, and the tag, which is where the branch was made.
    assert judge_states(root) == 2 * KEEP + 2
    with open_at(root) as graph:
        found = graph.verify("rows")
        assert found.findings == (), found.findings
        # Each clean-up leaves a row in the audit table, and so a version for the next one.
        again = graph._repo.cleanup(REQUEST, lambda _: None)
        assert [part for part in again.parts if part.path != AUDIT] == []
        assert graph._repo.holds.all() == []
        add(graph, "f")
        add(graph, "ff", "dev")
        graph.branches.merge("dev")
        assert names(graph) == ["a", "b", "c", "d", "dd", "e", "ee", "f", "ff", "x"]


CLEANUP = Undertaking(
    name="cleanup",
    make=make,
    prepare=relocate_at,
    run=clean,
    judge_broken=judge_cleaning,
    judge_done=judge_cleaned,
)


# -- repair ----------------------------------------------------------------------------------------

EXPECTED = {"main": ["a", "b"], "dev": ["a", "b", "x"]}


def make_adrift(root: Root) -> None:
    """Another tool has built an index on main, and one on the branch."""
    with init_at(root, SCHEMA) as graph:
        for name in "ab":
            add(graph, name)
        graph.branches.create("dev")
        add(graph, "x", "dev")


def let_drift(root: Root) -> None:
    relocate_at(root)
    with open_at(root) as graph:
        pins = [
            graph._repo.snapshot(branch).pin("node:Person") for branch in (MAIN, BranchName("dev"))
        ]
    for pin in pins:
        place = pin.path if pin.table_branch is None else f"{pin.path}/tree/{pin.table_branch}"
        options = dict(root.storage_options)
        found = lance.dataset(root.join(place), storage_options=options or None)
        found.create_scalar_index("name", "BTREE", name="other")


def repair(root: Root) -> None:
    with open_at(root) as graph:
        graph.repair()


def judge_rows(root: Root) -> None:
    with open_at(root, "r") as graph:
        for branch, expected in EXPECTED.items():
            assert names(graph, branch=branch) == expected


def judge_repaired(root: Root) -> None:
    judge_rows(root)
    with open_at(root) as graph:
        assert graph.verify("rows").findings == ()
        for branch in EXPECTED:
            kinds = [commit.kind for commit in graph.commits.list(branch)]
            assert kinds.count("repair") == 1
            add(graph, "y", branch)


REPAIR = Undertaking(
    name="repair",
    make=make_adrift,
    prepare=let_drift,
    run=repair,
    judge_broken=judge_rows,
    judge_done=judge_repaired,
)
WORKS = {work.name: work for work in (CLEANUP, REPAIR)}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", WORKS)
def test_broken_at_some_storage_calls(workshop: Workshop, name: str, fault: str) -> None:
    work = WORKS[name]
    break_at(workshop, work, FAULTS[fault], sample(calls_of(workshop, work), 3))


@pytest.mark.deep
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", WORKS)
def test_broken_at_every_storage_call(workshop: Workshop, name: str, fault: str) -> None:
    work = WORKS[name]
    break_at(workshop, work, FAULTS[fault], calls_of(workshop, work))
