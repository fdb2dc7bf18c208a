"""Finding terms that stand one after another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from omnigraph.exec.search.segment import Segment


def in_a_row(segment: Segment, terms: Sequence[str]) -> npt.NDArray[Any]:
    """The texts of a segment in which the terms follow one another."""
    numbers = [segment.term(term) for term in terms]
    if min(numbers) < 0:
        return np.zeros(0, np.int32)
    # The rarest first: what follows only has to look where the phrase can still begin.
    order = sorted(range(len(numbers)), key=lambda at: segment.postings(numbers[at])[0].size)
    begins: npt.NDArray[np.int64] | None = None
    for at in order:
        keys = _keys(segment, numbers[at], at)
        if begins is None:
            begins = keys
        else:
            places = np.searchsorted(keys, begins)
            places[places == len(keys)] = len(keys) - 1
            begins = begins[keys[places] == begins]
        if not len(begins):
            break
    assert begins is not None
    return np.unique(begins >> 32)


def _keys(segment: Segment, term: int, shift: int) -> npt.NDArray[np.int64]:
    """Per occurrence, the text and the position where the phrase would begin, as one number.

    A phrase cannot begin before its text does; shifted that far, the number would be one of the
    text before, whose positions end long before 2^32.
    """
    docs, places, _ = segment.occurrences(term)
    return (docs.astype(np.int64) << 32) + places.astype(np.int64) - shift
