"""Words and terms: what a text is searched by.

A text is folded character by character: compatibility forms are taken apart (NFKD), accents and
variation selectors are dropped, case is folded. A word is a run of letters, digits, underscores
and the vowel signs that some scripts write as marks; everything else separates. A term is a word
without its English endings (Snowball). No word is too common to be searched for.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from importlib import import_module
from typing import Any, Final

_STEMS_CACHED: Final = 1 << 17
# What an English word can end with and still be cut. The stemmer costs 50 us a word, so the words
# that it cannot change never see it.
_CUT_ENDS: Final = frozenset("scdegilmnrty'")
_VARIATION: Final = (range(0xFE00, 0xFE10), range(0xE0100, 0xE01F0))


class _Folding(dict[int, str]):
    """The folding of each character, learnt as characters come; separators fold to a space."""

    def __missing__(self, code: int) -> str:
        folded = "".join(
            _letter(each)
            for part in unicodedata.normalize("NFKD", chr(code))
            if not _is_dropped(part)
            for each in part.casefold()
        )
        self[code] = folded
        return folded


def _is_dropped(character: str) -> bool:
    return unicodedata.combining(character) != 0 or any(
        ord(character) in block for block in _VARIATION
    )


def _letter(character: str) -> str:
    if character.isalnum() or character == "_":
        return character
    return character if unicodedata.category(character) in ("Mn", "Mc") else " "


# One dictionary for all threads: two that add a character at once add the same.
_FOLDING: Final = _Folding()


def words(text: str) -> list[str]:
    """The words of a text, folded, in their order."""
    return text.translate(_FOLDING).split()


@lru_cache(maxsize=_STEMS_CACHED)
def stem(word: str) -> str:
    """The term of a folded word."""
    if len(word) <= 2 or word[-1] not in _CUT_ENDS:
        return word
    # A stemmer keeps the word that it works on, so each call has its own.
    return str(_stemmer().stemWord(word))


def terms(text: str) -> list[str]:
    """The terms of a text, in their order."""
    return [stem(word) for word in words(text)]


def distinct(items: Iterable[str]) -> tuple[str, ...]:
    """Each item once, in the order of first appearance."""
    return tuple(dict.fromkeys(items))


@lru_cache(maxsize=1)
def rules() -> str:
    """A name for these rules: texts that were split under another name may be split otherwise."""
    # It brings the parsers of mails and archives, which only an index in the making waits for.
    from importlib.metadata import version  # noqa: PLC0415

    return f"1-{version('snowballstemmer')}-{unicodedata.unidata_version}"


def _stemmer() -> Any:
    # Loaded when the first word needs it: the package imports every language that it has. Taken
    # from its own module, because the package prefers another one that may be of another release.
    return import_module("snowballstemmer.english_stemmer").EnglishStemmer()
