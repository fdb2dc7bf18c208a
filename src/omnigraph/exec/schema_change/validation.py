"""Rules that a schema change adds or tightens, judged on the stored rows.

Only these rules are judged, by the kernels that judge every other write, and only the columns that
they are about are read. A rule that several rows have to keep together, uniqueness or cardinality,
holds its columns of the whole table in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pyarrow as pa

from omnigraph.core.schema.alignment import altered_columns
from omnigraph.core.schema.arrow_types import table_schema
from omnigraph.lang.catalog.model import EdgeType, EntityType, NodeType, Property
from omnigraph.lang.catalog.rules import ID_NAME
from omnigraph.rules.cardinality import judge_cardinality
from omnigraph.rules.rows import judge_rows
from omnigraph.rules.unique import judge_unique
from omnigraph.rules.violation import Violations
from omnigraph.runtime import cancellation
from omnigraph.store.tables import Table

# Reads some columns of all rows, under their new names and with what they will hold.
Images = Callable[[tuple[str, ...]], Iterator[pa.RecordBatch]]


def judge_stored(old: EntityType, new: EntityType, images: Images, out: Violations) -> None:
    """Judge rows by the rules that a type gets."""
    _judge_rows(old, new, images, out)
    for columns in _new_uniques(old, new):
        names = (ID_NAME, *columns)
        schema = pa.schema([table_schema(new).field(name) for name in names])
        judge_unique(new, columns, pa.Table.from_batches(images(names), schema), out)
    if isinstance(old, EdgeType) and isinstance(new, EdgeType) and _is_bound(old, new):
        sources = pa.chunked_array([rows.column(0) for rows in images(("src",))], pa.string())
        counted = sources.value_counts()
        judge_cardinality(new, counted.field("values"), counted.field("counts"), out)


def is_tightened(old: EntityType, new: EntityType) -> bool:
    """True if a type has rules that stored rows may break."""
    if isinstance(old, EdgeType) and isinstance(new, EdgeType) and _is_bound(old, new):
        return True
    return bool(_concerned(old, new)) or any(True for _ in _new_uniques(old, new))


def _is_bound(old: EdgeType, new: EdgeType) -> bool:
    after = new.cardinality
    return after != old.cardinality and bool(after.low or after.high is not None)


def _judge_rows(old: EntityType, new: EntityType, images: Images, out: Violations) -> None:
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
    for rows in images((ID_NAME, *sorted(concerned))):
        judge_rows(judged, pa.Table.from_batches([rows]), out)


def _concerned(old: EntityType, new: EntityType) -> set[str]:
    """The properties, by their new names, that a new or narrower rule about one row is about."""
    before = old.property_by_identity
    found = {
        item.name
        for item in new.properties
        if (not item.type.nullable and _may_be_missing(before.get(item.identity), item))
        or (item.type.enum and _may_be_foreign(before.get(item.identity), item))
    }
    if isinstance(old, NodeType) and isinstance(new, NodeType):
        known, names = _identities(old), _identities(new)
        ranges = {(known[item.property], item.low, item.high) for item in old.ranges}
        checks = {(known[item.property], item.pattern) for item in old.checks}
        for bounds in new.ranges:
            if (names[bounds.property], bounds.low, bounds.high) not in ranges:
                found.add(bounds.property)
        for check in new.checks:
            if (names[check.property], check.pattern) not in checks:
                found.add(check.property)
    return found


def _may_be_missing(before: Property | None, item: Property) -> bool:
    return item.fill is None if before is None else before.type.nullable


def _may_be_foreign(before: Property | None, item: Property) -> bool:
    """True if stored rows may have values that an enum does not name any more."""
    if before is None:
        return item.fill is not None and item.fill.value not in item.type.enum
    return not set(before.type.enum) <= set(item.type.enum)


def _identities(entity: EntityType) -> dict[str, str]:
    return {item.name: item.identity for item in entity.properties}


def _new_uniques(old: EntityType, new: EntityType) -> Iterator[tuple[str, ...]]:
    known, names = _identities(old), _identities(new)
    there = {frozenset(known.get(name, name) for name in columns) for columns in old.uniques}
    for columns in new.uniques:
        if frozenset(names.get(name, name) for name in columns) not in there:
            yield columns


def stored_images(
    old: EntityType, new: EntityType, table: Table, names: tuple[str, ...]
) -> Iterator[pa.RecordBatch]:
    """Some columns of all rows of a table, under their new names and with what they will hold."""
    known = {column.field.name: column for column in altered_columns(old, new)}
    chosen = [known[name] for name in names]
    schema = pa.schema([column.field for column in chosen])
    sources = sorted({column.source for column in chosen if column.source is not None})
    for rows in table.scan(sources):
        cancellation.check()
        arrays = [column.values(rows) for column in chosen]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)
