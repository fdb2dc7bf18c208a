"""The front door of the schema language."""

from __future__ import annotations

import pickle

import pytest

from omnigraph.errors import Code, InvalidInput
from omnigraph.lang.catalog.pattern import PATTERN_CHARS_MAX, pattern_fault, rejects
from omnigraph.lang.schema import (
    CODES,
    check_schema,
    compile_schema,
    format_schema_text,
    lint_schema,
    parse_schema,
)
from omnigraph.lang.source import SOURCE_CHARS_MAX, Diagnostics, Severity, Source

BLOB_UNIQUE = "node A { n: String  b: Blob  @unique(n, b) }"


def test_a_catalog_can_be_pickled() -> None:
    catalog = compile_schema("node A { a: String @key } edge E: A -> A")
    assert pickle.loads(pickle.dumps(catalog)) == catalog


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("node A { a String }", Code.SYNTAX),
        ("node A { a String } node A {}", Code.SYNTAX),
        ("node A {} node A {}", Code.SCHEMA_INVALID),
    ],
)
def test_the_code_tells_syntax_from_meaning(text: str, code: Code) -> None:
    with pytest.raises(InvalidInput) as caught:
        compile_schema(text)
    assert caught.value.code is code


def test_an_error_carries_plain_diagnostics() -> None:
    with pytest.raises(InvalidInput) as caught:
        compile_schema("node A {\n  a: Strng\n}", "people.pg")
    assert caught.value.details["diagnostics"] == [
        {
            "severity": "error",
            "code": "S201",
            "message": "there is no type `Strng`",
            "hint": "did you mean `String`?",
            "file": "people.pg",
            "line": 2,
            "column": 6,
            "end_line": 2,
            "end_column": 11,
        }
    ]
    assert str(caught.value).startswith("people.pg:2:6: error[S201]")


def test_warnings_do_not_stop_a_compilation() -> None:
    catalog, found = lint_schema("node A { a: I32 @indexx }")
    assert catalog is not None
    assert [(item.code, item.severity) for item in found.sorted()] == [("S901", Severity.WARNING)]
    assert compile_schema("node A { a: I32 @indexx }") == catalog


def test_a_unique_blob_is_tolerated_only_where_it_is_in_force() -> None:
    with pytest.raises(InvalidInput):
        compile_schema(BLOB_UNIQUE)
    catalog = compile_schema(BLOB_UNIQUE, accepted=True)
    assert catalog.nodes[0].uniques == (("b", "n"),)
    for text in ("node A { b: Blob @unique }", "node A { b: [I32]  @unique(b) }"):
        with pytest.raises(InvalidInput):
            compile_schema(text, accepted=True)


def test_the_number_of_findings_is_bounded() -> None:
    text = "\n".join(f"node T{number} {{ a: Missing{number} }}" for number in range(500))
    with pytest.raises(InvalidInput) as caught:
        compile_schema(text)
    assert caught.value.details["suppressed"] == 400
    assert str(caught.value).endswith("... and 400 more")


def test_the_size_of_a_source_is_bounded() -> None:
    with pytest.raises(InvalidInput, match="the limit is"):
        compile_schema(" " * (SOURCE_CHARS_MAX + 1))


@pytest.mark.parametrize(
    "text",
    [
        " " * 1_000_000,
        "node " * 50_000,
        "node A { a: enum(" + "x," * 50_000 + ") }",
        "@" * 100_000,
        "{" * 100_000,
        '"' * 100_001,
        "/*" * 100_000,
        "node A { a: String " + "@x(" * 50_000,
        "node A { " + "a: [" * 50_000,
        "node " + "A" * 100_000 + " {}",
    ],
    ids=lambda text: text[:12],
)
def test_long_texts_are_no_burden(text: str) -> None:
    lint_schema(text)


def test_half_a_surrogate_pair_is_refused() -> None:
    with pytest.raises(InvalidInput, match="not valid Unicode"):
        compile_schema('node A @description("\ud800") {}')


def test_formatting_refuses_what_does_not_parse() -> None:
    with pytest.raises(InvalidInput) as caught:
        format_schema_text("node A { a String }")
    assert caught.value.code is Code.SYNTAX


def test_a_broken_file_still_has_the_rest_in_its_tree() -> None:
    source = Source("x.pg", "node A { a String  b: I32 }\nnod B {}\nnode C {}")
    found = Diagnostics(source)
    file = parse_schema(source, found)
    assert [item.name.text for item in file.declarations] == ["A", "C"]
    assert found.errors == 2
    assert check_schema(file, found) is None


def test_codes_are_well_formed() -> None:
    assert list(CODES) == sorted(CODES)
    assert all(len(code) == 4 and code[0] == "S" and code[1:].isdigit() for code in CODES)
    assert all(CODES.values())


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        "^a$",
        "[]a]",
        "[^]a]",
        r"[\[\]]",
        r"\d+\w*\bx\B",
        "(?:a|b)?",
        "(?P<n>a)",
        "(?i)x",
        "(?s:.)",
        r"\++",
        "a{2}",
        "a{2,}?",
        r"\0",
        "[a-c&]",
    ],
)
def test_patterns_that_can_be_used(pattern: str) -> None:
    assert pattern_fault(pattern) is None


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        "[a",
        "*a",
        "(?=a)",
        "(?!a)",
        "(?<=a)",
        "(?>a)",
        "(?(1)a)",
        "(?#c)",
        "(?P=n)",
        r"(a)\1",
        "a*+",
        "a?+",
        "a{2}+",
        "[a--b]",
        "[a&&b]",
        "[[a]]",
        r"\Z",
        r"\p{L}",
        "a" * (PATTERN_CHARS_MAX + 1),
        "(" * 51 + ")" * 51,
    ],
)
def test_patterns_that_cannot_be_used(pattern: str) -> None:
    assert pattern_fault(pattern) is not None


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("^a", "abc", False),
        ("^a", "b", True),
        ("", "", False),
        ("[0-9]{2,4}", "a12", False),
        ("^[0-9]{2,4}$", "a12", True),
        ("^[^@]+@[^@]+$", "somebody@example.org", False),
        ("^[^@]+@[^@]+$", "somebody.example.org", True),
        ("(?i)^abc$", "ABC", False),
        ("^(a|b)+$", "c", True),
        # Here Python could be busy for hours, so nothing is claimed.
        ("^(a+)+$", "a" * 40 + "!", False),
        ("^(a|a)*$", "a" * 40 + "!", False),
        ("^(a?){500}$", "a" * 40 + "!", False),
        ("^((a{1,9}){1,9}){1,9}$", "a" * 40 + "!", False),
        ("a*" * 30 + "b", "a" * 40, False),
        ("^((?:a|b)*c?)*$", "ab" * 40 + "!", False),
    ],
)
def test_a_text_is_rejected_only_when_that_is_certain(
    pattern: str, text: str, expected: bool
) -> None:
    assert pattern_fault(pattern) is None
    assert rejects(pattern, text) is expected
