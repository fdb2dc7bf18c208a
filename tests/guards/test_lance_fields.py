"""The schemas that we compose for altered tables are those that Lance makes itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from omnigraph.store.writing.lance_fields import columns_of, new_column, schema_of

FIELDS = [
    pa.field("id", pa.string(), nullable=False, metadata={"k": "v"}),
    pa.field("age", pa.int32()),
    pa.field("tags", pa.list_(pa.string())),
    pa.field("place", pa.list_(pa.float32(), 2)),
    pa.field("at", pa.timestamp("ms", tz="UTC")),
]


@pytest.fixture
def dataset(tmp_path: Path) -> Any:
    return lance.write_dataset(pa.schema(FIELDS).empty_table(), tmp_path / "t.lance")


def plain(schema: Any) -> str:
    return str(schema)


def test_taking_a_schema_apart_and_putting_it_together_changes_nothing(dataset: Any) -> None:
    metadata, columns = columns_of(dataset.lance_schema)
    assert list(columns) == [field.name for field in FIELDS]
    assert plain(schema_of(metadata, list(columns.values()))) == plain(dataset.lance_schema)


def test_a_renamed_column_is_what_lance_makes_of_it(dataset: Any) -> None:
    metadata, columns = columns_of(dataset.lance_schema)
    columns["tags"] = columns["tags"].renamed("labels")
    dataset.alter_columns({"path": "tags", "name": "labels"})
    assert plain(schema_of(metadata, list(columns.values()))) == plain(dataset.lance_schema)


def test_a_dropped_column_is_what_lance_makes_of_it(dataset: Any) -> None:
    metadata, columns = columns_of(dataset.lance_schema)
    del columns["tags"]
    dataset.drop_columns(["tags"])
    assert plain(schema_of(metadata, list(columns.values()))) == plain(dataset.lance_schema)


@pytest.mark.parametrize(
    "field",
    [
        pa.field("new", pa.int64()),
        pa.field("new", pa.list_(pa.date32())),
        pa.field("new", pa.list_(pa.float32(), 3)),
    ],
    ids=str,
)
def test_an_added_column_is_what_lance_makes_of_it(dataset: Any, field: pa.Field) -> None:
    metadata, columns = columns_of(dataset.lance_schema)
    columns["new"] = new_column(field, dataset.max_field_id + 1)
    dataset.add_columns(pa.schema([field]))
    assert plain(schema_of(metadata, list(columns.values()))) == plain(dataset.lance_schema)
