"""An inverted index over a fixed set of texts, as plain arrays.

Texts are numbered by their order. For each term there are the texts that contain it, ascending,
how often, and where; for each of these occurrences also which of the term's words it was.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.exec import tuning
from omnigraph.exec.search.split import Chunk, Numbers, Splitter
from omnigraph.exec.search.tokens import stem

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """The index of some texts. Immutable."""

    terms: pa.Array  # strings, ascending
    words: pa.Array  # strings, by term and then ascending
    word_starts: Array  # per term, the first of its words; and the end
    starts: Array  # per term, the first of its postings; and the end
    places_starts: Array  # per term, the first of its occurrences; and the end
    docs: Array  # per posting, the text
    counts: Array  # per posting, how often the term occurs in it
    places: Array  # per occurrence, the position in the text
    variants: Array  # per occurrence, which of the term's words
    lengths: Array  # per text, how many words; -1 for a missing text

    def __len__(self) -> int:
        """The number of texts that it covers."""
        return len(self.lengths)

    @property
    def nbytes(self) -> int:
        """The memory it takes."""
        return int(sum(array.nbytes for array in self.arrays().values()))

    def term(self, text: str) -> int:
        """The number of a term, or -1."""
        # A bisection makes a dozen strings; a dictionary would make all of them.
        place = bisect_left(_Strings(self.terms), text)
        return place if place < len(self.terms) and self.terms[place].as_py() == text else -1

    def postings(self, term: int) -> tuple[Array, Array]:
        """The texts that contain a term and how often."""
        span = slice(int(self.starts[term]), int(self.starts[term + 1]))
        return self.docs[span], self.counts[span]

    def occurrences(self, term: int) -> tuple[Array, Array, Array]:
        """Each occurrence of a term: its text, its position, its word within the term."""
        docs, counts = self.postings(term)
        span = slice(int(self.places_starts[term]), int(self.places_starts[term + 1]))
        return np.repeat(docs, counts), self.places[span], self.variants[span]

    # -- storing ---------------------------------------------------------------------------

    def arrays(self) -> dict[str, Array]:
        """Everything as named arrays, from which `of_arrays` makes the segment again."""
        found: dict[str, Array] = {}
        for name in ("terms", "words"):
            _, offsets, data = getattr(self, name).buffers()
            found[f"{name}_offsets"] = np.frombuffer(offsets, np.int32)[
                : len(getattr(self, name)) + 1
            ]
            found[f"{name}_data"] = np.frombuffer(data or b"", np.uint8)
        for name in _PLAIN:
            found[name] = getattr(self, name)
        return found

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, Array]) -> Segment:
        """The segment that `arrays` described."""
        texts = {
            name: pa.StringArray.from_buffers(
                len(arrays[f"{name}_offsets"]) - 1,
                pa.py_buffer(arrays[f"{name}_offsets"]),
                pa.py_buffer(arrays[f"{name}_data"]),
            )
            for name in ("terms", "words")
        }
        return cls(**texts, **{name: arrays[name] for name in _PLAIN})


_PLAIN: Final = (
    "word_starts",
    "starts",
    "places_starts",
    "docs",
    "counts",
    "places",
    "variants",
    "lengths",
)


class _Strings(Sequence[str]):
    """An Arrow array of strings as a sequence of Python ones, made one by one."""

    __slots__ = ("_array",)

    def __init__(self, array: pa.Array) -> None:
        self._array = array

    def __len__(self) -> int:
        return len(self._array)

    def __getitem__(self, place: Any) -> Any:
        return self._array[place].as_py()


# -- building ------------------------------------------------------------------------------


def segments(texts: pa.Array | pa.ChunkedArray) -> Iterator[tuple[int, Segment]]:
    """The segments of a column, each with the number of its first text."""
    start = 0
    for part in _bounded(texts):
        yield start, build(part)
        start += len(part)


def _bounded(texts: pa.Array | pa.ChunkedArray) -> Iterator[pa.Array | pa.ChunkedArray]:
    parts = max(1, -(-texts.nbytes // tuning.active.segment_text_bytes))
    borders = [len(texts) * part // parts for part in range(parts + 1)]
    for start, stop in pairwise(borders):
        yield texts.slice(start, stop - start)


def build(texts: pa.Array | pa.ChunkedArray) -> Segment:
    """Index texts."""
    splitter = Splitter()
    chunks = list(splitter.split(texts))
    vocabulary = _Vocabulary(splitter.vocabulary)
    lengths = _joined([chunk.lengths for chunk in chunks], np.int32)
    counts = np.zeros(len(vocabulary.terms), np.int64)
    for chunk in chunks:
        counts += np.bincount(vocabulary.term_of[chunk.words], minlength=len(counts))
    places_starts = _offsets(counts)
    scattered = _Scattered(vocabulary, places_starts, int(lengths.max(initial=0)))
    first = 0
    while chunks:
        # Taken from the list, so that each is gone when it is done.
        chunk = chunks.pop(0)
        scattered.add(chunk, first)
        first += len(chunk.lengths)
    docs, times, starts = _postings(scattered.docs, places_starts)
    return Segment(
        terms=vocabulary.terms,
        words=vocabulary.words,
        word_starts=vocabulary.word_starts,
        starts=starts,
        places_starts=places_starts,
        docs=docs,
        counts=times,
        places=scattered.places,
        variants=scattered.variants,
        lengths=lengths,
    )


class _Vocabulary:
    """Words sorted by term, and for each word as the splitter numbered it, its term."""

    __slots__ = ("term_of", "terms", "variant_of", "variants_max", "word_starts", "words")

    def __init__(self, found: list[str]) -> None:
        words = pa.array(found, pa.string())
        stems = pa.array([stem(word) for word in found], pa.string())
        order = pc.sort_indices(
            pa.table({"stem": stems, "word": words}),
            sort_keys=[("stem", "ascending"), ("word", "ascending")],
        )
        self.words = words.take(order)
        runs = stems.take(order).dictionary_encode()  # numbered as they appear: ascending
        self.terms = runs.dictionary
        numbers = runs.indices.to_numpy().astype(np.int32)
        self.word_starts = np.searchsorted(numbers, np.arange(len(self.terms) + 1))
        variants = np.arange(len(numbers)) - self.word_starts[numbers]
        self.variants_max = int(variants.max(initial=0))
        self.term_of = np.empty(len(found), np.int32)
        self.variant_of = np.empty(len(found), narrow(self.variants_max))
        places = order.to_numpy()
        self.term_of[places] = numbers
        self.variant_of[places] = variants


class _Scattered:
    """Occurrences put in the order of terms, chunk by chunk, so that little is held twice."""

    __slots__ = ("_next", "_vocabulary", "docs", "places", "variants")

    def __init__(self, vocabulary: _Vocabulary, starts: Array, longest: int) -> None:
        total = int(starts[-1])
        self._vocabulary = vocabulary
        self._next = starts[:-1].copy()
        self.docs = np.empty(total, np.int32)
        self.places = np.empty(total, narrow(longest))
        self.variants = np.empty(total, narrow(vocabulary.variants_max))

    def add(self, chunk: Chunk, first: int) -> None:
        """Add the words of texts that are numbered from `first`."""
        terms = self._vocabulary.term_of[chunk.words]
        lengths = np.maximum(chunk.lengths, 0)
        docs = np.repeat(np.arange(first, first + len(lengths), dtype=np.int32), lengths)
        begins = np.cumsum(lengths, dtype=np.int64) - lengths
        places = np.arange(len(terms)) - np.repeat(begins, lengths)
        order = stable_order(terms, len(self._next))
        counts = np.bincount(terms, minlength=len(self._next))
        local = np.cumsum(counts) - counts
        targets = np.arange(len(terms)) + np.repeat(self._next - local, counts)
        self.docs[targets] = docs[order]
        self.places[targets] = places[order]
        self.variants[targets] = self._vocabulary.variant_of[chunk.words][order]
        self._next += counts


def stable_order(numbers: Numbers, bound: int) -> Array:
    """The result of `argsort`, by radix: two passes over 16 bits where one is not enough."""
    order = np.argsort((numbers & 0xFFFF).astype(np.uint16), kind="stable")
    if bound <= 1 << 16:
        return order
    high = (numbers >> 16).astype(np.uint16)
    return order[np.argsort(high[order], kind="stable")]


def _postings(docs: Array, places_starts: Array) -> tuple[Array, Array, Array]:
    """Occurrences to postings: runs of one text within one term."""
    begins = np.empty(len(docs), np.bool_)
    begins[:1] = True
    np.not_equal(docs[1:], docs[:-1], out=begins[1:])
    # Every term occurs, so each start is the place of an occurrence.
    begins[places_starts[:-1]] = True
    first = np.flatnonzero(begins)
    ends = np.empty_like(first)
    ends[:-1] = first[1:]
    ends[-1:] = len(docs)
    ends -= first
    starts = np.searchsorted(first, places_starts)
    return docs[first], ends.astype(narrow(int(ends.max(initial=0)))), starts


def narrow(most: int) -> type[np.uint8 | np.uint16 | np.uint32]:
    """The smallest type that holds numbers up to `most`."""
    if most < 1 << 8:
        return np.uint8
    return np.uint16 if most < 1 << 16 else np.uint32


def _offsets(counts: Array) -> Array:
    starts = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=starts[1:])
    return starts


def _joined(parts: list[Numbers], kind: type[np.int32]) -> Array:
    return np.concatenate(parts) if parts else np.zeros(0, kind)
