import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from snowballstemmer.english_stemmer import EnglishStemmer

from omnigraph.exec import tuning
from omnigraph.exec.search.split import Splitter
from omnigraph.exec.search.tokens import stem, terms, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" .,;!? ", []),
        ("Hello, World", ["hello", "world"]),
        ("snake_case and kebab-case", ["snake_case", "and", "kebab", "case"]),
        ("Crème BRÛLÉE", ["creme", "brulee"]),
        ("e\u0301te\u0301", ["ete"]),  # accents as characters of their own
        ("Straße İstanbul ŒUVRE", ["strasse", "istanbul", "œuvre"]),
        ("ﬁne \uff12\uff10\uff12\uff14 x²", ["fine", "2024", "x2"]),
        ("½ 20℃", ["1", "2", "20", "c"]),
        ("“quoted”—dash\u00a0space", ["quoted", "dash", "space"]),
        ("हिन्दी भाषा", ["हिनदी", "भाषा"]),
        ("Ελλάδα Москва 東京", ["ελλαδα", "москва", "東京"]),
        ("❤\ufe0f love", ["love"]),
        ("a\x00b\ud800c", ["a", "b", "c"]),
    ],
)
def test_a_text_falls_into_folded_words(text: str, expected: list[str]) -> None:
    assert words(text) == expected


def test_terms_are_stems() -> None:
    assert terms("Running runs; the runner ran easily") == [
        "run",
        "run",
        "the",
        "runner",
        "ran",
        "easili",
    ]


@given(st.text("abcdefghilmnorstuvyz", min_size=1, max_size=12))
def test_words_that_skip_the_stemmer_would_come_back_unchanged(word: str) -> None:
    assert stem(word) == EnglishStemmer().stemWord(word)


@given(st.text(min_size=1))
def test_stemming_any_folded_word_equals_the_stemmer(text: str) -> None:
    for word in words(text):
        assert stem(word) == EnglishStemmer().stemWord(word)


TEXTS = st.lists(st.none() | st.text(st.sampled_from("aB c.é—½“\u0301ß漢_9") | st.characters()))


@given(TEXTS, st.sampled_from([pa.string(), pa.large_string()]), st.integers(1, 40))
def test_splitting_a_column_equals_splitting_each_text(
    texts: list[str | None], kind: pa.DataType, chunk: int
) -> None:
    clean = [None if t is None else t.encode("utf-8", "ignore").decode() for t in texts]
    column = pa.array(["before", *clean], kind).slice(1)
    splitter = Splitter()
    with tuning.tuned(split_text_bytes=chunk):
        chunks = list(splitter.split(column))
    vocabulary = splitter.vocabulary
    numbers = [number for each in chunks for number in each.words.tolist()]
    lengths = [length for each in chunks for length in each.lengths.tolist()]
    assert lengths == [-1 if text is None else len(words(text)) for text in clean]
    assert [vocabulary[number] for number in numbers] == [
        word for text in clean if text is not None for word in words(text)
    ]
    assert len(set(vocabulary)) == len(vocabulary)
