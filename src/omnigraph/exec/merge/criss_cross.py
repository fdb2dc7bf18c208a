"""Merging with several merge bases, after branches were merged in both directions.

The merge is made against each base. What comes out the same against all of them is taken. An entity
for which they disagree is a conflict: against one base our side has changed it, against another one
theirs, and neither is right by itself.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from omnigraph.exec.merge.conflicts import ConflictKind, Resolving
from omnigraph.exec.merge.merged_rows import OURS
from omnigraph.exec.merge.table_merge import MergedTable, SettledConflict, TableMerge

# The cells that get their value, or the choice that settled a conflict; None for an entity that is
# deleted.
Decision = tuple[bool, ...] | str | None
_OURS: Decision = ()


def agree(plans: Sequence[tuple[TableMerge, MergedTable]], resolve: Resolving) -> MergedTable:
    """Combine the merges of one type against several bases."""
    merge, outcome = plans[0]
    decisions = [_decisions(other, result) for other, result in plans]
    for number, (_, result) in enumerate(plans[1:], 1):
        _adopt(outcome, result, decisions[number].keys() - decisions[0].keys())
    ids = outcome.keys.column("id").to_pylist()
    conflicts = {item.id for item in outcome.conflicts}
    disputed = [
        row
        for row, name in enumerate(ids)
        if name not in conflicts and len({found.get(name, _OURS) for found in decisions}) > 1
    ]
    outcome.take = np.setdiff1d(outcome.take, disputed)
    outcome.drop = np.setdiff1d(outcome.drop, disputed)
    outcome.cells[disputed] = False
    for row in disputed:
        outcome.restored.pop(row, None)
        outcome.given.pop(row, None)
    found = []
    for row, conflict in merge.described(outcome.keys, disputed, ConflictKind.DIVERGENT_UPDATE):
        choice = resolve(conflict)
        if choice is None:
            outcome.conflicts.append(conflict)
        else:
            found.append(SettledConflict(row, conflict, choice))
    merge.settle(outcome, found, resolve)
    return outcome


def _decisions(merge: TableMerge, outcome: MergedTable) -> dict[str, Decision]:
    """The decision of a merge on each entity; those that stay as ours are left out."""
    ids = outcome.keys.column("id").to_pylist()
    found: dict[str, Decision] = {ids[row]: None for row in outcome.drop.tolist()}
    rows = outcome.take
    there = np.asarray(outcome.keys.column(OURS).is_valid())[rows]
    everything = tuple([True] * outcome.cells.shape[1])
    found |= {ids[row]: everything for row in rows[~there].tolist()}
    # Of an entity that both sides have, only cells in which they differ count.
    both = rows[there]
    differ = merge.differing_cells(outcome.keys.take(pa.array(both)))
    for row, cells in zip(both.tolist(), outcome.cells[both] & differ, strict=True):
        if cells.any():
            found[ids[row]] = tuple(cells.tolist())
    found |= {ids[row]: "base" for row in outcome.restored}
    found |= {ids[row]: "value" for row in outcome.given}
    return found


def _adopt(outcome: MergedTable, other: MergedTable, names: set[str]) -> None:
    """Add entities that only another base shows as changed."""
    known = set(outcome.keys.column("id").to_pylist())
    ids = other.keys.column("id").to_pylist()
    rows = [row for row, name in enumerate(ids) if name in names and name not in known]
    if rows:
        outcome.keys = pa.concat_tables([outcome.keys, other.keys.take(pa.array(rows))])
        width = outcome.cells.shape[1]
        outcome.cells = np.vstack([outcome.cells, np.zeros((len(rows), width), bool)])
