"""A plan as plain values: for JSON, and for tools that do not import the compiler.

Every operator, expression and predicate becomes an object whose `tag` says what it is; the other
names are those of the fields. Constants stay in stored form, with their type beside them.
"""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass
from enum import Enum

from omnigraph.errors import JsonValue
from omnigraph.lang.ir.expr import Column, EntityRef
from omnigraph.lang.ir.ops import Plan
from omnigraph.lang.values import Base, ValueType

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def plain(plan: Plan) -> JsonValue:
    """The whole plan."""
    return _plain(plan)


def _plain(item: object) -> JsonValue:
    match item:
        case Enum():
            return str(item.value)
        case None | bool() | int() | float() | str():
            return item
        case tuple():
            return [_plain(part) for part in item]
        case ValueType():
            return _type(item)
        case EntityRef():
            return {"kind": item.kind, "name": item.name, "id": item.id}
        case Column():
            return {"name": item.name, "type": _type(item.type)}
    assert is_dataclass(item), item
    tag = _HUMP.sub("_", type(item).__name__.removesuffix("Op")).lower()
    return {"tag": tag} | {part.name: _plain(getattr(item, part.name)) for part in fields(item)}


def _type(item: ValueType) -> JsonValue:
    """A value type; what does not apply is left out."""
    found: dict[str, JsonValue] = {"base": item.base.value, "nullable": item.nullable}
    if item.is_list:
        found["is_list"] = True
    if item.base is Base.VECTOR:
        found["dim"] = item.dim
    if item.enum:
        found["enum"] = list(item.enum)
    return found
