"""Edges that lead to nodes which the merged state does not have.

An edge is checked where a side has added or moved it, and where it is written or kept because of
how a conflict was settled. Nothing is read if no node was deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.core.layout import table_key
from omnigraph.dataplane.changes.table_changes import AFTER
from omnigraph.exec.merge.conflicts import ConflictKind, MergeConflict, Resolving, Side
from omnigraph.exec.merge.merged_rows import OURS
from omnigraph.exec.merge.table_merge import SettledConflict
from omnigraph.exec.merge.type_merge import TypeMerge, Types
from omnigraph.lang.catalog.model import EdgeType

_ENDS: Final = ("src", "dst")


@dataclass(frozen=True, slots=True, eq=False)
class _Orphan:
    """An edge of which an end is gone.

    Attributes:
        keys: The edge with its addresses, one row of the form of `MergedTable.keys`.
        ends: The nodes at its ends, by column.
        node: The node that is gone, as messages call it.
        side: The side that the end comes from; the other one has deleted the node.
    """

    keys: pa.Table
    ends: Mapping[str, str]
    node: str
    side: Side


def settle_orphans(types: Types, resolve: Resolving) -> list[MergeConflict]:
    """Find edges of one side that lead to nodes which the other side has deleted.

    Settled by the side of the edge, the node stays or comes back, without the edges that were
    deleted with it. Settled by the side that deleted the node, the edge goes, too, or stays where
    that side has it.
    """
    while True:
        left: list[MergeConflict] = []
        is_settled = False
        for item in types.values():
            edge = item.merge.entity
            if not isinstance(edge, EdgeType):
                continue
            for find in (_written, _left_alone):
                for orphan in find(types, item, edge):
                    conflict = _described(item, orphan)
                    choice = resolve(conflict)
                    if choice is None:
                        left.append(conflict)
                    else:
                        is_settled = True
                        stays = choice == orphan.side
                        _settle(types, item, edge, orphan, conflict, resolve, stays=stays)
        # An edge that is put back where it was may have lost another end.
        if not is_settled:
            return left


def _written(types: Types, item: TypeMerge, edge: EdgeType) -> list[_Orphan]:
    """Edges that the merge writes."""
    outcome, rows = item.outcome, np.sort(item.outcome.take)
    if not len(rows) or not _is_any_gone(types, edge):
        return []
    schema = item.merge.versions.theirs.schema
    named = pa.schema([schema.field(name) for name in ("id", *_ENDS)])
    ends = item.merge.images(outcome, rows, named)
    found = []
    is_open = set(item.disputed_in(_ENDS).to_pylist())
    for place, column, node in _orphans(types, edge, ends):
        if ends.column("id")[place].as_py() in is_open:
            continue
        row = int(rows[place])
        is_ours = (
            item.merge.sources(outcome, rows[[place]])[0, item.merge.columns.index(column)] == 0
        )
        keys = outcome.keys.slice(row, 1)
        side: Side = "ours" if is_ours and keys.column(OURS)[0].is_valid else "theirs"
        found.append(_Orphan(keys, ends.slice(place, 1).to_pylist()[0], node, side))
    return found


def _left_alone(types: Types, item: TypeMerge, edge: EdgeType) -> list[_Orphan]:
    """Edges that we have added or moved, or kept, and that the merge does not write."""
    if not _is_any_gone(types, edge):
        return []
    ours = item.merge.ours
    ours = ours.filter(ours.column(AFTER).is_valid())
    decided = pa.concat_arrays([item.dropped, item.written, item.disputed_in(_ENDS)])
    ours = ours.filter(pc.invert(pc.is_in(ours.column("id"), value_set=decided)))
    kept = item.kept_ours
    kept = kept.filter(
        pc.invert(pc.is_in(kept.column("id"), value_set=pc.unique(ours.column("id"))))
    )
    addresses = pa.concat_arrays(
        [ours.column(AFTER).combine_chunks(), kept.column(OURS).combine_chunks()]
    )
    if not len(addresses):
        return []
    rows = item.merge.versions.ours.take(addresses, ["id", *_ENDS])
    lost = _orphans(types, edge, rows)
    ends = rows.take(pa.array([place for place, _, _ in lost], pa.int64())).to_pylist()
    keys = item.located([row["id"] for row in ends])
    return [
        _Orphan(keys.slice(number, 1), ends[number], node, "ours")
        for number, (_, _, node) in enumerate(lost)
    ]


def _is_any_gone(types: Types, edge: EdgeType) -> bool:
    nodes = (types.get(table_key("node", name)) for name in (edge.source, edge.target))
    return any(node is not None and len(node.absent) for node in nodes)


def _orphans(types: Types, edge: EdgeType, ends: pa.Table) -> list[tuple[int, str, str]]:
    """The rows of edges of which an end is gone, by id, with its column and the node in words."""
    found: dict[int, tuple[str, str]] = {}
    for column, name in zip(_ENDS, (edge.source, edge.target), strict=True):
        node = types.get(table_key("node", name))
        if node is None:
            continue
        named = ends.column(column).combine_chunks()
        lost = np.flatnonzero(np.asarray(pc.is_in(named, value_set=node.absent)))
        for place in lost.tolist():
            found.setdefault(place, (column, f"{name} {named[place].as_py()!r}"))
    ids = ends.column("id").combine_chunks()
    lost_ends = [(place, *each) for place, each in found.items()]
    return sorted(lost_ends, key=lambda each: str(ids[each[0]].as_py()))


def _described(item: TypeMerge, orphan: _Orphan) -> MergeConflict:
    kind = ConflictKind.ORPHAN_EDGE
    ((_, conflict),) = item.merge.described(orphan.keys, [0], kind)
    name = f"{item.merge.entity.name} {conflict.id!r}"
    text = f"{name} of one side needs {orphan.node}, which the other side deleted"
    return replace(conflict, message=text)


def _settle(
    types: Types,
    item: TypeMerge,
    edge: EdgeType,
    orphan: _Orphan,
    conflict: MergeConflict,
    resolve: Resolving,
    *,
    stays: bool,
) -> None:
    if stays:
        for column, name in zip(_ENDS, (edge.source, edge.target), strict=True):
            node = types.get(table_key("node", name))
            if node is not None:
                node.restore(orphan.ends[column])
        return
    row = item.row_of(orphan.keys)
    cells = np.isin(item.merge.columns, _ENDS)
    other: Side = "theirs" if orphan.side == "ours" else "ours"
    item.merge.settle(item.outcome, [SettledConflict(row, conflict, other, cells)], resolve)
