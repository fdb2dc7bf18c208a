"""The Arrow path: decodes many lines of one type at once with Arrow's JSON reader.

It returns None for lines that it cannot decode exactly; the row-wise path takes those.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.core.layout import table_key
from omnigraph.core.schema.arrow_types import arrow_type
from omnigraph.dataplane.decode import convert
from omnigraph.dataplane.decode.arrow_json import parse
from omnigraph.dataplane.decode.json_line import Integer, Json, MalformedJson, read_line
from omnigraph.dataplane.decode.lines import Lines, Places
from omnigraph.dataplane.decode.model import DATA, TYPE_FIELDS, Decoded, DecodeSpec
from omnigraph.lang.catalog.identity import END_COLUMNS
from omnigraph.lang.catalog.model import EntityType
from omnigraph.lang.catalog.rules import ID_NAME
from omnigraph.lang.values import FLOATS, TEMPORAL, Base, ValueType

# Names that also stand around the data; there their value is not null.
_AROUND = frozenset({DATA, *TYPE_FIELDS.values()})
# A letter, digit or underscore, needlessly escaped: so a line may hide the name of a property.
_HIDING = re.compile(rb"\\u00[3-7]")


class AbsentProperties:
    """Looks for the names of some properties in lines that are known to be in order.

    In such a line the quoted name of a property, followed by a colon, is the name of a member of
    the data: texts have their quotes escaped, and are followed by something else.
    """

    def __init__(self, names: Collection[str]) -> None:
        """Look for these."""
        self._names = sorted(names)

    def find(
        self,
        columns: Mapping[str, pa.Array],
        data: pa.StructArray | None,
        text: bytes,
        lines: Lines,
        places: Places,
    ) -> dict[str, pa.BooleanArray]:
        """Per property that some line does not name: the lines that do not.

        Args:
            columns: The columns that some line names.
            data: The data of the lines, null where a line has none.
            text: The lines at `places`, one after the other.
            lines: The lines of the block.
            places: Which of them.
        """
        found: dict[str, pa.BooleanArray] = {}
        is_hiding = bool(self._names) and b"\\u00" in text and bool(_HIDING.search(text))
        for name in self._names:
            column = columns.get(name)
            if column is None:
                found[name] = pa.repeat(True, len(places))
            elif column.null_count:
                is_absent = column.is_null().to_numpy(zero_copy_only=False).copy()
                open_ = is_absent
                if data is not None and data.null_count:
                    open_ = is_absent & data.is_valid().to_numpy(zero_copy_only=False)
                rows = np.flatnonzero(open_)
                known = len(places) - column.null_count
                is_named = _are_named(name, text, known, len(rows), is_hiding)
                if is_named is None:
                    is_absent[rows] = ~_naming(name, lines, places[rows], is_hiding)
                elif is_named:
                    is_absent[rows] = False
                if is_absent.any():
                    found[name] = pa.array(is_absent)
        return found


def _are_named(name: str, text: bytes, known: int, nulls: int, is_hiding: bool) -> bool | None:
    """True if all of some lines, with null in a property, name it; False if none; None if some may.

    No line names it twice, and `known` lines give it a value. So it is enough to count, which is
    much faster than to look into each line.
    """
    if name in _AROUND:
        return None
    quoted = f'"{name}"'.encode()
    if not is_hiding and text.count(quoted) == known:
        return False
    return True if text.count(quoted + b":") == known + nulls else None


def _naming(name: str, lines: Lines, places: Places, is_hiding: bool) -> npt.NDArray[np.bool_]:
    """True for the lines that name a property, whose value is null in all of them."""
    texts = lines.texts(places)
    found = _matching(texts, f'"{name}"[ \\t\\r]*:[ \\t\\r]*null')
    if is_hiding:
        hiding = _matching(texts, _HIDING.pattern.decode())
        for row in np.flatnonzero(hiding & ~found).tolist():
            members = read_line(lines.line(int(places[row])))
            assert isinstance(members, dict)
            data = members.get(DATA)
            found[row] = isinstance(data, dict) and name in data
    return found


def _matching(texts: pa.LargeBinaryArray, pattern: str) -> npt.NDArray[np.bool_]:
    return np.array(pc.match_substring_regex(texts, pattern))


_SAMPLE_LINES: Final = 32


@dataclass(frozen=True, slots=True)
class _Form:
    """The members that lines of a type have.

    Attributes:
        outside: The members beside the data that they have.
        inside: The members of the data that they have.
        numbers: Which dates and moments are written as numbers.
    """

    outside: frozenset[str]
    inside: frozenset[str]
    numbers: frozenset[str] = frozenset()


class ArrowDecoder:
    """Decodes lines of one type.

    Arrow is faster the fewer members it is to expect, so it gets those that some lines of
    a sample have. Should another one turn up, the lines are read again with all of them.
    """

    def __init__(self, entity: EntityType, spec: DecodeSpec) -> None:
        """Decode lines of this type."""
        self._entity = entity
        self._schema = convert.rows_schema(entity)
        key = table_key(entity.kind, entity.name)
        names = spec.absences.get(key, frozenset()) & entity.property_by_name.keys()
        self._absences = AbsentProperties(names)
        self._word = TYPE_FIELDS[entity.kind]
        ends = END_COLUMNS if entity.kind == "edge" else {}
        self._outside = frozenset({self._word, ID_NAME, DATA, *ends})
        self._inside = frozenset({ID_NAME, *entity.property_by_name})
        self._has_dates = any(item.type.base in TEMPORAL for item in entity.properties)
        self._form: _Form | None = None

    def read(self, lines: Lines, places: Places) -> Decoded | None:
        """Decode the lines at some places; None if they are for the row-wise path.

        Every line begins as an object of the type and ends with a brace.
        """
        data = lines.gather(places)
        form = self._form or self._sample(lines, places)
        table = self._parse(data, form, len(places))
        if table is None:
            # Other members, or dates in another form: these lines show it.
            sample = self._sample(lines, places) if self._has_dates else form
            full = _Form(self._outside, self._inside, sample.numbers)
            table = None if full == form else self._parse(data, full, len(places))
            if table is None:
                return None
            form = full
        self._form = form
        try:
            columns = self._columns(table, form)
        except convert.ConversionFailed:
            return None
        rows = [
            columns[field.name] if field.name in columns else pa.nulls(len(places), field.type)
            for field in self._schema
        ]
        return Decoded(
            entity=self._entity,
            rows=pa.Table.from_arrays(rows, schema=self._schema),
            lines=lines.numbers[places],
            absent=self._absences.find(columns, _data(table), data, lines, places),
        )

    # -- the form of lines -----------------------------------------------------------------

    def _sample(self, lines: Lines, places: Places) -> _Form:
        """The form of some of the lines."""
        outside, inside, numbers = {self._word}, set[str](), set[str]()
        step = -(-len(places) // _SAMPLE_LINES)
        for place in places[::step].tolist():
            try:
                members = read_line(lines.line(place))
            except MalformedJson:
                continue
            if not isinstance(members, dict):
                continue
            outside |= members.keys()
            data = members.get(DATA)
            if isinstance(data, dict):
                inside |= data.keys() or {ID_NAME}
                numbers |= {name for name, value in data.items() if self._is_number(name, value)}
        return _Form(
            frozenset(outside & self._outside), frozenset(inside & self._inside), frozenset(numbers)
        )

    def _is_number(self, name: str, value: Json) -> bool:
        item = self._entity.property_by_name.get(name)
        if item is None or item.type.base not in TEMPORAL:
            return False
        first = value[0] if isinstance(value, list) and value else value
        return isinstance(first, Integer)

    def _parse(self, data: bytes, form: _Form, count: int) -> pa.Table | None:
        inside = [
            pa.field(item.name, _written(item.type, item.name in form.numbers))
            for item in self._entity.properties
            if item.name in form.inside
        ]
        if ID_NAME in form.inside:
            inside.append(pa.field(ID_NAME, pa.string()))
        outside = [pa.field(name, pa.string()) for name in sorted(form.outside - {DATA})]
        if inside:
            outside.append(pa.field(DATA, pa.struct(inside)))
        table = parse(data, pa.schema(outside))
        # Braces around every line and as many objects as lines: each line is one object.
        return table if table is not None and table.num_rows == count else None

    # -- columns ---------------------------------------------------------------------------

    def _columns(self, table: pa.Table, form: _Form) -> Mapping[str, pa.Array]:
        """The columns that the lines name, as they are stored."""
        found: dict[str, pa.Array] = {}
        data = _data(table)
        if data is not None:
            for field, array in zip(data.type, data.flatten(), strict=True):
                item = self._entity.property_by_name.get(field.name)
                is_number = field.name in form.numbers
                found[field.name] = _stored(array, item.type, is_number) if item else array
        if ID_NAME in form.outside:
            found[ID_NAME] = _one_id(_whole(table, ID_NAME), found.get(ID_NAME))
        if self._entity.kind == "edge":
            for label, column in END_COLUMNS.items():
                if label not in form.outside or table.column(label).null_count:
                    raise convert.ConversionFailed
                found[column] = _whole(table, label)
        return found


def _whole(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _data(table: pa.Table) -> pa.StructArray | None:
    return _whole(table, DATA) if DATA in table.column_names else None


def _one_id(beside: pa.Array, inside: pa.Array | None) -> pa.Array:
    """The ids, which may stand in two places, but not both in one line."""
    if inside is None or inside.null_count == len(inside):
        return beside
    if pc.any(pc.and_(beside.is_valid(), inside.is_valid())).as_py():
        raise convert.ConversionFailed
    return pc.coalesce(inside, beside)


def _written(kind: ValueType, is_number: bool) -> pa.DataType:
    """The type that Arrow reads a property with."""
    if kind.base is Base.VECTOR:
        return pa.list_(pa.float32())
    if kind.base is Base.BLOB:
        return pa.string()
    if kind.base not in TEMPORAL:
        return arrow_type(kind)
    number = pa.int32() if kind.base is Base.DATE else pa.int64()
    element = number if is_number else pa.string()
    return pa.list_(element) if kind.is_list else element


def _stored(column: pa.Array, kind: ValueType, is_number: bool) -> pa.Array:
    """A column as it is stored.

    Raises:
        ConversionFailed: Some value cannot be stored.
    """
    if kind.base is Base.VECTOR:
        return convert.vectors(column, kind.dim)
    if kind.base is Base.BLOB:
        return convert.blobs(column)
    if kind.base in FLOATS:
        convert.finite(column.flatten() if kind.is_list else column)
        return column
    if kind.base not in TEMPORAL:
        return column
    change = _CHANGES[kind.base, is_number]
    if not kind.is_list:
        return change(column)
    mask = column.is_null() if column.null_count else None
    return pa.ListArray.from_arrays(column.offsets, change(column.values), mask=mask)


_CHANGES: Final[Mapping[tuple[Base, bool], Callable[[pa.Array], pa.Array]]] = {
    (Base.DATE, False): convert.dates,
    (Base.DATE, True): convert.days,
    (Base.DATETIME, False): convert.datetimes,
    (Base.DATETIME, True): convert.moments,
}
