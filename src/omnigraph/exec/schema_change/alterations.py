"""What stands in the way of altering the table of a type."""

from __future__ import annotations

from omnigraph.core.alignment import altered_columns
from omnigraph.core.arrow_types import table_schema
from omnigraph.lang.catalog.model import EntityType
from omnigraph.lang.values import Base


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
