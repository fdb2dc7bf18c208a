"""Sources on every kind of storage: found, divided and read the same."""

import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from omnigraph.dataplane.source.resolve import resolve
from omnigraph.dataplane.source.split import split
from omnigraph.errors import NotFound
from omnigraph.store.io.streams import list_inputs, open_output
from omnigraph.store.root import Root
from tests.unit.dataplane.decoding import CATALOG, Read, decode_all

COUNT = 2_000
NAMES = [f"cell-{number}" for number in range(COUNT)]
LINES = b"".join(
    json.dumps({"type": "Cell", "data": {"name": name}}).encode() + b"\n" for name in NAMES
)
TABLE = pa.table({"name": NAMES, "large": range(COUNT)})


@pytest.fixture
def data(any_root: Root) -> Root:
    """A folder with the same rows in several formats."""
    contents = {"lines/a.jsonl": LINES, "lines/deep/b.jsonl.gz": gzip.compress(LINES)}
    for path, content in contents.items():
        with open_output(any_root.join(path), any_root.storage_options) as output:
            output.write(content)
    with open_output(any_root.join("Cell-0.parquet"), any_root.storage_options) as output:
        pq.write_table(TABLE, output, row_group_size=300)
    with (
        open_output(any_root.join("Cell-1.arrow"), any_root.storage_options) as output,
        pa.ipc.new_file(output, TABLE.schema) as writer,
    ):
        writer.write_table(TABLE, max_chunksize=300)
    return any_root


def read(data: Root, source: object, *, is_remote: bool = False) -> Read:
    with resolve(source, CATALOG, storage_options=data.storage_options) as inputs:
        parts = split(
            inputs.inputs,
            bytes_per_split=10_000,
            spool_to=data.join("spool"),
            storage_options=data.storage_options,
            is_remote=is_remote,
        )
        return decode_all(parts)


@pytest.mark.parametrize(
    ("pattern", "times"),
    [
        ("lines/a.jsonl", 1),
        ("lines", 2),
        ("lines/**/*.gz", 1),
        ("Cell-0.parquet", 1),
        ("*.arrow", 1),
        ("Cell-*", 2),
        ("", 4),
    ],
)
def test_folders_patterns_and_objects(data: Root, pattern: str, times: int) -> None:
    result = read(data, data.join(pattern))
    assert result.violations == []
    assert sorted(result.values("name")) == sorted(NAMES * times)
    assert len(result.splits) >= times


def test_what_is_missing(data: Root) -> None:
    for path in ("nothing.jsonl", "no/such/folder", "*.csv"):
        with pytest.raises(NotFound):
            read(data, data.join(path))


def test_tables_for_other_processes_go_through_storage(data: Root) -> None:
    result = read(data, {"Cell": [TABLE, TABLE.to_reader()]}, is_remote=True)
    assert result.values("name") == NAMES * 2
    assert len(list_inputs(data.join("spool"), data.storage_options)) == 2
