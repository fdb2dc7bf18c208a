"""Queries on Spark answer what the naive evaluator answers, in the types of the process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import omnigraph as og
from omnigraph.dataplane.spark.session import HeldSession
from omnigraph.lang.catalog.model import Catalog
from omnigraph.testing.naive import ModelGraph
from omnigraph.testing.strategies_graph import sample_graph
from omnigraph.testing.strategies_query import TypedQuery
from omnigraph.testing.strategies_search import any_queries
from tests.modelled import expected, make, same, write
from tests.property.query_programs import parse
from tests.property.test_query_model import CATALOGS, SCHEMAS


@dataclass(frozen=True, slots=True, repr=False)
class Sample:
    catalog: Catalog
    model: ModelGraph
    graph: og.Graph


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Sample]]:
    found = {}
    for name, schema in SCHEMAS.items():
        model = sample_graph(CATALOGS[name])
        graph = make(tmp_path_factory.mktemp("spark") / name, schema)
        write(graph, model)
        found[name] = Sample(CATALOGS[name], model, graph)
    yield found
    for sample in found.values():
        sample.graph.close()


def check(sample: Sample, query: TypedQuery, held: HeldSession) -> None:
    wanted = expected(query, sample.catalog, sample.model)
    here = sample.graph.query(query.text, query.params, engine="inprocess")
    there = sample.graph.query(query.text, query.params, engine="spark", spark=held.session)
    found = there.to_pylist()
    assert same(found, wanted), (query.text, query.params, found, wanted)
    assert (there.columns, there.types) == (here.columns, here.types)
    assert there.to_arrow().schema == here.to_arrow().schema, query.text


CASES = {
    "properties": ("social", "$p: Person", "$p.name, $p.age, $p.tags, $p.joined", ""),
    "every type": ("numbers", "$c: Cell", "$c", ""),
    "a named edge": ("social", "$p: Person $p $e: knows $f", "$p.name, $e, $f.rating", ""),
    "an edge back": ("social", "$c: Company $p worksAt $c", "$c.name, $p.name", ""),
    "up to four hops": ("social", "$p: Person $p knows {1,4} $f", "$p.name, $f.name", ""),
    "exactly three hops": ("social", "$p: Person $p knows {3,3} $f", "$p.name, $f.name", ""),
    "many hops": ("social", "$p: Person $p knows {2,9} $f", "$p.name, count($f) as n", ""),
    "groups": (
        "social",
        "$p: Person $p knows $f",
        "$f.city, count($p) as n, avg($f.rating) as r, sum($p.age) as s, max($f.name) as m",
        "order { n desc } limit 3 offset 1",
    ),
    "totals of nothing": (
        "numbers",
        '$c: Cell $c.label = "nowhere"',
        "count($c) as n, sum($c.double) as d, avg($c.huge) as h, min($c.day) as m",
        "",
    ),
    "exact totals": (
        "numbers",
        "$a: Cell $b: Cell",
        "sum($a.double) as d, avg($a.single) as s, sum($a.huge) as h, count(distinct $b) as n",
        "",
    ),
    "without": ("social", "$p: Person not { $p knows $f $f.age > 1 }", "$p.name", ""),
    "optional": (
        "social",
        "$p: Person optional { $p $e: knows $f $f.age > 1 }",
        "$p.name, $e.since as s, $f",
        "order { $f.age desc }",
    ),
    "equal names": (
        "social",
        "$p: Person $c: Company $p.name = $c.name",
        "$p.name, $c.size",
        "",
    ),
    "two variables": (
        "numbers",
        "$a: Cell $b: Cell $a.huge < $b.double",
        "$a.id as a, $b.id as b",
        "",
    ),
    "relevance": (
        "social",
        "$d: Doc $p wrote $d not { $p rated $d }",
        '$d.slug, bm25($d.body, "graph of the words") as s',
        'order { bm25($d.body, "graph of the words") } limit 5',
    ),
    "distance": (
        "social",
        '$d: Doc fuzzy($d.title, "graf", 2)',
        "$d, nearest($d.embedding, [1.0, 0.5, 0.2]) as s",
        "order { nearest($d.embedding, [1.0, 0.5, 0.2]) } limit 3",
    ),
    "fusion": (
        "social",
        "$d: Doc",
        '$d.slug, rrf(nearest($d.embedding, [1.0, 0.5, 0.2]), bm25($d.body, "graph the")) as s',
        'order { rrf(nearest($d.embedding, [1.0, 0.5, 0.2]), bm25($d.body, "graph the")) } limit 4',
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_answers_of_the_model(name: str, samples: dict[str, Sample], local: HeldSession) -> None:
    schema, match, result, rest = CASES[name]
    text = f"query q() {{ match {{ {match} }} return {{ {result} }} {rest} }}"
    (query,) = parse(text).queries
    check(samples[schema], TypedQuery(query, {}), local)


@settings(
    max_examples=3,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_any_query(samples: dict[str, Sample], local: HeldSession, data: st.DataObject) -> None:
    sample = samples[data.draw(st.sampled_from(sorted(samples)))]
    check(sample, data.draw(any_queries(sample.catalog)), local)


@pytest.mark.deep
@settings(
    max_examples=150,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_many_queries(samples: dict[str, Sample], local: HeldSession, data: st.DataObject) -> None:
    sample = samples[data.draw(st.sampled_from(sorted(samples)))]
    check(sample, data.draw(any_queries(sample.catalog)), local)


def test_the_result_is_a_frame(samples: dict[str, Sample], local: HeldSession) -> None:
    text = "query q() { match { $p: Person $p knows $f } return { $p.name as a, $f as b } }"
    rows = samples["social"].graph.query(text, engine="spark", spark=local.session)
    frame = rows.to_spark()
    assert (frame.columns, frame.count()) == (["a", "b"], len(rows))
    assert [row["a"] for row in frame.collect()] == [row["a"] for row in rows]
    here = samples["social"].graph.query(text).to_spark(local.session)
    assert here.count() == len(rows)


def test_a_closed_graph_is_not_read(tmp_path: Path, local: HeldSession) -> None:
    graph = og.init(str(tmp_path / "g"), "node P { k: String @key }")
    graph.load({"P": [{"k": "a"}]})
    rows = graph.query(
        "query q() { match { $p: P } return { $p.k as k } }", engine="spark", spark=local.session
    )
    assert repr(rows) == "<rows on Spark: k>"
    graph.close()
    with pytest.raises(og.errors.InvalidInput, match="closed"):
        rows.to_pylist()


def test_a_collected_result_is_bounded(tmp_path: Path, local: HeldSession) -> None:
    settings = og.Settings(query_bytes_max=1024)
    graph = og.init(str(tmp_path / "g"), "node P { k: String @key }", settings=settings)
    graph.load({"P": [{"k": f"person number {n}"} for n in range(100)]})
    text = "query q() { match { $p: P  $q: P } return { $p.k as k, $q.k as l } }"
    with pytest.raises(og.errors.LimitExceeded, match="query_bytes_max"):
        graph.query(text, engine="inprocess").to_arrow()
    rows = graph.query(text, spark=local.session)
    assert rows.to_spark().count() == 10_000
    with pytest.raises(og.errors.LimitExceeded, match="query_bytes_max"):
        rows.to_arrow()


REFUSED = {
    "the limit": ("$n: I32", "$d: Doc", "limit $n", {"n": -1}),
    "the number of edits": ("$e: I32", '$d: Doc fuzzy($d.title, "graf", $e)', "", {"e": 9}),
}


@pytest.mark.parametrize("message", REFUSED)
def test_bad_parameters_are_refused_before_anything_runs(
    message: str, samples: dict[str, Sample], local: HeldSession
) -> None:
    declared, match, rest, params = REFUSED[message]
    text = f"query q({declared}) {{ match {{ {match} }} return {{ $d.slug }} {rest} }}"
    with pytest.raises(og.errors.InvalidInput, match=message):
        samples["social"].graph.query(text, params, engine="spark", spark=local.session)


def test_an_unknown_engine_is_refused(samples: dict[str, Sample]) -> None:
    with pytest.raises(og.errors.InvalidInput, match="not one of auto, inprocess, spark"):
        samples["social"].graph.query(
            "query q() { match { $p: Person } return { $p.name } }",
            engine="sparc",  # type: ignore[arg-type]
        )
