"""Rules of the schema that the merged state would break, as conflicts, and how they are settled.

A unique or a value rule is settled for the entity that breaks it: by the values of one side, of the
base, or by others. A cardinality is settled for the source: only the edges count that one side has
inserted and deleted there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.core.layout import table_key
from omnigraph.dataplane.changes.table_changes import AFTER, BEFORE
from omnigraph.exec.merge.conflicts import Choice, ConflictKind, MergeConflict, Resolving
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


def described(types: Types, violation: Violation) -> MergeConflict:
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
        return replace(conflict, ours=ours.shown, theirs=theirs.shown)
    row = item.rows_of([name]).get(name)
    if row is None:
        return conflict
    ((_, states),) = item.merge.described(item.outcome.keys, [row], conflict.kind)
    return replace(conflict, base=states.base, ours=states.ours, theirs=states.theirs)


def settle_broken_rules(
    types: Types, conflicts: Sequence[MergeConflict], resolve: Resolving
) -> bool:
    """Settle what can be settled; True when something has changed and is to be judged again."""
    by_type: dict[str, list[SettledConflict]] = {}
    is_settled = False
    for conflict in conflicts:
        choice = resolve(conflict)
        if choice is None:
            continue
        is_settled = True
        key = f"{conflict.entity_kind}:{conflict.type}"
        item, name = types[key], str(conflict.id)
        if conflict.kind is ConflictKind.CARDINALITY_VIOLATION:
            _settle_edges(types, item, name, choice)
            continue
        row = item.rows_of([name]).get(name)
        if row is not None:
            cells = np.isin(item.merge.columns, conflict.properties)
            by_type.setdefault(key, []).append(SettledConflict(row, conflict, choice, cells))
    for key, settlements in by_type.items():
        types[key].merge.settle(types[key].outcome, settlements, resolve)
    return is_settled


class _Edges:
    """The edges of one source that one side has inserted and deleted."""

    def __init__(self, inserted: dict[str, int], deleted: dict[str, int]) -> None:
        """Take the addresses by edge: of that side for new edges, of the base for deleted ones."""
        self.inserted = inserted
        self.deleted = deleted

    @classmethod
    def of(cls, item: TypeMerge, source: str, *, ours: bool) -> _Edges:
        """Read the edges of a source that a side has changed."""
        changes = item.merge.ours if ours else item.merge.theirs
        versions = item.merge.versions
        after = versions.ours if ours else versions.theirs
        is_new, is_gone = changes.column(BEFORE).is_null(), changes.column(AFTER).is_null()
        inserted = changes.filter(is_new).column(AFTER).combine_chunks()
        deleted = changes.filter(is_gone).column(BEFORE).combine_chunks()
        return cls(_from(after, inserted, source), _from(versions.base, deleted, source))

    @property
    def shown(self) -> dict[str, list[str]]:
        """Their ids."""
        return {"inserted": sorted(self.inserted), "deleted": sorted(self.deleted)}


def _from(rows: AddressedRows, addresses: pa.Array, source: str) -> dict[str, int]:
    if not len(addresses):
        return {}
    found = rows.take(addresses, ["id", "src"])
    chosen = np.flatnonzero(np.asarray(pc.equal(found.column("src"), source)))
    ids = found.column("id").take(pa.array(chosen)).to_pylist()
    return dict(zip(ids, addresses.take(pa.array(chosen)).to_pylist(), strict=True))


def _settle_edges(types: Types, item: TypeMerge, source: str, choice: Choice) -> None:
    """Undo what the other side has inserted and deleted at a source.

    An edge stays deleted where an end of it is.
    """
    ours, theirs = _Edges.of(item, source, ours=True), _Edges.of(item, source, ours=False)
    versions = item.merge.versions
    if choice == "ours":
        alone = [name for name in theirs.inserted if name not in ours.inserted]
        rows = list(item.rows_of(alone).values())
        item.outcome.take = np.setdiff1d(item.outcome.take, rows)
        item.keep(list(_with_ends(types, item, versions.base, theirs.deleted)))
    else:
        for name, address in ours.inserted.items():
            if name not in item.rows_of([name]):
                item.drop_ours(name, address)
        item.bring_back(list(_with_ends(types, item, versions.base, ours.deleted)))
    item.touched.add(source)


def _with_ends(
    types: Types, item: TypeMerge, rows: AddressedRows, edges: dict[str, int]
) -> Iterator[str]:
    """Those edges of which both ends exist."""
    edge = item.merge.entity
    assert isinstance(edge, EdgeType)
    if not edges:
        return
    ends = rows.take(pa.array(edges.values(), pa.uint64()), ["src", "dst"])
    is_whole = np.ones(len(edges), bool)
    for column, name in (("src", edge.source), ("dst", edge.target)):
        node = types.get(table_key("node", name))
        if node is not None:
            gone = pc.is_in(ends.column(column).combine_chunks(), value_set=node.absent)
            is_whole &= ~np.asarray(gone)
    yield from (name for name, whole in zip(edges, is_whole.tolist(), strict=True) if whole)
