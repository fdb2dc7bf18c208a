"""Rows from columns: which column is what, faults by row, and every type from every library."""

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from omnigraph.dataplane.decode.convert import rows_schema
from omnigraph.dataplane.decode.model import DecodeSpec, DecodeStats
from omnigraph.dataplane.decode.tabular import decode_batches
from omnigraph.rules.violation import Violations
from tests.unit.dataplane.decoding import CATALOG, read

NOON = dt.datetime(2024, 2, 29, 12, 30, 15, 123_000, tzinfo=dt.UTC)
FULL: dict[str, Any] = {
    "name": "a",
    "flag": True,
    "small": -(2**31),
    "large": 2**63 - 1,
    "count": 2**32 - 1,
    "huge": 2**64 - 1,
    "single": 1.5,
    "double": 1e300,
    "day": dt.date(2024, 2, 29),
    "moment": NOON,
    "colour": "red",
    "vector": [1.0, 2.0, 3.0],
    "data": b"\x00\xff",
    "words": ["a", ""],
    "integers": [1, -(2**63)],
    "floats": [0.5],
    "days": [dt.date(1970, 1, 1)],
}
EMPTY: dict[str, Any] = {**dict.fromkeys(FULL), "name": "b"}
EXPECTED = [{"id": None, **FULL}, {"id": None, **EMPTY}]


def arrow() -> pa.Table:
    """Two rows in the types that are stored."""
    schema = rows_schema(CATALOG.node_by_name["Cell"])
    wanted = pa.schema([field for field in schema if field.name != "id"])
    return pa.Table.from_pylist([FULL, EMPTY], schema=wanted)


def pandas() -> pd.DataFrame:
    frame = arrow().to_pandas(integer_object_nulls=True)
    for name in ("small", "large", "count", "huge"):
        kind = {"small": "Int32", "large": "Int64", "count": "UInt32", "huge": "UInt64"}[name]
        frame[name] = frame[name].astype(kind)
    return frame


