"""A decoder for lines of JSON that is as simple as can be: one line, one rule after the other.

It says what the real decoder must say. It shares no code with it but the names of rules and the
spelling of dates and ids.
"""

from __future__ import annotations

import base64
import json
import math
import re
import struct
from dataclasses import dataclass, field
from fractions import Fraction

from omnigraph.errors import InvalidInput
from omnigraph.lang.catalog.model import Catalog, EntityKind, EntityType
from omnigraph.lang.values import (
    INT_RANGES,
    Base,
    ValueType,
    parse_date,
    parse_datetime,
)
from omnigraph.rules.identity import entity_id
from omnigraph.rules.violation import Rule

NESTED_MAX = 64
MEMBERS_MAX = 65_536

_TEXT = ValueType(Base.STRING)


@dataclass(frozen=True, slots=True)
class Row:
    """An entity: its type, its line, the columns that the line names, in stored form."""

    kind: EntityKind
    type_name: str
    line: int
    values: dict[str, object]


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """A broken rule of the format."""

    line: int
    rule: str
    kind: str
    type_name: str
    id: str
    properties: tuple[str, ...]


@dataclass(slots=True)
class Reading:
    """What a text says."""

    lines: int = 0
    rows: list[Row] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    claimed: list[tuple[str, str, str]] = field(default_factory=list)


class Bad(Exception):
    """A value that is not of its type."""

    def __init__(self, rule: Rule) -> None:
        """Break this rule."""
        super().__init__(rule)
        self.rule = rule


@dataclass(frozen=True, slots=True)
class Num:
    """A number as it was written."""

    text: str


@dataclass(frozen=True, slots=True)
class Obj:
    """An object with its members as they were written."""

    pairs: list[tuple[str, object]]

    def has(self, name: str) -> bool:
        """Is there such a member?"""
        return name in self.names()

    def get(self, name: str) -> object:
        """The last member of that name."""
        return dict(self.pairs).get(name)

    def items(self) -> list[tuple[str, object]]:
        """Each member once, the last of its name."""
        return list(dict(self.pairs).items())

    def names(self) -> set[str]:
        """The names of its members."""
        return {key for key, _ in self.pairs}

    def twice(self) -> set[str]:
        """Names that are there more than once."""
        names = [key for key, _ in self.pairs]
        return {name for name in names if names.count(name) > 1}


def read(data: bytes, catalog: Catalog, line_bytes_max: int = 32 << 20) -> Reading:
    """Read a whole file."""
    reading = Reading()
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        reading.faults.append(Fault(1, "syntax", "", "", "", ()))
        reading.lines = data.count(b"\n") + (not data.endswith(b"\n"))
        return reading
    lines = data.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    reading.lines = len(lines)
    lines[:1] = [line.removeprefix(b"\xef\xbb\xbf") for line in lines[:1]]
    for number, line in enumerate(lines, 1):
        if len(line.removesuffix(b"\r")) > line_bytes_max:
            reading.faults.append(Fault(number, "syntax", "", "", "", ()))
        elif line.strip(b" \t\r"):
            _read_line(line, number, catalog, reading)
    return reading


def _read_line(line: bytes, number: int, catalog: Catalog, reading: Reading) -> None:
    def refuse(kind: str = "", *properties: str) -> None:
        reading.faults.append(Fault(number, "syntax", kind, "", "", properties))

    try:
        text = line.decode()
        if _nesting(text) > NESTED_MAX:
            raise ValueError(text)
        value = json.loads(
            text,
            object_pairs_hook=_object,
            parse_int=Num,
            parse_float=Num,
            parse_constant=Num,
        )
    except (ValueError, RecursionError):
        refuse()
        return
    if not isinstance(value, Obj) or value.has("type") == value.has("edge"):
        refuse()
        return
    kind: EntityKind = "node" if value.has("type") else "edge"
    word = "type" if kind == "node" else "edge"
    name = value.get(word)
    known: dict[str, EntityType] = {}
    known.update(catalog.node_by_name if kind == "node" else catalog.edge_by_name)
    if not isinstance(name, str) or name not in known:
        refuse(kind, word)
        return
    _read_entity(known[name], value, number, reading)


def _object(pairs: list[tuple[str, object]]) -> Obj:
    if len(pairs) > MEMBERS_MAX:
        raise ValueError(len(pairs))
    return Obj(pairs)


def _nesting(text: str) -> int:
    deepest = depth = 0
    for char in re.sub(r'"[^"\\]*(?:\\.[^"\\]*)*"', "", text, flags=re.DOTALL):
        depth += (char in "[{") - (char in "]}")
        deepest = max(deepest, depth)
    return deepest


@dataclass(slots=True)
class _Draft:
    """An entity in the making."""

    entity: EntityType
    values: dict[str, object] = field(default_factory=dict)
    faults: list[tuple[Rule, str]] = field(default_factory=list)

    def take(self, column: str, value: object, kind: ValueType) -> None:
        try:
            self.values[column] = stored(value, kind)
        except Bad as bad:
            self.faults.append((bad.rule, column))


def _read_entity(entity: EntityType, line: Obj, number: int, reading: Reading) -> None:
    draft = _Draft(entity)
    _read_data(draft, line.get("data"))
    _read_around(draft, line)
    if not draft.faults:
        reading.rows.append(Row(entity.kind, entity.name, number, draft.values))
        return
    id_ = _id_of(entity, draft.values)
    for rule, column in draft.faults:
        fault = Fault(number, rule.value, entity.kind, entity.name, id_ or "", (column,))
        reading.faults.append(fault)
    if id_ is not None:
        reading.claimed.append((entity.kind, entity.name, id_))


