"""Assigned values in the form in which their columns store them."""

from __future__ import annotations

import base64
import binascii
from typing import Final, TypeAlias

from omnigraph.errors import Code, InvalidInput
from omnigraph.exec.evaluate import EvalContext, constant
from omnigraph.lang.ir.expr import Column, ConstValue
from omnigraph.lang.ir.ops import Assign
from omnigraph.lang.values import F32_MAX, FLOATS, INT_RANGES, Base, ValueType, to_f32

Stored: TypeAlias = "ConstValue | bytes"

_BASE64: Final = "base64:"


def given(assign: Assign, context: EvalContext) -> Stored:
    """The value of an assignment; its width is known only now.

    Raises:
        InvalidInput: The column cannot hold the value.
    """
    value = constant(assign.value, context)
    return stored(assign.column, value)


def stored(column: Column, value: ConstValue) -> Stored:
    """A value as a column stores it."""
    kind = column.type
    if value is None:
        return None
    if kind.base is Base.BLOB:
        return _blob(column, value)
    if isinstance(value, tuple):
        # A vector parameter is checked when it is bound; a list may be one of narrower numbers.
        element = ValueType(Base.F32) if kind.base is Base.VECTOR else kind.element()
        return tuple(_scalar(column, element, item) for item in value)
    return _scalar(column, kind, value)


def _scalar(column: Column, kind: ValueType, value: ConstValue) -> ConstValue:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    if kind.base in INT_RANGES:
        low, high = INT_RANGES[kind.base]
        if not low <= value <= high:
            raise _unfit(column, f"{value} is out of its range")
        return int(value)
    if kind.base not in FLOATS:
        return value
    number = float(value)
    if kind.base is not Base.F32:
        return number
    if abs(number) > F32_MAX:
        raise _unfit(column, f"{value} is out of its range")
    return to_f32(number)


def _blob(column: Column, value: ConstValue) -> bytes:
    if not isinstance(value, str) or not value.startswith(_BASE64):
        raise _unfit(column, f"give its bytes as text, `{_BASE64}` followed by their encoding")
    try:
        return base64.b64decode(value.removeprefix(_BASE64), validate=True)
    except (binascii.Error, ValueError) as error:
        raise _unfit(column, f"what follows `{_BASE64}` is not Base64") from error


def _unfit(column: Column, text: str) -> InvalidInput:
    kind = column.type.required()
    return InvalidInput(
        Code.PARAMS_INVALID, f"`{column.name}` is {kind}: {text}", property=column.name
    )
