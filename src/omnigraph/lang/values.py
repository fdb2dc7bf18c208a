"""The value types of a property, a parameter or a result column, and how values are spelled.

Values inside the compiler are plain Python: a Date is its number of days and a DateTime its
number of milliseconds since 1970-01-01 (UTC), the same as on disk.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum

_EPOCH_DAY = date(1970, 1, 1).toordinal()
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
# What can be written with a year of four digits.
DAYS = range(date.min.toordinal() - _EPOCH_DAY, date.max.toordinal() - _EPOCH_DAY + 1)
MILLIS = range(DAYS.start * 86_400_000, DAYS.stop * 86_400_000)
VECTOR_DIM_MAX = 2**31 - 1


class Base(StrEnum):
    """The base of a value type, apart from lists, enums and nullability."""

    STRING = "String"
    BOOL = "Bool"
    I32 = "I32"
    I64 = "I64"
    U32 = "U32"
    U64 = "U64"
    F32 = "F32"
    F64 = "F64"
    DATE = "Date"
    DATETIME = "DateTime"
    BLOB = "Blob"
    VECTOR = "Vector"  # always with a dimension
    ENTITY = "Entity"  # a whole node or edge as a result value; never declared by a user


SCALARS: dict[str, Base] = {
    base.value: base for base in Base if base not in (Base.VECTOR, Base.ENTITY)
}
INTEGERS = frozenset({Base.I32, Base.I64, Base.U32, Base.U64})
FLOATS = frozenset({Base.F32, Base.F64})
NUMERIC = INTEGERS | FLOATS
TEMPORAL = frozenset({Base.DATE, Base.DATETIME})
ORDERED = NUMERIC | TEMPORAL | {Base.STRING, Base.BOOL}

INT_RANGES: dict[Base, tuple[int, int]] = {
    Base.I32: (-(2**31), 2**31 - 1),
    Base.I64: (-(2**63), 2**63 - 1),
    Base.U32: (0, 2**32 - 1),
    Base.U64: (0, 2**64 - 1),
}
F32_MAX = 3.4028234663852886e38
_F32 = struct.Struct("<f")


def to_f32(number: float) -> float:
    """The nearest number that an F32 can store; the magnitude is at most `F32_MAX`."""
    (stored,) = _F32.unpack(_F32.pack(number))
    return float(stored)


@dataclass(frozen=True, slots=True)
class ValueType:
    """A complete value type. An enum is a String with its sorted values in `enum`."""

    base: Base
    nullable: bool = False
    is_list: bool = False
    dim: int = 0
    enum: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The type as it is written in a schema."""
        if self.enum:
            text = f"enum({', '.join(self.enum)})"
        elif self.base is Base.VECTOR:
            text = f"Vector({self.dim})"
        else:
            text = self.base.value
        if self.is_list:
            text = f"[{text}]"
        return text + "?" if self.nullable else text

    @property
    def is_scalar(self) -> bool:
        """True for one plain value: no list, Vector, Blob or entity."""
        return not self.is_list and self.base in ORDERED

    def required(self) -> ValueType:
        """The same type without null."""
        return replace(self, nullable=False) if self.nullable else self

    def optional(self) -> ValueType:
        """The same type with null."""
        return self if self.nullable else replace(self, nullable=True)

    def element(self) -> ValueType:
        """The type of one element of this list."""
        return ValueType(self.base, enum=self.enum)


_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_DATETIME = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ]([0-9]{2}:[0-9]{2})(:[0-9]{2})?(\.[0-9]{1,9})?"
    r"([Zz]|[+-][0-9]{2}:?[0-9]{2})?"
)


def parse_date(text: str) -> int | None:
    """Days since the epoch of `YYYY-MM-DD`, or None when it is no date."""
    if not _DATE.fullmatch(text):
        return None
    try:
        return date.fromisoformat(text).toordinal() - _EPOCH_DAY
    except ValueError:
        return None


def parse_datetime(text: str) -> int | None:
    """Milliseconds since the epoch of an ISO date-time, or None when it is none.

    A text without an offset is UTC; digits below a millisecond are cut off.
    """
    match = _DATETIME.fullmatch(text)
    if match is None:
        return None
    day, minutes, seconds, fraction, zone = match.groups()
    micros = (fraction or ".0")[1:7].ljust(6, "0")
    zone = "+00:00" if zone is None or zone in "Zz" else zone
    try:
        moment = datetime.fromisoformat(f"{day}T{minutes}{seconds or ':00'}.{micros}{zone}")
        # In UTC it must still be a year that can be written down.
        return (moment.astimezone(UTC) - _EPOCH) // _MILLISECOND
    except (ValueError, OverflowError):
        return None


def format_date(days: int) -> str:
    """`YYYY-MM-DD` of a day number."""
    return date.fromordinal(days + _EPOCH_DAY).isoformat()


def format_datetime(millis: int) -> str:
    """`YYYY-MM-DDTHH:MM:SS.mmmZ` of a millisecond number."""
    moment = (_EPOCH + timedelta(milliseconds=millis)).replace(tzinfo=None)
    return moment.isoformat(timespec="milliseconds") + "Z"
