"""The words of a vocabulary that are a few edits away from a given one (Levenshtein)."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_DISTANCE_MAX: Final = 127


def within(words: pa.Array, word: str, edits: int) -> npt.NDArray[np.int64]:
    """The places of the words that insertions, deletions and replacements make of `word`.

    Args:
        words: The vocabulary.
        word: What is looked for.
        edits: How many single-character changes are allowed.
    """
    lengths = pc.utf8_length(words).to_numpy(zero_copy_only=False)
    found = [
        places[_distances(words.take(pa.array(places)), length, word, edits) <= edits]
        for length in range(max(1, len(word) - edits), len(word) + edits + 1)
        if len(places := np.flatnonzero(lengths == length))
    ]
    return np.sort(np.concatenate(found)) if found else np.zeros(0, np.int64)


def _distances(words: pa.Array, length: int, word: str, edits: int) -> npt.NDArray[np.int8]:
    """The distance of each word, all of them `length` characters long; too far is `_DISTANCE_MAX`.

    Row by row through the usual table, all words at once. Only the cells near the diagonal can
    lie within the allowed edits, so the others are never computed.
    """
    letters = _letters(words, length)
    count = letters.shape[1]
    row: dict[int, Any] = {at: np.full(count, at, np.int8) for at in range(min(edits, length) + 1)}
    far = np.full(count, _DISTANCE_MAX - 1, np.int8)
    for line, letter in enumerate(word, 1):
        above, row = row, {}
        code = ord(letter)
        for at in range(max(0, line - edits), min(length, line + edits) + 1):
            if at == 0:
                row[0] = np.full(count, line, np.int8)
                continue
            best = above.get(at - 1, far) + (letters[at - 1] != code)
            np.minimum(best, above.get(at, far) + np.int8(1), out=best)
            np.minimum(best, row.get(at - 1, far) + np.int8(1), out=best)
            row[at] = best
    found: npt.NDArray[np.int8] = row.get(length, far)
    return found


def _letters(words: pa.Array, length: int) -> npt.NDArray[np.uint32]:
    """The characters of words of one length: one line per position."""
    joined = "".join(words.to_pylist()).encode("utf-32-le", "surrogatepass")
    return np.ascontiguousarray(np.frombuffer(joined, np.uint32).reshape(-1, length).T)
