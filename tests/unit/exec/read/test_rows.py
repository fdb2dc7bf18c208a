"""Results in Python and in Arrow."""

from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest

from omnigraph.exec.read.program import prepare
from omnigraph.exec.read.rows import Rows
from omnigraph.lang import compile_queries, compile_schema
from omnigraph.lang.ir.ops import ReadPlan
from omnigraph.lang.query.params import bind
from omnigraph.testing.naive.graph import ModelGraph, Row, complete
from tests.unit.exec.read.fake_view import FakeDense, FakeView

SCHEMA = """
node Item { key: String @key  at: DateTime?  on: Date?  tags: [String]?  vec: Vector(2)?  big: U64?
            times: [DateTime]? }
edge Link: Item -> Item { weight: F32? }
"""
CATALOG = compile_schema(SCHEMA)


def graph() -> ModelGraph:
    item, link = CATALOG.node_by_name["Item"], CATALOG.edge_by_name["Link"]
    full: Row = {
        "key": "a",
        "at": -1,
        "on": 1,
        "tags": ("x", "y"),
        "vec": (0.5, 1.0),
        "big": 2**64 - 1,
        "times": (0,),
    }
    rows = [complete(item, full), complete(item, {"key": "b"})]
    edge = complete(link, {"id": "e", "src": "a", "dst": "b", "weight": 0.5})
    return ModelGraph(
        {"node:Item": {str(row["id"]): row for row in rows}, "edge:Link": {"e": edge}}
    )


@pytest.fixture(params=[FakeView, FakeDense])
def view(request: pytest.FixtureRequest) -> FakeView:
    made: FakeView = request.param(CATALOG, graph())
    return made


def ask(view: FakeView, body: str, params: str = "", **given: Any) -> Rows:
    (plan,) = compile_queries(f"query q({params}) {{ {body} }}", CATALOG)
    assert isinstance(plan, ReadPlan)
    return prepare(plan, CATALOG).run(view, bind(plan.params, given), 86_400_000)


def test_values_are_those_of_python(view: FakeView) -> None:
    rows = ask(
        view,
        "match { $i: Item } return { $i.at as at, $i.on as on, $i.tags as tags, $i.vec as vec,"
        " $i.big as big, $i.times as times, now() as now, $p as p }",
        "$p: Date?",
        p="2024-01-02",
    )
    now, given = datetime(1970, 1, 2, tzinfo=UTC), date(2024, 1, 2)
    assert rows[0] == {
        "at": datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC),
        "on": date(1970, 1, 2),
        "tags": ["x", "y"],
        "vec": [0.5, 1.0],
        "big": 2**64 - 1,
        "times": [datetime(1970, 1, 1, tzinfo=UTC)],
        "now": now,
        "p": given,
    }
    assert rows[1] == {**dict.fromkeys(rows.columns), "now": now, "p": given}
    assert rows[0]["at"].tzinfo is UTC
    assert rows.settled() == rows


def test_entities_are_dictionaries(view: FakeView) -> None:
    body = "match { $i: Item optional { $i $l: link $j } } return { $l, $j }"
    first, second = ask(view, body)
    assert first["l"] == {"id": "e", "from": "a", "to": "b", "weight": 0.5}
    assert list(first["j"]) == ["id", "at", "big", "key", "on", "tags", "times", "vec"]
    assert second == {"l": None, "j": None}
    settled = ask(view, body).settled()
    view.graph = ModelGraph()
    assert settled[0] == first
    assert settled.to_arrow()["l"].to_pylist() == [first["l"], None]


def test_rows_are_a_sequence(view: FakeView) -> None:
    rows = ask(view, "match { $i: Item } return { $i.key as key }")
    assert len(rows) == 2
    assert rows.columns == ("key",)
    assert [str(kind) for kind in rows.types] == ["String"]
    assert list(rows) == [{"key": "a"}, {"key": "b"}] == rows
    assert rows[-1] == {"key": "b"}
    assert rows[1:] == [{"key": "b"}]
    with pytest.raises(IndexError):
        rows[2]
    copied = rows.to_pylist()
    copied[0]["key"] = "z"
    assert rows[0] == {"key": "a"}
    assert repr(rows) == "<2 rows: key>"


def test_rows_as_arrow(view: FakeView) -> None:
    table = ask(view, "match { $i: Item } return { $i.at as at, $i.vec as vec }").to_arrow()
    assert table.schema.types == [pa.timestamp("ms", tz="UTC"), pa.list_(pa.float32(), 2)]
    assert table.num_rows == 2


@pytest.mark.parametrize(
    "tail",
    ["{ $i.key as key }", "{ $i }", "{ count($i) as n, $i.key as key }", "distinct { $i.tags }"],
)
def test_no_rows_have_columns_all_the_same(view: FakeView, tail: str) -> None:
    rows = ask(view, f'match {{ $i: Item {{ key: "none" }} }} return {tail}')
    assert list(rows) == []
    assert rows.to_arrow().num_rows == 0
    assert tuple(rows.to_arrow().column_names) == rows.columns


def test_totals_of_nothing_are_one_row(view: FakeView) -> None:
    body = 'match { $i: Item { key: "none" } } return { count($i) as n, max($i.on) as last }'
    assert ask(view, body) == [{"n": 0, "last": None}]
    assert ask(view, body + " offset 1") == []
