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

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.core.layout import table_key
from omnigraph.dataplane.changes.table_changes import AFTER, BEFORE
from omnigraph.exec.merge.broken_rules import described
from omnigraph.exec.merge.conflicts import MergeConflict
from omnigraph.exec.merge.images import MergedImages
from omnigraph.exec.merge.merged_rows import Rows
from omnigraph.exec.merge.type_merge import TypeMerge, Types
from omnigraph.exec.mutate.judge import judge_degrees, stored_values
from omnigraph.exec.schema_change.validation import judge_stored
from omnigraph.lang.catalog.model import EdgeType
from omnigraph.rules.cardinality import count_edges, judge_cardinality
from omnigraph.rules.rows import judge_rows
from omnigraph.rules.unique import judge_unique, uniques
from omnigraph.rules.violation import Violations
from omnigraph.store.reading.row_addresses import AddressedRows

Images = Mapping[str, MergedImages | None]


def judge_merged(types: Types, images: Images) -> list[MergeConflict]:
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
    found = {item.key: item for item in (described(types, each) for each in out.items)}
    return list(found.values())


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
        known = []
        if len(changed):
            known = item.merge.versions.ours.take(changed, names).to_batches()
        if known or item.outcome.given or item.outcome.restored:
            written = rows.projected(names)
            judge_unique(entity, columns, written, out, committed=known, removed=item.dropped)
        chosen = _mixed(item) if len(columns) > 1 else _edited(item)
        fresh = rows.projected(names, chosen)
        wanted = {name: stored_values(fresh.column(name)) for name in columns}
        if all(wanted.values()):
            found = item.candidates(wanted)
            settled = pa.concat_arrays([item.dropped, item.written])
            judge_unique(entity, columns, fresh, out, committed=found, removed=settled)


def _judge_degrees(
    types: Types, item: TypeMerge, rows: MergedImages | None, edge: EdgeType, out: Violations
) -> None:
    if not edge.cardinality.low and edge.cardinality.high is None:
        return
    sources = pc.unique(_their_sources(item))
    sources = sources.filter(pc.is_in(sources, value_set=_our_sources(item)))
    node = types.get(table_key("node", edge.source))
    settled = [pa.array(sorted(item.touched), pa.string())]
    if node is not None and edge.cardinality.low:
        settled.append(node.decided)
    sources = pc.unique(pa.concat_arrays([sources, *settled]))
    if node is not None:
        sources = sources.filter(pc.invert(pc.is_in(sources, value_set=node.absent)))
    if len(sources):
        without = pa.chunked_array([item.dropped, item.written])
        added = None if rows is None else rows.projected(["src"]).column("src")
        if item.committed is not None:
            judge_degrees(edge, item.committed, sources, out, without=without, added=added)
        elif added is not None:
            judge_cardinality(edge, sources, count_edges(sources, added.chunks), out)


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
