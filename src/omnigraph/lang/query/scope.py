"""Scopes of names in a query: parameters, bound variables, and the columns read of them.

A block (`not`, `optional`) opens an inner scope. Variables get an internal name that is unique in
the whole query, so that two blocks may use one spelling for different things.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from omnigraph.lang.catalog.model import Catalog, EdgeType, EntityType, NodeType
from omnigraph.lang.ir.expr import Column, EntityRef
from omnigraph.lang.values import Base, ValueType

ID = ValueType(Base.STRING)
NODE_COLUMNS: dict[str, Column] = {"id": Column("id", ID)}
# In a query the ends of an edge are `from` and `to`; stored they are `src` and `dst`.
EDGE_COLUMNS: dict[str, Column] = {
    "id": Column("id", ID),
    "from": Column("src", ID),
    "to": Column("dst", ID),
}


def entity_ref(entity: EntityType) -> EntityRef:
    """A type as the plan names it."""
    return EntityRef(entity.kind, entity.name, entity.id)


def builtin_columns(entity: EntityType) -> dict[str, Column]:
    """The columns every entity of this kind has, by the name a query uses."""
    return NODE_COLUMNS if entity.kind == "node" else EDGE_COLUMNS


def column_of(entity: EntityType, name: str) -> Column | None:
    """The column behind a property name or one of the built-in names."""
    found = entity.property_by_name.get(name)
    if found is not None:
        return Column(found.name, found.type)
    return builtin_columns(entity).get(name)


@dataclass(slots=True)
class Variable:
    """A bound variable."""

    name: str
    key: str  # unique in the query
    entity: NodeType | EdgeType
    optional: bool = False
    columns: dict[str, Column] = field(default_factory=dict)

    def read(self, column: Column) -> None:
        """Note that the query reads a column of this variable."""
        if column.name not in ("id", "src", "dst"):
            self.columns[column.name] = column


class Names:
    """The declarations of the whole query; shared by all its scopes."""

    __slots__ = ("_counts", "catalog", "params", "used_params", "variables")

    def __init__(self, catalog: Catalog, params: dict[str, ValueType]) -> None:
        """Start with the parameters of a query."""
        self.catalog = catalog
        self.params = params
        self.used_params: set[str] = set()
        self.variables: dict[str, Variable] = {}
        self._counts: dict[str, int] = {}

    def declare(self, name: str, entity: NodeType | EdgeType) -> Variable:
        """A new variable with a key of its own."""
        count = self._counts.get(name, 0) + 1
        self._counts[name] = count
        key = f"{name}#{count}" if count > 1 or name == "_" else name
        variable = Variable(name, key, entity)
        self.variables[key] = variable
        return variable


class QueryScope:
    """The variables visible in one block.

    A name whose clause was rejected is `lost`: what it would have been is not known, so its uses
    are not reported again. A scope that met such a name is `doubtful`.
    """

    __slots__ = ("doubtful", "lost", "names", "own", "parent")

    def __init__(self, names: Names, parent: QueryScope | None = None) -> None:
        """Open a scope inside `parent`."""
        self.names = names
        self.parent = parent
        self.own: dict[str, Variable] = {}
        self.lost: set[str] = set()
        self.doubtful = False

    def find(self, name: str) -> Variable | None:
        """The variable of this name, from the innermost scope that has it."""
        scope: QueryScope | None = self
        while scope is not None:
            variable = scope.own.get(name)
            if variable is not None:
                return variable
            scope = scope.parent
        return None

    def bind(self, name: str, entity: NodeType | EdgeType) -> Variable:
        """Declare a variable in this scope; `_` is new every time and cannot be found."""
        variable = self.names.declare(name, entity)
        if name != "_":
            self.own[name] = variable
        return variable

    def lose(self, name: str) -> None:
        """Note that a rejected clause would have bound this name."""
        if name != "_" and self.find(name) is None:
            self.lost.add(name)

    def has_lost(self, name: str) -> bool:
        """True if a rejected clause would have bound this name."""
        scope: QueryScope | None = self
        while scope is not None:
            if name in scope.lost:
                self.doubtful = True
                return True
            scope = scope.parent
        return False

    def visible(self) -> Iterator[str]:
        """All variable names that can be used here."""
        scope: QueryScope | None = self
        while scope is not None:
            yield from scope.own
            scope = scope.parent
