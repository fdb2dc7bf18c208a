"""Random changes of a given graph: mostly allowed ones, some that break rules."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from omnigraph.lang.catalog.model import Catalog, EdgeType, EntityType, NodeType, Property
from omnigraph.lang.ir.expr import ConstValue
from omnigraph.lang.literal import Literal, LiteralKind
from omnigraph.lang.query import ast
from omnigraph.lang.source import Name
from omnigraph.lang.values import Base, ValueType
from omnigraph.testing.naive.graph import ModelGraph
from omnigraph.testing.naive.rules import breaks
from omnigraph.testing.strategies_graph import NAMES, pool, scalars
from omnigraph.testing.strategies_query import _ORDERINGS, TypedQuery, _Builder
from omnigraph.testing.strategies_search import literal_of, spelled

_ID = ValueType(Base.STRING)
_NULL = Literal(LiteralKind.NULL)


class _ChangeBuilder(_Builder):
    """Draws one changing query for a graph."""

    graph: ModelGraph

    def statements(self) -> tuple[ast.Statement, ...]:
        deletes = self.chance(6)
        size = self.draw(st.integers(1, 4))
        if deletes:
            return tuple(self.delete() for _ in range(size))
        return tuple(self.update() if self.chance(3) else self.insert() for _ in range(size))

    def any_type(self, *, inserting: bool = False) -> EntityType:
        """Mostly a type for which there is something to do."""
        types: list[EntityType] = [*self.catalog.nodes, *self.catalog.edges]
        if not self.chance(8):
            types = [item for item in types if self.has_some(item, inserting=inserting)] or types
        return self.draw(st.sampled_from(types))

    def has_some(self, entity: EntityType, *, inserting: bool) -> bool:
        wanted = [f"{entity.kind}:{entity.name}"]
        if inserting:
            ends = (entity.source, entity.target) if isinstance(entity, EdgeType) else ()
            wanted = [f"node:{end}" for end in ends]
        return all(self.graph.tables.get(key) for key in wanted)

    # -- insert and update -----------------------------------------------------------------

    def insert(self) -> ast.Insert:
        entity = self.any_type(inserting=True)
        given: list[ast.Assignment] = []
        if isinstance(entity, EdgeType):
            for name, node in (("from", entity.source), ("to", entity.target)):
                given.append(_assign(name, self.end(node)))
        for item in entity.properties:
            free = item.type.nullable or item.default is not None
            if not free or self.chance(2):
                given.append(_assign(item.name, self.assigned(entity, item)))
        if not given:
            item = entity.properties[0]
            given.append(_assign(item.name, self.assigned(entity, item)))
        return ast.Insert(Name(entity.name), tuple(given))

    def end(self, node: str) -> ast.Operand:
        """The id of a node: mostly one that is there, or one that another statement may make."""
        known = sorted(self.graph.tables.get(f"node:{node}", {}))
        if not known or self.chance(8):
            known = [*NAMES, "nowhere"]
        text = self.draw(st.sampled_from(known))
        return self.text(text)

    def text(self, text: str) -> ast.Operand:
        if self.chance(2):
            return Literal(LiteralKind.STRING, text)
        return self.given_as(_ID, text)

    def given_as(self, kind: ValueType, value: object) -> ast.Var:
        name = self.fresh("q")
        # An enum is given as text.
        self.params[name] = ValueType(kind.base, kind.nullable, kind.is_list, kind.dim)
        self.given[name] = value
        return ast.Var(name)

    def assigned(self, entity: EntityType, item: Property) -> ast.Operand:
        """A value for a property; one that is required is never null."""
        some = pool(entity, item.name)
        if not self.chance(8):
            some = tuple(each for each in some if not any(breaks(entity, item, each)))
        value = self.draw(st.sampled_from(some))
        if item.type.is_list:
            value = tuple(self.draw(st.lists(st.sampled_from(some), max_size=2)))
        if self.chance(2):
            return self.given_as(item.type, plain(item.type, value))
        return literal(item.type, value)

    def update(self) -> ast.Update:
        entity = self.any_type()
        free = [item for item in entity.properties if item.name not in entity.key]
        if not free:
            return self.update()
        chosen = self.draw(
            st.lists(st.sampled_from(free), min_size=1, max_size=2, unique_by=lambda i: i.name)
        )
        given = tuple(_assign(item.name, self.assigned(entity, item)) for item in chosen)
        return ast.Update(Name(entity.name), given, self.where(entity))

    # -- conditions ------------------------------------------------------------------------

    def delete(self) -> ast.Delete:
        entity = self.any_type()
        return ast.Delete(Name(entity.name), self.where(entity))

    def where(self, entity: EntityType) -> ast.Condition:
        whole = self.part(entity)
        if self.chance(2):
            parts = (whole, self.part(entity))
            whole = ast.And(parts) if self.draw(st.booleans()) else ast.Or(parts)
        both = entity.name in self.catalog.node_by_name and entity.name in self.catalog.edge_by_name
        if both and isinstance(entity, EdgeType):
            # One name for a node and an edge type: the ends tell that the edge is meant.
            whole = ast.And((whole, ast.IsNull(ast.Bare("from"), True)))
        return ast.Not(whole) if self.chance(6) else whole

    def part(self, entity: EntityType) -> ast.Condition:
        kinds = {item.name: item.type for item in entity.properties if item.type.is_scalar}
        names = [*kinds, "id"] if isinstance(entity, NodeType) else [*kinds, "id", "from", "to"]
        name = self.draw(st.sampled_from(names))
        left = ast.Bare(name)
        shape = self.draw(st.integers(0, 5))
        if shape == 0:
            return ast.IsNull(left, self.draw(st.booleans()))
        values = [self.compared(entity, name, kinds.get(name)) for _ in range(2)]
        if shape == 1:
            return ast.In(left, tuple(values), negated=self.draw(st.booleans()))
        return ast.Compare(left, self.draw(st.sampled_from(_ORDERINGS)), values[0])

    def compared(self, entity: EntityType, name: str, kind: ValueType | None) -> ast.Operand:
        if kind is None:
            return self.text(self.draw(st.sampled_from(self.ids(entity, name))))
        rows = self.graph.tables.get(f"{entity.kind}:{entity.name}", {})
        held = [row[name] for row in rows.values() if row[name] is not None]
        value = self.draw(st.sampled_from(held if held and not self.chance(4) else scalars(kind)))
        required = ValueType(kind.base, enum=kind.enum)
        if self.chance(2):
            return self.given_as(required, plain(required, value))
        return literal(required, value)

    def ids(self, entity: EntityType, name: str) -> Sequence[str]:
        keys = [f"{entity.kind}:{entity.name}"]
        if isinstance(entity, EdgeType) and name != "id":
            keys = [f"node:{entity.source if name == 'from' else entity.target}"]
        known = [each for key in keys for each in sorted(self.graph.tables.get(key, {}))]
        return [*known, "nowhere"]


def _assign(name: str, value: ast.Operand) -> ast.Assignment:
    return ast.Assignment(Name(name), value)


def literal(kind: ValueType, value: ConstValue) -> Literal:
    """A stored value as a literal of any kind."""
    if value is None:
        return _NULL
    if isinstance(value, tuple):
        element = ValueType(Base.F32) if kind.base is Base.VECTOR else kind.element()
        return Literal(LiteralKind.LIST, items=tuple(literal(element, each) for each in value))
    return literal_of(kind, value)


def plain(kind: ValueType, value: ConstValue) -> object:
    """A stored value as a caller gives it."""
    if isinstance(value, tuple):
        return [plain(kind, each) for each in value]
    if value is None or kind.base not in (Base.DATE, Base.DATETIME):
        return value
    return spelled(literal_of(kind, value))


@st.composite
def changes(draw: st.DrawFn, catalog: Catalog, graph: ModelGraph) -> TypedQuery:
    """A changing query that compiles against the catalog, aimed at what the graph holds."""
    builder = _ChangeBuilder(draw, catalog)
    builder.graph = graph
    body = ast.Mutation(builder.statements())
    params = tuple(ast.Parameter(name, kind) for name, kind in builder.params.items())
    return TypedQuery(ast.Query(Name("q"), params, (), body), builder.given)
