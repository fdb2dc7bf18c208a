"""Constraints of node and edge types, from bodies and from marks behind properties alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from omnigraph.lang.catalog.identity import ENDS
from omnigraph.lang.catalog.model import Check, Range
from omnigraph.lang.catalog.pattern import pattern_fault, rejects
from omnigraph.lang.catalog.rules import (
    bound,
    excludes,
    is_empty,
    is_indexable,
    is_key_part,
    is_number,
    is_text,
    is_unique_part,
)
from omnigraph.lang.schema.ast import (
    CheckConstraint,
    ColumnConstraint,
    Member,
    PropertyDecl,
    RangeConstraint,
)
from omnigraph.lang.schema.check_annotations import OwnerKind
from omnigraph.lang.schema.scope import PropertyDraft, SchemaScope
from omnigraph.lang.source import Name, Span
from omnigraph.lang.values import ValueType


@dataclass(slots=True)
class Rules:
    """The constraints of one type; columns in the order of their names, ends first."""

    key: tuple[str, ...] = ()
    uniques: set[tuple[str, ...]] = field(default_factory=set)
    indexes: set[tuple[str, ...]] = field(default_factory=set)
    ranges: dict[str, Range] = field(default_factory=dict)
    checks: set[tuple[str, str]] = field(default_factory=set)

    def sorted_checks(self) -> tuple[Check, ...]:
        """The checks in a fixed order."""
        return tuple(Check(property=name, pattern=text) for name, text in sorted(self.checks))


@dataclass(frozen=True, slots=True)
class _Owner:
    name: str
    kind: OwnerKind
    drafts: dict[str, PropertyDraft]
    scope: SchemaScope


def resolve_constraints(
    members: tuple[Member, ...],
    drafts: dict[str, PropertyDraft],
    owner: str,
    kind: OwnerKind,
    scope: SchemaScope,
    inherited: Mapping[str, Name] = MappingProxyType({}),
) -> Rules:
    """Check the constraints of a type against its properties.

    `inherited` has the properties that came from an interface, by the name in `implements`.
    """
    place = _Owner(owner, kind, drafts, scope)
    rules = Rules()
    spans: dict[tuple[str, ...], Span] = {}  # where each @unique stands
    keyed = False
    for item, from_body in _column_constraints(members, drafts):
        if item.rule == "key":
            if keyed:
                source = None if from_body else inherited.get(item.columns[0].text)
                _report_second_key(item, owner, source, scope)
                continue
            keyed = True
        columns = _columns(item, place, from_body=from_body)
        if item.rule == "key":
            rules.key = columns
        elif item.rule == "unique":
            _add_unique(item, columns, place, rules, spans)
        if item.rule != "unique":
            rules.indexes.add(columns)
    if rules.key in spans:
        message = f"the key of `{owner}` is unique already, `@unique` adds nothing"
        scope.warn("S903", message, spans[rules.key], "remove the `@unique`")
    for member in members:
        if isinstance(member, RangeConstraint):
            _range(member, place, rules)
        elif isinstance(member, CheckConstraint):
            _check(member, place, rules)
    return rules


def _add_unique(
    item: ColumnConstraint,
    columns: tuple[str, ...],
    place: _Owner,
    rules: Rules,
    spans: dict[tuple[str, ...], Span],
) -> None:
    if columns in rules.uniques:
        shown = ", ".join(columns)
        draft = place.drafts.get(shown)
        marked = draft is not None and "unique" in draft.marks
        hint = f"`@unique` stands behind `{shown}` already" if marked else None
        message = f"`{place.name}` has `@unique({shown})` already"
        place.scope.error("S417", message, item.span, hint)
    rules.uniques.add(columns)
    spans.setdefault(columns, item.span)


def _report_second_key(
    item: ColumnConstraint, owner: str, source: Name | None, scope: SchemaScope
) -> None:
    if source is None:
        hint = "a key of several properties is written `@key(a, b)` in the body"
        scope.error("S401", f"`{owner}` has a `@key` already", item.span, hint)
        return
    message = f"`{owner}` has a `@key` already, and `{source.text}` brings another one"
    hint = f"remove one of them; the key of `{source.text}` applies to all that implement it"
    scope.error("S401", message, source.span, hint)


def _column_constraints(
    members: tuple[Member, ...], drafts: dict[str, PropertyDraft]
) -> Iterator[tuple[ColumnConstraint, bool]]:
    """All of @key, @unique and @index, with a flag for those from the body."""
    for draft in drafts.values():
        for rule, span in draft.marks.items():
            column = Name(draft.decl.name.text, span)
            if rule == "key":
                yield ColumnConstraint("key", (column,), span), False
            elif rule == "unique":
                yield ColumnConstraint("unique", (column,), span), False
            else:
                yield ColumnConstraint("index", (column,), span), False
    for member in members:
        if isinstance(member, ColumnConstraint):
            yield member, True


def _columns(item: ColumnConstraint, place: _Owner, *, from_body: bool) -> tuple[str, ...]:
    """Check the columns of a constraint and put them into their order."""
    names: set[str] = set()
    for column in item.columns:
        if column.text in names:
            message = f"`@{item.rule}` names `{column.text}` twice"
            place.scope.error("S414", message, column.span)
        names.add(column.text)
        if place.kind == "edge" and column.text in ENDS:
            continue
        draft = _find(column, item.rule, place)
        if draft is not None and draft.type is not None:
            _check_column(item.rule, column, draft.type, place, from_body=from_body)
    ends: tuple[str, ...] = ()
    if place.kind == "edge":
        ends = tuple(end for end in ENDS if end in names)
        if item.rule == "key" and len(ends) < 2:
            message = f"the key of the edge `{place.name}` needs both of its ends"
            others = ", ".join(sorted(names.difference(ENDS)))
            form = f"@key(src, dst, {others})" if others else "@key(src, dst)"
            place.scope.error("S413", message, item.span, f"write `{form}`")
    return ends + tuple(sorted(names.difference(ends)))


def _find(column: Name, rule: str, place: _Owner) -> PropertyDraft | None:
    draft = place.drafts.get(column.text)
    if draft is None:
        message = f"`@{rule}` names `{column.text}`, which is not a property of `{place.name}`"
        hint: str | None = f"to mark one property, write `@{rule}` behind it without parentheses"
        if rule in ("range", "check"):
            hint = None
        elif place.kind == "node" and column.text in ENDS:
            hint = "only edges have the ends `src` and `dst`"
        place.scope.unknown(
            "S402", message, column.span, word=column.text, known=place.drafts, hint=hint
        )
    return draft


def _check_column(
    rule: str, column: Name, of_type: ValueType, place: _Owner, *, from_body: bool
) -> None:
    label = f"`{place.name}.{column.text}`"
    if rule == "key" and of_type.nullable:
        message = f"{label} is part of the key, so it cannot be nullable"
        place.scope.error("S403", message, column.span, "remove the `?`")
    if rule == "index":
        if not is_indexable(of_type):
            message = f"{label} has the type {of_type}, which cannot be indexed"
            place.scope.error("S406", message, column.span)
        return
    if rule == "unique":
        # The one slip of early graphs that is forgiven: they keep what they declared.
        if not is_unique_part(of_type, forgive_blob=place.scope.accepted and from_body):
            message = f"{label} has the type {of_type}, which cannot be unique"
            place.scope.error("S405", message, column.span)
        return
    if not is_key_part(of_type):
        message = f"{label} has the type {of_type}, which cannot be part of a key"
        place.scope.error("S404", message, column.span)


def _range(item: RangeConstraint, place: _Owner, rules: Rules) -> None:
    if place.kind == "edge":
        message = f"`{place.name}` is an edge, `@range` is for nodes"
        place.scope.error("S412", message, item.span)
        return
    draft = _find(item.property, "range", place)
    if draft is None or draft.type is None:
        return
    name = item.property.text
    if not is_number(draft.type):
        message = f"`{place.name}.{name}` has the type {draft.type}, `@range` is for numbers"
        place.scope.error("S407", message, item.property.span)
        return
    if name in rules.ranges:
        message = f"`{place.name}.{name}` has a `@range` already"
        place.scope.error("S409", message, item.span)
        return
    low = bound(item.low, draft.type.base, up=True)
    high = bound(item.high, draft.type.base, up=False)
    if is_empty(low, high):
        message = f"no value of `{place.name}.{name}` is between {item.low} and {item.high}"
        hint = "the lower bound comes first" if is_empty(item.low, item.high) else None
        place.scope.error("S408", message, item.span, hint)
        return
    rules.ranges[name] = Range(property=name, low=low, high=high)
    if excludes(rules.ranges[name], draft.default):
        message = f"the default {draft.default} is outside the `@range` of `{name}`"
        place.scope.error("S527", message, draft.default_span)


def _check(item: CheckConstraint, place: _Owner, rules: Rules) -> None:
    if place.kind == "edge":
        message = f"`{place.name}` is an edge, `@check` is for nodes"
        place.scope.error("S412", message, item.span)
        return
    fault = pattern_fault(item.pattern)
    if fault is not None:
        message = f"the pattern cannot be used: {fault}"
        place.scope.error("S411", message, item.pattern_span)
    draft = _find(item.property, "check", place)
    if draft is None or draft.type is None:
        return
    if not is_text(draft.type):
        label = f"`{place.name}.{item.property.text}`"
        message = f"{label} has the type {draft.type}, `@check` is for a String"
        place.scope.error("S410", message, item.property.span)
        return
    rules.checks.add((item.property.text, item.pattern))
    text = draft.default.value if draft.default is not None and fault is None else None
    if isinstance(text, str) and rejects(item.pattern, text):
        message = (
            f"the default {draft.default} does not match the `@check` of `{item.property.text}`"
        )
        place.scope.error("S528", message, draft.default_span)


def properties_of(members: tuple[Member, ...]) -> Iterator[PropertyDecl]:
    """The properties among the members of a body."""
    return (member for member in members if isinstance(member, PropertyDecl))
