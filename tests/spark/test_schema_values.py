"""Values that stored rows get by a change of the schema: the same from threads and from Spark."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.dataplane import tuning as bulk_tuning
from omnigraph.store import tuning

ROWS = 100
BEFORE = """
node Item { name: String @key  n: I32  f: F32?  old: String  gone: I64? }
edge Part: Item -> Item { w: I32? }
"""
AFTER = """
node Item { name: String @key  n: I64  f: F64?  was: String @rename_from("old")
            old: I64 @default(3)  title: String @default("it's")
            tags: [String] @default(["a", "b"])  day: Date @default("2024-02-29") }
edge Part: Item -> Item { w: I64?  kind: String @default("plain") }
"""
FILLED = {"old": 3, "title": "it's"}


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[og.Graph]:
    """Several fragments, some with deleted rows, an updated row, and a branch."""
    names = [f"k{number:03}" for number in range(ROWS)]
    items = pa.table(
        {
            "name": names,
            "n": pa.array(range(ROWS), pa.int32()),
            "f": pa.array([None if at % 7 == 0 else at / 2 for at in range(ROWS)], pa.float32()),
            "old": [f"text {at % 3}" for at in range(ROWS)],
            "gone": pa.array(range(ROWS), pa.int64()),
        }
    )
    parts = pa.table({"from": names, "to": names[::-1], "w": pa.array(range(ROWS), pa.int32())})
    with (
        tuning.tuned(file_rows_max=30),
        bulk_tuning.tuned(altered_rows=40),
        og.init(tmp_path / "g.omni", BEFORE) as graph,
    ):
        graph.load({"Item": items, "Part": parts})
        graph.mutate('query q() { delete Item where name = "k031" }')
        graph.mutate('query q() { delete Item where name = "k099" }')
        graph.mutate('query q() { update Item set { n: -5 } where name = "k002" }')
        graph.branches.create("other")
        yield graph


def rows(graph: og.Graph, branch: str = "main") -> list[dict[str, Any]]:
    fields = "$i.name, $i.n, $i.f, $i.was, $i.old, $i.title, $i.tags, $i.day"
    text = f"query q() {{ match {{ $i: Item }} return {{ {fields} }} order {{ $i.name }} }}"
    parts = "query q() { match { $a: Item  $a part $b  } return { $a.name, $b.name } }"
    found = graph.query(text, branch=branch).to_pylist()
    return [*found, {"edges": len(graph.query(parts, branch=branch).to_pylist())}]


def expected() -> list[dict[str, Any]]:
    found = []
    for at in range(ROWS):
        if at not in (31, 99):
            n, f = -5 if at == 2 else at, None if at % 7 == 0 else at / 2
            row = {
                "name": f"k{at:03}",
                "n": n,
                "f": f,
                "was": f"text {at % 3}",
                **FILLED,
                "tags": ["a", "b"],
            }
            found.append(row)
    return found


@pytest.mark.parametrize("loses", [False, True], ids=["kept", "removed"])
def test_both_engines_write_the_same(
    graph: og.Graph, loses: bool, request: pytest.FixtureRequest
) -> None:
    told: dict[str, og.Progress] = {}

    def listen(moment: og.Progress) -> None:
        told[moment.engine] = moment

    graph.schema.apply(AFTER, engine="inprocess", progress=listen, allow_data_loss=loses)
    session = request.getfixturevalue("local").session
    graph.schema.apply(
        AFTER, branch="other", engine="spark", spark=session, progress=listen, allow_data_loss=loses
    )
    for moment in told.values():
        assert (moment.operation, moment.stage) == ("schema_apply", "values")
        assert moment.tasks_done == moment.tasks
        assert moment.tasks > 3  # of several fragments and both tables
        assert moment.rows >= 2 * ROWS - 2
    assert set(told) == {"inprocess", "spark"}
    here, there = rows(graph), rows(graph, "other")
    assert here == there
    assert len(here) == ROWS - 2 + 1
    for found, wanted in zip(here, expected(), strict=False):
        assert {name: found[f"i.{name}"] for name in wanted} == wanted
    assert not graph.verify("rows", engine="inprocess").findings
    graph.optimize(engine="inprocess")
    assert rows(graph) == here


def test_metadata_alone_starts_no_engine(graph: og.Graph) -> None:
    told: list[og.Progress] = []
    graph.schema.apply(
        BEFORE.replace("gone: I64?", "more: String?"), engine="spark", progress=told.append
    )
    assert told == []
