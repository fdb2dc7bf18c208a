"""What is cached of a property is of that property: not of others that have or had its name."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.exec.dense.view_cache import ViewCache
from tests.unit.exec.dense.dense_graphs import PERSON, view_of

ROWS = [{"name": "Ada", "age": 1, "bio": "red fox", "size": 0.5}, {"name": "Bo"}]


def schema(*properties: str) -> str:
    return f"node Person {{ name: String @key  {'  '.join(properties)} }}"


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    made = og.init(tmp_path / "g.omni", schema=schema("age: I32?", "bio: String?", "size: F32?"))
    made.load({"Person": ROWS})
    return made


def ages(graph: og.Graph, name: str = "age") -> list[int | None]:
    text = f"query q() {{ match {{ $p: Person }} return {{ $p.{name} as x }} order {{ $p.name }} }}"
    return [row["x"] for row in graph.query(text).to_pylist()]


def found(graph: og.Graph) -> list[str]:
    text = 'query q() { match { $p: Person search($p.bio, "fox") } return { $p.name as x } }'
    return [row["x"] for row in graph.query(text).to_pylist()]


def test_a_property_has_nothing_of_a_dropped_one_of_its_name(graph: og.Graph) -> None:
    assert (ages(graph), found(graph)) == ([1, None], ["Ada"])
    graph.schema.apply(schema("size: F32?"))
    graph.schema.apply(schema("age: I32?", "bio: String?", "size: F32?"))
    assert (ages(graph), found(graph)) == ([None, None], [])


def test_nor_does_it_after_a_compaction(graph: og.Graph) -> None:
    assert ages(graph) == [1, None]
    graph.schema.apply(schema("size: F32?"))
    graph.optimize()
    graph.schema.apply(schema("age: I32?", "size: F32?"))
    assert ages(graph) == [None, None]


def test_nor_of_one_that_has_another_name_now(graph: og.Graph) -> None:
    assert ages(graph) == [1, None]
    graph.schema.apply(schema('years: I32? @rename_from("age")'))
    graph.schema.apply(schema("years: I32?", "age: I32?"))
    assert (ages(graph), ages(graph, "years")) == ([None, None], [1, None])


@pytest.mark.parametrize(("name", "wider", "value"), [("age", "I64", 2**40), ("size", "F64", 0.1)])
def test_a_wider_property_is_cached_anew(
    graph: og.Graph, name: str, wider: str, value: float
) -> None:
    ages(graph, name)
    graph.schema.apply(schema(f"{name}: {wider}?"))
    ages(graph, name)
    graph.mutate(f'query q() {{ update Person set {{ {name}: {value} }} where name = "Ada" }}')
    assert ages(graph, name) == [value, None]


def test_what_another_process_saved_is_of_that_property_too(
    graph: og.Graph, tmp_path: Path
) -> None:
    def column(name: str) -> list[int | None]:
        views = ViewCache(graph._repo, folder=tmp_path / "cache", saved_rows_min=0)
        values: list[int | None] = view_of(views, graph._repo).take(PERSON, name, None).to_pylist()
        views.close()
        return values

    assert column("age") == [1, None]
    graph.schema.apply(schema('years: I32? @rename_from("age")'))
    graph.schema.apply(schema("years: I32?", "age: I32?"))
    assert column("age") == [None, None]
    assert column("years") == [1, None]
    graph.schema.apply(schema('age: I32? @rename_from("years")'))
    assert column("age") == [1, None]
