"""The page that both formatters write on."""

from __future__ import annotations

from omnigraph.lang.layout import WIDTH, Layout, commas
from omnigraph.lang.source import Diagnostics, Source, Span
from omnigraph.lang.tokens import lex


def page_for(text: str) -> Layout:
    source = Source("f", text)
    return Layout(text, lex(source, Diagnostics(source), "Q000").comments)


def words(text: str, *items: str) -> str:
    """Lay out these words of a text, one per line, inside a block."""
    page = page_for(text)
    page.open(Span(0, 1), "{")
    for item in items:
        at = text.index(item)
        page.item(Span(at, at + len(item)), item)
    page.close(len(text))
    return page.finish()


def test_nothing_is_nothing() -> None:
    assert Layout().finish() == ""


def test_a_tree_without_source_has_no_comments_and_no_gaps() -> None:
    page = Layout()
    page.open(Span(0, 0), "a {")
    page.item(Span(0, 0), "b")
    page.close(0)
    page.blank()
    page.item(Span(0, 0), "c")
    assert page.finish() == "a {\n  b\n}\n\nc\n"


def test_comments_keep_their_side() -> None:
    text = "{ // open\n // lead\n one // trail\n two /* same */ // line\n // last\n}"
    assert words(text, "one", "two") == (
        "{  // open\n  // lead\n  one  // trail\n  two  /* same */  // line\n  // last\n}\n"
    )


def test_a_comment_inside_an_item_moves_above_it() -> None:
    text = "/* a */ x /* b */ y"
    page = page_for(text)
    page.item(Span(8, len(text)), "x y")
    assert page.finish() == "/* a */\n/* b */\nx y\n"


def test_one_blank_line_survives() -> None:
    text = "{\n\n\none\n\n\n\ntwo\nthree\n\n}"
    assert words(text, "one", "two", "three") == "{\n  one\n\n  two\n  three\n}\n"


def test_a_comment_of_several_lines_is_kept_as_it_is() -> None:
    text = "/* a\n     b */\nx"
    page = page_for(text)
    page.item(Span(len(text) - 1, len(text)), "x")
    assert page.finish() == text + "\n"


def test_comments_after_everything_are_kept() -> None:
    text = "x\n// end\n\n// very end"
    page = page_for(text)
    page.item(Span(0, 1), "x")
    assert page.finish() == text + "\n"


def test_what_fits() -> None:
    page = Layout()
    assert page.fits("x" * WIDTH)
    assert not page.fits("x" * (WIDTH + 1))
    assert not page.fits("a\nb")
    page.open(Span(0, 0), "{")
    assert not page.fits("x" * (WIDTH - 1))


def test_holding_a_comment() -> None:
    page = page_for("a /* b */ c")
    assert page.holds_comment(Span(0, 11))
    assert not page.holds_comment(Span(9, 11))
    page.item(Span(0, 11), "a c")
    assert not page.holds_comment(Span(0, 11))


def test_lists() -> None:
    assert commas(["a", 1, None]) == "a, 1, None"
