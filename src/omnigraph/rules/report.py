"""Reports of violations, from the row numbers that a kernel found."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sized
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import JsonValue
from omnigraph.lang.catalog.model import EntityType
from omnigraph.lang.values import (
    DAYS,
    F32_MAX,
    MILLIS,
    Base,
    ValueType,
    format_date,
    format_datetime,
)
from omnigraph.rules.identity import scalar_id
from omnigraph.rules.violation import Origin, Rule, Violation, Violations

Positions: TypeAlias = npt.NDArray[np.int64]
# What was found and what to say of it, given places among the reported rows and the quoted ids
# of their entities.
Describe: TypeAlias = Callable[[Positions, list[str]], Iterable[tuple[JsonValue, str]]]

_Rows = TypeVar("_Rows", bound=Sized)

_TEXT_CHARS_MAX = 200
_QUOTED_CHARS_MAX = 60


@dataclass(frozen=True, slots=True)
class Reporter:
    """Collects the violations of some rows of one type.

    `ids` are the ids of the rows, null where a row has none yet. `first` is the number of the
    first row, counted as `origin` counts.
    """

    entity: EntityType
    ids: pa.Array
    out: Violations
    origin: Origin | None = None
    first: int = 0

    def rows(
        self,
        rule: Rule,
        rows: Positions,
        properties: tuple[str, ...],
        describe: Describe,
        holders: pa.Array | None = None,
    ) -> None:
        """Report the rows that break a rule; `holders` are the entities that they collide with."""
        if not len(rows):
            return
        chosen = self._described(rows)
        numbers = rows[chosen]
        ids: list[str | None] = self.ids.take(pa.array(numbers)).to_pylist()
        others = [None] * len(ids) if holders is None else holders.take(chosen).to_pylist()
        names = [name_of(id_) for id_ in ids]
        found: list[Violation] = []
        described = zip(describe(chosen, names), others, strict=True)
        for row, id_, ((value, message), holder) in zip(
            numbers.tolist(), ids, described, strict=True
        ):
            file, line = self.origin(row + self.first) if self.origin else (None, None)
            found.append(
                Violation(
                    rule=rule,
                    kind=self.entity.kind,
                    type_name=self.entity.name,
                    id=id_,
                    properties=properties,
                    value=value,
                    message=message,
                    file=file,
                    line=line,
                    holder=holder,
                )
            )
        self.out.add_all(found, len(rows))

    def _described(self, rows: Positions) -> Positions:
        """The places of the rows that the collector could keep: the first in its order."""
        kept = self.out.described_max
        if len(rows) <= kept:
            return np.arange(len(rows))
        if self.origin is not None:
            return np.argsort(rows, kind="stable")[:kept]
        ids = self.ids.take(pa.array(rows))
        order: Positions = pc.array_sort_indices(ids, null_placement="at_start").to_numpy()
        return order[:kept].astype(np.int64)


def places(mask: pa.BooleanArray) -> Positions:
    """The places where a mask is true; unknown is not."""
    if not mask.true_count:
        return np.empty(0, np.int64)
    if mask.null_count:
        mask = mask.fill_null(False)
    return np.flatnonzero(mask.to_numpy(zero_copy_only=False))


def plain_values(values: pa.Array, kind: ValueType) -> list[JsonValue]:
    """Stored scalars as JSON values: dates as texts, long texts cut."""
    if kind.base is Base.DATE:
        values = values.cast(pa.int32())
    elif kind.base is Base.DATETIME:
        values = values.cast(pa.int64())
    return [plain_value(value, kind) for value in values.to_pylist()]


def plain_value(value: str | float | bool | None, kind: ValueType) -> JsonValue:
    """One stored scalar as a JSON value."""
    if isinstance(value, str):
        return value if len(value) <= _TEXT_CHARS_MAX else value[:_TEXT_CHARS_MAX] + "…"
    if isinstance(value, float):
        if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        is_stored = kind.base is Base.F32 and abs(value) <= F32_MAX
        return float(scalar_id(value, kind)) if is_stored else value
    if isinstance(value, int) and kind.base is Base.DATE and value in DAYS:
        return format_date(value)
    if isinstance(value, int) and kind.base is Base.DATETIME and value in MILLIS:
        return format_datetime(value)
    return value


def quoted(value: JsonValue) -> str:
    """A value inside a message: in quotes, on one line, not too long."""
    text = worded(value)
    text = text if len(text) <= _QUOTED_CHARS_MAX else text[:_QUOTED_CHARS_MAX] + "…"
    return "'" + "".join(char if char.isprintable() else " " for char in text) + "'"


def worded(value: JsonValue) -> str:
    """A scalar as the languages write it, a tuple of them in parentheses."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return f"({', '.join(map(worded, value))})"
    return str(value)


def name_of(id_: str | None) -> str:
    """An entity inside a message."""
    return "a new entity" if id_ is None else quoted(id_)


def joined(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column in one piece, its values spelled out."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def gathered(pieces: Iterable[_Rows], count: int) -> Iterator[list[_Rows]]:
    """Pieces of a column or table in lists of at least so many rows, but for the last.

    A lookup hashes what it looks for once per call, so calls must not outnumber the work.
    """
    found: list[_Rows] = []
    rows = 0
    for piece in pieces:
        found.append(piece)
        rows += len(piece)
        if rows >= count:
            yield found
            found, rows = [], 0
    if found:
        yield found
