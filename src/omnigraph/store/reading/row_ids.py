"""The row ids of a fragment, by the places of its rows. Reads no file: a version lists them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from lance.fragment import RowIdSequence

__all__ = ["FragmentRowIds", "row_ids_of"]

# How Lance shows the first of them.
_FIRST: Final = re.compile(r"\[(\d+)")


@dataclass(frozen=True, slots=True, eq=False)
class FragmentRowIds:
    """The row ids of a fragment.

    Attributes:
        start: The first of them.
        count: How many there are, of deleted rows, too.
        listed: All of them; None where each is one more than the one before.
    """

    start: int
    count: int
    listed: npt.NDArray[np.uint64] | None

    def at(self, offsets: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
        """The row ids at some places."""
        if self.listed is not None:
            found: npt.NDArray[np.uint64] = self.listed[offsets]
            return found
        return offsets.astype(np.uint64) + np.uint64(self.start)

    def range(self) -> tuple[int, int]:
        """The least and the greatest."""
        if self.listed is not None:
            return int(self.listed.min()), int(self.listed.max())
        return self.start, self.start + self.count - 1


def row_ids_of(metadata: Any) -> FragmentRowIds:
    """The row ids that a version lists for a fragment.

    Rows that were loaded together have consecutive ones. Lance compares such a range as it stores
    it, which takes no time; to list its numbers takes as long as the fragment is large.
    """
    sequence = RowIdSequence.from_inline_metadata(metadata)
    count = len(sequence)
    first = _FIRST.search(repr(sequence))
    if first is not None:
        start = int(first[1])
        if sequence == RowIdSequence(range(start, start + count)):
            return FragmentRowIds(start, count, None)
    listed: npt.NDArray[np.uint64] = sequence.to_pyarrow().to_numpy()
    return FragmentRowIds(int(listed[0]) if count else 0, count, listed)
