"""Splitting whole columns of text into words, a few operations for millions of them.

Bytes are cut at ASCII separators, the pieces are numbered by what they say, and only one of each
is looked at closely. `tokens.words` says what a word is; this gives the same words.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.exec import tuning
from omnigraph.exec.search.tokens import words
from omnigraph.runtime.cancellation import checked

Numbers = npt.NDArray[np.int32]


def _lowered() -> npt.NDArray[np.uint8]:
    """Per byte: 0 for an ASCII separator, a small letter for a capital, else the byte itself."""
    table = np.arange(256, dtype=np.uint8)
    for code in range(128):
        character = chr(code)
        is_word = character.isalnum() or character == "_"
        table[code] = ord(character.lower()) if is_word else 0
    return table


_LOWERED: Final = _lowered()


@dataclass(frozen=True, slots=True)
class Chunk:
    """The words of some consecutive texts, by number, text after text."""

    words: Numbers
    lengths: Numbers  # how many words each text has; -1 for a missing text


class Splitter:
    """Splits texts and numbers their words in the order of first appearance."""

    __slots__ = ("_pieces", "_words")

    def __init__(self) -> None:
        """Start with no words."""
        self._words: dict[str, int] = {}
        self._pieces: dict[str, tuple[int, ...]] = {}  # pieces that are not one plain word

    @property
    def vocabulary(self) -> list[str]:
        """Every word, by its number."""
        return list(self._words)

    def split(self, texts: pa.Array | pa.ChunkedArray) -> Iterator[Chunk]:
        """Cut texts into words, some megabytes at a time."""
        pieces = texts.chunks if isinstance(texts, pa.ChunkedArray) else [texts]
        for piece in pieces:
            for part in checked(_parts(piece)):
                yield self._chunk(part)

    def _chunk(self, texts: pa.Array) -> Chunk:
        present = None if texts.null_count == 0 else pc.is_valid(texts).to_numpy(False)
        found, lengths = _cut(texts if present is None else texts.fill_null(""))
        encoded = found.dictionary_encode()
        codes = encoded.indices.to_numpy()
        numbers, single = self._numbered(encoded.dictionary.to_pylist())
        if single:
            chosen = numbers[0][codes]
        else:
            chosen, lengths = _expanded(codes, lengths, *numbers)
        if present is not None:
            lengths[~present] = -1
        return Chunk(chosen, lengths)

    def _numbered(self, pieces: list[str]) -> tuple[tuple[Numbers, Numbers], bool]:
        """The numbers of the words in each piece, piece after piece, and how many it has."""
        known = self._words
        if all(map(str.isascii, pieces)):
            flat = [known.setdefault(piece, len(known)) for piece in pieces]
            numbers = np.array(flat, np.int32)
            return (numbers, np.ones(len(flat), np.int32)), True
        groups = [self._words_of(piece) for piece in pieces]
        counts = np.fromiter(map(len, groups), np.int32, len(groups))
        flat_numbers = np.fromiter(
            (number for group in groups for number in group), np.int32, int(counts.sum())
        )
        return (flat_numbers, counts), bool((counts == 1).all())

    def _words_of(self, piece: str) -> tuple[int, ...]:
        known = self._words
        if piece.isascii():
            return (known.setdefault(piece, len(known)),)
        found = self._pieces.get(piece)
        if found is None:
            found = tuple(known.setdefault(word, len(known)) for word in words(piece))
            self._pieces[piece] = found
        return found


def _parts(texts: pa.Array) -> Iterator[pa.Array]:
    """Slices of about `split_text_bytes` each, never less than one text."""
    start = 0
    if not len(texts):
        return
    ends = _offsets(texts)
    while start < len(texts):
        limit = int(ends[start]) + tuning.active.split_text_bytes
        stop = max(start + 1, int(np.searchsorted(ends, limit, side="right")) - 1)
        yield texts.slice(start, stop - start)
        start = stop


def _offsets(texts: pa.Array) -> npt.NDArray[Any]:
    width = np.int64 if pa.types.is_large_string(texts.type) else np.int32
    found = np.frombuffer(texts.buffers()[1], dtype=width)
    return found[texts.offset : texts.offset + len(texts) + 1]


def _cut(texts: pa.Array) -> tuple[pa.Array, Numbers]:
    """The pieces between ASCII separators, lowered, and how many each text has."""
    ends = _offsets(texts)
    first, last = int(ends[0]), int(ends[-1])
    data = texts.buffers()[2]
    if first == last or data is None:
        return pa.array([], pa.string()), np.zeros(len(texts), np.int32)
    content = _LOWERED[np.frombuffer(data, np.uint8)[first:last]]
    inside = content != 0
    begins = inside.copy()
    begins[1:] &= ~inside[:-1]
    # A text starts a new piece even where the one before it ends in a letter.
    edges = ends[:-1] - first
    edges = edges[edges < len(inside)]
    begins[edges] |= inside[edges]
    kept = content[inside]
    starts = np.flatnonzero(begins[inside]).astype(np.int32)
    offsets = np.append(starts, np.int32(len(kept)))
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(kept)]
    pieces = pa.StringArray.from_buffers(len(starts), buffers[1], buffers[2])
    counted = np.searchsorted(np.flatnonzero(begins), ends - first)
    return pieces, np.diff(counted).astype(np.int32)


def _expanded(
    codes: Numbers, lengths: Numbers, flat: Numbers, counts: Numbers
) -> tuple[Numbers, Numbers]:
    """Put the words of each piece in its place, where a piece may have none or several."""
    firsts = np.cumsum(counts, dtype=np.int64) - counts
    many = counts[codes]
    ends = np.cumsum(many, dtype=np.int64)
    total = int(ends[-1]) if len(ends) else 0
    shift = np.repeat(firsts[codes] - (ends - many), many)
    chosen = flat[shift + np.arange(total)]
    before = np.concatenate(([0], ends))
    borders = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
    return chosen, np.diff(before[borders]).astype(np.int32)
