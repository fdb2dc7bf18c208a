"""A pattern that the compiler lets pass can be evaluated by the writers."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from omnigraph.lang.catalog.pattern import pattern_fault, rejects

PIECES = st.sampled_from(
    [
        "a",
        "b",
        ".",
        "\\d",
        "\\w",
        "\\s",
        "\\b",
        "[a-c]",
        "[^ab]",
        "(",
        ")",
        "(?:",
        "(?i)",
        "|",
        "*",
        "+",
        "?",
        "{2}",
        "{0,3}",
        "{40}",
        "{1001}",
        "{,3}",
        "{2,}",
        "^",
        "$",
        "\\u0041",
        "\\N{DIGIT ONE}",
        "(?x)",
        "[\\b]",
        "\\Z",
        "\\A",
        "\\1",
        "{",
        "}",
        "-",
        "\\.",
        "é",
        "\\x41",
        "\\n",
        "(?P<n>",
    ]
)


@given(st.lists(PIECES, max_size=8).map("".join))
@example("((a{10}){10}){11}")
@example("(a{40}|b{2}){40}")
def test_what_the_compiler_accepts_the_writers_can_run(pattern: str) -> None:
    if pattern_fault(pattern) is None:
        pc.match_substring_regex(pa.array(["a"]), pattern)


@pytest.mark.parametrize(
    "pattern", ["(?x)a b", "a{1001}", "(a{40}){40}", "\\u0041", "[\\b]", "a{,3}"]
)
def test_what_only_python_understands_is_refused(pattern: str) -> None:
    assert pattern_fault(pattern) is not None


@pytest.mark.parametrize(
    "pattern", ["a{1000}", "a{500}b{600}", "(?i)abc", "(?P<n>a)", "^[^@ ]+@[^@ ]+$"]
)
def test_what_both_understand_passes(pattern: str) -> None:
    assert pattern_fault(pattern) is None


def test_classes_are_ascii_for_both() -> None:
    assert rejects("^\\w+$", "é")
    assert pc.match_substring_regex(pa.array(["é"]), "^\\w+$").to_pylist() == [False]
