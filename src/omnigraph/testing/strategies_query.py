"""Random queries: trees that parse, and queries that compile against a given schema.

`query_files` knows the grammar only: every construct in every place where the parser takes it,
with names and types that mean nothing. `typed_queries` goes the other way: it walks a catalog and
builds queries that mean something, together with values for their parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from hypothesis import strategies as st

from omnigraph.lang.catalog.model import Catalog, EdgeType, NodeType, Property
from omnigraph.lang.literal import Literal, LiteralKind
from omnigraph.lang.query import ast
from omnigraph.lang.query.conditions import AGGREGATES, RANKINGS, TEXT_PREDICATES
from omnigraph.lang.query.format import format_queries
from omnigraph.lang.source import Name
from omnigraph.lang.values import (
    INT_RANGES,
    INTEGERS,
    NUMERIC,
    SCALARS,
    Base,
    ValueType,
    format_date,
    format_datetime,
)

_T = TypeVar("_T")

DAY_MIN, DAY_MAX = -719_162, 2_932_896  # 0001-01-01 and 9999-12-31
MILLI_MIN, MILLI_MAX = DAY_MIN * 86_400_000, (DAY_MAX + 1) * 86_400_000 - 1

# -- any tree that parses --------------------------------------------------------------------

_WORDS = ("a", "b2", "name", "some_long_name", "x_", "_y", "from", "to", "query", "match", "limit")
_plain = st.sampled_from(("a", "b2", "name", "some_long_name", "x_", "_y", "camelCase"))
_idents = st.sampled_from((*_WORDS, "not", "null", "return", "where", "distinct", "date", "now"))
_types = st.sampled_from(("Person", "T", "Some_Type2", "A1"))
# Of bare variables in conditions only parameters are used: `$a in $b` of others is a traversal.
_params = st.sampled_from(("q", "r2", "long_parameter"))
_vars = st.sampled_from(("p", "f", "_", "v3", "camelVar"))

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


def _named(strategy: st.SearchStrategy[_T]) -> st.SearchStrategy[_T]:
    """The same strategy with a short name, because nested ones print without end."""

    @st.composite
    def drawn(draw: st.DrawFn) -> _T:
        return draw(strategy)

    return drawn()


def _name(words: st.SearchStrategy[str]) -> st.SearchStrategy[Name]:
    return st.builds(Name, words)


def _scalar(kind: LiteralKind, values: st.SearchStrategy[object]) -> st.SearchStrategy[Literal]:
    return st.builds(Literal, st.just(kind), values)


_scalars = st.one_of(
    _scalar(LiteralKind.STRING, texts),
    _scalar(LiteralKind.INT, st.integers(-(10**20) + 1, 10**20 - 1)),
    _scalar(LiteralKind.FLOAT, st.floats(allow_nan=False, allow_infinity=False)),
    _scalar(LiteralKind.BOOL, st.booleans()),
    _scalar(LiteralKind.DATE, st.integers(DAY_MIN, DAY_MAX)),
    _scalar(LiteralKind.DATETIME, st.integers(MILLI_MIN, MILLI_MAX)),
    st.just(Literal(LiteralKind.NULL)),
)


def _lists(items: st.SearchStrategy[Literal]) -> st.SearchStrategy[Literal]:
    return st.lists(items, max_size=3).map(lambda a: Literal(LiteralKind.LIST, items=tuple(a)))


literals = _named(st.one_of(_scalars, _lists(st.one_of(_scalars, _lists(_scalars)))))

_properties = st.builds(ast.PropertyOf, st.builds(ast.Var, _vars), _name(_idents))
_given = st.builds(ast.Var, _params)
_now = st.just(ast.Call(Name("now")))


def _call(
    functions: tuple[str, ...], args: st.SearchStrategy[ast.Operand]
) -> st.SearchStrategy[ast.Call]:
    @st.composite
    def build(draw: st.DrawFn) -> ast.Call:
        given = tuple(draw(st.lists(args, max_size=3)))
        name = Name(draw(st.sampled_from(functions)))
        return ast.Call(name, given, bool(given) and draw(st.booleans()))

    return build()


def _operands(bare: st.SearchStrategy[ast.Operand] | None) -> st.SearchStrategy[ast.Operand]:
    leaves: list[st.SearchStrategy[ast.Operand]] = [literals, _properties, _given, _now]
    if bare is not None:
        leaves.append(bare)
    simple = _named(st.one_of(leaves))
    calls = _call((*AGGREGATES, *TEXT_PREDICATES, *RANKINGS), simple)
    nested = _call(("rrf", "count"), st.one_of(simple, calls))
    return _named(st.one_of(simple, simple, calls, nested))


# An identifier on its own must not read as a literal or as the start of something else.
_bare = st.builds(ast.Bare, _plain)


def _conditions(bare: st.SearchStrategy[ast.Operand] | None) -> st.SearchStrategy[ast.Condition]:
    operands = _operands(bare)
    containers = operands.filter(
        lambda item: not (isinstance(item, Literal) and item.kind is LiteralKind.LIST)
    )
    simple: st.SearchStrategy[ast.Condition] = st.one_of(
        st.builds(ast.Compare, operands, st.sampled_from(ast.CompareOp), operands),
        st.builds(ast.IsNull, operands, st.booleans()),
        st.builds(
            ast.In, operands, st.lists(operands, max_size=3).map(tuple), negated=st.booleans()
        ),
        st.builds(ast.In, operands, container=containers, negated=st.booleans()),
        st.builds(ast.Predicate, _call(TEXT_PREDICATES, operands)),
    )

    def grow(inner: st.SearchStrategy[ast.Condition]) -> st.SearchStrategy[ast.Condition]:
        many = st.lists(inner, min_size=2, max_size=3).map(tuple)
        return st.one_of(
            st.builds(ast.Not, inner), st.builds(ast.And, many), st.builds(ast.Or, many)
        )

    return _named(st.recursive(simple, grow, max_leaves=5))


_assignments = st.lists(
    st.builds(ast.Assignment, _name(_idents), st.one_of(literals, _given, _properties, _now)),
    max_size=3,
).map(tuple)


@st.composite
def _traversals(draw: st.DrawFn) -> ast.Traversal:
    variables = st.builds(ast.Var, _vars)
    hops: ast.Hops | None = None
    if draw(st.booleans()):
        hops = ast.Hops(draw(st.integers(0, 99)), draw(st.none() | st.integers(0, 99)))
    return ast.Traversal(
        draw(variables),
        draw(_name(_plain)),
        draw(variables),
        draw(st.none() | variables),
        draw(st.booleans()),
        hops,
    )


_clauses: st.SearchStrategy[ast.Clause] = _named(
    st.recursive(
        st.one_of(
            st.builds(ast.Binding, st.builds(ast.Var, _vars), _name(_types), _assignments),
            _traversals(),
            st.builds(ast.Filter, _conditions(None)),
        ),
        lambda inner: st.builds(
            lambda make, items: make(tuple(items)),
            st.sampled_from((ast.Negation, ast.Optional)),
            st.lists(inner, min_size=1, max_size=3),
        ),
        max_leaves=4,
    )
)

_bounds = st.none() | _given | _scalar(LiteralKind.INT, st.integers(0, 10**20 - 1))

_reads = st.builds(
    ast.Read,
    st.lists(_clauses, min_size=1, max_size=4).map(tuple),
    st.lists(
        st.builds(ast.Projection, _operands(None), st.none() | _name(_idents)),
        min_size=1,
        max_size=4,
    ).map(tuple),
    st.booleans(),
    st.lists(
        st.builds(ast.OrderKey, _operands(_bare), st.none() | st.sampled_from(ast.Direction)),
        max_size=3,
    ).map(tuple),
    _bounds,
    _bounds,
)

_statements = st.one_of(
    st.builds(ast.Insert, _name(_types), _assignments),
    st.builds(ast.Update, _name(_types), _assignments, _conditions(_bare)),
    st.builds(ast.Delete, _name(_types), _conditions(_bare)),
)
_mutations = st.builds(ast.Mutation, st.lists(_statements, min_size=1, max_size=3).map(tuple))

_param_types = st.one_of(
    st.builds(ValueType, st.sampled_from(sorted(SCALARS.values())), st.booleans(), st.booleans()),
    st.builds(ValueType, st.just(Base.VECTOR), st.booleans(), dim=st.integers(1, 2**31 - 1)),
)
_annotations = st.lists(
    st.builds(ast.QueryAnnotation, st.sampled_from(("description", "instruction")), texts),
    max_size=2,
    unique_by=lambda item: item.name,
).map(tuple)


@st.composite
def _queries(draw: st.DrawFn) -> ast.Query:
    # The parameters that conditions use are always declared.
    params = tuple(
        ast.Parameter(name, draw(_param_types)) for name in ("q", "r2", "long_parameter")
    )
    body = draw(st.one_of(_reads, _mutations))
    return ast.Query(Name(draw(_idents)), params, draw(_annotations), body)


query_files = st.lists(_queries(), max_size=3).map(lambda items: ast.QueryFile(tuple(items)))
"""Syntax trees of whole files; formatting one and parsing the text gives it back."""


# -- queries that compile --------------------------------------------------------------------


@dataclass(frozen=True, slots=True, repr=False)
class TypedQuery:
    """A reading query named `q` for some catalog, and values for its parameters."""

    query: ast.Query
    params: Mapping[str, object]

    def __repr__(self) -> str:
        return f"{self.text.strip()} with {dict(self.params)}"

    @property
    def text(self) -> str:
        """The query as source text."""
        return format_queries(ast.QueryFile((self.query,)))


@dataclass(slots=True)
class _Bound:
    """A variable of the query under construction."""

    name: str
    entity: NodeType | EdgeType
    optional: bool = False


@dataclass(slots=True)
class _Builder:
    """Draws one query, clause by clause."""

    draw: st.DrawFn
    catalog: Catalog
    params: dict[str, ValueType] = field(default_factory=dict)
    given: dict[str, object] = field(default_factory=dict)
    count: int = 0

    def chance(self, one_in: int) -> bool:
        return self.draw(st.integers(1, one_in)) == 1

    def fresh(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}"

    # -- values --------------------------------------------------------------------------

    def operand(self, kind: ValueType) -> ast.Operand:
        """A literal of a scalar type, or a new parameter of it."""
        value, literal = _drawn(self.draw, kind)
        if not self.chance(3):
            return literal
        return self.param(kind, value)

    def param(self, kind: ValueType, value: object) -> ast.Var:
        name = self.fresh("q")
        nullable = self.chance(4)
        self.params[name] = ValueType(kind.base, nullable, kind.is_list, kind.dim)
        if not (nullable and self.chance(3)):
            self.given[name] = value
        return ast.Var(name)

    def condition(self, variables: list[_Bound]) -> ast.Condition | None:
        """A condition over one or two of these variables."""
        places = [
            (bound, item)
            for bound in variables
            for item in bound.entity.properties
            if item.type.is_scalar or item.type.is_list
        ]
        if not places:
            return None
        bound, item = self.draw(st.sampled_from(places))
        left = _property(bound, item)
        shape = self.draw(st.integers(0, 7))
        if shape == 0:
            return ast.IsNull(left, self.draw(st.booleans()))
        if shape == 1:
            return ast.Not(self.simple(left, item.type))
        if shape == 2:
            others = [self.simple(left, item.type) for _ in range(self.draw(st.integers(1, 2)))]
            parts = (ast.IsNull(left, self.draw(st.booleans())), *others)
            return ast.And(parts) if self.draw(st.booleans()) else ast.Or(parts)
        if shape == 3 and item.type.is_scalar:
            twins = [
                _property(other, prop)
                for other, prop in places
                if prop.type.is_scalar and prop.type.base is item.type.base
            ]
            op = self.draw(st.sampled_from(_ORDERINGS))
            return ast.Compare(left, op, self.draw(st.sampled_from(twins)))
        return self.simple(left, item.type)

    def simple(self, left: ast.PropertyOf, kind: ValueType) -> ast.Condition:
        """A comparison of a property with something given."""
        if kind.is_list:
            return ast.Compare(left, ast.CompareOp.CONTAINS, self.operand(kind.element()))
        shape = self.draw(st.integers(0, 5))
        if shape == 0:
            size = self.draw(st.integers(0, 3))
            items = tuple(self.operand(kind) for _ in range(size))
            return ast.In(left, items, negated=self.draw(st.booleans()))
        if shape == 1:
            element = ValueType(kind.base, enum=kind.enum)
            values = [_drawn(self.draw, element)[0] for _ in range(self.draw(st.integers(0, 3)))]
            container = self.param(ValueType(kind.base, is_list=True), values)
            return ast.In(left, container=container, negated=self.draw(st.booleans()))
        if shape == 2 and kind.base is Base.STRING and not kind.enum:
            op = self.draw(st.sampled_from((ast.CompareOp.CONTAINS, ast.CompareOp.STARTS_WITH)))
            return ast.Compare(left, op, self.operand(kind))
        return ast.Compare(left, self.draw(st.sampled_from(_ORDERINGS)), self.operand(kind))

    # -- patterns --------------------------------------------------------------------------

    def binding(self, variables: list[_Bound]) -> ast.Binding:
        node = self.draw(st.sampled_from(self.catalog.nodes))
        bound = _Bound(self.fresh("n"), node)
        variables.append(bound)
        matches: list[ast.Assignment] = []
        candidates = [item for item in node.properties if item.type.is_scalar]
        if candidates and self.chance(3):
            item = self.draw(st.sampled_from(candidates))
            matches.append(ast.Assignment(Name(item.name), self.operand(item.type)))
        return ast.Binding(ast.Var(bound.name), Name(node.name), tuple(matches))

    def traversal(self, visible: list[_Bound], own: list[_Bound]) -> ast.Traversal | None:
        """A hop from one of the visible variables; what it binds is added to `own`."""
        starts = [
            (bound, edge, out)
            for bound in visible
            for edge in self.catalog.edges
            for out in (True, False)
            if bound.entity.kind == "node"
            and bound.entity.name == (edge.source if out else edge.target)
        ]
        if not starts:
            return None
        start, edge, out = self.draw(st.sampled_from(starts))
        far = edge.target if out else edge.source
        target = self._target(far, visible, own)
        loops = edge.source == edge.target
        hops: ast.Hops | None = None
        binding: ast.Var | None = None
        if loops and self.chance(4):
            low = self.draw(st.integers(1, 3))
            hops = ast.Hops(low, low + self.draw(st.integers(0, 2)))
        elif self.chance(4):
            bound = _Bound(self.fresh("e"), edge)
            own.append(bound)
            binding = ast.Var(bound.name)
        undirected = loops and self.chance(4)
        ends = (ast.Var(start.name), ast.Var(target))
        # Between equal types the order of the variables decides; else either order will do.
        forward = out if loops else self.draw(st.booleans())
        source, end = ends if forward else ends[::-1]
        name = Name(edge.name[0].lower() + edge.name[1:])
        return ast.Traversal(source, name, end, binding, undirected, hops)

    def _target(self, type_name: str, visible: list[_Bound], own: list[_Bound]) -> str:
        same = [item.name for item in visible if item.entity.name == type_name and _is_node(item)]
        if same and self.chance(5):
            return self.draw(st.sampled_from(same))
        if self.chance(6):
            return "_"
        bound = _Bound(self.fresh("n"), self.catalog.node_by_name[type_name])
        own.append(bound)
        return bound.name

    def block(self, variables: list[_Bound], *, optional: bool) -> ast.Clause | None:
        """A `not` or `optional` block that hangs on the variables around it."""
        own: list[_Bound] = []
        first = self.traversal(variables, own)
        if first is None:
            return None
        clauses: list[ast.Clause] = [first]
        if self.chance(2):
            condition = self.condition([*own, *variables])
            clauses.extend([] if condition is None else [ast.Filter(condition)])
        if self.chance(3):
            inner = self.block([*variables, *own], optional=False)
            clauses.extend([] if inner is None else [inner])
        if not optional:
            return ast.Negation(tuple(clauses))
        variables.extend(_Bound(item.name, item.entity, True) for item in own)
        return ast.Optional(tuple(clauses))

    def match(self) -> tuple[list[_Bound], tuple[ast.Clause, ...]]:
        variables: list[_Bound] = []
        pattern: list[ast.Clause] = [self.binding(variables)]
        for _ in range(self.draw(st.integers(0, 3))):
            if self.chance(6):
                pattern.append(self.binding(variables))
            else:
                own: list[_Bound] = []
                hop = self.traversal(variables, own)
                pattern.extend([] if hop is None else [hop])
                variables.extend(own)
        pattern = self.draw(st.permutations(pattern))
        rest: list[ast.Clause] = []
        for _ in range(self.draw(st.integers(0, 2))):
            block = self.block(variables, optional=self.chance(2))
            rest.extend([] if block is None else [block])
        for _ in range(self.draw(st.integers(0, 2))):
            condition = self.condition(variables)
            rest.extend([] if condition is None else [ast.Filter(condition)])
        return variables, (*pattern, *rest)

    # -- results -------------------------------------------------------------------------

    def read(self) -> ast.Read:
        variables, match = self.match()
        grouped = self.chance(3)
        returns: list[ast.Projection] = []
        keys: list[ast.OrderKey] = []
        for _ in range(self.draw(st.integers(1, 3))):
            bound = self.draw(st.sampled_from(variables))
            expr = self.aggregate(bound) if grouped and self.chance(2) else self.plain(bound)
            alias = self.fresh("c")
            returns.append(ast.Projection(expr, Name(alias)))
            if self.chance(2) and self._sortable(expr, bound):
                keys.append(ast.OrderKey(ast.Bare(alias), self._direction()))
        if grouped:
            returns.append(ast.Projection(ast.Call(Name("count"), (ast.Var(variables[0].name),))))
        distinct = self.chance(4)
        if not grouped and not distinct and self.chance(3):
            keys.append(ast.OrderKey(ast.PropertyOf(ast.Var(variables[0].name), Name("id"))))
        if distinct:
            returns = [item for item in returns if not self._is_vector(item.expr, variables)]
            returns = returns or [ast.Projection(Literal(LiteralKind.INT, 1))]
            known = {item.alias.text for item in returns if item.alias is not None}
            keys = [
                key for key in keys if isinstance(key.expr, ast.Bare) and key.expr.name in known
            ]
        return ast.Read(
            match,
            tuple(returns),
            distinct,
            tuple(keys),
            self.bound_value() if self.chance(3) else None,
            self.bound_value() if self.chance(4) else None,
        )

    def _direction(self) -> ast.Direction | None:
        return self.draw(st.none() | st.sampled_from(ast.Direction))

    def bound_value(self) -> Literal | ast.Var:
        value = self.draw(st.integers(0, 20))
        if self.chance(3):
            name = self.fresh("q")
            self.params[name] = ValueType(self.draw(st.sampled_from((Base.I32, Base.U64))))
            self.given[name] = value
            return ast.Var(name)
        return Literal(LiteralKind.INT, value)

    def plain(self, bound: _Bound) -> ast.Operand:
        items = [item for item in bound.entity.properties if item.type.base is not Base.BLOB]
        if not items or self.chance(5):
            return ast.Var(bound.name)
        item = self.draw(st.sampled_from(items))
        if item.type.base is Base.VECTOR:
            return ast.Var(bound.name)
        return _property(bound, item)

    def aggregate(self, bound: _Bound) -> ast.Call:
        scalars = [item for item in bound.entity.properties if item.type.is_scalar]
        numbers = [item for item in scalars if item.type.base in NUMERIC]
        function = self.draw(st.sampled_from(AGGREGATES))
        if function in ("sum", "avg") and numbers:
            arg: ast.Operand = _property(bound, self.draw(st.sampled_from(numbers)))
        elif function in ("min", "max") and scalars:
            arg = _property(bound, self.draw(st.sampled_from(scalars)))
        else:
            function = "count"
            whole: list[ast.Operand] = [ast.Var(bound.name)]
            arg = self.draw(
                st.sampled_from([*whole, *(_property(bound, item) for item in scalars)])
            )
        distinct = function == "count" and self.draw(st.booleans())
        return ast.Call(Name(function), (arg,), distinct)

    def _sortable(self, expr: ast.Operand, bound: _Bound) -> bool:
        if isinstance(expr, ast.PropertyOf):
            return bound.entity.property_by_name[expr.property.text].type.is_scalar
        return isinstance(expr, ast.Call)

    def _is_vector(self, expr: ast.Operand, variables: list[_Bound]) -> bool:
        if not isinstance(expr, ast.PropertyOf):
            return False
        bound = next(item for item in variables if item.name == expr.var.name)
        return bound.entity.property_by_name[expr.property.text].type.base is Base.VECTOR


_ORDERINGS = (
    ast.CompareOp.EQ,
    ast.CompareOp.NE,
    ast.CompareOp.LT,
    ast.CompareOp.LE,
    ast.CompareOp.GT,
    ast.CompareOp.GE,
)


def _is_node(bound: _Bound) -> bool:
    return bound.entity.kind == "node"


def _property(bound: _Bound, item: Property) -> ast.PropertyOf:
    return ast.PropertyOf(ast.Var(bound.name), Name(item.name))


_Maker = Callable[[st.DrawFn], tuple[object, Literal]]


def _drawn(draw: st.DrawFn, kind: ValueType) -> tuple[object, Literal]:
    """A value of a scalar type: as a caller would give it, and as a literal."""
    if kind.enum:
        text = draw(st.sampled_from(kind.enum))
        return text, Literal(LiteralKind.STRING, text)
    if kind.base in INTEGERS:
        low, high = INT_RANGES[kind.base]
        number = draw(st.one_of(st.integers(max(low, -3), 5), st.integers(low, high)))
        return number, Literal(LiteralKind.INT, number)
    return _MAKERS[kind.base](draw)


def _text(draw: st.DrawFn) -> tuple[object, Literal]:
    value = draw(st.one_of(st.sampled_from(("", "a", "b", "ab", "Ada")), texts))
    return value, Literal(LiteralKind.STRING, value)


def _bool(draw: st.DrawFn) -> tuple[object, Literal]:
    value = draw(st.booleans())
    return value, Literal(LiteralKind.BOOL, value)


def _float(draw: st.DrawFn) -> tuple[object, Literal]:
    value = draw(st.one_of(st.sampled_from((0.0, 0.5, -1.0, 3.0)), st.floats(-1e6, 1e6, width=32)))
    return value, Literal(LiteralKind.FLOAT, value)


def _date(draw: st.DrawFn) -> tuple[object, Literal]:
    value = draw(st.one_of(st.integers(0, 3), st.integers(DAY_MIN, DAY_MAX)))
    return format_date(value), Literal(LiteralKind.DATE, value)


def _datetime(draw: st.DrawFn) -> tuple[object, Literal]:
    value = draw(st.one_of(st.integers(0, 3), st.integers(MILLI_MIN, MILLI_MAX)))
    return format_datetime(value), Literal(LiteralKind.DATETIME, value)


_MAKERS: dict[Base, _Maker] = {
    Base.STRING: _text,
    Base.BOOL: _bool,
    Base.F32: _float,
    Base.F64: _float,
    Base.DATE: _date,
    Base.DATETIME: _datetime,
}


@st.composite
def typed_queries(draw: st.DrawFn, catalog: Catalog) -> TypedQuery:
    """A reading query that compiles against the catalog, which must have a node type."""
    builder = _Builder(draw, catalog)
    body = builder.read()
    params = tuple(ast.Parameter(name, kind) for name, kind in builder.params.items())
    return TypedQuery(ast.Query(Name("q"), params, (), body), builder.given)
