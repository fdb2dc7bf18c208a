"""The lexer: every character ends up in a token, a comment, white space or a report."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.lang.source import SOURCE_CHARS_MAX, Diagnostics, Source
from omnigraph.lang.tokens import Tokens, lex, quote, unquote


def lexed(text: str) -> tuple[Tokens, Diagnostics]:
    source = Source("f", text)
    found = Diagnostics(source)
    return lex(source, found, "Q000"), found


@given(st.text())
def test_quoting_is_undone_by_unquoting(value: str) -> None:
    source = Source("f", quote(value))
    found = Diagnostics(source)
    assert unquote(quote(value), 0, found, "Q000") == value
    assert found.errors == 0


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_quoted_text_is_one_token(value: str) -> None:
    tokens, found = lexed(quote(value))
    assert tokens.kinds == ["string", "eof"]
    assert found.errors == 0


def test_an_unknown_escape_is_reported_where_it_stands() -> None:
    tokens, _ = lexed('"ab\\q"')
    found = Diagnostics(Source("f", '"ab\\q"'))
    assert unquote(tokens.texts[0], 0, found, "Q000") == "ab\\q"
    assert found.sorted()[0].span == (3, 5)


@given(st.text(st.sampled_from("ab AZ09$_.\"'/*{}()[]<>=!-,:?@#\\\n\t\r\u00e9")))
def test_tokens_cover_the_text(text: str) -> None:
    tokens, found = lexed(text)
    for index, word in enumerate(tokens.texts):
        start, end = tokens.span(index)
        assert text[start:end] == word
    assert tokens.starts == sorted(tokens.starts)
    covered = {i for n in range(len(tokens.texts)) for i in range(*tokens.span(n))}
    for comment in tokens.comments:
        covered |= set(range(*comment.span))
    covered |= {i for i, char in enumerate(text) if char in " \t\r\n"}
    loose = set(range(len(text))) - covered
    # What is in no token was reported: a stray character, or a comment without an end.
    reported = {item.span.start for item in found.sorted()}
    assert all(reported & set(range(at + 1)) for at in loose)


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("name Name $name", ["ident", "type", "var"]),
        ("_x $_ X_1", ["ident", "var", "type"]),
        ("1 1.5 1e3 1.5e-3", ["int", "float", "float", "float"]),
        ("1..5", ["int", "..", "int"]),
        ("a.b", ["ident", ".", "ident"]),
        ("a->b - >", ["ident", "->", "ident", "-", ">"]),
        (">= <= != = < >", [">=", "<=", "!=", "=", "<", ">"]),
        ('"a" "" "a\\"b"', ["string", "string", "string"]),
        ('"two\nlines"', ["string"]),
        ("a // b\nc /* d */ e", ["ident", "ident", "ident"]),
        ("/***/ /* * / */ x", ["ident"]),
        ("", []),
        (" \t\r\n", []),
        ("\ufeffa", ["ident"]),
    ],
)
def test_kinds(text: str, kinds: list[str]) -> None:
    tokens, found = lexed(text)
    assert tokens.kinds == [*kinds, "eof"]
    assert found.errors == 0


@pytest.mark.parametrize("text", ["'", "#", ";", "$", "$A", "\\x", "\u00a0", "\0", "\u201c", "~"])
def test_stray_characters_are_reported(text: str) -> None:
    _, found = lexed(text)
    assert found.errors >= 1


def test_names_are_ascii_and_one_report_covers_the_word() -> None:
    tokens, found = lexed("na\u00efve x")
    assert tokens.texts[-2:] == ["x", ""]
    assert [item.span for item in found.sorted()] == [(0, 5)]


def test_an_open_string_ends_with_its_line() -> None:
    tokens, found = lexed('a "b c\nd')
    assert tokens.texts == ["a", '"b c', "d", ""]
    assert [item.message for item in found.sorted()] == ["this string is never closed"]


def test_an_open_comment_swallows_the_rest() -> None:
    tokens, found = lexed("a /* b\nc")
    assert tokens.texts == ["a", ""]
    assert [item.message for item in found.sorted()] == ["this comment is never closed"]


def test_half_a_character_is_reported() -> None:
    _, found = lexed('"\ud800"')
    assert [item.message for item in found.sorted()] == ["this character is not valid Unicode"]


def test_comments_are_kept_with_their_places() -> None:
    tokens, _ = lexed("a // one  \n/* two */ b")
    assert [item.text for item in tokens.comments] == ["// one", "/* two */"]
    assert tokens.comments[1].span.start == 11


def test_a_huge_source_is_refused() -> None:
    tokens, found = lexed(" " * (SOURCE_CHARS_MAX + 1))
    assert tokens.kinds == ["eof"]
    assert found.errors == 1


def test_a_lone_carriage_return_ends_a_comment_and_an_open_string() -> None:
    tokens, found = lexed("// one\ra\r\n// two\r\nb // three\r")
    assert tokens.texts == ["a", "b", ""]
    assert [comment.text for comment in tokens.comments] == ["// one", "// two", "// three"]
    assert found.errors == 0
    tokens, found = lexed('"open\rb')
    assert tokens.texts == ['"open', "b", ""]
    assert found.errors == 1


def test_the_lines_of_a_block_comment_end_alike() -> None:
    tokens, _ = lexed("/* a\r\nb\rc\nd */")
    assert [comment.text for comment in tokens.comments] == ["/* a\nb\nc\nd */"]
