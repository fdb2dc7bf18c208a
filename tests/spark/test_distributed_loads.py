"""Loads where workers are other processes, some of which die: the result is exact."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.dataplane.spark.config import configured
from omnigraph.dataplane.spark.runner import SparkRunner
from omnigraph.dataplane.spark.session import acquire
from tests.graphs import audit
from tests.spark.clusters import EXECUTORS, connect_server, standalone
from tests.spark.loads import BreakingRunner, contents, faulty, loaded_here, people, refused
from tests.spark.streams import FileStream
from tests.spark.test_clusters import SPECULATION
from tests.unit.dataplane.load.support import lab_at, person


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkRunner]:
    with (
        standalone(tmp_path_factory.mktemp("standalone")) as cluster,
        acquire(configured(cluster.master, {**EXECUTORS, **SPECULATION})) as held,
    ):
        yield SparkRunner(held)


@pytest.mark.parametrize(
    "how",
    [
        "kill",
        pytest.param("fail", marks=pytest.mark.deep),
        pytest.param("straggle", marks=pytest.mark.deep),
    ],
)
def test_tasks_that_go_wrong_leave_no_trace_in_the_graph(
    runner: SparkRunner, tmp_path: Path, how: str
) -> None:
    expected = loaded_here(tmp_path / "expected")
    lab = lab_at(tmp_path / "lab")
    append = BreakingRunner(runner, tmp_path, how)
    lab.load(people(40), split_bytes=2_000, partitions=2, runner=append)
    merge = BreakingRunner(runner, tmp_path, how, stage="write")
    (tmp_path / "killed").unlink(missing_ok=True)
    changes = [person(f"p{n}", age=1) for n in range(0, 40, 3)]
    lab.load(changes, "merge", split_bytes=200, partitions=2, runner=merge)
    assert (append.broken, merge.broken) == (1, 1)
    assert contents(lab.repo) == contents(expected.repo)
    audit(lab.repo)


def test_violations_on_a_cluster(runner: SparkRunner, tmp_path: Path) -> None:
    here, there = lab_at(tmp_path / "here"), lab_at(tmp_path / "there")
    assert refused(there, faulty(30), runner) == refused(here, faulty(30), None)


def test_load_and_export_over_connect(tmp_path: Path) -> None:
    schema = "node Person { name: String @key  age: I32? }  edge Knows: Person -> Person"
    with (
        connect_server(tmp_path / "server") as url,
        acquire(configured(url)) as held,
        og.init(tmp_path / "g.omni", schema) as graph,
    ):
        frame = held.session.createDataFrame([("Ada", 36), ("Bo", 7)], "name string, age int")
        first = graph.load({"Person": frame}, spark=held.session)
        assert (first.engine, first.counts["node:Person"].inserted) == ("spark", 2)
        lines = tmp_path / "more.jsonl"
        lines.write_text('{"edge": "Knows", "from": "Ada", "to": "Bo"}\n')
        graph.load(lines, engine="spark", spark=held.session)
        with pytest.raises(og.errors.ConstraintViolated, match="exists already"):
            graph.load({"Person": frame}, spark=held.session)
        done = graph.export(f"{tmp_path}/out/", engine="spark", spark=held.session)
        assert (done.engine, done.rows) == ("spark", {"node:Person": 2, "edge:Knows": 1})
        with og.init(tmp_path / "copy.omni", schema) as copy:
            copy.load(tmp_path / "out", engine="spark", spark=held.session)
            assert copy.snapshot().counts == graph.snapshot().counts


def test_a_stream_over_connect(tmp_path: Path) -> None:
    schema = "node Person { name: String @key  age: I32? }"
    with (
        # The sink is opened by a process of the server, which needs our package for that.
        connect_server(tmp_path / "server", paths=[Path(og.__file__).parents[1]]) as url,
        acquire(configured(url)) as held,
        og.init(tmp_path / "g.omni", schema) as graph,
    ):
        stream = FileStream(graph, held.session, tmp_path)
        stream.add("1.json", ("s1", 1))
        stream.run()
        assert (graph.commits.list()[0].idempotency_key or "").startswith("stream:people:0:")
        commits = graph.commits.list()
        stream.lose_checkpoint()
        stream.run()
        assert graph.commits.list() == commits
        stream.lose_checkpoint()
        stream.add("2.json", ("s2", 2))
        stream.run()
        assert stream.ages() == {"s1": 1, "s2": 2}
