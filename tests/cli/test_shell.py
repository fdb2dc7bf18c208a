"""`omnigraph shell`: statements of a file, names that fit, and a real terminal."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.cli.shell.input import as_query, is_complete
from omnigraph.cli.shell.names import ShellNames, completions
from tests.cli.support import SCHEMA, invoke

NAMES = ShellNames(
    properties={"Person": ("born", "name"), "Company": ("city",), "Knows": ()},
    edges=("knows",),
    commands={":branch": ("draft", "main"), ":format": ("csv", "table"), ":quit": ()},
)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("shell") / "people.omni"
    with og.init(place, SCHEMA) as graph:
        graph.load({"Person": [{"name": "Ada"}, {"name": "Bo"}]})
        graph.branches.create("draft")
    return place


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("", True),
        (":branch draft", True),
        ("query q() {", False),
        ("query q() { match { $p: Person } return { $p } }", True),
        ('query q() { match { $p: Person { name: "}" }', False),
        ("match { $p: Person }", False),
        ("match { $p: Person } return { $p.name }", True),
        ("match { $p: Person } // return { $p }", False),
        ('insert Person { name: "Cy" }', True),
        ("insert Person {", False),
        ('delete Person where name = "Cy"', True),
        ("match { $p: Person };", True),
    ],
)
def test_a_statement_ends_where_its_braces_do(text: str, complete: bool) -> None:
    assert is_complete(text) is complete


def test_statements_without_a_header_get_one() -> None:
    assert as_query('insert Person { name: "Cy" };') == (
        'query shell() {\ninsert Person { name: "Cy" }\n}'
    )
    assert as_query("query q() { }") == "query q() { }"


@pytest.mark.parametrize(
    ("text", "word", "expected"),
    [
        (":fo", ":fo", [":format"]),
        (":branch d", "d", ["draft"]),
        ("match { $p: Pe", "Pe", ["Person"]),
        ("insert Com", "Com", ["Company"]),
        ("match { $p: Person } return { $p.n", "n", ["name"]),
        ("match { $p: Person  $p.", "", ["born", "name"]),
        ("match { $p: Person  $p kn", "kn", ["knows"]),
        ("match { $person: Person } return { $pe", "$pe", ["$person"]),
        ("insert Person { bo", "bo", ["born"]),
        ("mat", "mat", ["match"]),
    ],
)
def test_names_fit_their_place(text: str, word: str, expected: list[str]) -> None:
    assert completions(text, NAMES) == (word, expected)


def run(stored: Path, text: str) -> tuple[int, str, str]:
    answer = invoke("shell", stored, stdin=text.encode())
    return answer.exit_code, answer.stdout, answer.stderr


def test_statements_of_a_file_run_one_after_the_other(stored: Path) -> None:
    status, out, err = run(
        stored,
        """:branch draft
insert Person { name: "Cy" }
match { $p: Person }
return { $p.name as name } order { name }
:format csv
:at draft~1
match { $p: Person } return { count($p) as n }
:at
:param who="Cy"
query q($who: String) { match { $p: Person { name: $who } } return { $p.name as name } }
match { $p: Person } return { count($p) as n }
:schema Knows
:branch
:quit
:nothing
""",
    )
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith("1 node, 0 edges, commit ")
    assert lines[1:6] == ["name", "Ada", "Bo", "Cy", "3 rows"]
    assert lines[6] == ":format is csv"
    assert lines[8:10] == ["n", "2"]
    assert lines[10:] == [
        "who = 'Cy'", "name", "Cy", "n", "3", "edge Knows: Person -> Person", "* draft", "  main",
    ]  # fmt: skip


def test_a_failure_is_told_and_the_session_goes_on(stored: Path) -> None:
    status, out, err = run(
        stored,
        ":formt\nmatch { $p: Persn } return { $p.name }\n:branch nowhere\n:explain on\n"
        "match { $p: Person } return { $p.name }\n:timer\n",
    )
    assert status == 1
    assert "did you mean `:format`" in err
    assert "did you mean" in err.partition("Persn")[2]
    assert "nowhere" in err
    assert out.startswith(":explain is on\n")
    assert out.endswith(":timer is on\n")


class Terminal:
    """The shell in a pseudo-terminal, as somebody at a keyboard has it."""

    def __init__(self, place: Path, home: Path) -> None:
        self._end, inner = pty.openpty()
        command = str(Path(sys.executable).with_name("omnigraph"))
        variables = {"OMNIGRAPH_HOME": str(home), "TERM": "xterm", "NO_COLOR": "1", "PAGER": "cat"}
        # Nobody here answers where the cursor is.
        variables |= {"PROMPT_TOOLKIT_NO_CPR": "1", "PATH": os.environ.get("PATH", "")}
        self._process = subprocess.Popen(
            [command, "shell", str(place)],
            stdin=inner,
            stdout=inner,
            stderr=inner,
            env=variables,
            start_new_session=True,
        )
        os.close(inner)
        self.seen = ""

    def wait_for(self, text: str) -> None:
        """Read until a text appears behind what was waited for last."""
        while text not in self.seen:
            ready, _, _ = select.select([self._end], [], [], 30)
            assert ready, f"{text!r} did not appear: {self.seen!r}"
            self.seen += os.read(self._end, 65536).decode(errors="replace")
        self.seen = self.seen.partition(text)[2]

    def type(self, text: str) -> None:
        os.write(self._end, text.encode())

    def end(self) -> int:
        """Press Ctrl-D until the shell is gone: between two prompts nobody reads it as a key."""
        with suppress(OSError):
            os.write(self._end, b"\x04")
            while True:
                ready, _, _ = select.select([self._end], [], [], 2)
                if not ready:
                    os.write(self._end, b"\x04")
                elif not os.read(self._end, 65536):
                    break
        os.close(self._end)
        return self._process.wait(timeout=120)


def test_the_shell_in_a_terminal(stored: Path, tmp_path: Path) -> None:
    terminal = Terminal(stored, tmp_path)
    terminal.wait_for("main>")
    terminal.type("match { $p: Per\t")
    terminal.wait_for("son")
    terminal.type(" }\r")  # not complete yet: a second line
    terminal.wait_for(".....")
    terminal.type("return { $p.na\t")
    terminal.wait_for("me")
    terminal.type(" as who } order { who }\r")
    terminal.wait_for("2 rows")
    terminal.wait_for("main>")
    terminal.type(":br\t")
    terminal.wait_for("anch")
    terminal.type(" dr\t")
    terminal.wait_for("aft")
    terminal.type("\r")
    terminal.wait_for("draft>")
    terminal.type("\x1b[A\x1b[A\r")  # the query before, out of the history
    terminal.wait_for("rows")
    terminal.wait_for("draft>")
    terminal.type("match {\x03")  # a line that is dropped
    terminal.wait_for("draft>")
    assert terminal.end() == 0
    (history,) = (tmp_path / "shell").iterdir()
    assert history.stat().st_mode & 0o777 == 0o600
    assert "+match { $p: Person }\n+return { $p.name as who } order { who }" in history.read_text()
