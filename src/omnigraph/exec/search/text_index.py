"""A text index of one property of a whole type: matches and their relevance.

The index consists of segments that never change. A newer state of the type keeps them: it only
says which handle each of their texts has now, and adds a small segment with what is new. Every
answer counts live texts only, so it does not depend on how the segments came about.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.exec.search.fuzzy import within
from omnigraph.exec.search.segment import Segment, build, segments
from omnigraph.exec.search.tokens import distinct, stem
from omnigraph.exec.view import Handles, Mask

K1: Final = 1.2
B: Final = 0.75
# A segment takes in its neighbours that are at most so many times larger than what comes.
_FOLD_FACTOR: Final = 2

_NO_HANDLES: Final = np.zeros(0, np.int32)

Scores = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class PlacedSegment:
    """A segment and the handle that each of its texts has; -1 for one that is gone."""

    segment: Segment
    handles: Handles
    gone: int  # how many are -1

    @property
    def live(self) -> int:
        """The number of its texts that are still current."""
        return len(self.handles) - self.gone

    def postings(self, term: int) -> tuple[Handles, npt.NDArray[Any]]:
        """The live texts with a term, by handle, and how often they contain it."""
        docs, counts = self.segment.postings(term)
        handles = self.handles[docs]
        if not self.gone:
            return handles, counts
        kept = handles >= 0
        return handles[kept], counts[kept]

    def marked(self, docs: npt.NDArray[Any], mask: Mask) -> None:
        """Set the mask at the handles of some texts."""
        handles = self.handles[docs]
        mask[handles[handles >= 0] if self.gone else handles] = True


@dataclass(frozen=True, slots=True, eq=False)
class Relevance:
    """A score for every entity, 0 where no term occurs, and the entities above 0 in no order."""

    scores: Scores
    holders: Handles


@dataclass(frozen=True, slots=True)
class Corpus:
    """All texts of a type, as the relevance of one of them depends on them.

    Attributes:
        count: How many texts there are.
        words: How many words they have together.
        holders: How many texts have each of the terms of a query, which are distinct.
    """

    count: int
    words: int
    holders: tuple[int, ...]


class TextIndex:
    """The index of one property of one type. Immutable, safe to share between threads."""

    def __init__(self, parts: Sequence[PlacedSegment], size: int) -> None:
        """Put segments together that cover each of `size` entities exactly once."""
        self.parts = tuple(parts)
        self.size = size

    @classmethod
    def build(cls, texts: pa.Array | pa.ChunkedArray) -> TextIndex:
        """Index a whole column, in the order of the handles."""
        return cls(
            [
                PlacedSegment(segment, np.arange(start, start + len(segment), dtype=np.int32), 0)
                for start, segment in segments(texts)
            ],
            len(texts),
        )

    def derive(
        self,
        renumbered: Handles,
        size: int,
        texts: Callable[[Handles], pa.Array | pa.ChunkedArray],
    ) -> TextIndex:
        """The index of a newer state of the type.

        Args:
            renumbered: For each entity its new handle; -1 when it is gone or its text changed.
            size: How many entities the type has now.
            texts: Gives the texts of entities by their new handles.
        """
        moved = [_moved(part, renumbered) for part in self.parts]
        covered = np.zeros(size, np.bool_)
        for part in moved:
            covered[part.handles[part.handles >= 0]] = True
        fresh = int(size - np.count_nonzero(covered))
        kept: list[PlacedSegment] = []
        # Small segments and those that are mostly gone are built anew together with what is
        # fresh: so there are few segments, and a change costs about as much as it is large.
        for part in sorted(moved, key=lambda each: each.live):
            if part.gone * 2 > len(part.handles) or (fresh and part.live <= fresh * _FOLD_FACTOR):
                fresh += part.live
                covered[part.handles[part.handles >= 0]] = False
            else:
                kept.append(part)
        if fresh:
            handles = np.flatnonzero(~covered).astype(np.int32)
            kept.append(PlacedSegment(build(texts(handles)), handles, 0))
        return TextIndex(kept, size)

    @property
    def nbytes(self) -> int:
        """The memory it takes."""
        return (
            sum(part.segment.nbytes + part.handles.nbytes for part in self.parts) + self.size * 12
        )

    # -- which texts -----------------------------------------------------------------------

    @cached_property
    def lengths(self) -> npt.NDArray[np.int32]:
        """The number of words in the text of each entity; -1 where it is missing."""
        found = np.full(self.size, -1, np.int32)
        for part in self.parts:
            live = part.handles >= 0
            found[part.handles[live]] = part.segment.lengths[live]
        return found

    def any_term(self, terms: Sequence[str]) -> Mask:
        """The mask of entities whose text contains at least one of the terms."""
        mask = np.zeros(self.size, np.bool_)
        for part in self.parts:
            for term in distinct(terms):
                if (number := part.segment.term(term)) >= 0:
                    part.marked(part.segment.postings(number)[0], mask)
        return mask

    def phrase(self, terms: Sequence[str]) -> Mask:
        """The mask of entities whose text contains the terms one after another."""
        mask = np.zeros(self.size, np.bool_)
        for part in self.parts if terms else ():
            part.marked(in_a_row(part.segment, terms), mask)
        return mask

    def fuzzy(self, words: Sequence[str], edits: int) -> Mask:
        """The entities with a word within some edits of one of the words, or of the same term."""
        mask = self.any_term([stem(word) for word in words])
        for part in self.parts if edits else ():
            segment = part.segment
            near = [within(segment.words, word, edits) for word in distinct(words)]
            places = np.unique(np.concatenate(near)) if near else np.zeros(0, np.int64)
            owners = np.searchsorted(segment.word_starts, places, side="right") - 1
            for term in np.unique(owners).tolist():
                chosen = places[owners == term] - segment.word_starts[term]
                docs, _, variants = segment.occurrences(term)
                part.marked(docs[np.isin(variants, chosen)], mask)
        return mask

    # -- how relevant ----------------------------------------------------------------------

    @cached_property
    def count(self) -> int:
        """The number of entities that have a text."""
        return int(np.count_nonzero(self.lengths >= 0))

    def corpus(self, terms: Sequence[str]) -> Corpus:
        """The corpus of these texts for a query of these terms."""
        holders = tuple(
            sum(len(handles) for handles, _ in self._postings(term)) for term in distinct(terms)
        )
        return Corpus(self.count, self._words, holders)

    def _postings(self, term: str) -> list[tuple[Handles, npt.NDArray[Any]]]:
        return [
            part.postings(number) for part in self.parts if (number := part.segment.term(term)) >= 0
        ]

    @cached_property
    def _words(self) -> int:
        return int(np.maximum(self.lengths, 0).sum(dtype=np.int64))

    def _norms(self, average: float) -> Scores:
        """The part of the formula that depends only on the length of a text."""
        return np.asarray(K1 * (1 - B + B * np.maximum(self.lengths, 0) / average))

    @cached_property
    def _own_norms(self) -> Scores:
        return self._norms(_average(self.count, self._words))

    def bm25(self, terms: Sequence[str], corpus: Corpus | None = None) -> Relevance:
        """The relevance of every entity for a query of these terms.

        Args:
            terms: The terms.
            corpus: All texts of the type, when these are only some of them.
        """
        scores = np.zeros(self.size, np.float64)
        holders: list[Handles] = []
        count = self.count if corpus is None else corpus.count
        norms = (
            self._own_norms if corpus is None else self._norms(_average(corpus.count, corpus.words))
        )
        for place, term in enumerate(distinct(terms)):
            found = self._postings(term)
            frequency = (
                sum(len(handles) for handles, _ in found)
                if corpus is None
                else corpus.holders[place]
            )
            rarity = math.log(1 + (count - frequency + 0.5) / (frequency + 0.5))
            for handles, counts in found:
                often = counts.astype(np.float64)
                gain = rarity * often
                gain *= K1 + 1
                often += norms[handles]
                gain /= often
                before = scores[handles]
                # Every gain is above 0, so a row without any is new.
                holders.append(handles if not holders else handles[before == 0])
                before += gain
                scores[handles] = before
        return Relevance(scores, np.concatenate(holders) if holders else _NO_HANDLES)

    # -- storing ---------------------------------------------------------------------------

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Everything as named arrays, from which `of_arrays` makes the index again."""
        found: dict[str, npt.NDArray[Any]] = {"size": np.array([self.size], np.int64)}
        for number, part in enumerate(self.parts):
            found[f"{number}.handles"] = part.handles
            for name, array in part.segment.arrays().items():
                found[f"{number}.{name}"] = array
        return found

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> TextIndex:
        """The index that `arrays` described."""
        groups: dict[int, dict[str, npt.NDArray[Any]]] = {}
        for key, array in arrays.items():
            number, _, name = key.partition(".")
            if name:
                groups.setdefault(int(number), {})[name] = array
        parts = []
        for _, group in sorted(groups.items()):
            handles = group.pop("handles")
            gone = int(np.count_nonzero(handles < 0))
            parts.append(PlacedSegment(Segment.of_arrays(group), handles, gone))
        return cls(parts, int(arrays["size"][0]))


def _average(count: int, words: int) -> float:
    """The average number of words of a text; with no words at all it is never asked for."""
    return words / max(1, count) or 1.0


def _moved(part: PlacedSegment, renumbered: Handles) -> PlacedSegment:
    handles = np.where(part.handles >= 0, renumbered[part.handles], np.int32(-1)).astype(np.int32)
    return PlacedSegment(part.segment, handles, int(np.count_nonzero(handles < 0)))


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
