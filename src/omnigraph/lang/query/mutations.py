"""Insert, update and delete: syntax tree to typed operations."""

from __future__ import annotations

from collections.abc import Collection
from typing import assert_never

from omnigraph.lang.catalog.identity import END_COLUMNS
from omnigraph.lang.catalog.model import EdgeType, EntityType, NodeType, Property
from omnigraph.lang.fit import fit
from omnigraph.lang.ir import expr as ir
from omnigraph.lang.ir.ops import (
    Assign,
    Cascade,
    DeleteOp,
    EmbedSpec,
    InsertOp,
    MutationOp,
    UpdateOp,
)
from omnigraph.lang.literal import Literal
from omnigraph.lang.query import ast
from omnigraph.lang.query.codes import QueryCode
from omnigraph.lang.query.context import CheckContext
from omnigraph.lang.query.predicates import Predicates
from omnigraph.lang.query.scope import ID, builtin_columns, column_of, entity_ref
from omnigraph.lang.query.typing import assignable, temporal_hint
from omnigraph.lang.source import Name, Span
from omnigraph.lang.values import Base, ValueType

_TEXT_OPERATORS = (ast.CompareOp.CONTAINS, ast.CompareOp.STARTS_WITH)
_SELECT_FIRST = "match the ids with a query first"


