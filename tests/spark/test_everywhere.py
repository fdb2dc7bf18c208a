"""The same work at every place: this process, threads, executors, a cluster that shares S3 alone,
and Spark Connect.

The expected rows are computed here, in plain Python.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import omnigraph as og
from tests.spark.places import IN_PROCESS, ON_SPARK, Place, place
from tests.spark.streams import patiently

SCHEMA = """
node Person { name: String @key  age: I32?  rank: F64?  @range(age, 0..150) }
node City { name: String @key }
edge Knows: Person -> Person
edge LivesIn: Person -> City
"""
PEOPLE = 240
Ages = dict[str, int | None]


@pytest.fixture(scope="module", params=[IN_PROCESS, *ON_SPARK])
def at(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp(str(request.param))
    with place(str(request.param), folder, tmp_path_factory.getbasetemp()) as found:
        yield found


@pytest.fixture
def on_spark(at: Place) -> Place:
    if at.session is None:
        pytest.skip("this is about DataFrames")
    return at


@pytest.fixture
def town(at: Place) -> Iterator[og.Graph]:
    with at.graph(SCHEMA) as graph:
        done = graph.load(at.put(*files()), **at.bulk)
        assert done.engine == at.engine["engine"]
        yield graph


def person(number: int) -> str:
    return f"p{number:04d}"


def files(people: int = PEOPLE) -> list[list[dict[str, Any]]]:
    """Two rings, one of the first half and one of the second; edges come before their nodes."""
    half = people // 2
    knows = []
    for number in range(people):
        following = (number + 1) % half + (half if number >= half else 0)
        knows.append({"edge": "Knows", "from": person(number), "to": person(following)})
    cities = [{"type": "City", "data": {"name": f"c{n}"}} for n in range(3)]
    lives = [{"edge": "LivesIn", "from": person(n), "to": f"c{n % 3}"} for n in range(people)]
    persons = [
        {"type": "Person", "data": {"name": person(n), "age": n % 90}} for n in range(people)
    ]
    return [knows, lives, persons[:half], persons[half:] + cities]


def ages(graph: og.Graph) -> Ages:
    text = "query q() { match { $p: Person } return { $p.name as name, $p.age as age } }"
    return {row["name"]: row["age"] for row in graph.query(text, engine="inprocess")}


def ages_loaded() -> Ages:
    return {person(n): n % 90 for n in range(PEOPLE)}


# -- loads and exports -----------------------------------------------------------------------------


def test_append(at: Place, town: og.Graph) -> None:
    counts = {"node:Person": PEOPLE, "node:City": 3, "edge:Knows": PEOPLE, "edge:LivesIn": PEOPLE}
    assert town.snapshot().counts == counts
    assert ages(town) == ages_loaded()
    with pytest.raises(og.errors.ConstraintViolated, match="exists already"):
        town.load(at.put([{"type": "Person", "data": {"name": person(1)}}]), **at.bulk)
    assert town.snapshot().counts == counts


def test_merge(at: Place, town: og.Graph) -> None:
    changed = {person(n): 100 for n in range(0, PEOPLE + 6, 3)}
    lines = [{"type": "Person", "data": {"name": k, "age": v}} for k, v in changed.items()]
    done = town.load(at.put(lines[:40], lines[40:]), mode="merge", **at.bulk)
    assert (done.counts["node:Person"].updated, done.counts["node:Person"].inserted) == (80, 2)
    assert ages(town) == {**ages_loaded(), **changed}


def test_overwrite(at: Place, town: og.Graph) -> None:
    lines = [{"type": "Person", "data": {"name": person(n), "age": 1}} for n in range(0, PEOPLE, 2)]
    with pytest.raises(og.errors.ConstraintViolated):
        town.load(at.put(lines), mode="overwrite", **at.bulk)
    assert ages(town) == ages_loaded()
    town.load(at.put(lines), mode="overwrite", cascade=True, **at.bulk)
    assert ages(town) == {person(n): 1 for n in range(0, PEOPLE, 2)}
    # In a ring every edge has an odd end.
    assert town.snapshot().counts["edge:Knows"] == 0
    assert town.snapshot().counts["edge:LivesIn"] == PEOPLE // 2


def test_all_violations_are_told(at: Place, town: og.Graph) -> None:
    wrong: list[dict[str, Any]] = [
        {"type": "Person", "data": {"name": "x", "age": 900}},
        {"type": "Person", "data": {"name": person(3)}},
        {"edge": "Knows", "from": "x", "to": "nobody"},
    ]
    before = town.snapshot().commit
    with pytest.raises(og.errors.ConstraintViolated) as caught:
        town.load(at.put(wrong[:2], wrong[2:]), **at.bulk)
    found = [(str(v["file"])[-11:], v["line"], v["rule"]) for v in caught.value.violations]
    assert found == [
        ("00000.jsonl", 1, "range"),
        ("00000.jsonl", 2, "key"),
        ("00001.jsonl", 1, "endpoint"),
    ]
    assert town.snapshot().commit == before


def test_an_export_is_loaded_again(at: Place, town: og.Graph) -> None:
    target = at.uri("out/")
    done = town.export(target, **at.bulk)
    assert sum(done.rows.values()) == sum(town.snapshot().counts.values())
    with at.graph(SCHEMA) as copy:
        copy.load(target, **at.bulk)
        assert copy.snapshot().counts == town.snapshot().counts
        assert ages(copy) == ages_loaded()


# -- questions -------------------------------------------------------------------------------------


def test_queries(at: Place, town: og.Graph) -> None:
    text = """
    query q($least: I32) {
      match { $p: Person $p.age > $least  $p knows {1,2} $f  $f livesIn $c }
      return { $c.name as city, count($f) as n } order { $c.name asc }
    }
    """
    half = PEOPLE // 2
    reached = [
        (n + step) % half + (half if n >= half else 0)
        for n in range(PEOPLE)
        if n % 90 > 50
        for step in (1, 2)
    ]
    rows = town.query(text, {"least": 50}, **at.engine).to_pylist()
    assert rows == [{"city": f"c{c}", "n": sum(f % 3 == c for f in reached)} for c in range(3)]


def test_algorithms(at: Place, town: og.Graph) -> None:
    run, types = town.algorithms, ("Person", "Knows")
    parts = run.connected_components(*types, **at.engine).to_pylist()
    half = PEOPLE // 2
    assert parts == [{"id": person(n), "component": 0 if n < half else half} for n in range(PEOPLE)]
    paths = run.shortest_paths(*types, sources=person(half), distance_max=5, **at.engine)
    near = {row["id"]: row["distance"] for row in paths if row["distance"] is not None}
    assert near == {person(half + n): n for n in range(6)}
    ranks = run.pagerank(*types, iterations=3, write_to="rank", **at.engine)
    assert ranks.engine == at.engine["engine"]
    assert ranks.written is not None
    text = "query q() { match { $p: Person } return { $p.rank as rank } }"
    written = [row["rank"] for row in town.query(text, engine="inprocess")]
    assert written == pytest.approx([1 / PEOPLE] * PEOPLE)
    assert ages(town) == ages_loaded()


# -- frames ----------------------------------------------------------------------------------------


def test_frames_are_read_and_written(on_spark: Place, town: og.Graph) -> None:
    frame = town.to_spark("Person", columns=["name", "age"], spark=on_spark.session)
    older = frame.where("age < 30").selectExpr("name", "age + 1 AS age")
    terms = {"path": town.uri, "type": "Person", "merge": "true", **on_spark.saved}
    older.write.format("omnigraph").options(**terms).mode("append").save()
    town.refresh()
    expected = {k: v + 1 if v is not None and v < 30 else v for k, v in ages_loaded().items()}
    assert ages(town) == expected
    wrong = on_spark.session.createDataFrame([("x", 900), ("y", 901)], "name string, age int")
    with pytest.raises(Exception, match="150") as caught:
        wrong.write.format("omnigraph").options(**terms).mode("append").save()
    error = og.spark_error(caught.value)
    assert isinstance(error, og.errors.ConstraintViolated)
    assert len(error.violations) == 2
    town.refresh()
    assert ages(town) == expected


def test_a_stream(on_spark: Place, town: og.Graph) -> None:
    numbers = (
        on_spark.session.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", 20)
        .option("numPartitions", 2)
        .load()
    )
    people = numbers.selectExpr("concat('s', value) AS name", "CAST(value AS INT) AS age")
    stream = (
        people.writeStream.option("checkpointLocation", str(on_spark.folder / "checkpoint"))
        .trigger(availableNow=True)
        .foreachBatch(town.stream_sink("Person", stream="numbers"))
    )
    query = patiently(stream.start)
    query.awaitTermination()
    assert query.exception() is None
    town.refresh()
    found = {k: v for k, v in ages(town).items() if k.startswith("s")}
    assert len(found) >= 20
    assert found == {f"s{n}": n for n in range(len(found))}


# -- shapes ----------------------------------------------------------------------------------------


def test_one_node_has_nearly_all_edges(at: Place) -> None:
    with at.graph(SCHEMA) as graph:
        lines: list[dict[str, Any]] = [{"type": "City", "data": {"name": "c"}}]
        lines += [{"type": "Person", "data": {"name": person(n)}} for n in range(3_000)]
        lines += [{"edge": "LivesIn", "from": person(n), "to": "c"} for n in range(3_000)]
        graph.load(at.put(lines[:1_000], lines[1_000:]), **at.bulk)
        text = "query q() { match { $p: Person $p livesIn $c } return { count($p) as n } }"
        assert graph.query(text, **at.engine).to_pylist() == [{"n": 3_000}]
        found = graph.algorithms.connected_components(edges="LivesIn", **at.engine)
        assert {row["component"] for row in found} == {0}
