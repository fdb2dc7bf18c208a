"""The part of a snapshot that an algorithm looks at, as arrays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from omnigraph.algorithms.csr import CsrGraph, Floats, Ids, csr_graph
from omnigraph.algorithms.model import VERTICES_MAX, Selection, bad_weights
from omnigraph.errors import Code, LimitExceeded, NotFound
from omnigraph.exec.dense.adjacency import Adjacency
from omnigraph.exec.dense.view import DenseView
from omnigraph.exec.large_text import joined
from omnigraph.exec.view import MISSING
from omnigraph.lang.catalog.model import EdgeType
from omnigraph.lang.ir.expr import EntityRef
from omnigraph.lang.ir.ops import Towards


@dataclass(frozen=True, slots=True, eq=False)
class Arrays:
    """Vertices and edges of a selection. Nothing is loaded before it is asked for."""

    view: DenseView
    selection: Selection

    @property
    def size(self) -> int:
        """The number of vertices."""
        return sum(self._sizes())

    def first(self, type_name: str) -> int:
        """The number of the first vertex of a type."""
        place = self.selection.nodes.index(type_name)
        return sum(self._sizes()[:place])

    def ids(self) -> tuple[pa.Array, ...]:
        """The ids of all vertices in the order of their numbers, type by type."""
        return tuple(self.view.take(_node(name), "id", None) for name in self.selection.nodes)

    def find(self, type_name: str, ids: tuple[str, ...]) -> Ids:
        """The numbers of some vertices.

        Raises:
            NotFound: One is not there.
        """
        found = self.view.find(_node(type_name), ids)
        missing = np.flatnonzero(found == MISSING)
        if missing.size:
            text = f"there is no {type_name} '{ids[missing[0]]}'"
            raise NotFound(Code.NOT_FOUND, text, type=type_name, id=ids[missing[0]])
        numbers: Ids = found + np.int32(self.first(type_name))
        return numbers

    def edges(self) -> Iterator[tuple[Ids, Ids]]:
        """The ends of all edges, type by type."""
        for edge in self.selection.edges:
            sources, targets, _ = self._ends(edge)
            yield sources, targets

    def all_edges(self) -> tuple[Ids, Ids]:
        """The ends of all edges."""
        parts = list(self.edges())
        if len(parts) == 1:
            return parts[0]
        empty = np.empty(0, np.int32)
        sources, targets = ([part[end] for part in parts] for end in (0, 1))
        return np.concatenate([empty, *sources]), np.concatenate([empty, *targets])

    def rows(self, towards: Towards, *, distinct: bool = False) -> CsrGraph:
        """For each vertex the neighbours in a direction; once per edge unless `distinct`."""
        single = self._single()
        if single is not None:
            slots = single.links if distinct else single.edges
            known = slots[towards].get()
            return CsrGraph(known.offsets, known.targets)
        return csr_graph(*_turned(*self.all_edges(), towards), self.size)

    def weighted_rows(self, towards: Towards, weight: str) -> CsrGraph:
        """For each vertex the neighbours in a direction, with the weights of the edges.

        Raises:
            InvalidInput: A weight is null or negative.
        """
        parts = []
        for edge in self.selection.edges:
            sources, targets, numbers = self._ends(edge)
            weights = self._weights(edge, weight)[numbers]
            if towards is Towards.BOTH:
                weights = np.concatenate([weights, weights[sources != targets]])
            parts.append((*_turned(sources, targets, towards), weights))
        none = np.empty(0, np.int32)
        starts = np.concatenate([none, *(part[0] for part in parts)])
        ends = np.concatenate([none, *(part[1] for part in parts)])
        return csr_graph(
            starts, ends, self.size, np.concatenate([np.empty(0), *(part[2] for part in parts)])
        )

    def _single(self) -> Adjacency | None:
        """The adjacency whose handles are the numbers of the vertices, if there is one."""
        edges = self.selection.edges
        if len(self.selection.nodes) != 1 or len(edges) != 1:
            return None
        return self.view.adjacency(_edge(edges[0]))

    def _ends(self, edge: EdgeType) -> tuple[Ids, Ids, Ids]:
        """Sources, targets, and which edges these are."""
        known = self.view.adjacency(_edge(edge))
        sources, targets, edges = known.ends.get().entries(Towards.OUT)
        first, second = self.first(edge.source), self.first(edge.target)
        return (
            sources + np.int32(first) if first else sources,
            targets + np.int32(second) if second else targets,
            edges,
        )

    def _weights(self, edge: EdgeType, name: str) -> Floats:
        values = joined(self.view.take(_edge(edge), name, None))
        if values.null_count:
            raise bad_weights(edge.name, name)
        weights: Floats = values.to_numpy(zero_copy_only=False).astype(np.float64)
        if not (weights >= 0).all():
            raise bad_weights(edge.name, name)
        return weights

    def _sizes(self) -> list[int]:
        sizes = [self.view.size(_node(name)) for name in self.selection.nodes]
        if sum(sizes) > VERTICES_MAX:
            text = f"an algorithm takes at most {VERTICES_MAX} vertices"
            raise LimitExceeded(Code.LIMIT_EXCEEDED, text, limit="vertices", most=VERTICES_MAX)
        return sizes


def _node(name: str) -> EntityRef:
    return EntityRef("node", name, "")


def _edge(edge: EdgeType) -> EntityRef:
    return EntityRef("edge", edge.name, edge.id)


def _turned(sources: Ids, targets: Ids, towards: Towards) -> tuple[Ids, Ids]:
    """The bounds of rows. Towards both ends an edge has two entries, a loop only one."""
    if towards is Towards.OUT:
        return sources, targets
    if towards is Towards.IN:
        return targets, sources
    back = sources != targets
    return (
        np.concatenate([sources, targets[back]]),
        np.concatenate([targets, sources[back]]),
    )
