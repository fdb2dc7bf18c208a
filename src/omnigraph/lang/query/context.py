"""The context of checking a query: its names, and a place to report mistakes."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, islice

from omnigraph.lang.ir import expr as ir
from omnigraph.lang.literal import Literal, LiteralKind
from omnigraph.lang.query import ast
from omnigraph.lang.query.codes import QueryCode
from omnigraph.lang.query.scope import (
    Names,
    QueryScope,
    Variable,
    builtin_columns,
    column_of,
    entity_ref,
)
from omnigraph.lang.query.typing import literal_hint
from omnigraph.lang.source import DIAGNOSTICS_MAX, Diagnostics, Span, did_you_mean
from omnigraph.lang.values import Base, ValueType

_SUGGESTED_FROM_NAMES_MAX = 2_000


class CheckContext:
    """The state of checking one query. Lookups answer None after they reported a mistake."""

    __slots__ = ("found", "names")

    def __init__(self, names: Names, found: Diagnostics) -> None:
        """Work with the names of a query, reporting to `found`."""
        self.names = names
        self.found = found

    def error(self, code: QueryCode, message: str, span: Span, hint: str | None = None) -> None:
        """Report a mistake."""
        self.found.error(code.value, message, span, hint)

    def near(self, word: str, known: Iterable[str]) -> str | None:
        """A spelling hint; none once the report is full, so that no input makes this slow."""
        if self.found.errors >= DIAGNOSTICS_MAX:
            return None
        return did_you_mean(word, islice(known, _SUGGESTED_FROM_NAMES_MAX))

    def misfit(self, name: str, literal: Literal, wanted: ValueType, problem: str) -> None:
        """Report a literal that is no value of a property."""
        if wanted.enum and not wanted.is_list and literal.kind is LiteralKind.STRING:
            self.not_in_enum(literal, wanted.enum, f"property `{name}`: ")
            return
        hint = literal_hint(literal, wanted)
        message = f"property `{name}`: {problem}"
        self.error(QueryCode.LITERAL_MISMATCH, message, literal.span, hint)

    def not_in_enum(self, literal: Literal, allowed: tuple[str, ...], lead: str = "") -> None:
        """Report a text that is none of the values of an enum."""
        text = str(literal.value)
        message = f"{lead}'{text[:60]}' is not one of {', '.join(allowed)}"
        hint = self.near(text, allowed)
        self.error(QueryCode.LITERAL_MISMATCH, message, literal.span, hint)

    def param(self, name: str) -> ir.Param | None:
        """A reference to a declared parameter."""
        kind = self.names.params.get(name)
        if kind is None:
            return None
        self.names.used_params.add(name)
        return ir.Param(name, kind)

    def unbound(self, item: ast.Var, scope: QueryScope) -> None:
        """Report a name that is neither a variable nor a parameter."""
        if scope.has_lost(item.name):
            return
        known = (f"${name}" for name in chain(scope.visible(), self.names.params))
        hint = self.near(f"${item.name}", known)
        message = f"`${item.name}` is neither a bound variable nor a parameter"
        self.error(QueryCode.UNBOUND, message, item.span, hint)

    def entity(self, variable: Variable) -> ir.Entity:
        """A whole entity as an object; blobs are read by a call of their own."""
        entity = variable.entity
        columns = [
            ir.Column(item.name, item.type)
            for item in entity.properties
            if item.type.base is not Base.BLOB
        ]
        for column in columns:
            variable.read(column)
        fixed = builtin_columns(entity).values()
        kind = ValueType(Base.ENTITY, nullable=variable.optional)
        return ir.Entity(variable.key, entity_ref(entity), (*fixed, *columns), kind)

    def property(
        self, item: ast.PropertyOf, scope: QueryScope, *, read: bool = True
    ) -> ir.Prop | None:
        """`$x.name`; without `read` the column is only named, as by a search over its index."""
        variable = scope.find(item.var.name)
        name = item.property.text
        if variable is None:
            if scope.has_lost(item.var.name):
                return None
            if self.param(item.var.name) is not None:
                message = f"the parameter `${item.var.name}` has no properties"
                self.error(QueryCode.UNBOUND, message, item.span)
            else:
                self.unbound(item.var, scope)
            return None
        column = column_of(variable.entity, name)
        if column is None:
            entity = variable.entity
            known = (*entity.property_by_name, *builtin_columns(entity))
            message = f"{entity.kind} type `{entity.name}` has no property `{name}`"
            hint = self.near(name, known)
            self.error(QueryCode.UNBOUND, message, item.property.span, hint)
            return None
        if column.type.base is Base.BLOB:
            message = f"`${item.var.name}.{name}` is a Blob, which queries do not read"
            hint = "blobs are read by their own call, with a range"
            self.error(QueryCode.BLOB_READ, message, item.span, hint)
            return None
        if read:
            variable.read(column)
        kind = column.type.optional() if variable.optional else column.type
        return ir.Prop(variable.key, column.name, kind)
