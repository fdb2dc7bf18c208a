"""Fast-forwards that take files over instead of copying rows."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.exec import tuning
from omnigraph.runtime import telemetry
from omnigraph.store.reading.row_addresses import AddressedRows

SCHEMA = """
node Item { name: String @key  a: I64? }
edge Next: Item -> Item
"""


def items(numbers: range, salt: int = 0) -> pa.Table:
    names = [f"k{number:05}" for number in numbers]
    return pa.table({"name": names, "a": [number + salt for number in numbers]})


@pytest.fixture
def graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[og.Graph]:
    monkeypatch.setattr(tuning.active, "fast_forward_rows_min", 100)
    with og.init(str(tmp_path / "g.omni"), schema=SCHEMA) as graph:
        graph.load({"Item": items(range(1_000))}, mode="append")
        graph.mutate('query q() { insert Next { from: "k00001", to: "k00002" } }')
        graph.branches.create("draft")
        yield graph


def content(graph: og.Graph, branch: str = "main") -> dict[str, int]:
    found = graph.query(
        "query q() { match { $i: Item } return { $i.name as name, $i.a as a } }", branch=branch
    )
    return {row["name"]: row["a"] for row in found}


def delete(graph: og.Graph, branch: str, *names: str) -> None:
    for name in names:
        graph.mutate(
            "query q($n: String) { delete Item where name = $n }", {"n": name}, branch=branch
        )


def reload(graph: og.Graph) -> None:
    data = {"Item": items(range(500, 2_000), 7)}
    graph.load(data, mode="overwrite", branch="draft", cascade=True)


def linked_files(graph: og.Graph) -> list[Path]:
    """The data files that two versions name, each in its own way."""
    return [path for path in Path(graph.uri).rglob("data/*.lance") if path.stat().st_nlink > 1]


def check_forwarded(graph: og.Graph, **terms: Any) -> og.MergeResult:
    """Merge, and delete the source: what was taken over must stay."""
    expected = content(graph, "draft")
    planned = graph.branches.merge("draft", dry_run=True)
    done = graph.branches.merge("draft", **terms)
    assert (done.outcome, done.counts) == ("fast_forward", planned.counts)
    assert graph.diff("main", "draft").is_empty
    graph.branches.delete("draft")
    graph.recover()
    assert content(graph) == expected
    return done


def test_a_full_reload_is_taken_over_without_reading_or_writing_rows(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    reload(graph)
    read: list[tuple[str, list[str]]] = []
    take = AddressedRows.take

    def noted(rows: AddressedRows, addresses: Any, columns: list[str]) -> pa.Table:
        if len(addresses):
            read.append((rows.table.pin.path.partition("/")[0], list(columns)))
        return take(rows, addresses, columns)

    monkeypatch.setattr(AddressedRows, "take", noted)
    with telemetry.counting() as counts:
        done = graph.branches.merge("draft")
    # The reload deleted a node with an edge. The table of edges has too few changes to be taken
    # over: it is merged by ids, and the id of a deleted row stands in the older version alone.
    assert read == [("edges", ["id"])]
    assert counts.snapshot()["table.take"] == 1
    assert linked_files(graph)
    assert done.counts["node:Item"] == og.ChangeCounts(inserted=1_500, deleted=1_000)
    expected = content(graph, "draft")
    assert content(graph) == expected
    graph.branches.delete("draft")
    graph.recover()
    delete(graph, "main", "k00600")
    assert content(graph) == {name: a for name, a in expected.items() if name != "k00600"}


def test_what_was_taken_over_stays_when_the_source_is_deleted(graph: og.Graph) -> None:
    reload(graph)
    check_forwarded(graph)


def test_fragments_with_deleted_rows_are_copied(graph: og.Graph) -> None:
    reload(graph)
    delete(graph, "draft", "k00700", "k00701")
    done = check_forwarded(graph)
    assert done.counts["node:Item"] == og.ChangeCounts(inserted=1_498, deleted=1_000)


def test_many_changed_rows_come_with_their_files_and_the_others_stay(graph: og.Graph) -> None:
    graph.load({"Item": items(range(900, 1_300), 3)}, mode="merge", branch="draft")
    delete(graph, "draft", "k00003", "k00950")
    done = check_forwarded(graph)
    assert done.counts["node:Item"] == og.ChangeCounts(inserted=300, updated=99, deleted=2)


def test_small_fragments_that_are_folded_meanwhile_do_not_come_back(graph: og.Graph) -> None:
    for number in range(2_000, 2_014):
        graph.load({"Item": items(range(number, number + 1))}, mode="append")
    graph.branches.delete("draft")
    graph.branches.create("draft")
    graph.load({"Item": items(range(2_000, 2_400), 3)}, mode="merge", branch="draft")
    delete(graph, "draft", *(f"k{number:05}" for number in range(2_005, 2_014)))
    check_forwarded(graph)


def test_after_a_compaction_rows_that_only_moved_stay_where_they_are(graph: og.Graph) -> None:
    for number in range(3):
        data = {"Item": items(range(2_000 + 100 * number, 2_100 + 100 * number))}
        graph.load(data, mode="append")
    graph.branches.delete("draft")
    graph.branches.create("draft")
    graph.load({"Item": items(range(5), 9)}, mode="merge", branch="draft")
    graph.optimize(branch="draft")
    done = check_forwarded(graph)
    assert done.counts == {"node:Item": og.ChangeCounts(updated=5)}


def test_a_branch_can_be_forwarded_to_a_large_change_of_main(graph: og.Graph) -> None:
    graph.load({"Item": items(range(900, 1_300), 3)}, mode="merge")
    done = graph.branches.merge("main", into="draft")
    assert done.outcome == "fast_forward"
    assert content(graph, "draft") == content(graph)
    delete(graph, "draft", "k00901")
    assert graph.diff("main", "draft").counts == {"node:Item": og.ChangeCounts(deleted=1)}


def test_a_later_merge_meets_rows_that_were_taken_over(graph: og.Graph) -> None:
    graph.branches.create("other")
    graph.mutate('query q() { update Item set { a: 5 } where name = "k00001" }', branch="other")
    graph.mutate('query q() { insert Item { name: "z", a: 1 } }', branch="other")
    graph.load({"Item": items(range(900, 1_300), 3)}, mode="merge", branch="draft")
    graph.branches.merge("draft")
    done = graph.branches.merge("other")
    assert done.counts == {"node:Item": og.ChangeCounts(inserted=1, updated=1)}
    expected = content(graph, "draft") | {"k00001": 5, "z": 1}
    assert content(graph) == expected
