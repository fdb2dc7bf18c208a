"""Columns of texts, as CSV has them, turned into columns as tables store them."""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.core.schema.arrow_types import arrow_type
from omnigraph.dataplane.decode.convert import ConversionFailed, blobs, dates, datetimes
from omnigraph.dataplane.decode.json_fit import Misfit, described, fit, shown
from omnigraph.dataplane.decode.json_line import Integer, Json, MalformedJson, Real, read_line
from omnigraph.dataplane.decode.tabular import Spelling
from omnigraph.dataplane.decode.tabular_columns import CellFault, Converted, as_texts
from omnigraph.errors import JsonValue
from omnigraph.lang.values import FLOATS, INTEGERS, TEMPORAL, Base, ValueType
from omnigraph.rules.violation import Rule

_INTEGER: Final = r"^-?[0-9]+$"
_REAL: Final = r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$"
_IS_INTEGER: Final = re.compile(_INTEGER[1:-1])
_IS_REAL: Final = re.compile(_REAL[1:-1])
# Not only as JSON writes them: what else writes CSV has its own way with capitals.
_BOOLEANS: Final = {"true": True, "false": False}


def convert_texts(column: pa.Array, kind: ValueType) -> Converted:
    """Turn texts into the stored type of a property; nulls stay."""
    texts = as_texts(column)
    if kind.base is Base.STRING and not kind.is_list:
        return texts
    if texts.faults:
        found = _one_by_one(texts.values, kind)
        return Converted(found.values, (*found.faults, *texts.faults))
    if texts.values.null_count == len(texts.values):
        return Converted(pa.nulls(len(texts.values), arrow_type(kind)))
    try:
        return Converted(_all_at_once(texts.values, kind))
    except (ConversionFailed, pa.ArrowInvalid):
        return _one_by_one(texts.values, kind)


def reason_of_text(column: pa.Array, row: int, kind: ValueType) -> tuple[JsonValue, str]:
    """A text that is none of a type as a report can carry it, and why it is none."""
    try:
        text: str = column[row].as_py()
    except UnicodeDecodeError:
        return None, "the text is not UTF-8"
    found = _fitted(text, kind)
    if isinstance(found, Misfit):
        return found.value, found.words
    return shown(text), f"expected {kind.required()}, got {described(text)}"


TEXTS: Final = Spelling(convert_texts, reason_of_text)


def _all_at_once(texts: pa.Array, kind: ValueType) -> pa.Array:
    """Converts a whole column; raises if some text has another spelling."""
    base = kind.base
    if kind.is_list or base is Base.VECTOR:
        raise ConversionFailed
    if base is Base.BOOL:
        lowered = pc.utf8_lower(texts)
        if not pc.all(pc.is_in(lowered.drop_null(), pa.array(list(_BOOLEANS)))).as_py():
            raise ConversionFailed
        return pc.equal(lowered, "true")
    if base is Base.DATE:
        return dates(texts)
    if base is Base.DATETIME:
        return datetimes(texts)
    if base is Base.BLOB:
        return blobs(texts)
    # Arrow also takes hexadecimal, `inf`, `nan` and surrounding space.
    form = _INTEGER if base in INTEGERS else _REAL
    if not pc.all(pc.match_substring_regex(texts, form)).as_py():
        raise ConversionFailed
    found = texts.cast(arrow_type(kind))
    if base in FLOATS and not pc.all(pc.is_finite(found)).as_py():
        raise ConversionFailed
    return found


def _one_by_one(texts: pa.Array, kind: ValueType) -> Converted:
    values: list[Any] = []
    bad: dict[Rule, list[int]] = {}
    for row, text in enumerate(texts.to_pylist()):
        found = None if text is None else _fitted(text, kind)
        if isinstance(found, Misfit):
            bad.setdefault(found.rule, []).append(row)
            found = None
        values.append(found)
    faults = tuple(CellFault(rule, np.array(rows, np.int64)) for rule, rows in bad.items())
    return Converted(pa.array(values, arrow_type(kind)), faults)


def _fitted(text: str, kind: ValueType) -> Any:
    try:
        return fit(_as_json(text, kind), kind)
    except MalformedJson as error:
        words = f"expected {kind.required()} as JSON, got text that is {error}"
        return Misfit(Rule.TYPE, words, shown(text))


def _as_json(text: str, kind: ValueType) -> Json:
    """A text as the JSON value of a type."""
    base = kind.base
    if kind.is_list or base is Base.VECTOR:
        return read_line(text.encode())
    if base is Base.BOOL:
        return _BOOLEANS.get(text.lower(), text)
    if base in INTEGERS | FLOATS | TEMPORAL and _IS_INTEGER.fullmatch(text):
        return Integer(text)
    if base in INTEGERS | FLOATS and _IS_REAL.fullmatch(text):
        return Real(text)
    return text
