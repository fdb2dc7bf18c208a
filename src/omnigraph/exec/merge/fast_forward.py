"""Fast-forwards of tables by their files.

A fast-forward gives the target the state of the source. Of a type that has changed a lot, the files
of the source are taken over; their rows are neither read nor written. Few rows are sooner copied.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.core.repository import Repository
from omnigraph.core.write import TableWrite
from omnigraph.dataplane.counts import ChangeCounts
from omnigraph.exec import tuning
from omnigraph.exec.changes.diff import table_changes
from omnigraph.exec.merge.schemas import TypeSides
from omnigraph.store.model import DeletionReceipt
from omnigraph.store.reading.table_diff import RowSelection, TableDiff
from omnigraph.store.table import ROW_ADDRESS


@dataclass(frozen=True, slots=True, eq=False)
class TakenOver:
    """A type whose files are taken over.

    Attributes:
        key: The key of its table.
        diff: The rows that go and those that come.
        counts: What that changes. A table that was loaded anew as a whole is not compared with
            what it replaces: all of its rows count as deleted and inserted.
    """

    key: str
    diff: TableDiff
    counts: ChangeCounts


def taken_over(repo: Repository, sides: TypeSides) -> TakenOver | None:
    """Plan to take the files of one type over; None when its rows are to be copied."""
    ours, theirs, key = sides.ours, sides.theirs, sides.our_key
    if ours is None or theirs is None or not sides.is_native or ours.pin == theirs.pin:
        return None
    diff = repo.type_diff(ours, theirs, sides.entity)
    if diff.added.count < tuning.active.fast_forward_rows_min:
        return None
    if not repo.tables.fragment_copier.can_copy(repo.tables.open(ours.pin), diff.added):
        return None
    if _is_loaded_anew(diff):
        counts = ChangeCounts(inserted=diff.added.count, deleted=diff.removed.count)
        return TakenOver(key, diff, counts)
    counts = table_changes(diff, sides.entity).counts()
    # After a compaction most of the rows have only moved, and are better left where they are.
    return TakenOver(key, diff, counts) if 2 * counts.total >= diff.added.count else None


def stage(repo: Repository, ours: GraphVersion, item: TakenOver) -> TableWrite:
    """Take the files over; nothing refers to them yet."""
    # On a branch the first write forks the table; the rows keep their places there.
    table = repo.writable_table(ours, item.key)
    removed, uuid = item.diff.removed, repo.ids.new()
    receipts = repo.tables.fragment_copier.copy(table, item.diff.added)
    if removed.count == table.row_count:
        staged = repo.tables.stage_replacement(table, receipts, uuid=uuid)
        return TableWrite(table_key=item.key, staged=(staged,))
    folded = repo.tables.fragments_to_compact(table)
    held = [_live_rows(removed, number) for number in removed.fragments if number in folded]
    gone = DeletionReceipt(
        removed=tuple(number for number in removed.fragments if number not in folded),
        held=np.concatenate([np.empty(0, np.uint64), *held]).tobytes(),
    )
    changed = repo.tables.stage_fragments(
        table,
        receipts,
        deletes=pa.table({ROW_ADDRESS: pa.array(removed.addresses)}),
        deleted=[gone],
        uuid=uuid,
    )
    assert changed is not None, "rows are added"
    return TableWrite(table_key=item.key, staged=(changed,))


def _live_rows(rows: RowSelection, number: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint64]]:
    """The addresses of all rows of a fragment."""
    fragment = rows.rows.fragments[number]
    everything = np.arange(int(fragment.handle.metadata.physical_rows), dtype=np.uint32)
    return fragment.addresses(np.setdiff1d(everything, rows.rows.deleted(fragment)))


def _is_loaded_anew(diff: TableDiff) -> bool:
    """True if all rows were replaced, none of them by a new copy of itself."""
    if diff.shared or not diff.is_same_history:
        return False
    first, last = diff.added.row_id_range(), diff.removed.row_id_range()
    return last is None or (first is not None and first[0] > last[1])
