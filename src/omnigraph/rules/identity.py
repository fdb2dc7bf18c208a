"""Canonical ids of entities, made from their keys.

The id of a keyed entity is text that depends on the stored values of its key alone. A key of one
column gives the canonical text of its value; a key of several gives the JSON array of the
canonical texts, in the order of the key's columns, which renames cannot change.

The canonical text of an integer is decimal, of a Bool `true` or `false`, of a Date its day number,
of a DateTime its number of milliseconds. A float has the fewest digits that read back as the same
stored number, written without an exponent; both zeros are `0`. Texts stay as they are.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import Code, InvalidInput
from omnigraph.lang.catalog.identity import ENDS
from omnigraph.lang.catalog.model import EntityType
from omnigraph.lang.ir.expr import ConstValue
from omnigraph.lang.values import FLOATS, Base, ValueType, to_f32

_END_TYPE = ValueType(Base.STRING)
_F32_DIGITS_MAX = 9
_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
# What the text of a JSON string cannot hold as it is.
_ESCAPED = r'["\\\x00-\x1f]'


def scalar_id(value: ConstValue, kind: ValueType) -> str:
    """The canonical text of one stored value.

    Raises:
        InvalidInput: The value is missing or not finite, so it identifies nothing.
    """
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, tuple):
        raise InvalidInput(Code.INPUT_INVALID, f"a key needs a value of {kind}, got {value!r}")
    if kind.base is Base.BOOL:
        return "true" if value else "false"
    if kind.base in FLOATS:
        return _float_id(float(value), kind.base)
    return str(int(value))


def entity_id(entity: EntityType, values: Mapping[str, ConstValue]) -> str:
    """The id that the key values of an entity give it; the type must have a key.

    Raises:
        InvalidInput: A part of the key is missing or not finite.
    """
    parts = [scalar_id(values.get(name), _key_type(entity, name)) for name in entity.key]
    return parts[0] if len(parts) == 1 else _JSON.encode(parts)


def entity_ids(
    entity: EntityType, columns: Mapping[str, pa.Array | pa.ChunkedArray]
) -> pa.StringArray:
    """The id of every row; null where a part of the key is missing or not finite."""
    parts = [_texts(columns[name], _key_type(entity, name)) for name in entity.key]
    if len(parts) == 1:
        return parts[0]
    quoted: list[pa.Array | str] = []
    for number, part in enumerate(parts):
        quoted += ['","' if number else '["', _escape(part)]
    return pc.binary_join_element_wise(*quoted, '"]', "")


def _key_type(entity: EntityType, name: str) -> ValueType:
    item = entity.property_by_name.get(name)
    if item is None and name in ENDS:
        return _END_TYPE
    return entity.property_by_name[name].type


def _float_id(number: float, base: Base) -> str:
    if not math.isfinite(number):
        raise InvalidInput(Code.INPUT_INVALID, f"{number} cannot be part of a key")
    if number == 0:
        return "0"
    digits = repr(number) if base is Base.F64 else _f32_digits(number)
    # Fixed notation: one spelling per number, and none that a user would not write.
    text = format(Decimal(digits), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _f32_digits(number: float) -> str:
    stored = to_f32(number)
    for count in range(_F32_DIGITS_MAX - 1):
        digits = f"{stored:.{count}e}"
        if _reads_back(digits, stored):
            return digits
    return f"{stored:.{_F32_DIGITS_MAX - 1}e}"


def _reads_back(digits: str, stored: float) -> bool:
    try:
        return to_f32(float(digits)) == stored
    except OverflowError:  # rounded up beyond the largest F32
        return False


def _texts(column: pa.Array | pa.ChunkedArray, kind: ValueType) -> pa.StringArray:
    """The canonical text of each value of a column, null for those that have none."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if kind.base is Base.DATE:
        array = array.cast(pa.date32()).cast(pa.int32())
    elif kind.base is Base.DATETIME:
        array = array.cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
    elif kind.base in FLOATS:
        return _float_texts(array, kind.base)
    return array.cast(pa.string())


def _float_texts(array: pa.Array, base: Base) -> pa.StringArray:
    texts = [
        _float_id(number, base) if number is not None and math.isfinite(number) else None
        for number in array.to_pylist()
    ]
    return pa.array(texts, pa.string())


def _escape(texts: pa.StringArray) -> pa.StringArray:
    """The texts as they stand between the quotes of JSON strings."""
    special = pc.match_substring_regex(texts, _ESCAPED)
    if not pc.any(special).as_py():
        return texts
    changed = texts.filter(special).to_pylist()
    escaped = pa.array([_JSON.encode(text)[1:-1] for text in changed], pa.string())
    return pc.replace_with_mask(texts, special, escaped)
