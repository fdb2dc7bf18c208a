"""Typed expressions of a compiled query.

Frozen and self-contained: an executor needs no catalog to evaluate them. Constants are already
in their stored form (a Date is its day number). Predicates follow three-valued logic: a
comparison with a missing value is neither true nor false.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from omnigraph.lang.catalog.model import (
    EntityKind,
)
from omnigraph.lang.values import Base, ValueType
from omnigraph.types import Metric

MOMENT = ValueType(Base.DATETIME)
SCORE = ValueType(Base.F64, nullable=True)

ConstValue = str | int | float | bool | None | tuple["ConstValue", ...]


@dataclass(frozen=True, slots=True)
class EntityRef:
    """A node or edge type, copied out of the catalog."""

    kind: EntityKind
    name: str
    id: str

    @property
    def table_key(self) -> str:
        """The key under which the manifest lists the type."""
        return f"{self.kind}:{self.name}"


@dataclass(frozen=True, slots=True)
class Column:
    """A stored column of a type: a property, or one of `id`, `src`, `dst`."""

    name: str
    type: ValueType


# -- values --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Const:
    """A constant in stored form."""

    value: ConstValue
    type: ValueType


@dataclass(frozen=True, slots=True)
class Param:
    """The value of a declared parameter."""

    name: str
    type: ValueType


@dataclass(frozen=True, slots=True)
class Now:
    """The moment at which the statement runs."""

    type: ValueType = MOMENT


@dataclass(frozen=True, slots=True)
class Prop:
    """A stored column of a bound variable."""

    var: str
    column: str
    type: ValueType


@dataclass(frozen=True, slots=True)
class Entity:
    """A whole node or edge as an object: its id (and ends) and every property but blobs."""

    var: str
    entity: EntityRef
    columns: tuple[Column, ...]
    type: ValueType


class AggregateFunction(StrEnum):
    """The aggregates."""

    COUNT = "count"
    SUM = "sum"
    AVG = "avg"
    MIN = "min"
    MAX = "max"


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An aggregate over the rows of a group; nulls do not count."""

    function: AggregateFunction
    arg: Expr
    distinct: bool
    type: ValueType


@dataclass(frozen=True, slots=True)
class Nearest:
    """The distance of a vector property to a query vector, or to the embedding of a text."""

    var: str
    column: str
    dim: int
    metric: Metric
    query: Expr
    model: str | None  # the model that `@embed` names; a text query must be embedded by it
    type: ValueType = SCORE


@dataclass(frozen=True, slots=True)
class Bm25:
    """The relevance of a text property for a query text; null where no term matches."""

    var: str
    column: str
    query: Expr
    type: ValueType = SCORE


@dataclass(frozen=True, slots=True)
class Rrf:
    """Reciprocal rank fusion of two rankings."""

    first: Nearest | Bm25
    second: Nearest | Bm25
    k: Expr
    type: ValueType = SCORE


Ranking = Nearest | Bm25 | Rrf
Expr = Const | Param | Now | Prop | Entity | Aggregate | Nearest | Bm25 | Rrf


# -- predicates ----------------------------------------------------------------------------


class CompareOp(StrEnum):
    """Comparisons of two scalars."""

    EQ = "="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="

    @property
    def swapped(self) -> CompareOp:
        """The comparison that says the same once both sides have changed places."""
        return CompareOp(self.value.translate(_TURNED))


_TURNED = str.maketrans("<>", "><")


@dataclass(frozen=True, slots=True)
class Compare:
    """`left op right`; both sides have comparable types."""

    op: CompareOp
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Contains:
    """`item` is an element of the list `container`."""

    container: Expr
    item: Expr


@dataclass(frozen=True, slots=True)
class Substring:
    """The text `needle` occurs in the text `haystack`."""

    haystack: Expr
    needle: Expr


@dataclass(frozen=True, slots=True)
class StartsWith:
    """The text starts with the prefix."""

    text: Expr
    prefix: Expr


@dataclass(frozen=True, slots=True)
class OneOf:
    """The operand equals one of the items."""

    operand: Expr
    items: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class IsNull:
    """The operand is missing. Never unknown."""

    operand: Expr


class TextMode(StrEnum):
    """The ways of matching text."""

    SEARCH = "search"  # any term
    FUZZY = "fuzzy"  # any term, within an edit distance
    PHRASE = "match_text"  # the terms in a row


@dataclass(frozen=True, slots=True)
class TextMatch:
    """A full-text predicate on one property."""

    mode: TextMode
    var: str
    column: str
    query: Expr
    edits: Expr | None = None


@dataclass(frozen=True, slots=True)
class Not:
    """Logical negation; unknown stays unknown."""

    item: Predicate


@dataclass(frozen=True, slots=True)
class And:
    """All items hold."""

    items: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """At least one item holds."""

    items: tuple[Predicate, ...]


Predicate = (
    Compare | Contains | Substring | StartsWith | OneOf | IsNull | TextMatch | Not | And | Or
)
