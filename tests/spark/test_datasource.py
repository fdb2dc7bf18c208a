"""`spark.read` and `df.write` with the format `omnigraph`, and streams into a graph."""

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    EqualTo,
    Filter,
    InputPartition,
)
from pyspark.sql.types import StructType

import omnigraph as og
from omnigraph.dataplane.spark.session import HeldSession
from tests.spark.streams import FileStream

SCHEMA = """
node Person {
    name: String @key
    age: I32?
    big: U64?
    small: U32?
    born: Date?
    seen: DateTime?
    tags: [String]?
    v: Vector(2)?
    data: Blob?
    @range(age, 0..150)
}
edge Knows: Person -> Person { since: Date? }
"""
ADA: dict[str, Any] = {
    "name": "Ada",
    "age": 36,
    "big": 2**64 - 1,
    "small": 2**32 - 1,
    "born": "1815-12-10",
    "seen": "2024-05-01T12:00:00.123Z",
    "tags": ["x", "y"],
    "v": [1.5, 2.5],
    "data": b"\0\1",
}


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[og.Graph]:
    with og.init(tmp_path / "g.omni", SCHEMA) as graph:
        graph.load({"Person": [ADA, {"name": "Bo", "age": 7}, {"name": "Cy"}]})
        graph.load({"Knows": [{"from": "Ada", "to": "Bo"}]})
        yield graph


def test_every_type_crosses_and_comes_back(
    graph: og.Graph, local: HeldSession, tmp_path: Path
) -> None:
    frame = graph.to_spark("Person", spark=local.session)
    row = frame.filter("name = 'Ada'").collect()[0].asDict()
    assert row["big"] == Decimal(2**64 - 1)
    assert (row["small"], row["tags"], row["v"]) == (2**32 - 1, ["x", "y"], [1.5, 2.5])
    assert (str(row["born"]), bytes(row["data"])) == ("1815-12-10", b"\0\1")
    with og.init(tmp_path / "copy.omni", SCHEMA) as copy:
        copy.load({"Person": frame})
        one, two = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
        graph.export(one, types=["Person"])
        copy.export(two, types=["Person"])
        assert sorted(one.read_text().splitlines()) == sorted(two.read_text().splitlines())


def test_a_frame_stays_at_its_commit(graph: og.Graph, local: HeldSession) -> None:
    first = graph.commits.list()[0].id
    frame = graph.to_spark("Person", spark=local.session)
    graph.load({"Person": [{"name": "Di"}]})
    assert frame.count() == 3
    assert graph.to_spark("Person", at=first, spark=local.session).count() == 3
    assert graph.to_spark("Person", spark=local.session).count() == 4


def test_columns_and_filters(graph: og.Graph, local: HeldSession) -> None:
    frame = graph.to_spark("Person", columns=["name", "age"], spark=local.session)
    assert frame.columns == ["name", "age"]
    assert [r["name"] for r in frame.filter("age > 8 and name like '%a'").collect()] == ["Ada"]
    assert [r["name"] for r in frame.filter("age is null").collect()] == ["Cy"]
    edges = graph.to_spark("Knows", spark=local.session).collect()
    assert [(row["src"], row["dst"]) for row in edges] == [("Ada", "Bo")]


def test_a_schema_that_is_asked_for_says_which_columns_are_read(
    graph: og.Graph, local: HeldSession
) -> None:
    og.register_spark(local.session)
    source = local.session.read.format("omnigraph").options(path=graph.uri, type="Person")
    frame = source.schema("age int, name string").load()
    assert frame.columns == ["age", "name"]
    rows = {(row["name"], row["age"]) for row in frame.collect()}
    assert rows == {("Ada", 36), ("Bo", 7), ("Cy", None)}
    for wrong in ("nobody int", "age string"):
        with pytest.raises(Exception, match="the schema asks for") as caught:
            source.schema(wrong).load().collect()
        assert isinstance(og.spark_error(caught.value), og.errors.InvalidInput)


