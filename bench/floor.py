"""The floor of a commit: the same calls made by hand, without a graph around them.

Per table one staged row and one commit, then one merge into a manifest-like table; everything that
was created is synced. No intent, no lineage, no checks: this is what the storage itself costs.
"""

import os
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
from lance import LanceDataset, LanceOperation, Transaction
from lance.fragment import write_fragments

_KEY = {"lance-schema:unenforced-primary-key": "true"}
_MANIFEST = pa.schema(
    [
        pa.field("object_id", pa.string(), nullable=False, metadata=_KEY),
        pa.field("metadata", pa.string()),
    ]
)
_LAST_VERSION = (1 << 64) - 1
COMPACT_EVERY = 50


class Floor:
    """A few tables and a manifest, written to by hand."""

    def __init__(self, folder: Path, tables: int, schema: pa.Schema) -> None:
        self._schema = schema
        self._count = 0
        self._tables = [
            lance.write_dataset(
                schema.empty_table(), str(folder / f"t{n}"), enable_stable_row_ids=True
            )
            for n in range(tables)
        ]
        rows = [{"object_id": "graph_head:main", "metadata": "{}"}]
        self._manifest = lance.write_dataset(
            pa.Table.from_pylist(rows, schema=_MANIFEST),
            str(folder / "m"),
            enable_stable_row_ids=True,
        )

    def commit(self) -> None:
        """One row into every table, published together."""
        self._count += 1
        row = {**dict.fromkeys(self._schema.names), "id": f"r{self._count}"}
        rows = pa.Table.from_pylist([row], schema=self._schema)
        staged = [self._stage(table, rows) for table in self._tables]
        self._tables = [
            self._land(table, change) for table, change in zip(self._tables, staged, strict=True)
        ]
        self._publish()

    def _stage(self, table: Any, rows: pa.Table) -> Transaction:
        new = write_fragments(rows, table, mode="append")
        _sync(Path(table.uri), [Path("data") / f.path for frag in new for f in frag.files])
        fragments = table.get_fragments()
        if not fragments:
            operation: Any = LanceOperation.Overwrite(table.lance_schema, new)
        else:
            fields = [field.id() for field in table.lance_schema.fields()]
            fence = fragments[0].metadata
            operation = LanceOperation.Update([], [fence], new, [], fields, "rewrite_rows")
        return Transaction(
            read_version=table.version, operation=operation, uuid=f"floor-{self._count}"
        )

    def _land(self, table: Any, change: Transaction) -> Any:
        landed = LanceDataset.commit(table, change, max_retries=0)
        _sync_commit(landed, change.read_version, change.uuid)
        return landed

    def _publish(self) -> None:
        rows = [
            {"object_id": f"version:t{n}@{self._count}", "metadata": "{}"}
            for n in range(len(self._tables))
        ]
        rows.append({"object_id": f"graph_commit:{self._count}", "metadata": "{}"})
        rows.append({"object_id": "graph_head:main", "metadata": str(self._count)})
        before = {f.fragment_id for f in self._manifest.get_fragments()}
        read_version = self._manifest.version
        builder = self._manifest.merge_insert("object_id").when_matched_update_all()
        builder = builder.when_not_matched_insert_all().use_index(False).conflict_retries(0)
        builder.execute(pa.Table.from_pylist(rows, schema=_MANIFEST))
        fresh = [f for f in self._manifest.get_fragments() if f.fragment_id not in before]
        files = [Path("data") / d.path for f in fresh for d in f.metadata.files]
        _sync(Path(self._manifest.uri), files)
        made: Any = self._manifest.read_transaction(self._manifest.version)
        _sync_commit(self._manifest, read_version, made.uuid)
        if len(self._manifest.get_fragments()) > COMPACT_EVERY:
            self._manifest.optimize.compact_files(target_rows_per_fragment=4096)


def _sync_commit(table: Any, read_version: int, uuid: str) -> None:
    manifest = f"{_LAST_VERSION - table.version:020d}.manifest"
    files = [Path("_transactions") / f"{read_version}-{uuid}.txn", Path("_versions") / manifest]
    _sync(Path(table.uri), files)


def _sync(folder: Path, files: list[Path]) -> None:
    for path in files:
        _fsync(folder / path)
    for parent in dict.fromkeys((folder / path).parent for path in files):
        _fsync(parent)


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
