"""Rules of the schema on the merged state.

Both sides keep the rules by themselves. So a rule can be broken only where the changes of both
sides meet: an edge of one side at a node that the other side deleted, a value that both sides gave
to different entities, edges that both sides added to one source, a row that is made of both.
Where a conflict was settled otherwise than by one side, rows and their values are judged like new
ones. Nothing else is read, but for types that get a rule which a side did not have: of these, all
rows are judged.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.core.layout import table_key
from omnigraph.dataplane.changes.table_changes import AFTER, BEFORE
from omnigraph.exec.merge.broken_rules import BrokenRule, described
from omnigraph.exec.merge.images import MergedImages
from omnigraph.exec.merge.merged_rows import Rows
from omnigraph.exec.merge.type_merge import TypeMerge, Types
from omnigraph.exec.mutate.judge import degrees, stored_values
from omnigraph.exec.schema_change.validation import judge_stored
from omnigraph.lang.catalog.model import EdgeType
from omnigraph.rules.cardinality import count_edges, judge_cardinality
from omnigraph.rules.rows import judge_rows
from omnigraph.rules.unique import judge_unique, uniques
from omnigraph.rules.violation import Violations
from omnigraph.store.reading.row_addresses import AddressedRows

Images = Mapping[str, MergedImages | None]
_NOTHING: Final = pa.chunked_array([], pa.string())


def judge_merged(types: Types, images: Images) -> list[BrokenRule]:
    """Judge values, uniqueness and cardinalities where the changes of both sides meet."""
    out = Violations()
    for key, item in types.items():
        rows = images[key]
        if rows is not None:
            _judge_mixed(item, rows, out)
            _judge_uniques(item, rows, out)
        if item.is_tightened:
            _judge_new_rules(item, rows, out)
        if isinstance(item.merge.entity, EdgeType):
            _judge_degrees(types, item, rows, item.merge.entity, out)
    # Two comparisons can find the same collision.
    found = {item.conflict.key: item for item in (described(types, each) for each in out.items)}
    # Rows come in the order of storage; conflicts of one kind in that of the ids.
    groups: dict[tuple[str, str], int] = {}

    def rank(each: BrokenRule) -> tuple[int, str]:
        group = (each.conflict.type, each.conflict.kind)
        return groups.setdefault(group, len(groups)), str(each.conflict.id)

    return sorted(found.values(), key=rank)


def _judge_new_rules(item: TypeMerge, rows: MergedImages | None, out: Violations) -> None:
    """Judge all rows by the rules that one of the sides did not have."""
    for side in (item.sides.ours, item.sides.theirs):
        if side is not None:
            judge_stored(side.entity, item.merge.entity, partial(item.rows_after, rows), out)


def _mixed(item: TypeMerge) -> Rows:
    """The rows that are made of both sides, or were edited."""
    part = np.flatnonzero(~item.outcome.cells.all(axis=1))
    return np.union1d(part, np.array([*item.outcome.given], np.int64))


def _edited(item: TypeMerge) -> Rows:
    """The rows with values of the base, or values that were given."""
    outcome = item.outcome
    return np.array([*outcome.restored, *outcome.given], np.int64)


def _judge_mixed(item: TypeMerge, rows: MergedImages, out: Violations) -> None:
    chosen = _mixed(item)
    if len(chosen):
        for part in rows.batches(chosen):
            judge_rows(item.merge.entity, part, out)


def _judge_uniques(item: TypeMerge, rows: MergedImages, out: Violations) -> None:
    entity = item.merge.entity
    ours = item.merge.ours
    changed = pa.concat_arrays([ours.column(AFTER).drop_null().combine_chunks(), item.stayed])
    for columns in uniques(entity):
        names = ["id", *columns]
        # What collides depends on how these conflicts are settled.
        is_open = item.disputed_in(columns)
        known = []
        if len(changed):
            known = item.merge.versions.ours.take(changed, names).to_batches()
        if known or item.outcome.given or item.outcome.restored:
            written = _without(rows.projected(names), is_open)
            gone = pa.concat_arrays([item.dropped, is_open])
            judge_unique(entity, columns, written, out, committed=known, removed=gone)
        chosen = _mixed(item) if len(columns) > 1 else _edited(item)
        fresh = _without(rows.projected(names, chosen), is_open)
        wanted = {name: stored_values(fresh.column(name)) for name in columns}
        if all(wanted.values()):
            found = item.candidates(wanted)
            settled = pa.concat_arrays([item.dropped, item.written, is_open])
            judge_unique(entity, columns, fresh, out, committed=found, removed=settled)


def _without(rows: pa.Table, ids: pa.Array) -> pa.Table:
    if not len(ids):
        return rows
    return rows.filter(pc.invert(pc.is_in(rows.column("id"), value_set=ids)))


def _judge_degrees(
    types: Types, item: TypeMerge, rows: MergedImages | None, edge: EdgeType, out: Violations
) -> None:
    if not edge.cardinality.low and edge.cardinality.high is None:
        return
    sources = pc.unique(_their_sources(item))
    sources = sources.filter(pc.is_in(sources, value_set=_our_sources(item)))
    node = types.get(table_key("node", edge.source))
    keys = item.outcome.keys.take(pa.array(sorted(item.outcome.settled), pa.int64()))
    settled = [pa.array(sorted({*item.touched, *item.sources(keys)}), pa.string())]
    # How many edges these have depends on how other conflicts are settled.
    is_open = item.sources(item.located(item.disputed_in(["src"]).to_pylist()))
    left_out = [pa.array(sorted(set(is_open)), pa.string())]
    if node is not None:
        left_out += [node.absent, node.disputed]
        if edge.cardinality.low:
            settled.append(node.decided)
    sources = pc.unique(pa.concat_arrays([sources, *settled]))
    sources = sources.filter(pc.invert(pc.is_in(sources, pa.concat_arrays(left_out))))
    if not len(sources):
        return
    added = [] if rows is None else rows.projected(["src"]).column("src").chunks
    if item.committed is None:
        counts = count_edges(sources, added)
    else:
        without = pa.chunked_array([item.dropped, item.written])
        arriving = pa.chunked_array(added, pa.string())
        counts = degrees(item.committed, sources, without=without, added=arriving)
    is_bare = pc.equal(counts, 0)
    if edge.cardinality.low and pc.any(is_bare).as_py():
        bare = _bare_on_a_side(types, item, edge, sources.filter(is_bare))
        held = pc.invert(pc.is_in(sources, value_set=bare))
        sources, counts = sources.filter(held), counts.filter(held)
    judge_cardinality(edge, sources, counts, out)


def _bare_on_a_side(types: Types, item: TypeMerge, edge: EdgeType, sources: pa.Array) -> pa.Array:
    """Those of some nodes that a side has without edges.

    That breaks no minimum there, since a node that never had an edge is not held to one.
    """
    merge, versions = item.merge, item.merge.versions
    ours = count_edges(sources, ())
    if item.committed is not None:
        ours = degrees(item.committed, sources, without=_NOTHING)
    base = pc.subtract(ours, _gained(sources, merge.ours, versions.base, versions.ours))
    theirs = pc.add(base, _gained(sources, merge.theirs, versions.base, versions.theirs))
    found = [sources.filter(pc.equal(each, 0)) for each in (ours, theirs)]
    node = types.get(table_key("node", edge.source))
    if node is not None:
        here = _NOTHING
        if node.committed is not None:
            here = node.committed.locate(found[0].to_pylist()).column("id")
        there = node.merge.versions.theirs.table.locate(found[1]).column("id")
        found = [here.combine_chunks(), there.combine_chunks()]
    return pa.concat_arrays(found)


def _gained(
    sources: pa.Array, keys: pa.Table, before: AddressedRows, after: AddressedRows
) -> pa.Array:
    """The number of edges that a side has brought to some sources, less what it took away."""
    lost, come = (
        count_edges(sources, [_sources(keys, {column: rows})])
        for column, rows in ((BEFORE, before), (AFTER, after))
    )
    return pc.subtract(come, lost)


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
