"""Conditions of Spark as conditions of a scan.

A scan may return more than was asked for, never less: Spark applies every condition again. So what
cannot be said here, or would need care with types, is simply left out.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable
from decimal import Decimal
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)

from omnigraph.store.table import literal, quoted

_SIGNS: Final[dict[type[Filter], str]] = {
    EqualTo: "=",
    EqualNullSafe: "=",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
}
_ITEMS_MAX: Final = 500


def condition(filters: Iterable[Filter], schema: pa.Schema) -> str | None:
    """What a scan can do of some filters, all of which hold; None when that is nothing."""
    found = [text for item in filters if (text := _one(item, schema)) is not None]
    return " AND ".join(found) or None


def _one(item: Filter, schema: pa.Schema) -> str | None:
    path: tuple[str, ...] = getattr(item, "attribute", ())
    if len(path) != 1 or path[0] not in schema.names:
        return None
    kind = schema.field(path[0]).type
    column = quoted(path[0])
    match item:
        case IsNull():
            return f"{column} IS NULL" if _is_plain(kind) else None
        case IsNotNull():
            return f"{column} IS NOT NULL" if _is_plain(kind) else None
        case In(value=values):
            texts = [_value(value, kind) for value in values if value is not None]
            if None in texts or not 0 < len(texts) <= _ITEMS_MAX:
                return None
            return f"{column} IN ({', '.join(text for text in texts if text is not None)})"
        case StringStartsWith(value=prefix):
            return _starts_with(column, prefix, kind)
        case _:
            sign = _SIGNS.get(type(item))
            text = _value(getattr(item, "value", None), kind)
            return None if sign is None or text is None else f"{column} {sign} {text}"


def _is_plain(kind: pa.DataType) -> bool:
    return not (pa.types.is_nested(kind) or pa.types.is_large_binary(kind))


def _starts_with(column: str, prefix: object, kind: pa.DataType) -> str | None:
    if not isinstance(prefix, str) or not pa.types.is_string(kind):
        return None
    return f"starts_with({column}, {literal(prefix)})"


def _value(value: object, kind: pa.DataType) -> str | None:
    """A value as the scan's language spells it, if its meaning is the same there."""
    if isinstance(value, bool):
        return str(value).upper() if pa.types.is_boolean(kind) else None
    if isinstance(value, str):
        return literal(value) if pa.types.is_string(kind) else None
    if isinstance(value, Decimal) and value == value.to_integral_value():
        value = int(value)
    if isinstance(value, int):
        return str(value) if pa.types.is_integer(kind) and -(2**63) <= value < 2**63 else None
    if isinstance(value, float):
        is_exact = pa.types.is_float64(kind) and math.isfinite(value) and value != 0
        return repr(value) if is_exact else None
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return f"date '{value.isoformat()}'" if pa.types.is_date32(kind) else None
    return None
