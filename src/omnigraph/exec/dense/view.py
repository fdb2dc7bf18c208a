"""The dense view: one snapshot, its columns and adjacency in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.exec.dense.adjacency import Adjacency
from omnigraph.exec.dense.columns import as_matrix
from omnigraph.exec.dense.type_columns import Codec, PreviousStructure, TypeColumns
from omnigraph.exec.view import Counts, Handles, Mask, NeighbourSlices
from omnigraph.lang.ir.expr import EntityRef
from omnigraph.lang.ir.ops import Towards

T = TypeVar("T")


class DenseView:
    """One snapshot, read-only. Safe to share between threads; implements `GraphView`."""

    __slots__ = ("_adjacencies", "_edges", "_nodes", "snapshot")

    def __init__(
        self,
        snapshot: GraphVersion,
        nodes: Mapping[str, TypeColumns],
        edges: Mapping[str, TypeColumns],
        adjacencies: Mapping[str, Adjacency],
    ) -> None:
        """Put together what the snapshot pins; nothing is loaded yet."""
        self.snapshot = snapshot
        self._nodes = nodes
        self._edges = edges
        self._adjacencies = adjacencies

    def type_columns(self, entity: EntityRef) -> TypeColumns:
        """The entities of a type."""
        return (self._nodes if entity.kind == "node" else self._edges)[entity.name]

    def adjacency(self, edge: EntityRef) -> Adjacency:
        """The adjacency of an edge type."""
        return self._adjacencies[edge.name]

    # -- entities ----------------------------------------------------------------------------------

    def size(self, entity: EntityRef) -> int:
        """The number of entities of a type."""
        return self.type_columns(entity).size

    def find(self, entity: EntityRef, ids: Sequence[str]) -> Handles:
        """The handle of each id; -1 where there is no such entity."""
        return self.type_columns(entity).find(ids)

    def find_one(self, entity: EntityRef, wanted: str) -> int:
        """The handle of one id, or -1, without making an array."""
        return self.type_columns(entity).find_one(wanted)

    def take(self, entity: EntityRef, column: str, handles: Handles | None) -> pa.Array:
        """The values of a column, null for -1; all of them for None."""
        return self.type_columns(entity).take(column, handles)

    def prepare(self, entity: EntityRef, columns: Iterable[str]) -> None:
        """Load several columns together that will be asked for."""
        self.type_columns(entity).prepare(columns)

    def cells(self, entity: EntityRef, column: str, handles: Sequence[int]) -> list[Any]:
        """A few values of a column as Python has them, null for -1; faster than `take`."""
        return self.type_columns(entity).cells(column, handles)

    def rank(self, entity: EntityRef, handles: Handles) -> Counts | Handles:
        """Numbers that sort as the ids of the entities do; -1 stays -1."""
        return self.type_columns(entity).rank(handles)

    def vectors(self, entity: EntityRef, column: str) -> tuple[npt.NDArray[np.float32], Mask]:
        """A column of vectors as a matrix, and which entities have one. No copy is made.

        A row of the matrix that has no vector holds anything.
        """
        return as_matrix(self.type_columns(entity).column(column))

    def derived(
        self,
        entity: EntityRef,
        column: str,
        kind: str,
        build: Callable[[PreviousStructure[T] | None], T],
        size: Callable[[T], int],
        codec: Codec[T] | None = None,
    ) -> T:
        """Returns a structure made from a column, kept for all views that pin the same version.

        Args:
            entity: The type.
            column: The column.
            kind: What sort of structure it is.
            build: Makes it; given the same structure of an older version and the delta from there,
                if there is one. It must not ask for the same structure again.
            size: Returns its size in bytes.
            codec: How it is saved for other processes; None to keep it in memory only.
        """
        return self.type_columns(entity).derived(column, kind, build, size, codec)

    def rows_to_read(self, entities: Iterable[EntityRef]) -> int:
        """The rough number of rows to read before a query on these types can start.

        Columns do not count, nor what is on disk or follows from an older version in memory.
        """
        rows = 0
        for entity in entities:
            if entity.kind == "edge" and not self._adjacencies[entity.name].is_available():
                rows += self._edges[entity.name].size
            elif entity.kind == "node" and not self._nodes[entity.name].is_available():
                rows += self._nodes[entity.name].size
        return rows

    # -- adjacency ---------------------------------------------------------------------------------

    def neighbours(self, edge: EntityRef, towards: Towards, sources: Handles) -> NeighbourSlices:
        """The distinct nodes one edge away from each source, in the order of their ids."""
        return self._adjacencies[edge.name].links[towards].get().slices(sources)

    def edges(self, edge: EntityRef, towards: Towards, sources: Handles) -> NeighbourSlices:
        """Every stored edge at each source, with the node at its other end."""
        return self._adjacencies[edge.name].edges[towards].get().slices(sources)

    def degrees(self, edge: EntityRef, towards: Towards, sources: Handles | None) -> Counts:
        """The number of distinct nodes one edge away from each source, or from every node."""
        degrees = self._adjacencies[edge.name].links[towards].get().degrees
        return degrees if sources is None else degrees[sources]

    def linked(self, edge: EntityRef, towards: Towards, sources: Handles, targets: Handles) -> Mask:
        """True where an edge leads from a source to the target in the same place."""
        return self._adjacencies[edge.name].links[towards].get().linked(sources, targets)