SOURCES: dict[str, Callable[[], Any]] = {
    "arrow": arrow,
    "reader": lambda: arrow().to_reader(),
    "pandas": pandas,
    "pandas with arrow types": lambda: arrow().to_pandas(types_mapper=pd.ArrowDtype),
    "polars": lambda: pl.DataFrame(arrow()),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_every_type_from_every_library(kind: str, tmp_path: Path) -> None:
    result = read({"Cell": SOURCES[kind]()}, tmp_path)
    assert result.violations == []
    assert result.rows["Cell"] == EXPECTED


def test_the_types_that_spark_gives(tmp_path: Path) -> None:
    """No unsigned integers, no lists of fixed size, moments in microseconds of some zone."""
    table = arrow()
    for name, kind in {
        "count": pa.int64(),
        "huge": pa.decimal128(20, 0),
        "vector": pa.list_(pa.float32()),
        "moment": pa.timestamp("us", "Europe/Berlin"),
        "data": pa.binary(),
        "name": pa.large_string(),
    }.items():
        place = table.schema.get_field_index(name)
        table = table.set_column(place, name, table.column(name).cast(kind))
    result = read({"Cell": table}, tmp_path)
    assert result.violations == []
    assert result.rows["Cell"] == EXPECTED


def test_rows_have_the_columns_of_their_table(tmp_path: Path) -> None:
    out, stats = Violations(), DecodeStats()
    batch = pa.RecordBatch.from_pylist([{"name": "a"}, {"name": "b"}])
    entity = CATALOG.node_by_name["Cell"]
    (found,) = decode_batches([batch], entity, DecodeSpec(catalog=CATALOG), out, stats, file="x")
    assert found.rows.schema.equals(rows_schema(entity), check_metadata=True)
    assert found.lines.tolist() == [1, 2]
    assert (stats.lines, stats.rows) == (2, 2)


# -- columns ---------------------------------------------------------------------------------------


def test_explicit_ids(tmp_path: Path) -> None:
    result = read({"node:Note": pa.table({"id": ["n1", None], "text": ["x", "y"]})}, tmp_path)
    assert result.rows["Note"] == [{"id": "n1", "text": "x"}, {"id": None, "text": "y"}]


@pytest.mark.parametrize(
    ("source", "target"), [("from", "to"), ("src", "dst"), ("from", "dst"), ("src", "to")]
)
def test_ends_by_either_name(tmp_path: Path, source: str, target: str) -> None:
    result = read({"Link": pa.table({source: ["a"], target: ["b"], "weight": [1]})}, tmp_path)
    assert result.rows["Link"] == [{"id": None, "src": "a", "dst": "b", "weight": 1.0}]


def test_ends_may_be_values_of_the_key(tmp_path: Path) -> None:
    result = read({"Next": pa.table({"from": [7, -1], "to": ["n1", "n2"]})}, tmp_path)
    assert result.violations == []
    assert result.values("src", "Next") == ["7", "-1"]
    same = read({"Next": pa.table({"from": ["7", "x"], "to": ["n1", "n2"]})}, tmp_path)
    assert same.values("src", "Next") == ["7", "x"]
    numbers = read({"Number": pa.table({"id": [7], "number": [7]})}, tmp_path)
    assert numbers.rows["Number"] == [{"id": "7", "number": 7}]


def test_ends_of_other_types(tmp_path: Path) -> None:
    result = read({"Link": pa.table({"from": [1, 2], "to": ["b", None]})}, tmp_path)
    assert result.found == [("type", 1, "src"), ("type", 2, "src")]
    assert result.violations[0].message == "Link.from: expected String, got 1"
    assert result.rows["Link"] == []
    note = read({"Next": pa.table({"from": [1.5], "to": [1]})}, tmp_path)
    assert note.found == [("type", 1, "dst"), ("type", 1, "src")]


def test_a_missing_end_is_one_violation(tmp_path: Path) -> None:
    table = pa.table({"from": ["a", "b"], "id": ["e1", None], "weight": [1.0, 2.0]})
    result = read({"Link": table}, tmp_path)
    assert result.found == [("required", None, "dst")]
    assert result.violations[0].message == "Link.to: there must be such a column"
    assert result.rows["Link"] == []
    assert result.claimed["Link"] == ["e1"]


def test_null_ends_are_left_to_the_rules_of_rows(tmp_path: Path) -> None:
    result = read({"Link": pa.table({"from": ["a", None], "to": [None, "b"]})}, tmp_path)
    assert result.violations == []
    assert result.values("src", "Link") == ["a", None]


def test_unknown_columns_are_one_violation_each(tmp_path: Path) -> None:
    table = pa.table({"name": ["a"] * 100, "smal": [1] * 100, "\x00odd": [2] * 100})
    result = read({"Cell": table}, tmp_path, bytes_per_split=100)
    assert len(result.splits) > 1
    assert result.found == [("field", None, " odd"), ("field", None, "smal")]
    first = result.violations[1]
    assert first.message == "Cell.smal: there is no such property: did you mean `small`?"
    assert (first.kind, first.type_name, first.file) == ("node", "Cell", "Cell")
    assert len(result.rows["Cell"]) == 100


def test_columns_given_twice(tmp_path: Path) -> None:
    twice = pa.table([["a"], ["b"]], names=["name", "name"])
    assert read({"Cell": twice}, tmp_path).found == [("field", None, "name")]
    ends = pa.table({"from": ["a"], "src": ["b"], "to": ["c"]})
    result = read({"Link": ends}, tmp_path)
    assert [(v.rule.value, v.message) for v in result.violations] == [
        ("field", "Link.from: given twice")
    ]


def test_nodes_have_no_ends(tmp_path: Path) -> None:
    result = read({"Cell": pa.table({"name": ["a"], "from": ["b"]})}, tmp_path)
    assert result.found == [("field", None, "from")]


def test_missing_columns_are_absent(tmp_path: Path) -> None:
    wanted = frozenset({"small", "large", "name"})
    table = pa.table({"name": ["a", "b"], "large": [None, 1]})
    result = read({"Cell": table}, tmp_path, absences={"node:Cell": wanted})
    assert result.absent["Cell"] == {"small"}
    assert read({"Cell": table}, tmp_path).absent["Cell"] == set()


def test_no_rows_but_columns(tmp_path: Path) -> None:
    wrong = pa.table({"nam": pa.array([], pa.string())})
    assert read({"Cell": wrong}, tmp_path).found == [("field", None, "nam")]
    assert read({"Link": pa.table({"from": pa.array([], pa.string())})}, tmp_path).found == [
        ("required", None, "dst")
    ]
    sources: list[Any] = [[], pa.table({})]
    for source in sources:
        result = read({"Cell": source, "Link": source}, tmp_path)
        assert (result.violations, dict(result.rows)) == ([], {})


# -- faults ----------------------------------------------------------------------------------------


def test_every_fault_of_every_row(tmp_path: Path) -> None:
    table = pa.table(
        {
            "name": ["a", "b", "c", "d"],
            "small": [1, 2**40, None, -(2**40)],
            "day": ["2024-02-29", "?", None, "1970-01-01"],
            "vector": [[1.0, 2.0, 3.0], [1.0], None, None],
        }
    )
    result = read({"Cell": table}, tmp_path)
    assert result.found == [
        ("type", 2, "day"),
        ("type", 2, "small"),
        ("vector_length", 2, "vector"),
        ("type", 4, "small"),
    ]
    assert result.violations[1].message == f"Cell.small of 'b': {2**40} is out of range of I32"
    assert result.violations[1].value == 2**40
    assert [v.id for v in result.violations] == ["b", "b", "b", "d"]
    assert result.values("name") == ["a", "c"]
    assert result.lines["Cell"] == [1, 3]
    assert result.claimed["Cell"] == ["b", "d"]
    assert (result.stats.lines, result.stats.rows) == (4, 2)


def test_lines_go_on_over_batches_and_splits(tmp_path: Path) -> None:
    table = pa.table(
        {"name": [str(n) for n in range(1_000)], "small": [2**40] + [1] * 998 + [2**40]}
    )
    for wanted in (200, 1 << 20):
        result = read({"Cell": table}, tmp_path, bytes_per_split=wanted)
        assert result.found == [("type", 1, "small"), ("type", 1_000, "small")]
        assert result.lines["Cell"] == list(range(2, 1_000))


def test_a_column_of_the_wrong_type_is_a_fault_of_every_row_that_has_a_value(
    tmp_path: Path,
) -> None:
    count = 5_000
    values = np.array([None if n % 2 else "x" for n in range(count)], object)
    table = pa.table({"name": [str(n) for n in range(count)], "small": values})
    out, stats = Violations(), DecodeStats()
    entity = CATALOG.node_by_name["Cell"]
    (found,) = decode_batches(
        table.to_batches(), entity, DecodeSpec(catalog=CATALOG), out, stats, file="x"
    )
    assert out.total == count // 2
    assert [item.line for item in out.items] == list(range(1, 2_000, 2))
    assert found.rows.num_rows == count // 2


def test_claims_of_rows_without_a_key(tmp_path: Path) -> None:
    result = read({"node:Note": pa.table({"id": ["n1", None], "text": [1, 2]})}, tmp_path)
    assert result.claimed["Note"] == ["n1"]
    cells = pa.table({"id": ["x", None], "name": ["a", None], "small": ["?", "?"]})
    assert read({"Cell": cells}, tmp_path).claimed["Cell"] == ["x"]


def test_floats_of_pandas_are_not_integers(tmp_path: Path) -> None:
    """What pandas makes of whole numbers with a gap."""
    frame = pd.DataFrame({"name": ["a", "b"], "small": [36, None]})
    result = read({"Cell": frame}, tmp_path)
    (violation,) = result.violations
    assert violation.message.startswith("Cell.small of 'a': expected I32, got 36.0; the column")
    assert violation.message.endswith("(pandas: astype('Int64'))")
    assert result.values("name") == ["b"]
