"""Lint: per-query results, warnings, and the plain form that tools read."""

from typing import Any, cast

from omnigraph.lang import compile_schema
from omnigraph.lang.query.lint import LintReport, lint_queries

CATALOG = compile_schema(
    """
    node Person {
      name: String @key
      age: I32?
      city: String?
      bio: String?
      vector: Vector(3)? @embed(bio)
    }
    node Company { name: String @key }
    edge Knows: Person -> Person { since: Date? }
    edge WorksAt: Person -> Company
    """
)


def lint(text: str) -> LintReport:
    return lint_queries(text, CATALOG, "q.gq")


def plain(text: str) -> dict[str, Any]:
    return cast("dict[str, Any]", lint(text).to_json({"kind": "file", "path": "s.pg"}))


def codes(text: str) -> list[str]:
    return [item.diagnostic.code for item in lint(text).findings]


READ = "query people($c: String) { match { $p: Person { city: $c } } return { $p.name, $p } }"


def test_a_clean_file() -> None:
    assert plain(READ) == {
        "status": "ok",
        "schema_source": {"kind": "file", "path": "s.pg"},
        "query_path": "q.gq",
        "queries_processed": 1,
        "errors": 0,
        "warnings": 0,
        "infos": 0,
        "results": [
            {
                "name": "people",
                "kind": "read",
                "status": "ok",
                "warnings": [],
                "operation": {
                    "params": [{"name": "c", "kind": "string", "nullable": False}],
                    "result": [
                        {"name": "p.name", "kind": "string", "nullable": False},
                        {"name": "p", "kind": "object", "nullable": False},
                    ],
                    "reads": [{"kind": "node", "type_name": "Person"}],
                    "writes": [],
                },
            }
        ],
        "findings": [],
    }


def test_an_empty_file_is_fine() -> None:
    report = plain("// nothing here\n")
    assert (report["status"], report["queries_processed"]) == ("ok", 0)


def test_one_broken_query_leaves_the_others_alone() -> None:
    report = plain(f"query bad() {{ match {{ $p: Persn }} return {{ $p.name }} }}\n{READ}")
    bad, good = report["results"]
    assert (bad["status"], good["status"]) == ("error", "ok")
    assert bad["error"].startswith("T1: ")
    assert "operation" not in bad
    assert good["operation"]["reads"] == [{"kind": "node", "type_name": "Person"}]
    assert report["findings"][0]["query_names"] == ["bad"]


def test_text_that_does_not_parse() -> None:
    report = plain("query oops( {")
    assert report["status"] == "error"
    assert report["findings"][0]["code"] == "Q000"
    assert (report["findings"][0]["line"], report["findings"][0]["column"]) == (1, 13)


def test_a_mutation_without_parameters_is_pointed_out() -> None:
    assert "L202" in codes('query add() { insert Person { name: "Ada" } }')
    assert "L202" not in codes("query add($n: String) { insert Person { name: $n } }")
    assert "L202" not in codes("query all() { match { $p: Person } return { $p.name } }")


def test_an_unused_parameter_is_pointed_out() -> None:
    report = plain("query all($x: I32) { match { $p: Person } return { $p.name } }")
    assert report["warnings"] == 1
    assert report["status"] == "ok"
    (found,) = report["findings"]
    assert found["message"] == "the parameter `$x` is never used"
    assert (found["column"], found["end_column"]) == (11, 18)


def test_parameters_used_anywhere_count_as_used() -> None:
    text = """
    query q($a: String, $b: I64, $c: [I32], $d: String, $e: Vector(3)) {
      match {
        $p: Person { city: $a }
        not { $p.age in $c }
        search($p.bio, $d)
      }
      return { $p.name }
      order { nearest($p.vector, $e) }
      limit $b
    }
    """
    assert codes(text) == []


def test_unconnected_parts_are_pointed_out() -> None:
    text = "query q() { match { $p: Person $c: Company } return { $p.name, $c.name as c } }"
    assert codes(text) == ["L204"]
    joined = "query q() { match { $p: Person $p worksAt $c } return { $p.name, $c.name as c } }"
    assert codes(joined) == []


def test_properties_that_no_update_sets() -> None:
    text = "query age($n: String, $a: I32) { update Person set { age: $a } where name = $n }"
    found = [item for item in plain(text)["findings"] if item["code"] == "L201"]
    # The key and what is computed are not expected to be set.
    assert [item["property"] for item in found] == ["bio", "city"]
    assert {item["type_name"] for item in found} == {"Person"}
    assert found[0]["query_names"] == ["age"]


def test_updates_of_one_type_are_taken_together() -> None:
    text = """
    query a($n: String, $x: String) { update Person set { city: $x, bio: $x } where name = $n }
    query b($n: String, $a: I32) { update Person set { age: $a } where name = $n }
    query c($n: String, $d: Date) { update Knows set { since: $d } where from = $n }
    """
    assert codes(text) == []


def test_broken_updates_do_not_count() -> None:
    text = "query age($n: String) { update Person set { agee: 3 } where name = $n }"
    assert "L201" not in codes(text)


def test_reads_and_writes_of_a_cascade() -> None:
    report = plain("query gone($n: String) { delete Person where name = $n }")
    operation = report["results"][0]["operation"]
    expected = [
        {"kind": "node", "type_name": "Person"},
        {"kind": "edge", "type_name": "Knows"},
        {"kind": "edge", "type_name": "WorksAt"},
    ]
    assert operation["reads"] == expected
    assert operation["writes"] == expected


def test_blocks_count_as_reads() -> None:
    text = "query q() { match { $p: Person not { $p worksAt $c } } return { $p.name } }"
    reads = plain(text)["results"][0]["operation"]["reads"]
    assert [item["type_name"] for item in reads] == ["Company", "Person", "WorksAt"]


def test_every_kind_of_result() -> None:
    catalog = compile_schema(
        "node T { s: String b: Bool i: I32 j: U64 f: F32 d: Date t: DateTime v: Vector(2) "
        "l: [Date]? k: String @key }"
    )
    text = """
    query q() {
      match { $x: T }
      return { $x.s, $x.b, $x.i, $x.j, $x.f, $x.d, $x.t, $x.v, $x.l, $x, 1 as one }
    }
    """
    report = cast("dict[str, Any]", lint_queries(text, catalog).to_json())
    fields = report["results"][0]["operation"]["result"]
    assert [item["kind"] for item in fields] == [
        "string", "bool", "int", "bigint", "float", "date", "datetime", "vector", "list", "object",
        "bigint",
    ]  # fmt: skip
    assert fields[7]["vector_dim"] == 2
    assert fields[8] == {"name": "x.l", "kind": "list", "item_kind": "date", "nullable": True}
