"""Every query answers what the naive evaluator answers, whatever way it takes to the data."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import omnigraph as og
from omnigraph.lang import compile_schema
from omnigraph.lang.catalog.model import Catalog
from omnigraph.testing.naive import ModelGraph
from omnigraph.testing.schemas import NUMBERS, SOCIAL, STRICT
from omnigraph.testing.strategies_graph import graphs, sample_graph
from omnigraph.testing.strategies_query import TypedQuery
from omnigraph.testing.strategies_search import any_queries
from omnigraph.types import AccessChoice
from tests.examples import examples
from tests.modelled import expected, make, same, write
from tests.property.query_programs import parse

SCHEMAS = {"social": SOCIAL, "numbers": NUMBERS, "strict": STRICT}
CATALOGS = {name: compile_schema(text) for name, text in SCHEMAS.items()}
ACCESSES: tuple[AccessChoice, ...] = ("dense", "direct", "auto")


@dataclass(frozen=True, slots=True, repr=False)
class Twins:
    """One model, in a graph without indexes and in one that has them for half of the entities."""

    catalog: Catalog
    model: ModelGraph
    plain: og.Graph
    indexed: og.Graph


def twins(folder: Path, name: str) -> Twins:
    catalog = CATALOGS[name]
    model = sample_graph(catalog)
    plain = make(folder / "plain", SCHEMAS[name])
    write(plain, model)
    indexed = make(folder / "indexed", SCHEMAS[name])
    first, second = halves(model)
    write(indexed, first)
    indexed.ensure_indices()
    write(indexed, second)
    return Twins(catalog, model, plain, indexed)


def halves(model: ModelGraph) -> tuple[ModelGraph, ModelGraph]:
    """The entities in two parts; an edge may come before its ends, nobody asks here."""
    return tuple(  # type: ignore[return-value]
        ModelGraph(
            {
                key: {entity_id: rows[entity_id] for entity_id in list(rows)[start::2]}
                for key, rows in model.tables.items()
            }
        )
        for start in (0, 1)
    )


@pytest.fixture(scope="module", params=sorted(SCHEMAS))
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Twins:
    return twins(tmp_path_factory.mktemp("model"), request.param)


def check(graph: og.Graph, query: TypedQuery, wanted: list[dict[str, object]]) -> None:
    for access in ACCESSES:
        found = graph.query(query.text, query.params, access=access)
        listed = found.to_pylist()
        assert same(listed, wanted), (access, query.text, query.params, listed, wanted)
        assert len(found) == len(wanted)


@examples(100)
@given(data=st.data())
def test_answers_are_those_of_the_model(pair: Twins, data: st.DataObject) -> None:
    query = data.draw(any_queries(pair.catalog))
    wanted = expected(query, pair.catalog, pair.model)
    check(pair.plain, query, wanted)
    check(pair.indexed, query, wanted)


@examples(15)
@given(data=st.data())
def test_a_fresh_handle_gives_the_same_answers(pair: Twins, data: st.DataObject) -> None:
    query = data.draw(any_queries(pair.catalog))
    wanted = expected(query, pair.catalog, pair.model)
    for graph in (pair.plain, pair.indexed):
        with og.open(graph.uri, mode="r") as cold:
            found = cold.query(query.text, query.params).to_pylist()
            assert same(found, wanted), (query.text, query.params, found, wanted)


@pytest.mark.parametrize("name", sorted(SCHEMAS))
@examples(15)
@given(data=st.data())
def test_any_small_graph(
    name: str, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    catalog = CATALOGS[name]
    model = data.draw(graphs(catalog))
    graph = make(tmp_path_factory.mktemp("graph"), SCHEMAS[name])
    write(graph, model)
    for query in data.draw(st.lists(any_queries(catalog), min_size=1, max_size=6)):
        check(graph, query, expected(query, catalog, model))


EDGES = {  # where one width ends and another one rounds
    "small": (-(2**31), 2**31 - 1, 0, 3),
    "large": (2**53, 2**53 + 1, 2**63 - 1, -(2**63)),
    "count": (0, 2**32 - 1, 3, 16_777_217),
    "huge": (2**53 + 1, 2**63, 2**64 - 1, 3),
    "single": (0.10000000149011612, 16_777_216.0, -(2.0**63), 3.0),
    "double": (0.1, 2.0**53, 2.0**63, 2.0**64),
}
LITERALS = (
    *("0.1", "3.5", "9007199254740992.0", "9223372036854775808.0", "18446744073709551616.0"),
    *("3", "-1", "16777217", "9007199254740993", "9223372036854775807", "18446744073709551615"),
)


def test_numbers_compare_by_value(tmp_path: Path) -> None:
    catalog = CATALOGS["numbers"]
    blank = dict.fromkeys(item.name for item in catalog.node_by_name["Cell"].properties)
    rows = {
        f"n{place}": {**blank, "id": f"n{place}"}
        | {name: values[place] for name, values in EDGES.items()}
        for place in range(4)
    }
    model = ModelGraph({"node:Cell": rows})
    graph = make(tmp_path / "g", NUMBERS)
    write(graph, model)
    for left, right, op in product(EDGES, (*EDGES, *LITERALS), ("=", "!=", "<", "<=", ">", ">=")):
        other = f"$y.{right}" if right in EDGES else right
        text = (
            f"query q() {{ match {{ $x: Cell $y: Cell $x.{left} {op} {other} }} "
            "return { $x.id as x, $y.id as y } }"
        )
        query = parsed(text)
        wanted = expected(query, catalog, model)
        assert same(graph.query(text).to_pylist(), wanted), text


def parsed(text: str) -> TypedQuery:
    (query,) = parse(text).queries
    return TypedQuery(query, {})
