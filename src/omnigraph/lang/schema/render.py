"""The text of a catalog: a `.pg` file that says what the catalog says.

For schemas that result from two branches, and have no text yet. Compiling the text gives
a catalog of the same shape.
"""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph.lang.catalog.model import (
    Catalog,
    CustomAnnotation,
    EdgeType,
    EntityType,
    NodeType,
    Property,
)
from omnigraph.lang.literal import Literal, LiteralKind
from omnigraph.lang.schema.ast import (
    Annotation,
    Card,
    CheckConstraint,
    ColumnConstraint,
    ColumnRule,
    Declaration,
    EdgeDecl,
    EnumDecl,
    InlineEnum,
    InterfaceDecl,
    ListType,
    Member,
    NodeDecl,
    PropertyDecl,
    RangeConstraint,
    SchemaFile,
    TypeExpr,
    TypeName,
    VectorType,
)
from omnigraph.lang.schema.format import format_schema
from omnigraph.lang.source import Name
from omnigraph.lang.values import Base, ValueType
from omnigraph.types import Metric


def schema_text(catalog: Catalog) -> str:
    """The schema as text: enums, interfaces, nodes, edges, each by name."""
    return format_schema(SchemaFile(tuple(_declarations(catalog))))


def _declarations(catalog: Catalog) -> Iterator[Declaration]:
    for enum in catalog.enums:
        yield EnumDecl(Name(enum.name), tuple(map(Name, enum.values)))
    for interface in catalog.interfaces:
        yield InterfaceDecl(
            Name(interface.name), tuple(_property(item) for item in interface.properties)
        )
    for node in catalog.nodes:
        yield NodeDecl(
            Name(node.name),
            tuple(_notes(node)),
            tuple(map(Name, node.implements)),
            tuple(_members(node)),
        )
    for edge in catalog.edges:
        card = edge.cardinality
        is_bound = card.low or card.high is not None
        yield EdgeDecl(
            Name(edge.name),
            Name(edge.source),
            Name(edge.target),
            Card(card.low, card.high) if is_bound else None,
            tuple(_notes(edge)),
            tuple(_members(edge)),
        )


def _notes(item: EntityType) -> Iterator[Annotation]:
    for name, text in (("description", item.description), ("instruction", item.instruction)):
        if text is not None:
            yield Annotation(name, (_text(text),))
    yield from map(_custom, item.annotations)


def _members(item: NodeType | EdgeType) -> Iterator[Member]:
    yield from map(_property, item.properties)
    if item.key:
        yield _constraint("key", item.key)
    for columns in item.uniques:
        yield _constraint("unique", columns)
    for columns in item.indexes:
        if columns != item.key:
            yield _constraint("index", columns)
    if isinstance(item, NodeType):
        for bounds in item.ranges:
            yield RangeConstraint(Name(bounds.property), bounds.low, bounds.high)
        for check in item.checks:
            yield CheckConstraint(Name(check.property), check.pattern)


def _constraint(rule: ColumnRule, columns: tuple[str, ...]) -> ColumnConstraint:
    return ColumnConstraint(rule, tuple(map(Name, columns)))


def _property(item: Property) -> PropertyDecl:
    return PropertyDecl(
        Name(item.name), _type(item), item.type.nullable, tuple(_property_notes(item))
    )


def _property_notes(item: Property) -> Iterator[Annotation]:
    if item.default is not None:
        yield Annotation("default", (item.default,))
    if item.embed is not None:
        model = item.embed.model
        given = () if model is None else (("model", _text(model)),)
        yield Annotation("embed", (Name(item.embed.source),), given)
    if item.metric not in (None, Metric.COSINE):
        yield Annotation("metric", (Name(str(item.metric)),))
    if item.description is not None:
        yield Annotation("description", (_text(item.description),))
    yield from map(_custom, item.annotations)


def _custom(item: CustomAnnotation) -> Annotation:
    args = tuple(Name(each) if isinstance(each, str) else each for each in item.args)
    return Annotation(item.name, args, item.kwargs)


def _type(item: Property) -> TypeExpr:
    found = _element(item.type) if item.enum_name is None else TypeName(item.enum_name)
    return ListType(found) if item.type.is_list else found


def _element(kind: ValueType) -> TypeExpr:
    if kind.base is Base.VECTOR:
        return VectorType(kind.dim)
    if kind.enum:
        return InlineEnum(tuple(map(Name, kind.enum)))
    return TypeName(kind.base.value)


def _text(value: str) -> Literal:
    return Literal(LiteralKind.STRING, value)
