"""Edges of one side that lead to nodes which the merged state does not have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.core.layout import table_key
from omnigraph.dataplane.changes.table_changes import AFTER, BEFORE
from omnigraph.exec.merge.conflicts import ConflictKind, MergeConflict, Resolving
from omnigraph.exec.merge.merged_rows import OURS
from omnigraph.exec.merge.type_merge import TypeMerge, Types
from omnigraph.lang.catalog.model import EdgeType


def settle_orphans(types: Types, resolve: Resolving) -> list[MergeConflict]:
    """Find edges of one side that lead to nodes which the other side has deleted.

    Settled by the side of the edge, the node stays or comes back, without the edges that were
    deleted with it. Settled by the side that deleted the node, the edge goes, too.
    """
    left: list[MergeConflict] = []
    for item in types.values():
        edge = item.merge.entity
        if isinstance(edge, EdgeType):
            left += _settle_their_edges(types, item, edge, resolve)
            left += _settle_our_edges(types, item, edge, resolve)
    return left


def _settle_their_edges(
    types: Types, item: TypeMerge, edge: EdgeType, resolve: Resolving
) -> list[MergeConflict]:
    """Edges that they have added to nodes that we have deleted."""
    keys = item.outcome.keys
    rows = item.outcome.take
    new = rows[np.asarray(keys.column(OURS).is_null())[rows]]
    if not len(new):
        return []
    ends = item.merge.versions.theirs.take(
        keys.column(AFTER).combine_chunks().take(pa.array(new)), ["id", "src", "dst"]
    )
    lost = _orphans(types, edge, ends)
    left, dropped = [], []
    for place, node in lost.items():
        row = ends.slice(place, 1).to_pylist()[0]
        conflict = _orphan(edge, row, node, theirs=row, ours=None)
        side = resolve(conflict)
        if side == "ours":
            dropped.append(int(new[place]))
            item.touched.add(row["src"])
        elif side == "theirs":
            _bring_back_nodes(types, edge, row)
        else:
            left.append(conflict)
    item.outcome.take = np.setdiff1d(item.outcome.take, dropped)
    return left


def _settle_our_edges(
    types: Types, item: TypeMerge, edge: EdgeType, resolve: Resolving
) -> list[MergeConflict]:
    """Edges that we have added, or kept, at nodes that they have deleted."""
    ours = item.merge.ours
    added = ours.filter(pc.and_(ours.column(BEFORE).is_null(), ours.column(AFTER).is_valid()))
    gone = pc.is_in(added.column("id"), value_set=item.dropped)
    added = added.filter(pc.invert(gone))
    addresses = pa.concat_arrays(
        [added.column(AFTER).combine_chunks(), item.kept_ours.column(OURS).combine_chunks()]
    )
    if not len(addresses):
        return []
    ends = item.merge.versions.ours.take(addresses, ["id", "src", "dst"])
    lost = _orphans(types, edge, ends)
    left = []
    for place, node in lost.items():
        row = ends.slice(place, 1).to_pylist()[0]
        conflict = _orphan(edge, row, node, theirs=None, ours=row)
        side = resolve(conflict)
        if side == "ours":
            _keep_nodes(types, edge, row)
        elif side == "theirs":
            item.drop_ours(row["id"], int(addresses[place].as_py()))
            item.touched.add(row["src"])
        else:
            left.append(conflict)
    return left


def _orphans(types: Types, edge: EdgeType, ends: pa.Table) -> dict[int, str]:
    """The rows of edges of which an end is gone, with the node that is missing."""
    found: dict[int, str] = {}
    for column, name in (("src", edge.source), ("dst", edge.target)):
        node = types.get(table_key("node", name))
        if node is None:
            continue
        named = ends.column(column).combine_chunks()
        lost = np.flatnonzero(np.asarray(pc.is_in(named, value_set=node.absent)))
        for place in lost.tolist():
            found.setdefault(place, f"{name} {named[place].as_py()!r}")
    return found


def _ends(types: Types, edge: EdgeType, row: Mapping[str, str]) -> Iterator[tuple[TypeMerge, str]]:
    """The ends of an edge that are of types which a side has changed."""
    for column, name in (("src", edge.source), ("dst", edge.target)):
        node = types.get(table_key("node", name))
        if node is not None:
            yield node, row[column]


def _keep_nodes(types: Types, edge: EdgeType, row: Mapping[str, str]) -> None:
    """Do not delete the nodes at the ends of an edge of ours."""
    for node, name in _ends(types, edge, row):
        node.keep([name])
        node.brought_back.add(name)


def _bring_back_nodes(types: Types, edge: EdgeType, row: Mapping[str, str]) -> None:
    """Write the nodes at the ends of an edge of theirs that are not there."""
    for node, name in _ends(types, edge, row):
        if pc.is_in(pa.scalar(name), value_set=node.absent).as_py():
            node.bring_back([name])


def _orphan(
    edge: EdgeType,
    row: Mapping[str, str],
    node: str,
    *,
    ours: Mapping[str, str] | None,
    theirs: Mapping[str, str] | None,
) -> MergeConflict:
    return MergeConflict(
        kind=ConflictKind.ORPHAN_EDGE,
        entity_kind="edge",
        type=edge.name,
        id=row["id"],
        properties=(),
        message=f"{edge.name} {row['id']!r} of one side needs {node}, which the other side deleted",
        ours=ours,
        theirs=theirs,
    )
