"""Rules of the schema that the merged state would break, as conflicts, and how they are settled.

A unique or a value rule is settled for the entity that breaks it: by the values of one side, of the
base, or by others. By a side, both entities that have a value get what that side has, where they
have values of their own. A cardinality is settled for the source: only the edges count that one
side has inserted and deleted there.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.core.layout import table_key
from omnigraph.dataplane.changes.table_changes import AFTER, BEFORE
from omnigraph.exec.merge.conflicts import SIDES, Choice, ConflictKind, MergeConflict, Resolving
from omnigraph.exec.merge.merged_rows import OURS
from omnigraph.exec.merge.table_merge import SettledConflict
from omnigraph.exec.merge.type_merge import TypeMerge, Types
from omnigraph.lang.catalog.model import EdgeType
from omnigraph.rules.violation import Rule, Violation
from omnigraph.store.reading.row_addresses import AddressedRows

_KINDS: Final = {
    Rule.UNIQUE: ConflictKind.UNIQUE_VIOLATION,
    Rule.KEY: ConflictKind.UNIQUE_VIOLATION,
    Rule.CARDINALITY: ConflictKind.CARDINALITY_VIOLATION,
}


@dataclass(frozen=True, slots=True)
class BrokenRule:
    """A rule that the merged state would break.

    Attributes:
        conflict: The conflict.
        holder: Of a value that is to be unique, the other entity that has it.
        is_short: A source has too few edges.
    """

    conflict: MergeConflict
    holder: str | None = None
    is_short: bool = False


def described(types: Types, violation: Violation) -> BrokenRule:
    """A violation as a conflict, with the states of its entity on all sides."""
    item = types[f"{violation.kind}:{violation.type_name}"]
    conflict = MergeConflict(
        kind=_KINDS.get(violation.rule, ConflictKind.VALUE_CONSTRAINT_VIOLATION),
        entity_kind=str(violation.kind),
        type=str(violation.type_name),
        id=violation.id,
        properties=violation.properties,
        message=violation.message,
    )
    name = str(violation.id)
    if conflict.kind is ConflictKind.CARDINALITY_VIOLATION:
        ours, theirs = _Edges.of(item, name, ours=True), _Edges.of(item, name, ours=False)
        edge = item.merge.entity
        assert isinstance(edge, EdgeType)
        assert isinstance(violation.value, int), "the number of edges"
        is_short = violation.value < edge.cardinality.low
        return BrokenRule(replace(conflict, ours=ours.shown, theirs=theirs.shown), None, is_short)
    ((_, states),) = item.merge.described(item.key_of(name), [0], conflict.kind)
    conflict = replace(conflict, base=states.base, ours=states.ours, theirs=states.theirs)
    return BrokenRule(conflict, violation.holder)


def settle_broken_rules(types: Types, broken: Sequence[BrokenRule], resolve: Resolving) -> bool:
    """Settle what can be settled; True when something has changed and is to be judged again."""
    by_type: dict[str, list[SettledConflict]] = {}
    is_settled = False
    for each in broken:
        conflict = each.conflict
        choice = resolve(conflict)
        if choice is None:
            continue
        is_settled = True
        key = f"{conflict.entity_kind}:{conflict.type}"
        item, names = types[key], [str(conflict.id)]
        if conflict.kind is ConflictKind.CARDINALITY_VIOLATION:
            _settle_edges(types, item, each, choice, resolve)
            continue
        if each.holder is not None and choice in SIDES:
            names.append(each.holder)
        cells = np.isin(item.merge.columns, conflict.properties)
        by_type.setdefault(key, []).extend(
            SettledConflict(item.row_of(item.key_of(name)), conflict, choice, cells)
            for name in names
        )
    for key, settlements in by_type.items():
        types[key].merge.settle(types[key].outcome, settlements, resolve)
    return is_settled


class _Edges:
    """The edges that one side has brought to a source, and those that it has taken from there."""

    def __init__(self, inserted: Collection[str], deleted: Collection[str]) -> None:
        """Take the ids of edges."""
        self.inserted = inserted
        self.deleted = deleted

    @classmethod
    def of(cls, item: TypeMerge, source: str, *, ours: bool) -> _Edges:
        """Read the edges of a source that a side has inserted, deleted or moved."""
        changes = item.merge.ours if ours else item.merge.theirs
        versions = item.merge.versions
        after = versions.ours if ours else versions.theirs
        now = _edges_from(after, changes.column(AFTER), source)
        before = _edges_from(versions.base, changes.column(BEFORE), source)
        return cls(now - before, before - now)

    @property
    def shown(self) -> dict[str, list[str]]:
        """Their ids."""
        return {"inserted": sorted(self.inserted), "deleted": sorted(self.deleted)}


def _edges_from(rows: AddressedRows, addresses: pa.ChunkedArray, source: str) -> set[str]:
    known = addresses.drop_null().combine_chunks()
    if not len(known):
        return set()
    found = rows.take(known, ["id", "src"])
    return set(found.column("id").filter(pc.equal(found.column("src"), source)).to_pylist())


def _settle_edges(
    types: Types, item: TypeMerge, broken: BrokenRule, choice: Choice, resolve: Resolving
) -> None:
    """Undo what the other side has inserted, deleted and moved at a source.

    An edge stays deleted where an end of it is, unless the source needs it: then the end comes
    back. A source that the chosen side does not have goes: none of its edges would stay.
    """
    conflict = broken.conflict
    source = str(conflict.id)
    if _is_gone(types, item, source, conflict, choice, resolve):
        return
    ours, theirs = (_Edges.of(item, source, ours=is_ours) for is_ours in (True, False))
    chosen, other = (ours, theirs) if choice == "ours" else (theirs, ours)
    side = OURS if choice == "ours" else AFTER
    ends = np.isin(item.merge.columns, ["src", "dst"])
    own = {*chosen.inserted, *chosen.deleted}
    # With several merge bases, another one may have decided against the chosen side.
    undone = {*other.inserted, *other.deleted} - own
    undone |= {name for name in own if resolve.again(replace(conflict, id=name)) is None}
    settled = []
    for name in sorted(undone):
        row = item.row_of(item.located([name]))
        keys = item.outcome.keys.slice(row, 1)
        if name not in other.inserted and name not in chosen.deleted:
            lost = _lost_ends(types, item, keys, side)
            if any(not broken.is_short or node.is_settled(end) for node, end in lost):
                continue
            for node, end in lost:
                node.restore(end)
        settled.append(SettledConflict(row, conflict, choice, ends))
    item.merge.settle(item.outcome, settled, resolve)
    item.touched.add(source)


def _is_gone(
    types: Types,
    item: TypeMerge,
    source: str,
    conflict: MergeConflict,
    choice: Choice,
    resolve: Resolving,
) -> bool:
    """Delete a source that the chosen side does not have; true if there was one."""
    edge = item.merge.entity
    assert isinstance(edge, EdgeType)
    node = types.get(table_key("node", edge.source))
    if node is None:
        return False
    key = node.key_of(source)
    if key.column(OURS if choice == "ours" else AFTER)[0].is_valid:
        return False
    settled = SettledConflict(node.row_of(key), conflict, choice)
    node.merge.settle(node.outcome, [settled], resolve)
    return True


def _lost_ends(
    types: Types, item: TypeMerge, keys: pa.Table, side: str
) -> list[tuple[TypeMerge, str]]:
    """The ends that an edge has on a side, and that are gone."""
    edge = item.merge.entity
    assert isinstance(edge, EdgeType)
    rows = item.merge.versions.side(side)
    ends = rows.take(keys.column(side).combine_chunks(), ["src", "dst"]).to_pylist()[0]
    found = []
    for column, name in (("src", edge.source), ("dst", edge.target)):
        node = types.get(table_key("node", name))
        if node is not None and pc.is_in(pa.scalar(ends[column]), value_set=node.absent).as_py():
            found.append((node, ends[column]))
    return found
