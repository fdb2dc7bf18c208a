"""The rules for declarations, which the checker explains and the decoder enforces."""

from __future__ import annotations

import math
import re
from typing import Final

from omnigraph.lang.catalog.model import Range
from omnigraph.lang.literal import Literal
from omnigraph.lang.values import (
    F32_MAX,
    INTEGERS,
    NUMERIC,
    SCALARS,
    VECTOR_DIM_MAX,
    Base,
    ValueType,
    to_f32,
)

TYPE_NAME: Final = re.compile(r"[A-Z][A-Za-z0-9_]*")
PROPERTY_NAME: Final = re.compile(r"[a-z_][A-Za-z0-9_]*")
ENUM_VALUE: Final = re.compile(r"[A-Za-z0-9_-]+")
BUILT_IN: Final = frozenset({*SCALARS, Base.VECTOR.value})
CARD_MAX: Final = 2**32 - 1

# Names that a property cannot have, because an entity has them already.
ID_NAME: Final = "id"
END_NAMES: Final = frozenset({"src", "dst", "from", "to"})
STORAGE_NAMES: Final = frozenset(
    {
        "_rowid",
        "_rowaddr",
        "_rowoffset",
        "_row_created_at_version",
        "_row_last_updated_at_version",
    }
)


# -- types -----------------------------------------------------------------------------------------


def is_dimension(dim: int) -> bool:
    """True if a vector can have this many elements."""
    return 0 < dim <= VECTOR_DIM_MAX


def is_element(of_type: ValueType) -> bool:
    """True if a list can hold values of this type."""
    return of_type.is_scalar and not of_type.enum


def is_key_part(of_type: ValueType) -> bool:
    """True if a property of this type can be part of a key, apart from being nullable."""
    return of_type.is_scalar


def is_unique_part(of_type: ValueType, *, forgive_blob: bool) -> bool:
    """True if a property can be part of a @unique. Early graphs could declare one over a Blob."""
    return of_type.is_scalar or (forgive_blob and of_type.base is Base.BLOB)


def is_indexable(of_type: ValueType) -> bool:
    """True if a property can be indexed: a list or Blob cannot, a vector has its own kind."""
    return not of_type.is_list and of_type.base is not Base.BLOB


def is_number(of_type: ValueType) -> bool:
    """True if a property can have a @range."""
    return of_type.base in NUMERIC and not of_type.is_list


def is_text(of_type: ValueType) -> bool:
    """True if a property can have a @check, or be embedded."""
    return of_type.base is Base.STRING and not of_type.is_list


# -- values ----------------------------------------------------------------------------------------


def bound(value: int | float | None, base: Base, *, up: bool) -> int | float | None:
    """A bound of a @range in the kind of its property: an I32 above 0.5 is an I32 from 1 on."""
    if value is None:
        return None
    if base in INTEGERS:
        return math.ceil(value) if up else math.floor(value)
    number = float(value) + 0.0  # there is one zero: equal catalogs must have equal texts
    return to_f32(number) if base is Base.F32 and abs(number) <= F32_MAX else number


def is_empty(low: int | float | None, high: int | float | None) -> bool:
    """True if no number lies between two bounds."""
    return low is not None and high is not None and low > high


def excludes(bounds: Range, default: Literal | None) -> bool:
    """True if a @range excludes a default."""
    value = default.value if default is not None else None
    if not isinstance(value, int | float):
        return False
    return is_empty(bounds.low, value) or is_empty(value, bounds.high)
