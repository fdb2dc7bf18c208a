"""The changes of one table by several commits, one after another, read together.

A row of a data file is the same row in every version that lists the file. What one commit wrote is
often what the next one replaced. So the rows that any of the commits added or removed are read
once: those of the state before the first commit by their addresses, all others with the small files
that the commits wrote, whether a later one of them deleted them or not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.dataplane.changes.equality import equal_values
from omnigraph.dataplane.changes.table_changes import Operation
from omnigraph.store.reading.row_addresses import (
    FRAGMENT_BITS,
    AddressedRows,
    Addresses,
    Fragment,
)
from omnigraph.store.reading.table_diff import RowSelection, TableDiff

_ID: Final = "id"
_NONE: Final = -1
Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RowChange:
    """The change of one entity by one commit.

    Attributes:
        commit: The number of the commit.
        operation: What it did.
        id: The id of the entity.
        changed: The properties that an update changed.
        before: The values before; None for an insert.
        after: The values after; None for a delete.
    """

    commit: int
    operation: Operation
    id: str
    changed: tuple[str, ...]
    before: dict[str, Any] | None
    after: dict[str, Any] | None


@dataclass(frozen=True, slots=True, eq=False)
class _Pool:
    """Rows that were read, and where to find them.

    Attributes:
        rows: The rows.
        row_ids: Their row ids.
        base: The first version, and the addresses of its rows that stand first, ascending.
        starts: The place of the first row of each file that a commit wrote.
    """

    rows: pa.Table
    row_ids: list[int]
    base: tuple[Mapping[str, int], Addresses]
    starts: Mapping[str, int]

    def places(self, selection: RowSelection) -> list[int]:
        """The places of some rows of any of the versions."""
        known, addresses = self.base
        found: list[int] = []
        for fragment, offsets in _offsets(selection):
            start = self.starts.get(fragment.files[0])
            if start is not None:
                found += (offsets + start).tolist()
            else:
                wanted = _addresses(known[fragment.files[0]], offsets)
                found += np.searchsorted(addresses, wanted).tolist()
        return found


@dataclass(slots=True, eq=False)
class CommitWindow:
    """Successive commits of which the changes of one table are read together.

    Attributes:
        columns: The columns of the images, and what users call them.
        diffs: What each commit changed, by its number; each goes on from the one before.
        count: The number of rows on both sides of all of them.
    """

    columns: Mapping[str, str]
    diffs: dict[int, TableDiff] = field(default_factory=dict)
    count: int = 0

    @staticmethod
    def takes(diff: TableDiff) -> bool:
        """True if a commit wrote a few small files, with the columns that the table has."""
        sides = (diff.removed.rows, diff.added.rows)
        is_plain = diff.is_same_history and all(each.alteration is None for each in sides)
        return is_plain and diff.added.is_small

    def add(self, commit: int, diff: TableDiff) -> None:
        """Take in the next commit."""
        self.diffs[commit] = diff
        self.count += diff.count

    def changes(self) -> Iterator[RowChange]:
        """Yield the changes of each commit by id."""
        if not self.diffs:
            return
        pool = self._read()
        names = pool.rows.column(_ID).to_pylist()
        pairs = [
            (number, before, after)
            for number, diff in self.diffs.items()
            for before, after in _joined(
                pool.places(diff.removed), pool.places(diff.added), pool.row_ids, names
            )
        ]
        yield from self._compared(pool.rows, names, np.array(pairs, np.int64).reshape(-1, 3))

    def _read(self) -> _Pool:
        """Read every row that one of the commits added or removed."""
        base = next(iter(self.diffs.values())).removed.rows
        known = {each.files[0]: each.id for each in base.fragments.values()}
        columns = [_ID, *self.columns]
        wanted = [np.empty(0, np.uint64)]
        written: dict[str, tuple[AddressedRows, Fragment]] = {}
        for diff in self.diffs.values():
            for fragment, offsets in _offsets(diff.removed):
                if fragment.files[0] in known:
                    wanted.append(_addresses(known[fragment.files[0]], offsets))
            fresh = [diff.added.rows.fragments[each] for each in diff.added.fragments]
            written |= {each.files[0]: (diff.added.rows, each) for each in fresh}
            # Whichever of them are still there can be read together.
            for each in diff.added.rows.fragments.values():
                if each.files[0] in written:
                    written[each.files[0]] = (diff.added.rows, each)
        addresses = np.unique(np.concatenate(wanted))
        parts = [base.take(addresses, columns)]
        ids = [base.row_ids(addresses)]
        starts, start = {}, len(addresses)
        for rows, fragments in _by_version(written.values()):
            found, places = rows.physical(fragments, columns)
            parts.append(found)
            ids.append(rows.row_ids(places))
            for each in fragments:
                starts[each.files[0]] = start
                start += each.rows + each.gone
        shape = parts[0].schema
        rows_read = pa.concat_tables([part.cast(shape) for part in parts]).combine_chunks()
        return _Pool(rows_read, np.concatenate(ids).tolist(), (known, addresses), starts)

    def _compared(self, rows: pa.Table, names: Sequence[str], pairs: Places) -> Iterator[RowChange]:
        """Compare the rows of each pair, and show those that differ."""
        before, after = pairs[:, 1], pairs[:, 2]
        both = np.flatnonzero((before != _NONE) & (after != _NONE))
        changed = np.zeros((len(pairs), len(self.columns)), bool)
        for place, name in enumerate(self.columns):
            column = rows.column(name).combine_chunks()
            sides = (column.take(pa.array(each[both])) for each in (before, after))
            changed[both, place] = ~equal_values(*sides)
        is_kept = (before == _NONE) | (after == _NONE) | np.any(changed, axis=1)
        chosen = pairs[is_kept]
        images = self._images(rows, chosen[:, 1:])
        shown = list(self.columns.values())
        told = []
        for (commit, old, new), cells in zip(chosen.tolist(), changed[is_kept], strict=True):
            operation = (
                Operation.INSERT
                if old == _NONE
                else Operation.DELETE
                if new == _NONE
                else Operation.UPDATE
            )
            told.append(
                RowChange(
                    commit,
                    operation,
                    names[old if new == _NONE else new],
                    tuple(shown[place] for place in np.flatnonzero(cells).tolist()),
                    None if old == _NONE else dict(images[old]),
                    None if new == _NONE else dict(images[new]),
                )
            )
        yield from sorted(told, key=lambda each: (each.commit, each.id))

    def _images(self, rows: pa.Table, places: Places) -> dict[int, dict[str, Any]]:
        """The values of some rows, by their places."""
        wanted = np.unique(places[places != _NONE])
        if not self.columns:
            return {place: {} for place in wanted.tolist()}
        chosen = rows.select(list(self.columns)).take(pa.array(wanted))
        shown = chosen.rename_columns(list(self.columns.values())).to_pylist()
        return dict(zip(wanted.tolist(), shown, strict=True))


def _offsets(selection: RowSelection) -> Iterator[tuple[Fragment, Places]]:
    """The fragments of some rows, and their places within them."""
    known = selection.rows.fragments
    for number in selection.fragments:
        left = known[number].left(selection.rows.deleted(known[number]))
        yield known[number], _within(left)
    owners = (selection.addresses >> np.uint64(FRAGMENT_BITS)).astype(np.int64)
    for number in np.unique(owners).tolist():
        yield known[number], _within(selection.addresses[owners == number])


def _within(addresses: Addresses) -> Places:
    return (addresses & np.uint64((1 << FRAGMENT_BITS) - 1)).astype(np.int64)


def _addresses(fragment: int, offsets: Places) -> Addresses:
    return offsets.astype(np.uint64) + np.uint64(fragment << FRAGMENT_BITS)


def _by_version(
    written: Iterable[tuple[AddressedRows, Fragment]],
) -> Iterator[tuple[AddressedRows, list[Fragment]]]:
    """Fragments by the version that they are read from."""
    found: dict[int, tuple[AddressedRows, list[Fragment]]] = {}
    for rows, fragment in written:
        found.setdefault(rows.table.pin.version, (rows, []))[1].append(fragment)
    yield from found.values()


def _joined(
    removed: Sequence[int], added: Sequence[int], row_ids: Sequence[int], names: Sequence[str]
) -> Iterator[tuple[int, int]]:
    """Pair the rows of entities before and after one commit: by row ids, the others by ids."""
    old = {row_ids[place]: place for place in removed}
    new = []
    for place in added:
        before = old.pop(row_ids[place], None)
        if before is None:
            new.append(place)
        else:
            yield before, place
    left = {names[place]: place for place in old.values()}
    for place in new:
        yield left.pop(names[place], _NONE), place
    for place in left.values():
        yield place, _NONE
