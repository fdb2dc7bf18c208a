"""Positions, reports and spelling hints."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.errors import Code, InvalidInput
from omnigraph.lang.source import (
    DIAGNOSTICS_MAX,
    Diagnostic,
    Diagnostics,
    Severity,
    Source,
    Span,
    as_json,
    did_you_mean,
    render,
)


def shown(text: str, start: int, end: int, hint: str | None = None) -> list[str]:
    source = Source("f.gq", text)
    return render(source, [Diagnostic("T1", "wrong", Span(start, end), hint)]).split("\n")


# -- positions -------------------------------------------------------------------------------


@given(st.text(st.sampled_from("ab\n\r\t\u00e9\U0001f418")), st.integers(0, 40))
def test_a_position_leads_back_to_its_offset(text: str, offset: int) -> None:
    source = Source("f", text)
    line, column = source.position(offset)
    lines = (text + "x").splitlines(keepends=True)
    assert len("".join(lines[: line - 1])) + column - 1 == min(offset, len(text))
    assert source.line(line) == lines[line - 1].rstrip("\r\n").removesuffix("x")


def test_lines_have_no_line_ends() -> None:
    source = Source("f", "one\r\ntwo\n\nfour\rfive\r")
    lines = [source.line(number) for number in range(1, 7)]
    assert lines == ["one", "two", "", "four", "five", ""]
    assert source.position(source.text.index("five")) == (5, 1)


# -- rendering -------------------------------------------------------------------------------


def test_a_report_names_the_place_and_points_at_it() -> None:
    assert shown("let it be\n", 4, 6) == [
        "f.gq:1:5: error[T1]: wrong",
        "    1 | let it be",
        "      |     ^^",
    ]


def test_a_hint_follows() -> None:
    assert shown("x", 0, 1, "do better")[-1] == "      = hint: do better"


def test_the_caret_keeps_tabs() -> None:
    lines = shown("\ta\tbc", 3, 5)
    assert lines[0].startswith("f.gq:1:4:")
    assert lines[2] == "      | \t \t^^"


def test_the_caret_stands_below_wide_characters() -> None:
    assert shown("\u540d\u524d x", 3, 4)[2] == "      |      ^"


def test_a_line_of_crlf_text() -> None:
    assert shown("one\r\ntwo\r\n", 5, 8) == [
        "f.gq:2:1: error[T1]: wrong",
        "    2 | two",
        "      | ^^^",
    ]


def test_a_span_over_several_lines_ends_with_its_first() -> None:
    assert shown("ab cd\nef", 3, 8)[1:] == ["    1 | ab cd", "      |    ^^"]


def test_an_empty_span_has_one_caret() -> None:
    assert shown("abc", 1, 1)[2] == "      |  ^"
    assert shown("abc", 3, 3)[2] == "      |    ^"


def test_the_end_of_the_text_can_be_pointed_at() -> None:
    assert shown("abc\n", 4, 4) == ["f.gq:2:1: error[T1]: wrong", "    2 | ", "      | ^"]


def test_a_long_line_is_cut_around_the_caret() -> None:
    lines = shown("x" * 500 + "HERE" + "y" * 500, 500, 504)
    assert lines[0].startswith("f.gq:1:501:")
    assert len(lines[1]) == len("    1 | ") + 200
    at = lines[2].index("^")
    assert lines[1][at : at + 4] == "HERE"
    assert lines[2].count("^") == 4


def test_the_carets_stay_inside_a_cut_line() -> None:
    lines = shown("x" * 1000, 150, 950)
    assert len(lines[2]) <= len(lines[1])


@given(st.text(max_size=300), st.integers(0, 300), st.integers(0, 300))
def test_any_span_of_any_text_can_be_shown(text: str, start: int, length: int) -> None:
    source = Source("f", text)
    item = Diagnostic("T1", "wrong", Span(start, start + length))
    assert "^" in render(source, [item])
    plain = as_json(source, item)
    assert plain["file"] == "f"
    assert (plain["line"], plain["column"]) == source.position(start)


# -- collecting ------------------------------------------------------------------------------


def test_findings_are_sorted_and_each_is_kept_once() -> None:
    found = Diagnostics(Source("f", "abc"))
    found.error("T2", "second", Span(1, 2))
    found.error("T1", "first", Span(0, 1))
    found.error("T2", "again", Span(1, 2))
    assert [item.message for item in found.sorted()] == ["first", "second"]
    assert found.errors == 2


def test_warnings_do_not_reject() -> None:
    found = Diagnostics(Source("f", "abc"))
    found.add(Diagnostic("L1", "hm", Span(0, 1), None, Severity.WARNING))
    found.reject_if_errors(Code.QUERY_INVALID)
    assert found.errors == 0


def test_a_rejection_carries_everything_up_to_the_bound() -> None:
    found = Diagnostics(Source("f", "x" * 300))
    for at in range(DIAGNOSTICS_MAX + 7):
        found.error("T1", "wrong", Span(at, at + 1))
    with pytest.raises(InvalidInput) as caught:
        found.reject_if_errors(Code.QUERY_INVALID)
    assert len(caught.value.diagnostics) == DIAGNOSTICS_MAX
    assert caught.value.details["suppressed"] == 7
    assert str(caught.value).endswith("... and 7 more")


# -- hints -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "known", "meant"),
    [
        ("Persn", ["Person", "Company"], "Person"),
        ("knwos", ["knows", "known"], "knows"),
        ("NAME", ["name"], "name"),
        ("contians", ["contains", "starts_with"], "contains"),
        ("nme", ["name", "age"], "name"),
        ("q", ["p"], None),
        ("ab", ["ac"], None),
        ("AGE", ["age"], "age"),
        ("completely", ["different"], None),
        ("name", [], None),
    ],
)
def test_did_you_mean(word: str, known: list[str], meant: str | None) -> None:
    assert did_you_mean(word, known) == (meant and f"did you mean `{meant}`?")


def test_the_closest_spelling_wins_and_then_the_alphabet() -> None:
    assert did_you_mean("abcdef", ["abcdxx", "abcdex"]) == "did you mean `abcdex`?"
    assert did_you_mean("abcdef", ["abcdey", "abcdex"]) == "did you mean `abcdex`?"


def test_very_long_words_get_no_hint() -> None:
    assert did_you_mean("a" * 81, ["a" * 80]) is None
