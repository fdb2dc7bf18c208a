import math
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.exec.search.fuzzy import within
from omnigraph.exec.search.segment import stable_order
from omnigraph.exec.search.text_index import TextIndex
from omnigraph.exec.search.tokens import stem, terms, words
from omnigraph.exec.view import Handles, Mask

Texts = Sequence[str | None]

TEXTS: Texts = [
    "The quick brown fox jumps over the lazy dog",
    None,
    "Quick foxes: a study of jumping",
    "",
    "An introduction to graph databases",
    "brown quick",
    "jump over jump over jump",
]


def index(texts: Texts) -> TextIndex:
    return TextIndex.build(pa.array(texts, pa.string()))


def picking(column: pa.Array) -> Callable[[Handles], pa.Array]:
    return lambda handles: column.take(pa.array(handles))


def scores(found: TextIndex, query: str) -> list[float]:
    return [float(score) for score in found.bm25(terms(query)).scores]


def places(mask: Mask) -> list[int]:
    return [int(place) for place in np.flatnonzero(mask)]


def test_search_finds_any_term_whatever_its_ending() -> None:
    found = index(TEXTS)
    assert places(found.any_term(terms("foxes lazily"))) == [0, 2]
    assert places(found.any_term(terms("JUMPED"))) == [0, 2, 6]
    assert places(found.any_term(terms("nowhere"))) == []
    assert places(found.any_term([])) == []


def test_a_phrase_is_terms_in_a_row() -> None:
    found = index(TEXTS)
    assert places(found.phrase(terms("quick brown"))) == [0]
    assert places(found.phrase(terms("brown quick"))) == [5]
    assert places(found.phrase(terms("over jumps over"))) == [6]
    assert places(found.phrase(terms("the quick brown fox"))) == [0]
    assert places(found.phrase(terms("the the"))) == []
    assert places(found.phrase(terms("introduction"))) == [4]
    assert places(found.phrase([])) == []


def test_fuzzy_finds_a_typo_in_a_word_as_written() -> None:
    found = index(TEXTS)
    assert places(found.fuzzy(words("introductio"), 1)) == [4]
    assert places(found.fuzzy(words("introductio"), 0)) == []
    assert places(found.fuzzy(words("qiuck"), 2)) == [0, 2, 5]
    assert places(found.fuzzy(words("qiuck"), 1)) == []
    # Near is the word in the text, not its stem: `jumping` is three edits away.
    assert places(found.fuzzy(words("jumpo"), 1)) == [0, 6]
    assert places(found.fuzzy([], 2)) == []


def test_relevance_counts_over_the_whole_column() -> None:
    found = index(TEXTS)
    expected = naive_bm25(TEXTS, terms("quick fox quick"))
    assert found.bm25(terms("quick fox quick")).scores.tolist() == pytest.approx(expected)
    assert found.bm25([]).scores.tolist() == [0.0] * len(TEXTS)
    assert index([None, "", "!"]).bm25(["x"]).scores.tolist() == [0.0, 0.0, 0.0]
    assert index([]).bm25(["x"]).scores.tolist() == []


def test_an_index_survives_storing() -> None:
    first = index(TEXTS)
    again = TextIndex.of_arrays({name: array.copy() for name, array in first.arrays().items()})
    assert_same(again, TEXTS, "quick brown foxes")
    assert again.nbytes == first.nbytes


WORDS = ["run", "runs", "running", "fox", "foxes", "box", "quick", "quack", "été", "x"]
TEXT = st.none() | st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)
COLUMN = st.lists(TEXT, max_size=12)
QUERY = st.lists(st.sampled_from([*WORDS, "quik", "missing"]), max_size=3).map(" ".join)


@given(COLUMN, QUERY)
def test_answers_equal_those_of_a_loop_over_all_texts(texts: Texts, query: str) -> None:
    assert_same(index(texts), texts, query)


