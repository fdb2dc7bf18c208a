"""Rules that a schema change adds or tightens, judged on the stored rows.

Only these rules are judged, by the kernels that judge every other write, and only the columns that
they are about are read. A rule that several rows have to keep together, uniqueness or cardinality,
holds its columns of the whole table in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import pyarrow as pa

from omnigraph.core.alignment import altered_columns
from omnigraph.lang.catalog.model import EdgeType, EntityType, NodeType
from omnigraph.lang.catalog.rules import ID_NAME
from omnigraph.rules.cardinality import judge_cardinality
from omnigraph.rules.rows import judge_rows
from omnigraph.rules.unique import judge_unique
from omnigraph.rules.violation import Violations
from omnigraph.runtime import cancellation
from omnigraph.store.alter import AlteredColumn
from omnigraph.store.tables import Table


def judge_stored(old: EntityType, new: EntityType, table: Table, out: Violations) -> None:
    """Judge the rows of a table by the rules that a type gets."""
    _judge_rows(old, new, table, out)
    for columns in _new_uniques(old, new):
        judge_unique(new, columns, _image(old, new, table, (ID_NAME, *columns)), out)
    if isinstance(old, EdgeType) and isinstance(new, EdgeType):
        _judge_cardinality(old, new, table, out)


def _judge_rows(old: EntityType, new: EntityType, table: Table, out: Violations) -> None:
    concerned = _concerned(old, new)
    if not concerned:
        return
    kept = tuple(item for item in new.properties if item.name in concerned)
    judged = replace(new, properties=kept, key=(), uniques=(), indexes=())
    if isinstance(judged, NodeType):
        judged = replace(
            judged,
            ranges=tuple(item for item in judged.ranges if item.property in concerned),
            checks=tuple(item for item in judged.checks if item.property in concerned),
        )
    for rows in _images(old, new, table, (ID_NAME, *sorted(concerned))):
        judge_rows(judged, pa.Table.from_batches([rows]), out)


def _concerned(old: EntityType, new: EntityType) -> set[str]:
    """The properties, by their new names, that a new or narrower rule about one row is about."""
    before = {item.id: item for item in old.properties}
    ids = {item.name: item.id for item in new.properties}
    found = {
        item.name
        for item in new.properties
        if not item.type.nullable and item.id in before and before[item.id].type.nullable
    }
    if isinstance(old, NodeType) and isinstance(new, NodeType):
        old_ids = {item.name: item.id for item in old.properties}
        ranges = {(old_ids[item.property], item.low, item.high) for item in old.ranges}
        checks = {(old_ids[item.property], item.pattern) for item in old.checks}
        for bounds in new.ranges:
            if (ids[bounds.property], bounds.low, bounds.high) not in ranges:
                found.add(bounds.property)
        for check in new.checks:
            if (ids[check.property], check.pattern) not in checks:
                found.add(check.property)
    return found


def _new_uniques(old: EntityType, new: EntityType) -> Iterator[tuple[str, ...]]:
    old_ids = {item.name: item.id for item in old.properties}
    new_ids = {item.name: item.id for item in new.properties}
    known = {frozenset(old_ids.get(name, name) for name in columns) for columns in old.uniques}
    for columns in new.uniques:
        if frozenset(new_ids.get(name, name) for name in columns) not in known:
            yield columns


def _judge_cardinality(old: EdgeType, new: EdgeType, table: Table, out: Violations) -> None:
    before, after = old.cardinality, new.cardinality
    if after == before or (not after.low and after.high is None):
        return
    counted = table.read(["src"]).column("src").value_counts()
    judge_cardinality(new, counted.field("values"), counted.field("counts"), out)


# -- stored rows as they will be -------------------------------------------------------------------


def _image(old: EntityType, new: EntityType, table: Table, names: tuple[str, ...]) -> pa.Table:
    schema = pa.schema([column.field for column in _chosen(old, new, names)])
    return pa.Table.from_batches(_images(old, new, table, names), schema)


def _images(
    old: EntityType, new: EntityType, table: Table, names: tuple[str, ...]
) -> Iterator[pa.RecordBatch]:
    """Some columns of all rows, under their new names and with what they will hold."""
    chosen = _chosen(old, new, names)
    schema = pa.schema([column.field for column in chosen])
    sources = sorted({column.source for column in chosen if column.source is not None})
    for rows in table.scan(sources):
        cancellation.check()
        arrays = [column.values(rows) for column in chosen]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _chosen(old: EntityType, new: EntityType, names: Iterable[str]) -> list[AlteredColumn]:
    known = {column.field.name: column for column in altered_columns(old, new)}
    return [known[name] for name in names]
