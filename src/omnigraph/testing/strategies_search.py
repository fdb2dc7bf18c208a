"""Random queries with everything that a query can hold: search, rankings, built-in columns.

They extend `typed_queries`, which knows patterns, plain conditions and aggregates.
"""

from __future__ import annotations

from hypothesis import strategies as st

from omnigraph.lang.catalog.model import Catalog, NodeType, Property
from omnigraph.lang.ir.expr import ConstValue
from omnigraph.lang.literal import Literal, LiteralKind
from omnigraph.lang.query import ast
from omnigraph.lang.source import Name
from omnigraph.lang.values import NUMERIC, Base, ValueType, format_date, format_datetime
from omnigraph.testing.strategies_graph import NAMES, TEXTS, VECTORS, WORDS, WORDY, scalars
from omnigraph.testing.strategies_query import (
    _ORDERINGS,
    TypedQuery,
    _Bound,
    _Builder,
    _property,
)

_TEXT = ValueType(Base.STRING)


class _SearchBuilder(_Builder):
    """Draws one query that may search."""

    def operand(self, kind: ValueType) -> ast.Operand:
        """Mostly a value that a random graph holds."""
        if self.chance(4):
            return super().operand(kind)
        literal = literal_of(kind, self.draw(st.sampled_from(scalars(kind))))
        if self.chance(3):
            given = spelled(literal) if literal.kind in _SPELLED else literal.value
            return self.param(kind, given)
        return literal

    def condition(self, variables: list[_Bound]) -> ast.Condition | None:
        shape = self.draw(st.integers(0, 9))
        if shape >= 6:
            return None  # most queries should find something
        found: ast.Condition | None = None
        if shape == 0:
            found = self.text_condition(variables)
        elif shape == 1:
            found = self.identity(variables)
        elif shape == 2:
            found = self.mixed_numbers(variables)
        elif shape == 3 and self.chance(2):
            found = self.joined(variables)
        return super().condition(variables) if found is None else found

    def joined(self, variables: list[_Bound]) -> ast.Condition | None:
        """Two conditions in one."""
        first, second = self.condition(variables), self.condition(variables)
        if first is None or second is None:
            return None
        whole: ast.Condition = ast.Or((first, second))
        if self.draw(st.booleans()):
            whole = ast.And((first, second))
        return ast.Not(whole) if self.chance(3) else whole

    def text_condition(self, variables: list[_Bound]) -> ast.Condition | None:
        field = self.text_field(variables)
        if field is None:
            return None
        name = self.draw(st.sampled_from(("search", "match_text", "fuzzy")))
        args: list[ast.Operand] = [field, self.query_text()]
        if name == "fuzzy" and self.chance(2):
            args.append(Literal(LiteralKind.INT, self.draw(st.integers(0, 2))))
        found: ast.Condition = ast.Predicate(ast.Call(Name(name), tuple(args)))
        return ast.Not(found) if self.chance(4) else found

    def identity(self, variables: list[_Bound]) -> ast.Condition | None:
        """A condition on an id or on the end of an edge."""
        bound = self.draw(st.sampled_from(variables))
        ends = ("id",) if bound.entity.kind == "node" else ("id", "from", "to")
        left = ast.PropertyOf(ast.Var(bound.name), Name(self.draw(st.sampled_from(ends))))
        if self.chance(4):
            return ast.IsNull(left, self.draw(st.booleans()))
        texts: list[ast.Operand] = [
            Literal(LiteralKind.STRING, text) for text in (*NAMES, "n0", "n1", "e0", "e1")
        ]
        others = [
            ast.PropertyOf(ast.Var(item.name), Name("id"))
            for item in variables
            if item is not bound
        ]
        right = self.draw(st.sampled_from([*texts, *others]))
        return ast.Compare(left, self.draw(st.sampled_from(_ORDERINGS)), right)

    def mixed_numbers(self, variables: list[_Bound]) -> ast.Condition | None:
        """Two numbers of any two types."""
        numbers = [
            _property(bound, item)
            for bound in variables
            for item in bound.entity.properties
            if item.type.is_scalar and item.type.base in NUMERIC
        ]
        if not numbers:
            return None
        pool: list[ast.Operand] = [
            *numbers,
            *(Literal(LiteralKind.INT, item) for item in (-1, 0, 3, 2**31, 2**53 + 1, 2**64 - 1)),
            *(
                Literal(LiteralKind.FLOAT, item)
                for item in (0.1, 0.5, 2.5, 3.0, 1.8446744073709552e19)
            ),
        ]
        left = self.draw(st.sampled_from(numbers))
        return ast.Compare(
            left, self.draw(st.sampled_from(_ORDERINGS)), self.draw(st.sampled_from(pool))
        )

    # -- blocks ----------------------------------------------------------------------------

    def block(self, variables: list[_Bound], *, optional: bool) -> ast.Clause | None:
        """A block that may hold everything a match may hold."""
        own: list[_Bound] = []
        first = self.rebinding(variables) if self.chance(8) else self.traversal(variables, own)
        if first is None:
            return None
        clauses: list[ast.Clause] = [first]
        if self.chance(6):
            clauses.append(self.binding(own))
        if self.chance(4):
            hop = self.traversal([*variables, *own], own)
            clauses.extend([] if hop is None else [hop])
        visible = [*variables, *own]
        inner = self.block(visible, optional=self.chance(2)) if self.chance(3) else None
        clauses.extend([] if inner is None else [inner])
        if self.chance(2):
            condition = self.condition(visible)
            clauses.extend([] if condition is None else [ast.Filter(condition)])
        if not optional:
            return ast.Negation(tuple(clauses))
        added = visible[len(variables) :]
        variables.extend(_Bound(item.name, item.entity, True) for item in added)
        return ast.Optional(tuple(clauses))

    def rebinding(self, variables: list[_Bound]) -> ast.Binding | None:
        """A binding of what is bound already, which asks whether it is there."""
        nodes = [item for item in variables if isinstance(item.entity, NodeType)]
        if not nodes:
            return None
        bound = self.draw(st.sampled_from(nodes))
        return ast.Binding(ast.Var(bound.name), Name(bound.entity.name))

    # -- search ----------------------------------------------------------------------------

    def text_field(self, variables: list[_Bound]) -> ast.PropertyOf | None:
        fields = _fields(variables, Base.STRING)
        wordy = [field for field in fields if field[1].name in WORDY]
        fields = wordy if wordy and not self.chance(4) else fields
        if not fields:
            return None
        bound, item = self.draw(st.sampled_from(fields))
        return _property(bound, item)

    def query_text(self) -> ast.Operand:
        text = self.draw(
            st.one_of(
                st.sampled_from(WORDS),
                st.lists(st.sampled_from(WORDS), max_size=3).map(" ".join),
                st.sampled_from(TEXTS),
                st.sampled_from(("grph", "runing", "dta", "zurch", "ADA", "a b")),
            )
        )
        return self.required(_TEXT, text) if self.chance(3) else Literal(LiteralKind.STRING, text)

    def required(self, kind: ValueType, value: object) -> ast.Var:
        name = self.fresh("q")
        self.params[name] = kind
        self.given[name] = value
        return ast.Var(name)

    def ranking(self, bound: _Bound, item: Property) -> ast.Call:
        field = _property(bound, item)
        if item.type.base is Base.STRING:
            return ast.Call(Name("bm25"), (field, self.query_text()))
        vector = self.draw(st.sampled_from(VECTORS[item.type.dim]))
        if self.chance(2):
            kind = ValueType(Base.VECTOR, dim=item.type.dim)
            return ast.Call(Name("nearest"), (field, self.required(kind, list(vector))))
        items = tuple(Literal(LiteralKind.FLOAT, number) for number in vector)
        return ast.Call(Name("nearest"), (field, Literal(LiteralKind.LIST, items=items)))

    def rankings(self, variables: list[_Bound]) -> list[ast.Call]:
        """Up to two rankings of one variable."""
        vectors = _fields(variables, Base.VECTOR)
        fields = _fields(variables, Base.STRING) + vectors
        if not fields:
            return []
        bound, item = self.draw(st.sampled_from(vectors if vectors and self.chance(2) else fields))
        others = [field for owner, field in fields if owner is bound]
        return [self.ranking(bound, item), self.ranking(bound, self.draw(st.sampled_from(others)))]

    def ranked(self) -> ast.Read:
        """A query that orders by a ranking, or returns one."""
        variables, match = self.match()
        found = self.rankings(variables)
        returns = [
            ast.Projection(self.plain(self.draw(st.sampled_from(variables))), Name(self.fresh("c")))
            for _ in range(self.draw(st.integers(1, 2)))
        ]
        keys: list[ast.OrderKey] = []
        limit = Literal(LiteralKind.INT, self.draw(st.integers(0, 3)) * 10 + 1)
        distinct = False
        if found:
            first, second = found
            shape = self.draw(st.integers(0, 4))
            if shape == 0:
                k = (Literal(LiteralKind.INT, self.draw(st.integers(1, 70))),)
                first = ast.Call(Name("rrf"), (first, second, *(k if self.chance(2) else ())))
            elif shape == 1:
                returns.append(ast.Projection(second, Name("other")))
            scored = self.chance(2)
            if scored:
                returns.append(ast.Projection(first, Name("score")))
                distinct = self.chance(4)
            if scored and shape > 1 and self.chance(3):
                # As a number like others, in either direction.
                direction = self.draw(st.sampled_from(ast.Direction))
                keys.append(ast.OrderKey(ast.Bare("score"), direction))
            else:
                keys.append(ast.OrderKey(first))
        if not distinct and self.chance(2):
            keys.append(self.property_key(variables))
        return ast.Read(match, tuple(returns), distinct, tuple(keys), limit, None)

    def property_key(self, variables: list[_Bound]) -> ast.OrderKey:
        bound = self.draw(st.sampled_from(variables))
        names = ["id", *(item.name for item in bound.entity.properties if item.type.is_scalar)]
        name = Name(self.draw(st.sampled_from(names)))
        direction = self.draw(st.none() | st.sampled_from(ast.Direction))
        return ast.OrderKey(ast.PropertyOf(ast.Var(bound.name), name), direction)


