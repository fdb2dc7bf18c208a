"""The entities of a graph, as dictionaries."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TypeAlias

from omnigraph.lang.catalog.model import Catalog, EntityType
from omnigraph.lang.ir.expr import ConstValue, EntityRef
from omnigraph.lang.values import F32_MAX, Base, ValueType, to_f32

Row: TypeAlias = Mapping[str, ConstValue]
"""A value per column, in stored form; `id` and, for an edge, `src` and `dst` among them."""


@dataclass(frozen=True, slots=True)
class ModelGraph:
    """Every entity: table key to id to row. Frozen by convention: never changed in place."""

    tables: Mapping[str, Mapping[str, Row]] = field(default_factory=dict)

    def rows(self, entity: EntityRef) -> Mapping[str, Row]:
        """The entities of a type, by id."""
        return self.tables.get(entity.table_key, {})

    def row(self, entity: EntityRef, entity_id: str) -> Row:
        """One entity."""
        return self.rows(entity)[entity_id]

    def copied(self) -> dict[str, dict[str, Row]]:
        """The tables in a form that can be changed."""
        return {key: dict(rows) for key, rows in self.tables.items()}


def entity_type(catalog: Catalog, table_key: str) -> EntityType:
    """The declaration behind a table key."""
    kind, _, name = table_key.partition(":")
    return catalog.node_by_name[name] if kind == "node" else catalog.edge_by_name[name]


def complete(entity: EntityType, values: Row) -> Row:
    """A row with every column, absent properties null; the id follows from the key if there is one.

    Raises:
        ValueError: When a part of the key is null.
    """
    row: dict[str, ConstValue] = {item.name: None for item in entity.properties}
    row.update(values)
    if entity.key:
        row["id"] = derived_id(entity, row)
    return row


def derived_id(entity: EntityType, row: Row) -> str:
    """The id that the key columns make.

    Raises:
        ValueError: When one of them is null.
    """
    parts = [_canonical(row[name], column_type(entity, name)) for name in entity.key]
    if len(parts) == 1:
        return parts[0]
    return json.dumps(parts, ensure_ascii=False, separators=(",", ":"))


def column_type(entity: EntityType, name: str) -> ValueType:
    """The type of a property or of a built-in column."""
    declared = entity.property_by_name.get(name)
    return ValueType(Base.STRING) if declared is None else declared.type


def _canonical(value: ConstValue, kind: ValueType) -> str:
    match value:
        case None | tuple():
            raise ValueError("a key has no null and no list")
        case bool():
            return "true" if value else "false"
        case float():
            return _shortest(value, kind)
        case _:
            return str(value)


def _shortest(number: float, kind: ValueType) -> str:
    """The fewest digits that give the number back at its stored width, without an exponent."""
    if number == 0:
        return "0"
    digits = next(
        text
        for text in (f"{number:.{count}g}" for count in range(1, 18))
        if _stored(float(text), kind) == number
    )
    return format(Decimal(digits).normalize(), "f")


def _stored(number: float, kind: ValueType) -> float:
    return to_f32(number) if kind.base is Base.F32 and abs(number) <= F32_MAX else number
