"""The rows of the manifest that another schema needs, and the tables of its new types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.core.commits.records import Record, TableRecord, TombstoneRecord, VersionRecord
from omnigraph.core.layout import table_key, table_path
from omnigraph.core.repository import Repository
from omnigraph.core.schema.arrow_types import table_schema
from omnigraph.errors import Code, Conflict
from omnigraph.lang.catalog.model import Catalog, EntityType
from omnigraph.store.tables import Pin
from omnigraph.types import MAIN


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
            yield from _new_table(repo, base, item, (rows or {}).get(_key(item)))
        elif before.name != item.name:
            yield TableRecord(table_key=_key(item), location=base.pin(_key(before)).path)
    for gone in known.values():
        pin = base.pin(_key(gone))
        yield TombstoneRecord(table_key=_key(gone), location=pin.path, version=pin.version)


def _new_table(
    repo: Repository, base: GraphVersion, entity: EntityType, rows: Any
) -> Iterator[Record]:
    """The table of a new type. Nobody sees it before the commit.

    One may be there that another branch has made, or an attempt that came to nothing. Main
    goes on with it where it is. Another branch gets a fork: main may stand on the trunk.
    """
    tables = repo.tables
    place, wanted = table_path(entity.kind, entity.id), table_schema(entity)
    is_there = tables.exists(place)
    if not is_there:
        tables.create(place, wanted)
    elif base.branch == MAIN:
        _require_settled(repo, base)
    pin = Pin(path=place, version=tables.head(place))
    if is_there and base.branch != MAIN:
        pin = repo.branches.fork(pin, base.incarnation)
    found = tables.open(pin)
    count = 0
    if rows is not None or found.row_count or found.schema != wanted:
        content = wanted.empty_table() if rows is None else rows
        staged = tables.stage_overwrite(found, content, uuid=repo.ids.new(), schema=wanted)
        pin = replace(pin, version=tables.land(staged))
        count = staged.rows_after
    yield TableRecord(table_key=_key(entity), location=place)
    yield VersionRecord(
        table_key=_key(entity),
        location=place,
        version=pin.version,
        table_branch=pin.branch,
        row_count=count,
    )


def _require_settled(repo: Repository, base: GraphVersion) -> None:
    """Settle the attempt that may have made a table of main: it is not written to under it."""
    repo.refresh()
    if repo.snapshot(base.branch).head != base.head:
        raise Conflict(Code.HEAD_CONTENTION, f"branch '{base.branch}' has moved on")


def _key(entity: EntityType) -> str:
    return table_key(entity.kind, entity.name)
