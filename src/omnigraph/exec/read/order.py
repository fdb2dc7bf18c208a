"""The total order of results, and the part of it that is asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from omnigraph.exec import tuning
from omnigraph.exec.read.frame import Index
from omnigraph.exec.read.keys import SortKeys

# Gives the sort keys of all rows, or of the rows at some places.
KeySource: TypeAlias = Callable[["Index | None"], SortKeys]


def ordered(sources: Sequence[KeySource], rows: int, most: int | None) -> Index:
    """The places of the first `most` rows (or of all) in the order of the keys."""
    if most is not None and most <= 0:
        return np.empty(0, np.int64)
    if most is None or rows < tuning.active.partial_sort_rows_min or most * 4 > rows:
        return _sorted(sources, None, rows)
    for source in sources:
        for key in source(None):
            limit = np.partition(key, most - 1)[most - 1]
            within = np.flatnonzero(key <= limit)
            if len(within) < rows:
                # Only what is still in the race is compared by the other keys.
                return _sorted(sources, within, len(within))[:most]
            if key.min() != limit:
                return _sorted(sources, None, rows)
            # All rows are equal so far: the next key may tell them apart.
    return _sorted(sources, None, rows)


def _sorted(sources: Sequence[KeySource], places: Index | None, rows: int) -> Index:
    keys = [key for source in sources for key in source(places)]
    if not keys:
        return np.arange(rows) if places is None else places
    # The last key of a lexical sort decides first.
    found = np.lexsort(keys[::-1]) if len(keys) > 1 else np.argsort(keys[0], kind="stable")
    return found if places is None else places[found]