def test_a_frame_that_was_filtered_once_is_whole_the_next_time(
    graph: og.Graph, local: HeldSession
) -> None:
    frame = graph.to_spark("Person", spark=local.session)
    assert frame.filter("age = 7").count() == 1
    assert frame.count() == 3
    assert frame.filter("age = 7").union(frame.filter("age = 36")).count() == 2


def test_a_condition_is_applied_by_the_scan(graph: og.Graph, local: HeldSession) -> None:
    frame = graph.to_spark("Person", where="age > 8 or name = 'Cy'", spark=local.session)
    assert sorted(row["name"] for row in frame.collect()) == ["Ada", "Cy"]
    with pytest.raises(Exception, match="cannot be applied"):
        graph.to_spark("Person", where="age >", spark=local.session)


class Filtering(DataSourceReader):
    """Takes filters as the documentation of Spark shows it."""

    def __init__(self) -> None:
        self.wanted: list[int] = []

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:
        for item in filters:
            if isinstance(item, EqualTo):
                self.wanted.append(item.value)
            else:
                yield item

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        yield from ((n,) for n in range(5) if all(n == value for value in self.wanted))


class FilteringSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "filtering_fact"

    def schema(self) -> str:
        return "n int"

    def reader(self, schema: StructType) -> DataSourceReader:
        return Filtering()


def test_why_filters_are_not_pushed_down(local: HeldSession) -> None:
    """Spark keeps pushed filters with the relation; when this fails, the reader may take them."""
    session = local.session
    session.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    session.dataSource.register(FilteringSource)
    frame = session.read.format("filtering_fact").load()
    assert frame.count() == 5
    assert frame.filter("n = 3").count() == 1
    assert frame.count() == 1  # and not 5


def test_what_the_options_lack_is_said(graph: og.Graph, local: HeldSession) -> None:
    reader = local.session.read.format("omnigraph").option("path", graph.uri)
    with pytest.raises(Exception, match=r"did you mean `Person`"):
        reader.option("type", "Persn").load()
    with pytest.raises(Exception, match=r"no option 'typ'"):
        reader.option("typ", "Person").option("type", "Person").load()


def write(frame: Any, graph: og.Graph, mode: str = "append", **options: str) -> None:
    writer = frame.write.format("omnigraph").option("path", graph.uri).option("type", "Person")
    writer.options(**options).mode(mode).save()


def test_writing_is_one_commit_or_nothing(graph: og.Graph, local: HeldSession) -> None:
    frame = local.session.createDataFrame(
        [(f"s{n}", n) for n in range(20)], "name string, age int"
    ).repartition(3)
    write(frame, graph, actor="spark")
    commits = graph.commits.list()
    assert (commits[0].kind, commits[0].actor, len(commits)) == ("load", "spark", 4)
    assert graph.snapshot().counts["node:Person"] == 23
    with pytest.raises(Exception, match="exists already"):
        write(frame, graph)
    assert graph.commits.list() == commits
    write(frame.limit(2), graph, merge="true")
    assert graph.snapshot().counts["node:Person"] == 23
    staged = Path(graph.uri) / "__staging"
    assert not staged.exists() or not list(staged.iterdir())


def test_overwriting_is_judged(graph: og.Graph, local: HeldSession) -> None:
    frame = local.session.createDataFrame([("Zoe", 1)], "name string, age int")
    with pytest.raises(Exception, match="not found"):
        write(frame, graph, "overwrite")
    write(frame, graph, "overwrite", cascade="true")
    assert graph.snapshot().counts == {"node:Person": 1, "edge:Knows": 0}


def test_a_table_of_the_catalog(graph: og.Graph, local: HeldSession) -> None:
    frame = local.session.createDataFrame([("Zoe", 1)], "name string, age int")
    frame.createOrReplaceTempView("zoes")
    done = graph.load({"Person": "spark:zoes"}, spark=local.session)
    assert done.counts["node:Person"].inserted == 1