_KINDS = {
    Base.STRING: LiteralKind.STRING,
    Base.BOOL: LiteralKind.BOOL,
    Base.F32: LiteralKind.FLOAT,
    Base.F64: LiteralKind.FLOAT,
    Base.DATE: LiteralKind.DATE,
    Base.DATETIME: LiteralKind.DATETIME,
}
_SPELLED = (LiteralKind.DATE, LiteralKind.DATETIME)


def literal_of(kind: ValueType, value: ConstValue) -> Literal:
    """A stored value as a literal."""
    assert not isinstance(value, tuple)
    return Literal(_KINDS.get(kind.base, LiteralKind.INT), value)


def spelled(literal: Literal) -> str:
    """A day or a moment as a caller gives it."""
    assert isinstance(literal.value, int)
    spell = format_date if literal.kind is LiteralKind.DATE else format_datetime
    return spell(literal.value)


def _fields(variables: list[_Bound], base: Base) -> list[tuple[_Bound, Property]]:
    return [
        (bound, item)
        for bound in variables
        if isinstance(bound.entity, NodeType)
        for item in bound.entity.properties
        if item.type.base is base and not item.type.is_list and not item.type.enum
    ]


@st.composite
def any_queries(draw: st.DrawFn, catalog: Catalog) -> TypedQuery:
    """A reading query of any kind that compiles against the catalog."""
    builder = _SearchBuilder(draw, catalog)
    body = builder.ranked() if builder.chance(3) else builder.read()
    params = tuple(ast.Parameter(name, kind) for name, kind in builder.params.items())
    return TypedQuery(ast.Query(Name("q"), params, (), body), builder.given)
