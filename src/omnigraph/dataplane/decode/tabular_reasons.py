"""Messages for values of a foreign Arrow column that are none of its type."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa

from omnigraph.dataplane.decode.json_fit import Misfit, described, fit, shown
from omnigraph.dataplane.decode.json_line import Constant, Integer, Json, Real
from omnigraph.dataplane.decode.tabular_columns import is_list, is_text, plain
from omnigraph.errors import JsonValue
from omnigraph.lang.values import INTEGERS, ValueType
from omnigraph.rules.report import quoted


def reason(column: pa.Array, row: int, kind: ValueType) -> tuple[JsonValue, str]:
    """A value that is none of a type as a report can carry it, and why it is none."""
    column = plain(column)
    expected = f"expected {'text' if kind.enum else kind.required()}"
    if not _is_like_json(column.type):
        text = _text_of(column.slice(row, 1))
        return text, f"{expected}, got {column.type}" + (f" {quoted(text)}" if text else "")
    try:
        value = _as_json(column[row].as_py())
    except UnicodeDecodeError:
        return None, "the text is not UTF-8"
    found = fit(value, kind)
    if isinstance(found, Misfit):
        return found.value, found.words + _hint(column.type, kind)
    return shown(value), f"{expected}, got {described(value)}"


def _hint(column: pa.DataType, kind: ValueType) -> str:
    if pa.types.is_floating(column) and kind.base in INTEGERS and not kind.is_list:
        # What pandas makes of integers as soon as one is missing.
        return "; the column holds floats: cast it to integers first (pandas: astype('Int64'))"
    return ""


def _is_like_json(kind: pa.DataType) -> bool:
    if is_list(kind):
        return _is_like_json(kind.value_type)
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    return is_number or pa.types.is_boolean(kind) or is_text(kind)


def _text_of(value: pa.Array) -> str | None:
    if not pa.types.is_temporal(value.type):
        return None
    try:
        text: str | None = value.cast(pa.string())[0].as_py()
    except pa.ArrowException:  # a zone that this machine does not know
        return None
    return text


def _as_json(value: Any) -> Json:
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return Integer(value)
    if isinstance(value, Decimal):
        digits = format(value, "f")
        return Real(digits) if "." in digits else Integer(digits)
    if isinstance(value, float):
        text = repr(value)
        constants = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
        return Constant(constants[text]) if text in constants else Real(text)
    return [_as_json(item) for item in value]
