"""Merging with several merge bases, after branches were merged in both directions.

The merge is made against each base. What comes out the same against all of them is taken. If an
entity comes out differently, the base counts that has changed it since the commit that both bases
come from. If both have, or that commit is not known, the entity is a conflict: against one base our
side has changed it, against another one theirs, and neither is right by itself.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.core.repository import Repository
from omnigraph.core.schema.alignment import type_state
from omnigraph.dataplane.changes.table_changes import AFTER, BEFORE
from omnigraph.exec.changes.diff import table_changes
from omnigraph.exec.merge.conflicts import ConflictKind, Resolving
from omnigraph.exec.merge.merged_rows import OURS, addresses_of
from omnigraph.exec.merge.schemas import TypeSides
from omnigraph.exec.merge.table_merge import MergedTable, SettledConflict, TableMerge

# The cells that get their value, or the choice that settled a conflict, or that nothing did; None
# for an entity that is deleted.
Decision = tuple[bool, ...] | str | None
_OURS: Final[Decision] = ()
_CONFLICT: Final = "conflict"


def agree(
    plans: Sequence[tuple[TableMerge, MergedTable]],
    changed: Sequence[Collection[str]],
    resolve: Resolving,
) -> MergedTable:
    """Combine the merges of one type against several bases.

    Args:
        plans: The merges, the one against the latest base first.
        changed: For each base, the entities that it has changed; empty if that is not known.
        resolve: Settles what is in dispute.
    """
    merge, outcome = plans[0]
    decisions = [_decisions(other, result) for other, result in plans]
    for number, (_, result) in enumerate(plans[1:], 1):
        _adopt(merge, outcome, result, decisions[number].keys() - decisions[0].keys())
    taken: dict[int, Decision] = {}
    disputed = []
    ids = outcome.keys.column("id").to_pylist()
    for row in sorted(range(len(ids)), key=ids.__getitem__):
        name = ids[row]
        found = [each.get(name, _OURS) for each in decisions]
        chosen = [number for number, names in enumerate(changed) if name in names]
        if len(set(found)) == 1 or chosen == [0]:
            continue
        decision = found[chosen[0]] if len(chosen) == 1 else _CONFLICT
        if not isinstance(decision, str):
            taken[row] = decision
        elif found[0] != _CONFLICT:
            disputed.append(row)
    _assign(outcome, taken | dict.fromkeys(disputed, _OURS))
    settled = []
    for row, conflict in merge.described(outcome.keys, disputed, ConflictKind.DIVERGENT_UPDATE):
        choice = resolve(conflict)
        if choice is None:
            outcome.conflicts.append(conflict)
        else:
            settled.append(SettledConflict(row, conflict, choice))
    merge.settle(outcome, settled, resolve)
    return outcome


def changed_since(
    repo: Repository, root: GraphVersion | None, sides: Sequence[TypeSides]
) -> list[set[str]]:
    """For each merge base, the entities of a type that it has changed since a state."""
    if root is None:
        return []
    entity = sides[0].entity
    before = type_state(root, repo.schema(root).catalog, entity)
    found = []
    for side in sides:
        ids: list[str] = []
        if side.base is not None:
            diff = repo.type_diff(before, side.base, entity)
            ids = table_changes(diff, entity).keys().keys.column("id").to_pylist()
        found.append(set(ids))
    return found


def _assign(outcome: MergedTable, decisions: Mapping[int, Decision]) -> None:
    """Put decisions of another merge in the place of those on some rows."""
    rows = list(decisions)
    outcome.settled.update(rows)
    ids = set(outcome.keys.column("id").take(pa.array(rows, pa.int64())).to_pylist())
    outcome.conflicts = [item for item in outcome.conflicts if item.id not in ids]
    outcome.take = np.setdiff1d(outcome.take, rows)
    outcome.drop = np.setdiff1d(outcome.drop, rows)
    outcome.cells[rows] = False
    for row, decision in decisions.items():
        outcome.restored.pop(row, None)
        outcome.given.pop(row, None)
        if decision is None:
            outcome.drop = np.union1d(outcome.drop, [row])
        elif decision != _OURS:
            outcome.cells[row] = decision
            outcome.take = np.union1d(outcome.take, [row])


def _decisions(merge: TableMerge, outcome: MergedTable) -> dict[str, Decision]:
    """The decision of a merge on each entity; those that stay as ours are left out."""
    ids = outcome.keys.column("id").to_pylist()
    found: dict[str, Decision] = {ids[row]: None for row in outcome.drop.tolist()}
    rows = outcome.take
    there = np.asarray(outcome.keys.column(OURS).is_valid())[rows]
    everything = tuple([True] * outcome.cells.shape[1])
    found |= {ids[row]: everything for row in rows[~there].tolist()}
    # Of an entity that both sides have, only cells in which they differ count.
    both = rows[there & np.asarray(outcome.keys.column(AFTER).is_valid())[rows]]
    differ = merge.differing_cells(outcome.keys.take(pa.array(both)))
    for row, cells in zip(both.tolist(), outcome.cells[both] & differ, strict=True):
        if cells.any():
            found[ids[row]] = tuple(cells.tolist())
    found |= {ids[row]: "base" for row in outcome.restored}
    found |= {ids[row]: "value" for row in outcome.given}
    return found | {str(item.id): _CONFLICT for item in outcome.conflicts}


def _adopt(merge: TableMerge, outcome: MergedTable, other: MergedTable, names: set[str]) -> None:
    """Add entities that only another base shows as changed, with their rows at this one."""
    known = set(outcome.keys.column("id").to_pylist())
    ids = other.keys.column("id").to_pylist()
    rows = [row for row, name in enumerate(ids) if name in names and name not in known]
    if rows:
        found = other.keys.take(pa.array(rows))
        # Since this base their side has not changed them: what it has was there already.
        there = found.column("id").filter(found.column(AFTER).is_valid()).combine_chunks()
        base = addresses_of(merge.versions.base, there) if len(there) else {}
        before = [base.get(name) for name in found.column("id").to_pylist()]
        place = found.schema.get_field_index(BEFORE)
        found = found.set_column(place, BEFORE, pa.array(before, pa.uint64()))
        outcome.keys = pa.concat_tables([outcome.keys, found])
        width = outcome.cells.shape[1]
        outcome.cells = np.vstack([outcome.cells, np.zeros((len(rows), width), bool)])
