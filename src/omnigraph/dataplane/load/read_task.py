"""Reading splits: rows become entities, are judged one by one, and are written or spilled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.dataplane.decode.model import Decoded, DecodeStats
from omnigraph.dataplane.decode.pack import decode_pack
from omnigraph.dataplane.load.entities import (
    Entities,
    decode_spec,
    emit_ends,
    emit_ids,
    emit_values,
    identified,
    with_defaults,
)
from omnigraph.dataplane.load.exchange import KEY, LINE, Emitter, claims_channel
from omnigraph.dataplane.load.fingerprint import NOTHING, fingerprint, total
from omnigraph.dataplane.load.plan import LoadPlan, key_of
from omnigraph.dataplane.load.receipt import ReadReceipt
from omnigraph.dataplane.load.vectors import (
    TaskVectors,
    for_judging,
    pending_of_new,
    pieces,
)
from omnigraph.dataplane.load.violations import LoadViolations, collector
from omnigraph.dataplane.load.writing import Writer
from omnigraph.dataplane.source.model import Pieces, SplitPack
from omnigraph.dataplane.staging import StagedPart
from omnigraph.rules.rows import judge_rows
from omnigraph.rules.violation import Violations

ABSENT: Final = "absent "  # in front of the name of a column


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTask:
    """Splits to read."""

    plan: LoadPlan
    pack: SplitPack
    is_alone: bool = False  # the load has no other


def read_pack(task: ReadTask) -> ReadReceipt:
    """Read splits. A task of a load: it may run more than once, and only its receipt counts."""
    pack, plan = task.pack, task.plan
    plan.worker_tables.require_seen()
    out, stats = collector(plan, pack.number), DecodeStats()
    pieces: list[Pieces] = []
    with plan.worker_tables.errors():
        return stage_rows(
            plan,
            pack.number,
            decode_pack(pack.parts, decode_spec(plan), out, stats, pieces),
            stats,
            lambda: tuple(pieces),
            out=out,
            is_alone=task.is_alone,
        )


def stage_rows(
    plan: LoadPlan,
    split_number: int,
    decoded: Iterator[Decoded],
    stats: DecodeStats,
    files: Callable[[], tuple[Pieces, ...]],
    *,
    out: LoadViolations | None = None,
    is_alone: bool = False,
) -> ReadReceipt:
    """Take decoded rows as far as they get without a look at those of other tasks.

    Args:
        plan: The load.
        split_number: No two tasks have the same, and their order is that of the input.
        decoded: The rows.
        stats: What the decoder counts.
        files: Tells, once all rows are decoded, which files they came from.
        out: Where the decoder reports what breaks a rule, made by `collector` for this split.
        is_alone: The load has no other split.
    """
    found = collector(plan, split_number) if out is None else out
    with Writer(plan) as writer:
        reading = _Reading(plan, split_number, found, writer, is_alone=is_alone)
        for item in decoded:
            plan.stop.check()
            reading.take(item)
        return reading.receipt(stats, files())


@dataclass(slots=True)
class _Spill:
    """Rows that wait to be spilled, by table key."""

    tables: dict[str, list[pa.Table]] = field(default_factory=dict)
    bytes: int = 0


class _Reading:
    """One split while it is read."""

    def __init__(
        self,
        plan: LoadPlan,
        split: int,
        out: LoadViolations,
        writer: Writer,
        *,
        is_alone: bool,
    ) -> None:
        self._plan = plan
        self._split = split
        self._out = out
        self._writer = writer
        self._emitter = Emitter(plan.staging, plan.partitions, is_alone=is_alone)
        self._present: dict[str, int] = {}
        self._spill = _Spill()
        self._spilled: list[StagedPart] = []
        self._vectors = TaskVectors(plan)
        self._fingerprint = NOTHING

    def take(self, decoded: Decoded) -> None:
        """Take the rows of one block and one type."""
        entity, plan = decoded.entity, self._plan
        key = key_of(entity)
        self._present[key] = self._present.get(key, 0) + len(decoded.lines)
        if decoded.claimed:
            claimed = pa.table({KEY: pa.array(decoded.claimed, pa.string())})
            self._emitter.add(claims_channel(key), claimed)
        if not decoded.rows.num_rows:
            return
        if plan.fingerprints:
            self._fingerprint = total((self._fingerprint, fingerprint(decoded)))

        def origin(row: int) -> tuple[str, int]:
            return "", int(decoded.lines[row])

        entities = identified(plan.load_id, self._split, decoded, self._out, origin)
        emit_ids(entities, self._emitter)
        if not plan.is_matched(entity):
            self._insert(entities)
            return
        known = entities.names.is_valid()
        self._wait(entities.filter(known) if entities.names.null_count else entities)
        if entities.names.null_count:
            self._insert(entities.filter(pc.invert(known)))

    def receipt(self, stats: DecodeStats, files: tuple[Pieces, ...]) -> ReadReceipt:
        """Finish; return what was made."""
        self._put_spill()
        if self._out:
            self._writer.give_up()
        fragments = self._writer.close()
        staged_parts = self._emitter.close()
        return ReadReceipt(
            split=self._split,
            pieces=files,
            bytes=stats.bytes,
            present=self._present,
            fragments=fragments,
            spilled=tuple(self._spilled),
            staged_parts=staged_parts,
            partitions=self._emitter.partitions,
            violations=self._out.settled(),
            missing=self._vectors.missing,
            fingerprint=self._fingerprint,
        )

    def _insert(self, entities: Entities) -> None:
        """Judge and write entities that are new."""
        if not entities.rows.num_rows:
            return
        for piece in pieces(self._plan, entities):
            insert(with_defaults(piece), self._out, self._emitter, self._writer, self._vectors)

    def _wait(self, entities: Entities) -> None:
        """Put rows aside until it is known which of them are there already."""
        if not entities.rows.num_rows:
            return
        rows = entities.rows.append_column(LINE, pa.array(entities.lines))
        for column, mask in entities.absent.items():
            rows = rows.append_column(f"{ABSENT}{column}", mask)
        waiting = self._spill
        waiting.tables.setdefault(key_of(entities.entity), []).append(rows)
        waiting.bytes += rows.nbytes
        if waiting.bytes >= self._plan.fragment_bytes:
            self._put_spill()

    def _put_spill(self) -> None:
        waiting, self._spill = self._spill, _Spill()
        if waiting.tables:
            content = {
                key: pa.concat_tables(tables, promote_options="default")
                for key, tables in waiting.tables.items()
            }
            self._spilled.append(self._plan.staging.put(content))


def insert(
    entities: Entities, out: Violations, emitter: Emitter, writer: Writer, vectors: TaskVectors
) -> None:
    """Judge new entities one by one, emit what later stages need of them, and write them."""
    lines, rows = entities.lines, entities.rows
    pending = pending_of_new(entities)

    def origin(row: int) -> tuple[str, int]:
        return "", int(lines[row])

    judged = for_judging(rows, pending)
    judge_rows(entities.entity, judged, out, origin, ids=entities.names)
    emit_ends(entities, emitter)
    emit_values(entities, emitter)
    if out:
        writer.give_up()
    elif not writer.is_off:
        # Computing vectors costs the most, so it is done for what will be written only.
        rows = vectors.computed(entities.entity, rows, pending)
        writer.add(key_of(entities.entity), rows)
