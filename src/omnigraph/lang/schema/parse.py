"""The `.pg` parser: recursive descent that survives mistakes.

A broken member is skipped up to the next member and a broken declaration up to the next one, so
a run reports every independent syntax error and still returns what it understood.
"""

from __future__ import annotations

from typing import NoReturn, cast

from omnigraph.lang.cursor import Bail, TokenCursor
from omnigraph.lang.schema.ast import (
    Card,
    CheckConstraint,
    ColumnConstraint,
    ColumnRule,
    Constraint,
    Declaration,
    EdgeDecl,
    EnumDecl,
    InterfaceDecl,
    Member,
    NodeDecl,
    PropertyDecl,
    RangeConstraint,
    SchemaFile,
)
from omnigraph.lang.schema.codes import SYNTAX
from omnigraph.lang.schema.parse_parts import (
    CONSTRAINTS,
    at_constraint,
    parse_annotations,
    parse_enum_values,
    parse_type,
)
from omnigraph.lang.source import Diagnostics, Name, Source, did_you_mean
from omnigraph.lang.tokens import EOF, FLOAT, IDENT, INT, TYPE

_KEYWORDS = frozenset({"interface", "node", "edge", "enum"})


def parse_schema(source: Source, found: Diagnostics) -> SchemaFile:
    """Parse a source; syntax errors go to `found`, the tree holds everything else."""
    cursor = TokenCursor(source, found, SYNTAX)
    declarations: list[Declaration] = []
    while cursor.peek() != EOF:
        before = cursor.pos
        try:
            declarations.append(_declaration(cursor))
        except Bail:
            _skip_declaration(cursor, before)
    return SchemaFile(tuple(declarations), cursor.comments, source.text)


# -- declarations ----------------------------------------------------------------------------------


def _declaration(cursor: TokenCursor) -> Declaration:
    word = cursor.word() if cursor.peek() == IDENT else ""
    if word == "node":
        return _node(cursor)
    if word == "edge":
        return _edge(cursor)
    if word == "interface":
        return _interface(cursor)
    if word == "enum":
        return _enum(cursor)
    hint = None
    if cursor.peek() in (IDENT, TYPE):
        hint = did_you_mean(cursor.word(), _KEYWORDS)
    cursor.fail_expected("`node`, `edge`, `interface` or `enum`", hint)


def _node(cursor: TokenCursor) -> NodeDecl:
    start = cursor.start()
    cursor.take()
    name = _type_name(cursor, "the name of the node type")
    annotations = parse_annotations(cursor, owner="node")
    implements: tuple[Name, ...] = ()
    if cursor.accept_word("implements"):
        names = [_type_name(cursor, "the name of an interface")]
        while cursor.accept(","):
            names.append(_type_name(cursor, "the name of an interface"))
        implements = tuple(names)
        if cursor.peek() == "@":
            message = "annotations of a node come before `implements`"
            cursor.found.error(cursor.code, message, cursor.here(), "move it in front")
            annotations += parse_annotations(cursor, owner="node")
    cursor.expect("{", "`{`")
    head = cursor.since(start)
    members = _body(cursor, name.text)
    return NodeDecl(name, annotations, implements, members, head, cursor.since(start))


def _edge(cursor: TokenCursor) -> EdgeDecl:
    start = cursor.start()
    cursor.take()
    name = _type_name(cursor, "the name of the edge type")
    cursor.expect(":", "`:`", "an edge is declared as `edge Name: Source -> Target`")
    source = _type_name(cursor, "the node type where the edge starts")
    cursor.expect("->", "`->`", "an edge is declared as `edge Name: Source -> Target`")
    target = _type_name(cursor, "the node type where the edge ends")
    card = _card(cursor)
    annotations = parse_annotations(cursor, owner="edge")
    while cursor.peek() == "@" and cursor.at_word("card", 1):
        late_start = cursor.start()
        late = _card(cursor)
        complaint = "comes before the other annotations" if card is None else "is given twice"
        cursor.found.error(cursor.code, f"`@card` {complaint}", cursor.since(late_start))
        card = card or late
        annotations += parse_annotations(cursor, owner="edge")
    members: tuple[Member, ...] = ()
    head = cursor.since(start)
    if cursor.accept("{"):
        head = cursor.since(start)
        members = _body(cursor, name.text)
    return EdgeDecl(name, source, target, card, annotations, members, head, cursor.since(start))


