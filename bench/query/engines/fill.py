"""Filling a graph with the generated tables: one commit, as a bulk load makes it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from bench.query.generate import read
from bench.query.questions import SCHEMA
from omnigraph.core.engine import Engine, components
from omnigraph.core.indices import ensure_indices
from omnigraph.core.layout import table_key
from omnigraph.core.recovery.intent import WriterKind
from omnigraph.core.schema_state import AcceptedSchema
from omnigraph.core.write import Prepared, TableWrite
from omnigraph.lang import compile_schema
from omnigraph.store.root import Root


def fill(data: Path, place: Path) -> None:
    """Make a graph of the generated tables, with its indexes."""
    catalog = compile_schema(SCHEMA)
    root = Root.parse(str(place))
    engine = Engine.init(root, AcceptedSchema(catalog=catalog, text=SCHEMA), components(root))
    base = engine.snapshot()
    writes = []
    for entity in (*catalog.nodes, *catalog.edges):
        key = table_key(entity.kind, entity.name)
        table = engine.writable_table(base, key)
        rows = read(data, entity.name)
        rows = rows.append_column("id", _ids(rows, entity.kind == "edge"))
        content = rows.select(table.schema.names).cast(table.schema)
        staged = engine.tables.stage(table, inserts=content, uuid=engine.ids.new())
        if staged is not None:
            writes.append(TableWrite(table_key=key, staged=(staged,)))
    engine.commit(Prepared(base=base, kind=WriterKind.LOAD, tables=tuple(writes)))
    ensure_indices(engine)


def _ids(rows: pa.Table, edge: bool) -> pa.ChunkedArray:
    """The ids that follow from the keys. The keys hold nothing that JSON would escape."""
    if not edge:
        return rows["key"]
    return pc.binary_join_element_wise('["', rows["src"], '","', rows["dst"], '"]', "")
