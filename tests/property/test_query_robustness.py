"""Whatever the text, the query compiler answers with plans or with one `InvalidInput`."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from omnigraph.errors import Code, InvalidInput
from omnigraph.lang import compile_queries
from omnigraph.lang.ir.explain import explain
from omnigraph.lang.query.lint import lint_queries
from omnigraph.lang.source import DIAGNOSTICS_MAX
from tests.property.query_programs import ALL, CATALOG, steps, tokens

HOSTILE = (
    "\0", "\ud800", "\u202e", "\ufeff", "\u2028", "e\u0301", "\U0001f418", "\r", "\t", "\x7f", "'",
    "\"", "\\", "/*", "*/", "//", "$", "$$", "#", ";", "{", "}", "(", ")", "[", "]", "<", ">", "=",
    "!", "!=", "-", "--", ".", "..", ",", ":", "?", "@", "9" * 30, "1e999", "0x1", "1.", ".5", "_",
    "query", "query q(", "match {", "return {", "not", "not {", "optional {", "and", "or", "in [",
    "is null", "insert T {", "update T set {", "delete T where", "order {", "limit", "offset",
)  # fmt: skip


def outcome(text: str) -> str:
    """Compile a text and check that the answer is one of the two that there are."""
    try:
        plans = compile_queries(text, CATALOG)
    except InvalidInput as error:
        check_report(error, len(re.split("\r\n?|\n", text)))
        return str(error)
    return "".join(explain(plan) for plan in plans)


def check_report(error: InvalidInput, lines: int) -> None:
    assert error.code in (Code.SYNTAX, Code.QUERY_INVALID)
    assert 1 <= len(error.diagnostics) <= DIAGNOSTICS_MAX
    for item in error.diagnostics:
        line, column = item["line"], item["column"]
        assert isinstance(line, int)
        assert isinstance(column, int)
        assert 1 <= line <= lines
        assert column >= 1


@given(st.text())
@example("\ud800")
@example('query q() { match { $p: Person { name: "\ud800" } } return { $p.name } }')
@example("\0")
def test_any_text(text: str) -> None:
    outcome(text)


@given(
    st.lists(st.sampled_from([*HOSTILE, "$p", "Person", "name", "\n", " ", '"x"', "3"])).map(
        " ".join
    )
)
def test_any_mixture_of_pieces(text: str) -> None:
    outcome(text)


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """A program of the corpus after a few accidents with its tokens."""
    words = tokens(draw(st.sampled_from(ALL)))
    for _ in range(draw(st.integers(1, 4))):
        if not words:
            break
        at = draw(st.integers(0, len(words) - 1))
        match draw(st.integers(0, 5)):
            case 0:
                del words[at]
            case 1:
                words.insert(at, words[at])
            case 2:
                other = draw(st.integers(0, len(words) - 1))
                words[at], words[other] = words[other], words[at]
            case 3:
                del words[at:]
            case 4:
                words.insert(at, draw(st.sampled_from(HOSTILE)))
            case _:
                words[at] = words[at][: len(words[at]) // 2]
    return draw(st.sampled_from((" ", "\n"))).join(words)


@given(damaged())
def test_damaged_programs(text: str) -> None:
    said = outcome(text)
    report = lint_queries(text, CATALOG)
    assert report.ok == (not said or "error[" not in said)


@given(st.sampled_from(ALL), st.data())
def test_truncated_programs(text: str, data: st.DataObject) -> None:
    outcome(text[: data.draw(st.integers(0, len(text)))])


READ = "query q() {{ match {{ $p: Person {} }} return {{ $p.name }} }}"
DEEP: dict[str, Callable[[int], str]] = {
    "parentheses": lambda n: READ.format("(" * n + "$p.age = 1" + ")" * n),
    "open parentheses": lambda n: READ.format("(" * n),
    "not": lambda n: READ.format("not " * n + "$p.age = 1"),
    "not blocks": lambda n: READ.format("not { $p.age = 1 " * n + "}" * n),
    "open not blocks": lambda n: "query q() { match { " + "not { " * n,
    "optional blocks": lambda n: READ.format("optional { $p knows $f " * n + "}" * n),
    "lists": lambda n: READ.format("$p.age in " + "[" * n + "]" * n),
    "open lists": lambda n: READ.format("$p.age in " + "[" * n),
    "calls": lambda n: READ.format("$p.age = " + "count(" * n + ")" * n),
    "values": lambda n: READ.format("{ age: " + "[" * n + "]" * n + " }"),
    "where": lambda n: f"query q() {{ delete Person where {'(' * n}age = 1{')' * n} }}",
}


@pytest.mark.parametrize("shape", sorted(DEEP))
@pytest.mark.parametrize("depth", [1, 40, 63, 64, 65, 5_000])
def test_depth_is_bounded(shape: str, depth: int) -> None:
    said = outcome(DEEP[shape](depth))
    assert "deeper than 64" in said or depth < 65


LONG: dict[str, Callable[[int], str]] = {
    "identifier": lambda n: READ.format(f"$p.{'a' * n} = 1"),
    "variable": lambda n: READ.format(f"${'a' * n}.age = 1"),
    "number": lambda n: READ.format(f"$p.age = {'9' * n}"),
    "fraction": lambda n: READ.format(f"$p.weight = 0.{'9' * n}"),
    "exponent": lambda n: READ.format(f"$p.weight = 1e{'9' * n}"),
    "string": lambda n: READ.format(f'$p.name = "{"x" * n}"'),
    "open string": lambda n: READ.format('$p.name = "' + "\\" * n),
    "comment": lambda n: READ.format("/*" + "*" * n + "*/"),
    "open comment": lambda n: READ.format("/*" + "*" * n),
    "byte order marks": lambda n: READ.format("\ufeff" * n) + "\ufeff" * n,
    "blanks": lambda n: READ.format(" " * n) + "\n" * n,
}


@pytest.mark.parametrize("shape", sorted(LONG))
def test_long_pieces(shape: str) -> None:
    said = outcome(LONG[shape](100_000))
    assert len(said) < 200_000 + 1_000


# What grows with the input, one item at a time: clauses, names, mistakes.
WIDE: dict[str, Callable[[int], str]] = {
    "bindings": lambda n: READ.format(" ".join(f"$p{i}: Person" for i in range(n))),
    "anonymous": lambda n: READ.format("$p knows $_ " * n),
    "chain": lambda n: READ.format(
        "$p knows $f0 " + " ".join(f"$f{i} knows $f{i + 1}" for i in range(n))
    ),
    "chain backwards": lambda n: READ.format(
        " ".join(f"$f{i} knows $f{i + 1}" for i in reversed(range(n))) + " $f0 knows $p"
    ),
    "star": lambda n: READ.format(" ".join(f"$p knows $f{i}" for i in range(n))),
    "islands": lambda n: READ.format(" ".join(f"$a{i} knows $b{i}" for i in range(n))),
    "untyped": lambda n: READ.format(
        " ".join(f"$a{i} worksAt $b{i} $c{i} worksAt $b{i}" for i in range(n))
    ),
    "untyped chain": lambda n: READ.format(
        "$a0 worksAt $b $b knows $c " + " ".join(f"$a{i + 1} worksAt $_" for i in range(n))
    ),
    "undecided chain": lambda n: READ.format(
        " ".join(f"$a{i} worksAt $a{i + 1}" for i in range(n + 1))
    ),
    "undecided parts": lambda n: READ.format(
        " ".join(f"$a{i} worksAt $b{i} $b{i} worksAt $c{i}" for i in range(n))
    ),
    "blocks that bind again": lambda n: READ.format(
        "optional { $p knows $f } " + "not { $f: Person } " * n
    ),
    "filters": lambda n: READ.format("$p.age = 1 " * n),
    "filtered chain": lambda n: READ.format(
        "$p knows $f0 "
        + " ".join(f"$f{i} knows $f{i + 1} $f{i}.age > $f{i + 1}.age" for i in range(n))
    ),
    "conditions": lambda n: READ.format("$p.age = 1" + " or $p.age = 2" * n),
    "list": lambda n: READ.format("$p.age in [" + "1, " * n + "]"),
    "not blocks": lambda n: READ.format("not { $p knows $f } " * n),
    "optional blocks": lambda n: READ.format(
        " ".join(f"optional {{ $p knows $f{i} }}" for i in range(n))
    ),
    "optional chain": lambda n: READ.format(
        "optional { $p knows $f0 } "
        + " ".join(f"optional {{ $f{i} knows $f{i + 1} }}" for i in range(n))
    ),
    "columns": lambda n: (
        "query q() { match { $p: Person } return { "
        + ", ".join(f"$p.age as c{i}" for i in range(n))
        + " } order { "
        + ", ".join(f"c{i}" for i in range(n))
        + " } }"
    ),
    "distinct columns": lambda n: (
        "query q() { match { $p: Person } return distinct { "
        + ", ".join(f"$p.age as c{i}" for i in range(n))
        + " } order { c0 } }"
    ),
    "where": lambda n: "query q() { delete Person where age = 1" + " or age in [1, 2]" * n + " }",
    "statements": lambda n: "query q() { " + 'insert Person { name: "x" } ' * n + "}",
    "queries": lambda n: "".join(
        f"query q{i}() {{ match {{ $p: Person }} return {{ $p.name }} }}\n" for i in range(n)
    ),
    "syntax errors": lambda n: "query q() { match {\n" + "$p ?\n" * n + "} return { $p } }",
    "broken queries": lambda n: "query q() { match { $p person } return { $p } }\n" * n,
    "unbound": lambda n: READ.format(" ".join(f"$x{i}.age = 1" for i in range(n))),
    "unknown types": lambda n: READ.format(" ".join(f"$x{i}: Pers{i}" for i in range(n))),
    "unknown edges": lambda n: READ.format(" ".join(f"$p nkows{i} $x{i}" for i in range(n))),
    "unknown properties": lambda n: READ.format(" ".join(f"$p.agee{i} = 1" for i in range(n))),
}


@pytest.mark.parametrize("shape", sorted(WIDE))
def test_work_grows_with_the_input_and_not_faster(shape: str) -> None:
    outcome(WIDE[shape](1))  # first uses fill caches
    small = steps(lambda: outcome(WIDE[shape](150)))
    large = steps(lambda: outcome(WIDE[shape](600)))
    assert large < 6 * small


def test_a_large_program_compiles() -> None:
    text = WIDE["filtered chain"](3_000)
    assert outcome(text).count("expand") == 3_001
