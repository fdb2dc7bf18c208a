from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.lang import compile_schema
from omnigraph.lang.catalog.model import EdgeType
from omnigraph.rules.cardinality import count_edges, judge_cardinality
from omnigraph.rules.endpoints import judge_endpoints
from omnigraph.rules.violation import Rule, Violations

CATALOG = compile_schema("""
node Person { name: String @key }
node Company { name: String @key }
edge WorksAt: Person -> Company
""")
WORKS_AT = CATALOG.edge_by_name["WorksAt"]


def _texts(*values: str | None) -> pa.Array:
    return pa.array(values, pa.string())


def _edge(card: str) -> EdgeType:
    return compile_schema(f"node N {{ a: I32? }}  edge E: N -> N {card}").edge_by_name["E"]


# -- endpoints -------------------------------------------------------------------------------------


def test_each_end_that_leads_nowhere_is_reported() -> None:
    out = Violations()
    edges = pa.table(
        {
            "id": ["e1", "e2", "e3", "e4"],
            "src": _texts("ada", "bo", "acme", None),
            "dst": _texts("acme", "initech", "nowhere", "acme"),
        }
    )
    judge_endpoints(
        WORKS_AT,
        edges,
        out,
        sources=_texts("ada", "bo"),
        targets=pa.chunked_array([["acme"], ["initech"]], pa.large_string()),
        origin=lambda row: ("f", row + 1),
    )
    assert [(item.id, item.properties, item.value, item.line) for item in out.items] == [
        ("e3", ("dst",), "nowhere", 3),
        ("e3", ("src",), "acme", 3),
    ]
    assert [item.message for item in out.items] == [
        "dst 'nowhere' not found in Company",
        "src 'acme' not found in Person",
    ]
    assert all((item.rule, item.kind) == (Rule.ENDPOINT, "edge") for item in out.items)


def test_without_nodes_no_edge_has_ends() -> None:
    out = Violations()
    edges = pa.table({"id": ["e"], "src": ["a"], "dst": ["b"]})
    judge_endpoints(WORKS_AT, edges, out, sources=_texts(), targets=_texts())
    assert out.total == 2


def test_no_edges_break_nothing() -> None:
    out = Violations()
    edges = pa.schema([(name, pa.string()) for name in ("id", "src", "dst")]).empty_table()
    judge_endpoints(WORKS_AT, edges, out, sources=_texts(), targets=_texts())
    assert not out


# -- cardinality -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("card", "broken"),
    [
        ("", []),
        ("@card(0..)", []),
        ("@card(1..)", ["source 'none' has 0 edges (min 1)"]),
        ("@card(0..1)", ["source 'two' has 2 edges (max 1)"]),
        ("@card(0..0)", ["source 'one' has 1 edge (max 0)", "source 'two' has 2 edges (max 0)"]),
        ("@card(2..2)", ["source 'none' has 0 edges (min 2)", "source 'one' has 1 edge (min 2)"]),
        ("@card(1..2)", ["source 'none' has 0 edges (min 1)"]),
    ],
)
def test_the_bounds_of_a_cardinality(card: str, broken: list[str]) -> None:
    out = Violations()
    judge_cardinality(_edge(card), _texts("one", "none", "two"), pa.array([1, 0, 2]), out)
    assert [item.message for item in out.items] == [
        f"@card violation on edge E: {text}" for text in broken
    ]


def test_a_broken_cardinality_names_the_source_and_the_count() -> None:
    out = Violations()
    sources = _texts("fine", "busy")
    judge_cardinality(_edge("@card(0..1)"), sources, pa.array([1, 3]), out, lambda at: ("f", at))
    (found,) = out.items
    assert (found.rule, found.kind, found.type_name) == (Rule.CARDINALITY, "edge", "E")
    assert (found.id, found.properties, found.value, found.line) == ("busy", ("src",), 3, 1)


@given(
    st.lists(st.sampled_from("abcd"), unique=True),
    st.lists(st.lists(st.none() | st.sampled_from("abcde"), max_size=5), max_size=4),
)
def test_edges_are_counted_through_batches(
    sources: list[str], batches: list[list[str | None]]
) -> None:
    found = count_edges(_texts(*sources), (_texts(*batch) for batch in batches))
    naive = Counter(src for batch in batches for src in batch)
    assert found.to_pylist() == [naive[source] for source in sources]
