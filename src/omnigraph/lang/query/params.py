"""Parameters from a caller: plain Python or JSON values to stored constants, or all complaints.

The rules are those of a required or nullable declaration, with nothing ignored: a name that the
query does not declare is an error, and so is a value that would not survive storing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime

from omnigraph.errors import Code, InvalidInput, JsonValue
from omnigraph.lang.ir.expr import ConstValue
from omnigraph.lang.ir.ops import ParamSpec
from omnigraph.lang.source import did_you_mean
from omnigraph.lang.values import (
    F32_MAX,
    FLOATS,
    INT_RANGES,
    Base,
    ValueType,
    parse_date,
    parse_datetime,
    to_f32,
)

_INT_CHARS_MAX = 21
_MISSING = object()


def bind(specs: Iterable[ParamSpec], given: Mapping[str, object]) -> dict[str, ConstValue]:
    """The value of every declared parameter; raises one `InvalidInput` with all problems."""
    _check_named(given)
    declared = {spec.name: spec.type for spec in specs}
    problems: list[tuple[str, str]] = []
    bound: dict[str, ConstValue] = {}
    for name, kind in declared.items():
        value = given.get(name, _MISSING)
        try:
            bound[name] = _bind_one(value, kind)
        except _Unfit as problem:
            problems.append((name, f"parameter `${name}`: {problem}"))
    for name in given:
        if name not in declared:
            hint = did_you_mean(str(name), declared)
            tail = f"; {hint}" if hint else ""
            problems.append((str(name), f"the query declares no parameter `${name}`{tail}"))
    if problems:
        plain: list[JsonValue] = [{"param": name, "message": text} for name, text in problems]
        text = "\n".join(text for _, text in problems)
        raise InvalidInput(Code.PARAMS_INVALID, text, problems=plain)
    return bound


def _check_named(given: object) -> None:
    if not isinstance(given, Mapping):
        text = f"parameters are given by name, as a dictionary, not as {_name(given)}"
        raise InvalidInput(Code.PARAMS_INVALID, text)


class _Unfit(Exception):
    """Raised when a value does not fit its declaration; says why."""


def _bind_one(value: object, kind: ValueType) -> ConstValue:
    if value is _MISSING:
        if kind.nullable:
            return None
        raise _Unfit(f"no value was given, {kind} is required")
    if value is None:
        if kind.nullable:
            return None
        raise _Unfit(f"null was given, {kind} is required")
    if kind.base is Base.VECTOR:
        return _vector(value, kind)
    if kind.is_list:
        element = kind.element()
        return tuple(_bind_one(item, element) for item in _sequence(value, kind))
    return _scalar(value, kind)


def _sequence(value: object, kind: ValueType) -> list[object]:
    if isinstance(value, list | tuple):
        return list(value)
    # numpy arrays and similar know how to become lists; the base install does not need them.
    to_list = getattr(value, "tolist", None)
    items = to_list() if callable(to_list) else None
    if isinstance(items, list):
        return items
    raise _Unfit(f"expected {kind.required()}, got {_name(value)}")


def _vector(value: object, kind: ValueType) -> ConstValue:
    items = _sequence(value, kind)
    if len(items) != kind.dim:
        raise _Unfit(f"expected {kind.required()}, got {len(items)} numbers")
    element = ValueType(Base.F32)
    return tuple(_number(item, element) for item in items)


def _scalar(value: object, kind: ValueType) -> ConstValue:
    base = kind.base
    if base in INT_RANGES:
        return _integer(value, kind)
    if base in FLOATS:
        return _number(value, kind)
    if base is Base.BOOL and isinstance(value, bool):
        return value
    if base in (Base.STRING, Base.BLOB) and isinstance(value, str):
        return _text(value)
    if base is Base.DATE:
        return _date(value, kind)
    if base is Base.DATETIME:
        return _datetime(value, kind)
    raise _Unfit(f"expected {kind.required()}, got {_name(value)}")


def _text(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise _Unfit("the text is not valid Unicode") from error
    return value


def _integer(value: object, kind: ValueType) -> int:
    if isinstance(value, str) and kind.base in (Base.I64, Base.U64):
        # 64-bit integers may come as text, because JSON numbers lose them in many clients.
        digits = value.removeprefix("-")
        if len(value) <= _INT_CHARS_MAX and digits.isascii() and digits.isdigit():
            value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise _Unfit(f"expected {kind.required()}, got {_name(value)}")
    low, high = INT_RANGES[kind.base]
    if not low <= value <= high:
        raise _Unfit(f"the value is out of the range of {kind.base}")
    return value


def _number(value: object, kind: ValueType) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _Unfit(f"expected {kind.required()}, got {_name(value)}")
    try:
        number = float(value)
    except OverflowError as error:
        raise _Unfit(f"the value is out of the range of {kind.base}") from error
    if not math.isfinite(number):
        raise _Unfit("the number is not finite")
    if kind.base is not Base.F32:
        return number
    if abs(number) > F32_MAX:
        raise _Unfit("the value is out of the range of F32")
    return to_f32(number)


def _date(value: object, kind: ValueType) -> int:
    days: int | None = None
    if isinstance(value, str):
        days = parse_date(value)
    elif isinstance(value, date) and not isinstance(value, datetime):
        days = parse_date(value.isoformat())
    if days is None:
        raise _Unfit(f'expected {kind.required()} like "2024-03-31", got {_name(value)}')
    return days


def _datetime(value: object, kind: ValueType) -> int:
    millis: int | None = None
    if isinstance(value, str):
        millis = parse_datetime(value)
    elif isinstance(value, datetime):
        aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        millis = parse_datetime(aware.astimezone(UTC).isoformat())
    if millis is None:
        raise _Unfit(f'expected {kind.required()} like "2024-03-31T12:00:00Z", got {_name(value)}')
    return millis


def _name(value: object) -> str:
    """A value in an error text: its type, and the value itself when it is short."""
    shown = repr(value) if isinstance(value, str | int | float | bool) else ""
    kind = type(value).__name__
    return f"{kind} {shown}" if shown and len(shown) <= 40 else kind
