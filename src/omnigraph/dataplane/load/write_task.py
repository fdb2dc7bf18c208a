"""Finishing the rows of a split in a merge, once it is known which of them are known entities.

A new row is like one of any load. The row of a known entity changes what the input names; the rest
comes from the committed row, whose identity it keeps. What others have to know is said of the final
images: where a value or a source has changed, the old one, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.dataplane.load.committed import LoadBase
from omnigraph.dataplane.load.deletions import DeletionSpill, Shares
from omnigraph.dataplane.load.entities import (
    Entities,
    emit_ends,
    emit_values,
    with_defaults,
)
from omnigraph.dataplane.load.exchange import (
    ID,
    LINE,
    Emitter,
    Lines,
    key_rows,
    left_channel,
    released_channel,
)
from omnigraph.dataplane.load.plan import LoadPlan, key_of
from omnigraph.dataplane.load.read_task import ABSENT, insert
from omnigraph.dataplane.load.receipt import WriteReceipt
from omnigraph.dataplane.load.request import Fill
from omnigraph.dataplane.load.vectors import (
    TaskVectors,
    embedded,
    for_judging,
    pending_of_known,
    pieces,
    rows_at_once,
)
from omnigraph.dataplane.load.violations import collector
from omnigraph.dataplane.load.writing import Writer
from omnigraph.dataplane.staging import StagedPart
from omnigraph.lang.catalog.identity import ENDS
from omnigraph.lang.catalog.model import EntityType
from omnigraph.lang.catalog.rules import ID_NAME
from omnigraph.lang.values import Base as ValueBase
from omnigraph.rules.report import joined
from omnigraph.rules.rows import judge_rows
from omnigraph.rules.unique import uniques
from omnigraph.store.reading.blob_values import blob_sizes, read_blobs
from omnigraph.store.table import ROW_ADDRESS, ROW_ID, Table

_ROWS_AT_ONCE: Final = 1 << 16  # known entities that are finished at a time


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTask:
    """The rows of a split that waited.

    Attributes:
        plan: The load.
        base: The committed tables.
        split: The number of the split.
        spilled: The rows.
        matches: What matching found of them.
        shares: How the committed tables are divided for writing their deletion files.
        writes: Whether to write anything: not when the load will be refused anyway.
    """

    plan: LoadPlan
    base: LoadBase
    split: int
    spilled: tuple[StagedPart, ...]
    matches: tuple[StagedPart, ...]
    shares: Shares
    writes: bool


def write_split(task: WriteTask) -> WriteReceipt:
    """Finish and write the rows of a split. A task of a load."""
    plan = task.plan
    with plan.worker_tables.errors(), Writer(plan) as writer:
        if not task.writes:
            writer.give_up()
        finishing = _Finishing(task, writer)
        for staged_part in task.spilled:
            for key, rows in sorted(plan.staging.get(staged_part).items()):
                plan.stop.check()
                finishing.take(key, rows)
        return finishing.receipt()


class _Finishing:
    """One split while its rows are finished."""

    def __init__(self, task: WriteTask, writer: Writer) -> None:
        self._plan = task.plan
        self._base = task.base
        self._writer = writer
        self._out = collector(task.plan, task.split)
        self._emitter = Emitter(task.plan.staging, task.plan.partitions)
        self._types: Mapping[str, EntityType] = {
            key_of(entity): entity
            for entity in (*task.plan.catalog.nodes, *task.plan.catalog.edges)
        }
        self._matches = _Matches.of(task)
        self._deleted = DeletionSpill(task.plan.staging, task.shares)
        self._vectors = TaskVectors(task.plan)

    def take(self, key: str, rows: pa.Table) -> None:
        """Finish some rows of one type."""
        entities = _unspilled(self._types[key], rows)
        row_ids, addresses, is_told = self._matches.find(key, entities.lines)
        known = row_ids.is_valid()
        new = entities.filter(pc.invert(is_told)) if is_told.true_count else entities
        adds = new.rows.num_rows and self._plan.fill is None
        for piece in pieces(self._plan, new) if adds else ():
            insert(with_defaults(piece), self._out, self._emitter, self._writer, self._vectors)
        if known.true_count:
            old = _Known(entities.filter(known), row_ids.drop_null(), addresses.drop_null())
            table = self._plan.worker_tables.tables.open(self._base.tables[key].pin)
            for start, stop in self._pieces(table, old):
                self._plan.stop.check()
                self._update(table, old.slice(start, stop - start))

    def receipt(self) -> WriteReceipt:
        """Finish; return what was made."""
        if self._out:
            self._writer.give_up()
        return WriteReceipt(
            fragments=self._writer.close(),
            dead=self._deleted.close(),
            staged_parts=self._emitter.close(),
            violations=self._out.settled(),
            missing=self._vectors.missing,
        )

    def _pieces(self, table: Table, known: _Known) -> Iterator[tuple[int, int]]:
        """Pieces of known entities to finish at a time: smaller if large values come along."""
        entities, count = known.entities, len(known.row_ids)
        most = rows_at_once(self._plan, entities.entity, _ROWS_AT_ONCE)
        kept = [] if self._plan.replace else sorted(_blobs(entities.entity) & set(entities.absent))
        if not kept:
            yield from ((at, min(at + most, count)) for at in range(0, count, most))
            return
        start = size = 0
        for row, bytes_ in enumerate(blob_sizes(table, kept, known.row_ids.to_pylist())):
            full = size + bytes_ > self._plan.fragment_bytes or row - start >= most
            if row > start and full:
                yield start, row
                start = row
                size = 0
            size += bytes_
        yield start, count

    def _update(self, table: Table, known: _Known) -> None:
        if self._plan.fill is not None:
            known = _still_open(known, table, self._plan.fill)
        if not len(known.row_ids):
            return
        entities = known.entities
        key = key_of(entities.entity)
        if self._plan.replace:
            entities = with_defaults(entities)
        old = _OldRows(table, known.row_ids)
        is_whole = self._plan.replace
        rows = _final(entities, old, is_whole=is_whole)
        rows, pending = pending_of_known(entities, rows, old.column, is_whole=is_whole)
        judged = for_judging(rows, pending)
        lines = entities.lines

        def origin(row: int) -> tuple[str, int]:
            return "", int(lines[row])

        judge_rows(entities.entity, judged, self._out, origin)
        final = Entities(
            entity=entities.entity, rows=rows, names=entities.names, lines=lines, absent={}
        )
        self._emit_values(final, old)
        self._emit_ends(final, old)
        if self._out:
            self._writer.give_up()
        if self._writer.is_off:
            return
        rows = self._vectors.computed(entities.entity, rows, pending)
        self._writer.add(key, rows.append_column(ROW_ID, known.row_ids))
        self._deleted.add(key, known.addresses.to_numpy())

    def _emit_values(self, final: Entities, old: _OldRows) -> None:
        entity = final.entity
        for columns in uniques(entity):
            before = {name: old.column(name) for name in columns}
            changed = _changed(final.rows, before)
            if not changed.true_count:
                continue
            emit_values(final.filter(changed), self._emitter, only=columns)
            released = pa.table({**before, ID: final.names}).filter(changed)
            for name in columns:
                released = released.filter(released.column(name).is_valid())
            channel = released_channel(key_of(entity), columns)
            self._emitter.add(channel, released, len(columns))

    def _emit_ends(self, final: Entities, old: _OldRows) -> None:
        if final.entity.kind != "edge":
            return
        before = {end: old.column(end) for end in ENDS}
        moved = _changed(final.rows, before)
        if not moved.true_count:
            return
        emit_ends(final.filter(moved), self._emitter)
        places = np.flatnonzero(np.asarray(moved))
        left = key_rows(before["src"].take(pa.array(places)), final.lines[places])
        self._emitter.add(left_channel(final.entity.name), left)


# -- matches ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Matches:
    """The known entities that matching found in one split: by table key, sorted by line."""

    tables: Mapping[str, pa.Table]

    @staticmethod
    def of(task: WriteTask) -> _Matches:
        found: dict[str, list[pa.Table]] = {}
        for staged_part in task.matches:
            for key, rows in task.plan.staging.get(staged_part).items():
                found.setdefault(key, []).append(rows)
        return _Matches(
            {key: pa.concat_tables(parts).sort_by(LINE) for key, parts in found.items()}
        )

    def find(self, key: str, lines: Lines) -> tuple[pa.Array, pa.Array, pa.Array]:
        """For each line: its row id and address, null if there is none; and whether it is known."""
        table = self.tables.get(key)
        if table is None:
            nothing = pa.nulls(len(lines), pa.uint64())
            return nothing, nothing, pa.array(np.zeros(len(lines), np.bool_))
        known = table.column(LINE).to_numpy()
        near = np.minimum(np.searchsorted(known, lines), len(known) - 1)
        is_known = known[near] == lines
        at = pa.array(near, mask=~is_known)
        row_ids, addresses = (joined(table.column(name)).take(at) for name in (ROW_ID, ROW_ADDRESS))
        return row_ids, addresses, pa.array(is_known)


@dataclass(frozen=True, slots=True)
class _Known:
    """Rows of known entities, with the places of their committed rows."""

    entities: Entities
    row_ids: pa.Array
    addresses: pa.Array

    def slice(self, start: int, count: int) -> _Known:
        """A slice of them."""
        return _Known(
            self.entities.slice(start, count),
            self.row_ids.slice(start, count),
            self.addresses.slice(start, count),
        )


def _still_open(known: _Known, table: Table, fill: Fill) -> _Known:
    """The entities that have the text still that the input names, and want its vector."""
    if fill is Fill.KNOWN:
        return known
    entities = known.entities
    old = _OldRows(table, known.row_ids)
    keep = pa.repeat(True, len(known.row_ids))
    for target, embed in embedded(entities.entity):
        if target.name in entities.absent:
            continue
        same = pc.equal(joined(entities.rows.column(embed.source)), old.column(embed.source))
        keep = pc.and_(keep, same.fill_null(False))
        if fill is Fill.MISSING:
            keep = pc.and_(keep, old.column(target.name).is_null())
    if keep.true_count == len(keep):
        return known
    return _Known(entities.filter(keep), known.row_ids.filter(keep), known.addresses.filter(keep))


# -- images ----------------------------------------------------------------------------------------


class _OldRows:
    """Committed rows in the order of the input, read column by column when they are asked for."""

    def __init__(self, table: Table, row_ids: pa.Array) -> None:
        self._table = table
        self._row_ids = row_ids
        # Storage is read in its own order.
        self._order = np.argsort(row_ids.to_numpy())
        self._back = pa.array(np.argsort(self._order))
        self._sorted = row_ids.take(pa.array(self._order))
        self._columns: dict[str, pa.Array] = {}

    def load(self, names: list[str]) -> None:
        """Read some columns together."""
        missing = [name for name in names if name not in self._columns]
        if missing:
            rows = self._table.take(self._sorted, missing)
            for name in missing:
                self._columns[name] = joined(rows.column(name)).take(self._back)

    def column(self, name: str) -> pa.Array:
        """One column."""
        self.load([name])
        return self._columns[name]

    def blobs(self, name: str, rows: pa.Array) -> pa.Array:
        """The bytes of some cells."""
        return read_blobs(self._table, name, self._row_ids.take(rows).to_pylist())


def _final(entities: Entities, old: _OldRows, *, is_whole: bool) -> pa.Table:
    """The images: what the input names, and the committed rest."""
    rows = entities.rows
    if is_whole:
        return rows
    blobs = _blobs(entities.entity)
    kept = {name: mask.fill_null(False) for name, mask in entities.absent.items()}
    kept = {name: mask for name, mask in kept.items() if mask.true_count}
    old.load([name for name in kept if name not in blobs])
    for name, mask in kept.items():
        place = rows.schema.get_field_index(name)
        given = joined(rows.column(place))
        if name in blobs:
            at = pa.array(np.flatnonzero(np.asarray(mask)))
            cells = pc.replace_with_mask(given, mask, old.blobs(name, at).cast(given.type))
        elif mask.true_count == len(mask):
            cells = old.column(name)
        else:
            cells = pc.if_else(mask, old.column(name), given)
        rows = rows.set_column(place, rows.schema.field(place), cells)
    return rows


def _unspilled(entity: EntityType, rows: pa.Table) -> Entities:
    absent = {
        name.removeprefix(ABSENT): joined(rows.column(name))
        for name in rows.schema.names
        if name.startswith(ABSENT)
    }
    lines: Lines = rows.column(LINE).to_numpy()
    rows = rows.drop_columns([LINE, *(f"{ABSENT}{name}" for name in absent)])
    names = joined(rows.column(ID_NAME))
    return Entities(entity=entity, rows=rows, names=names, lines=lines, absent=absent)


def _blobs(entity: EntityType) -> frozenset[str]:
    return frozenset(p.name for p in entity.properties if p.type.base is ValueBase.BLOB)


def _changed(rows: pa.Table, before: Mapping[str, pa.Array]) -> pa.Array:
    """A mask of the rows that differ from what they were in one of some columns."""
    changed: pa.Array | None = None
    for name, old in before.items():
        new = joined(rows.column(name))
        differs = pc.or_(
            pc.not_equal(new, old).fill_null(False), pc.xor(new.is_null(), old.is_null())
        )
        changed = differs if changed is None else pc.or_(changed, differs)
    assert changed is not None
    return changed
