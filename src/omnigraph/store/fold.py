"""Folding: small fragments are rewritten together, as part of a change that comes along anyway.

A table that gets one row at a time would end up with one fragment per commit, and every commit
would carry all of them. So a change that finds many small fragments takes their rows along into
one. Rows keep their identity; only the version at which they were last written moves, which no
reader of changes takes for a change of content. What an index covers is left alone, it would lose
its coverage, and so are tables with blobs, whose bytes would have to be copied.
"""

from collections.abc import Collection, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from omnigraph.store.blobs import marked
from omnigraph.store.table import ROW_ADDRESS, ROW_ID, Table

__all__ = ["fold_candidates", "rows_to_fold"]

# Fragments of similar size are folded when there are this many, so that a row is rewritten only
# once per factor of this size.
FANOUT: Final = 16
_TIERS: Final = (FANOUT, FANOUT**2, FANOUT**3)
_BYTES_MAX: Final = 64 << 20


def fold_candidates(table: Table, fragments: Sequence[Any]) -> tuple[int, ...]:
    """Name the fragments to fold into the next change; usually none."""
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
        if len(top) >= FANOUT and _bytes(tier) <= _BYTES_MAX:
            return tuple(sorted(fragment.id for fragment in tier))
    return ()


def rows_to_fold(table: Table, chosen: Collection[int], dead: Any) -> pa.Table:
    """Read the rows of the chosen fragments, without those that the change removes.

    They are ordered by identity: every version lists the identities, runs of them in a few bytes.
    """
    others = [fragment for fragment in table.fragment_ids() if fragment not in set(chosen)]
    rows = table.scan_new_fragments(others, table.schema.names).sort_by(ROW_ID)
    if not len(dead):
        return rows
    keep = ~np.isin(np.asarray(rows.column(ROW_ADDRESS).cast(pa.uint64())), dead)
    return rows.filter(pa.array(keep))


def _bytes(fragments: Sequence[Any]) -> int:
    return sum(int(file.file_size_bytes or 0) for f in fragments for file in f.files)
