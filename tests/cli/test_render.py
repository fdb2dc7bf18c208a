"""Output: plain in a pipe, dressed on a terminal, and the same text in both."""

import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from omnigraph.cli import render
from omnigraph.cli.environment import wants_colour
from omnigraph.cli.plain import Part, Screen, counted, visible
from omnigraph.cli.results import show_rows
from omnigraph.cli.terminal import Terminal
from tests.cli.support import process

ANSI = re.compile(r"\x1b\[[0-9;]*m")
REPORT = """\
people.gq:6:12: error[T6]: node type `Person` has no property `nam`
    6 |   return { $friend.nam as name }
      |            ^^^^^^^^^^^
      = hint: did you mean `name`?
"""


class Tty(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def neutral(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


@pytest.mark.parametrize(
    ("stream", "env", "expected"),
    [
        (Tty(), {}, True),
        (Tty(), {"NO_COLOR": "1"}, False),
        (Tty(), {"NO_COLOR": ""}, True),
        (Tty(), {"TERM": "dumb"}, False),
        (io.StringIO(), {}, False),
        (io.StringIO(), {"FORCE_COLOR": "1"}, True),
        (io.StringIO(), {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
    ],
)
def test_who_gets_colours(
    stream: io.StringIO, env: dict[str, str], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert wants_colour(stream) is expected


def test_streams_choose_their_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", Tty())
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert type(render.out()) is Terminal
    assert type(render.err()) is Screen


def drawn(screen_type: type[Screen], monkeypatch: pytest.MonkeyPatch, columns: int = 80) -> str:
    monkeypatch.setenv("COLUMNS", str(columns))
    stream = io.StringIO()
    screen = screen_type(stream)
    screen.report(REPORT)
    screen.line("a " * 100, ("b", "red"))
    screen.diff("--- x\n+++ x\n@@ -1 +1 @@\n-a\n+b\n c\n")
    return stream.getvalue()


def test_a_terminal_shows_the_same_text_in_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, dressed = (drawn(kind, monkeypatch) for kind in (Screen, Terminal))
    assert "\x1b" not in plain
    assert plain.startswith(REPORT)
    assert "\x1b[1;31merror[T6]\x1b[0m" in dressed
    assert "\x1b[31m-a\x1b[0m\n\x1b[32m+b\x1b[0m\n c\n" in dressed
    assert ANSI.sub("", dressed) == plain


HEADINGS = ("step", "note")
ROWS: list[tuple[Part, Part]] = [
    ("first", "short"),
    (("second", "red"), "a note of several words that takes some room"),
]


def table(screen_type: type[Screen], monkeypatch: pytest.MonkeyPatch, columns: int) -> str:
    monkeypatch.setenv("COLUMNS", str(columns))
    stream = io.StringIO()
    screen_type(stream).table(HEADINGS, ROWS)
    lines = ANSI.sub("", stream.getvalue()).splitlines()
    return "\n".join(line.rstrip() for line in lines)


def test_a_plain_table_is_as_wide_as_it_must_be(monkeypatch: pytest.MonkeyPatch) -> None:
    assert table(Screen, monkeypatch, 20) == (
        "step    note\nfirst   short\nsecond  a note of several words that takes some room"
    )


def test_a_table_on_a_terminal_wraps_its_last_column(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = table(Terminal, monkeypatch, 44)
    assert max(map(len, shown.splitlines())) <= 44
    assert "\nsecond  a note of several words that takes\n        some room" in shown


def test_a_table_on_a_narrow_terminal_stacks(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = table(Terminal, monkeypatch, 30)
    assert shown == (
        "step\nfirst\n    short\nsecond\n    a note of several words\n    that takes some room"
    )


def test_rows_of_a_query_have_all_their_columns_in_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    stream = io.StringIO()
    names = ("a rather long name", "another long name", "the last one")
    rows = [dict.fromkeys(names, "v" * 30), dict.fromkeys(names, "w")]
    show_rows(Terminal(stream), names, rows, "table")
    heading, _, first, second, _ = ANSI.sub("", stream.getvalue()).splitlines()
    assert heading.split("  ") == ["a rather lo…", "another lon…", "the last one"]
    assert [len(each) for each in first.split()] == [12, 12, 12]
    assert max(map(len, (heading, first, second))) <= 40
    assert second.split() == ["w", "w", "w"]


def test_text_cannot_steer_the_terminal() -> None:
    assert visible("a\x1b[31mb\x07\r\x9b\u202ec\td") == "a␛[31mb␇␍\ufffd\ufffdc\td"
    assert visible("größer → 漢字") == "größer → 漢字"


@pytest.mark.parametrize(("number", "text"), [(0, "0 queries"), (1, "1 query"), (2, "2 queries")])
def test_counting(number: int, text: str) -> None:
    assert counted(number, "query", "queries") == text


def test_control_characters_in_a_source_are_shown(folder: Path) -> None:
    (folder / "people.pg").write_bytes(b"node Person {\n  na\x1b[31mme: String\n}\n")
    answer = process("lint", "-s", "people.pg", cwd=folder)
    assert answer.returncode == 1
    assert b"\x1b" not in answer.stdout
    assert "na␛[31mme".encode() in answer.stdout


def test_pipes_are_plain(folder: Path) -> None:
    (folder / "people.gq").write_text("query x() { match { $p: Nobody } return { $p } }")
    for arguments in (
        ("lint", "-s", "people.pg", "-q", "people.gq"),
        ("explain", "-s", "people.pg", "-q", "people.gq"),
        ("schema", "plan", "-s", "people.pg", "--against", "people.pg"),
        ("--help",),
    ):
        answer = process(*arguments, cwd=folder, TERM="xterm-256color")
        assert b"\x1b" not in answer.stdout + answer.stderr


@pytest.mark.skipif(os.name != "posix", reason="needs a pseudo-terminal")
def test_a_real_terminal_gets_colours(folder: Path) -> None:
    import pty  # noqa: PLC0415

    (folder / "people.gq").write_text("query x() { match { $p: Nobody } return { $p } }")
    ours, theirs = pty.openpty()
    command = Path(sys.executable).with_name("omnigraph")
    with subprocess.Popen(
        [command, "lint", "-s", "people.pg", "-q", "people.gq"],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        env={"PATH": os.environ.get("PATH", ""), "TERM": "xterm-256color"},
    ) as child:
        assert child.wait(120) == 1
    os.close(theirs)
    shown = os.read(ours, 65536)
    os.close(ours)
    assert b"\x1b[1;31merror[T1]\x1b[0m" in shown


MESSAGE = "there is no branch of that name; look at the list, and choose one of its branches"


@pytest.mark.parametrize("is_coloured", [True, False])
def test_a_message_is_broken_between_words(
    is_coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("NO_COLOR", "" if is_coloured else "1")
    stream = Tty()
    monkeypatch.setattr(sys, "stderr", stream)
    render.err().message(("error", "red"), f": {MESSAGE}")
    lines = [line.rstrip() for line in ANSI.sub("", stream.getvalue()).splitlines()]
    assert max(map(len, lines)) <= 40
    assert " ".join(lines) == f"error: {MESSAGE}"


def test_a_message_in_a_pipe_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    render.err().message(MESSAGE * 3)
    assert stream.getvalue() == MESSAGE * 3 + "\n"


def test_a_long_source_line_is_cut_around_its_caret() -> None:
    code = "query all() { match { $p: Person } return { $p.name as name, $p.nam as other } }"
    place = code.index("nam as other")
    quoted = f"    1 | {code}\n      | {' ' * place}^^^\n"
    stream = io.StringIO()
    Screen(stream, 40).report(f"a.gq:1:62: error[T6]: no such property\n{quoted}")
    _, line, caret = stream.getvalue().splitlines()
    assert len(line) == 40
    assert line[caret.index("^") :].startswith("nam as other")
    assert caret.count("^") == 3
    assert "…" in line[:10]


def test_a_long_row_of_a_stacked_table_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    stream = io.StringIO()
    Terminal(stream).table(("value", "what is wrong"), [("v" * 50, "it is too long")])
    lines = ANSI.sub("", stream.getvalue()).splitlines()
    assert max(len(line.rstrip()) for line in lines) <= 30
    assert "v" * 29 + "…" in lines
