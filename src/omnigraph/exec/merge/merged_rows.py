"""The rows of one type at the merge base and on both sides, compared and combined cell by cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.dataplane.changes.table_changes import AFTER, BEFORE
from omnigraph.exec.merge.resolution_values import Given
from omnigraph.exec.merge.three_way import CellMerge, Cells, merge_cells, unequal_cells
from omnigraph.store.reading.blob_values import read_blobs
from omnigraph.store.reading.row_addresses import AddressedRows
from omnigraph.store.table import ROW_ADDRESS

Rows = npt.NDArray[np.int64]
# The address of an entity on our side; `BEFORE` and `AFTER` are those at the base and on theirs.
OURS: Final = "_rowaddr_ours"
# The origin of a cell, by number.
SIDES: Final = (OURS, AFTER, BEFORE)


@dataclass(frozen=True, slots=True, eq=False)
class Versions:
    """The table of one type at the merge base and on both sides."""

    base: AddressedRows
    ours: AddressedRows
    theirs: AddressedRows

    def side(self, name: str) -> AddressedRows:
        """One of them, by the column that has its addresses."""
        return {BEFORE: self.base, OURS: self.ours, AFTER: self.theirs}[name]


@dataclass(frozen=True, slots=True, eq=False)
class MergedRows:
    """Reads rows of the three versions, named by tables of their ids and addresses.

    Attributes:
        versions: The table at the base and on both sides.
        columns: The columns that are compared: all but the id.
        blobs: Those among them that hold blobs.
        groups: The places of columns that change together.
    """

    versions: Versions
    columns: Sequence[str]
    blobs: Sequence[str]
    groups: Sequence[Sequence[int]]

    def read(self, keys: pa.Table, side: str) -> pa.Table:
        """The rows of some entities on one side; a blob is described by its size."""
        found = self.versions.side(side).take(keys.column(side).combine_chunks(), self.columns)
        for name in self.blobs:
            sizes = pc.struct_field(found.column(name), "size")
            found = found.set_column(found.schema.get_field_index(name), name, sizes)
        return found

    def differing(self, keys: pa.Table) -> Cells:
        """The cells in which the two sides differ, of entities that both have."""
        if not keys.num_rows or not self.columns:
            return np.zeros((keys.num_rows, len(self.columns)), bool)
        ours, theirs = self.read(keys, OURS), self.read(keys, AFTER)
        return self._unequal(keys, ours, theirs, OURS, AFTER)

    def merged(self, keys: pa.Table, *, has_base: bool, by_row: bool) -> CellMerge:
        """Merge entities that both sides have changed; without a base, both have inserted them."""
        if not self.columns:
            return CellMerge(*(np.zeros((keys.num_rows, 0), bool) for _ in range(2)))
        ours, theirs = self.read(keys, OURS), self.read(keys, AFTER)
        differ = self._unequal(keys, ours, theirs, OURS, AFTER)
        if has_base:
            base = self.read(keys, BEFORE)
            our_change = self._unequal(keys, base, ours, BEFORE, OURS)
            their_change = self._unequal(keys, base, theirs, BEFORE, AFTER)
        else:
            our_change = their_change = np.ones_like(differ)
        return merge_cells(our_change, their_change, differ, self.groups, by_row=by_row)

    def _unequal(
        self, keys: pa.Table, left: pa.Table, right: pa.Table, one: str, other: str
    ) -> Cells:
        cells = unequal_cells(left, right, self.columns)
        for name in self.blobs:
            place = self.columns.index(name)
            for row in np.flatnonzero(~cells[:, place]).tolist():
                values = [
                    self._blobs(side, name, [int(keys.column(side)[row].as_py())])
                    for side in (one, other)
                ]
                cells[row, place] = values[0] != values[1]
        return cells

    def images(
        self,
        keys: pa.Table,
        sources: npt.NDArray[np.int8],
        given: Mapping[int, Given],
        schema: pa.Schema,
    ) -> pa.Table:
        """Rows made of the cells of several sides.

        Args:
            keys: Their ids and addresses.
            sources: The origin of each cell, a place in `SIDES`.
            given: Values that are written instead, by row of `keys`.
            schema: The columns that are wanted.
        """
        chosen = [name for name in schema.names if name != "id"]
        places = [self.columns.index(name) for name in chosen]
        sources = sources[:, places]
        # Of each side, the rows of which at least one cell is written, and where they begin.
        parts, starts, start = [], [], 0
        for number, side in enumerate(SIDES):
            needed = np.flatnonzero((sources == number).any(axis=1))
            part = self._full(keys.take(pa.array(needed)), side, chosen) if len(needed) else None
            parts.append(part)
            starts.append(np.full(keys.num_rows, -1))
            starts[-1][needed] = start + np.arange(len(needed))
            start += len(needed)
        columns = {"id": keys.column("id")}
        for place, name in enumerate(chosen):
            kind = schema.field(name).type
            known = [part.column(name).combine_chunks().cast(kind) for part in parts if part]
            origins = np.choose(sources[:, place], starts)
            column = _picked(pa.concat_arrays(known), origins)
            columns[name] = _with_given(column, name, given)
        return pa.table({name: columns[name] for name in schema.names})

    def _full(self, keys: pa.Table, side: str, columns: Sequence[str]) -> pa.Table:
        """Whole rows, blobs included."""
        addresses = keys.column(side).combine_chunks()
        plain = [name for name in columns if name not in self.blobs]
        found = self.versions.side(side).take(addresses, ["id", *plain])  # all others may be blobs
        for name in self.blobs:
            if name in columns:
                found = found.append_column(name, self._blobs(side, name, addresses.to_pylist()))
        return found

    def _blobs(self, side: str, name: str, addresses: Sequence[int]) -> pa.Array:
        rows = self.versions.side(side)
        source = rows.stored_name(name)
        if source is None:
            return pa.nulls(len(addresses), pa.large_binary())
        return read_blobs(rows.table, source, addresses, by_address=True)


def _picked(values: pa.Array, places: Rows) -> pa.Array:
    """Some values; without a copy where they follow one another."""
    first = int(places[0]) if len(places) else 0
    if (places == np.arange(first, first + len(places))).all():
        return values.slice(first, len(places))
    return values.take(pa.array(places))


def _with_given(column: pa.Array, name: str, given: Mapping[int, Given]) -> pa.Array:
    """A column of some rows, with the values that were given for it."""
    found = {row: values[name] for row, values in given.items() if name in values}
    if not found:
        return column
    rows = np.arange(len(column))
    is_given = np.isin(rows, list(found))
    values = [found.get(row) for row in rows.tolist()]
    return pc.if_else(pa.array(is_given), pa.array(values, column.type), column)


def addresses_of(rows: AddressedRows, ids: pa.Array) -> dict[str, int]:
    """The addresses of those entities that are there, by id."""
    found = rows.table.locate(ids)
    return dict(
        zip(found.column("id").to_pylist(), found.column(ROW_ADDRESS).to_pylist(), strict=True)
    )