class Mutations:
    """Checks the statements of one query."""

    __slots__ = ("context",)

    def __init__(self, context: CheckContext) -> None:
        """Check in this context."""
        self.context = context

    def check(self, body: ast.Mutation) -> tuple[MutationOp, ...]:
        """Check every statement, and that the query only builds up or only tears down."""
        deletes = [item for item in body.statements if isinstance(item, ast.Delete)]
        if deletes and len(deletes) != len(body.statements):
            message = "a query either deletes or inserts and updates, never both"
            hint = "split it into two queries"
            self.context.error(QueryCode.MIXED_MUTATION, message, deletes[0].span, hint)
        ops = (self._statement(item) for item in body.statements)
        return tuple(op for op in ops if op is not None)

    def _statement(self, item: ast.Statement) -> MutationOp | None:
        entity = self._type(item.type, item)
        if entity is None:
            return None
        match item:
            case ast.Insert():
                return self._insert(item, entity)
            case ast.Update():
                return self._update(item, entity)
            case ast.Delete():
                return self._delete(item, entity)
            case _:
                assert_never(item)

    def _type(self, name: Name, item: ast.Statement) -> EntityType | None:
        """The type a statement means; one name may stand for a node type and an edge type."""
        catalog = self.context.names.catalog
        node = catalog.node_by_name.get(name.text)
        edge = catalog.edge_by_name.get(name.text)
        if node is not None and edge is not None:
            return edge if _names_ends(item) else node
        found = node or edge
        if found is None:
            known = (*catalog.node_by_name, *catalog.edge_by_name)
            message = f"unknown type `{name.text}`"
            hint = self.context.near(name.text, known)
            self.context.error(QueryCode.MUTATION_TYPE, message, name.span, hint)
        return found

    # -- insert ----------------------------------------------------------------------------

    def _insert(self, item: ast.Insert, entity: EntityType) -> InsertOp | None:
        if not self._assigns_something(item.assignments, item.span):
            return None
        given = self._assigned(item.assignments, entity, inserting=True)
        defaults = {each.name for each in entity.properties if each.default is not None}
        embeds = _embeds(entity, item.assignments, defaults)
        computed = {item.target.name for item in embeds}
        values = [*given.values()]
        mentioned = {assignment.property.text for assignment in item.assignments}
        missing = [name for name in END_COLUMNS if entity.kind == "edge" and name not in mentioned]
        hints: list[str] = []
        for declared in entity.properties:
            if declared.name in mentioned:
                continue
            if declared.default is not None:
                fitted = fit(declared.default, declared.type)
                if isinstance(fitted, ir.Const):
                    values.append(Assign(_declared_column(declared), fitted))
            elif declared.type.nullable or declared.name in computed:
                missing_value = ir.Const(None, declared.type.optional())
                values.append(Assign(_declared_column(declared), missing_value))
            else:
                missing.append(declared.name)
                if declared.embed is not None:
                    hints.append(
                        f"`{declared.name}` is computed when `{declared.embed.source}` is given"
                    )
        if missing:
            names = ", ".join(f"`{name}`" for name in missing)
            message = f"an insert into {entity.name} needs {names}"
            hint = "; ".join(hints) or None
            self.context.error(QueryCode.MISSING_REQUIRED, message, item.type.span, hint)
        catalog = self.context.names.catalog
        ends = None
        if isinstance(entity, EdgeType):
            source, target = (
                catalog.node_by_name[entity.source],
                catalog.node_by_name[entity.target],
            )
            ends = (entity_ref(source), entity_ref(target))
        key = tuple(_key_column(entity, name) for name in entity.key)
        return InsertOp(entity_ref(entity), tuple(values), key, embeds, ends)

    # -- update and delete -----------------------------------------------------------------

    def _update(self, item: ast.Update, entity: EntityType) -> UpdateOp | None:
        if not self._assigns_something(item.assignments, item.span):
            return None
        given = self._assigned(item.assignments, entity, inserting=False)
        reads: dict[str, ir.Column] = {}
        where = self._where(item.where, entity, reads)
        if where is None:
            return None
        embeds = _embeds(entity, item.assignments)
        values = tuple(given.values())
        return UpdateOp(entity_ref(entity), values, where, _sorted(reads), embeds)

    def _delete(self, item: ast.Delete, entity: EntityType) -> DeleteOp | None:
        reads: dict[str, ir.Column] = {}
        where = self._where(item.where, entity, reads)
        if where is None:
            return None
        cascades: tuple[Cascade, ...] = ()
        if isinstance(entity, NodeType):
            cascades = tuple(
                Cascade(entity_ref(edge), edge.source == entity.name, edge.target == entity.name)
                for edge in self.context.names.catalog.edges_by_node[entity.name]
            )
        return DeleteOp(entity_ref(entity), where, _sorted(reads), cascades)

    # -- assignments -----------------------------------------------------------------------

    def _assigns_something(self, items: tuple[ast.Assignment, ...], span: Span) -> bool:
        if items:
            return True
        self.context.error(QueryCode.MUTATION_TYPE, "nothing is assigned here", span)
        return False

    def _assigned(
        self, items: tuple[ast.Assignment, ...], entity: EntityType, *, inserting: bool
    ) -> dict[str, Assign]:
        given: dict[str, Assign] = {}
        seen: set[str] = set()
        for item in items:
            name = item.property.text
            if name in seen:
                message = f"`{name}` is assigned twice"
                self.context.error(QueryCode.DUPLICATE_ASSIGNMENT, message, item.span)
                continue
            seen.add(name)
            wanted = self._assignable(item, entity, inserting=inserting)
            if wanted is None:
                continue
            value = self._value(item, wanted.type)
            if value is not None:
                given[name] = Assign(wanted, value)
        return given

    def _assignable(
        self, item: ast.Assignment, entity: EntityType, *, inserting: bool
    ) -> ir.Column | None:
        """The column that an assignment sets, if it may."""
        name = item.property.text
        span = item.property.span
        error = self.context.error
        declared = entity.property_by_name.get(name)
        if declared is None:
            if entity.kind == "edge" and name in END_COLUMNS:
                if inserting:
                    return ir.Column(END_COLUMNS[name], ID)
                message = "the ends of an edge cannot be changed"
                error(QueryCode.IDENTITY_UPDATE, message, span, "delete it and insert another")
                return None
            message = f"{entity.kind} type `{entity.name}` has no property `{name}`"
            hint = self.context.near(name, entity.property_by_name)
            if name == "id":
                message, hint = "ids are derived from the key or generated", None
            error(QueryCode.MUTATION_PROPERTY, message, span, hint)
            return None
        if not inserting and name in entity.key:
            message = f"`{name}` is part of the key of {entity.name} and cannot be changed"
            error(QueryCode.IDENTITY_UPDATE, message, span, "delete it and insert another")
            return None
        return _declared_column(declared)

    def _value(self, item: ast.Assignment, wanted: ValueType) -> ir.Expr | None:
        """A value that is assigned to a column of this type."""
        name, value = item.property.text, item.value
        if isinstance(value, Literal):
            fitted = fit(value, wanted)
            if isinstance(fitted, ir.Const):
                return fitted
            self.context.misfit(name, value, wanted, fitted)
            return None
        given = self.given(value)
        if given is None:
            return None
        if not assignable(given.type, wanted):
            message = f"`{name}` is {wanted}, it cannot take {given.type}"
            hint = temporal_hint(given.type, wanted)
            self.context.error(QueryCode.INCOMPATIBLE, message, value.span, hint)
            return None
        return given

    def given(self, value: ast.Operand) -> ir.Param | ir.Now | None:
        """A parameter or `now()`."""
        if isinstance(value, ast.Call) and value.function.text == "now":
            return ir.Now()
        if isinstance(value, ast.Var):
            param = self.context.param(value.name)
            if param is None:
                message = f"`${value.name}` is not a declared parameter"
                known = (f"${name}" for name in self.context.names.params)
                hint = self.context.near(f"${value.name}", known)
                self.context.error(QueryCode.MUTATION_VARIABLE, message, value.span, hint)
            return param
        message = "a statement works with literals, parameters and now()"
        self.context.error(QueryCode.MUTATION_VARIABLE, message, value.span)
        return None

    # -- conditions ------------------------------------------------------------------------

    def _where(
        self, item: ast.Condition, entity: EntityType, reads: dict[str, ir.Column]
    ) -> ir.Predicate | None:
        return Predicates(self.context, _OfEntity(self, entity, reads)).condition(item)


