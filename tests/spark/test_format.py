"""The format `omnigraph` as users of Spark meet it: refusals, tables, states, columns."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.dataplane import tuning
from omnigraph.dataplane.spark.driver import StagedLoad
from omnigraph.dataplane.spark.runner import SparkRunner
from omnigraph.dataplane.spark.session import HeldSession
from omnigraph.errors import Code, ConstraintViolated, Forbidden, GraphError, LimitExceeded
from tests.conformance.seaweed import BUCKET, serving

SCHEMA = "node Person { name: String @key  age: I32?  @range(age, 0..150) }"
BAD = [("Bo", -1), ("Bo", 2), ("Zed", 999), ("Ada", 1)]


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[og.Graph]:
    with og.init(tmp_path / "g.omni", SCHEMA) as graph:
        graph.load({"Person": [{"name": "Ada", "age": 36}, {"name": "Bo", "age": 7}]})
        yield graph


def people(local: HeldSession, *rows: tuple[str, int]) -> Any:
    return local.session.createDataFrame(list(rows), "name string, age int")


def save(frame: Any, graph: og.Graph, **options: str) -> None:
    place = {"path": graph.uri, "type": "Person", **options}
    frame.write.format("omnigraph").options(**place).mode("append").save()


def count(graph: og.Graph) -> int:
    return graph.snapshot().counts["node:Person"]


def carried(error: BaseException) -> GraphError:
    found = og.spark_error(error)
    assert found is not None
    return found


def test_a_frame_that_was_read_is_written_by_any_thread(
    graph: og.Graph, local: HeldSession
) -> None:
    def older() -> None:
        frame = graph.to_spark("Person", spark=local.session)
        save(frame.selectExpr("name", "age + 1 AS age"), graph, merge="true")

    # A thread on which no session was started, and no frame was made of rows.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(older).result()
    graph.refresh()
    text = "query q() { match { $p: Person } return { $p.age as age } order { $p.age asc } }"
    assert [row["age"] for row in graph.query(text)] == [8, 37]


def test_all_violations_reach_the_user_of_a_write(
    graph: og.Graph, local: HeldSession, tmp_path: Path
) -> None:
    with pytest.raises(Exception, match="5 violations; nothing was written") as caught:
        save(people(local, *BAD), graph)
    found = carried(caught.value)
    assert isinstance(found, ConstraintViolated)
    assert [item["rule"] for item in found.violations] == ["range", "key", "key", "range", "key"]
    text = str(caught.value)
    assert all(str(item["message"]) in text for item in found.violations)
    file = tmp_path / "violations.jsonl"
    with pytest.raises(Exception, match="all of them are in") as caught:
        save(people(local, *BAD), graph, violations_max="2", violations_file=str(file))
    found = carried(caught.value)
    assert isinstance(found, ConstraintViolated)
    assert (len(found.violations), found.details["total"]) == (2, 5)
    assert len([json.loads(line) for line in file.read_text().splitlines()]) == 5
    assert count(graph) == 2


def test_a_write_is_judged_by_tasks(
    graph: og.Graph, local: HeldSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    run: list[str] = []
    spark_run, finish = SparkRunner.run, StagedLoad.finish

    def recorded(self: SparkRunner, stage: str, *given: Any) -> Any:
        run.append(stage)
        return spark_run(self, stage, *given)

    def small(self: StagedLoad, runner: Any) -> None:
        finish(replace(self, plan=replace(self.plan, driver_keys=0)), runner)

    monkeypatch.setattr(SparkRunner, "run", recorded)
    monkeypatch.setattr(StagedLoad, "finish", small)
    monkeypatch.setattr(tuning.active, "few_keys_max", 0)
    save(people(local, ("Cy", 1), ("Di", 2)), graph)
    assert "judge" in run
    assert count(graph) == 4


def test_tables_of_the_catalog_can_be_read_and_are_not_written(
    graph: og.Graph, local: HeldSession
) -> None:
    sql = local.session.sql
    place = f"USING omnigraph OPTIONS (path '{graph.uri}', type 'Person')"
    sql(f"CREATE TABLE folk {place}")
    try:
        assert [row["name"] for row in sql("SELECT * FROM folk WHERE age > 8").collect()] == ["Ada"]
        for text in (
            "INSERT INTO folk (id, name, age) VALUES ('Cy', 'Cy', 9)",
            "INSERT OVERWRITE folk (id, name, age) VALUES ('Cy', 'Cy', 9)",
            f"CREATE TABLE folk2 {place} AS SELECT 'Cy' AS name, 9 AS age",
        ):
            with pytest.raises(Exception, match=r"df\.write…save\(\)"):
                sql(text)
    finally:
        sql("DROP TABLE folk")
    assert [row["tableName"] for row in sql("SHOW TABLES LIKE 'folk*'").collect()] == []
    sql(f"CREATE TEMPORARY VIEW old_folk {place[:-1]}, where 'age > 8')")
    assert sql("SELECT * FROM old_folk").count() == 1
    sql("DROP VIEW old_folk")
    assert count(graph) == 2


def test_saving_as_a_table_writes_like_saving_and_names_what_cannot_be_read(
    graph: og.Graph, local: HeldSession
) -> None:
    writer = people(local, ("Cy", 1)).write.format("omnigraph").mode("append")
    with pytest.raises(Exception, match="needs"):
        writer.saveAsTable("nowhere")
    writer.options(path=graph.uri, type="Person").saveAsTable("somewhere")
    assert count(graph) == 3
    try:
        with pytest.raises(Exception, match="CREATE TABLE") as caught:
            local.session.sql("SELECT * FROM somewhere").collect()
        assert carried(caught.value).code is Code.INPUT_INVALID
    finally:
        local.session.sql("DROP TABLE somewhere")
    assert count(graph) == 3


def test_states_by_commit_tag_and_time(graph: og.Graph, local: HeldSession) -> None:
    graph.load({"Person": [{"name": "Cy"}]})
    commits = graph.commits.list()

    def rows(**options: str) -> int:
        place = {"path": graph.uri, "type": "Person", **options}
        return int(local.session.read.format("omnigraph").options(**place).load().count())

    def at(time: datetime) -> int:
        return rows(time=time.isoformat())

    newest, older = commits[0].created_at, commits[1]
    assert rows(at=older.id) == 2
    assert [at(newest), at(newest - timedelta(microseconds=1))] == [3, 2]
    with pytest.raises(Exception, match="has no commit at") as caught:
        at(commits[-1].created_at - timedelta(seconds=1))
    assert carried(caught.value).code is Code.NOT_FOUND
    graph.tags.create("v1", at=older.id)
    assert rows(tag="v1") == 2
    for wrong in ("main", "v2"):
        with pytest.raises(Exception, match="there is no tag") as caught:
            rows(tag=wrong)
        assert carried(caught.value).code is Code.NOT_FOUND
    for given in ({"time": "2024-01-01"}, {"tag": "v1"}):
        with pytest.raises(Exception, match="give one of the options"):
            rows(at=older.id, **given)


def test_counting_reads_no_data(graph: og.Graph, local: HeldSession) -> None:
    graph.mutate('query q() { delete Person where name = "Bo" }')
    for file in (Path(graph.uri)).rglob("*.lance"):
        if "Person" in str(file) or "nodes" in str(file):
            file.write_bytes(b"")
    frame = graph.to_spark("Person", spark=local.session)
    assert graph.to_spark("Person", columns=[], spark=local.session).count() == 1
    assert frame.count() == 1
    place = f"USING omnigraph OPTIONS (path '{graph.uri}', type 'Person')"
    local.session.sql(f"CREATE OR REPLACE TEMPORARY VIEW folk {place}")
    assert local.session.sql("SELECT count(*) AS n FROM folk").collect()[0]["n"] == 1
    with pytest.raises(Exception, match="omnigraph"):
        frame.collect()


def columns_read(frame: Any) -> list[list[str]]:
    """The columns of every scan of the plan that Spark has made."""
    leaves = frame._jdf.queryExecution().optimizedPlan().collectLeaves()
    scans = [leaves.apply(number) for number in range(leaves.size())]
    return [list(scan.scan().readSchema().fieldNames()) for scan in scans]


def test_only_columns_that_a_plan_uses_are_read(graph: og.Graph, local: HeldSession) -> None:
    graph.load({"Person": [{"name": "Cy"}]})
    frame = graph.to_spark("Person", spark=local.session)
    ages = frame.select("age")
    assert columns_read(ages) == [["age"]]
    assert sorted(row["age"] or 0 for row in ages.collect()) == [0, 7, 36]
    old = frame.filter("age > 8").selectExpr("upper(name) AS name")
    assert columns_read(old) == [["age", "name"]]
    assert [row["name"] for row in old.collect()] == ["ADA"]
    assert columns_read(frame) == [["id", "age", "name"]]
    assert len(frame.collect()) == 3
    pairs = frame.alias("a").join(frame.alias("b"), "age").selectExpr("a.name", "b.id")
    assert columns_read(pairs) == [["age", "name"], ["id", "age"]]
    assert sorted(map(tuple, pairs.collect())) == [("Ada", "Ada"), ("Bo", "Bo")]
    assert frame.filter("age = 7").union(frame.filter("age = 36")).select("name").count() == 2
    some = graph.to_spark("Person", columns=["name", "age"], where="age > 8", spark=local.session)
    assert [tuple(row) for row in some.select("name").collect()] == [("Ada",)]
    assert some.count() == 1


def test_a_frame_keeps_the_state_of_its_making_whichever_columns_are_read(
    graph: og.Graph, local: HeldSession
) -> None:
    og.register_spark(local.session)
    source = local.session.read.format("omnigraph").options(path=graph.uri, type="Person")
    frame = source.load()
    graph.load({"Person": [{"name": "Cy", "age": 1}]})
    assert frame.count() == 2
    graph.load({"Person": [{"name": "Di", "age": 2}]})
    assert (len(frame.select("name").collect()), len(frame.collect())) == (2, 2)
    assert source.load().count() == 4


def test_counting_with_a_condition(graph: og.Graph, local: HeldSession) -> None:
    frame = graph.to_spark("Person", columns=[], where="age > 8", spark=local.session)
    assert frame.count() == 1


def exhaust(size: int) -> int:
    return len(bytearray(size))


def test_a_worker_without_memory_is_said_to_be_one(local: HeldSession) -> None:
    with pytest.raises(LimitExceeded, match="ran out of memory") as caught:
        list(SparkRunner(local).run("read", exhaust, [1 << 60]))
    assert caught.value.code is Code.OUT_OF_MEMORY


def test_wrong_credentials_are_said_to_be_wrong(
    local: HeldSession, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with serving(tmp_path_factory.getbasetemp().parent / "seaweed-of-formats") as options:
        uri = f"s3://{BUCKET}/denied-{tmp_path_factory.getbasetemp().name}"
        wrong = {**options, "aws_secret_access_key": "wrong"}
        with og.init(uri, SCHEMA, storage_options=options) as graph:
            graph.load({"Person": [{"name": "Ada"}]})
        with pytest.raises(Forbidden, match="check the credentials") as denied:
            og.open(uri, storage_options=wrong)
        assert denied.value.code is Code.STORAGE_DENIED
        reader = local.session.read.format("omnigraph").options(path=uri, type="Person")
        with pytest.raises(Exception, match="check the credentials") as caught:
            reader.options(**{f"storage.{name}": value for name, value in wrong.items()}).load()
        assert carried(caught.value).code is Code.STORAGE_DENIED
