"""Compiled queries: operators in the order in which they run, and what goes in and out.

A read plan is a pipeline over rows of bound variables. It starts from one empty row; `Scan`
multiplies the rows by the entities of a type (a cross join when rows exist already), `Expand`
follows an edge, `Filter`, `AntiJoin` and `OptionalJoin` do what they say. The order of the rows
means nothing until `order` gives it one.

A variable that an `OptionalJoin` bound may be missing. Every column of a missing variable is
null, its id too, and it is at no end of any edge. `Need.nullable` says which variables these are.

A plan is complete without a catalog: every column that is read or written comes with its type.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from omnigraph.lang.ir.expr import Column, Const, EntityRef, Expr, Param, Predicate, Ranking
from omnigraph.lang.values import ValueType


@dataclass(frozen=True, slots=True)
class ParamSpec:
    """A parameter that a caller gives."""

    name: str
    type: ValueType


# -- reading -------------------------------------------------------------------------------


class Towards(StrEnum):
    """The direction in which an edge is followed."""

    OUT = "out"
    IN = "in"
    BOTH = "both"

    @property
    def reversed(self) -> Towards:
        """The direction that leads back."""
        if self is Towards.BOTH:
            return self
        return Towards.IN if self is Towards.OUT else Towards.OUT


@dataclass(frozen=True, slots=True)
class Scan:
    """Bind `var` to each entity of a node type that meets all filters (which name only `var`)."""

    var: str
    entity: EntityRef
    filters: tuple[Predicate, ...] = ()


@dataclass(frozen=True, slots=True)
class Expand:
    """From the bound `source`, bind `target` to what an edge leads to.

    Without `edge_var` a target appears once per source: the nodes at a shortest distance of
    `low` to `high` hops, the source itself only by a stored self-loop. With `edge_var` there is
    one row per edge. `closes` says that the target is bound already, so the edge only filters.
    `filters` name the target (and `edge_filters` the edge) alone. A row whose source is missing,
    or whose target when `closes`, leads nowhere and is dropped.
    """

    source: str
    target: str
    edge: EntityRef
    towards: Towards
    low: int
    high: int
    target_entity: EntityRef
    edge_var: str | None = None
    closes: bool = False
    filters: tuple[Predicate, ...] = ()
    edge_filters: tuple[Predicate, ...] = ()


@dataclass(frozen=True, slots=True)
class Filter:
    """Keep the rows for which the predicate is true."""

    predicate: Predicate


@dataclass(frozen=True, slots=True)
class AntiJoin:
    """Keep the rows for which the inner pipeline, started from the row, yields nothing.

    So a row stays when the inner pipeline follows an edge from a variable that is missing in it.
    """

    outer: tuple[str, ...]  # the variables of the row that the inner pipeline reads
    inner: tuple[Op, ...]


@dataclass(frozen=True, slots=True)
class OptionalJoin:
    """Join each row with what the inner pipeline yields for it, or with nulls.

    A row in which an outer variable is missing stays as well: once, with `binds` missing too,
    unless the inner pipeline yields something without following an edge from that variable.
    """

    outer: tuple[str, ...]
    binds: tuple[str, ...]
    inner: tuple[Op, ...]


Op = Scan | Expand | Filter | AntiJoin | OptionalJoin


@dataclass(frozen=True, slots=True)
class Need:
    """The entity type of a variable and the columns that the query reads of it, besides ids."""

    var: str
    entity: EntityRef
    columns: tuple[Column, ...]
    nullable: bool = False  # bound by an optional block


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """A result column."""

    name: str
    expr: Expr

    @property
    def type(self) -> ValueType:
        """The type of the column."""
        return self.expr.type


@dataclass(frozen=True, slots=True)
class SortKey:
    """Order by an output column, or by an expression that is not returned.

    Nulls come first ascending and last descending. In a grouped or distinct plan an expression
    without a column is a property of a returned entity, which is the same in all rows of a result.
    """

    column: int | None
    expr: Expr
    descending: bool


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """A compiled reading query.

    The order of the results is total: first `ranking`, the best first and rows without a value
    last; then `order`; then the ids of the variables in `tie_break`. Results that are groups or
    distinct have no variables left, so there the output columns in `tie_break_columns` decide:
    those that are not order keys already. Ties are broken ascending with nulls first, which
    includes the ids of missing entities. Entities compare by id, lists element by element and a
    prefix before what it starts; vectors cannot occur in such columns.
    """

    name: str
    params: tuple[ParamSpec, ...]
    pipeline: tuple[Op, ...]
    needs: tuple[Need, ...]
    outputs: tuple[OutputColumn, ...]
    grouped: bool  # some output is an aggregate; the others are the group keys
    distinct: bool
    ranking: Ranking | None
    order: tuple[SortKey, ...]
    tie_break: tuple[str, ...]  # variables, neither grouped nor distinct
    tie_break_columns: tuple[int, ...]  # places in `outputs`, grouped or distinct
    limit: Const | Param | None
    offset: Const | Param | None
    reads: tuple[EntityRef, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the result columns."""
        return tuple(output.name for output in self.outputs)


# -- changing ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Assign:
    """Give a column a value."""

    column: Column
    value: Expr


@dataclass(frozen=True, slots=True)
class EmbedSpec:
    """Compute a vector from a text of the same entity; null when the text is null."""

    target: Column
    source: Column
    model: str | None  # None leaves the choice to the configuration


@dataclass(frozen=True, slots=True)
class InsertOp:
    """Insert one entity: every column has a value here, defaults and nulls included.

    With a key the id is derived from the key columns and an existing entity is replaced; without
    one the id is generated. `embeds` names vectors to compute from their text.
    """

    entity: EntityRef
    values: tuple[Assign, ...]
    key: tuple[Column, ...]  # in the order that makes the id
    embeds: tuple[EmbedSpec, ...]
    ends: tuple[EntityRef, EntityRef] | None  # node types that an edge must find its ends in


@dataclass(frozen=True, slots=True)
class UpdateOp:
    """Set columns of every entity that meets the predicate.

    `embeds` names vectors to compute anew, because the text they come from is set.
    """

    entity: EntityRef
    values: tuple[Assign, ...]
    where: Predicate
    reads: tuple[Column, ...]
    embeds: tuple[EmbedSpec, ...]


@dataclass(frozen=True, slots=True)
class DeleteOp:
    """Delete every entity that meets the predicate, and the edges that hang on it."""

    entity: EntityRef
    where: Predicate
    reads: tuple[Column, ...]
    cascades: tuple[Cascade, ...]


@dataclass(frozen=True, slots=True)
class Cascade:
    """An edge type whose edges go with a deleted node, and the ends that may name it."""

    edge: EntityRef
    source: bool
    target: bool


MutationOp = InsertOp | UpdateOp | DeleteOp


@dataclass(frozen=True, slots=True)
class MutationPlan:
    """A compiled changing query: all of it is one commit."""

    name: str
    params: tuple[ParamSpec, ...]
    ops: tuple[MutationOp, ...]
    reads: tuple[EntityRef, ...]
    writes: tuple[EntityRef, ...]


Plan = ReadPlan | MutationPlan
