"""Rows of one type from columns: Parquet, Arrow, data frames.

A column is a property by name; `id` is the id, `from` or `src` and `to` or `dst` are the ends of
an edge. A column that is missing is a property that no row names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.core.layout import table_key
from omnigraph.dataplane.decode.convert import rows_schema
from omnigraph.dataplane.decode.json_fit import Misfit, described, fit, shown
from omnigraph.dataplane.decode.json_line import Constant, Integer, Json, Real
from omnigraph.dataplane.decode.model import Decoded, DecodeSpec, DecodeStats
from omnigraph.dataplane.decode.tabular_columns import (
    CellFault,
    Converted,
    convert,
    is_list,
    is_text,
    plain,
)
from omnigraph.errors import JsonValue
from omnigraph.lang.catalog.identity import END_COLUMNS, END_NAMES, ENDS
from omnigraph.lang.catalog.model import Catalog, EdgeType, EntityType
from omnigraph.lang.catalog.rules import ID_NAME
from omnigraph.lang.source import did_you_mean
from omnigraph.lang.values import INTEGERS, Base, ValueType
from omnigraph.rules.identity import entity_ids
from omnigraph.rules.report import quoted
from omnigraph.rules.violation import Rule, Violation, Violations


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


Lines = npt.NDArray[np.int64]

_TEXT: Final = ValueType(Base.STRING)
_NAME_CHARS_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class Spelling:
    """Converts the cells of a column into its stored type, or says why it cannot."""

    convert: Callable[[pa.Array, ValueType], Converted]
    reason: Callable[[pa.Array, int, ValueType], tuple[JsonValue, str]]


ARROW: Final = Spelling(convert, reason)


def decode_batches(
    batches: Iterable[pa.RecordBatch],
    entity: EntityType,
    spec: DecodeSpec,
    out: Violations,
    stats: DecodeStats,
    *,
    file: str,
    is_start: bool = True,
) -> Iterator[Decoded]:
    """Decode batches of rows that have the same columns.

    Args:
        batches: The rows, in the order of the input.
        entity: Their type.
        spec: The columns, rules and bounds of the decoder.
        out: Takes the violations.
        stats: Counts rows as it goes.
        file: What messages call the input.
        is_start: It is the first piece of its input, which reports what concerns all rows.
    """
    decoder: RowDecoder | None = None
    for batch in batches:
        if decoder is None:
            decoder = RowDecoder(batch.schema.names, entity, spec, out, file=file)
            if is_start:
                decoder.report_columns()
        first = stats.lines + 1
        stats.lines += batch.num_rows
        lines = np.arange(first, first + batch.num_rows, dtype=np.int64)
        found = decoder.decode(batch, lines)
        if found is not None:
            stats.rows += len(found.lines)
            yield found


class RowDecoder:
    """Decodes rows of one type that have these columns."""

    def __init__(
        self,
        names: Sequence[str],
        entity: EntityType,
        spec: DecodeSpec,
        out: Violations,
        *,
        file: str,
        spelling: Spelling = ARROW,
    ) -> None:
        """Assign the columns to properties and ends."""
        self._entity = entity
        self._out = out
        self._file = file
        self._spelling = spelling
        self._schema = rows_schema(entity)
        self._catalog = spec.catalog
        key = table_key(entity.kind, entity.name)
        self._absences = spec.absences.get(key, frozenset()) & entity.property_by_name.keys()
        self._places: dict[str, int] = {}  # of stored columns among those that are given
        self._twice: list[str] = []
        self._unknown: list[str] = []
        known = set(self._schema.names)
        for number, name in enumerate(names):
            column = END_COLUMNS.get(name, name) if entity.kind == "edge" else name
            if column not in known:
                self._unknown.append(name)
            elif column in self._places:
                self._twice.append(column)
            else:
                self._places[column] = number
        ends = ENDS if entity.kind == "edge" and names else ()
        self._missing = [name for name in ends if name not in self._places]

    def report_columns(self) -> None:
        """Report what is wrong with the columns as such."""
        for name in self._unknown:
            hint = did_you_mean(name, self._schema.names)
            words = "there is no such property" + (f": {hint}" if hint else "")
            self._report_column(Rule.FIELD, _shortened(name), words)
        for name in self._twice:
            self._report_column(Rule.FIELD, name, "given twice")
        for name in self._missing:
            self._report_column(Rule.REQUIRED, name, "there must be such a column")

    def decode(self, batch: pa.RecordBatch, lines: Lines) -> Decoded | None:
        """Decode the rows of a batch, which come from these lines; None if there are none."""
        if not batch.num_rows:
            return None
        found = {
            name: self._convert(name, batch.column(number)) for name, number in self._places.items()
        }
        bad = self._bad(found, batch.num_rows)
        ids: pa.Array | None = None
        if bad.any():
            ids = self._ids(found, batch.num_rows)
            for name, converted in found.items():
                for fault in converted.faults:
                    column = batch.column(self._places[name])
                    self._report_rows(fault, name, column, ids, lines)
        rows = self._rows(found, batch.num_rows)
        if ids is None:
            return Decoded(
                entity=self._entity, rows=rows, lines=lines, absent=self._absent(len(lines))
            )
        good = ~bad
        claimed = ids.filter(pa.array(bad)).drop_null().to_pylist()
        return Decoded(
            entity=self._entity,
            rows=rows.filter(pa.array(good)),
            lines=lines[good],
            absent=self._absent(int(good.sum())),
            claimed=tuple(claimed),
        )

    def _bad(self, found: dict[str, Converted], count: int) -> npt.NDArray[np.bool_]:
        """The rows that break a rule of the format; all of them, if an end is missing."""
        bad = np.full(count, bool(self._missing))
        for converted in found.values():
            for fault in converted.faults:
                bad[fault.rows] = True
        return bad

    def _convert(self, name: str, column: pa.Array) -> Converted:
        item = self._entity.property_by_name.get(name)
        if item is not None:
            return self._spelling.convert(column, item.type)
        owner = _owner(self._entity, name, self._catalog)
        return _identities(column, owner, self._spelling)

    def _rows(self, found: dict[str, Converted], count: int) -> pa.Table:
        columns = [
            found[field.name].values if field.name in found else pa.nulls(count, field.type)
            for field in self._schema
        ]
        return pa.Table.from_arrays(columns, schema=self._schema)

    def _absent(self, count: int) -> dict[str, pa.BooleanArray]:
        missing = sorted(self._absences - self._places.keys())
        return {name: pa.array(np.ones(count, np.bool_)) for name in missing} if count else {}

    def _ids(self, found: dict[str, Converted], count: int) -> pa.Array:
        """The ids of the rows, as far as they are known."""
        given = found[ID_NAME].values if ID_NAME in found else pa.nulls(count, pa.string())
        if not self._entity.key or any(name not in found for name in self._entity.key):
            return given
        keys = {name: found[name].values for name in self._entity.key}
        return pa.compute.coalesce(given, entity_ids(self._entity, keys))

    # -- reports -----------------------------------------------------------------------------------

    def _report_column(self, rule: Rule, name: str, words: str) -> None:
        message = f"{self._entity.name}.{END_NAMES.get(name, name)}: {words}"
        self._out.add(self._violation(rule, name, message))

    def _report_rows(
        self, fault: CellFault, name: str, column: pa.Array, ids: pa.Array, lines: Lines
    ) -> None:
        item = self._entity.property_by_name.get(name)
        kind = item.type if item is not None else _TEXT
        label = f"{self._entity.name}.{END_NAMES.get(name, name)}"
        described = []
        for row in fault.rows[: self._out.kept_max].tolist():
            value, words = self._spelling.reason(column, row, kind)
            id_: str | None = ids[row].as_py()
            of = "" if id_ is None else f" of {quoted(id_)}"
            message = f"{label}{of}: {words}"
            described.append(
                self._violation(fault.rule, name, message, value, id_, int(lines[row]))
            )
        self._out.add_all(described, len(fault.rows))

    def _violation(
        self,
        rule: Rule,
        name: str,
        message: str,
        value: JsonValue = None,
        id_: str | None = None,
        line: int | None = None,
    ) -> Violation:
        return Violation(
            rule=rule,
            kind=self._entity.kind,
            type_name=self._entity.name,
            id=id_,
            properties=(name,),
            value=value,
            message=message,
            file=self._file,
            line=line,
        )


def _owner(entity: EntityType, name: str, catalog: Catalog) -> EntityType:
    """The type whose ids a column holds."""
    if name == ID_NAME or not isinstance(entity, EdgeType):
        return entity
    return catalog.node_by_name[entity.source if name == "src" else entity.target]


def _identities(column: pa.Array, owner: EntityType, spelling: Spelling) -> Converted:
    """Ids as texts. Where a key of one column gives the id, the value of the key will do."""
    column = plain(column)
    key = owner.property_by_name.get(owner.key[0]) if len(owner.key) == 1 else None
    if key is None or is_text(column.type) or key.type.base is Base.STRING:
        return spelling.convert(column, _TEXT)
    found = spelling.convert(column, key.type)
    return Converted(entity_ids(owner, {key.name: found.values}), found.faults)


def _shortened(name: str) -> str:
    text = name if len(name) <= _NAME_CHARS_MAX else name[:_NAME_CHARS_MAX] + "…"
    return "".join(char if char.isprintable() else " " for char in text)
