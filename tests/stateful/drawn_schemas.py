"""Schemas in which rules tie few entities together, and other schemas by a change or two.

Every name is given once, so that whoever adds a property on two branches adds two of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count

from omnigraph.lang.literal import Literal, LiteralKind
from omnigraph.lang.schema import SchemaFile, parse_schema
from omnigraph.lang.schema.ast import (
    Annotation,
    Card,
    CheckConstraint,
    ColumnConstraint,
    Declaration,
    EdgeDecl,
    InlineEnum,
    ListType,
    Member,
    NodeDecl,
    PropertyDecl,
    RangeConstraint,
    TypeExpr,
    TypeName,
    VectorType,
)
from omnigraph.lang.source import Diagnostics, Name, Source
from tests.dice import Dice

Typed = NodeDecl | EdgeDecl

UNIQUE = Annotation("unique")
ENUM = InlineEnum((Name("x"), Name("y"), Name("z")))
WIDER = {"I32": "I64", "U32": "I64", "F32": "F64"}
CARDS = (None, None, (0, 1), (1, None), (1, 2), (0, 2), (2, 3))


def _kind(of_type: str | TypeExpr, *notes: Annotation, nullable: bool = True) -> PropertyDecl:
    whole = TypeName(of_type) if isinstance(of_type, str) else of_type
    return PropertyDecl(Name(""), whole, nullable, notes)


def _filled(value: int) -> PropertyDecl:
    default = Annotation("default", (Literal(LiteralKind.INT, value),))
    return _kind("I32", default, nullable=False)


KINDS = (
    *[_kind("I32")] * 5,
    *[_kind("I32", UNIQUE)] * 5,
    *[_kind(ENUM)] * 2,
    _kind(ListType(TypeName("I32"))),
    _kind(VectorType(2)),
    *map(_kind, ("Blob", "String", "F64", "Bool", "Date", "U32", "F32")),
    _kind("I64", Annotation("index")),
    _filled(1),
)


def parsed(text: str) -> SchemaFile:
    source = Source("<schema>", text)
    return parse_schema(source, Diagnostics(source))


def type_name(item: PropertyDecl) -> str:
    return item.type.name if isinstance(item.type, TypeName) else ""


def properties(item: Typed) -> list[PropertyDecl]:
    return [member for member in item.members if isinstance(member, PropertyDecl)]


def mentions(member: Member, name: str) -> bool:
    if isinstance(member, ColumnConstraint):
        return name in [column.text for column in member.columns]
    return (member.name if isinstance(member, PropertyDecl) else member.property).text == name


def is_of_key(item: Typed, name: str) -> bool:
    return any(
        mentions(member, name)
        and (
            (isinstance(member, ColumnConstraint) and member.rule == "key")
            or (isinstance(member, PropertyDecl) and Annotation("key") in member.annotations)
        )
        for member in item.members
    )


class DrawnSchemas:
    """Draws schemas and changes of them."""

    def __init__(self, dice: Dice) -> None:
        self._dice = dice
        self._numbers = count(1)

    def _name(self, letter: str) -> Name:
        return Name(f"{letter}{next(self._numbers)}")

    # -- whole schemas -----------------------------------------------------------------------------

    def schema(self) -> SchemaFile:
        items: list[Declaration] = [self._node() for _ in range(self._dice.one([1, 2, 2, 3]))]
        nodes = [item.name for item in items]
        items += [self._edge(nodes) for _ in range(self._dice.one([0, 1, 2, 2, 3]))]
        return SchemaFile(tuple(items))

    def _node(self) -> NodeDecl:
        members: list[Member] = []
        key = self._dice.one(["text", "text", "text", "pair", "none", "none"])
        if key != "none":
            members.append(replace(_kind("String", nullable=False), name=self._name("p")))
        if key == "pair":
            members.append(replace(_kind("I32", nullable=False), name=self._name("p")))
        if key != "none":
            members.append(self._rule("key", members))
        # A type may have no properties at all.
        counts = [0, 0, 1, 3] if key == "none" else [1, 2, 3, 4]
        drawn = [self._property() for _ in range(self._dice.one(counts))]
        tied = [item for item in drawn if type_name(item) in ("I32", "Bool")]
        if len(tied) > 1 and self._dice.is_so(0.5):
            members.append(self._rule("unique", tied[:2]))
        for item in drawn:
            if type_name(item) in ("I32", "I64", "U32", "F64") and self._dice.is_so(0.3):
                members.append(RangeConstraint(item.name, 0, self._dice.one([2, 3])))
            elif type_name(item) == "String" and self._dice.is_so(0.5):
                members.append(CheckConstraint(item.name, "^[ab]"))
        return NodeDecl(self._name("T"), members=(*drawn, *members))

    def _edge(self, nodes: Sequence[Name]) -> EdgeDecl:
        drawn: list[Member] = [self._property() for _ in range(self._dice.below(3))]
        ends = (Name("src"), Name("dst"))
        match self._dice.one(["none", "none", "ends", "more"]):
            case "ends":
                drawn.append(ColumnConstraint("key", ends))
            case "more":
                item = replace(_kind("I32", nullable=False), name=self._name("p"))
                drawn += [item, ColumnConstraint("key", (*ends, item.name))]
        source, target = self._dice.one(nodes), self._dice.one(nodes)
        return EdgeDecl(self._name("E"), source, target, self._card(), members=tuple(drawn))

    def _property(self) -> PropertyDecl:
        return replace(self._dice.one(KINDS), name=self._name("p"))

    def _card(self) -> Card | None:
        bounds = self._dice.one(CARDS)
        return None if bounds is None else Card(*bounds)

    @staticmethod
    def _rule(rule: str, items: Sequence[Member]) -> ColumnConstraint:
        names = tuple(item.name for item in items if isinstance(item, PropertyDecl))
        return ColumnConstraint("key" if rule == "key" else "unique", names)

    # -- changes -----------------------------------------------------------------------------------

    def changed(self, file: SchemaFile) -> SchemaFile:
        """Another schema; perhaps one that is not allowed."""
        changes: Sequence[Callable[[SchemaFile], SchemaFile]] = (
            *[self._add_property] * 3,
            *[self._rename_property] * 2,
            *(self._drop_property, self._widen, self._more_values, self._fewer_values),
            *(self._add_type, self._add_type, self._rename_type, self._drop_type),
            *(self._other_card, self._add_unique, self._drop_rule, self._add_range),
        )
        for _ in range(self._dice.one([1, 1, 2])):
            file = self._dice.one(changes)(file)
        return file

    def _in_one(self, file: SchemaFile, change: Callable[[Typed], Typed]) -> SchemaFile:
        place = self._dice.below(len(file.declarations))
        return SchemaFile(
            tuple(
                change(item) if number == place and isinstance(item, Typed) else item
                for number, item in enumerate(file.declarations)
            )
        )

    def _in_property(
        self, file: SchemaFile, change: Callable[[PropertyDecl], PropertyDecl]
    ) -> SchemaFile:
        """Change a property of a type."""

        def changed(item: Typed) -> Typed:
            if not properties(item):
                return item
            one = self._dice.one(properties(item))
            members = (change(one) if member is one else member for member in item.members)
            return replace(item, members=tuple(members))

        return self._in_one(file, changed)

    def _add_property(self, file: SchemaFile) -> SchemaFile:
        added = _filled(self._dice.below(3)) if self._dice.is_so(0.3) else self._dice.one(KINDS)
        member = replace(added, name=self._name("p"))
        return self._in_one(file, lambda item: replace(item, members=(member, *item.members)))

    def _rename_property(self, file: SchemaFile) -> SchemaFile:
        def changed(item: Typed) -> Typed:
            if not properties(item):
                return item
            old, new = self._dice.one(properties(item)).name, self._name("p")
            members = tuple(_renamed(member, old, new) for member in item.members)
            return replace(item, members=members)

        return self._in_one(file, changed)

    def _drop_property(self, file: SchemaFile) -> SchemaFile:
        def changed(item: Typed) -> Typed:
            names = [one.name.text for one in properties(item)]
            free = [name for name in names if not is_of_key(item, name)]
            gone = self._dice.one(free) if free else ""
            kept = (member for member in item.members if not mentions(member, gone))
            return replace(item, members=tuple(kept))

        return self._in_one(file, changed)

    def _widen(self, file: SchemaFile) -> SchemaFile:
        def changed(item: PropertyDecl) -> PropertyDecl:
            wider = WIDER.get(type_name(item))
            return replace(item, type=TypeName(wider)) if wider else item

        return self._in_property(file, changed)

    def _more_values(self, file: SchemaFile) -> SchemaFile:
        def changed(item: PropertyDecl) -> PropertyDecl:
            if not isinstance(item.type, InlineEnum):
                return item
            return replace(item, type=InlineEnum((*item.type.values, self._name("w"))))

        return self._in_property(file, changed)

    def _fewer_values(self, file: SchemaFile) -> SchemaFile:
        def changed(item: PropertyDecl) -> PropertyDecl:
            if not isinstance(item.type, InlineEnum) or len(item.type.values) < 2:
                return item
            return replace(item, type=InlineEnum(item.type.values[:-1]))

        return self._in_property(file, changed)

    def _add_type(self, file: SchemaFile) -> SchemaFile:
        nodes = [item.name for item in file.declarations if isinstance(item, NodeDecl)]
        added = self._edge(nodes) if self._dice.is_so(0.5) else self._node()
        return SchemaFile((*file.declarations, added))

    def _rename_type(self, file: SchemaFile) -> SchemaFile:
        old = self._dice.one(file.declarations).name
        new = self._name(old.text[0])
        hint = Annotation("rename_from", (Literal(LiteralKind.STRING, old.text),))

        def now(name: Name) -> Name:
            return new if name.text == old.text else name

        items: list[Declaration] = []
        for item in file.declarations:
            notes = (hint,) if item.name.text == old.text else ()
            if isinstance(item, EdgeDecl):
                item = replace(item, source=now(item.source), target=now(item.target))  # noqa: PLW2901
            if isinstance(item, Typed):
                item = replace(item, name=now(item.name), annotations=notes)  # noqa: PLW2901
            items.append(item)
        return SchemaFile(tuple(items))

    def _drop_type(self, file: SchemaFile) -> SchemaFile:
        gone = self._dice.one(file.declarations)
        kept = tuple(
            item
            for item in file.declarations
            if item is not gone
            and not (
                isinstance(item, EdgeDecl)
                and gone.name.text in (item.source.text, item.target.text)
            )
        )
        return SchemaFile(kept) if any(isinstance(item, NodeDecl) for item in kept) else file

    def _other_card(self, file: SchemaFile) -> SchemaFile:
        def changed(item: Typed) -> Typed:
            return replace(item, card=self._card()) if isinstance(item, EdgeDecl) else item

        return self._in_one(file, changed)

    def _add_unique(self, file: SchemaFile) -> SchemaFile:
        def changed(item: PropertyDecl) -> PropertyDecl:
            if type_name(item) not in ("I32", "I64", "Bool", "Date") or item.annotations:
                return item
            return replace(item, annotations=(UNIQUE,))

        return self._in_property(file, changed)

    def _drop_rule(self, file: SchemaFile) -> SchemaFile:
        def is_rule(member: Member) -> bool:
            is_key = isinstance(member, ColumnConstraint) and member.rule == "key"
            return not isinstance(member, PropertyDecl) and not is_key

        def changed(item: Typed) -> Typed:
            kept = (member for member in item.members if not is_rule(member))
            return replace(item, members=tuple(kept))

        return self._in_one(file, changed)

    def _add_range(self, file: SchemaFile) -> SchemaFile:
        def changed(item: Typed) -> Typed:
            some = [one.name for one in properties(item) if type_name(one) in ("I32", "I64")]
            ruled = {one.property.text for one in item.members if isinstance(one, RangeConstraint)}
            free = [name for name in some if name.text not in ruled]
            if not isinstance(item, NodeDecl) or not free:
                return item
            added = RangeConstraint(self._dice.one(free), 0, self._dice.one([1, 2]))
            return replace(item, members=(*item.members, added))

        return self._in_one(file, changed)


def _renamed(member: Member, old: Name, new: Name) -> Member:
    """A member of a type in which a property has another name."""
    if not mentions(member, old.text):
        return member
    if isinstance(member, ColumnConstraint):
        columns = (new if name.text == old.text else name for name in member.columns)
        return replace(member, columns=tuple(columns))
    if isinstance(member, PropertyDecl):
        hint = Annotation("rename_from", (Literal(LiteralKind.STRING, old.text),))
        return replace(member, name=new, annotations=(*member.annotations, hint))
    return replace(member, property=new)
