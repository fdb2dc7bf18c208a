"""Deletes: cascades, exact counts, and what they must not touch."""

from pathlib import Path

import pytest

from omnigraph.errors import ConstraintViolated
from tests.graphs import audit
from tests.unit.exec.mutate.support import Lab, counts, lab

PERSON, COMPANY, SPOT = "node:Person", "node:Company", "node:Spot"
KNOWS, WORKS, RATES, OWNS = "edge:Knows", "edge:WorksAt", "edge:Rates", "edge:Owns"


@pytest.fixture
def graph(tmp_path: Path) -> Lab:
    found = lab(tmp_path)
    found.run(
        """insert Person { name: "a", age: 1 } insert Person { name: "b", age: 2 }
           insert Person { name: "c" } insert Company { name: "co" }
           insert Knows { from: "a", to: "b" } insert Knows { from: "b", to: "a" }
           insert Knows { from: "a", to: "a" } insert Knows { from: "b", to: "c" }
           insert WorksAt { from: "a", to: "co" } insert WorksAt { from: "b", to: "co" }
           insert Rates { from: "a", to: "co", stars: 3 }"""
    )
    return found


def test_edges_go_with_their_node(graph: Lab) -> None:
    """Of every type, at either end, a loop once."""
    done = graph.run('delete Person where name = "a"')
    assert counts(done) == (1, 5)
    assert set(graph.rows(PERSON)) == {"b", "c"}
    assert graph.ends(KNOWS) == [("b", "c")]
    assert graph.ends(WORKS) == [("b", "co")]
    assert graph.ends(RATES) == []
    audit(graph.repo)


def test_the_target_takes_its_edges_along(graph: Lab) -> None:
    assert counts(graph.run('delete Company where name = "co"')) == (1, 3)
    assert graph.ends(WORKS) == graph.ends(RATES) == []
    assert len(graph.ends(KNOWS)) == 4


def test_overlapping_statements_count_each_entity_once(graph: Lab) -> None:
    done = graph.run(
        """delete Person where age >= 1
           delete Person where name = "a" or age is null
           delete Knows where from = "b"
           delete Knows where to = "c" """
    )
    assert counts(done) == (3, 7)
    assert graph.rows(PERSON) == {}
    assert graph.rows(KNOWS) == {}


def test_missing_values_are_not_lost(graph: Lab) -> None:
    """A predicate that is unknown for a row neither takes it nor hides it from the next one."""
    done = graph.run("delete Person where age = 1 delete Person where age is null")
    assert counts(done) == (2, 6)
    assert set(graph.rows(PERSON)) == {"b"}


def test_one_exact_edge(graph: Lab) -> None:
    done = graph.run('delete Knows where from = "b" and to = "c"')
    assert counts(done) == (0, 1)
    assert ("b", "c") not in graph.ends(KNOWS)
    assert len(graph.ends(KNOWS)) == 3


def test_a_node_without_edges_leaves_edge_tables_alone(graph: Lab) -> None:
    graph.run('insert Person { name: "alone" }')
    before = graph.repo.snapshot()
    graph.run('delete Person where name = "alone"')
    after = graph.repo.snapshot()
    moved = {key for key, pin in after.tables.items() if pin != before.pin(key)}
    assert moved == {PERSON}


def test_nothing_matched_publishes_nothing(graph: Lab) -> None:
    before = graph.repo.snapshot()
    done = graph.run('delete Person where name = "nobody" delete Knows where from = "nobody"')
    assert (counts(done), done.commit) == ((0, 0), None)
    assert graph.repo.snapshot().head == before.head


def test_a_source_that_stays_needs_its_minimum(graph: Lab) -> None:
    graph.run(
        """insert Spot { x: 1, y: 1 } insert Spot { x: 1, y: 2 }
           insert Owns { from: "co", to: "[\\"1\\",\\"1\\"]" }
           insert Owns { from: "co", to: "[\\"1\\",\\"2\\"]" }"""
    )
    with pytest.raises(ConstraintViolated) as caught:
        graph.run("delete Spot where x = 1")
    (violation,) = caught.value.violations
    assert violation["rule"] == "cardinality"
    assert violation["id"] == "co"
    with pytest.raises(ConstraintViolated):
        graph.run('delete Owns where from = "co"')
    assert len(graph.ends(OWNS)) == 2
    assert counts(graph.run("delete Spot where y = 1")) == (1, 1)
    # Together with its source the last edge may go.
    assert counts(graph.run('delete Owns where from = "co" delete Company where id = "co"')) == (
        1,
        4,
    )
    audit(graph.repo)
