"""Overwriting: the types of the input are replaced as a whole, and no edge loses an end."""

from typing import Any

import pytest

from tests.graphs import audit
from tests.unit.dataplane.load.support import (
    COMPANY,
    KNOWS,
    OWNS,
    PERSON,
    WAYS,
    WORKS,
    Lab,
    company,
    edge,
    person,
    table_of,
)


@pytest.fixture(params=WAYS, ids=["whole", "divided", "elsewhere"])
def way(request: pytest.FixtureRequest) -> dict[str, Any]:
    found: dict[str, Any] = request.param
    return found


def test_exactly_the_types_of_the_input_are_replaced(lab: Lab, way: dict[str, Any]) -> None:
    lab.load([person("Ada", email="a@x"), person("Bo"), company("Acme")])
    before = lab.versions()
    done = lab.load(
        [person("Ada"), person("Cy", email="a@x"), edge("Knows", "Cy", "Ada")], "overwrite", **way
    )
    assert {key: (c.inserted, c.updated, c.deleted) for key, c in done.counts.items()} == {
        PERSON: (2, 0, 2),
        KNOWS: (1, 0, 0),
    }
    assert set(lab.rows(PERSON)) == {"Ada", "Cy"}
    assert set(lab.rows(COMPANY)) == {"Acme"}
    moved = {key for key, version in lab.versions().items() if version != before[key]}
    assert moved == {PERSON, KNOWS}
    audit(lab.repo)


def test_rules_are_judged_on_the_new_content(lab: Lab, way: dict[str, Any]) -> None:
    lab.load([person("Ada", email="a@x"), person("Bo"), company("Acme")])
    lines = [
        person("Cy", email="c@x"),
        person("Cy"),
        person("Di", email="c@x"),
        edge("Knows", "Cy", "Bo"),
        edge("WorksAt", "Cy", "Acme"),
    ]
    assert lab.refused(lines, "overwrite", **way) == [
        ("key", "Cy", ("name",), 2),
        ("unique", "Di", ("email",), 3),
        ("endpoint", None, ("dst",), 4),
    ]


def test_retained_edges_keep_their_ends(lab: Lab, way: dict[str, Any]) -> None:
    lab.load(
        [
            person("Ada"),
            person("Bo"),
            company("Acme"),
            edge("Knows", "Ada", "Bo", id="k1"),
            edge("Knows", "Bo", "Ada", id="k2"),
            edge("Knows", "Bo", "Bo", id="k3"),
            edge("WorksAt", "Ada", "Acme", id="w1"),
            edge("WorksAt", "Bo", "Acme", id="w2"),
        ]
    )
    found = lab.violations([person("Bo"), person("Cy")], "overwrite", **way)
    assert [(v["type"], v["id"], v["properties"], v["value"]) for v in found] == [
        ("Knows", "k1", ["src"], "Ada"),
        ("Knows", "k2", ["dst"], "Ada"),
        ("WorksAt", "w1", ["src"], "Ada"),
    ]
    assert {(v["rule"], v["file"], v["line"]) for v in found} == {("endpoint", None, None)}
    lab.load([person("Ada", age=1), person("Bo"), person("Cy")], "overwrite", **way)
    assert len(lab.edges(KNOWS)) == 3


def test_cascading_takes_them_along(lab: Lab, way: dict[str, Any]) -> None:
    lab.load(
        [
            person("Ada"),
            person("Bo"),
            company("Acme"),
            edge("Knows", "Ada", "Ada"),
            edge("Knows", "Ada", "Bo"),
            edge("Knows", "Bo", "Ada"),
            edge("Knows", "Bo", "Bo"),
            edge("WorksAt", "Ada", "Acme"),
            edge("WorksAt", "Bo", "Acme"),
        ]
    )
    done = lab.load([person("Bo"), person("Cy")], "overwrite", cascade=True, **way)
    assert {key: (c.inserted, c.deleted) for key, c in done.counts.items()} == {
        PERSON: (2, 2),
        KNOWS: (0, 3),
        WORKS: (0, 1),
    }
    assert (lab.edges(KNOWS), lab.edges(WORKS)) == ([("Bo", "Bo")], [("Bo", "Acme")])
    audit(lab.repo)


def test_sources_that_stay_keep_enough_edges(lab: Lab, way: dict[str, Any]) -> None:
    schema_lines = [
        company("A"),
        company("B"),
        company("C"),
        edge("Owns", "A", "B"),
        edge("Owns", "A", "C"),
        edge("Owns", "B", "C"),
        edge("Owns", "C", "B"),
    ]
    lab.load(schema_lines)
    # C goes, and with it what A and C own of it; B would be left with nothing.
    found = lab.violations([company("A"), company("B")], "overwrite", cascade=True, **way)
    assert [(v["rule"], v["id"], v["line"], v["message"]) for v in found] == [
        ("cardinality", "B", None, "@card violation on edge Owns: source 'B' has 0 edges (min 1)")
    ]
    # B goes: A keeps one, and C is left with nothing.
    found = lab.violations([company("A"), company("C")], "overwrite", cascade=True, **way)
    assert [(v["rule"], v["id"]) for v in found] == [("cardinality", "C")]


def test_replaced_edges_leave_no_source_with_too_few(lab: Lab, way: dict[str, Any]) -> None:
    lab.load([company("A"), company("B"), edge("Owns", "A", "B"), edge("Owns", "B", "A")])
    assert lab.refused([edge("Owns", "A", "A")], "overwrite", **way) == [
        ("cardinality", "B", ("src",), None)
    ]
    # A source that goes, too, is not held to a minimum.
    lab.load([company("A"), edge("Owns", "A", "A")], "overwrite", **way)
    assert lab.edges(OWNS) == [("A", "A")]


def test_a_maximum_counts_the_new_edges_only(lab: Lab, way: dict[str, Any]) -> None:
    lab.load([person("Ada"), company("Acme"), *[edge("WorksAt", "Ada", "Acme")] * 2])
    lab.load([edge("WorksAt", "Ada", "Acme")] * 2, "overwrite", **way)
    assert lab.refused([edge("WorksAt", "Ada", "Acme")] * 3, "overwrite", **way) == [
        ("cardinality", "Ada", ("src",), 1)
    ]


def test_an_empty_table_empties_its_type(lab: Lab) -> None:
    lab.load([person("Ada"), company("Acme")])
    empty = table_of("node", "Company", [{"name": "x"}])
    empty = type(empty)(name=empty.name, type=empty.type, table=empty.table.slice(0, 0))
    done = lab.run(lab.request(empty, mode="overwrite"))
    assert (lab.rows(COMPANY), done.counts[COMPANY].deleted) == ({}, 1)
    before = lab.versions()
    done = lab.run(lab.request(empty, mode="overwrite"))
    assert (lab.versions(), done.counts) == (before, {})


def test_nothing_replaces_nothing(lab: Lab, way: dict[str, Any]) -> None:
    lab.load([person("Ada")])
    before = lab.versions()
    lab.load([], "overwrite", **way)
    assert lab.versions() == before
