"""Judging the outcome of a query: each rule once, on the last images, against the base."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.core.layout import table_key
from omnigraph.exec.mutate.committed import PLACES, CommittedRows
from omnigraph.lang.catalog.model import EdgeType
from omnigraph.lang.ir.expr import ConstValue, EntityRef
from omnigraph.rules.cardinality import count_edges, judge_cardinality
from omnigraph.rules.endpoints import judge_endpoints
from omnigraph.rules.rows import judge_rows
from omnigraph.rules.unique import judge_unique, uniques
from omnigraph.rules.violation import Violations

_TEXTS = pa.array([], pa.string())
Ends = Mapping[EntityRef, tuple[EntityRef, EntityRef]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeImages:
    """The new images of one type, how they came about, and the committed rows that are deleted."""

    committed: CommittedRows
    rows: pa.Table
    removed: pa.Table  # those of entities that have an image again included
    inserted: frozenset[str]  # ids
    assigned: frozenset[str]  # columns that updates set
    left: frozenset[str] = frozenset()  # sources from which edges were moved

    def gone(self) -> pa.Table:
        """The committed rows of entities that are not there any more."""
        if not self.rows.num_rows or not self.removed.num_rows:
            return self.removed
        images = self.rows.column("id").combine_chunks()
        again = pc.is_in(self.removed.column("id"), value_set=images, skip_nulls=True)
        return self.removed.filter(pc.invert(again))


def judge_changes(
    images: Mapping[EntityRef, TypeImages],
    ends: Ends,
    committed: Callable[[EntityRef], CommittedRows],
    out: Violations,
) -> frozenset[str]:
    """Judge everything; return the keys of the tables that must not change meanwhile."""
    for item in images.values():
        _judge_rows(item, out)
        _judge_uniques(item, out)
    edges = {ref: _inserted(images[ref]) for ref in ends}
    nodes = _nodes(edges, ends, images, committed)
    for ref, item in images.items():
        entity = item.committed.entity
        if not isinstance(entity, EdgeType):
            continue
        touched = _left_sources(entity, item, images)
        if ref in edges:
            source, target = (nodes[end] for end in ends[ref])
            judge_endpoints(entity, edges[ref], out, sources=source, targets=target)
            new = pc.unique(edges[ref].column("src"))
            new = new.filter(pc.is_in(new, value_set=source))
            touched = pc.unique(pa.concat_arrays([new, touched]))
        if len(touched) and (entity.cardinality.low or entity.cardinality.high is not None):
            _judge_new_degrees(entity, item, touched, out)
    return frozenset(node.table_key for pair in ends.values() for node in pair)


def judge_readable(
    images: Mapping[EntityRef, TypeImages],
    ends: Ends,
    committed: Callable[[EntityRef], CommittedRows],
    out: Violations,
) -> None:
    """Judge what a reader depends on: the values of each row, and the nodes at ends of edges."""
    for item in images.values():
        _judge_rows(item, out)
    edges = {ref: _inserted(images[ref]) for ref in ends}
    nodes = _nodes(edges, ends, images, committed)
    for ref, rows in edges.items():
        entity = images[ref].committed.entity
        assert isinstance(entity, EdgeType)
        source, target = (nodes[end] for end in ends[ref])
        judge_endpoints(entity, rows, out, sources=source, targets=target)


def _judge_rows(item: TypeImages, out: Violations) -> None:
    if item.rows.num_rows:
        judge_rows(item.committed.entity, item.rows.drop_columns([*PLACES]), out)


def _left_sources(
    edge: EdgeType, item: TypeImages, images: Mapping[EntityRef, TypeImages]
) -> pa.Array:
    """Sources that stay and lose edges: they may have too few now."""
    if not edge.cardinality.low or not (item.removed.num_rows or item.left):
        return _TEXTS
    moved = pa.array(sorted(item.left), pa.string())
    sources = pc.unique(pa.chunked_array([*item.removed.column("src").chunks, moved]))
    key = table_key("node", edge.source)
    for ref, nodes in images.items():
        if ref.table_key == key:
            gone = nodes.gone().column("id").combine_chunks()
            sources = sources.filter(pc.invert(pc.is_in(sources, value_set=gone)))
    return sources


def degrees(
    committed: CommittedRows,
    sources: pa.Array,
    *,
    without: pa.ChunkedArray,
    added: pa.ChunkedArray | None = None,
) -> pa.Int64Array:
    """Counts the edges that leave some sources, once edges are gone and others have come."""
    rows = committed.having({"src": sources.to_pylist()}, ["id", "src"])
    gone = pc.is_in(rows.column("id"), value_set=without.combine_chunks())
    batches = [rows.filter(pc.invert(gone)).column("src").combine_chunks()]
    if added is not None:
        batches.append(added.combine_chunks())
    return count_edges(sources, batches)


def _judge_new_degrees(
    edge: EdgeType, item: TypeImages, sources: pa.Array, out: Violations
) -> None:
    changed = [*item.rows.column("id").chunks, *item.removed.column("id").chunks]
    counts = degrees(
        item.committed,
        sources,
        without=pa.chunked_array(changed, pa.string()),
        added=item.rows.column("src"),
    )
    judge_cardinality(edge, sources, counts, out)


def _judge_uniques(item: TypeImages, out: Violations) -> None:
    entity = item.committed.entity
    for columns in uniques(entity):
        if not item.inserted and item.assigned.isdisjoint(columns):
            continue
        wanted = {name: stored_values(item.rows.column(name)) for name in columns}
        if all(wanted.values()):
            found = item.committed.candidates(wanted)
            gone = item.removed.column("id")
            judge_unique(entity, columns, item.rows, out, committed=found, removed=gone)


def _inserted(item: TypeImages) -> pa.Table:
    """The edges that an insert made or a load put; an update does not move ends."""
    rows = item.rows.select(["id", "src", "dst"])
    if len(item.inserted) == rows.num_rows:
        return rows
    ids = pa.array(sorted(item.inserted), pa.string())
    return rows.filter(pc.is_in(rows.column("id"), value_set=ids))


def _nodes(
    edges: Mapping[EntityRef, pa.Table],
    ends: Ends,
    images: Mapping[EntityRef, TypeImages],
    committed: Callable[[EntityRef], CommittedRows],
) -> dict[EntityRef, pa.Array]:
    """The nodes that edges name and that exist: made by the query, or committed."""
    named: dict[EntityRef, list[pa.ChunkedArray]] = {}
    for ref, rows in edges.items():
        for column, node in zip(("src", "dst"), ends[ref], strict=True):
            named.setdefault(node, []).append(rows.column(column))
    found: dict[EntityRef, pa.Array] = {}
    for node, columns in named.items():
        chunks = [chunk for each in columns for chunk in each.chunks]
        wanted = pc.unique(pa.chunked_array(chunks, pa.string())).drop_null()
        made = images[node].rows.column("id").combine_chunks() if node in images else _TEXTS
        missing = wanted.filter(pc.invert(pc.is_in(wanted, value_set=made)))
        old = committed(node).locate(missing.to_pylist()).column("id").combine_chunks()
        if node in images and len(old):
            gone = images[node].removed.column("id").combine_chunks()
            old = old.filter(pc.invert(pc.is_in(old, value_set=gone)))
        found[node] = pa.concat_arrays([made, old])
    return found


def stored_values(column: pa.ChunkedArray) -> list[ConstValue]:
    """The distinct values of a column in stored form, without null."""
    values = pc.unique(column).drop_null()
    if pa.types.is_date32(values.type):
        values = values.cast(pa.int32())
    elif pa.types.is_timestamp(values.type):
        values = values.cast(pa.int64())
    found: list[ConstValue] = values.to_pylist()
    return found