@given(COLUMN, st.data())
def test_an_index_that_follows_changes_answers_like_a_new_one(
    texts: Texts, data: st.DataObject
) -> None:
    current, found = list(texts), index(texts)
    for _ in range(data.draw(st.integers(1, 4))):
        size = len(current)
        fate = data.draw(st.lists(st.sampled_from("kkkcd"), min_size=size, max_size=size))
        fresh = data.draw(st.lists(TEXT, max_size=3))
        kept = [place for place, what in enumerate(fate) if what != "d"]
        # Newcomers go between the others, as ids do.
        slots = sorted(data.draw(st.integers(0, len(kept))) for _ in fresh)
        target: list[str | None] = []
        renumbered = np.full(len(current), -1, np.int32)
        queue = list(zip(slots, fresh, strict=True))
        for number in range(len(kept) + 1):
            while queue and queue[0][0] == number:
                target.append(queue.pop(0)[1])
            if number < len(kept):
                if fate[kept[number]] == "k":
                    renumbered[kept[number]] = len(target)
                    target.append(current[kept[number]])
                else:
                    target.append(data.draw(TEXT))
        column = pa.array(target, pa.string())
        found = found.derive(renumbered, len(target), picking(column))
        current = target
        query = data.draw(QUERY)
        assert_same(found, current, query)
        assert scores(found, query) == scores(index(current), query)


def test_small_changes_keep_the_large_segment() -> None:
    texts = [f"word{place} common" for place in range(100)]
    first = index(texts)
    column = pa.array([*texts, "new one"])
    second = first.derive(np.arange(100, dtype=np.int32), 101, picking(column))
    assert [part.live for part in second.parts] == [100, 1]
    assert second.parts[0].segment is first.parts[0].segment
    column = pa.array([*texts, "new one", "another"])
    third = second.derive(np.arange(101, dtype=np.int32), 102, picking(column))
    assert [part.live for part in third.parts] == [100, 2]


def test_a_segment_that_is_mostly_gone_is_built_anew() -> None:
    first = index([f"word{place}" for place in range(100)])
    renumbered = np.full(100, -1, np.int32)
    renumbered[:40] = np.arange(40)
    column = pa.array([f"word{place}" for place in range(40)])
    second = first.derive(renumbered, 40, picking(column))
    assert [len(part.segment) for part in second.parts] == [40]


@given(st.lists(st.integers(0, 200_000), max_size=200))
def test_the_radix_order_is_the_stable_order(numbers: list[int]) -> None:
    array = np.array(numbers, np.int32)
    expected = np.argsort(array, kind="stable")
    assert stable_order(array, 200_001).tolist() == expected.tolist()


LETTERS = st.text("abé", max_size=6)


@given(st.lists(LETTERS.filter(bool), max_size=12), LETTERS.filter(bool), st.integers(0, 2))
def test_typos_equal_the_textbook(vocabulary: list[str], word: str, edits: int) -> None:
    found = within(pa.array(vocabulary, pa.string()), word, edits).tolist()
    assert found == [p for p, each in enumerate(vocabulary) if distance(each, word) <= edits]


# -- naive ---------------------------------------------------------------------------------


def assert_same(found: TextIndex, texts: Texts, query: str) -> None:
    asked = terms(query)
    split = [[] if text is None else terms(text) for text in texts]
    assert places(found.any_term(asked)) == [p for p, t in enumerate(split) if set(t) & set(asked)]
    assert places(found.phrase(asked)) == [
        p
        for p, t in enumerate(split)
        if asked and any(t[at : at + len(asked)] == asked for at in range(len(t)))
    ]
    for edits in (0, 1, 2):
        assert places(found.fuzzy(words(query), edits)) == [
            p
            for p, text in enumerate(texts)
            if any(
                distance(word, wanted) <= edits or stem(word) == stem(wanted)
                for word in words(text or "")
                for wanted in words(query)
            )
        ]
    relevance = found.bm25(asked)
    assert relevance.scores.tolist() == pytest.approx(naive_bm25(texts, asked))
    assert sorted(relevance.holders.tolist()) == places(relevance.scores > 0)
    assert found.lengths.tolist() == [-1 if t is None else len(words(t)) for t in texts]


def naive_bm25(texts: Texts, asked: list[str]) -> list[float]:
    there = [terms(text) for text in texts if text is not None]
    average = sum(map(len, there)) / max(1, len(there))
    scores = []
    for text in texts:
        own, score = terms(text or ""), 0.0
        for term in set(asked):
            holders = sum(term in each for each in there)
            idf = math.log(1 + (len(there) - holders + 0.5) / (holders + 0.5))
            if often := own.count(term):
                norm = 1.2 * (1 - 0.75 + 0.75 * len(own) / average)
                score += idf * often * 2.2 / (often + norm)
        scores.append(score)
    return scores


def distance(left: str, right: str) -> int:
    row = list(range(len(right) + 1))
    for line, letter in enumerate(left, 1):
        above, row = row, [line]
        for at, other in enumerate(right, 1):
            row.append(min(above[at - 1] + (letter != other), above[at] + 1, row[-1] + 1))
    return row[-1]
