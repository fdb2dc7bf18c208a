"""The tasks that algorithms are given: on which part of a graph, and with which parameters.

Vertices are numbered type after type, in the order of the names of the types, and within a type in
the order of their ids. Both engines number them alike, so their answers are the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, Protocol

from omnigraph.algorithms.pagerank import PageRankTerms
from omnigraph.errors import Code, InvalidInput
from omnigraph.lang.catalog.model import Catalog, EdgeType
from omnigraph.lang.ir.ops import Towards
from omnigraph.lang.source import did_you_mean
from omnigraph.lang.values import NUMERIC

VERTICES_MAX: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Selection:
    """The part of a graph that counts: all nodes of some types and all edges of some types."""

    nodes: tuple[str, ...]  # sorted
    edges: tuple[EdgeType, ...]  # sorted by name; their ends are among the nodes

    @property
    def keys(self) -> tuple[str, ...]:
        """The tables that have them."""
        edges = (f"edge:{edge.name}" for edge in self.edges)
        return (*(f"node:{name}" for name in self.nodes), *edges)


def select(catalog: Catalog, nodes: Sequence[str] | None, edges: Sequence[str] | None) -> Selection:
    """The nodes and edges of these types.

    Args:
        catalog: The schema.
        nodes: Node types; None for those that the edge types connect.
        edges: Edge types; None for all that connect these node types.

    Raises:
        InvalidInput: There is no such type, or an edge type leads elsewhere.
    """
    for name in nodes or ():
        if name not in catalog.node_by_name:
            raise _unknown("node", name, list(catalog.node_by_name))
    for name in edges or ():
        if name not in catalog.edge_by_name:
            raise _unknown("edge", name, list(catalog.edge_by_name))
    if edges is None:
        inside = set(nodes if nodes is not None else catalog.node_by_name)
        chosen = [e for e in catalog.edges if e.source in inside and e.target in inside]
    else:
        chosen = [edge for edge in catalog.edges if edge.name in set(edges)]
    ends = {end for edge in chosen for end in (edge.source, edge.target)}
    if nodes is None:
        wanted = ends if edges is not None else set(catalog.node_by_name)
        return Selection(tuple(sorted(wanted)), tuple(chosen))
    if missing := sorted(ends - set(nodes)):
        text = (
            f"the edge types {', '.join(edge.name for edge in chosen)} also lead to "
            f"{', '.join(missing)}; name these node types, too, or leave the node types out"
        )
        raise InvalidInput(Code.INPUT_INVALID, text, missing=missing)
    return Selection(tuple(sorted(set(nodes))), tuple(chosen))


def _unknown(kind: str, name: object, known: list[str]) -> InvalidInput:
    near = did_you_mean(name, known) if isinstance(name, str) else None
    text = f"the graph has no {kind} type {name!r:.80}" + (f"; {near}" if near else "")
    return InvalidInput(Code.INPUT_INVALID, text, type=str(name))


class Task(Protocol):
    """An algorithm and its terms."""

    @property
    def name(self) -> str:
        """The name of the algorithm."""
        ...

    @property
    def column(self) -> str:
        """The name of what it computes for each vertex."""
        ...

    @property
    def is_whole(self) -> bool:
        """True if these are whole numbers."""
        ...

    @property
    def is_partial(self) -> bool:
        """True if some vertices have none."""
        ...

    def bytes_needed(self, vertices: int, edges: int) -> int:
        """Roughly how much memory it takes in one process."""
        ...


# What a vertex takes, with its id; and an end of an edge while rows are made of it.
_VERTEX_BYTES: Final = 96
_ENTRY_BYTES: Final = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRankTask:
    """The rank of each vertex."""

    name: ClassVar[str] = "pagerank"
    column: ClassVar[str] = "rank"
    is_whole: ClassVar[bool] = False
    is_partial: ClassVar[bool] = False

    direction: Towards = Towards.OUT
    terms: PageRankTerms = field(default_factory=PageRankTerms)

    def bytes_needed(self, vertices: int, edges: int) -> int:
        """Roughly how much memory it takes in one process."""
        return _VERTEX_BYTES * vertices + _ENTRY_BYTES * _entries(self.direction, edges)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentsTask:
    """The weakly connected component of each vertex: the number of its smallest member."""

    name: ClassVar[str] = "connected_components"
    column: ClassVar[str] = "component"
    is_whole: ClassVar[bool] = True
    is_partial: ClassVar[bool] = False

    def bytes_needed(self, vertices: int, edges: int) -> int:
        """Roughly how much memory it takes in one process."""
        return _VERTEX_BYTES * vertices + 16 * edges


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelPropagationTask:
    """The community of each vertex, by label propagation."""

    name: ClassVar[str] = "label_propagation"
    column: ClassVar[str] = "label"
    is_whole: ClassVar[bool] = True
    is_partial: ClassVar[bool] = False

    direction: Towards = Towards.BOTH
    iterations: int = 20

    def bytes_needed(self, vertices: int, edges: int) -> int:
        """Roughly how much memory it takes in one process."""
        return _VERTEX_BYTES * vertices + _ENTRY_BYTES * _entries(self.direction, edges)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortestPathsTask:
    """The distance of each vertex from the nearest of some sources.

    Attributes:
        sources: Ids of nodes, by type.
        direction: Which way edges are followed.
        weight: The property of the edges that is summed up; None counts edges.
        most: Vertices that are farther away are not reached.
    """

    name: ClassVar[str] = "shortest_paths"
    column: ClassVar[str] = "distance"
    is_partial: ClassVar[bool] = True

    sources: Mapping[str, tuple[str, ...]]
    direction: Towards = Towards.OUT
    weight: str | None = None
    most: float | None = None

    @property
    def is_whole(self) -> bool:
        """True if the distances are whole numbers."""
        return self.weight is None

    def bytes_needed(self, vertices: int, edges: int) -> int:
        """Roughly how much memory it takes in one process."""
        entry = _ENTRY_BYTES if self.weight is None else 2 * _ENTRY_BYTES
        return _VERTEX_BYTES * vertices + entry * _entries(self.direction, edges)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrianglesTask:
    """Counting the triangles that each vertex is in."""

    name: ClassVar[str] = "triangle_counts"
    column: ClassVar[str] = "triangles"
    is_whole: ClassVar[bool] = True
    is_partial: ClassVar[bool] = False

    def bytes_needed(self, vertices: int, edges: int) -> int:
        """Roughly how much memory it takes in one process."""
        return _VERTEX_BYTES * vertices + 96 * edges


def _entries(direction: Towards, edges: int) -> int:
    return 2 * edges if direction is Towards.BOTH else edges


def weight_property(selection: Selection, name: str) -> None:
    """Refuse a weight that some edge type lacks or that is no number.

    Raises:
        InvalidInput: It says which type.
    """
    for edge in selection.edges:
        found = edge.property_by_name.get(name)
        if found is None:
            near = did_you_mean(name, list(edge.property_by_name))
            text = f"{edge.name} has no property '{name}'" + (f"; {near}" if near else "")
            raise InvalidInput(Code.INPUT_INVALID, text, type=edge.name, property=name)
        if found.type.base not in NUMERIC or found.type.is_list:
            text = f"{edge.name}.{name} is {found.type}; weights are numbers"
            raise InvalidInput(Code.INPUT_INVALID, text, type=edge.name, property=name)


def bad_weights(type_name: str, name: str) -> InvalidInput:
    """The error about weights with which there are no shortest paths."""
    text = f"{type_name}.{name} is null or negative in some edges; no path has a length then"
    return InvalidInput(Code.INPUT_INVALID, text, type=type_name, property=name)
