"""Filling a graph with the generated tables: one commit, as a bulk load makes it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from bench.query.generate import read
from bench.query.questions import SCHEMA
from omnigraph.core.journal.intent import WriterKind
from omnigraph.core.layout import table_key
from omnigraph.core.maintenance.indices import ensure_indices
from omnigraph.core.repository import Repository, components
from omnigraph.core.schema.schema_state import AcceptedSchema
from omnigraph.core.write import Prepared, TableWrite
from omnigraph.lang import compile_schema
from omnigraph.store.root import Root


def fill(data: Path, place: Path) -> None:
    """Make a graph of the generated tables, with its indexes."""
    catalog = compile_schema(SCHEMA)
    root = Root.parse(str(place))
    repo = Repository.init(root, AcceptedSchema(catalog=catalog, text=SCHEMA), components(root))
    base = repo.snapshot()
    writes = []
    for entity in (*catalog.nodes, *catalog.edges):
        key = table_key(entity.kind, entity.name)
        table = repo.writable_table(base, key)
        rows = read(data, entity.name)
        rows = rows.append_column("id", _ids(rows, entity.kind == "edge"))
        content = rows.select(table.schema.names).cast(table.schema)
        staged = repo.tables.stage(table, inserts=content, uuid=repo.ids.new())
        if staged is not None:
            writes.append(TableWrite(table_key=key, staged=(staged,)))
    commit = repo.new_commit(base, WriterKind.LOAD)
    repo.commit(Prepared(base=base, commit=commit, tables=tuple(writes)))
    ensure_indices(repo)


def _ids(rows: pa.Table, edge: bool) -> pa.ChunkedArray:
    """The ids that follow from the keys. The keys hold nothing that JSON would escape."""
    if not edge:
        return rows["key"]
    return pc.binary_join_element_wise('["', rows["src"], '","', rows["dst"], '"]', "")
