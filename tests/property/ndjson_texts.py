"""Lines of JSON, good and bad, in every spelling; and what a decoder made of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

import pyarrow as pa
from hypothesis import strategies as st

from omnigraph.core.layout import table_key
from omnigraph.dataplane.decode.model import Decoded
from omnigraph.lang import compile_schema
from omnigraph.lang.catalog.model import Catalog, EntityType
from omnigraph.lang.values import INT_RANGES, INTEGERS, Base, ValueType
from omnigraph.rules.violation import Violations
from tests.property.ndjson_reference import Fault, Reading

CATALOG = compile_schema("""
enum Colour { blue, green, red }

node Cell {
  label: String?
  flag: Bool?
  small: I32?
  large: I64?
  count: U32?
  huge: U64?
  single: F32?
  double: F64?
  day: Date?
  moment: DateTime?
  colour: Colour?
  flags: [Bool]?
  integers: [I64]?
  floats: [F32]?
  days: [Date]?
  moments: [DateTime]?
  words: [String]?
  vector: Vector(2)?
  blob: Blob?
}
node Room {
  house: String
  number: U32
  built: Date
  seats: I64?
  @key(house, number, built)
}
node Person {
  name: String @key
  age: I32?
}
// Its properties have the names of what stands around the data.
node Odd {
  data: String?
  type: I32?
  edge: Bool?
}
edge Next: Cell -> Cell { weight: F32? }
edge Rated: Person -> Room {
  stars: I32
  @key(src, dst)
}
// Node types and edge types have name spaces of their own.
edge Person: Room -> Person { role: String? }
""")
Value = TypeVar("Value")
ENTITIES: tuple[EntityType, ...] = (*CATALOG.nodes, *CATALOG.edges)


@dataclass(frozen=True, slots=True)
class Raw:
    """JSON that is written as it is."""

    text: str


@dataclass(frozen=True, slots=True)
class Members:
    """An object."""

    pairs: tuple[tuple[str, object], ...]


@dataclass(frozen=True, slots=True)
class Style:
    """How JSON is written."""

    comma: str = ", "
    colon: str = ": "
    inside: str = ""
    is_ascii: bool = True
    is_escaped: bool = False


COMPACT = Style(",", ":")
STYLES = (
    Style(),
    COMPACT,
    Style(is_ascii=False),
    Style(" ,\t", "  :\t", " "),
    Style(is_escaped=True),
)


def written(value: object, style: Style) -> str:
    """A value as JSON."""
    if isinstance(value, Raw):
        return value.text
    if isinstance(value, Members):
        pairs = style.comma.join(
            written(name, style) + style.colon + written(item, style) for name, item in value.pairs
        )
        return f"{{{style.inside}{pairs}{style.inside}}}"
    if isinstance(value, list):
        items = style.comma.join(written(item, style) for item in value)
        return f"[{style.inside}{items}{style.inside}]"
    if isinstance(value, str) and style.is_escaped:
        units = value.encode("utf-16-be", "surrogatepass").hex()
        return '"' + "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4)) + '"'
    text = json.dumps(value, ensure_ascii=style.is_ascii)
    return text.encode(errors="backslashreplace").decode()


# -- values ----------------------------------------------------------------------------------------


def _words(text: str) -> list[str]:
    return text.split()


TEXTS = st.text(max_size=5) | st.sampled_from(
    ["", "a", '"label": null', '"age":null', "\\", '\\"', "\0", "\u2028", "😀", "null", "{", "}"]
)
NUMBERS = st.sampled_from(
    _words("""
    0 -0 1 -1 0.0 -0.0 1.0 1.5 0.1 1e5 1E+05 1e-5 -1e-50 1e-400 1e39 1e400 -1e400 16777217
    3.4028235e38 3.4028236e38 1.00000017881393432617187499 9007199254740993 1.17549435e-38
    2147483647 2147483648 -2147483648 -2147483649 4294967295 4294967296 9223372036854775807
    9223372036854775808 -9223372036854775808 -9223372036854775809 18446744073709551615
    18446744073709551616 100000000000000000000000000000000000000000000000000000000000000000000000000
    """)
).map(Raw)
FLOATS = (
    st.floats(allow_nan=False, allow_infinity=False).map(repr)
    | st.floats(width=32, allow_nan=False, allow_infinity=False).map(repr)
    | st.integers(-(2**70), 2**70).map(str)
).map(Raw)
STRANGE = st.sampled_from(["NaN", "Infinity", "-Infinity"]).map(Raw)
DATES = st.dates().map(str) | st.sampled_from(
    _words("""
    2024-02-29 0001-01-01 9999-12-31 2023-02-29 0000-01-01 2024-1-01 20240101 2024-01-01T
    2024-13-01 +024-01-01 ٢024-01-01
    """)
)
TIMES = _words("""
    12:00:00 23:59:59 24:00:00 12:60:00 12:00 12 1:00:00 12:00:00.1 12:00:00.123 12:00:00.1234
    12:00:00.999999 12:00:00.1234567 12:00:00.123456789 12:00:00.1234567890 12:00:00. 12:00.5