class _OfEntity:
    """The sides of a `where`: a property of the entity, and what is given."""

    __slots__ = ("context", "entity", "list_hint", "misfit_code", "reads", "statements")

    def __init__(
        self, statements: Mutations, entity: EntityType, reads: dict[str, ir.Column]
    ) -> None:
        self.statements = statements
        self.context = statements.context
        self.entity = entity
        self.reads = reads
        self.misfit_code = QueryCode.LITERAL_MISMATCH
        self.list_hint = None

    def refuses(self, item: ast.Compare | ast.IsNull | ast.In | ast.Predicate) -> bool:
        error = self.context.error
        if isinstance(item, ast.Predicate):
            message = f"{item.call.function.text} cannot select what a statement changes"
            error(QueryCode.INCOMPATIBLE, message, item.span, _SELECT_FIRST)
            return True
        if isinstance(item, ast.Compare) and item.op in _TEXT_OPERATORS:
            message = f"`{item.op}` cannot select what a statement changes"
            error(QueryCode.INCOMPATIBLE, message, item.span, _SELECT_FIRST)
            return True
        left = item.left if isinstance(item, ast.Compare) else item.operand
        if not isinstance(left, ast.Bare):
            message = "the left side of a condition is a property: `where name = $name`"
            error(QueryCode.MUTATION_PROPERTY, message, left.span)
            return True
        return False

    def left(self, item: ast.Operand) -> ir.Expr | None:
        """The property that is tested."""
        entity = self.entity
        name = item.name if isinstance(item, ast.Bare) else ""
        column = column_of(entity, name)
        if column is None:
            known = (*entity.property_by_name, *builtin_columns(entity))
            message = f"{entity.kind} type `{entity.name}` has no property `{name}`"
            hint = self.context.near(name, known)
            self.context.error(QueryCode.MUTATION_PROPERTY, message, item.span, hint)
            return None
        if column.type.base is Base.BLOB:
            message = f"`{name}` is a Blob and cannot be part of a condition"
            self.context.error(QueryCode.MUTATION_PROPERTY, message, item.span)
            return None
        self.reads[column.name] = column
        return ir.Prop("", column.name, column.type)

    def right(self, item: ast.Operand) -> ir.Expr | None:
        return self.statements.given(item)

    def search(self, _call: ast.Call) -> ir.Predicate | None:
        return None  # refused above


def _embeds(
    entity: EntityType, assignments: tuple[ast.Assignment, ...], filled: Collection[str] = ()
) -> tuple[EmbedSpec, ...]:
    """Vectors left out whose source text is given or filled in: they are computed from it."""
    given = {item.property.text for item in assignments}
    return tuple(
        EmbedSpec(
            _declared_column(declared),
            _declared_column(entity.property_by_name[declared.embed.source]),
            declared.embed.model,
        )
        for declared in entity.properties
        if declared.embed is not None
        and declared.name not in given
        and (declared.embed.source in given or declared.embed.source in filled)
    )


def _names_ends(item: ast.Statement) -> bool:
    """True if a statement names the endpoints that only an edge has."""
    if isinstance(item, ast.Insert):
        return any(part.property.text in END_COLUMNS for part in item.assignments)
    return _condition_names_ends(item.where)


def _condition_names_ends(item: ast.Condition) -> bool:
    match item:
        case ast.And(items) | ast.Or(items):
            return any(_condition_names_ends(part) for part in items)
        case ast.Not(inner):
            return _condition_names_ends(inner)
        case ast.Compare(ast.Bare(name)) | ast.IsNull(ast.Bare(name)) | ast.In(ast.Bare(name)):
            return name in END_COLUMNS
        case _:
            return False


def _declared_column(declared: Property) -> ir.Column:
    return ir.Column(declared.name, declared.type)


def _key_column(entity: EntityType, name: str) -> ir.Column:
    declared = entity.property_by_name.get(name)
    return ir.Column(name, ID) if declared is None else _declared_column(declared)


def _sorted(reads: dict[str, ir.Column]) -> tuple[ir.Column, ...]:
    return tuple(reads[name] for name in sorted(reads))
