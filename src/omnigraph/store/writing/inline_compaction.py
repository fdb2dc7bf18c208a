"""Inline compaction: a change of a table also rewrites small fragments of it into one.

A table that gets one row at a time would end up with one fragment per commit, and every commit
would carry all of them. So a change that finds many small fragments writes their rows again, in
one. Rows keep their identity; only the version at which they were last written moves, which no
reader of changes takes for a change of content. What an index covers is left alone, it would lose
its coverage, and so are tables with blobs, whose bytes would have to be copied.

Every version also lists, for every fragment, the versions that created its rows: a run for each
commit that inserted some. Where a compaction has left many runs, a later change rounds them down to
the oldest one. Lance derives this list for fragments that it adds and takes it as given for those
that are there, so it takes a second change.
"""

import dataclasses
import json
from collections.abc import Collection, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from lance.fragment import RowDatasetVersionMeta

from omnigraph.store import tuning
from omnigraph.store.blobs import marked
from omnigraph.store.table import CREATED_AT, ROW_ADDRESS, ROW_ID, Table
from omnigraph.store.versions.protobuf import BYTES, VARINT, encoded

__all__ = ["created_at_once", "fragments_to_compact", "rows_to_compact", "scattered_creation"]

# Fragments of similar size are compacted when there are this many, so that a row is rewritten only
# once per factor of this size.
FANOUT: Final = 16
_TIERS: Final = (FANOUT, FANOUT**2, FANOUT**3)

# A fragment that lists more characters than this has more runs of creation than one compaction of
# single rows brings together. A run takes 10 to 20 numbers of one to three digits.
_CREATION_CHARS_MAX: Final = 80 * FANOUT


def fragments_to_compact(table: Table, fragments: Sequence[Any]) -> tuple[int, ...]:
    """Name the fragments that the next change compacts; usually none."""
    if len(fragments) < FANOUT or marked(table.schema):
        return ()
    small = [fragment for fragment in fragments if fragment.num_rows < _TIERS[-1]]
    if len(small) < FANOUT:
        return ()
    covered: set[int] = set()
    for index in table.indexes():
        covered |= index.fragments
    free = [fragment for fragment in small if fragment.id not in covered]
    for rows_max in reversed(_TIERS):
        tier = [f for f in free if f.num_rows < rows_max]
        top = [f for f in tier if f.num_rows >= rows_max // FANOUT]
        if len(top) >= FANOUT and _bytes(tier) <= tuning.active.rewritten_bytes_max:
            return tuple(sorted(fragment.id for fragment in tier))
    return ()


def rows_to_compact(table: Table, chosen: Collection[int], dead: Any) -> pa.Table:
    """Read the rows of the chosen fragments, without those that the change removes.

    They are ordered by identity: every version lists the identities, runs of them in a few bytes.
    """
    others = [fragment for fragment in table.fragment_ids() if fragment not in set(chosen)]
    rows = table.scan_new_fragments(others, table.schema.names)
    if rows.nbytes > tuning.active.gathered_bytes_max:
        return _in_order(rows, dead)
    rows = rows.sort_by(ROW_ID)
    if not len(dead):
        return rows
    keep = ~np.isin(np.asarray(rows.column(ROW_ADDRESS).cast(pa.uint64())), dead)
    return rows.filter(pa.array(keep))


def _in_order(rows: pa.Table, dead: Any) -> pa.Table:
    """Order rows by identity and leave out dead ones, without copying: by slices."""
    addresses = np.asarray(rows.column(ROW_ADDRESS).cast(pa.uint64()))
    order = np.argsort(np.asarray(rows.column(ROW_ID)), kind="stable")
    order = order[~np.isin(addresses[order], dead)]
    starts = np.flatnonzero(np.diff(order, prepend=-2) != 1)
    lengths = np.diff(starts, append=len(order))
    slices = [
        rows.slice(int(order[start]), int(length))
        for start, length in zip(starts, lengths, strict=True)
    ]
    return pa.concat_tables(slices) if slices else rows.slice(0, 0)


def scattered_creation(fragments: Sequence[Any]) -> list[Any]:
    """Return the fragments whose rows many versions created."""
    return [
        fragment
        for fragment in fragments
        if (created := fragment.created_at_version_meta) is not None
        and len(created.json()) > _CREATION_CHARS_MAX
    ]


def created_at_once(table: Table, fragment: Any) -> Any:
    """Return a fragment with its rows created in the oldest version that created one of them.

    The rows that were written since a version are found by when they were last written, which stays
    exact; that a row is new, by whether the older version has it.
    """
    reader = table.scan([CREATED_AT], fragments=[fragment.id])
    oldest = min((pc.min(batch.column(0)).as_py() for batch in reader if batch.num_rows), default=0)
    if not oldest:
        return fragment
    row_ids = encoded([(1, BYTES, encoded([(2, VARINT, int(fragment.physical_rows))]))])
    run = encoded([(1, BYTES, row_ids), (2, VARINT, oldest)])
    listed = {"inline": list(encoded([(1, BYTES, run)]))}
    created = RowDatasetVersionMeta.from_json(json.dumps(listed))
    return dataclasses.replace(fragment, created_at_version_meta=created)


def _bytes(fragments: Sequence[Any]) -> int:
    return sum(int(file.file_size_bytes or 0) for f in fragments for file in f.files)
