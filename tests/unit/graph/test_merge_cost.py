"""What a diff and a merge read and call follows the changes, not the tables."""

from pathlib import Path

import pyarrow as pa

import omnigraph as og
from omnigraph.runtime import telemetry

SCHEMA = "node Item { name: String @key  a: I64  b: String? }"
# Both are beyond the size up to which the row ids of a fragment are read as a whole.
SMALL, LARGE = 70_000, 200_000


def items(numbers: range, salt: int = 0) -> pa.Table:
    return pa.table(
        {
            "name": [f"k{number:07}" for number in numbers],
            "a": [number + salt for number in numbers],
            "b": [f"text {number} {salt}" for number in numbers],
        }
    )


def bytes_read() -> int:
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["rchar"])


def grown(place: Path, count: int) -> og.Graph:
    """A graph with a branch; both have changed some of their rows since."""
    graph = og.init(str(place), schema=SCHEMA)
    graph.load({"Item": items(range(count))}, mode="append")
    graph.branches.create("draft")
    graph.load({"Item": items(range(0, count, count // 20), 1)}, mode="merge", branch="draft")
    graph.mutate('query q() { delete Item where name = "k0000007" }', branch="draft")
    graph.load({"Item": items(range(3, count, count // 10), 2)}, mode="merge")
    # What belongs to a first reading of a table is no part of the comparison.
    graph.query("query q() { match { $i: Item } return { count($i) as n } }")
    return graph


def test_a_diff_and_a_merge_cost_the_same_in_a_large_table(tmp_path: Path) -> None:
    calls, sizes = [], []
    for count in (SMALL, LARGE):
        with grown(tmp_path / str(count), count) as graph:
            start = bytes_read()
            with telemetry.counting() as counts:
                diff = graph.diff(graph.branches.merge("draft", dry_run=True).base, "draft")
                assert diff.counts["node:Item"] == og.ChangeCounts(updated=20, deleted=1)
                done = graph.branches.merge("draft")
            sizes.append(bytes_read() - start)
            calls.append(counts.snapshot())
            assert done.counts == {"node:Item": og.ChangeCounts(updated=20, deleted=1)}
            left = graph.diff("draft", "main").counts["node:Item"]
            assert left == og.ChangeCounts(updated=len(range(3, count, count // 10)))
    assert calls[0] == calls[1]
    assert sizes[1] < 2 * sizes[0] + (64 << 10)
