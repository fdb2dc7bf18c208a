"""Merging with several merge bases, after branches were merged in both directions.

The merge is made against each base. If only one base has changed an entity since the commit that
all bases come from, the merge against that base decides about it, conflicts included. What comes
out the same against all bases is taken. Any other entity is a conflict: against one base our side
has changed it, against another one theirs, and neither is right by itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import count
from typing import Final

import numpy as np
import pyarrow as pa

from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.core.repository import Repository
from omnigraph.core.schema.alignment import type_state
from omnigraph.dataplane.changes.table_changes import AFTER, BEFORE
from omnigraph.exec.changes.diff import table_changes
from omnigraph.exec.merge.conflicts import Choice, ConflictKind, MergeConflict, Resolving
from omnigraph.exec.merge.merged_rows import OURS, addresses_of
from omnigraph.exec.merge.schemas import TypeSides
from omnigraph.exec.merge.table_merge import MergedTable, SettledConflict, TableMerge

# The cells that get their value, or the choice that settled a conflict, or that nothing did; None
# for an entity that is deleted.
Decision = tuple[bool, ...] | str | None
_OURS: Final[Decision] = ()
_CONFLICT: Final = "conflict"


def agree(
    merges: Sequence[TableMerge],
    changed: Sequence[Collection[str]],
    resolve: Resolving,
    *,
    by_row: bool,
) -> MergedTable:
    """Merge one type against several bases.

    Args:
        merges: The merges of the type, the one against the latest base first.
        changed: For each base, the entities that it has changed; empty if that is not known.
        resolve: Settles conflicts.
        by_row: Whether all columns of an entity change together.
    """
    merge, *others = merges
    deciding = _deciding(changed)

    def asked(number: int) -> Resolving:
        """Asks about what one base decides; where none does, the latest one is asked first."""

        def choice(conflict: MergeConflict) -> Choice | None:
            name = str(conflict.id)
            if deciding.get(name, 0) == number:
                return resolve(conflict)
            known = None if name in deciding else resolve.again(conflict)
            is_same = isinstance(known, str) or set(known or ()) == set(conflict.properties)
            return known if is_same else None

        return Resolving(choice, resolve.place)

    outcome = merge.merged(asked(0), by_row=by_row)
    results = [outcome, *(each.merged(asked(n), by_row=by_row) for n, each in enumerate(others, 1))]
    decisions = [_decisions(*each) for each in zip(merges, results, strict=True)]
    for number, result in enumerate(results[1:], 1):
        _adopt(merge, outcome, result, decisions[number].keys() - decisions[0].keys())
    disputed: list[int] = []
    decided: dict[int, list[str]] = {number: [] for number in range(1, len(results))}
    rows = _rows_of(outcome)
    for name in sorted(rows):
        found = [each.get(name, _OURS) for each in decisions]
        if name not in deciding:
            if len(set(found)) > 1 and found[0] != _CONFLICT:
                disputed.append(rows[name])
        elif deciding[name] and (len(set(found)) > 1 or isinstance(found[0], str)):
            decided[deciding[name]].append(name)
    for number, names in decided.items():
        _decide(outcome, rows, names, merges[number], results[number])
    _leave(outcome, disputed)
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


def _deciding(changed: Sequence[Collection[str]]) -> dict[str, int]:
    """The base that decides about an entity: the only one that has changed it."""
    times = Counter(name for names in changed for name in names)
    return {
        name: number for number, names in enumerate(changed) for name in names if times[name] == 1
    }


def _rows_of(outcome: MergedTable) -> dict[str, int]:
    return dict(zip(outcome.keys.column("id").to_pylist(), count(), strict=False))


def _leave(outcome: MergedTable, rows: Sequence[int]) -> None:
    """Leave some entities as our side has them."""
    outcome.settled.update(rows)
    ids = set(outcome.keys.column("id").take(pa.array(rows, pa.int64())).to_pylist())
    outcome.conflicts = [item for item in outcome.conflicts if item.id not in ids]
    outcome.take = np.setdiff1d(outcome.take, rows)
    outcome.drop = np.setdiff1d(outcome.drop, rows)
    outcome.cells[rows] = False
    for row in rows:
        outcome.restored.pop(row, None)
        outcome.given.pop(row, None)


def _decide(
    outcome: MergedTable,
    rows: Mapping[str, int],
    names: Sequence[str],
    other: TableMerge,
    result: MergedTable,
) -> None:
    """Put what the merge against another base makes of some entities in the place of the first."""
    _leave(outcome, [rows[name] for name in names])
    known = _rows_of(result)
    places = {known[name]: rows[name] for name in names if name in known}
    chosen = set(names)
    outcome.conflicts += [item for item in result.conflicts if item.id in chosen]
    taken = {place: places[place] for place in result.take.tolist() if place in places}
    dropped = [places[place] for place in result.drop.tolist() if place in places]
    outcome.take = np.union1d(outcome.take, np.array([*taken.values()], np.int64))
    outcome.drop = np.union1d(outcome.drop, np.array(dropped, np.int64))
    is_ours = outcome.keys.column(OURS).is_valid().to_pylist()
    for place, row in taken.items():
        outcome.cells[row] = result.cells[place]
        values = {**other.base_values(result, place), **result.given.get(place, {})}
        if values:
            outcome.given[row] = values
            outcome.cells[row] |= not is_ours[row]  # a row that has no values of our side
    outcome.doubtful |= {places[place] for place in result.doubtful if place in places}


def _decisions(merge: TableMerge, outcome: MergedTable) -> dict[str, Decision]:
    """The decision of a merge on each entity; those that stay as ours are left out."""
    ids = outcome.keys.column("id").to_pylist()
    found: dict[str, Decision] = {ids[row]: None for row in outcome.drop.tolist()}
    rows = outcome.take
    there = np.asarray(outcome.keys.column(OURS).is_valid())[rows]
    # The entity itself counts, too: its type may have no cells.
    everything = (True,) * (1 + outcome.cells.shape[1])
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
