"""The same rows in every form: lines, Arrow, Parquet and CSV decode to the same."""

import base64
import csv
import datetime as dt
import io
import json
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.dataplane.decode.convert import rows_schema
from tests.unit.dataplane.decoding import CATALOG, Read, read

SCHEMA = rows_schema(CATALOG.node_by_name["Cell"])
COLUMNS = [name for name in SCHEMA.names if name != "id"]

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
SINGLES = st.floats(allow_nan=False, allow_infinity=False, width=32)
DOUBLES = st.floats(allow_nan=False, allow_infinity=False)
MOMENTS = st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30)).map(
    lambda moment: moment.replace(microsecond=moment.microsecond // 1_000 * 1_000, tzinfo=dt.UTC)
)
LARGE = st.integers(-(2**63), 2**63 - 1)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "flag": st.booleans(),
    "small": st.integers(-(2**31), 2**31 - 1),
    "large": LARGE,
    "count": st.integers(0, 2**32 - 1),
    "huge": st.integers(0, 2**64 - 1),
    "single": SINGLES,
    "double": DOUBLES,
    "day": st.dates(),
    "moment": MOMENTS,
    "colour": st.sampled_from(["blue", "red"]),
    "vector": st.lists(SINGLES, min_size=3, max_size=3),
    "data": st.binary(max_size=8),
    "words": st.lists(TEXTS, max_size=3),
    "integers": st.lists(LARGE, max_size=3),
    "floats": st.lists(SINGLES, max_size=3),
    "days": st.lists(st.dates(), max_size=3),
}


@st.composite
def rows(draw: st.DrawFn) -> list[dict[str, Any]]:
    count = draw(st.integers(1, 6))
    found = []
    for number in range(count):
        row = {name: draw(st.none() | values) for name, values in VALUES.items()}
        # A name that is not empty: CSV skips lines without any value.
        found.append({**row, "name": f"{number} {draw(TEXTS)}"})
    return found


def as_csv(entities: list[dict[str, Any]]) -> str:
    """The rows as Python writes them. It leaves null empty, and no text here is empty itself."""
    sink = io.StringIO()
    writer = csv.writer(sink)
    writer.writerow(COLUMNS)
    for row in entities:
        writer.writerow([cell(row[name]) for name in COLUMNS])
    return sink.getvalue()


def cell(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, bytes):
        return "base64:" + base64.b64encode(value).decode()
    if isinstance(value, list):
        return json.dumps(value, default=str)
    if isinstance(value, dt.datetime):
        return value.isoformat()
    return str(value)


def plain(result: Read) -> list[dict[str, Any]]:
    assert result.violations == []
    return result.rows["Cell"]


@settings(max_examples=60)
@given(rows(), st.sampled_from([1, 60, 1 << 20]))
def test_every_form_gives_the_same_rows(entities: list[dict[str, Any]], wanted: int) -> None:
    stored = pa.schema([SCHEMA.field(name) for name in COLUMNS])
    table = pa.Table.from_pylist(entities, schema=stored)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pq.write_table(table, folder / "Cell.parquet", row_group_size=2)
        (folder / "Cell.csv").write_text(as_csv(entities), newline="")
        sources: dict[str, Any] = {
            "rows": {"Cell": entities},
            "arrow": {"Cell": table},
            "parquet": folder / "Cell.parquet",
            "csv": folder / "Cell.csv",
            "foreign": {"Cell": foreign(table)},
        }
        found = {
            form: plain(read(source, folder, bytes_per_split=wanted))
            for form, source in sources.items()
        }
    expected = [{"id": None, **row} for row in table.to_pylist()]
    for form, got in found.items():
        assert got == expected, form


def foreign(table: pa.Table) -> pa.Table:
    """The same in the types that other systems would rather use."""
    kinds = {
        "name": pa.large_string(),
        "words": pa.large_list(pa.large_string()),
        "colour": pa.dictionary(pa.int16(), pa.string()),
        "small": pa.int64(),
        "huge": pa.decimal128(20, 0),
        "single": pa.float64(),
        "moment": pa.timestamp("us", "Asia/Tokyo"),
        "day": pa.string(),
        "vector": pa.list_(pa.float64()),
        "data": pa.binary(),
        "integers": pa.large_list(pa.decimal128(19, 0)),
    }
    for name, kind in kinds.items():
        place = table.schema.get_field_index(name)
        table = table.set_column(place, name, table.column(name).cast(kind))
    return table
