"""Merging by key: a change that inserts rows, or puts them in the place of rows of the same key.

It is staged and landed like every other change of a table: the version that follows its base, or
nothing. So a merge from a base that is no longer the newest is refused, whatever the keys.

A table that is merged into a few rows at a time would get a fragment for each change. Instead a
change takes the rows of small fragments along into its own: those of the smallest size always, and
those of each larger size when there are ``absorbed_fanout`` of them. So there are few fragments, no
compaction is needed, and a row is rewritten a number of times that grows with the logarithm of the
table.
"""

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.store import tuning
from omnigraph.store.blobs import marked
from omnigraph.store.model import Staged, StagedKind
from omnigraph.store.table import ROW_ADDRESS, ROW_ID, Table
from omnigraph.store.versions.files import Files
from omnigraph.store.versions.gateway import transaction, tree_path
from omnigraph.store.writing.stage import Stager, change_operation, fragment_of

__all__ = ["RowMerger", "fragments_to_rewrite"]


class RowMerger:
    """Stages merges. No head moves."""

    def __init__(self, stager: Stager, files: Files) -> None:
        self._stager = stager
        self._files = files

    def stage(self, table: Table, key: str, rows: pa.Table, lookup: Collection[str]) -> Staged:
        """Write rows for the place of those of the same key, or beside all others.

        Args:
            table: The base.
            key: The column that identifies a row; ``rows`` has each value once.
            rows: The new rows.
            lookup: The keys that the base may have. The others are known to be new.
        """
        place = tree_path(table.pin.path, table.pin.branch)
        current = [fragment.metadata for fragment in table.dataset.get_fragments()]
        absorbed = fragments_to_rewrite(table, current)
        left = [fragment.id for fragment in current if fragment.id not in absorbed]
        # Read first: the newest row of a key is most often in the newest fragment.
        around = table.scan_new_fragments(left, table.schema.names)
        keys = pa.array(sorted(lookup), table.schema.field(key).type)
        replaced = pc.is_in(around.column(key), value_set=keys)
        found = frozenset(around.column(key).filter(replaced).to_pylist())
        elsewhere = _addresses(table, key, left, frozenset(lookup) - found)
        kept = around.filter(pc.invert(replaced))
        content = pa.concat_tables(
            [kept.drop_columns([ROW_ID, ROW_ADDRESS]), rows.select(table.schema.names)]
        )
        row_ids = kept.column(ROW_ID).to_pylist() if table.has_row_versions else None
        written = self._stager.write(table, content, row_ids)
        changed, removed = self._stager.deletion_writer.write(table, elsewhere)
        deletions = self._files.of_deletions(place, changed)
        self._files.sync(place, deletions)
        change = transaction(
            expected=table.pin.version,
            operation=change_operation(
                table,
                current=current,
                changed=changed,
                removed=[*removed, *sorted(absorbed)],
                new=[fragment_of(receipt) for receipt in written],
            ),
        )
        dead = len(found) + len(elsewhere)
        return Staged(
            path=table.pin.path,
            branch=table.pin.branch,
            expected=table.pin.version,
            uuid=change.uuid,
            kind=StagedKind.UPDATE if current else StagedKind.OVERWRITE,
            rows_after=table.row_count + rows.num_rows - dead,
            rows_inserted=rows.num_rows - dead,
            rows_updated=dead,
            files=(*(file for receipt in written for file in receipt.files), *deletions),
            base_uuid=self._stager.base_uuid(table),
            transaction=change,
        )


def fragments_to_rewrite(table: Table, fragments: Sequence[Any]) -> frozenset[int]:
    """Name the fragments whose rows the next merge takes along."""
    if marked(table.schema):
        return frozenset()
    covered = frozenset().union(*(index.fragments for index in table.indexes()))
    free = [fragment for fragment in fragments if fragment.id not in covered]
    chosen = [fragment for fragment in free if fragment.num_rows < tuning.active.absorbed_rows]
    low = tuning.active.absorbed_rows
    while tier := [f for f in free if low <= f.num_rows < low * tuning.active.absorbed_fanout]:
        if (
            len(tier) < tuning.active.absorbed_fanout
            or _bytes(chosen) + _bytes(tier) > tuning.active.rewritten_bytes_max
        ):
            break
        chosen.extend(tier)
        low *= tuning.active.absorbed_fanout
    return frozenset(fragment.id for fragment in chosen)


def _addresses(table: Table, key: str, fragments: Collection[int], wanted: Collection[str]) -> Any:
    """Return where rows are, by key. Looks into the newest fragment first."""
    missing = set(wanted)
    found = [np.empty(0, np.uint64)]
    newest_first = sorted(fragments, reverse=True)
    for part in (newest_first[:1], newest_first[1:]):
        if not missing or not part:
            break
        # No filter: to plan one takes longer than to read a column of so few rows.
        rows = table.scan([key], row_address=True, fragments=part).read_all()
        keys = pa.array(sorted(missing), rows.schema.field(key).type)
        rows = rows.filter(pc.is_in(rows.column(key), value_set=keys))
        missing.difference_update(rows.column(key).to_pylist())
        found.append(np.asarray(rows.column(ROW_ADDRESS).cast(pa.uint64())))
    return np.concatenate(found)


def _bytes(fragments: Sequence[Any]) -> int:
    return sum(int(file.file_size_bytes or 0) for f in fragments for file in f.files)
