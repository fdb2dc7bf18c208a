"""The rows of a type across changes of the schema: columns matched by the identity of properties.

Two states of a graph may have a type under other names, with other properties, in other types. Rows
of one state are read with the columns of another schema: renamed, cast, and filled with what rows
got that were stored when a property was declared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.core.layout import table_key
from omnigraph.core.schema.arrow_types import fill_scalar, table_schema
from omnigraph.lang.catalog.model import Catalog, EntityType
from omnigraph.store.reading.altered_columns import AlteredColumn
from omnigraph.store.reading.table_diff import TableDiff
from omnigraph.store.tables import Pin, Tables


@dataclass(frozen=True, slots=True)
class TypeState:
    """A type as one state of a graph has it: what is declared, and the version of its table."""

    entity: EntityType
    pin: Pin


def counterpart(catalog: Catalog, entity: EntityType) -> EntityType | None:
    """The same type in another catalog, which may have another name there."""
    group: tuple[EntityType, ...] = catalog.nodes if entity.kind == "node" else catalog.edges
    return next((item for item in group if item.id == entity.id), None)


def type_state(version: GraphVersion, catalog: Catalog, entity: EntityType) -> TypeState | None:
    """A type at a state with this catalog; None when it is not declared there."""
    known = counterpart(catalog, entity)
    if known is None:
        return None
    pin = version.pin(table_key(known.kind, known.name))
    return TypeState(known, pin.store_pin)


def kept_types(old: Catalog, new: Catalog) -> Iterator[tuple[EntityType, EntityType]]:
    """The types that both catalogs have: as they were, and as they are."""
    for item in (*new.nodes, *new.edges):
        before = counterpart(old, item)
        if before is not None:
            yield before, item


def altered_columns(old: EntityType, new: EntityType) -> tuple[AlteredColumn, ...]:
    """Every column of the table as it is to be, with the column that it goes on from."""
    known = old.property_by_identity
    found = []
    for field in table_schema(new):
        item = new.property_by_name.get(field.name)
        if item is None:
            found.append(AlteredColumn(field, field.name))  # `id`, or an end of an edge
        elif item.identity in known:
            found.append(AlteredColumn(field, known[item.identity].name))
        else:
            fill = None if item.identity in old.retired else fill_scalar(item)
            found.append(AlteredColumn(field, None, fill))
    return tuple(found)


def is_altered(old: EntityType, new: EntityType) -> bool:
    """True if a table of one has other columns than a table of the other."""
    if old is new:
        return False
    columns = altered_columns(old, new)
    before = table_schema(old)
    return len(columns) != len(before) or any(
        column.source != column.field.name or before.field(column.source) != column.field
        for column in columns
    )


def type_diff(
    tables: Tables, older: TypeState | None, newer: TypeState, wanted: EntityType
) -> TableDiff:
    """The rows of a type that two states do not share, both with the columns of one schema."""
    known = (each for each in (older, newer) if each is not None)
    columns = [
        altered_columns(each.entity, wanted) if is_altered(each.entity, wanted) else None
        for each in known
    ]
    if older is None:
        return tables.diff(None, newer.pin).aligned(None, columns[0])
    is_shared = not (_is_lost(older, newer, wanted) or _is_lost(newer, older, wanted))
    return tables.diff(older.pin, newer.pin, is_shared=is_shared).aligned(*columns)


def _is_lost(one: TypeState, other: TypeState, wanted: EntityType) -> bool:
    """True if one side has dropped a property of which the other one may have values."""
    return any(
        item.identity in one.entity.retired and item.identity in other.entity.property_by_identity
        for item in wanted.properties
    )
