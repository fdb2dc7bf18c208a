"""The changes of a query to one type, as operations of one write."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.core.repository import Repository
from omnigraph.core.write import TableWrite
from omnigraph.embed.missing import MissingVectors
from omnigraph.exec.mutate.committed import PLACES, CommittedRows
from omnigraph.store.table import ROW_ID


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeDelta:
    """Rows of one type that are added, replaced or removed. No entity is in two of them."""

    committed: CommittedRows
    images: pa.Table | None = None  # new and replaced; those that are new have no place
    removed: pa.Table | None = None  # `id` and place

    @property
    def count(self) -> int:
        """The number of entities that the change touches."""
        parts = (self.images, self.removed)
        return sum(part.num_rows for part in parts if part is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class MutationDelta:
    """A whole query: its deltas, the tables that it was judged against, and vectors it lacks."""

    deltas: tuple[TypeDelta, ...]
    judged: frozenset[str]
    missing: tuple[MissingVectors, ...] = ()

    def count(self, kind: str) -> int:
        """The number of different nodes, or edges, that are touched."""
        return sum(d.count for d in self.deltas if d.committed.entity.kind == kind)


def stage(
    repo: Repository, base: GraphVersion, deltas: Iterable[TypeDelta]
) -> tuple[TableWrite, ...]:
    """Write the rows; nothing refers to them yet. A type that does not change is not written."""
    writes: list[TableWrite] = []
    for delta in deltas:
        if not delta.count:
            continue
        key = delta.committed.key
        # On a branch the first write forks the table; the rows keep their places there.
        table = repo.writable_table(base, key)
        inserts, updates = _split(delta.images, table.schema)
        staged = repo.tables.stage(
            table,
            inserts=inserts,
            updates=updates,
            deletes=delta.removed,
            uuid=repo.ids.new(),
        )
        if staged is not None:
            writes.append(TableWrite(table_key=key, staged=(staged,)))
    return tuple(writes)


def _split(images: pa.Table | None, schema: pa.Schema) -> tuple[pa.Table | None, pa.Table | None]:
    """New rows, and the ones that replace a row, as the table stores them."""
    if images is None:
        return None, None
    known = images.column(ROW_ID).is_valid()
    new = images.filter(pc.invert(known)).select(schema.names).cast(schema)
    placed = pa.schema([*schema, *(images.schema.field(name) for name in PLACES)])
    old = images.filter(known).select(placed.names).cast(placed)
    return (new if new.num_rows else None), (old if old.num_rows else None)
