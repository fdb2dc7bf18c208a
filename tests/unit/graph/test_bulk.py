"""Loading, exporting and optimizing through the public face."""

import io
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pandas
import polars
import pytest

import omnigraph as og

SCHEMA = """
node Person { name: String @key  age: I32?  @range(age, 0..150) }
edge Knows: Person -> Person { since: Date? }
"""
COUNT = "query q() { match { $p: Person } return { count($p) as n } }"


@pytest.fixture
def graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[og.Graph]:
    monkeypatch.chdir(tmp_path)
    with og.init("g.omni", SCHEMA, actor="tester") as graph:
        yield graph


def test_what_a_load_tells(graph: og.Graph) -> None:
    told: list[og.Progress] = []
    done = graph.load({"Person": [{"name": "Ada"}, {"name": "Bo", "age": 3}]}, progress=told.append)
    assert done.counts == {"node:Person": og.Counts(inserted=2, updated=0, deleted=0)}
    assert (done.mode, done.engine, done.rows, done.replayed) == ("append", "inprocess", 2, False)
    assert "less than" in done.reason
    assert done.commit == graph.commits.list()[0]
    assert (done.commit.kind, done.commit.actor) == ("load", "tester")
    assert {moment.stage for moment in told} >= {"read", "judge", "commit"}
    assert {moment.reason for moment in told} == {done.reason}
    assert told[-1].rows == 2
    assert graph.query(COUNT).to_pylist() == [{"n": 2}]


def test_queries_see_a_load_at_once_and_snapshots_do_not(graph: og.Graph) -> None:
    graph.load({"Person": [{"name": "Ada"}]})
    before = graph.snapshot()
    assert before.query(COUNT).to_pylist() == [{"n": 1}]
    graph.load({"Person": [{"name": "Ada", "age": 5}, {"name": "Bo"}]}, mode="merge")
    graph.load({"Knows": [{"from": "Ada", "to": "Bo"}]})
    assert before.query(COUNT).to_pylist() == [{"n": 1}]
    text = "query q() { match { $a: Person { age: 5 }  $a knows $b } return { $b.name as b } }"
    assert graph.query(text).to_pylist() == [{"b": "Bo"}]


def test_export_to_a_stream_and_back(graph: og.Graph, tmp_path: Path) -> None:
    graph.load({"Person": [{"name": "Ada", "age": 1}], "Knows": [{"from": "Ada", "to": "Ada"}]})
    stream = io.BytesIO()
    done = graph.export(stream)
    assert done.files == ("-",)
    assert done.bytes == len(stream.getvalue())
    assert done.commit == graph.commits.list()[0].id
    with og.init(tmp_path / "copy.omni", SCHEMA) as copy:
        copy.load(io.BytesIO(stream.getvalue()), format="ndjson")
        again = io.BytesIO()
        copy.export(again)
        assert again.getvalue() == stream.getvalue()


def test_an_export_of_the_past(graph: og.Graph) -> None:
    first = graph.load({"Person": [{"name": "Ada"}]}).commit.id
    graph.load({"Person": [{"name": "Bo"}]})
    stream = io.BytesIO()
    assert graph.export(stream, at=first).rows == {"node:Person": 1, "edge:Knows": 0}
    assert json.loads(stream.getvalue())["data"]["name"] == "Ada"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"mode": "upsert"}, "mode 'upsert' is not one of append, merge, overwrite"),
        ({"mode": "mrge"}, "did you mean `merge`"),
        ({"engine": "flink"}, "engine 'flink' is not one of auto, inprocess, spark"),
        ({"replace": True}, "replace=True is for mode 'merge'"),
        ({"cascade": True}, "cascade=True is for mode 'overwrite'"),
        ({"spark": 3}, "a master or a SparkSession"),
        ({"spark": "localhost"}, "is no Spark master"),
        ({"violations_max": 0}, "violations_max"),
    ],
)
def test_what_makes_no_sense_is_refused(
    graph: og.Graph, arguments: dict[str, object], words: str
) -> None:
    with pytest.raises(og.errors.InvalidInput, match=words):
        graph.load({"Person": [{"name": "Ada"}]}, **arguments)  # type: ignore[arg-type]
    assert graph.snapshot().counts["node:Person"] == 0


def test_a_reader_does_not_load(graph: og.Graph) -> None:
    with og.open("g.omni", "r") as reader:
        with pytest.raises(og.errors.Forbidden):
            reader.load({"Person": [{"name": "Ada"}]})
        with pytest.raises(og.errors.Forbidden):
            reader.optimize()


def test_without_java_spark_says_what_to_install(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(og.errors.InvalidInput, match=r"(?i)java") as caught:
        graph.load({"Person": [{"name": "Ada"}]}, engine="spark", spark="local[1]")
    assert caught.value.code == "engine_unavailable"
    assert "inprocess" in str(caught.value)


def test_a_listener_that_fails_stops_the_load(graph: og.Graph) -> None:
    def listener(moment: og.Progress) -> None:
        if moment.stage == "judge":
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        graph.load({"Person": [{"name": "Ada"}]}, progress=listener)
    assert graph.snapshot().counts["node:Person"] == 0


def test_a_file_that_changes_while_it_is_read_is_refused(graph: og.Graph) -> None:
    folder = Path("many")
    folder.mkdir()
    for name in "ab":
        (folder / f"{name}.jsonl").write_text(
            f'{{"type": "Person", "data": {{"name": "{name}"}}}}\n'
        )

    def meddle(moment: og.Progress) -> None:
        if moment.stage == "read" and moment.tasks_done == 0:
            (folder / "b.jsonl").write_text("")

    with pytest.raises(og.errors.Conflict, match="has changed while it was read"):
        graph.load(folder, progress=meddle)
    assert graph.snapshot().counts["node:Person"] == 0


def test_threads_that_make_the_same_branch_all_load(graph: og.Graph) -> None:
    def work(number: int) -> og.LoadResult:
        rows = {"Person": [{"name": f"p{number}"}]}
        return graph.load(rows, branch="shared", create_from="main")

    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(work, range(4)))
    assert sum(result.branch_created for result in done) == 1
    assert graph.snapshot("shared").counts["node:Person"] == 4
    assert graph.snapshot().counts["node:Person"] == 0


def test_data_frames_with_categories_and_indexes(graph: og.Graph) -> None:
    names = polars.Series(["a", "b"], dtype=polars.Categorical)
    graph.load({"Person": polars.DataFrame({"name": names})})
    index = pandas.Index([7], name="age")
    graph.load({"Person": pandas.DataFrame({"name": ["c"]}, index=index)})
    text = 'query q() { match { $p: Person { name: "c" } } return { $p.age as age } }'
    assert graph.query(text).to_pylist() == [{"age": 7}]
    mixed = pandas.DataFrame({"name": ["d", 1]})
    with pytest.raises(og.errors.InvalidInput, match="no form in Arrow"):
        graph.load({"Person": mixed})


def test_the_suffix_tells_the_format(graph: og.Graph) -> None:
    graph.load({"Person": [{"name": "Ada"}]})
    graph.export("people.parquet", types=["Person"])
    assert Path("people.parquet").read_bytes().startswith(b"PAR1")
    with pytest.raises(og.errors.InvalidInput, match="read but not written"):
        graph.export("people.csv", types=["Person"])
    with pytest.raises(og.errors.InvalidInput, match="progress is a function"):
        graph.load({"Person": []}, progress=5)  # type: ignore[arg-type]
