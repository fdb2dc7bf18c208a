"""Row rules: what can be judged by looking at one entity alone.

Columns have the Arrow types that are stored. A column that the rows do not have is not part of
the change, so it is not judged; a new entity comes with all of its columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import Code, InvalidInput, JsonValue
from omnigraph.lang.catalog.identity import ENDS
from omnigraph.lang.catalog.model import Check, EntityType, NodeType, Property, Range
from omnigraph.lang.catalog.rules import ID_NAME
from omnigraph.lang.fit import enum_problem
from omnigraph.lang.values import DAYS, FLOATS, INT_RANGES, MILLIS, TEMPORAL, Base, ValueType
from omnigraph.rules.report import (
    Positions,
    Reporter,
    joined,
    places,
    plain_value,
    plain_values,
    quoted,
)
from omnigraph.rules.violation import Origin, Rule, Violations


def judge_rows(
    entity: EntityType,
    rows: pa.Table,
    out: Violations,
    origin: Origin | None = None,
    *,
    ids: pa.Array | None = None,
) -> None:
    """Judge every row of a type by the rules about single rows.

    Args:
        entity: The type of the rows.
        rows: New images of entities, with their `id` where they have one already.
        out: Takes the violations.
        origin: The file and line of a row, given its number.
        ids: What to call the entities, instead of their `id`.
    """
    first = 0
    for batch in rows.to_batches():
        names = set(batch.schema.names)
        if ids is not None:
            known = ids.slice(first, batch.num_rows)
        elif ID_NAME in names:
            known = batch.column(ID_NAME)
        else:
            known = pa.nulls(batch.num_rows, pa.string())
        report = Reporter(entity, known, out, origin, first)
        _judge_fixed(batch, names, report)
        for item in entity.properties:
            if item.name in names:
                _judge_property(item, joined(batch.column(item.name)), report)
        if isinstance(entity, NodeType):
            _judge_constraints(entity, batch, names, report)
        first += batch.num_rows


def _judge_fixed(batch: pa.RecordBatch, names: set[str], report: Reporter) -> None:
    """The columns that every entity has. The id of a keyed one is judged through its key."""
    fixed = ENDS if report.entity.kind == "edge" else ()
    for name in fixed if report.entity.key else (ID_NAME, *fixed):
        if name in names:
            _judge_required(name, batch.column(name), report)


def _judge_property(item: Property, column: pa.Array, report: Reporter) -> None:
    if not item.type.nullable:
        _judge_required(item.name, column, report)
    if item.type.base is Base.BLOB or column.null_count == len(column):
        return
    cells = _Cells(item, item.type, column)
    if item.type.base is Base.VECTOR or item.type.is_list:
        is_vector = item.type.base is Base.VECTOR
        kind = ValueType(Base.F32) if is_vector else item.type.element()
        cells = _Cells(item, kind, column.flatten(), column)
        if is_vector:
            _judge_length(item, column, report)
        _judge_missing_elements(cells, report)
    if item.type.enum:
        _judge_enum(cells, report)
    if cells.kind.base in FLOATS:
        _judge_finite(cells, report)
    if cells.kind.base in TEMPORAL:
        _judge_year(cells, report)


def _judge_constraints(
    entity: NodeType, batch: pa.RecordBatch, names: set[str], report: Reporter
) -> None:
    def cells(name: str) -> _Cells | None:
        item = entity.property_by_name[name]
        column = joined(batch.column(name)) if name in names else None
        if column is None or column.null_count == len(column):
            return None
        return _Cells(item, item.type, column)

    for bounds in entity.ranges:
        if (found := cells(bounds.property)) is not None:
            _judge_range(bounds, found, report)
    for check in entity.checks:
        if (found := cells(check.property)) is not None:
            _judge_check(check, found, report)


@dataclass(frozen=True, slots=True)
class _Cells:
    """The scalars of a property: its values, or the elements of its lists one after the other."""

    item: Property
    kind: ValueType
    values: pa.Array
    lists: pa.Array | None = None  # the lists, when the values are their elements

    def report(
        self,
        rule: Rule,
        mask: pa.BooleanArray,
        words: Callable[[JsonValue], str],
        report: Reporter,
    ) -> None:
        """Report where a mask is true, once per row, with the first such value of the row."""
        found = places(mask)
        if not len(found):
            return
        rows = found
        if self.lists is not None:
            rows, firsts = np.unique(_owners(self.lists, found), return_index=True)
            found = found[firsts]

        def describe(chosen: Positions, names: list[str]) -> Iterator[tuple[JsonValue, str]]:
            values = plain_values(self.values.take(pa.array(found[chosen])), self.kind)
            return _messages(self.item.name, values, names, words, report)

        report.rows(rule, rows, (self.item.name,), describe)


def _messages(
    property_name: str,
    values: Iterable[JsonValue],
    names: Iterable[str],
    words: Callable[[JsonValue], str],
    report: Reporter,
) -> Iterator[tuple[JsonValue, str]]:
    label = f"{report.entity.name}.{property_name}"
    for value, name in zip(values, names, strict=True):
        yield value, f"{label} of {name}: {words(value)}"


def _owners(lists: pa.Array, elements: Positions) -> Positions:
    """The rows of lists that hold elements, given their places in the flattened lists."""
    lengths = pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False)
    return np.searchsorted(np.cumsum(lengths, dtype=np.int64), elements, side="right")


# -- the rules -------------------------------------------------------------------------------------


def _judge_required(name: str, column: pa.Array, report: Reporter) -> None:
    if not column.null_count:
        return

    def describe(chosen: Positions, names: list[str]) -> Iterator[tuple[JsonValue, str]]:
        values: list[JsonValue] = [None] * len(chosen)
        return _messages(name, values, names, lambda _: "a value is required", report)

    report.rows(Rule.REQUIRED, places(column.is_null()), (name,), describe)


def _judge_missing_elements(cells: _Cells, report: Reporter) -> None:
    if cells.values.null_count:
        missing = cells.values.is_null()
        cells.report(Rule.REQUIRED, missing, lambda _: "an element is missing", report)


def _judge_length(item: Property, column: pa.Array, report: Reporter) -> None:
    if pa.types.is_fixed_size_list(column.type) and column.type.list_size == item.type.dim:
        return
    lengths = pc.list_value_length(column)
    rows = places(pc.not_equal(lengths, item.type.dim))

    def describe(chosen: Positions, names: list[str]) -> Iterator[tuple[JsonValue, str]]:
        counts = lengths.take(pa.array(rows[chosen])).to_pylist()
        words = f"expected {item.type}, got a vector of "
        return _messages(item.name, counts, names, lambda count: f"{words}{count}", report)

    report.rows(Rule.VECTOR_LENGTH, rows, (item.name,), describe)


def _judge_enum(cells: _Cells, report: Reporter) -> None:
    allowed = cells.item.type.enum
    known = pc.is_in(cells.values, value_set=pa.array(allowed, cells.values.type))
    strange = pc.and_(pc.invert(known), cells.values.is_valid())
    cells.report(Rule.ENUM, strange, lambda value: enum_problem(str(value), allowed), report)


def _judge_finite(cells: _Cells, report: Reporter) -> None:
    strange = pc.invert(pc.is_finite(cells.values))
    cells.report(Rule.FINITE, strange, lambda value: f"{value} is not a finite number", report)


def _judge_year(cells: _Cells, report: Reporter) -> None:
    """A moment must have a year that can be written down."""
    if cells.kind.base is Base.DATE:
        numbers, known = cells.values.cast(pa.int32()), DAYS
    else:
        numbers, known = cells.values.cast(pa.int64()), MILLIS
    strange = pc.or_(pc.less(numbers, known.start), pc.greater_equal(numbers, known.stop))
    unit = "days" if cells.kind.base is Base.DATE else "milliseconds"
    words = f"{unit} since 1970 are beyond the years 1 to 9999"
    cells.report(Rule.TYPE, strange, lambda value: f"{value} {words}", report)


def _judge_range(bounds: Range, cells: _Cells, report: Reporter) -> None:
    text = "..".join(
        "" if bound is None else str(plain_value(bound, cells.kind))
        for bound in (bounds.low, bounds.high)
    )
    outside = _outside(cells.values, bounds, cells.kind.base)
    cells.report(Rule.RANGE, outside, lambda value: f"{value} is outside of {text}", report)


def _outside(values: pa.Array, bounds: Range, base: Base) -> pa.BooleanArray:
    least, most = INT_RANGES.get(base, (-math.inf, math.inf))
    low = least if bounds.low is None else max(bounds.low, least)
    high = most if bounds.high is None else min(bounds.high, most)
    if low > most or high < least:
        return values.is_valid()  # no value of the type is inside
    # Not "below or above": no comparison is true of NaN, so it is not inside.
    inside = pc.and_(
        pc.greater_equal(values, pa.scalar(low, values.type)),
        pc.less_equal(values, pa.scalar(high, values.type)),
    )
    return pc.invert(inside)


def _judge_check(check: Check, cells: _Cells, report: Reporter) -> None:
    try:
        matches = pc.match_substring_regex(cells.values, check.pattern)
    except pa.ArrowInvalid as error:
        where = f"@check of {report.entity.name}.{cells.item.name}"
        raise InvalidInput(
            Code.SCHEMA_INVALID,
            f"the pattern in the {where} cannot be evaluated: {error}",
            type=report.entity.name,
            property=cells.item.name,
            pattern=check.pattern,
        ) from None
    cells.report(
        Rule.CHECK,
        pc.invert(matches),
        lambda value: f"{quoted(value)} does not match {quoted(check.pattern)}",
        report,
    )
