"""Rules of the schema on the merged state.

Both sides keep the rules by themselves. So a rule can be broken only where the changes of both
sides meet: an edge of one side at a node that the other side deleted, a value that both sides gave
to different entities, edges that both sides added to one source, a row that is made of both.
Nothing else is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.core.layout import table_key
from omnigraph.exec.changes.table_changes import AFTER, BEFORE
from omnigraph.exec.merge.conflicts import ConflictKind, MergeConflict, Resolve
from omnigraph.exec.merge.table_merge import OURS, MergedTable, TableMerge
from omnigraph.exec.mutate.committed import CommittedRows
from omnigraph.exec.mutate.judge import judge_degrees
from omnigraph.lang.catalog.model import EdgeType
from omnigraph.rules.rows import judge_rows
from omnigraph.rules.unique import judge_unique, uniques
from omnigraph.rules.violation import Rule, Violation, Violations
from omnigraph.store.row_addresses import AddressedRows


@dataclass(slots=True, eq=False)
class TypeMerge:
    """One type during a merge: both sides, and the outcome so far."""

    merge: TableMerge
    outcome: MergedTable
    committed: CommittedRows

    @property
    def dropped(self) -> pa.Array:
        """The ids that the merge deletes."""
        return self._ids(self.outcome.drop)

    @property
    def written(self) -> pa.Array:
        """The ids that the merge writes."""
        return self._ids(self.outcome.take)

    @property
    def deleted_by_us(self) -> pa.Array:
        """The ids that our side has deleted and that the merge does not bring back.

        Those whose deletion is a conflict itself are left out: that has to be settled first.
        """
        ours = self.merge.ours
        gone = ours.column("id").filter(ours.column(AFTER).is_null()).combine_chunks()
        disputed = pa.array([item.id for item in self.outcome.conflicts], pa.string())
        kept = pa.concat_arrays([self.written, disputed])
        return gone.filter(pc.invert(pc.is_in(gone, value_set=kept)))

    def _ids(self, rows: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> pa.Array:
        return self.outcome.keys.column("id").combine_chunks().take(pa.array(rows))


Types = Mapping[str, TypeMerge]


def settle_orphans(types: Types, resolve: Resolve) -> list[MergeConflict]:
    """Find edges of one side that lead to nodes which the other side has deleted.

    Where `resolve` says so, our side keeps the node and they lose the edge, or theirs takes the
    node and our edge with it.
    """
    left: list[MergeConflict] = []
    for item in types.values():
        edge = item.merge.entity
        if isinstance(edge, EdgeType):
            left += _settle_their_edges(types, item, edge, resolve)
            left += _settle_our_edges(types, item, edge, resolve)
    return left


def _settle_their_edges(
    types: Types, item: TypeMerge, edge: EdgeType, resolve: Resolve
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
    lost = _orphans(types, edge, ends, lambda node: node.deleted_by_us)
    left, dropped = [], []
    for place, node in lost.items():
        row = ends.slice(place, 1).to_pylist()[0]
        conflict = _orphan(edge, row, node, theirs=row, ours=None)
        if resolve(conflict) == "ours":
            dropped.append(int(new[place]))
        else:
            left.append(conflict)
    item.outcome.take = np.setdiff1d(item.outcome.take, dropped)
    return left


def _settle_our_edges(
    types: Types, item: TypeMerge, edge: EdgeType, resolve: Resolve
) -> list[MergeConflict]:
    """Edges that we have added to nodes that they have deleted."""
    ours = item.merge.ours
    added = ours.filter(pc.and_(ours.column(BEFORE).is_null(), ours.column(AFTER).is_valid()))
    gone = pc.is_in(added.column("id"), value_set=item.dropped)
    added = added.filter(pc.invert(gone))
    if not added.num_rows:
        return []
    addresses = added.column(AFTER).combine_chunks()
    ends = item.merge.versions.ours.take(addresses, ["id", "src", "dst"])
    lost = _orphans(types, edge, ends, lambda node: node.dropped)
    left = []
    for place, node in lost.items():
        row = ends.slice(place, 1).to_pylist()[0]
        conflict = _orphan(edge, row, node, theirs=None, ours=row)
        side = resolve(conflict)
        if side == "ours":
            _keep_node(types, edge, row)
        elif side == "theirs":
            _drop_edge(item, row["id"], int(addresses[place].as_py()))
        else:
            left.append(conflict)
    return left


def _orphans(
    types: Types, edge: EdgeType, ends: pa.Table, gone: Callable[[TypeMerge], pa.Array]
) -> dict[int, str]:
    """The rows of edges of which an end is gone, with the node that is missing."""
    found: dict[int, str] = {}
    for column, name in (("src", edge.source), ("dst", edge.target)):
        node = types.get(table_key("node", name))
        if node is None:
            continue
        named = ends.column(column).combine_chunks()
        lost = np.flatnonzero(np.asarray(pc.is_in(named, value_set=gone(node))))
        for place in lost.tolist():
            found.setdefault(place, f"{name} {named[place].as_py()!r}")
    return found


def _keep_node(types: Types, edge: EdgeType, row: Mapping[str, str]) -> None:
    """Do not delete the nodes at the ends of an edge."""
    for column, name in (("src", edge.source), ("dst", edge.target)):
        node = types.get(table_key("node", name))
        if node is not None:
            outcome = node.outcome
            ids = outcome.keys.column("id").to_pylist()
            outcome.drop = np.array(
                [each for each in outcome.drop if ids[each] != row[column]], int
            )


def _drop_edge(item: TypeMerge, name: str, address: int) -> None:
    """Delete an edge of ours."""
    outcome = item.outcome
    fields = {"id": [name], BEFORE: [None], AFTER: [None], OURS: [address]}
    row = pa.table(fields, schema=outcome.keys.schema)
    outcome.drop = np.append(outcome.drop, outcome.keys.num_rows)
    outcome.keys = pa.concat_tables([outcome.keys, row])
    outcome.cells = np.vstack([outcome.cells, np.ones((1, outcome.cells.shape[1]), bool)])


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


def judge_merged(types: Types, images: Mapping[str, pa.Table | None]) -> list[MergeConflict]:
    """Judge values, uniqueness and cardinalities where the changes of both sides meet."""
    out = Violations()
    for key, item in types.items():
        rows = images[key]
        if rows is not None:
            _judge_mixed(item, rows, out)
            _judge_uniques(item, rows, out)
        if isinstance(item.merge.entity, EdgeType):
            _judge_degrees(types, item, rows, item.merge.entity, out)
    return [_conflict(violation) for violation in out.items]


def _mixed(item: TypeMerge, rows: pa.Table) -> pa.Table:
    """The rows that are made of both sides."""
    ids = item.outcome.keys.column("id").combine_chunks()
    part = np.flatnonzero(~item.outcome.cells.all(axis=1))
    return rows.filter(pc.is_in(rows.column("id"), value_set=ids.take(pa.array(part))))


def _judge_mixed(item: TypeMerge, rows: pa.Table, out: Violations) -> None:
    mixed = _mixed(item, rows)
    if mixed.num_rows:
        judge_rows(item.merge.entity, mixed, out)


def _judge_uniques(item: TypeMerge, rows: pa.Table, out: Violations) -> None:
    entity = item.merge.entity
    ours = item.merge.ours
    changed = ours.column(AFTER).drop_null().combine_chunks()
    for columns in uniques(entity):
        names = ["id", *columns]
        if len(changed):
            known = item.merge.versions.ours.take(changed, names).to_batches()
            judge_unique(entity, columns, rows, out, committed=known, removed=item.dropped)
        mixed = _mixed(item, rows)
        if mixed.num_rows and len(columns) > 1:
            wanted = {name: pc.unique(mixed.column(name)).to_pylist() for name in columns}
            found = item.committed.candidates(wanted)
            settled = pa.concat_arrays([item.dropped, item.written])
            judge_unique(entity, columns, mixed, out, committed=found, removed=settled)


def _judge_degrees(
    types: Types, item: TypeMerge, rows: pa.Table | None, edge: EdgeType, out: Violations
) -> None:
    if not edge.cardinality.low and edge.cardinality.high is None:
        return
    sources = pc.unique(_their_sources(item))
    sources = sources.filter(pc.is_in(sources, value_set=_our_sources(item)))
    node = types.get(table_key("node", edge.source))
    if node is not None:
        for gone in (node.dropped, node.deleted_by_us):
            sources = sources.filter(pc.invert(pc.is_in(sources, value_set=gone)))
    if len(sources):
        without = pa.chunked_array([item.dropped, item.written])
        added = None if rows is None else rows.column("src")
        judge_degrees(edge, item.committed, sources, out, without=without, added=added)


def _their_sources(item: TypeMerge) -> pa.Array:
    versions, keys = item.merge.versions, item.merge.theirs
    return _sources(keys, {BEFORE: versions.base, AFTER: versions.theirs})


def _our_sources(item: TypeMerge) -> pa.Array:
    versions, keys = item.merge.versions, item.merge.ours
    return _sources(keys, {BEFORE: versions.base, AFTER: versions.ours})


def _sources(keys: pa.Table, sides: Mapping[str, AddressedRows]) -> pa.Array:
    """The sources of changed edges, before and after the change."""
    found = [pa.array([], pa.string())]
    for column, rows in sides.items():
        addresses = keys.column(column).drop_null().combine_chunks()
        found += rows.take(addresses, ["src"]).column("src").chunks
    return pa.concat_arrays(found)


def _conflict(violation: Violation) -> MergeConflict:
    kinds = {
        Rule.UNIQUE: ConflictKind.UNIQUE_VIOLATION,
        Rule.KEY: ConflictKind.UNIQUE_VIOLATION,
        Rule.CARDINALITY: ConflictKind.CARDINALITY_VIOLATION,
    }
    return MergeConflict(
        kind=kinds.get(violation.rule, ConflictKind.VALUE_CONSTRAINT_VIOLATION),
        entity_kind=str(violation.kind),
        type=str(violation.type_name),
        id=violation.id,
        properties=violation.properties,
        message=violation.message,
    )
