"""Entities of many properties: their columns are read together, however many there are."""

from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.exec.tuning import tuned
from omnigraph.runtime import telemetry

WIDTH = 200
KINDS = ("I32", "String", "F64", "Bool", "Date", "DateTime", "[String]")
VALUES = (7, "seven", 7.5, True, "2024-05-01", "2024-05-01T10:00:00Z", ["a", "b"])
COLUMNS = "\n".join(f"p{n}: {KINDS[n % len(KINDS)]}?" for n in range(WIDTH))
SCHEMA = f"node Wide {{ name: String @key  place: Vector(2)?\n{COLUMNS}\n}}"
WHOLE = 'query q() { match { $w: Wide { name: "w1" } } return { $w } }'
LISTED = ", ".join(f"$w.p{n} as p{n}" for n in range(WIDTH))
PARTS = f'query q() {{ match {{ $w: Wide {{ name: "w1" }} }} return {{ {LISTED} }} }}'


def row(number: int) -> dict[str, object]:
    values = {
        f"p{n}": None if (n + number) % 5 == 0 else VALUES[n % len(VALUES)] for n in range(WIDTH)
    }
    return {"name": f"w{number}", "place": [1.0, float(number)], **values}


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = og.init(tmp_path / "g", SCHEMA)
    graph.load({"Wide": [row(number) for number in range(30)]})
    return og.open(graph.uri)


def calls(graph: og.Graph, query: str, form: str = "to_pylist") -> dict[str, int]:
    with telemetry.counting() as counts:
        getattr(graph.query(query, access="dense"), form)()
    found = counts.snapshot()
    return {name: found.get(name, 0) for name in ("table.scan", "table.take")}


@pytest.mark.parametrize("form", ["to_pylist", "to_arrow", "tuples"])
@pytest.mark.parametrize("query", [WHOLE, PARTS], ids=["whole", "parts"])
def test_columns_are_read_together(graph: og.Graph, query: str, form: str) -> None:
    first = calls(graph, query, form)
    assert first["table.scan"] <= 4  # who there is, the key, the others
    assert first["table.take"] <= 1  # the vector
    assert calls(graph, query, form) == {"table.scan": 0, "table.take": first["table.take"]}


@pytest.mark.parametrize("query", [WHOLE, PARTS], ids=["whole", "parts"])
def test_after_a_change_the_others_are_carried_over_together(graph: og.Graph, query: str) -> None:
    calls(graph, query)
    graph.mutate('query q() { update Wide set { p0: 99 } where name = "w1" }')
    after = calls(graph, query)
    assert after["table.scan"] <= 4
    assert after["table.take"] <= 4
    found = graph.query(WHOLE).to_pylist()[0]["w"]
    assert found["p0"] == 99
    assert found["p1"] == "seven"


def test_columns_are_read_in_groups_that_fit(graph: og.Graph) -> None:
    with tuned(read_group_bytes=30 * 8 * 50):
        scans = calls(graph, WHOLE)["table.scan"]
    assert 4 < scans <= 40


@pytest.mark.parametrize("query", [WHOLE, PARTS], ids=["whole", "parts"])
def test_the_answer_is_the_one_of_the_direct_path(graph: og.Graph, query: str) -> None:
    dense = graph.query(query, access="dense")
    direct = graph.query(query, access="direct")
    assert dense.to_pylist() == direct.to_pylist()
    assert dense.to_arrow().equals(direct.to_arrow())