def _interface(cursor: TokenCursor) -> InterfaceDecl:
    start = cursor.start()
    cursor.take()
    name = _type_name(cursor, "the name of the interface")
    if cursor.peek() == "@":
        cursor.fail("an interface has no annotations of its own")
    cursor.expect("{", "`{`")
    head = cursor.since(start)
    properties: list[PropertyDecl] = []
    for member in _body(cursor, name.text):
        if isinstance(member, PropertyDecl):
            properties.append(member)
            continue
        message = "an interface holds properties only"
        hint = "mark a single property, like `name: String @unique`, or write it in the node"
        cursor.found.error(cursor.code, message, member.span, hint)
    return InterfaceDecl(name, tuple(properties), head, cursor.since(start))


def _enum(cursor: TokenCursor) -> EnumDecl:
    start = cursor.start()
    cursor.take()
    name = _type_name(cursor, "the name of the enum")
    if cursor.peek() == "@":
        cursor.fail("an enum has no annotations")
    cursor.expect("{", "`{`")
    head = cursor.since(start)
    values = parse_enum_values(cursor, "}")
    return EnumDecl(name, values, head, cursor.since(start))


def _type_name(cursor: TokenCursor, what: str) -> Name:
    span = cursor.here()
    hint = None
    if cursor.peek() == IDENT:
        word = cursor.word().lstrip("_")
        hint = f"type names start with a capital letter: `{word[:1].upper()}{word[1:]}`"
    return Name(cursor.expect(TYPE, what, hint), span)


def _card(cursor: TokenCursor) -> Card | None:
    if cursor.peek() != "@" or not cursor.at_word("card", 1):
        return None
    start = cursor.start()
    cursor.take()
    cursor.take()
    form = "write `@card(0..5)`, or `@card(1..)` without an upper bound"
    cursor.expect("(", "`(`", form)
    low = cursor.integer("the smallest number of edges")
    cursor.expect("..", "`..`", form)
    high = None if cursor.peek() == ")" else cursor.integer("the largest number of edges")
    cursor.expect(")", "`)`", form)
    return Card(low, high, cursor.since(start))


# -- members ---------------------------------------------------------------------------------------


def _body(cursor: TokenCursor, owner: str) -> tuple[Member, ...]:
    """The members up to the closing brace; the opening one is taken already."""
    kinds = cursor.kinds
    members: list[Member] = []
    while True:
        before = cursor.pos
        kind = kinds[before]
        if kind == "}":
            cursor.pos += 1
            break
        if kind == EOF or (kind == IDENT and _at_declaration(cursor)):
            message = f"the body of `{owner}` is not closed"
            cursor.found.error(cursor.code, message, cursor.here(), "add `}`")
            break
        try:
            members.append(_constraint(cursor) if kind == "@" else _property(cursor))
        except Bail:
            _skip_member(cursor, before)
        if kinds[cursor.pos] == ",":
            message = "no comma is needed between members"
            cursor.found.error(cursor.code, message, cursor.here(), "leave it out")
            cursor.take()
    return tuple(members)


def _property(cursor: TokenCursor) -> PropertyDecl:
    kinds, start = cursor.kinds, cursor.start()
    name = Name(cursor.word(), cursor.here())
    if kinds[cursor.pos] != IDENT or kinds[cursor.pos + 1] != ":":
        _fail_property(cursor)
    cursor.pos += 2
    of_type = parse_type(cursor)
    nullable = cursor.accept("?")
    annotations = parse_annotations(cursor, owner="property")
    return PropertyDecl(name, of_type, nullable, annotations, cursor.since(start))


