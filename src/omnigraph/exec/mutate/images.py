"""The images of entities that a query makes: one row per entity, the last that was given.

Most queries make all of them at once, and then they are one table. A query of many statements, each
about a few entities that it names, must not copy the table for each of them. It adds rows at the
end, and an index by id tells which rows count, until the whole table is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.exec import tuning

# So many rows are cut out one by one sooner than all parts are put together.
_SLICES_MAX: Final = 256
# The id of an entity; a number in the place of one that is missing, which nobody can ask for.
_Name: TypeAlias = "str | int"


class ImageTable:
    """The images of one type."""

    __slots__ = ("_at", "_held", "_parts", "_wanted")

    def __init__(self, schema: pa.Schema) -> None:
        """Starts empty."""
        self._parts = [schema.empty_table()]
        # Where the image of an entity is: its part and row. None while there is only one part.
        self._at: dict[_Name, tuple[int, int]] | None = None
        self._wanted = 0
        self._held = 0  # rows of all parts, those that were replaced included

    @property
    def count(self) -> int:
        """The number of images."""
        return self._parts[0].num_rows if self._at is None else len(self._at)

    def whole(self) -> pa.Table:
        """All of them, in the order in which they came."""
        if self._at is not None:
            self.assign(self._take(list(self._at.values())))
        return self._parts[0]

    def assign(self, rows: pa.Table) -> None:
        """Take these rows instead of all there were; each is of another entity."""
        self._parts, self._at, self._wanted = [rows.combine_chunks()], None, 0
        self._held = rows.num_rows

    def index(self) -> bool:
        """Indexes the rows by id, so that finding a few is cheap; False while it costs too much."""
        if self._at is not None:
            return True
        self._wanted += 1
        rows = self._parts[0]
        if rows.num_rows > tuning.active.indexed_images_max * self._wanted:
            return False
        ids = rows.column("id").to_pylist()
        self._at = {row if name is None else name: (0, row) for row, name in enumerate(ids)}
        return True

    def find(self, ids: Iterable[str]) -> pa.Table:
        """The images of those entities that have one. Needs the index."""
        assert self._at is not None
        known = [self._at[name] for name in ids if name in self._at]
        if len(known) > _SLICES_MAX:
            return self._take(known)
        few = (self._parts[part].slice(row, 1) for part, row in known)
        return pa.concat_tables([self._parts[0].slice(0, 0), *few])

    def _take(self, places: Sequence[tuple[int, int]]) -> pa.Table:
        starts = [0, *accumulate(part.num_rows for part in self._parts)]
        rows = pa.array([starts[part] + row for part, row in places], pa.int64())
        # In many pieces they are taken slowly.
        return pa.concat_tables(self._parts).combine_chunks().take(rows)

    def remove(self, names: Iterable[str]) -> None:
        """Drop the images of some entities. Needs the index."""
        assert self._at is not None
        for name in names:
            self._at.pop(name, None)

    def put(self, names: Sequence[str], rows: pa.Table) -> None:
        """Add images, each in the place of the one that its entity had."""
        if not rows.num_rows:
            return
        if self._at is None:
            images = self._parts[0]
            replaced = pc.is_in(images.column("id"), value_set=pa.array(names, pa.string()))
            self.assign(pa.concat_tables([images.filter(pc.invert(replaced)), rows]))
            return
        part = len(self._parts)
        self._parts.append(rows)
        for row, name in enumerate(names):
            self._at.pop(name, None)
            self._at[name] = (part, row)
        self._held += rows.num_rows
        if self._held > tuning.active.indexed_images_max + 4 * len(self._at):
            self.whole()
