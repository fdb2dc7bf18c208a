"""Keys and `@unique`: no two entities of a type share an id, or a tuple of values.

Kernels over small projections: ids and the columns of one rule. The caller decides which committed
rows can matter; rows that cannot are harmless, and are dropped batch by batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import JsonValue
from omnigraph.lang.catalog.model import EntityType
from omnigraph.lang.catalog.rules import ID_NAME
from omnigraph.lang.values import Base, ValueType
from omnigraph.rules.report import (
    Positions,
    Reporter,
    gathered,
    joined,
    name_of,
    places,
    plain_values,
    quoted,
)
from omnigraph.rules.violation import Origin, Rule, Violations

_TEXT = ValueType(Base.STRING)
# How the message about an id ends that a committed row has.
TAKEN: Final = "exists already"


def uniques(entity: EntityType) -> tuple[tuple[str, ...], ...]:
    """The `@unique` rules that can be judged: early graphs may have one over a Blob."""
    blobs = {item.name for item in entity.properties if item.type.base is Base.BLOB}
    return tuple(columns for columns in entity.uniques if blobs.isdisjoint(columns))


def judge_ids(
    entity: EntityType,
    ids: pa.Array | pa.ChunkedArray,
    out: Violations,
    *,
    committed: pa.Array | pa.ChunkedArray | None = None,
    origin: Origin | None = None,
) -> None:
    """Judge that each id occurs once in an input, and not among committed ids.

    Args:
        entity: The type of the rows.
        ids: The ids of the rows of one input.
        out: Takes one violation for each row whose id an earlier or a committed row has.
        committed: Ids that are taken, for an input that may only add.
        origin: The file and line of a row, given its number.
    """
    ids = joined(ids)
    repeated = _repeated(ids)
    taken = np.empty(0, np.int64)
    if committed is not None and len(committed):
        known = pc.is_in(ids, value_set=joined(committed).cast(ids.type), skip_nulls=True)
        taken = np.setdiff1d(places(known), repeated)
    report_ids(entity, ids, out, repeated=repeated, taken=taken, origin=origin)


def report_ids(
    entity: EntityType,
    ids: pa.Array,
    out: Violations,
    *,
    repeated: Positions,
    taken: Positions,
    origin: Origin | None = None,
) -> None:
    """Report rows whose id was found to belong to an earlier row, or to a committed one.

    Args:
        entity: The type of the rows.
        ids: Their ids.
        out: Takes one violation for each place.
        repeated: The places of ids that an earlier row has.
        taken: The places of ids that a committed row has.
        origin: The file and line of a row, given its place.
    """
    report = Reporter(entity, ids, out, origin)
    properties = entity.key or (ID_NAME,)
    label = _label(entity, properties)

    def report_rows(rows: Positions, problem: str) -> None:
        def describe(chosen: Positions, names: list[str]) -> Iterator[tuple[JsonValue, str]]:
            values = plain_values(ids.take(pa.array(rows[chosen])), _TEXT)
            for value, name in zip(values, names, strict=True):
                yield value, f"@key violation on {label}: {name} {problem}"

        report.rows(Rule.KEY, rows, properties, describe)

    report_rows(repeated, "occurs more than once in the input")
    report_rows(taken, TAKEN)


def judge_given_ids(
    entity: EntityType,
    given: pa.Array,
    ids: pa.Array,
    out: Violations,
    origin: Origin | None = None,
) -> None:
    """Judge that the ids which rows bring along are those that their keys give them.

    Args:
        entity: The type of the rows, which has a key.
        given: What rows say that their ids are; null where they say nothing.
        ids: What their keys say; null where a part of the key is missing.
        out: Takes one violation for each row that says something else.
        origin: The file and line of a row, given its number.
    """
    if given.null_count == len(given):
        return
    rows = places(pc.not_equal(given, ids))

    def describe(chosen: Positions, names: list[str]) -> Iterator[tuple[JsonValue, str]]:
        values = plain_values(given.take(pa.array(rows[chosen])), _TEXT)
        for value, name in zip(values, names, strict=True):
            label = f"{entity.name}.{ID_NAME} of {name}"
            yield value, f"{label}: the key says something else than {quoted(value)}"

    Reporter(entity, ids, out, origin).rows(Rule.KEY, rows, (ID_NAME,), describe)


def judge_unique(
    entity: EntityType,
    columns: tuple[str, ...],
    incoming: pa.Table,
    out: Violations,
    *,
    committed: Iterable[pa.RecordBatch] = (),
    removed: pa.Array | pa.ChunkedArray | Sequence[str] = (),
    replaces: bool = True,
    origin: Origin | None = None,
) -> None:
    """Judge one `@unique` rule after a change.

    A tuple with a missing value is exempt. Tuples are compared value by value.

    Args:
        entity: The type that declares the rule.
        columns: The columns of the rule, one of `uniques(entity)`.
        incoming: The new images, with `id` and the columns; the last image of each id only.
        out: Takes one violation for each incoming row whose values belong to another entity.
        committed: Rows before the change, with `id` and the columns. Those whose id is among the
            incoming or the removed ones do not count any more.
        removed: The ids of entities that the change deletes.
        replaces: Whether incoming images replace committed rows of the same id. If not, the
            caller says in `removed` which committed rows do not count.
        origin: The file and line of an incoming row, given its number.
    """
    new = _Holders.of(incoming, columns)
    if not len(new.rows):
        return
    gone = removed if isinstance(removed, pa.Array | pa.ChunkedArray) else pa.array(removed)
    ids_gone = (incoming.column(ID_NAME), gone) if replaces else (gone,)
    replaced = pa.concat_arrays([joined(ids).cast(pa.string()) for ids in ids_gone])
    old = _candidates(new, columns, committed, replaced)
    if len(new.rows) + len(old.rows) == 1:
        return  # the usual small write: no other row to collide with
    first = _first_holders(new, old)
    ids = pa.concat_arrays([new.ids, old.ids])
    first_ids = ids.take(pa.array(first))
    same = pc.equal(new.ids, first_ids).fill_null(False).to_numpy(zero_copy_only=False)
    late = np.flatnonzero(~same & (first != np.arange(len(new.rows))))

    def describe(chosen: Positions, names: list[str]) -> Iterator[tuple[JsonValue, str]]:
        at = pa.array(late[chosen])
        found = _plain_tuples(entity, columns, [values.take(at) for values in new.values])
        for value, first_id, name in zip(found, first_ids.take(at).to_pylist(), names, strict=True):
            yield value, _words(entity, columns, value, name_of(first_id), name)

    report = Reporter(entity, joined(incoming.column(ID_NAME)), out, origin)
    holders = first_ids.take(pa.array(late))
    report.rows(Rule.UNIQUE, new.rows[late], columns, describe, holders)


@dataclass(frozen=True, slots=True)
class _Holders:
    """Rows without a missing value: which they are, whose, and what they hold per column."""

    rows: Positions
    ids: pa.Array
    values: list[pa.Array]

    @staticmethod
    def of(table: pa.Table, columns: tuple[str, ...]) -> _Holders:
        arrays = [_comparable(joined(table.column(name))) for name in columns]
        whole = np.ones(table.num_rows, np.bool_)
        for array in arrays:
            if array.null_count:
                whole &= array.is_valid().to_numpy(zero_copy_only=False)
        rows = np.flatnonzero(whole)
        ids = joined(table.column(ID_NAME)).cast(pa.string())
        if len(rows) == table.num_rows:
            return _Holders(rows, ids, arrays)
        chosen = pa.array(rows)
        return _Holders(rows, ids.take(chosen), [array.take(chosen) for array in arrays])


def _candidates(
    new: _Holders,
    columns: tuple[str, ...],
    committed: Iterable[pa.RecordBatch],
    replaced: pa.Array,
) -> _Holders:
    """The committed rows that stay and hold in each column a value that an incoming row holds."""
    types = [values.type for values in new.values]
    schema = pa.schema([(ID_NAME, pa.string()), *zip(columns, types, strict=True)])
    names = schema.names

    def stored(batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = [joined(batch.column(name)) for name in names]
        plain = [_comparable(a.cast(f.type)) for a, f in zip(arrays, schema, strict=True)]
        return pa.record_batch(plain, schema=schema)

    wanted: list[pa.Array] = []
    kept: list[pa.Table] = []
    for batches in gathered(map(stored, committed), len(replaced)):
        wanted = wanted or [values.unique() for values in new.values]
        table = pa.Table.from_batches(batches, schema)
        stays = pc.invert(pc.is_in(table.column(ID_NAME), value_set=replaced, skip_nulls=True))
        for name, values in zip(columns, wanted, strict=True):
            stays = pc.and_(stays, pc.is_in(table.column(name), value_set=values))
        kept.append(table.filter(stays))
    return _Holders.of(pa.concat_tables([schema.empty_table(), *kept]), columns)


def _first_holders(new: _Holders, old: _Holders) -> Positions:
    """The first holder of the values of each incoming row, by number: new rows, then old.

    That is the committed entity with the least id, else the first of the incoming rows.
    """
    groups = _groups([pa.concat_arrays(pair) for pair in zip(new.values, old.values, strict=True)])
    count = len(new.rows)
    holders = np.empty(int(groups.max()) + 1, np.int64)
    # The last assignment to a place is the one that stays.
    holders[groups[:count][::-1]] = np.arange(count)[::-1]
    descending = pc.array_sort_indices(old.ids, order="descending").to_numpy().astype(np.int64)
    holders[groups[count:][descending]] = count + descending
    return holders[groups[:count]]


def _groups(columns: list[pa.Array]) -> Positions:
    """A number for each row, the same for rows that are equal in every column."""
    groups, *others = (_codes(column) for column in columns)
    for codes in others:
        # Both factors are at most the number of rows, so the product does not overflow.
        groups = _codes(pa.array(groups * (int(codes.max(initial=0)) + 1) + codes))
    return groups


def _codes(values: pa.Array) -> Positions:
    """Small numbers that are equal where values are."""
    codes: Positions = values.dictionary_encode().indices.to_numpy().astype(np.int64)
    return codes


def _repeated(ids: pa.Array) -> Positions:
    """The rows whose id an earlier row has; a missing id equals none."""
    present = places(ids.is_valid())
    codes = _codes(ids.take(pa.array(present)))
    firsts = np.unique(codes, return_index=True)[1]
    return np.delete(present, firsts)


def _comparable(array: pa.Array) -> pa.Array:
    # The two zeros are one value, but not one pattern of bits.
    if pa.types.is_floating(array.type):
        return pc.add(array, pa.scalar(0.0, array.type))
    return array


# -- words -----------------------------------------------------------------------------------------


def _plain_tuples(
    entity: EntityType, columns: tuple[str, ...], values: list[pa.Array]
) -> Iterator[JsonValue]:
    """The values of rows: that of a single column, else the list of the values."""
    parts = [
        plain_values(array, _column_type(entity, name))
        for name, array in zip(columns, values, strict=True)
    ]
    return iter(parts[0]) if len(parts) == 1 else map(list, zip(*parts, strict=True))


def _column_type(entity: EntityType, name: str) -> ValueType:
    item = entity.property_by_name.get(name)
    return _TEXT if item is None else item.type  # the ends of an edge are no properties


def _words(
    entity: EntityType, columns: tuple[str, ...], value: JsonValue, first: str, second: str
) -> str:
    label = _label(entity, columns)
    return f"@unique violation on {label}: value {quoted(value)} held by {first} and {second}"


def _label(entity: EntityType, columns: tuple[str, ...]) -> str:
    names = columns[0] if len(columns) == 1 else f"({', '.join(columns)})"
    return f"{entity.name}.{names}"
