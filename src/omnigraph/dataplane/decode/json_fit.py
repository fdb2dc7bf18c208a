"""Checks one JSON value against a type, with the reason if it is none of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from omnigraph.dataplane.decode.convert import BLOB_PREFIX, parse_blob, parse_f32s
from omnigraph.dataplane.decode.json_line import Constant, Integer, Json, Number
from omnigraph.errors import JsonValue
from omnigraph.lang.ir.expr import ConstValue
from omnigraph.lang.values import (
    FLOATS,
    INT_RANGES,
    INTEGERS,
    TEMPORAL,
    Base,
    ValueType,
    parse_date,
    parse_datetime,
)
from omnigraph.rules.report import quoted
from omnigraph.rules.violation import Rule

Stored: TypeAlias = "ConstValue | bytes"

_TEXT_CHARS_MAX = 200
_NUMBER_CHARS_MAX = 60
_DIGITS_MAX = 20  # of an integer that any type can hold, with its sign


@dataclass(frozen=True, slots=True)
class Misfit:
    """The reason why a value is none of its type. Of a list, `value` is the faulty element."""

    rule: Rule
    words: str
    value: JsonValue


def fit(value: Json, kind: ValueType) -> Stored | Misfit:
    """The value as its column stores it, or the reason why it cannot be stored.

    Null fits always, also as an element of a list: whether there must be a value is a rule of rows.
    """
    if value is None:
        return None
    if kind.base is Base.VECTOR:
        return _vector(value, kind)
    if not kind.is_list:
        return _scalar(value, kind)
    if not isinstance(value, list):
        return _mismatch(value, kind)
    items: list[ConstValue] = []
    element = kind.element()
    for item in value:
        found = None if item is None else _scalar(item, element)
        if isinstance(found, Misfit):
            return Misfit(found.rule, f"in the list: {found.words}", found.value)
        assert not isinstance(found, bytes)
        items.append(found)
    return tuple(items)


def _vector(value: Json, kind: ValueType) -> Stored | Misfit:
    if not isinstance(value, list):
        return _mismatch(value, kind)
    if len(value) != kind.dim:
        words = f"expected {kind.required()}, got a vector of {len(value)}"
        return Misfit(Rule.VECTOR_LENGTH, words, len(value))
    for item in value:
        if isinstance(item, Constant):
            return _not_finite(item)
        if not isinstance(item, Number):
            words = f"a vector has numbers only, got {described(item)}"
            return Misfit(Rule.TYPE, words, shown(item))
    numbers = parse_f32s(value)
    for item, number in zip(value, numbers, strict=True):
        if not math.isfinite(number):
            return _out_of_range(item, Base.F32)
    return tuple(numbers)


def _scalar(value: Json, kind: ValueType) -> Stored | Misfit:
    base = kind.base
    if base in INTEGERS:
        return _integer(value, kind, base)
    if base in FLOATS:
        return _float(value, kind)
    if base in TEMPORAL:
        return _temporal(value, kind)
    if base is Base.BOOL:
        return value if isinstance(value, bool) else _mismatch(value, kind)
    if type(value) is not str:
        return _mismatch(value, kind)
    if not is_unicode(value):
        return Misfit(Rule.TYPE, f"{quoted(value)} has half of a surrogate pair", shown(value))
    if base is not Base.BLOB:
        return value
    data = parse_blob(value)
    if data is None:
        words = f"give its bytes as text, `{BLOB_PREFIX}` followed by their encoding"
        return Misfit(Rule.TYPE, f"{quoted(value)} is no Blob: {words}", shown(value))
    return data


def _integer(value: Json, kind: ValueType, base: Base) -> int | Misfit:
    if not isinstance(value, Integer):
        return _mismatch(value, kind)
    low, high = INT_RANGES[base]
    if len(value) <= _DIGITS_MAX and low <= int(value) <= high:
        return int(value)
    return _out_of_range(value, base)


def _float(value: Json, kind: ValueType) -> float | Misfit:
    if isinstance(value, Constant):
        return _not_finite(value)
    if not isinstance(value, Number):
        return _mismatch(value, kind)
    number = parse_f32s([value])[0] if kind.base is Base.F32 else float(value)
    return number if math.isfinite(number) else _out_of_range(value, kind.base)


def _temporal(value: Json, kind: ValueType) -> int | Misfit:
    is_date = kind.base is Base.DATE
    if isinstance(value, Integer):
        # Whether a number has a year that can be written down is a rule of rows.
        number = _integer(value, kind, Base.I32 if is_date else Base.I64)
        if isinstance(number, int):
            return number
        unit = "days" if is_date else "milliseconds"
        words = f"{unit} since 1970 are beyond the years 1 to 9999"
        return Misfit(Rule.TYPE, f"{described(value)} {words}", shown(value))
    if type(value) is not str:
        return _mismatch(value, kind)
    found = parse_date(value) if is_date else parse_datetime(value)
    return _mismatch(value, kind) if found is None else found


def _mismatch(value: Json, kind: ValueType) -> Misfit:
    words = "text" if kind.enum else str(kind.required())
    return Misfit(Rule.TYPE, f"expected {words}, got {described(value)}", shown(value))


def _out_of_range(value: Json, base: Base) -> Misfit:
    return Misfit(Rule.TYPE, f"{described(value)} is out of range of {base}", shown(value))


def _not_finite(value: Constant) -> Misfit:
    return Misfit(Rule.FINITE, f"{value} is not a finite number", shown(value))


# -- values in words -------------------------------------------------------------------------------


def described(value: Json) -> str:
    """A value inside a message."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Number | Constant):
        return value if len(value) <= _NUMBER_CHARS_MAX else value[:_NUMBER_CHARS_MAX] + "…"
    if isinstance(value, str):
        return f"text {quoted(value)}"
    return "an object" if isinstance(value, Mapping) else "a list"


def shown(value: Json) -> JsonValue:
    """A value as a violation carries it: as it is, if that is short."""
    if isinstance(value, Integer) and len(value) <= _DIGITS_MAX:
        return int(value)
    if (
        isinstance(value, Number)
        and len(value) <= _NUMBER_CHARS_MAX
        and math.isfinite(float(value))
    ):
        return float(value)
    if isinstance(value, str):
        return clean(value if len(value) <= _TEXT_CHARS_MAX else value[:_TEXT_CHARS_MAX] + "…")
    if value is None or isinstance(value, bool):
        return value
    return described(value)


def is_unicode(text: str) -> bool:
    """True if a text can be encoded; JSON can spell halves of a surrogate pair, which cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def clean(text: str) -> str:
    """A text that can be written down, and is a plain one."""
    return text.encode(errors="replace").decode()
