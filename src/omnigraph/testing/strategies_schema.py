"""Hypothesis strategies for schemas.

`schema_files` draws any tree the grammar can express, sense or no sense: for formatter and
parser. `valid_schema_files` draws trees that the checker accepts, from small pools of names, so
that two of them are often two versions of one schema: for catalogs, digests and migrations.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime

from hypothesis import strategies as st

from omnigraph.lang.catalog.model import Catalog
from omnigraph.lang.literal import Literal, LiteralKind
from omnigraph.lang.schema import compile_schema, format_schema
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
from omnigraph.lang.source import Name
from omnigraph.lang.values import SCALARS

_WORD = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# -- pieces of any tree ----------------------------------------------------------------------------


def identifiers() -> st.SearchStrategy[str]:
    """Names with a lower-case initial, keywords included."""
    keywords = st.sampled_from(["node", "edge", "enum", "interface", "implements", "src", "id"])
    initial = st.sampled_from("abcxyz_")
    return keywords | st.builds(lambda a, b: a + b, initial, st.text(_WORD, max_size=6))


def type_names() -> st.SearchStrategy[str]:
    """Names with an upper-case initial, built-in types included."""
    known = st.sampled_from([*SCALARS, "Vector"])
    initial = st.sampled_from("ABCXYZ")
    return known | st.builds(lambda a, b: a + b, initial, st.text(_WORD, max_size=6))


def texts() -> st.SearchStrategy[str]:
    """Any text that can be stored."""
    return st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


def _names(of: st.SearchStrategy[str]) -> st.SearchStrategy[Name]:
    return st.builds(Name, of)


def literals() -> st.SearchStrategy[Literal]:
    """Literals of every kind."""
    days = st.dates().map(lambda day: day.toordinal() - _EPOCH_DAY)
    millis = st.datetimes(timezones=st.just(UTC)).map(
        lambda moment: (moment - _EPOCH) // (datetime.resolution * 1000)
    )
    scalars = st.one_of(
        texts().map(lambda value: Literal(LiteralKind.STRING, value)),
        st.integers(-(10**20) + 1, 10**20 - 1).map(lambda value: Literal(LiteralKind.INT, value)),
        st.floats(allow_nan=False, allow_infinity=False).map(
            lambda value: Literal(LiteralKind.FLOAT, value)
        ),
        st.booleans().map(lambda value: Literal(LiteralKind.BOOL, value)),
        st.just(Literal(LiteralKind.NULL)),
        days.map(lambda value: Literal(LiteralKind.DATE, value)),
        millis.map(lambda value: Literal(LiteralKind.DATETIME, value)),
    )
    return st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=3).map(
            lambda items: Literal(LiteralKind.LIST, None, tuple(items))
        ),
        max_leaves=4,
    )


def _enum_values() -> st.SearchStrategy[tuple[Name, ...]]:
    value = st.text(_WORD + "-", min_size=1, max_size=6)
    return st.lists(_names(value), max_size=5).map(tuple)


def type_expressions() -> st.SearchStrategy[TypeExpr]:
    """Types as they can be written, lists of lists included."""
    plain: st.SearchStrategy[TypeExpr] = st.one_of(
        type_names().map(TypeName),
        st.integers(0, 10**19).map(VectorType),
        _enum_values().map(InlineEnum),
    )
    return st.recursive(plain, lambda inner: inner.map(ListType), max_leaves=2)


_LITERAL_WORDS = frozenset({"true", "false", "null"})
_CONSTRAINT_WORDS = frozenset({"key", "unique", "index", "range", "check"})


@st.composite
def annotation_notes(draw: st.DrawFn) -> Annotation:
    """An annotation; the ones that only parse in a body or behind an edge are left out."""
    known = st.sampled_from(["key", "unique", "index", "embed", "description", "default"])
    name = draw((known | identifiers()).filter(lambda word: word != "card"))
    if name in _CONSTRAINT_WORDS:
        return Annotation(name)
    words = _names((identifiers() | type_names()).filter(lambda word: word not in _LITERAL_WORDS))
    args = draw(st.lists(literals() | words, max_size=3))
    kwargs = draw(st.dictionaries(identifiers(), literals(), max_size=2))
    return Annotation(name, tuple(args), tuple(kwargs.items()))


def properties() -> st.SearchStrategy[PropertyDecl]:
    """One property."""
    return st.builds(
        PropertyDecl,
        _names(identifiers()),
        type_expressions(),
        st.booleans(),
        st.lists(annotation_notes(), max_size=3).map(tuple),
    )


def _constraints() -> st.SearchStrategy[Member]:
    name = _names(identifiers())
    number = st.one_of(
        st.integers(-(10**20) + 1, 10**20 - 1), st.floats(allow_nan=False, allow_infinity=False)
    )
    bounds = st.tuples(number | st.none(), number | st.none()).filter(_any_bound)
    return st.one_of(
        st.builds(
            ColumnConstraint,
            st.sampled_from(["key", "unique", "index"]),
            st.lists(name, min_size=1, max_size=3).map(tuple),
        ),
        st.builds(lambda prop, pair: RangeConstraint(prop, pair[0], pair[1]), name, bounds),
        st.builds(CheckConstraint, name, texts()),
    )


def _any_bound(pair: tuple[int | float | None, int | float | None]) -> bool:
    return pair != (None, None)


def declarations() -> st.SearchStrategy[Declaration]:
    """One declaration of any kind."""
    name = _names(type_names())
    notes = st.lists(annotation_notes(), max_size=2).map(tuple)
    members = st.lists(properties() | _constraints(), max_size=4).map(tuple)
    bound = st.integers(0, 10**12)
    card = st.none() | st.builds(Card, bound, st.none() | bound)
    return st.one_of(
        st.builds(EnumDecl, name, _enum_values()),
        st.builds(InterfaceDecl, name, st.lists(properties(), max_size=3).map(tuple)),
        st.builds(NodeDecl, name, notes, st.lists(name, max_size=2).map(tuple), members),
        st.builds(EdgeDecl, name, name, name, card, notes, members),
    )


def schema_files() -> st.SearchStrategy[SchemaFile]:
    """Any tree that the grammar can express."""
    return st.lists(declarations(), max_size=4).map(lambda items: SchemaFile(tuple(items)))


# -- trees that make sense -------------------------------------------------------------------------

_SCALAR_DEFAULTS: dict[str, tuple[Literal, ...]] = {
    "String": (Literal(LiteralKind.STRING, "x"), Literal(LiteralKind.STRING, "é")),
    "Bool": (Literal(LiteralKind.BOOL, True),),
    "I32": (Literal(LiteralKind.INT, -7),),
    "I64": (Literal(LiteralKind.INT, 2**40),),
    "U32": (Literal(LiteralKind.INT, 7),),
    "U64": (Literal(LiteralKind.INT, 2**63),),
    "F32": (Literal(LiteralKind.FLOAT, 0.5), Literal(LiteralKind.INT, 3)),
    "F64": (Literal(LiteralKind.FLOAT, -1e-9),),
    "Date": (Literal(LiteralKind.STRING, "2024-02-29"), Literal(LiteralKind.DATE, 0)),
    "DateTime": (Literal(LiteralKind.DATETIME, 1),),
}
# Strategies are costly to make, so the ones of a composite are made once.
_LITERALS = literals()
_DESCRIPTIONS = texts().filter(lambda value: bool(value.strip()))
_ONE_IN_FOUR = st.integers(0, 3).map(lambda number: number == 0)
_INLINE_VALUES = st.sets(st.sampled_from(["a", "b", "in-progress", "2x"]), min_size=1).map(sorted)
_SHAPES = st.sampled_from(["scalar"] * 5 + ["list", "enum", "vector", "blob"])
_METRICS = st.sampled_from(["l2", "dot"])
_BOOLEANS = st.booleans()
_CARDS = st.none() | st.builds(Card, st.integers(0, 2), st.none() | st.integers(2, 4))

_PAIR_RULES: tuple[ColumnRule, ...] = ("unique", "index")
_INTEGER_NAMES = ("I32", "I64", "U32", "U64")


@st.composite
def _valid_property(draw: st.DrawFn, name: str, enums: tuple[str, ...]) -> PropertyDecl:
    scalar = draw(st.sampled_from([*_SCALAR_DEFAULTS, *enums]))
    shape = draw(_SHAPES)
    notes: list[Annotation] = []
    of_type: TypeExpr = TypeName(scalar)
    if shape == "vector":
        of_type = VectorType(draw(st.integers(1, 4)))
        if draw(_BOOLEANS):
            notes.append(Annotation("metric", (Name(draw(_METRICS)),)))
    elif shape == "blob":
        of_type = TypeName("Blob")
    elif shape == "list" and scalar in _SCALAR_DEFAULTS:
        of_type = ListType(TypeName(scalar))
    elif shape == "enum":
        of_type = InlineEnum(tuple(Name(value) for value in draw(_INLINE_VALUES)))
    elif scalar in _SCALAR_DEFAULTS and draw(_BOOLEANS):
        notes.append(Annotation("default", (draw(st.sampled_from(_SCALAR_DEFAULTS[scalar])),)))
    if shape in ("scalar", "enum"):
        notes += [Annotation(mark) for mark in ("index", "unique") if draw(_ONE_IN_FOUR)]
    notes += draw(_notes())
    return PropertyDecl(Name(name), of_type, draw(_BOOLEANS), tuple(notes))


@st.composite
def _notes(draw: st.DrawFn) -> list[Annotation]:
    """Sometimes a description or a custom annotation."""
    notes: list[Annotation] = []
    if draw(_ONE_IN_FOUR):
        text = draw(_DESCRIPTIONS)
        notes.append(Annotation("description", (Literal(LiteralKind.STRING, text),)))
    if draw(_ONE_IN_FOUR) and draw(_BOOLEANS):
        notes.append(Annotation("weighted", (draw(_LITERALS),), (("edge", draw(_LITERALS)),)))
    return notes


def _is_key_material(prop: PropertyDecl) -> bool:
    scalar = isinstance(prop.type, TypeName) and prop.type.name != "Blob"
    return not prop.nullable and (scalar or isinstance(prop.type, InlineEnum))


@st.composite
def _valid_members(draw: st.DrawFn, props: list[PropertyDecl], *, edge: bool) -> tuple[Member, ...]:
    members: list[Member] = list(props)
    scalars = [item for item in props if _is_key_material(item)]
    ends = [Name("src"), Name("dst")] if edge else []
    if (scalars or edge) and draw(_BOOLEANS):
        chosen = (
            draw(st.lists(st.sampled_from(scalars), unique_by=id, max_size=2)) if scalars else []
        )
        columns = [*ends, *(item.name for item in chosen)]
        if columns:
            order = draw(st.permutations(columns))
            members.append(ColumnConstraint("key", tuple(order)))
    if len(scalars) > 1 and draw(_BOOLEANS):
        chosen = draw(st.permutations(scalars))[:2]
        rule = draw(st.sampled_from(_PAIR_RULES))
        members.append(ColumnConstraint(rule, tuple(item.name for item in chosen)))
    for item in props if not edge else []:
        plain = item.type.name if isinstance(item.type, TypeName) else ""
        if plain in _INTEGER_NAMES and draw(_ONE_IN_FOUR):
            low = draw(st.none() | st.integers(-99, -8))
            members.append(RangeConstraint(item.name, low, draw(st.integers(2**63, 2**64))))
        elif plain == "String" and draw(_ONE_IN_FOUR):
            members.append(CheckConstraint(item.name, draw(st.sampled_from(["^[xé]", "[^0-9]+$"]))))
    return tuple(draw(st.permutations(members)))


@st.composite
def _valid_properties(draw: st.DrawFn, pool: str, enums: tuple[str, ...]) -> list[PropertyDecl]:
    names = draw(st.lists(st.sampled_from(pool), unique=True, max_size=4))
    return [draw(_valid_property(name, enums)) for name in names]


@st.composite
def _embedding(draw: st.DrawFn, props: list[PropertyDecl]) -> list[PropertyDecl]:
    """The same properties; perhaps a vector is now computed from a text."""
    texts_there = [
        item for item in props if isinstance(item.type, TypeName) and item.type.name == "String"
    ]
    for at, item in enumerate(props):
        if texts_there and isinstance(item.type, VectorType) and draw(_BOOLEANS):
            source = draw(st.sampled_from(texts_there)).name
            note = Annotation("embed", (source,))
            props[at] = replace(item, annotations=(*item.annotations, note))
    return props


@st.composite
def valid_schema_files(draw: st.DrawFn) -> SchemaFile:
    """A tree that the checker accepts."""
    enums = tuple(draw(st.lists(st.sampled_from(["Colour", "Size"]), unique=True)))
    values = st.sets(st.sampled_from(["s", "m", "l"]), min_size=1).map(sorted)
    items: list[Declaration] = [
        EnumDecl(Name(name), tuple(Name(value) for value in draw(values))) for name in enums
    ]
    interfaces = draw(st.lists(st.sampled_from(["Named", "Sized"]), unique=True))
    for name in interfaces:
        pool = "pq" if name == "Named" else "rs"
        items.append(InterfaceDecl(Name(name), tuple(draw(_valid_properties(pool, enums)))))
    nodes = draw(st.lists(st.sampled_from("ABC"), unique=True, max_size=3))
    for name in nodes:
        shared = draw(st.lists(st.sampled_from(interfaces), unique=True)) if interfaces else []
        props = draw(_embedding(draw(_valid_properties("abcde", enums))))
        members = draw(_valid_members(props, edge=False))
        notes = draw(_notes())
        implements = tuple(Name(item) for item in shared)
        items.append(NodeDecl(Name(name), tuple(notes), implements, members))
    names = draw(st.lists(st.sampled_from("EFG"), unique=True, max_size=2)) if nodes else []
    for name in names:
        source, target = draw(st.sampled_from(nodes)), draw(st.sampled_from(nodes))
        card = draw(_CARDS)
        props = draw(_valid_properties("abc", enums))
        members = draw(_valid_members(props, edge=True))
        notes = draw(_notes())
        items.append(EdgeDecl(Name(name), Name(source), Name(target), card, tuple(notes), members))
    return SchemaFile(tuple(items))


def valid_schema_texts() -> st.SearchStrategy[str]:
    """The canonical text of a schema that compiles."""
    return valid_schema_files().map(format_schema)


def catalogs() -> st.SearchStrategy[Catalog]:
    """The catalog of a random schema, as a new graph would get it."""
    return valid_schema_texts().map(compile_schema)


_OLD_NODES = st.permutations("ABC")
_OLD_EDGES = st.permutations("EFG")
_OLD_PROPERTIES = st.permutations("abcde")


@st.composite
def hinted_catalogs(draw: st.DrawFn) -> Catalog:
    """A catalog whose types and properties say, now and then, what they were called before."""
    nodes = dict(zip("ABC", draw(_OLD_NODES), strict=True))
    edges = dict(zip("EFG", draw(_OLD_EDGES), strict=True))
    items: list[Declaration] = []
    for item in draw(valid_schema_files()).declarations:
        if isinstance(item, NodeDecl | EdgeDecl):
            old = (nodes if isinstance(item, NodeDecl) else edges)[item.name.text]
            notes = (*item.annotations, *_hint(item.name, old, wanted=draw(_BOOLEANS)))
            members = draw(_hinted_members(item.members))
            items.append(replace(item, annotations=notes, members=members))
        else:
            items.append(item)
    return compile_schema(format_schema(SchemaFile(tuple(items))))


@st.composite
def _hinted_members(draw: st.DrawFn, members: tuple[Member, ...]) -> tuple[Member, ...]:
    old = dict(zip("abcde", draw(_OLD_PROPERTIES), strict=True))
    hinted: list[Member] = []
    for item in members:
        if isinstance(item, PropertyDecl) and item.name.text in old:
            hint = _hint(item.name, old[item.name.text], wanted=draw(_BOOLEANS))
            hinted.append(replace(item, annotations=(*item.annotations, *hint)))
        else:
            hinted.append(item)
    return tuple(hinted)


def _hint(name: Name, old: str, *, wanted: bool) -> tuple[Annotation, ...]:
    return (Annotation("rename_from", (Name(old),)),) if wanted and old != name.text else ()
