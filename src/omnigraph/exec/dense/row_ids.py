"""Row ids by handle, and handles by row id."""

from __future__ import annotations

from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from omnigraph.exec.view import MISSING, Counts, Handles

RowNumbers: TypeAlias = npt.NDArray[np.int64]


class RowIds(Protocol):
    """The identities of the rows of a type, by handle. Immutable."""

    def __len__(self) -> int:
        """The number of rows."""
        ...

    @property
    def nbytes(self) -> int:
        """The memory it takes."""
        ...

    def all(self) -> RowNumbers:
        """The identity of every row, in the order of the handles."""
        ...

    def of(self, handles: Handles | Counts) -> RowNumbers:
        """The identities of some rows."""
        ...

    def find(self, rows: RowNumbers) -> Handles:
        """The handles of some identities, -1 where there is none."""
        ...


class ListedRows:
    """Identities in any order."""

    __slots__ = ("_sorted", "rows")

    def __init__(self, rows: RowNumbers) -> None:
        """Take the identities by handle."""
        self.rows = rows
        self._sorted: tuple[RowNumbers, Counts] | None = None

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.rows)

    @property
    def nbytes(self) -> int:
        """The memory it takes, with the order that finds handles by row id."""
        return 3 * self.rows.nbytes

    def all(self) -> RowNumbers:
        """The identity of every row."""
        return self.rows

    def of(self, handles: Handles | Counts) -> RowNumbers:
        """The identities of some rows."""
        found: RowNumbers = self.rows[handles]
        return found

    def find(self, rows: RowNumbers) -> Handles:
        """The handles of some identities."""
        if self._sorted is None:
            order = np.argsort(self.rows)
            self._sorted = (self.rows[order], order)
        ranked, order = self._sorted
        if not len(ranked):
            return np.full(len(rows), MISSING, np.int32)
        places = np.minimum(np.searchsorted(ranked, rows), len(ranked) - 1)
        return np.where(ranked[places] == rows, order[places], MISSING).astype(np.int32)


class AscendingRows:
    """Ascending identities, as stretches without gaps: most tables have one or a few."""

    __slots__ = ("_size", "firsts", "starts")

    def __init__(self, firsts: RowNumbers, starts: Counts, size: int) -> None:
        """Stretch `i` begins with the identity `firsts[i]` at the handle `starts[i]`."""
        self.firsts = firsts
        self.starts = starts
        self._size = size

    @classmethod
    def from_rows(cls, rows: RowNumbers) -> AscendingRows:
        """Take ascending identities."""
        breaks = np.flatnonzero(np.diff(rows) != 1) + 1
        starts = np.concatenate([np.zeros(min(len(rows), 1), np.int64), breaks])
        return cls(rows[starts], starts, len(rows))

    def __len__(self) -> int:
        """The number of rows."""
        return self._size

    @property
    def nbytes(self) -> int:
        """The memory it takes."""
        return self.firsts.nbytes + self.starts.nbytes

    @property
    def last(self) -> int:
        """The greatest identity; there must be one."""
        return int(self.firsts[-1]) + self._size - 1 - int(self.starts[-1])

    def changed(self, deleted: Counts, inserted: RowNumbers) -> AscendingRows:
        """Without the rows at some handles, and with greater identities behind them."""
        # Cut the stretches around each row that goes, leave those rows out, count anew.
        cuts = np.unique(np.concatenate([self.starts, deleted, deleted + 1]))
        cuts = cuts[cuts < self._size]
        lengths = np.diff(cuts, append=self._size)
        firsts = self.of(cuts) if len(cuts) else cuts
        kept = np.isin(cuts, deleted, invert=True)
        tail = AscendingRows.from_rows(inserted)
        firsts = np.concatenate([firsts[kept], tail.firsts])
        lengths = np.concatenate([lengths[kept], np.diff(tail.starts, append=len(inserted))])
        apart = np.ones(len(firsts), np.bool_)
        apart[1:] = firsts[1:] != firsts[:-1] + lengths[:-1]
        starts = np.cumsum(lengths) - lengths
        return AscendingRows(firsts[apart], starts[apart], int(lengths.sum()))

    def all(self) -> RowNumbers:
        """The identity of every row."""
        lengths = np.diff(self.starts, append=self._size)
        rows: RowNumbers = np.repeat(self.firsts - self.starts, lengths)
        rows += np.arange(self._size)
        return rows

    def of(self, handles: Handles | Counts) -> RowNumbers:
        """The identities of some rows."""
        at = np.searchsorted(self.starts, handles, side="right") - 1
        found: RowNumbers = self.firsts[at] + (handles - self.starts[at])
        return found

    def find(self, rows: RowNumbers) -> Handles:
        """The handles of some identities."""
        if not self._size:
            return np.full(len(rows), MISSING, np.int32)
        at = np.searchsorted(self.firsts, rows, side="right") - 1
        safe = np.maximum(at, 0)
        handles = self.starts[safe] + (rows - self.firsts[safe])
        ends = np.append(self.starts[1:], self._size)[safe]
        return np.where((at >= 0) & (handles < ends), handles, MISSING).astype(np.int32)
