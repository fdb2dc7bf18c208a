"""Data files that carry the name of an operation: the same fragments as Lance would write."""

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
from lance.fragment import write_fragments

from omnigraph.store import tuning
from omnigraph.store.integrity.file_checksums import FileChecksums
from omnigraph.store.maintenance.orphan_files import data_paths
from omnigraph.store.model import WrittenBy
from omnigraph.store.root import Root
from omnigraph.store.tables import Pin, blob_field, open_tables
from omnigraph.store.writing.named_files import NamedFiles

BY = WrittenBy("01K0000000000000000000000A", "__staging/01K0000000000000000000000A")
VECTOR = pa.list_(pa.float32(), 3)


def rows(count: int) -> pa.Table:
    return pa.table(
        {
            "id": pa.array([f"n{number}" for number in range(count)]),
            "gone": pa.array(range(count)),
            "list": pa.array([[number] if number % 3 else None for number in range(count)]),
            "texts": pa.array([["a", None] for _ in range(count)]),
            "vector": pa.array([[1.0, 2.0, 3.0]] * count, VECTOR),
            "when": pa.array(range(count), pa.timestamp("ms", "UTC")),
            "day": pa.array(range(count), pa.date32()),
            "big": pa.array(range(count), pa.uint64()),
            "flag": pa.array([None, *[True] * (count - 1)]),
        }
    )


def test_a_fragment_is_as_lance_writes_it(tmp_path: Path) -> None:
    """Of a table that has lost a column and got another one, so that fields have gaps."""
    place = "nodes/t"
    uri = str(tmp_path / place)
    made = lance.write_dataset(rows(5), uri, enable_stable_row_ids=True, data_storage_version="2.2")
    made.add_columns({"more": "gone + 1"})
    made.drop_columns(["gone"])
    dataset: Any = lance.dataset(uri)
    given = rows(30).append_column("more", pa.array(range(30))).select(dataset.schema.names)
    root = Root.parse(str(tmp_path))
    with tuning.tuned(file_rows_max=20):
        found = NamedFiles(root, FileChecksums(tmp_path)).write(dataset, place, given, BY)
    (theirs,) = write_fragments(given, dataset, mode="append")
    assert [fragment.physical_rows for fragment in found] == [20, 10]
    for fragment in found:
        mine, (other,) = fragment.files[0], theirs.files
        assert (mine.fields, mine.column_indices) == (other.fields, other.column_indices)
        assert mine.file_major_version == other.file_major_version
        assert mine.file_minor_version == other.file_minor_version
        assert mine.file_size_bytes == (tmp_path / place / "data" / mine.path).stat().st_size
        assert mine.path.startswith(BY.operation)
    before = dataset.count_rows()
    operation = lance.LanceOperation.Append(found)
    after = lance.LanceDataset.commit(dataset, operation, read_version=dataset.version)
    assert after.to_table(offset=before) == given
    assert not list((tmp_path / BY.folder).iterdir())


def test_files_are_found_by_the_name_of_their_operation(tmp_path: Path) -> None:
    tables = open_tables(Root.parse(str(tmp_path)), durable=True)
    schema = pa.schema([pa.field("id", pa.string(), nullable=False)])
    table = tables.open(Pin("nodes/t", tables.create("nodes/t", schema)))
    content = pa.table({"id": ["a", "b"]}, schema=schema)
    mine = tables.write(table, content, by=BY)
    tables.write(table, content)
    other = tables.write(table, content, by=WrittenBy("01K0000000000000000000000B", "__staging/x"))
    found = tables.leftovers.written_by(BY.operation, "nodes/t", None)
    assert found == data_paths(table, mine)
    staged = tables.stage_fragments(table, other, uuid="u")
    assert staged is not None
    version = tables.land(staged)
    kept = frozenset(data_paths(table, other))
    assert tables.leftovers.referenced(table.pin, version) == kept
    assert tables.leftovers.remove(found) == 1
    assert tables.leftovers.written_by(BY.operation, "nodes/t", None) == []
    assert tables.open(Pin("nodes/t", version)).read(["id"]).num_rows == 2
    assert tables.leftovers.referenced(table.pin, version + 500) is None


def test_blobs_go_with_their_data_file(tmp_path: Path) -> None:
    tables = open_tables(Root.parse(str(tmp_path)), durable=False)
    schema = pa.schema([pa.field("id", pa.string()), blob_field("data")])
    table = tables.open(Pin("nodes/t", tables.create("nodes/t", schema)))
    content = pa.table({"id": ["a"], "data": [b"x" * 200_000]}, schema=schema)
    before = list(tmp_path.rglob("*"))
    paths = data_paths(table, tables.write(table, content, by=BY))
    assert BY.operation not in paths[0]
    assert tables.leftovers.remove(paths) >= 2
    new = [path for path in tmp_path.rglob("*") if path not in before and path.is_file()]
    assert new == []
