"""The row-wise path: decodes lines one at a time, and reports exactly what is wrong with each.

It takes the lines that the Arrow path leaves, and is many times slower.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from omnigraph.core.layout import table_key
from omnigraph.dataplane.decode.convert import rows_schema
from omnigraph.dataplane.decode.json_fit import (
    Misfit,
    Stored,
    clean,
    described,
    fit,
    shown,
)
from omnigraph.dataplane.decode.json_line import Json, MalformedJson, Repeating, is_blank, read_line
from omnigraph.dataplane.decode.model import DATA, TYPE_FIELDS, Decoded, DecodeSpec
from omnigraph.errors import InvalidInput, JsonValue
from omnigraph.lang.catalog.identity import END_COLUMNS
from omnigraph.lang.catalog.model import EntityKind, EntityType
from omnigraph.lang.catalog.rules import END_NAMES, ID_NAME
from omnigraph.lang.source import did_you_mean
from omnigraph.lang.values import Base, ValueType
from omnigraph.rules.identity import entity_id
from omnigraph.rules.report import quoted
from omnigraph.rules.violation import Rule, Violation, Violations

_NAME_CHARS_MAX: Final = 200
_TEXT: Final = ValueType(Base.STRING)
_RULES: Final = tuple(Rule)

Words: TypeAlias = Callable[[], str]


@dataclass(frozen=True, slots=True)
class _Fault:
    """One fault of a line. Its message is made when it is needed."""

    rule: Rule
    column: str
    label: str
    value: JsonValue
    words: Words

    @property
    def rank(self) -> tuple[int, str]:
        return _RULES.index(self.rule), self.column


@dataclass(slots=True)
class _Entity:
    """An entity of a known type as a line describes it."""

    type: EntityType
    values: dict[str, Stored] = field(default_factory=dict)  # by column; what it names
    faults: list[_Fault] = field(default_factory=list)

    @property
    def id(self) -> str | None:
        """Its id, or the one that its key makes; None if neither is known."""
        given = self.values.get(ID_NAME)
        if isinstance(given, str):
            return given
        if not self.type.key:
            return None
        try:
            return entity_id(self.type, self.values)  # type: ignore[arg-type]  # no key has a Blob
        except InvalidInput:
            return None

    def fault(
        self, rule: Rule, name: str, value: JsonValue, words: Words, label: str | None = None
    ) -> None:
        self.faults.append(_Fault(rule, name, label or name, value, words))

    def take(self, column: str, value: Json, kind: ValueType, label: str | None = None) -> None:
        """Take a value for a column, or say why not."""
        found = fit(value, kind)
        if isinstance(found, Misfit):
            self.fault(found.rule, column, found.value, lambda: found.words, label)
        else:
            self.values[column] = found


@dataclass(slots=True)
class _TypeRows:
    """The entities of one type in some lines."""

    type: EntityType
    rows: list[dict[str, Stored]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    claimed: list[str] = field(default_factory=list)


class RowWiseDecoder:
    """Decodes lines of one file, and reports what breaks the rules of the format."""

    def __init__(self, spec: DecodeSpec, out: Violations, file: str) -> None:
        """Report to `out`, calling the file by its name."""
        self._spec = spec
        self._out = out
        self._file = file
        self._told = 0
        self._is_counting = False

    def advance(self) -> None:
        """Begin the next block of lines.

        Once as many violations are kept as may be, later ones are only counted.
        """
        self._is_counting = self._told >= self._out.kept_max

    def decode(self, lines: Iterable[tuple[int, bytes]]) -> Iterator[Decoded]:
        """Decode lines, given with their numbers, in ascending order."""
        found: dict[str, _TypeRows] = {}
        for number, line in lines:
            entity = self._read(number, line)
            if entity is None:
                continue
            key = table_key(entity.type.kind, entity.type.name)
            into = found.setdefault(key, _TypeRows(entity.type))
            if not entity.faults:
                into.rows.append(entity.values)
                into.lines.append(number)
                continue
            id_ = entity.id
            self._report(number, entity, id_)
            if id_ is not None:
                into.claimed.append(id_)
        for key, item in found.items():
            yield _decoded(item, self._spec.absences.get(key, frozenset()))

    def report(
        self,
        number: int,
        text: str,
        *,
        kind: EntityKind | None = None,
        name: str | None = None,
        value: Json = None,
    ) -> None:
        """Report that a line is not one entity."""
        self._told += 1
        self._out.add(
            Violation(
                rule=Rule.SYNTAX,
                kind=kind,
                type_name=None,
                id=None,
                properties=() if name is None else (name,),
                value=shown(value),
                message=text,
                file=self._file,
                line=number,
            )
        )

    def _read(self, number: int, line: bytes) -> _Entity | None:
        if is_blank(line):
            return None
        try:
            value = read_line(line)
        except MalformedJson as error:
            self.report(number, str(error))
            return None
        if not isinstance(value, dict):
            self.report(number, f"expected an object, got {described(value)}", value=value)
            return None
        found = self._type(number, value)
        return None if found is None else _read_entity(found, value)

    def _type(self, number: int, members: dict[str, Json]) -> EntityType | None:
        """The type that a line names."""
        kinds = [kind for kind, word in TYPE_FIELDS.items() if word in members]
        if len(kinds) != 1:
            words = "not both" if kinds else "and this is neither"
            self.report(number, f'a line has a "type" (a node) or an "edge", {words}')
            return None
        (kind,) = kinds
        word, name = TYPE_FIELDS[kind], members[TYPE_FIELDS[kind]]
        if type(name) is not str:
            text = f'"{word}" is the name of a type, got {described(name)}'
            self.report(number, text, kind=kind, name=word, value=name)
            return None
        catalog = self._spec.catalog
        nodes: Mapping[str, EntityType] = catalog.node_by_name
        edges: Mapping[str, EntityType] = catalog.edge_by_name
        known, others = (nodes, edges) if kind == "node" else (edges, nodes)
        if name in known:
            return known[name]
        hint = did_you_mean(name, known)
        if name in others:
            other = ("a node", "type") if kind == "edge" else ("an edge", "edge")
            hint = f'it is {other[0]} type, which goes with "{other[1]}"'
        text = f"there is no {kind} type {quoted(name)}" + (f": {hint}" if hint else "")
        self.report(number, text, kind=kind, name=word, value=name)
        return None

    def _report(self, number: int, entity: _Entity, id_: str | None) -> None:
        """Report the faults of an entity: all are counted, as many described as can be kept."""
        if self._is_counting:
            self._out.add_all((), len(entity.faults))
            return
        first = sorted(entity.faults, key=lambda fault: fault.rank)[: self._out.kept_max]
        self._told += len(first)
        of = "" if id_ is None else f" of {quoted(id_)}"
        described = [
            Violation(
                rule=fault.rule,
                kind=entity.type.kind,
                type_name=entity.type.name,
                id=id_,
                properties=(fault.column,),
                value=fault.value,
                message=f"{entity.type.name}.{fault.label}{of}: {fault.words()}",
                file=self._file,
                line=number,
            )
            for fault in first
        ]
        self._out.add_all(described, len(entity.faults))


# -- one entity ------------------------------------------------------------------------------------


def _read_entity(kind: EntityType, members: dict[str, Json]) -> _Entity:
    entity = _Entity(kind)
    word = TYPE_FIELDS[kind.kind]
    known = (word, *END_COLUMNS, ID_NAME, DATA) if kind.kind == "edge" else (word, ID_NAME, DATA)
    for name, value in members.items():
        if name not in known:
            _fault_unknown_member(entity, name, value, known)
    _fault_repeated(entity, members, END_COLUMNS if kind.kind == "edge" else {})
    data = members.get(DATA)
    if isinstance(data, dict):
        _read_data(entity, data)
    elif data is not None:
        got = described(data)
        entity.fault(Rule.TYPE, DATA, got, lambda: f"expected an object, got {got}")
    _read_id(entity, members.get(ID_NAME))
    if kind.kind == "edge":
        _read_ends(entity, members)
    return entity


def _read_data(entity: _Entity, data: dict[str, Json]) -> None:
    known = entity.type.property_by_name
    for name, value in data.items():
        item = known.get(name)
        if item is not None:
            entity.take(name, value, item.type)
        elif name == ID_NAME:
            entity.take(ID_NAME, value, _TEXT)
        else:
            _fault_unknown(entity, name, value)
    _fault_repeated(entity, data, {})


def _read_id(entity: _Entity, value: Json) -> None:
    """The id beside the data, instead of among it."""
    if value is None:
        return
    if entity.values.get(ID_NAME) is not None:
        words = f'given twice, in "{DATA}" and beside it'
        entity.fault(Rule.FIELD, ID_NAME, shown(value), lambda: words)
        return
    entity.take(ID_NAME, value, _TEXT)


def _read_ends(entity: _Entity, members: Mapping[str, Json]) -> None:
    for label, column in END_COLUMNS.items():
        value = members.get(label)
        if value is None:
            entity.fault(Rule.REQUIRED, column, None, lambda: "a value is required", label)
        else:
            entity.take(column, value, _TEXT, label)


def _fault_repeated(
    entity: _Entity, members: Mapping[str, Json], columns: Mapping[str, str]
) -> None:
    if isinstance(members, Repeating):
        for name in members.names:
            label = _name(name)
            column = columns.get(name, label)
            entity.fault(Rule.FIELD, column, shown(members[name]), lambda: "given twice", label)


def _fault_unknown(entity: _Entity, name: str, value: Json) -> None:
    def words() -> str:
        if entity.type.kind == "edge" and name in END_NAMES:
            return f'the ends of an edge are "from" and "to", beside "{DATA}" and not in it'
        hint = did_you_mean(name, (*entity.type.property_by_name, ID_NAME))
        return "there is no such property" + (f": {hint}" if hint else "")

    entity.fault(Rule.FIELD, _name(name), shown(value), words)


def _fault_unknown_member(entity: _Entity, name: str, value: Json, known: tuple[str, ...]) -> None:
    def words() -> str:
        if name in entity.type.property_by_name:
            return f'properties belong into "{DATA}"'
        alias = {column: label for label, column in END_COLUMNS.items()}.get(name)
        hint = f"did you mean `{alias}`?" if alias in known else did_you_mean(name, known)
        return f'there is no such field beside "{DATA}"' + (f": {hint}" if hint else "")

    entity.fault(Rule.FIELD, _name(name), shown(value), words)


def _name(name: str) -> str:
    """The name of a field, made fit for a report: bounded and printable."""
    text = name if len(name) <= _NAME_CHARS_MAX else name[:_NAME_CHARS_MAX] + "…"
    return "".join(char if char.isprintable() else " " for char in clean(text))


# -- rows ------------------------------------------------------------------------------------------


def _decoded(found: _TypeRows, absences: frozenset[str]) -> Decoded:
    schema = rows_schema(found.type)
    columns = [
        pa.array([row.get(column.name) for row in found.rows], column.type) for column in schema
    ]
    absent = {}
    for name in absences & found.type.property_by_name.keys():
        missing = [name not in row for row in found.rows]
        if any(missing):
            absent[name] = pa.array(missing, pa.bool_())
    return Decoded(
        entity=found.type,
        rows=pa.Table.from_arrays(columns, schema=schema),
        lines=np.array(found.lines, np.int64),
        absent=absent,
        claimed=tuple(found.claimed),
    )
