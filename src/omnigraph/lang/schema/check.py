"""The checker: from a syntax tree to a catalog, or to everything that is wrong with it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from omnigraph.lang.catalog.identity import mint_type_ids
from omnigraph.lang.catalog.model import (
    Cardinality,
    Catalog,
    EdgeType,
    EntityFields,
    EnumType,
    InterfaceType,
    NodeType,
    Property,
)
from omnigraph.lang.catalog.rules import (
    BUILT_IN,
    CARD_MAX,
    END_NAMES,
    ID_NAME,
    STORAGE_NAMES,
    is_empty,
)
from omnigraph.lang.schema.ast import (
    Card,
    EdgeDecl,
    EnumDecl,
    InterfaceDecl,
    NodeDecl,
    PropertyDecl,
    SchemaFile,
)
from omnigraph.lang.schema.check_annotations import (
    OwnerKind,
    TypeNotes,
    check_embed_sources,
    check_old_names,
    inherit_notes,
    resolve_property,
    resolve_type_notes,
)
from omnigraph.lang.schema.check_constraints import (
    Rules,
    properties_of,
    resolve_constraints,
)
from omnigraph.lang.schema.check_types import enum_values
from omnigraph.lang.schema.scope import PropertyDraft, SchemaScope
from omnigraph.lang.source import Diagnostics, Name

_Decl = TypeVar("_Decl", NodeDecl, EdgeDecl)


def check_schema(file: SchemaFile, found: Diagnostics, *, accepted: bool = False) -> Catalog | None:
    """Check a file; all mistakes go to `found`, and only a file without any gives a catalog.

    `accepted` says that this schema is in force already: a body `@unique` over a Blob, which
    early graphs could declare, is then let through.
    """
    scope = SchemaScope(found, accepted, partial=found.errors > 0)
    enums = _declare(file, scope)
    interfaces = [_interface(item, scope) for item in scope.interfaces.values()]
    nodes = [_node(item, scope) for item in scope.nodes.values()]
    edges = [_edge(item, scope) for item in scope.edges.values()]
    _check_renamed_types(nodes, scope)
    _check_renamed_types(edges, scope)
    if found.errors:
        return None
    node_ids = mint_type_ids(scope.nodes)
    edge_ids = mint_type_ids(scope.edges)
    nodes.sort(key=lambda item: item.decl.name.text)
    edges.sort(key=lambda item: item.decl.name.text)
    return Catalog(
        nodes=tuple(_build_node(item, node_ids[item.decl.name.text]) for item in nodes),
        edges=tuple(_build_edge(item, edge_ids[item.decl.name.text]) for item in edges),
        interfaces=tuple(sorted(interfaces, key=lambda item: item.name)),
        enums=enums,
    )


# -- names -----------------------------------------------------------------------------------------


def _declare(file: SchemaFile, scope: SchemaScope) -> tuple[EnumType, ...]:
    """Enter every name into the scope; of two equal ones the first counts."""
    enums: list[EnumDecl] = []
    for item in file.declarations:
        name = item.name.text
        if isinstance(item, EnumDecl):
            enums.append(item)
        elif isinstance(item, InterfaceDecl):
            if scope.interfaces.setdefault(name, item) is not item:
                scope.error("S103", f"the interface `{name}` is declared twice", item.name.span)
        elif isinstance(item, NodeDecl):
            if scope.nodes.setdefault(name, item) is not item:
                scope.error("S101", f"the node type `{name}` is declared twice", item.name.span)
        elif scope.edges.setdefault(name, item) is not item:
            scope.error("S102", f"the edge type `{name}` is declared twice", item.name.span)
    folded: dict[str, str] = {}
    for name, edge in scope.edges.items():
        other = folded.setdefault(name.lower(), name)
        if other != name:
            message = f"the edge type `{name}` differs from `{other}` only in case"
            hint = "queries may write edge names in lower case, so the two would mix"
            scope.error("S106", message, edge.name.span, hint)
    for item in enums:
        _declare_enum(item, scope)
    return tuple(EnumType(name=name, values=scope.enums[name]) for name in sorted(scope.enums))


def _declare_enum(item: EnumDecl, scope: SchemaScope) -> None:
    name = item.name.text
    values = enum_values(item.values, item.name.span, scope)
    if name in BUILT_IN:
        message = f"`{name}` is a built-in type, an enum needs another name"
        scope.error("S114", message, item.name.span)
    elif name in scope.enums:
        scope.error("S104", f"the enum `{name}` is declared twice", item.name.span)
    else:
        if name in scope.nodes or name in scope.interfaces:
            what = "node type" if name in scope.nodes else "interface"
            message = f"`{name}` is the name of {'an' if what[0] == 'i' else 'a'} {what} too"
            scope.error("S105", message, item.name.span)
        scope.enums[name] = values


# -- properties ------------------------------------------------------------------------------------


def _properties(
    declared: Iterable[PropertyDecl], owner: str, kind: OwnerKind, scope: SchemaScope
) -> dict[str, PropertyDraft]:
    drafts: dict[str, PropertyDraft] = {}
    for item in declared:
        name = item.name.text
        _check_property_name(item.name, kind, scope)
        if name in drafts:
            message = f"`{owner}` has a property `{name}` already"
            scope.error("S110", message, item.name.span)
            continue
        drafts[name] = resolve_property(item, owner, kind, scope)
    return drafts


def _check_property_name(name: Name, kind: OwnerKind, scope: SchemaScope) -> None:
    if name.text == ID_NAME:
        message = "every entity has an `id` already"
        scope.error("S112", message, name.span, "choose another name, for example `slug`")
    elif kind == "edge" and name.text in END_NAMES:
        message = f"`{name.text}` means an end of the edge, a property needs another name"
        scope.error("S113", message, name.span)
    elif name.text in STORAGE_NAMES:
        message = f"`{name.text}` is a column of the storage, a property needs another name"
        scope.error("S111", message, name.span)


def _inherit(
    item: NodeDecl, drafts: dict[str, PropertyDraft], scope: SchemaScope
) -> dict[str, Name]:
    """Take over the properties of the interfaces; answers which came from which.

    A property that the node, or an interface named earlier, has already keeps what it says there
    and gets the rest from here. The answer includes it when its key comes from the interface.
    """
    inherited: dict[str, Name] = {}
    implemented: set[str] = set()
    for interface in item.implements:
        name = interface.text
        if name in implemented:
            message = f"`{item.name.text}` names the interface `{name}` already"
            scope.warn("S902", message, interface.span)
            continue
        if name not in scope.drafts:
            message = f"there is no interface `{name}`"
            hint = f"`{name}` is a node type" if name in scope.nodes else None
            scope.unknown("S109", message, interface.span, word=name, known=scope.drafts, hint=hint)
            continue
        implemented.add(name)
        for offered in scope.drafts[name].values():
            property_name = offered.decl.name.text
            own = drafts.setdefault(property_name, offered)
            if own is offered:
                inherited[property_name] = interface
                continue
            _check_agreement(own, offered, item, interface, scope)
            drafts[property_name] = inherit_notes(own, offered)
            if "key" in offered.marks and "key" not in own.marks:
                inherited[property_name] = interface
    return inherited


def _check_agreement(
    own: PropertyDraft, offered: PropertyDraft, item: NodeDecl, interface: Name, scope: SchemaScope
) -> None:
    if own.type is None or offered.type is None or own.type == offered.type:
        return
    label = f"`{item.name.text}.{own.decl.name.text}`"
    message = f"{label} has the type {own.type}, but in `{interface.text}` it is {offered.type}"
    # A conflict between two interfaces has no property in this node to point at.
    declared_here = any(own.decl is member for member in item.members)
    scope.error("S211", message, own.decl.type.span if declared_here else interface.span)


# -- types -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Checked(Generic[_Decl]):
    """A node or edge type that was checked and waits to be built."""

    decl: _Decl
    drafts: dict[str, PropertyDraft]
    notes: TypeNotes
    rules: Rules


def _interface(item: InterfaceDecl, scope: SchemaScope) -> InterfaceType:
    drafts = _properties(item.properties, item.name.text, "interface", scope)
    scope.drafts[item.name.text] = drafts
    _check_renamed_properties(drafts, scope)
    resolve_constraints((), drafts, item.name.text, "interface", scope)
    return InterfaceType(name=item.name.text, properties=_build_properties(drafts))


def _node(item: NodeDecl, scope: SchemaScope) -> _Checked[NodeDecl]:
    name = item.name.text
    notes = resolve_type_notes(item.annotations, name, scope)
    drafts = _properties(properties_of(item.members), name, "node", scope)
    inherited = _inherit(item, drafts, scope)
    check_embed_sources(drafts, name, scope)
    _check_renamed_properties(drafts, scope)
    rules = resolve_constraints(item.members, drafts, name, "node", scope, inherited)
    return _Checked(item, drafts, notes, rules)


def _edge(item: EdgeDecl, scope: SchemaScope) -> _Checked[EdgeDecl]:
    name = item.name.text
    for end in (item.source, item.target):
        _check_end(end, scope)
    if item.card is not None:
        _check_card(item.card, scope)
    notes = resolve_type_notes(item.annotations, name, scope)
    drafts = _properties(properties_of(item.members), name, "edge", scope)
    _check_renamed_properties(drafts, scope)
    rules = resolve_constraints(item.members, drafts, name, "edge", scope)
    return _Checked(item, drafts, notes, rules)


def _check_end(end: Name, scope: SchemaScope) -> None:
    name = end.text
    if name in scope.nodes:
        return
    if name in scope.interfaces or name in scope.enums:
        what = "an interface" if name in scope.interfaces else "an enum"
        message = f"`{name}` is {what}, an edge connects node types"
        scope.error("S108", message, end.span)
        return
    message = f"there is no node type `{name}`"
    scope.unknown("S107", message, end.span, word=name, known=scope.nodes)


def _check_card(card: Card, scope: SchemaScope) -> None:
    if max(card.low, card.high or 0) > CARD_MAX:
        scope.error("S416", f"a bound of `@card` is at most {CARD_MAX}", card.span)
    elif is_empty(card.low, card.high):
        message = f"the minimum {card.low} is above the maximum {card.high}"
        scope.error("S415", message, card.span)


def _check_renamed_types(
    checked: Sequence[_Checked[NodeDecl]] | Sequence[_Checked[EdgeDecl]], scope: SchemaScope
) -> None:
    claims = ((item.decl.name.text, item.notes) for item in checked)
    check_old_names(
        ((name, notes.renamed_from, notes.renamed_span) for name, notes in claims), scope
    )


def _check_renamed_properties(drafts: dict[str, PropertyDraft], scope: SchemaScope) -> None:
    check_old_names(
        ((name, item.renamed_from, item.renamed_span) for name, item in drafts.items()), scope
    )


# -- building --------------------------------------------------------------------------------------


def _build_node(item: _Checked[NodeDecl], type_id: str) -> NodeType:
    rules = item.rules
    return NodeType(
        **_common(item, type_id),
        implements=tuple(sorted({name.text for name in item.decl.implements})),
        ranges=tuple(rules.ranges[name] for name in sorted(rules.ranges)),
        checks=rules.sorted_checks(),
    )


def _build_edge(item: _Checked[EdgeDecl], type_id: str) -> EdgeType:
    card = item.decl.card
    return EdgeType(
        **_common(item, type_id),
        source=item.decl.source.text,
        target=item.decl.target.text,
        cardinality=Cardinality(low=card.low, high=card.high) if card else Cardinality(),
    )


def _common(item: _Checked[NodeDecl] | _Checked[EdgeDecl], type_id: str) -> EntityFields:
    rules, notes = item.rules, item.notes
    return {
        "name": item.decl.name.text,
        "id": type_id,
        "properties": _build_properties(item.drafts),
        "key": rules.key,
        "uniques": tuple(sorted(rules.uniques)),
        "indexes": tuple(sorted(rules.indexes)),
        "description": notes.description,
        "instruction": notes.instruction,
        "annotations": notes.annotations,
        "renamed_from": notes.renamed_from,
        "next_property_id": len(item.drafts) + 1,
        "retired": (),
    }


def _build_properties(drafts: dict[str, PropertyDraft]) -> tuple[Property, ...]:
    """The properties in the order of their names, by which new ones are numbered, too."""
    return tuple(
        Property(
            name=name,
            id=number,
            type=draft.type,
            enum_name=draft.enum_name,
            default=draft.default,
            embed=draft.embed,
            metric=draft.metric,
            description=draft.description,
            annotations=draft.annotations,
            renamed_from=draft.renamed_from,
        )
        for number, (name, draft) in enumerate(sorted(drafts.items()), 1)
        if draft.type is not None
    )
