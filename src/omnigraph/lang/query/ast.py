"""The syntax tree of `.gq`: what was written, before any name is looked up.

Trees compare by content alone; positions never take part in equality.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from omnigraph.lang.literal import Literal
from omnigraph.lang.source import NOWHERE, Name, Span
from omnigraph.lang.tokens import Comment
from omnigraph.lang.values import ValueType


@dataclass(frozen=True, slots=True)
class Var:
    """A variable or parameter, without its `$`. `_` is anonymous."""

    name: str
    span: Span = field(default=NOWHERE, compare=False)


# -- operands: things with a value ---------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PropertyOf:
    """`$x.name`."""

    var: Var
    property: Name
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Bare:
    """An identifier on its own: a result column in `order`, a property in `where`."""

    name: str
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Call:
    """`name(args)`: `now`, an aggregate, or a search function."""

    function: Name
    args: tuple[Operand, ...] = ()
    distinct: bool = False
    span: Span = field(default=NOWHERE, compare=False)


Operand = Literal | Var | PropertyOf | Bare | Call


# -- conditions: things that are true, false or unknown ------------------------------------


class CompareOp(StrEnum):
    """The operators between two operands."""

    EQ = "="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    CONTAINS = "contains"
    STARTS_WITH = "starts_with"


@dataclass(frozen=True, slots=True)
class Compare:
    """`left op right`."""

    left: Operand
    op: CompareOp
    right: Operand
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class IsNull:
    """`operand is [not] null`."""

    operand: Operand
    negated: bool = False
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class In:
    """`operand [not] in [a, b]` with the items, or `in $list` with one list operand."""

    operand: Operand
    items: tuple[Operand, ...] = ()
    container: Operand | None = None
    negated: bool = False
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Predicate:
    """A text predicate: `search(...)`, `fuzzy(...)` or `match_text(...)`."""

    call: Call
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Not:
    """`not condition`."""

    item: Condition
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class And:
    """Two or more conditions joined by `and`."""

    items: tuple[Condition, ...]
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Or:
    """Two or more conditions joined by `or`."""

    items: tuple[Condition, ...]
    span: Span = field(default=NOWHERE, compare=False)


Condition = Compare | IsNull | In | Predicate | Not | And | Or


# -- match clauses -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Assignment:
    """`name: value`, inside a binding, an insert or a set."""

    property: Name
    value: Operand
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Binding:
    """`$p: Person { name: "Ada" }`; empty braces mean the same as none."""

    var: Var
    type: Name
    matches: tuple[Assignment, ...] = ()
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Hops:
    """`{low,high}`; high is None when it was left out."""

    low: int
    high: int | None
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Traversal:
    """`$a knows $b`, `$a <knows> $b`, `$a knows {1,3} $b`, `$a $w: knows $b`."""

    source: Var
    edge: Name
    target: Var
    binding: Var | None = None
    undirected: bool = False
    hops: Hops | None = None
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Filter:
    """A condition that rows must meet."""

    condition: Condition
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Negation:
    """`not { ... }`: rows for which the block matches nothing."""

    clauses: tuple[Clause, ...]
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Optional:
    """`optional { ... }`: rows are kept, with nulls, when the block matches nothing."""

    clauses: tuple[Clause, ...]
    span: Span = field(default=NOWHERE, compare=False)


Clause = Binding | Traversal | Filter | Negation | Optional


# -- the rest of a query -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Projection:
    """One returned expression."""

    expr: Operand
    alias: Name | None = None
    span: Span = field(default=NOWHERE, compare=False)


class Direction(StrEnum):
    """The direction of an order key."""

    ASC = "asc"
    DESC = "desc"


@dataclass(frozen=True, slots=True)
class OrderKey:
    """One order key; direction None means that none was written."""

    expr: Operand
    direction: Direction | None = None
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Read:
    """The body of a reading query."""

    match: tuple[Clause, ...]
    returns: tuple[Projection, ...]
    distinct: bool = False
    order: tuple[OrderKey, ...] = ()
    limit: Literal | Var | None = None
    offset: Literal | Var | None = None
    match_span: Span = field(default=NOWHERE, compare=False)
    return_span: Span = field(default=NOWHERE, compare=False)
    order_span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Insert:
    """`insert T { ... }`."""

    type: Name
    assignments: tuple[Assignment, ...]
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Update:
    """`update T set { ... } where condition`."""

    type: Name
    assignments: tuple[Assignment, ...]
    where: Condition
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Delete:
    """`delete T where condition`."""

    type: Name
    where: Condition
    span: Span = field(default=NOWHERE, compare=False)


Statement = Insert | Update | Delete


@dataclass(frozen=True, slots=True)
class Mutation:
    """The body of a changing query."""

    statements: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A declared parameter."""

    name: str
    type: ValueType
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class QueryAnnotation:
    """`@description("...")` or `@instruction("...")`."""

    name: str
    text: str
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Query:
    """One query declaration."""

    name: Name
    params: tuple[Parameter, ...]
    annotations: tuple[QueryAnnotation, ...]
    body: Read | Mutation
    head_span: Span = field(default=NOWHERE, compare=False)
    span: Span = field(default=NOWHERE, compare=False)
    broken: bool = field(default=False, compare=False)  # parts of it could not be parsed

    def annotation(self, name: str) -> str | None:
        """The text of an annotation, if it was written."""
        return next((item.text for item in self.annotations if item.name == name), None)


@dataclass(frozen=True, slots=True)
class QueryFile:
    """A whole `.gq` source."""

    queries: tuple[Query, ...]
    comments: tuple[Comment, ...] = field(default=(), compare=False)
    text: str = field(default="", compare=False)
