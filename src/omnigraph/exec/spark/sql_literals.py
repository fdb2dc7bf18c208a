"""Types and constants of a plan as Spark's SQL spells them.

Every text enters as the digits of its bytes, so nothing in it can be taken for SQL.
"""

from __future__ import annotations

from typing import Final

from omnigraph.lang.ir.expr import ConstValue
from omnigraph.lang.values import Base, ValueType

_SCALARS: Final = {
    Base.STRING: "STRING",
    Base.BOOL: "BOOLEAN",
    Base.I32: "INT",
    Base.I64: "BIGINT",
    Base.U32: "BIGINT",
    Base.U64: "DECIMAL(20,0)",
    Base.F32: "FLOAT",
    Base.F64: "DOUBLE",
    Base.DATE: "DATE",
    Base.DATETIME: "TIMESTAMP",
    Base.BLOB: "BINARY",
}


def type_name(kind: ValueType) -> str:
    """The name of a type in Spark's SQL."""
    if kind.base is Base.VECTOR:
        return "ARRAY<FLOAT>"
    scalar = _SCALARS[kind.base]
    return f"ARRAY<{scalar}>" if kind.is_list else scalar


def literal(value: ConstValue, kind: ValueType) -> str:
    """A constant in stored form as a literal of a type."""
    return f"CAST({_value(value, kind)} AS {type_name(kind)})"


def text(value: str) -> str:
    """A text as a literal."""
    return f"CAST(X'{value.encode().hex()}' AS STRING)"


def _value(value: ConstValue, kind: ValueType) -> str:
    match value:
        case None:
            return "NULL"
        case tuple():
            return f"array({', '.join(_value(item, kind) for item in value)})"
        case bool():
            return "true" if value else "false"
        case str():
            return text(value)
        case _ if kind.base is Base.DATE:
            return f"date_from_unix_date({int(value)})"
        case _ if kind.base is Base.DATETIME:
            return f"timestamp_millis({int(value)})"
        case _:
            # As a text, because a number without its type would be rounded on the way.
            return f"CAST('{value!r}' AS {_SCALARS.get(kind.base, 'FLOAT')})"
