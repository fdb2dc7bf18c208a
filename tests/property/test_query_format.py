"""What holds for every syntax tree, and for comments wherever they stand."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from omnigraph.lang.query.ast import QueryFile
from omnigraph.lang.query.format import format_queries
from omnigraph.lang.source import Diagnostics, Source
from omnigraph.lang.tokens import lex
from omnigraph.testing.strategies_query import query_files
from tests.property.query_programs import VALID, comments, parse, steps


@given(query_files)
def test_a_tree_survives_formatting_and_parsing(file: QueryFile) -> None:
    text = format_queries(file)
    again = parse(text)
    assert again == file
    assert format_queries(again) == text


@st.composite
def commented(draw: st.DrawFn) -> tuple[str, str]:
    """A program of the corpus, and the same with comments between its tokens."""
    text = draw(st.sampled_from(VALID))
    source = Source("<test>", text)
    found = lex(source, Diagnostics(source), "Q000")
    places = sorted(draw(st.lists(st.sampled_from(found.starts), max_size=6)))
    parts: list[str] = []
    last = 0
    for number, place in enumerate(places):
        parts.append(text[last:place])
        body = draw(st.sampled_from(("", " note", " \u00e9\U0001f418 ", "/", "*", ' "x" {')))
        shape = draw(st.integers(0, 4))
        if shape == 0:
            parts.append(f"//{number}{body}\n")
        elif shape == 1:
            parts.append(f"/*{number}{body}*/ ")
        elif shape == 2:
            parts.append(f"/*{number}{body}\n  and more */\n")
        elif shape == 3:
            parts.append(f"\n\n// {number}{body}\r\n\n")
        else:
            parts.append(f"/*{number}*//*again*/ // {body}\n")
        last = place
    return text, "".join([*parts, text[last:]])


@given(commented())
def test_comments_survive_wherever_they_stand(pair: tuple[str, str]) -> None:
    plain, text = pair
    file = parse(text)
    assert file == parse(plain)
    formatted = format_queries(file)
    again = parse(formatted)
    assert again == file
    before = Counter(item.text for item in comments(text))
    assert Counter(item.text for item in comments(formatted)) == before
    assert format_queries(again) == formatted


def test_a_page_of_blocks_and_comments_is_written_in_one_go() -> None:
    def text(size: int) -> str:
        clauses = "not { $p knows $f }\n" * size + "// note\n" * size
        return f"query q() {{ match {{ $p: Person\n{clauses} }} return {{ $p.name }} }}"

    small, large = text(150), text(600)
    assert steps(lambda: format_queries(parse(large))) < 6 * steps(
        lambda: format_queries(parse(small))
    )