def _fail_property(cursor: TokenCursor) -> NoReturn:
    """Say what is missing at the start of a property."""
    word = cursor.word()
    if cursor.accept(IDENT):
        form = f"a property is declared as `{word}: String`"
        cursor.fail_expected(f"`:` and a type behind `{word}`", form)
    hint = None
    if cursor.peek() == TYPE:
        hint = f"property names start with a lower-case letter: `{word[:1].lower()}{word[1:]}`"
    cursor.fail_expected("a property, a constraint or `}`", hint)


def _constraint(cursor: TokenCursor) -> Constraint:
    start = cursor.start()
    if not at_constraint(cursor):
        _fail_constraint(cursor)
    cursor.take()
    rule = cursor.take()
    cursor.take()
    if rule == "range":
        prop = _column(cursor, "`@range(age, 0..150)`")
        cursor.expect(",", "`,` and the bounds", "write `@range(age, 0..150)`")
        low, high = _bounds(cursor)
        cursor.expect(")", "`)`")
        return RangeConstraint(prop, low, high, cursor.since(start))
    if rule == "check":
        prop = _column(cursor, '`@check(code, "^[A-Z]+$")`')
        cursor.expect(",", "`,` and the pattern", 'write `@check(code, "^[A-Z]+$")`')
        pattern_span = cursor.here()
        pattern = cursor.string()
        cursor.expect(")", "`)`")
        return CheckConstraint(prop, pattern, pattern_span, cursor.since(start))
    columns = [_column(cursor, f"`@{rule}(name)`")]
    while cursor.accept(","):
        columns.append(_column(cursor, f"`@{rule}(name)`"))
    cursor.expect(")", "`,` or `)`")
    return ColumnConstraint(cast(ColumnRule, rule), tuple(columns), cursor.since(start))


def _fail_constraint(cursor: TokenCursor) -> NoReturn:
    """Say why the `@` at the start of a member starts no constraint."""
    word = cursor.word(1)
    if cursor.peek(1) != IDENT:
        cursor.fail("expected the name of a constraint after `@`")
    if word in CONSTRAINTS:
        hint = f"write `@{word}(name)` here, or `name: String @{word}` behind a property"
        cursor.fail(f"`@{word}` in a body needs the properties it is about", hint=hint)
    hint = did_you_mean(word, CONSTRAINTS) or "annotations of a type come before the `{`"
    cursor.fail(f"`@{word}` is not a constraint", hint=hint)


def _column(cursor: TokenCursor, form: str) -> Name:
    span = cursor.here()
    return Name(cursor.expect(IDENT, "the name of a property", f"write {form}"), span)


_NUMBERS = frozenset({INT, FLOAT, "-"})


def _bounds(cursor: TokenCursor) -> tuple[int | float | None, int | float | None]:
    span = cursor.here()
    low = cursor.number(signed=True) if cursor.peek() in _NUMBERS else None
    cursor.expect("..", "bounds like `0..150`, `0..` or `..150`")
    high = cursor.number(signed=True) if cursor.peek() in _NUMBERS else None
    if low is None and high is None:
        cursor.fail("a range needs at least one bound", span)
    return low, high


# -- carrying on after a mistake -------------------------------------------------------------------


def _at_declaration(cursor: TokenCursor) -> bool:
    """True if a declaration starts here. No member looks like a keyword and a type name."""
    return cursor.peek() == IDENT and cursor.word() in _KEYWORDS and cursor.peek(1) == TYPE


def _at_member(cursor: TokenCursor) -> bool:
    kind = cursor.peek()
    if kind == IDENT:
        return cursor.peek(1) == ":"
    return kind == "@" and at_constraint(cursor)


def _skip_declaration(cursor: TokenCursor, before: int) -> None:
    if cursor.pos == before:
        cursor.take()
    while cursor.peek() != EOF and not _at_declaration(cursor):
        cursor.take()


def _skip_member(cursor: TokenCursor, before: int) -> None:
    if cursor.pos == before:
        cursor.take()
    depth = 0
    while cursor.peek() != EOF and not _at_declaration(cursor):
        kind = cursor.peek()
        if depth == 0 and (kind == "}" or _at_member(cursor)):
            return
        depth += (kind == "{") - (kind == "}")
        cursor.take()
