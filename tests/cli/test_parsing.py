"""Words of a command line become values, or a message that says what is wrong with them."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest

from omnigraph.cli.parameters import Argument, CommandParameter, Option, UsageError
from omnigraph.cli.parsing import HelpRequested, split_options, values_of

REQUIRED = inspect.Parameter.empty
PARAMETERS = [
    CommandParameter("first", Annotated[str, Argument()], REQUIRED),
    CommandParameter("rest", Annotated[list[Path] | None, Argument(metavar="PATH")], None),
    CommandParameter("count", Annotated[int, Option("--count", "-c", min=1, max=9)], 1),
    CommandParameter("share", Annotated[float | None, Option("--share")], None),
    CommandParameter(
        "form", Annotated[Literal["csv", "json"] | None, Option("--format", "-f")], None
    ),
    CommandParameter("tags", Annotated[list[str] | None, Option("--tag", "-t")], None),
    CommandParameter("loud", Annotated[bool, Option("--loud", "-l")], False),
    CommandParameter("bare", Annotated[bool, Option("--bare", "-b")], False),
    CommandParameter("by_name", Annotated[str | None, Option(metavar="TEXT")], None),
]
DEFAULTS = {
    "rest": None, "count": 1, "share": None, "form": None, "tags": None, "loud": False,
    "bare": False, "by_name": None,
}  # fmt: skip


def parsed(words: str) -> dict[str, Any]:
    return values_of(split_options(words.split(), PARAMETERS, interspersed=True), PARAMETERS)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("a", {"first": "a"}),
        ("a b c", {"first": "a", "rest": [Path("b"), Path("c")]}),
        ("a --count 3", {"first": "a", "count": 3}),
        ("--count=3 a", {"first": "a", "count": 3}),
        ("-c3 a", {"first": "a", "count": 3}),
        ("-c 3 -c 4 a", {"first": "a", "count": 4}),
        ("-lb a", {"first": "a", "loud": True, "bare": True}),
        ("-lbc 2 a", {"first": "a", "loud": True, "bare": True, "count": 2}),
        ("-lc2 a", {"first": "a", "loud": True, "count": 2}),
        ("a --tag x -t y --tag=", {"first": "a", "tags": ["x", "y", ""]}),
        ("a --share 0.5 -f csv", {"first": "a", "share": 0.5, "form": "csv"}),
        ("a --by-name -x", {"first": "a", "by_name": "-x"}),
        ("-- -l --count", {"first": "-l", "rest": [Path("--count")]}),
        ("- -", {"first": "-", "rest": [Path("-")]}),
    ],
)
def test_words_become_values(words: str, expected: dict[str, Any]) -> None:
    assert parsed(words) == {**DEFAULTS, **expected}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "Missing argument 'FIRST'."),
        ("a --cuont 3", "No such option: --cuont. Did you mean --count?"),
        ("a -x", "No such option: -x."),
        ("a -lx", "No such option: -x."),
        ("a --count", "Option '--count' needs a value."),
        ("a -c", "Option '-c' needs a value."),
        ("a --loud=yes", "Option '--loud' takes no value."),
        ("a --count many", "Invalid value for '--count': 'many' is not a whole number."),
        ("a --count 10", "Invalid value for '--count': 10 is not between 1 and 9."),
        ("a --share x", "Invalid value for '--share': 'x' is not a number."),
        ("a -f xml", "Invalid value for '--format': 'xml' is none of 'csv', 'json'."),
    ],
)
def test_a_wrong_call_says_what_is_wrong(words: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parsed(words)
    assert str(caught.value) == message


def test_one_word_too_many_is_named() -> None:
    with pytest.raises(UsageError, match="Got unexpected arguments: b c"):
        values_of(split_options(["a", "b", "c"], PARAMETERS, interspersed=True), PARAMETERS[:1])


@pytest.mark.parametrize("words", ["-h", "a --help", "--count 3 -h"])
def test_help_is_asked_for_anywhere_but_behind_two_dashes(words: str) -> None:
    with pytest.raises(HelpRequested):
        parsed(words)
    assert parsed("-- --help")["first"] == "--help"


def test_options_of_a_group_end_at_its_command() -> None:
    given = split_options(["--loud", "query", "--loud"], PARAMETERS, interspersed=False)
    assert (given.options, given.arguments) == ({"loud": []}, ["query", "--loud"])
