"""Columns of a result, which are read when their values are first asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.core.schema.arrow_types import arrow_type
from omnigraph.exec import tuning
from omnigraph.exec.large_text import taken, with_room_for
from omnigraph.exec.memory import QUERY_BYTES_MAX
from omnigraph.exec.read.frame import Index
from omnigraph.exec.view import GraphView, Handles
from omnigraph.lang.catalog.identity import END_NAMES
from omnigraph.lang.ir.expr import Column, ConstValue, EntityRef
from omnigraph.lang.values import NUMERIC, Base, ValueType

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
# In a query the ends of an edge are called as the load format calls them.
# The same as `Array.take` without what it spends on finding out what to call.
_TAKE: Final = pc.get_function("array_take")
_INDEX: Final = pa.int32()
_TRUSTED: Final = pc.TakeOptions(boundscheck=False)


# These are made for every query, so they are not frozen: assigning is three times as fast.
@dataclass(slots=True, eq=False)
class StoredColumn:
    """A stored column of the entities in each row."""

    view: GraphView
    entity: EntityRef
    column: str
    handles: Handles
    type: ValueType

    def pick(self, places: Index | slice) -> StoredColumn:
        """The same column for some of the rows."""
        return StoredColumn(self.view, self.entity, self.column, self.handles[places], self.type)

    def arrow(self, reader: ColumnReader | None = None) -> pa.Array:
        """The values."""
        if reader is None:
            return self.view.take(self.entity, self.column, self.handles)
        return reader.take(self.view, self.entity, self.column, self.handles, self.type)

    def materialized(self, reader: ColumnReader) -> ComputedColumn:
        """The same column with nothing left to read."""
        return ComputedColumn(self.arrow(reader), self.type)

    def python(self, reader: ColumnReader) -> list[Any]:
        """The values as plain Python."""
        return reader.read(self.view, self.entity, self.column, self.handles, self.type)


@dataclass(slots=True, eq=False)
class EntityColumn:
    """The whole entity in each row; `read` are its columns once they have been read."""

    view: GraphView
    entity: EntityRef
    columns: tuple[Column, ...]
    handles: Handles
    type: ValueType
    read: Mapping[str, pa.Array] | None = None

    def pick(self, places: Index | slice) -> EntityColumn:
        """The same column for some of the rows."""
        return EntityColumn(self.view, self.entity, self.columns, self.handles[places], self.type)

    def materialized(self, reader: ColumnReader) -> EntityColumn:
        """The same column with nothing left to read."""
        return replace(self, read={item.name: self._take(item, reader) for item in self.columns})

    def arrow(self, reader: ColumnReader | None = None) -> pa.Array:
        """The values as structs, null where the entity is missing."""
        known = reader or ColumnReader()
        names = [END_NAMES.get(item.name, item.name) for item in self.columns]
        arrays = [self._take(item, known) for item in self.columns]
        return pa.StructArray.from_arrays(arrays, names, mask=pa.array(self.handles < 0))

    def python(self, reader: ColumnReader) -> list[Any]:
        """The values as dictionaries, None where the entity is missing."""
        names = [END_NAMES.get(item.name, item.name) for item in self.columns]
        parts = [self._python(item, reader) for item in self.columns]
        found = [dict(zip(names, cells, strict=True)) for cells in zip(*parts, strict=True)]
        there = (self.handles >= 0).tolist()
        return [item if exists else None for item, exists in zip(found, there, strict=True)]

    def _python(self, item: Column, reader: ColumnReader) -> list[Any]:
        if self.read is not None:
            return plain(self.read[item.name], item.type)
        return reader.read(self.view, self.entity, item.name, self.handles, item.type)

    def _take(self, item: Column, reader: ColumnReader) -> pa.Array:
        if self.read is not None:
            return self.read[item.name]
        return reader.take(self.view, self.entity, item.name, self.handles, item.type)


@dataclass(slots=True, eq=False)
class ComputedColumn:
    """Values that were computed."""

    array: pa.Array
    type: ValueType

    def pick(self, places: Index | slice) -> ComputedColumn:
        """The same column for some of the rows."""
        if isinstance(places, slice):
            start, stop, _ = places.indices(len(self.array))
            return ComputedColumn(self.array.slice(start, max(stop - start, 0)), self.type)
        return ComputedColumn(taken(self.array, places), self.type)

    def materialized(self, _reader: ColumnReader) -> ComputedColumn:
        """The same column with nothing left to read."""
        return self

    def arrow(self, _reader: ColumnReader | None = None) -> pa.Array:
        """The values."""
        return self.array

    def python(self, _reader: ColumnReader) -> list[Any]:
        """The values as plain Python."""
        return plain(self.array, self.type)


@dataclass(slots=True, eq=False)
class ConstantColumn:
    """One value in all rows, in stored form."""

    value: ConstValue
    rows: int
    type: ValueType

    def pick(self, places: Index | slice) -> ConstantColumn:
        """The same column for some of the rows."""
        if isinstance(places, slice):
            return ConstantColumn(self.value, len(range(*places.indices(self.rows))), self.type)
        return ConstantColumn(self.value, len(places), self.type)

    def materialized(self, _reader: ColumnReader) -> ConstantColumn:
        """The same column with nothing left to read."""
        return self

    def arrow(self, _reader: ColumnReader | None = None) -> pa.Array:
        """The value, repeated."""
        kind = arrow_type(self.type)
        if self.value is None:
            return pa.nulls(self.rows, kind)
        if isinstance(self.value, tuple):
            return pa.array([self.value] * self.rows, kind)
        one = pa.repeat(pa.scalar(self.value, kind), 1)
        return taken(one, np.zeros(self.rows, np.int64))

    def python(self, _reader: ColumnReader) -> list[Any]:
        """The value as plain Python, repeated."""
        return plain(ConstantColumn(self.value, 1, self.type).arrow(), self.type) * self.rows


ResultColumn: TypeAlias = StoredColumn | EntityColumn | ComputedColumn | ConstantColumn


def prepare(columns: Sequence[ResultColumn]) -> None:
    """Have views load columns together, where several of a type are wanted and they can."""
    if len(columns) < tuning.active.joint_columns_min and not any(
        isinstance(item, EntityColumn) for item in columns
    ):
        return
    wanted: dict[tuple[int, EntityRef], tuple[GraphView, list[str]]] = {}
    for item in columns:
        if isinstance(item, StoredColumn):
            names = [item.column]
        elif isinstance(item, EntityColumn) and item.read is None:
            names = [column.name for column in item.columns]
        else:
            continue
        wanted.setdefault((id(item.view), item.entity), (item.view, []))[1].extend(names)
    for (_, entity), (view, several) in wanted.items():
        load: Any = (
            getattr(view, "prepare", None)
            if len(several) >= tuning.active.joint_columns_min
            else None
        )
        if load is not None:
            load(entity, several)


def plain(array: pa.Array, kind: ValueType) -> list[Any]:
    """The values of an array as plain Python; moments are in UTC."""
    if kind.base is not Base.DATETIME:
        found: list[Any] = array.to_pylist()
        return found
    if kind.is_list:
        moments = pa.list_(pa.int64())
        return [
            None if item is None else [_moment(each) for each in item]
            for item in array.cast(moments).to_pylist()
        ]
    return [_moment(item) for item in array.cast(pa.int64()).to_pylist()]


class ColumnReader:
    """Reads columns of a result as plain Python; fast where the view has them in memory."""

    __slots__ = ("_bytes_max", "_indices")

    def __init__(self, bytes_max: int = QUERY_BYTES_MAX) -> None:
        """Read nothing yet; refuse to read more than this of one column."""
        self._bytes_max = bytes_max
        self._indices: dict[int, tuple[Handles, pa.Array]] = {}

    def read(
        self, view: GraphView, entity: EntityRef, name: str, handles: Handles, kind: ValueType
    ) -> list[Any]:
        """The values of a column at some handles as plain Python, None for -1."""
        cells: Any = getattr(view, "cells", None)
        if cells is None or kind.base is Base.VECTOR:
            return plain(view.take(entity, name, handles), kind)
        if len(handles) <= tuning.active.single_values_max and kind.base is not Base.DATETIME:
            few: list[Any] = cells(entity, name, handles.tolist())
            return few
        column = view.take(entity, name, None)
        numbers = kind.base in NUMERIC and not kind.is_list and not column.null_count
        if numbers and handles.min(initial=0) >= 0:
            found: list[Any] = column.to_numpy()[handles].tolist()
            return found
        column = with_room_for(column, handles, self._bytes_max)
        return plain(_TAKE.call([column, self._index(handles)], options=_TRUSTED), kind)

    def take(
        self, view: GraphView, entity: EntityRef, name: str, handles: Handles, kind: ValueType
    ) -> pa.Array:
        """The values of a column at some handles, null for -1."""
        if getattr(view, "cells", None) is None or kind.base is Base.VECTOR:
            return view.take(entity, name, handles)
        column = with_room_for(view.take(entity, name, None), handles, self._bytes_max)
        return _TAKE.call([column, self._index(handles)], options=_TRUSTED)

    def _index(self, handles: Handles) -> pa.Array:
        """Handles as Arrow takes them; columns of one variable have the same ones."""
        known = self._indices.get(id(handles))
        if known is None:
            missing = handles.min(initial=0) < 0
            index = pa.array(handles, _INDEX, mask=handles < 0 if missing else None)
            known = self._indices[id(handles)] = handles, index
        return known[1]


def _moment(millis: int | None) -> datetime | None:
    return None if millis is None else _EPOCH + millis * _MILLISECOND
