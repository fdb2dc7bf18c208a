"""The catalog: what a schema means once it has been checked. Immutable and picklable.

Everything is sorted by name, so two schemas that differ only in the order of their declarations
give equal catalogs. Each type has an `id` and each property an id within its type; they are what
survives a rename. A catalog fresh from the compiler carries the ids its types would get in a new
graph; `identity.adopt` replaces them by those of an accepted catalog.

Ids count within the history of one branch. Between branches a type is known by its id, which comes
from its name, and a property by its `identity`, which comes from the name it was declared with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, TypedDict
from typing import Literal as OneOf

from omnigraph.lang.literal import Literal
from omnigraph.lang.values import ValueType
from omnigraph.types import Metric

EntityKind = OneOf["node", "edge"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Embed:
    """The declaration that a vector is computed from a text property."""

    source: str
    model: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomAnnotation:
    """An annotation that the compiler keeps but does not interpret."""

    name: str
    args: tuple[Literal | str, ...] = ()  # a plain str is a bare identifier
    kwargs: tuple[tuple[str, Literal], ...] = ()  # sorted

    @property
    def rank(self) -> str:
        """The sort key of the annotations of one entry."""
        return f"{self.name} {self.args!r} {self.kwargs!r}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Property:
    """One property of a node, edge or interface type."""

    name: str
    id: int
    type: ValueType
    enum_name: str | None = None  # set when the type was named, `status: Status`
    default: Literal | None = None  # already checked against `type`
    embed: Embed | None = None
    metric: Metric | None = None  # Vector properties only; never None there
    description: str | None = None
    annotations: tuple[CustomAnnotation, ...] = ()
    renamed_from: str | None = None  # hint for the planner; not part of the shape
    birth_name: str | None = None  # what it was declared as; None when that is its name
    fill: Literal | None = None  # the value of rows that were stored before it was declared

    @property
    def identity(self) -> str:
        """Its identity among all properties that its type ever had, on whatever branch."""
        return self.birth_name or self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Inclusive numeric bounds of a property; None is open."""

    property: str
    low: int | float | None
    high: int | float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A regular expression that a String property must contain a match of (unanchored)."""

    property: str
    pattern: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cardinality:
    """The bounds on the number of edges of a type that leave one source node."""

    low: int = 0
    high: int | None = None


@dataclass(frozen=True, kw_only=True)
class EntityType:
    """The common part of node and edge types."""

    kind: ClassVar[EntityKind]

    name: str
    id: str
    properties: tuple[Property, ...]  # sorted by name
    key: tuple[str, ...] = ()  # () when entities get generated ids
    uniques: tuple[tuple[str, ...], ...] = ()
    indexes: tuple[tuple[str, ...], ...] = ()  # includes what the key implies
    description: str | None = None
    instruction: str | None = None
    annotations: tuple[CustomAnnotation, ...] = ()
    renamed_from: str | None = None
    next_property_id: int = 1
    retired: tuple[str, ...] = ()  # identities of dropped properties; never given again

    @cached_property
    def property_by_identity(self) -> Mapping[str, Property]:
        """Properties by their identity, which is the same on every branch."""
        return {item.identity: item for item in self.properties}

    @cached_property
    def property_by_name(self) -> Mapping[str, Property]:
        """Properties by name."""
        return {item.name: item for item in self.properties}


class EntityFields(TypedDict):
    """The arguments that node and edge types have in common."""

    name: str
    id: str
    properties: tuple[Property, ...]
    key: tuple[str, ...]
    uniques: tuple[tuple[str, ...], ...]
    indexes: tuple[tuple[str, ...], ...]
    description: str | None
    instruction: str | None
    annotations: tuple[CustomAnnotation, ...]
    renamed_from: str | None
    next_property_id: int
    retired: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class NodeType(EntityType):
    """A node type."""

    kind: ClassVar[EntityKind] = "node"

    implements: tuple[str, ...] = ()
    ranges: tuple[Range, ...] = ()
    checks: tuple[Check, ...] = ()


@dataclass(frozen=True, kw_only=True)
class EdgeType(EntityType):
    """An edge type. Its `key`, if any, starts with the implicit columns `src` and `dst`."""

    kind: ClassVar[EntityKind] = "edge"

    source: str
    target: str
    cardinality: Cardinality = Cardinality()


@dataclass(frozen=True, slots=True, kw_only=True)
class InterfaceType:
    """A mixin of properties; not stored and not queryable."""

    name: str
    properties: tuple[Property, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EnumType:
    """A named enum; values sorted."""

    name: str
    values: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Catalog:
    """A checked schema. Every tuple is sorted by name."""

    nodes: tuple[NodeType, ...] = ()
    edges: tuple[EdgeType, ...] = ()
    interfaces: tuple[InterfaceType, ...] = ()
    enums: tuple[EnumType, ...] = ()
    retired: tuple[str, ...] = field(default=())  # ids of dropped types; never given again

    @cached_property
    def node_by_name(self) -> Mapping[str, NodeType]:
        """Node types by name."""
        return {item.name: item for item in self.nodes}

    @cached_property
    def edge_by_name(self) -> Mapping[str, EdgeType]:
        """Edge types by name."""
        return {item.name: item for item in self.edges}

    @cached_property
    def edge_by_folded_name(self) -> Mapping[str, EdgeType]:
        """Edge types by lower-case name, which is how a query may spell them."""
        return {item.name.lower(): item for item in self.edges}

    @cached_property
    def edges_by_node(self) -> Mapping[str, tuple[EdgeType, ...]]:
        """The edge types that touch a node type at either end."""
        touching: dict[str, list[EdgeType]] = {item.name: [] for item in self.nodes}
        for edge in self.edges:
            for end in {edge.source, edge.target}:
                touching[end].append(edge)
        return {name: tuple(edges) for name, edges in touching.items()}
