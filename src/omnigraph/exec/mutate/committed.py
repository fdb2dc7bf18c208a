"""Committed rows of one type, read selectively: by conditions of a statement, or by keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.core.layout import table_key
from omnigraph.core.repository import Repository
from omnigraph.errors import Code, LimitExceeded
from omnigraph.exec import tuning
from omnigraph.exec.evaluate import EvalContext, holds
from omnigraph.exec.prefilter import NOTHING, among, fixed_ids, prefilter
from omnigraph.lang.catalog.model import EntityType
from omnigraph.lang.ir.expr import Column, ConstValue, Predicate
from omnigraph.lang.values import Base, ValueType
from omnigraph.runtime import cancellation
from omnigraph.store.reading.blob_values import blob_bytes, read_blobs
from omnigraph.store.table import LIST_KEYS_MAX, ROW_ADDRESS, ROW_ID, Table

PLACES: Final = (ROW_ID, ROW_ADDRESS)
_PLACE_FIELDS: Final = tuple(pa.field(name, pa.uint64()) for name in PLACES)
_TEXT: Final = ValueType(Base.STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class MutationLimits:
    """The bounds on what one query changes."""

    rows: int = 5_000_000  # entities that it touches, of one type
    bytes: int = 1 << 30  # the size of their new images

    def check_rows(self, count: int, key: str) -> None:
        """Refuse to touch more entities of a type than one query may."""
        if count > self.rows:
            text = f"the query touches more than {self.rows} entities of {key}"
            raise LimitExceeded(Code.LIMIT_EXCEEDED, text, bound="mutation_rows", limit=self.rows)

    def check_bytes(self, size: int, key: str) -> None:
        """Refuse to hold more bytes of a type than one query may write."""
        if size > self.bytes:
            text = f"the images of {key} have {size} bytes, the bound is {self.bytes}"
            raise LimitExceeded(Code.LIMIT_EXCEEDED, text, bound="mutation_bytes", limit=self.bytes)


class CommittedRows:
    """The rows of one type as the base of a write has them. Nothing newer is ever read."""

    def __init__(
        self, repo: Repository, base: GraphVersion, entity: EntityType, limits: MutationLimits
    ) -> None:
        """Read this type at this base; nothing is opened yet."""
        self.entity = entity
        self.key = table_key(entity.kind, entity.name)
        self.pin = base.pin(self.key)
        self.limits = limits
        self._repo = repo
        # What statements will ask for by name is read once, with the first of them.
        self._expected: dict[str, None] = {}
        self._expected_columns: set[str] | None = set()  # None for all but blobs
        self._ahead: pa.Table | None = None
        self._ahead_at: dict[str, int] = {}

    @cached_property
    def table(self) -> Table:
        """The pinned table."""
        return self._repo.table(self.pin)

    @cached_property
    def blobs(self) -> frozenset[str]:
        """The columns whose bytes are read only when they have to be copied."""
        return frozenset(
            item.name for item in self.entity.properties if item.type.base is Base.BLOB
        )

    @cached_property
    def schema(self) -> pa.Schema:
        """All columns, and the identity and place of each row, null for rows that are new.

        Images may break rules until they are judged, so everything can be null here.
        """
        columns = [field.with_nullable(True) for field in self.table.schema]
        return pa.schema([*columns, *_PLACE_FIELDS])

    # -- by a predicate ----------------------------------------------------------------------------

    def matching(
        self,
        where: Predicate,
        reads: Sequence[Column],
        columns: Sequence[str],
        context: EvalContext,
    ) -> pa.Table:
        """The rows for which a predicate is true: these columns (no blobs) and their places."""
        tested = [item.name for item in reads]
        ids = fixed_ids(where, self.entity, context)
        if ids is not None:
            wanted = list(dict.fromkeys([*columns, *tested]))
            rows = self._named(ids, wanted)
            if not rows.num_rows:
                return self.nothing(columns)
            return rows.filter(_truth(where, rows, context)).select([*columns, *PLACES])
        condition = prefilter(where, context)
        first = list(dict.fromkeys(["id", *tested]))
        found: list[pa.RecordBatch] = []
        count = size = 0
        for batch in self._batches(first, condition):
            kept = batch.filter(_truth(where, batch, context))
            count, size = count + kept.num_rows, size + kept.nbytes
            self.check_rows(count)
            self.check_bytes(size)
            if kept.num_rows:
                found.append(kept)
        return self._with(pa.Table.from_batches(found, self._projected(first)), columns, condition)

    def _with(self, rows: pa.Table, columns: Sequence[str], condition: str | None) -> pa.Table:
        """Give rows that were found by few columns the ones that are wanted of them."""
        rest = [name for name in columns if name not in rows.schema.names]
        if not rows.num_rows:
            return self.nothing(columns)
        if rest:
            found = self._rest(rows, rest, condition)
            for name in rest:
                rows = rows.append_column(self.table.schema.field(name), found.column(name))
        return rows.select([*columns, *PLACES])

    def _rest(self, rows: pa.Table, names: Sequence[str], condition: str | None) -> pa.Table:
        if rows.num_rows <= tuning.active.taken_images_max:
            return self._picked(rows.column(ROW_ID).to_pylist(), names)
        wanted = np.sort(rows.column(ROW_ADDRESS).to_numpy())
        passed: list[pa.RecordBatch] = []
        size = 0
        for batch in self._batches(names, condition):
            places = batch.column(ROW_ADDRESS).to_numpy()
            near = np.minimum(np.searchsorted(wanted, places), len(wanted) - 1)
            passed.append(batch.filter(pa.array(wanted[near] == places)))
            size += passed[-1].nbytes
            self.check_bytes(size)
        # Both passes go in storage order, so the rows come in the same order.
        return pa.Table.from_batches(passed, self._projected(names))

    def _picked(self, row_ids: Sequence[int], names: Sequence[str]) -> pa.Table:
        """Rows by identity, some at a time: they may be long."""
        parts: list[pa.Table] = []
        size = 0
        for start in range(0, len(row_ids), tuning.active.taken_images):
            cancellation.check()
            parts.append(
                self.table.take(row_ids[start : start + tuning.active.taken_images], names)
            )
            size += parts[-1].nbytes
            self.check_bytes(size)
        return pa.concat_tables(parts)

    # -- by keys -----------------------------------------------------------------------------------

    def expect(self, ids: Iterable[str], columns: Sequence[str] | None) -> None:
        """Announce that `matching` will be asked for these columns of these entities.

        Args:
            ids: Which entities.
            columns: Which columns; None for all but blobs.
        """
        assert self._ahead is None, "it is announced before anything is asked for"
        self._expected.update(dict.fromkeys(ids))
        if columns is None or self._expected_columns is None:
            self._expected_columns = None
        else:
            self._expected_columns.update(columns)

    def expect_nothing(self) -> None:
        """Forget what was announced: the query that reads it has ended."""
        self._expected, self._expected_columns = {}, set()
        self._ahead, self._ahead_at = None, {}

    def _named(self, ids: Sequence[str], columns: Sequence[str]) -> pa.Table:
        """The rows of some entities, those that were announced all at once."""
        if len(self._expected) <= len(ids) or not self._is_expected(ids, columns):
            return self.having({"id": ids}, columns)
        if self._ahead is None:
            names = [name for name in self.table.schema.names if self._is_wanted(name)]
            self._ahead = self.having({"id": tuple(self._expected)}, names).combine_chunks()
            found = self._ahead.column("id").to_pylist()
            self._ahead_at = {name: row for row, name in enumerate(found)}
        rows = sorted(self._ahead_at[name] for name in ids if name in self._ahead_at)
        return take_few(self._ahead, rows).select([*columns, *PLACES])

    def _is_wanted(self, name: str) -> bool:
        if self._expected_columns is None:
            return name not in self.blobs
        return name == "id" or name in self._expected_columns

    def _is_expected(self, ids: Sequence[str], columns: Sequence[str]) -> bool:
        known = all(map(self._is_wanted, columns))
        return known and all(name in self._expected for name in ids)

    def having(
        self, wanted: Mapping[str, Sequence[ConstValue]], columns: Sequence[str]
    ) -> pa.Table:
        """The rows in which one of some columns has one of the values wanted for it."""
        sought = {name: tuple(dict.fromkeys(values)) for name, values in wanted.items()}
        most = max((len(values) for values in sought.values()), default=0)
        if not most or not self.pin.row_count:
            return self.nothing(columns)
        if not all(self.table.prefers_lists(name, len(values)) for name, values in sought.items()):
            return self._passing(sought, columns)
        parts: list[pa.Table] = []
        count = size = 0
        for start in range(0, most, LIST_KEYS_MAX):
            cancellation.check()
            conditions = [
                among(name, self._type(name), values[start : start + LIST_KEYS_MAX])
                for name, values in sought.items()
            ]
            possible = [item for item in conditions if item != NOTHING]
            if possible:
                parts.append(self._read(columns, " OR ".join(possible)))
                count, size = count + parts[-1].num_rows, size + parts[-1].nbytes
                self.check_rows(count)
                self.check_bytes(size)
        if not parts:
            return self.nothing(columns)
        return without_repeats(parts)

    def nothing(self, columns: Sequence[str]) -> pa.Table:
        """No rows, with these columns and their places."""
        return self._projected(columns).empty_table()

    def locate(self, ids: Iterable[str]) -> pa.Table:
        """The entities that exist among some ids: `id` and place."""
        return self.having({"id": tuple(ids)}, ["id"])

    def candidates(self, wanted: Mapping[str, Sequence[ConstValue]]) -> Iterator[pa.RecordBatch]:
        """Rows with `id` and some columns: all that have in each a value wanted for it, or more."""
        conditions = [
            among(name, self._type(name), values)
            for name, values in wanted.items()
            if len(values) <= LIST_KEYS_MAX
        ]
        condition = " AND ".join(conditions) if conditions else None
        return self._batches(["id", *wanted], NOTHING if NOTHING in conditions else condition)

    def _passing(
        self, sought: Mapping[str, tuple[ConstValue, ...]], columns: Sequence[str]
    ) -> pa.Table:
        names = list(dict.fromkeys(["id", *sought]))
        sets = {
            name: pa.array(_both_zeros(values), self.table.schema.field(name).type)
            for name, values in sought.items()
        }
        found: list[pa.RecordBatch] = []
        count = 0
        # Few columns, so many rows at a time: what is sought is prepared anew for each batch.
        for batch in self._batches(names, None, batch_rows=tuning.active.passed_rows):
            keep: pa.Array | None = None
            for name, values in sets.items():
                part = pc.is_in(batch.column(name), value_set=values)
                keep = part if keep is None else pc.or_(keep, part)
            found.append(batch.filter(keep))
            count += found[-1].num_rows
            self.check_rows(count)
        return self._with(pa.Table.from_batches(found, self._projected(names)), columns, None)

    def blob_values(self, names: Sequence[str], row_ids: Sequence[int]) -> Mapping[str, pa.Array]:
        """The bytes of some cells of blob columns; refused before they are read if too many."""
        self.check_bytes(blob_bytes(self.table, names, row_ids))
        return {name: read_blobs(self.table, name, row_ids) for name in names}

    # -- bounds ------------------------------------------------------------------------------------

    def check_rows(self, count: int) -> None:
        """Refuse to touch more entities than one query may."""
        self.limits.check_rows(count, self.key)

    def check_bytes(self, size: int) -> None:
        """Refuse to hold more bytes than one query may write."""
        self.limits.check_bytes(size, self.key)

    # -- inside ------------------------------------------------------------------------------------

    def _read(self, columns: Sequence[str], condition: str) -> pa.Table:
        names = list(columns)
        rows = self.table.read(names, filter=condition, row_id=True, row_address=True)
        return rows.select([*names, *PLACES])

    def _batches(
        self,
        columns: Sequence[str],
        condition: str | None,
        batch_rows: int = tuning.active.image_batch_rows,
    ) -> Iterator[pa.RecordBatch]:
        if condition == NOTHING or not self.pin.row_count:
            return iter(())
        return cancellation.checked(
            self.table.scan(
                list(columns),
                filter=condition,
                row_id=True,
                row_address=True,
                batch_rows=batch_rows,
                batch_bytes=tuning.active.image_batch_bytes,
            )
        )

    def _projected(self, columns: Sequence[str]) -> pa.Schema:
        schema = self.table.schema
        return pa.schema([*(schema.field(name) for name in columns), *_PLACE_FIELDS])

    def _type(self, name: str) -> ValueType:
        item = self.entity.property_by_name.get(name)
        return _TEXT if item is None else item.type


def take_few(rows: pa.Table, places: Sequence[int]) -> pa.Table:
    """Some rows of a table, without copying them if they are few."""
    if len(places) > tuning.active.sliced_rows_max:
        return rows.take(pa.array(places, pa.int64()))
    return pa.concat_tables([rows.slice(0, 0), *(rows.slice(place, 1) for place in places)])


def _truth(where: Predicate, rows: pa.Table | pa.RecordBatch, context: EvalContext) -> pa.Array:
    truth = holds(where, lambda _, name: rows.column(name), rows.num_rows, context)
    return truth.fill_null(False)


def _both_zeros(values: Sequence[ConstValue]) -> list[ConstValue]:
    """Both zeros for a zero: a hash differs for the two signs, equality does not."""
    zero = any(isinstance(value, float) and value == 0 for value in values)
    return [*values, 0.0, -0.0] if zero else list(values)


def without_repeats(parts: Sequence[pa.Table]) -> pa.Table:
    """Rows that several conditions found, once each."""
    if len(parts) == 1:
        return parts[0]
    rows = pa.concat_tables(parts).combine_chunks()
    _, first = np.unique(rows.column(ROW_ADDRESS).to_numpy(), return_index=True)
    return rows.take(pa.array(first))
