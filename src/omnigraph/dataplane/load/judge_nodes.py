"""Judging nodes and edges at them: ids, ends of edges, and how many edges leave a node.

All of it is about ids of one node type, so it is hashed once: each distinct id gets a number, first
those that the input gives, then those that edges name besides. What is left to look up among the
committed rows is the second part, and the first one where the input may only add.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.dataplane.load.committed import Codes, Committed
from omnigraph.dataplane.load.exchange import (
    KEY,
    LINE,
    Keys,
    Partition,
    claims_channel,
    ends_channel,
    ids_channel,
    left_channel,
    place_named,
)
from omnigraph.dataplane.load.packing import numbered, unpacked
from omnigraph.dataplane.load.plan import LoadPlan, key_of
from omnigraph.lang.catalog.identity import ENDS
from omnigraph.lang.catalog.model import Catalog, EdgeType, EntityType, NodeType
from omnigraph.rules.cardinality import judge_cardinality
from omnigraph.rules.endpoints import report_dangling
from omnigraph.rules.unique import report_ids
from omnigraph.rules.violation import Violations

_TEXT: Final = pa.string()


def ends_of(catalog: Catalog, node: NodeType) -> list[tuple[EdgeType, str]]:
    """The ends of edge types at which a node type stands."""
    edges = catalog.edges_by_node[node.name]
    return [
        (edge, end)
        for edge in edges
        for end, name in zip(ENDS, (edge.source, edge.target), strict=True)
        if name == node.name
    ]


def is_counted(edge: EdgeType) -> bool:
    """True if a rule bounds how many edges of the type leave a node."""
    return bool(edge.cardinality.low) or edge.cardinality.high is not None


def judge_nodes(
    plan: LoadPlan, node: NodeType, partition: Partition, committed: Committed, out: Violations
) -> None:
    """Judge everything that one partition says about the ids of a node type."""
    ids = partition.keys(ids_channel(key_of(node)))
    named = [
        (edge, end, partition.keys(ends_channel(edge.name, end)))
        for edge, end in ends_of(plan.catalog, node)
    ]
    left = {
        edge: _left(edge, partition, committed)
        for edge, end, _ in named
        if end == "src" and is_counted(edge)
    }
    claimed = [t.column(KEY) for t in partition.tables(claims_channel(key_of(node)))]
    numbers = _Numbers()
    own = numbers.add(ids.chunks)
    numbers.add([chunk for column in claimed for chunk in column.chunks])
    sections = [numbers.add(keys.chunks) for _, _, keys in named]
    leaving = {edge: numbers.add(keys.chunks) for edge, keys in left.items()}
    if not numbers.count:
        return
    coded = numbers.coded(known=2)
    exists = _existing(plan, node, coded, committed, ids.count)
    judge_ids(plan, node, ids, coded.codes(own), exists.stored, out)
    for (edge, end, keys), section in zip(named, sections, strict=True):
        if keys.count:
            rows = np.flatnonzero(~exists.any[coded.codes(section)])
            if len(rows):
                report_dangling(edge, end, keys.whole(), rows, out, origin=keys.origin)
        if end == "src" and is_counted(edge):
            gone = _Touched(left[edge], coded.codes(leaving[edge]))
            come = _Touched(keys, coded.codes(section))
            _judge_counts(edge, coded.distinct, come, gone, exists.any, committed, out)


def judge_ids(
    plan: LoadPlan,
    entity: EntityType,
    ids: Keys,
    codes: Codes,
    stored: npt.NDArray[np.bool_] | None,
    out: Violations,
) -> None:
    """Judge that ids occur once and, where the input may only add, are not taken.

    Args:
        plan: The load.
        entity: The type.
        ids: The ids that the input gives.
        codes: The number of each, the same for equal ones.
        stored: By number, whether a committed entity has the id; None when that does not matter.
        out: Takes the violations.
    """
    if not ids.count or plan.is_matched(entity):
        return  # in a merge, looking for known entities judges the ids
    repeated = repeats(codes)
    taken = np.empty(0, np.int64)
    if stored is not None:
        taken = np.setdiff1d(np.flatnonzero(stored[codes]), repeated)
    if len(repeated) or len(taken):
        whole = ids.whole()
        report_ids(entity, whole, out, repeated=repeated, taken=taken, origin=ids.origin)


def repeats(codes: Codes) -> Codes:
    """The places of numbers that occurred before."""
    if not len(codes) or int(codes.max()) + 1 == len(codes):
        return np.empty(0, np.int64)
    first = np.empty(int(codes.max()) + 1, np.int64)
    # The last assignment to a place is the one that stays.
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    return np.flatnonzero(first[codes] != np.arange(len(codes)))


# -- numbering -------------------------------------------------------------------------------------


class _Numbers:
    """Gives each distinct text a number, in the order of first occurrence."""

    def __init__(self) -> None:
        self._chunks: list[pa.Array] = []
        self._bounds: list[int] = [0]
        self.count = 0

    def add(self, chunks: Iterable[pa.Array]) -> int:
        """Add a section; return its number."""
        for chunk in chunks:
            self._chunks.append(chunk)
            self.count += len(chunk)
        self._bounds.append(len(self._chunks))
        return len(self._bounds) - 2

    def coded(self, known: int) -> _Coded:
        """Number everything; the first so many sections say what is known."""
        numbers, distinct = numbered(self._chunks)
        sections = [
            numbers[start:stop] for start, stop in zip(self._bounds, self._bounds[1:], strict=False)
        ]
        parts = [part for section in sections[:known] for part in section if len(part)]
        return _Coded(distinct, sections, max((int(part.max()) + 1 for part in parts), default=0))


@dataclass(frozen=True)
class _Coded:
    """Distinct texts, in some form, and the sections as numbers of them."""

    distinct: pa.Array
    sections: list[list[npt.NDArray[np.int32]]]
    known: int  # the texts before this one are known from the input

    @cached_property
    def texts(self) -> pa.Array:
        return unpacked(self.distinct)

    def codes(self, section: int) -> Codes:
        parts = self.sections[section]
        if not parts:
            return np.empty(0, np.int64)
        codes: Codes = np.concatenate(parts) if len(parts) > 1 else parts[0]
        return codes


@dataclass(frozen=True, slots=True)
class _Existing:
    """By number: which ids there are when the load is done, and which of them are committed."""

    any: npt.NDArray[np.bool_]
    stored: npt.NDArray[np.bool_] | None


def _existing(
    plan: LoadPlan, node: NodeType, coded: _Coded, committed: Committed, given: int
) -> _Existing:
    exists = np.zeros(len(coded.distinct), np.bool_)
    exists[: coded.known] = True
    key = key_of(node)
    if committed.is_replaced(key) or not committed.rows(key):
        return _Existing(exists, None)
    if plan.mode == "append" and given:
        stored = committed.found(key, "id", coded.texts)
        return _Existing(exists | stored, stored)
    exists[coded.known :] = committed.found(key, "id", coded.texts.slice(coded.known))
    return _Existing(exists, None)


# -- counting --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Touched:
    """Sources that edges come to, or go from: where that is said, and their numbers."""

    keys: Keys
    codes: Codes

    def firsts(self, wanted: Codes) -> Codes:
        """The first places that touch some of them, which ascend; -1 for nowhere."""
        found = np.full(len(wanted), -1, np.int64)
        at = np.flatnonzero(np.isin(self.codes, wanted))
        codes, firsts = np.unique(self.codes[at], return_index=True)
        found[np.searchsorted(wanted, codes)] = self.keys.places(at[firsts])
        return found


def _left(edge: EdgeType, partition: Partition, committed: Committed) -> Keys:
    """The sources that edges of a type leave behind."""
    if not committed.is_replaced(key_of(edge)):
        return partition.keys(left_channel(edge.name))
    if not edge.cardinality.low:
        return Keys(splits=(), tables=())
    # All edges go; a source has too few unless the input has others for it.
    sources = [rows.column(0) for rows in committed.among(key_of(edge), ["src"])]
    chunks = [chunk for column in sources for chunk in column.chunks]
    distinct = pc.unique(pa.chunked_array(chunks, _TEXT))
    nowhere = pa.nulls(len(distinct), pa.int64())
    return Keys(splits=(-1,), tables=(pa.table({KEY: distinct, LINE: nowhere}),))


def _judge_counts(
    edge: EdgeType,
    distinct: pa.Array,
    come: _Touched,
    gone: _Touched,
    exists: npt.NDArray[np.bool_],
    committed: Committed,
    out: Violations,
) -> None:
    size = len(distinct)
    counts = np.bincount(come.codes, minlength=size)
    left = np.bincount(gone.codes, minlength=size)
    touched = np.flatnonzero(((counts > 0) | (left > 0)) & exists)
    if not len(touched):
        return
    key = key_of(edge)
    if committed.rows(key) and not committed.is_replaced(key):
        stored = np.zeros(len(touched), np.int64)
        for codes in committed.codes(key, "src", unpacked(distinct.take(pa.array(touched)))):
            stored += np.bincount(codes, minlength=len(touched))
        counts[touched] += stored - left[touched]
    low, high = edge.cardinality.low, edge.cardinality.high
    totals = counts[touched]
    wrong = touched[(totals < low) | (totals > (totals if high is None else high))]
    if not len(wrong):
        return
    sources = unpacked(distinct.take(pa.array(wrong)))
    _report(edge, sources, counts[wrong], _first(gone, come, wrong), out)


def _first(gone: _Touched, come: _Touched, codes: Codes) -> Codes:
    """The first line that touches each source; -1 if none does."""
    one, other = gone.firsts(codes), come.firsts(codes)
    return np.where((one < 0) | (other < 0), np.maximum(one, other), np.minimum(one, other))


def _report(
    edge: EdgeType, sources: pa.Array, counts: Codes, places: Codes, out: Violations
) -> None:
    # In the order of the input; violations without a line in the order of the ids.
    table = pa.table({"place": places, "id": sources})
    order = pc.sort_indices(table, [("place", "ascending"), ("id", "ascending")])
    ordered = places[order.to_numpy()]
    judge_cardinality(
        edge,
        sources.take(order),
        pa.array(counts).take(order),
        out,
        lambda row: place_named(int(ordered[row])),
    )
