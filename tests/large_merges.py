"""Branches that were reloaded while their target changed, merged in every way that there is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import omnigraph as og
from omnigraph.exec import tuning

SCHEMA = """
node Item {
  name: String @key
  a: I64?
  b: String?
  code: String?
  tags: [String]?
  photo: Blob?
  @unique(code)
  @range(a, ..100000)
}
edge Near: Item -> Item { w: I64?  @key(src, dst) }
edge Owns: Item -> Item @card(0..2)
"""
COUNT = 240
KINDS = {"divergent_insert", "divergent_update", "delete_vs_update", "orphan_edge"}
KINDS |= {"unique_violation"}
# So small that every type is merged by tasks, several of each stage.
BY_TASKS = {
    "held_merge_rows_max": 0,
    "merge_task_rows": 50,
    "merge_keys": 100,
    "merge_sent_rows": 150,
}


def item(number: int, **values: Any) -> dict[str, Any]:
    plain = {"a": number, "b": f"text {number}", "tags": [f"t{number % 3}"]}
    return {"name": f"k{number:04}", **plain, "code": f"c{number}", **values}


def near(one: int, other: int, weight: int) -> dict[str, Any]:
    return {"from": f"k{one:04}", "to": f"k{other:04}", "w": weight}


def made(folder: Path) -> og.Graph:
    """A graph whose branch `draft` was loaded anew as a whole, while `main` changed, too."""
    graph = og.init(str(folder), schema=SCHEMA)
    items = [item(n, photo="base64:aGVsbG8=") if n < 5 else item(n) for n in range(COUNT)]
    edges = [near(n, n + 1, n) for n in range(0, COUNT - 1, 2)]
    graph.load({"Item": items, "Near": edges})
    graph.mutate('query q() { insert Owns { from: "k0100", to: "k0101" } }')
    graph.branches.create("draft")
    # Of the entities that are left on the branch, some changed, some did not; some are new.
    kept = [
        item(n, a=n + 1_000 * (n % 3 == 0), b=None if n % 11 == 0 else f"text {n}")
        for n in range(COUNT)
        if n % 10
    ]
    kept += [item(n) for n in range(COUNT, COUNT + 60)]
    graph.load({"Item": kept}, mode="overwrite", branch="draft", cascade=True)
    graph.load(
        {"Near": [near(n, n + 1, -n) for n in range(1, 40, 10)]}, branch="draft", mode="merge"
    )
    graph.mutate('query q() { insert Owns { from: "k0101", to: "k0103" } }', branch="draft")
    texts = [{"name": f"k{n:04}", "b": f"ours {n}"} for n in range(0, COUNT, 4)]
    graph.load({"Item": texts}, mode="merge")
    changed: list[dict[str, Any]] = [{"name": f"k{n:04}", "a": 5_000 + n} for n in range(3, 60, 6)]
    changed += [item(n, a=7) for n in range(COUNT + 50, COUNT + 80)]
    graph.load({"Item": changed}, mode="merge")
    graph.mutate('query q() { delete Item where name = "k0009" }')
    graph.optimize()
    graph.mutate('query q() { insert Near { from: "k0010", to: "k0021", w: 1 } }')
    graph.load({"Item": [item(400, code="c280"), item(401, code="c999")]}, mode="merge")
    return graph


def settled_by(side: str | None) -> Any:
    """Settles conflicts by one side, or in turns; a value that is taken, by another value."""

    def settle(conflict: og.MergeConflict) -> Any:
        digit = int(str(conflict.id)[-1]) if str(conflict.id)[-1].isdigit() else 0
        if conflict.kind.value == "unique_violation":
            return {"code": f"free {conflict.id}"}
        if side is None and conflict.properties == ("a",) and digit == 5:
            return {"a": 1}
        return side or ("ours", "theirs")[digit % 2]

    return settle


def planned(graph: og.Graph, resolve: Any) -> tuple[Any, ...]:
    """All that a merge would do and report."""
    plan = graph.branches.merge("draft", resolve=resolve, dry_run=True)
    conflicts = sorted(repr(each) for each in plan.conflicts)
    settled = sorted(repr(each) for each in plan.settled)
    return plan.outcome, dict(plan.counts), conflicts, settled


def check_agreement(
    graph: og.Graph, sides: Sequence[str | None] = ("ours", "theirs", None), **sizes: int
) -> None:
    """Fail unless small and large merges of a graph do the same.

    Args:
        graph: As `made` leaves it.
        sides: What settles the conflicts of each merge; None for both sides in turns.
        sizes: Other thresholds than those of `BY_TASKS`.
    """
    large = {**BY_TASKS, **sizes}
    found = graph.branches.merge("draft", dry_run=True).conflicts
    assert {each.kind.value for each in found} >= KINDS
    for resolve in (None, *(side for side in sides if side)):
        here = planned(graph, resolve)
        with tuning.tuned(**large):
            assert planned(graph, resolve) == here
    for side in sides:
        settle, names = settled_by(side), (f"held-{side}", f"tasks-{side}")
        for name in names:
            graph.branches.create(name)
        held = graph.branches.merge("draft", into=names[0], resolve=settle)
        with tuning.tuned(**large):
            done = graph.branches.merge("draft", into=names[1], resolve=settle)
        assert (done.outcome, done.counts) == (held.outcome, held.counts)
        assert done.counts["node:Item"].total > 100
        assert graph.diff(*names).is_empty
