"""Matching, in a merge: which rows of the input are those of known entities.

Of several rows that give one entity its id the last one counts, unless the type has a key: then
they are violations. What is found goes back to the splits that the rows came from.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.dataplane import tuning
from omnigraph.dataplane.load.committed import Codes, Committed, LoadBase
from omnigraph.dataplane.load.exchange import (
    ID,
    LINE,
    Keys,
    Partition,
    SentKeys,
    fetched,
    ids_channel,
)
from omnigraph.dataplane.load.judge_nodes import repeats
from omnigraph.dataplane.load.packing import numbered, unpacked
from omnigraph.dataplane.load.plan import LoadPlan, key_of
from omnigraph.dataplane.load.receipt import MatchReceipt
from omnigraph.dataplane.load.violations import collector
from omnigraph.lang.catalog.model import EntityType
from omnigraph.rules.report import gathered
from omnigraph.rules.unique import report_ids
from omnigraph.rules.violation import Violations
from omnigraph.store.table import ROW_ADDRESS, ROW_ID

MATCHED: Final = (ID, ROW_ID, ROW_ADDRESS)
_NONE: Final = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchTask:
    """Partitions whose ids are looked for among the committed ones."""

    plan: LoadPlan
    base: LoadBase
    partitions: tuple[tuple[SentKeys, ...], ...]
    is_divided: bool


def match_partitions(task: MatchTask) -> MatchReceipt:
    """Look for known entities. A task of a load."""
    plan = task.plan
    out = collector(plan)
    found: dict[int, dict[str, list[pa.Table]]] = {}
    entities = [
        entity for entity in (*plan.catalog.nodes, *plan.catalog.edges) if plan.is_matched(entity)
    ]
    with plan.worker_tables.errors():
        for partition in fetched(plan.staging, task.partitions):
            plan.stop.check()
            committed = Committed(plan, task.base, partition if task.is_divided else None)
            for entity in entities:
                for split, rows in _matched(entity, partition, committed, out):
                    found.setdefault(split, {}).setdefault(key_of(entity), []).append(rows)
        staged_parts = tuple(
            (split, plan.staging.put({key: pa.concat_tables(t) for key, t in tables.items()}))
            for split, tables in sorted(found.items())
        )
    return MatchReceipt(staged_parts=staged_parts, violations=out.settled())


def _matched(
    entity: EntityType, partition: Partition, committed: Committed, out: Violations
) -> Iterator[tuple[int, pa.Table]]:
    """Per split: the lines of known entities with their places.

    Lines that count for nothing have none; those of new entities are not mentioned.
    """
    ids = partition.keys(ids_channel(key_of(entity)))
    if not ids.count:
        return
    numbers, distinct = numbered(ids.chunks)
    codes = np.concatenate(numbers)
    lost = _NONE
    if entity.key:
        repeated = repeats(codes)
        if len(repeated):
            report_ids(entity, ids.whole(), out, repeated=repeated, taken=_NONE, origin=ids.origin)
    else:
        lost = len(codes) - 1 - repeats(codes[::-1])
    row_ids, addresses, known = _places(entity, unpacked(distinct), committed)
    matched = known[codes]
    counts = ~_mask(lost, len(codes))
    told = np.flatnonzero(matched | ~counts)
    at = codes[told]
    empty = ~counts[told]
    rows = pa.table(
        {
            ROW_ID: pa.array(row_ids[at], mask=empty),
            ROW_ADDRESS: pa.array(addresses[at], mask=empty),
        }
    )
    yield from _by_split(ids, told, rows)


def _places(
    entity: EntityType, ids: pa.Array, committed: Committed
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The row id and the address of each id, and whether it is committed at all."""
    row_ids, addresses = np.zeros(len(ids), np.uint64), np.zeros(len(ids), np.uint64)
    known = np.zeros(len(ids), np.bool_)
    pieces = committed.among(key_of(entity), MATCHED, ids)
    for tables in gathered(pieces, max(len(ids), tuning.active.gathered_rows)):
        rows = pa.concat_tables(tables)
        at = pc.index_in(rows.column(ID), value_set=ids, skip_nulls=True)
        rows = rows.filter(at.is_valid())
        codes = at.drop_null().to_numpy()
        row_ids[codes] = rows.column(ROW_ID).to_numpy()
        addresses[codes] = rows.column(ROW_ADDRESS).to_numpy()
        known[codes] = True
    return row_ids, addresses, known


def _by_split(ids: Keys, told: Codes, rows: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    start = 0
    for split, table in zip(ids.splits, ids.tables, strict=True):
        stop = start + table.num_rows
        low, high = np.searchsorted(told, [start, stop]).tolist()
        if high > low:
            lines = table.column(LINE).take(pa.array(told[low:high] - start)).cast(pa.int64())
            yield split, rows.slice(low, high - low).append_column(LINE, lines)
        start = stop


def _mask(places: Codes, count: int) -> np.ndarray:
    mask = np.zeros(count, np.bool_)
    mask[places] = True
    return mask
