"""The doors of the query compiler: one text, one report, and a memory by text."""

from __future__ import annotations

import pytest

import tests.corpus.kinds  # noqa: F401 - registers all kinds
from omnigraph.errors import Code, InvalidInput
from omnigraph.lang import QueryCompiler, compile_queries, compile_schema
from omnigraph.lang.catalog.model import Catalog
from omnigraph.lang.ir.ops import MutationPlan, ReadPlan
from omnigraph.lang.query.codes import MEANINGS, QueryCode
from omnigraph.lang.query.compile import CACHE_ENTRIES_MAX
from tests.corpus.harness import cases

CATALOG = compile_schema("node Person { name: String @key } edge Knows: Person -> Person")
ONE = "query one() { match { $p: Person not { $p knows $f } } return { $p.name, $p } }"
TWO = 'query two() { delete Person where name = "x" }'


def test_every_code_has_a_meaning_and_a_case() -> None:
    assert set(MEANINGS) == set(QueryCode)
    shown = "\n".join(case.expected or "" for case in cases("query/reject"))
    missing = {code for code in QueryCode if f"error[{code}]" not in shown}
    assert missing == {code for code in QueryCode if code.startswith("L")}


def test_cases_of_the_corpus_are_in_the_right_folder() -> None:
    first = {str(case): (case.expected or "").split("\n")[0] for case in cases("query/")}
    assert [name for name, line in first.items() if line in ("ACCEPTED", "REJECTED")] == []
    assert len(first) >= 180


def test_plans_come_in_the_order_of_the_text() -> None:
    read, change = compile_queries(f"{ONE}\n{TWO}", CATALOG)
    assert isinstance(read, ReadPlan)
    assert read.columns == ("p.name", "p")
    assert [ref.table_key for ref in read.reads] == ["node:Person", "edge:Knows"]
    assert isinstance(change, MutationPlan)
    assert [ref.table_key for ref in change.writes] == ["node:Person", "edge:Knows"]


def test_the_file_is_named_in_the_report() -> None:
    with pytest.raises(InvalidInput) as caught:
        compile_queries("query q() { match { $x: Nope } return { $x } }", CATALOG, "a/b.gq")
    (item,) = caught.value.diagnostics
    assert (item["file"], item["code"], item["line"], item["column"]) == ("a/b.gq", "T1", 1, 25)
    assert (item["end_line"], item["end_column"]) == (1, 29)
    assert caught.value.code is Code.QUERY_INVALID


def test_syntax_errors_have_a_code_of_their_own() -> None:
    with pytest.raises(InvalidInput) as caught:
        compile_queries("query", CATALOG)
    assert caught.value.code is Code.SYNTAX


def test_an_empty_catalog_compiles_nothing_but_errors() -> None:
    with pytest.raises(InvalidInput):
        compile_queries(ONE, Catalog())
    assert compile_queries("", Catalog()) == ()


def test_the_compiler_finds_a_query_by_name() -> None:
    compiler = QueryCompiler(CATALOG)
    both = f"{ONE}\n{TWO}"
    assert compiler.compile(ONE).name == "one"
    assert compiler.compile(both, "two").name == "two"
    assert compiler.compile(both, "two") is compiler.compile(both, "two")
    for text, name, said in (
        ("", None, "no query"),
        ("// nothing", "one", "no query"),
        (both, None, "name one of: one, two"),
        (both, "tow", "holds no query named `tow`"),
        (ONE, "three", "it holds: one"),
    ):
        with pytest.raises(InvalidInput, match=said):
            compiler.compile(text, name)


def test_the_memory_is_bounded_and_forgets_the_oldest() -> None:
    compiler = QueryCompiler(CATALOG)
    first = compiler.compile(ONE)
    for number in range(CACHE_ENTRIES_MAX):
        compiler.compile(f"{ONE} // {number}")
    again = compiler.compile(ONE)
    assert again == first
    assert again is not first


def test_the_memory_keeps_what_is_used() -> None:
    compiler = QueryCompiler(CATALOG)
    first = compiler.compile(ONE)
    for number in range(2 * CACHE_ENTRIES_MAX):
        compiler.compile(f"{ONE} // {number}")
        assert compiler.compile(ONE) is first


def test_a_rejected_text_is_not_remembered_as_good() -> None:
    compiler = QueryCompiler(CATALOG)
    for _ in range(2):
        with pytest.raises(InvalidInput):
            compiler.compile("query q() { match { $x: Nope } return { $x } }")