def test_a_frame_that_cannot_be_computed_is_its_callers(
    graph: og.Graph, local: HeldSession
) -> None:
    def broken(batches: Iterator[Any]) -> Iterator[Any]:
        raise ZeroDivisionError("nobody there")

    twice = local.session.createDataFrame([("Zoe", 1, 2)], "name string, age int, age int")
    plain = local.session.createDataFrame([("Zoe", "x")], "name string, age string")
    for frame, said in (
        (plain.selectExpr("name", "CAST(age AS INT) AS age"), "CAST_INVALID_INPUT"),
        (plain.mapInArrow(broken, "name string, age int"), "ZeroDivisionError: nobody there"),
        (twice, "`age` is ambiguous"),
    ):
        with pytest.raises(og.errors.InvalidInput, match=said) as caught:
            graph.load({"Person": frame})
        assert "the DataFrame cannot be computed" in str(caught.value)
    assert graph.snapshot().counts["node:Person"] == 3


def test_a_stream_is_taken_once_even_without_its_checkpoint(
    graph: og.Graph, local: HeldSession, tmp_path: Path
) -> None:
    stream = FileStream(graph, local.session, tmp_path, mode="append")
    stream.add("1.json", ("s1", 1), ("s2", 2))
    stream.run()
    commits = graph.commits.list()
    assert (commits[0].idempotency_key or "").startswith("stream:people:0:")
    assert graph.snapshot().counts["node:Person"] == 5
    # Without its checkpoint Spark gives the same batch again; appending it anew would be refused.
    stream.lose_checkpoint()
    stream.run()
    assert graph.commits.list() == commits
    stream.add("2.json", ("s3", None))
    stream.run()
    assert graph.snapshot().counts["node:Person"] == 6


def test_a_stream_without_its_checkpoint_loses_no_row_that_came_meanwhile(
    graph: og.Graph, local: HeldSession, tmp_path: Path
) -> None:
    stream = FileStream(graph, local.session, tmp_path)
    stream.add("1.json", ("s1", 1))
    stream.run()
    stream.lose_checkpoint()
    stream.add("2.json", ("s2", 2))
    stream.run()
    assert stream.ages().keys() >= {"s1", "s2"}


def test_a_stream_that_appends_is_refused_without_its_checkpoint_if_more_came_meanwhile(
    graph: og.Graph, local: HeldSession, tmp_path: Path
) -> None:
    stream = FileStream(graph, local.session, tmp_path, mode="append")
    stream.add("1.json", ("s1", 1))
    stream.run()
    stream.lose_checkpoint()
    stream.add("2.json", ("s2", 2))
    with pytest.raises(Exception, match="exists already"):
        stream.run()


def test_all_violations_of_a_batch_reach_the_user_of_a_stream(
    graph: og.Graph, local: HeldSession, tmp_path: Path
) -> None:
    stream = FileStream(graph, local.session, tmp_path)
    stream.add("1.json", ("s1", -1), ("s2", 2), ("s3", 151))
    with pytest.raises(Exception, match="2 violations; nothing was written") as caught:
        stream.run()
    assert "Person.age of 's3': 151 is outside of 0..150" in str(caught.value)
    found = og.spark_error(caught.value)
    assert isinstance(found, og.errors.ConstraintViolated)
    assert [each["id"] for each in found.violations] == ["s1", "s3"]
    assert graph.snapshot().counts["node:Person"] == 3
    # Whoever calls the sink in a function of their own gets the error with its details.
    frame = local.session.createDataFrame([("s4", -1)], "name string, age int")
    with pytest.raises(og.errors.ConstraintViolated) as refused:
        graph.stream_sink("Person", stream="own")(frame, 0)
    assert [each["id"] for each in refused.value.violations] == ["s4"]


def test_a_stream_goes_over_its_batches_again_and_nothing_changes_back(
    graph: og.Graph, local: HeldSession, tmp_path: Path
) -> None:
    stream = FileStream(graph, local.session, tmp_path, files_per_batch=1)
    for number, age in enumerate([1, 2]):
        stream.add(f"{number}.json", ("s", age))
        stream.run()
    commits = graph.commits.list()
    stream.lose_checkpoint()
    stream.run()
    assert graph.commits.list() == commits
    # From here on the query brings something of its own, under its own id.
    for number, age in enumerate([3, 2], start=2):
        stream.add(f"{number}.json", ("s", age))
        stream.run()
    assert stream.ages()["s"] == 2
    assert len(stream.queries()) == 2