def _read_data(draft: _Draft, data: object) -> None:
    if data is None:
        return
    if not isinstance(data, Obj):
        draft.faults.append((Rule.TYPE, "data"))
        return
    for name, value in data.items():
        if name == "id":
            draft.take("id", value, _TEXT)
        elif name in draft.entity.property_by_name:
            draft.take(name, value, draft.entity.property_by_name[name].type)
        else:
            draft.faults.append((Rule.FIELD, printable(name)))
    draft.faults += [(Rule.FIELD, printable(name)) for name in data.twice()]


def _read_around(draft: _Draft, line: Obj) -> None:
    kind = draft.entity.kind
    ends = {} if kind == "node" else {"from": "src", "to": "dst"}
    known = {"type" if kind == "node" else "edge", "id", "data", *ends}
    draft.faults += [(Rule.FIELD, printable(name)) for name in line.names() - known]
    draft.faults += [(Rule.FIELD, ends.get(name, printable(name))) for name in line.twice()]
    for name, column in ends.items():
        if line.get(name) is None:
            draft.faults.append((Rule.REQUIRED, column))
        else:
            draft.take(column, line.get(name), _TEXT)
    if line.get("id") is None:
        return
    if draft.values.get("id") is None:
        draft.take("id", line.get("id"), _TEXT)
    else:
        draft.faults.append((Rule.FIELD, "id"))


def _id_of(entity: EntityType, values: dict[str, object]) -> str | None:
    if values.get("id") is not None:
        return str(values["id"])
    if not entity.key:
        return None
    try:
        return entity_id(entity, values)  # type: ignore[arg-type]  # no part of a key is a list
    except InvalidInput:
        return None


def stored(value: object, kind: ValueType) -> object:
    """A value as its column stores it.

    Raises:
        Bad: It is none of that type.
    """
    if value is None:
        return None
    if kind.base is Base.VECTOR:
        if not isinstance(value, list):
            raise Bad(Rule.TYPE)
        if len(value) != kind.dim:
            raise Bad(Rule.VECTOR_LENGTH)
        # The first element that is no number is what is told, then the first that is too large.
        for item in value:
            if not isinstance(item, Num):
                raise Bad(Rule.TYPE)
            if item.text.endswith(("NaN", "Infinity")):
                raise Bad(Rule.FINITE)
        return [_scalar(item, Base.F32) for item in value]
    if kind.is_list:
        if not isinstance(value, list):
            raise Bad(Rule.TYPE)
        return [None if item is None else _scalar(item, kind.base) for item in value]
    return _scalar(value, kind.base)


def _scalar(value: object, base: Base) -> object:
    match base:
        case Base.STRING:
            return _text(value)
        case Base.BOOL:
            if isinstance(value, bool):
                return value
            raise Bad(Rule.TYPE)
        case Base.DATE | Base.DATETIME:
            if isinstance(value, Num):
                return _integer(value, Base.I32 if base is Base.DATE else Base.I64)
            text = _text(value)
            parsed = parse_date(text) if base is Base.DATE else parse_datetime(text)
            if parsed is None:
                raise Bad(Rule.TYPE)
            return parsed
        case Base.BLOB:
            text = _text(value)
            try:
                if not text.startswith("base64:"):
                    raise Bad(Rule.TYPE)
                return base64.b64decode(text[7:], validate=True)
            except ValueError:
                raise Bad(Rule.TYPE) from None
        case Base.F32 | Base.F64:
            return _float(value, base)
        case _:
            return _integer(value, base)


def _text(value: object) -> str:
    if not isinstance(value, str) or any(0xD800 <= ord(char) <= 0xDFFF for char in value):
        raise Bad(Rule.TYPE)
    return value


def _integer(value: object, base: Base) -> int:
    if not isinstance(value, Num) or not re.fullmatch(r"-?[0-9]{1,100}", value.text):
        raise Bad(Rule.TYPE)
    low, high = INT_RANGES[base]
    if not low <= int(value.text) <= high:
        raise Bad(Rule.TYPE)
    return int(value.text)


def _float(value: object, base: Base) -> float:
    if not isinstance(value, Num):
        raise Bad(Rule.TYPE)
    if value.text.endswith(("NaN", "Infinity")):
        raise Bad(Rule.FINITE)
    number = float(value.text)
    if base is Base.F32 and math.isfinite(number):
        number = nearest_f32(value.text)
    if not math.isfinite(number):
        raise Bad(Rule.TYPE)
    return number


def nearest_f32(text: str) -> float:
    """The F32 nearest to a decimal number, the even one of two that are equally near."""
    near = float(text)
    if abs(near) > 2.0**129 or abs(near) < 2.0**-160:
        return math.copysign(math.inf if abs(near) > 1 else 0.0, near)
    exact = Fraction(text)
    (bits,) = struct.unpack("<I", struct.pack("<f", min(abs(near), 3.4028234663852886e38)))
    # The number after the largest one is where infinity begins, as far as rounding goes.
    candidates = [item for item in (bits - 1, bits, bits + 1) if item >= 0]
    best = min(candidates, key=lambda item: (abs(abs(exact) - _magnitude(item)), item % 2))
    size = math.inf if best >= 0x7F800000 else float(_magnitude(best))
    return math.copysign(size, near)


def _magnitude(bits: int) -> Fraction:
    if bits >= 0x7F800000:
        return Fraction(2) ** 128
    (number,) = struct.unpack("<f", struct.pack("<I", bits))
    return Fraction(number)


def printable(name: str) -> str:
    """A name as a report can carry it."""
    text = name if len(name) <= 200 else name[:200] + "…"
    text = "".join("?" if 0xD800 <= ord(char) <= 0xDFFF else char for char in text)
    return "".join(char if char.isprintable() else " " for char in text)
