"""Folders that the original in Rust wrote: named for what they are, and never half read."""

import json
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.core.layout import MANIFEST
from omnigraph.core.records import FORMAT_VERSION, STAMP
from omnigraph.errors import Code, Conflict, Corrupt

_PRIMARY_KEY = {"lance-schema:unenforced-primary-key": "true"}
_COMMIT = "01ARZ3NDEKTSV4RRFFQ69G5FAV"


def manifest_schema(stamp: int | None) -> pa.Schema:
    """The manifest of the original: counts are unsigned, every row has a table key."""
    key = pa.field("object_id", pa.string(), nullable=False)
    fields = [
        key if stamp is None else key.with_metadata(_PRIMARY_KEY),
        pa.field("object_type", pa.string(), nullable=False),
        pa.field("location", pa.string()),
        pa.field("metadata", pa.string()),
        pa.field("base_objects", pa.list_(pa.string())),
        pa.field("table_key", pa.string(), nullable=False),
        pa.field("table_version", pa.uint64()),
        pa.field("table_branch", pa.string()),
        pa.field("row_count", pa.uint64()),
    ]
    return pa.schema(fields, metadata=None if stamp is None else {STAMP: str(stamp)})


def row(object_id: str, object_type: str, **values: object) -> dict[str, object]:
    return {"object_id": object_id, "object_type": object_type, "table_key": "", **values}


def rows(stamp: int | None) -> list[dict[str, object]]:
    version = json.dumps({"manifest_path": "x", "manifest_size": 1, "naming_scheme": "V2"})
    found = [
        row("node:P", "table", table_key="node:P", location="nodes/0000000000000001"),
        row(
            f"node:P${1:020}",
            "table_version",
            table_key="node:P",
            table_version=1,
            row_count=0,
            metadata=version,
        ),
    ]
    if stamp is not None and stamp >= 4:
        # The greatest number is what a manifest says that knows no version.
        commit = json.dumps({"created_at": 1_700_000_000_000_000})
        head = json.dumps({"head_commit_id": _COMMIT})
        found.append(row(_COMMIT, "graph_commit", metadata=commit, table_version=2**64 - 1))
        found.append(row("graph_head:main", "graph_head", metadata=head))
    return found


def original(folder: Path, stamp: int | None) -> None:
    """Make a graph as the original does."""
    schema = manifest_schema(stamp)
    lance.write_dataset(
        pa.Table.from_pylist(rows(stamp), schema),
        folder / MANIFEST,
        enable_stable_row_ids=True,
        data_storage_version="2.2",
    )
    (folder / "_schema.pg").write_text("node P { name: String @key }")


@pytest.mark.parametrize("mode", ["r", "rw"])
@pytest.mark.parametrize("stamp", [None, 2, 3, 4, 5, 6])
def test_a_graph_of_the_original_is_named(tmp_path: Path, stamp: int | None, mode: str) -> None:
    original(tmp_path, stamp)
    before = sorted(path for path in tmp_path.rglob("*"))
    with pytest.raises(Corrupt) as caught:
        og.open(tmp_path, mode)
    assert caught.value.code is Code.FORMAT_UNSUPPORTED
    assert caught.value.details == {
        "found": stamp or 1,
        "newest": FORMAT_VERSION,
        "written_by": "rust",
    }
    text = str(caught.value)
    assert "written in Rust" in text
    assert "export it there" in text
    assert "`omnigraph load`" in text
    assert sorted(path for path in tmp_path.rglob("*")) == before


def test_no_graph_is_made_over_one_of_the_original(tmp_path: Path) -> None:
    original(tmp_path, 6)
    with pytest.raises(Conflict) as caught:
        og.init(tmp_path, "node P { name: String @key }")
    assert caught.value.code is Code.GRAPH_EXISTS


@pytest.mark.parametrize("stamp", [FORMAT_VERSION + 1, FORMAT_VERSION + 2])
def test_a_newer_graph_of_this_one_asks_for_an_upgrade(tmp_path: Path, stamp: int) -> None:
    og.init(tmp_path, "node P { name: String @key }").close()
    lance.dataset(tmp_path / MANIFEST).update_schema_metadata({STAMP: str(stamp)})
    with pytest.raises(Corrupt, match="upgrade omnigraph first") as caught:
        og.open(tmp_path)
    assert caught.value.code is Code.FORMAT_UNSUPPORTED
    assert "written_by" not in caught.value.details


def test_a_table_that_is_no_manifest_is_called_so(tmp_path: Path) -> None:
    lance.write_dataset(pa.table({"x": [1]}), tmp_path / MANIFEST)
    with pytest.raises(Corrupt, match="not the manifest of a graph") as caught:
        og.open(tmp_path)
    assert caught.value.code is Code.CORRUPT
