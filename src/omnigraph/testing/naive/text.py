"""Text search by reading every text, word by word."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any

from omnigraph.lang.ir.expr import TextMode

K1 = 1.2
B = 0.75

# Imported by name, because it ships no types.
_STEMMER: Any = import_module("snowballstemmer").stemmer("english")


def words(text: str) -> list[str]:
    """The words of a text in order: case and accents do not count."""
    decomposed = unicodedata.normalize("NFKD", text)
    bare = "".join(char for char in decomposed if not unicodedata.combining(char))
    return re.findall(r"\w+", bare.casefold())


def stem(word: str) -> str:
    """The stem of a word, by which forms of one word are the same term."""
    return str(_STEMMER.stemWord(word))


def terms(text: str) -> list[str]:
    """The stems of the words of a text, in order."""
    return [stem(word) for word in words(text)]


def matches(mode: TextMode, text: str, query: str, edits: int) -> bool:
    """True if a text meets a text predicate."""
    match mode:
        case TextMode.SEARCH:
            return not set(terms(text)).isdisjoint(terms(query))
        case TextMode.PHRASE:
            return _occurs(terms(query), terms(text))
        case TextMode.FUZZY:
            return any(
                distance(word, wanted) <= edits or stem(word) == stem(wanted)
                for wanted in words(query)
                for word in words(text)
            )


def _occurs(part: Sequence[str], whole: Sequence[str]) -> bool:
    """True if a part that is not empty stands somewhere in the whole, without gaps."""
    size = len(part)
    starts = range(len(whole) - size + 1)
    return size > 0 and any(list(whole[at : at + size]) == list(part) for at in starts)


def distance(left: str, right: str) -> int:
    """The number of characters to put in, take out or exchange to make one the other."""
    above = list(range(len(right) + 1))
    for row, one in enumerate(left, 1):
        line = [row]
        for column, other in enumerate(right, 1):
            change = above[column - 1] + (one != other)
            line.append(min(above[column] + 1, line[-1] + 1, change))
        above = line
    return above[-1]


def bm25(corpus: Iterable[str], text: str, query: str) -> float | None:
    """The relevance of a text among all texts of its column; None where no term occurs."""
    documents = [terms(each) for each in corpus]
    mean = sum(map(len, documents)) / len(documents)
    own = terms(text)
    score = 0.0
    hit = False
    for term in dict.fromkeys(terms(query)):
        count = own.count(term)
        if not count:
            continue
        hit = True
        holders = sum(term in document for document in documents)
        rarity = math.log(1 + (len(documents) - holders + 0.5) / (holders + 0.5))
        length = 1 - B + B * len(own) / mean
        score += rarity * count * (K1 + 1) / (count + K1 * length)
    return score if hit else None