""")
ZONES = ["", "Z", "Z", "+00:00", "+01:30", "z", "-23:59", "+0130", "+01", "+24:00", "+10:99", " Z"]
MOMENTS = st.builds(
    lambda *parts: "".join(parts),
    DATES,
    st.sampled_from(["T", "T", " ", "t", ""]),
    st.sampled_from(TIMES),
    st.sampled_from(ZONES),
)
PLAIN_MOMENTS = st.datetimes().map(lambda moment: moment.isoformat() + "Z")
BLOBS = st.sampled_from(["base64:", *["base64:aGk="] * 4, "base64:aGk", "file:x", "base64:é"])
ANYTHING = st.recursive(
    st.none() | st.booleans() | TEXTS | NUMBERS | STRANGE | DATES | st.just("\ud800"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(st.tuples(TEXTS, inner), max_size=3).map(lambda pairs: Members(tuple(pairs)))
    ),
    max_leaves=4,
)


def _mostly(
    good: st.SearchStrategy[Value], bad: st.SearchStrategy[Value], of: int = 12
) -> st.SearchStrategy[Value]:
    return st.integers(0, of).flatmap(lambda number: bad if number == 0 else good)


def values_of(kind: ValueType) -> st.SearchStrategy[object]:
    """Values that are mostly of a type."""
    if kind.base is Base.VECTOR:
        numbers = _scalars_of(Base.F32)
        good = st.lists(numbers, min_size=kind.dim, max_size=kind.dim)
        return _mostly(good, st.lists(numbers, max_size=3), 5)
    found = _scalars_of(kind.base)
    return st.lists(found | st.none(), max_size=3) if kind.is_list else found


def _scalars_of(base: Base) -> st.SearchStrategy[object]:
    if base in INTEGERS:
        low, high = INT_RANGES[base]
        return _mostly(st.integers(low, high) | st.sampled_from([0, low, high]), NUMBERS)
    if base is Base.F32:
        small = st.floats(width=32, allow_nan=False, allow_infinity=False).map(repr).map(Raw)
        return _mostly(small, FLOATS | NUMBERS | STRANGE, 5)
    if base is Base.F64:
        return _mostly(FLOATS, NUMBERS | STRANGE, 5)
    if base is Base.DATE:
        return _mostly(st.dates().map(str), DATES | st.integers(-(2**31), 2**31 - 1), 3)
    if base is Base.DATETIME:
        return _mostly(PLAIN_MOMENTS, MOMENTS | st.integers(-(2**63), 2**63 - 1), 3)
    if base is Base.BOOL:
        return st.booleans()
    return BLOBS if base is Base.BLOB else TEXTS


# -- lines -----------------------------------------------------------------------------------------


@st.composite
def members(draw: st.DrawFn, entity: EntityType) -> Members:
    """The data of an entity."""
    names = draw(st.lists(st.sampled_from([item.name for item in entity.properties])))
    if draw(st.integers(0, 9)):
        names = sorted(set(names) | set(entity.key) - {"src", "dst"})
    pairs: list[tuple[str, object]] = []
    for name in names:
        good = values_of(entity.property_by_name[name].type)
        pairs.append((name, draw(_mostly(_mostly(good, st.none(), 5), ANYTHING, 25))))
    if not draw(st.integers(0, 5)):
        pairs.append(("id", draw(_mostly(TEXTS, ANYTHING, 3))))
    if not draw(st.integers(0, 19)):
        name = draw(TEXTS | st.sampled_from(["src", "dst", "from", "agee", "\ud800"]))
        pairs.append((name, draw(ANYTHING)))
    return Members(tuple(pairs))


@st.composite
def envelopes(draw: st.DrawFn) -> Members:
    """An entity in its envelope."""
    entity = draw(st.sampled_from(ENTITIES))
    name = entity.name if draw(st.integers(0, 29)) else draw(TEXTS)
    pairs: list[tuple[str, object]] = [("type" if entity.kind == "node" else "edge", name)]
    if entity.kind == "edge":
        ends = _mostly(TEXTS, ANYTHING)
        pairs += [(end, draw(ends)) for end in ("from", "to") if draw(st.integers(0, 19))]
    if not draw(st.integers(0, 9)):
        pairs.append(("id", draw(_mostly(TEXTS, ANYTHING, 3))))
    if draw(st.integers(0, 9)):
        pairs.append(("data", draw(_mostly(members(entity), ANYTHING, 20))))
    if not draw(st.integers(0, 19)):
        pairs.append((draw(st.sampled_from(["src", "type", "edge", "x", "name"])), draw(ANYTHING)))
    return Members(tuple(draw(st.permutations(pairs)) if not draw(st.integers(0, 3)) else pairs))


GARBAGE = st.sampled_from(
    [
        b"",
        b"",
        b" \t",
        b"\r",
        b"null",
        b"[]",
        b"5",
        b"{}",
        b"{",
        b"}",
        b"\xff",
        b"\xef\xbb\xbf{}",
        b"\0",
        b'{"type":"Person"',
        b'{"type":"Person"}}',
        b'{"type":"Person"}\0{"type":"Person"}',
        b'{"type":"Person"} {"type":"Person"}',
        b'{"type":"Person"},',
        b'{"type":"Person","data":',
        b'{"type":"Person","data":{"name":"\xff"}}',
        b'{"type":"Person","data":{"name":"\xed\xa0\x80"}}',
        b'{"type":"Person","data":{"name":"a\tb"}}',
        b'{"type":"Person","data":{"name":"' + b"x" * 300 + b'"}}',
        b"[" * 70 + b"]" * 70,
        b'{"type":"Person","data":{"age":' + b"[" * 70 + b"]" * 70 + b"}}",
    ]
) | st.binary(max_size=12).filter(lambda data: b"\n" not in data)

LINES = st.builds(
    lambda value, style: written(value, style).encode(), envelopes(), st.sampled_from(STYLES)
)


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """A file of lines."""
    lines = draw(st.lists(_mostly(LINES, GARBAGE, 10), max_size=12))
    end = draw(st.sampled_from([b"\n", b"\n", b"\r\n"]))
    data: bytes = end.join(lines) + (end if draw(st.booleans()) else b"")
    return (b"\xef\xbb\xbf" if not draw(st.integers(0, 9)) else b"") + data


# -- what came out ---------------------------------------------------------------------------------


@dataclass(slots=True)
class Outcome:
    """What a decoder made of a file, in plain values."""

    lines: int = 0
    rows: dict[tuple[str, int], str] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    claimed: list[tuple[str, str, str]] = field(default_factory=list)


ABSENCES = {table_key(item.kind, item.name): frozenset(item.property_by_name) for item in ENTITIES}


def outcome(items: Iterable[Decoded], out: Violations) -> Outcome:
    """What came out of a decoder."""
    found = Outcome()
    for item in items:
        assert (item.lines[1:] > item.lines[:-1]).all()
        assert item.absent.keys() <= item.entity.property_by_name.keys()
        assert all(mask.null_count == 0 and mask.true_count for mask in item.absent.values())
        for line, row in zip(item.lines.tolist(), _rows(item), strict=True):
            key = (table_key(item.entity.kind, item.entity.name), line)
            assert key not in found.rows
            found.rows[key] = row
        found.claimed += [(item.entity.kind, item.entity.name, id_) for id_ in item.claimed]
    assert out.total == len(out.items)
    for fault in out.items:
        place = (fault.line or 0, fault.rule.value, fault.kind or "", fault.type_name or "")
        found.faults.append(Fault(*place, fault.id or "", fault.properties))
    found.faults.sort()
    found.claimed.sort()
    return found


def expected(reading: Reading, catalog: Catalog) -> Outcome:
    """The same, of the reference."""
    found = Outcome(reading.lines, faults=sorted(reading.faults), claimed=sorted(reading.claimed))
    for row in reading.rows:
        known = catalog.node_by_name if row.kind == "node" else catalog.edge_by_name
        entity: EntityType = known[row.type_name]
        fixed = ("id",) if row.kind == "node" else ("id", "src", "dst")
        values = {name: row.values.get(name) for name in fixed}
        cells = {item.name: row.values.get(item.name, Raw("absent")) for item in entity.properties}
        found.rows[table_key(row.kind, row.type_name), row.line] = repr(values | cells)
    return found


def _rows(item: Decoded) -> Iterator[str]:
    columns = {
        field.name: _plain(item.rows.column(field.name), field.type).to_pylist()
        for field in item.rows.schema
    }
    for name, mask in item.absent.items():
        cells = zip(columns[name], mask.to_pylist(), strict=True)
        columns[name] = [Raw("absent") if is_absent else cell for cell, is_absent in cells]
        # What a line does not name is null.
        nulls = item.rows.column(name).is_null().to_pylist()
        assert not any(
            absent and not null for absent, null in zip(mask.to_pylist(), nulls, strict=True)
        )
    for number in range(item.rows.num_rows):
        yield repr({name: column[number] for name, column in columns.items()})


def _plain(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Dates and moments as the numbers they are: Python has fewer years than Arrow."""
    plain = {pa.date32(): pa.int32(), pa.timestamp("ms", tz="UTC"): pa.int64()}
    if kind in plain:
        return column.cast(plain[kind])
    if pa.types.is_list(kind) and kind.value_type in plain:
        return column.cast(pa.list_(plain[kind.value_type]))
    return column
