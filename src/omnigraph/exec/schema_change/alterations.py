"""The columns of a type's table before and after a schema change, matched by property id."""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph.core.arrow_types import default_scalar, table_schema
from omnigraph.lang.catalog.model import Catalog, EntityType
from omnigraph.lang.values import Base
from omnigraph.store.alter import AlteredColumn


def kept_types(old: Catalog, new: Catalog) -> Iterator[tuple[EntityType, EntityType]]:
    """The types that both catalogs have, by id: as they were, and as they are."""
    nodes = {item.id: item for item in old.nodes}
    edges = {item.id: item for item in old.edges}
    for node in new.nodes:
        if node.id in nodes:
            yield nodes[node.id], node
    for edge in new.edges:
        if edge.id in edges:
            yield edges[edge.id], edge


def altered_columns(old: EntityType, new: EntityType) -> tuple[AlteredColumn, ...]:
    """Every column of the table as it is to be, with the column that it goes on from.

    Only a required property that is new has a value for stored rows: its default.
    """
    names = {item.id: item.name for item in old.properties}
    found = []
    for field in table_schema(new):
        item = new.property_by_name.get(field.name)
        if item is None:
            found.append(AlteredColumn(field, field.name))  # `id`, or an end of an edge
        elif item.id in names:
            found.append(AlteredColumn(field, names[item.id]))
        else:
            fill = None if item.type.nullable else default_scalar(item)
            found.append(AlteredColumn(field, None, fill))
    return tuple(found)


def blob_in_the_way(old: EntityType, new: EntityType) -> str | None:
    """A blob property that takes over the name of another one, which no table can do at once."""
    before = table_schema(old)
    for column in altered_columns(old, new):
        name = str(column.field.name)
        item = new.property_by_name.get(name)
        is_blob = item is not None and item.type.base is Base.BLOB
        if is_blob and name in before.names and column.source != name:
            return name
    return None


def is_altered(old: EntityType, new: EntityType) -> bool:
    """True if the table has to be altered at all."""
    columns = altered_columns(old, new)
    before = table_schema(old)
    return len(columns) != len(before) or any(
        column.source != column.field.name or before.field(column.source) != column.field
        for column in columns
    )
