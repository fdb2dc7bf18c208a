"""The rows of the manifest that another schema needs, and the tables of its new types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.core.commits.records import Record, TableRecord, TombstoneRecord, VersionRecord
from omnigraph.core.layout import new_table_path, table_key
from omnigraph.core.repository import Repository
from omnigraph.core.schema.arrow_types import table_schema
from omnigraph.lang.catalog.model import Catalog, EntityType
from omnigraph.store.tables import Pin


def schema_records(
    repo: Repository,
    base: GraphVersion,
    old: Catalog,
    new: Catalog,
    rows: Mapping[str, Any] | None = None,
) -> Iterator[Record]:
    """The rows of the manifest for types that come, go or get another name.

    Args:
        repo: The graph.
        base: The state that the schema is put in force on.
        old: Its catalog.
        new: The catalog to come.
        rows: The first rows of new types, by table key: a table or a stream. Others are empty.
    """
    known = {(item.kind, item.id): item for item in (*old.nodes, *old.edges)}
    for item in (*new.nodes, *new.edges):
        before = known.pop((item.kind, item.id), None)
        if before is None:
            yield from _new_table(repo, item, (rows or {}).get(_key(item)))
        elif before.name != item.name:
            yield TableRecord(table_key=_key(item), location=base.pin(_key(before)).path)
    for gone in known.values():
        pin = base.pin(_key(gone))
        yield TombstoneRecord(table_key=_key(gone), location=pin.path, version=pin.version)


def _new_table(repo: Repository, entity: EntityType, rows: Any) -> Iterator[Record]:
    """The table of a new type, under a new name: it is not visible before the commit.

    Others may give the same type a table at the same time, on this branch or on another one. Each
    makes its own, and one that comes to nothing is left for the next clean-up.
    """
    tables = repo.tables
    place = new_table_path(entity.kind, entity.id, repo.ids.new())
    pin, count = Pin(path=place, version=tables.create(place, table_schema(entity))), 0
    if rows is not None:
        staged = tables.stage_overwrite(tables.open(pin), rows, uuid=repo.ids.new())
        pin, count = replace(pin, version=tables.land(staged)), staged.rows_after
    yield TableRecord(table_key=_key(entity), location=place)
    yield VersionRecord(
        table_key=_key(entity),
        location=place,
        version=pin.version,
        table_branch=pin.branch,
        row_count=count,
    )


def _key(entity: EntityType) -> str:
    return table_key(entity.kind, entity.name)
