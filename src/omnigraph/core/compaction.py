"""Compacting tables: a write that changes no row, published like any other."""

from __future__ import annotations

from typing import Final

from omnigraph.core.engine import Engine
from omnigraph.core.publish import Published
from omnigraph.core.recovery.intent import WriterKind
from omnigraph.core.write import Prepared, TableWrite
from omnigraph.types import MAIN, BranchName

TARGET_ROWS: Final = 1 << 20


def compact_tables(
    engine: Engine,
    branch: BranchName = MAIN,
    *,
    target_rows: int = TARGET_ROWS,
    actor: str | None = None,
) -> Published | None:
    """Compact every table of a branch in one commit; None when there was nothing to gain."""
    base = engine.snapshot(branch)
    writes: list[TableWrite] = []
    for key in sorted(base.tables):
        table = engine.table(base.pin(key))
        if len(table.fragment_ids()) < 2:
            continue
        target = engine.writable_table(base, key)
        staged = engine.tables.stage_compaction(
            target, target_rows=target_rows, uuid=engine.ids.new()
        )
        if staged is not None:
            writes.append(TableWrite(table_key=key, staged=(staged,)))
    if not writes:
        return None
    return engine.commit(
        Prepared(base=base, kind=WriterKind.OPTIMIZE, tables=tuple(writes), actor=actor)
    )
