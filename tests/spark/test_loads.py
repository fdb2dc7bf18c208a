"""One suite for both engines: the same input gives the same graph, violations and files."""

import shutil
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.dataplane.spark.runner import SparkRunner
from omnigraph.dataplane.spark.session import HeldSession
from tests.graphs import audit
from tests.spark.loads import contents, faulty, people, refused
from tests.unit.dataplane.load.support import PERSON, Lab, company, edge, lab_at, person


@pytest.fixture
def runner(local: HeldSession) -> SparkRunner:
    return SparkRunner(local)


@pytest.fixture
def labs(tmp_path: Path) -> tuple[Lab, Lab]:
    return lab_at(tmp_path / "here"), lab_at(tmp_path / "spark")


def test_append(labs: tuple[Lab, Lab], runner: SparkRunner) -> None:
    here, there = labs
    done = [
        lab.load(people(60), split_bytes=2_000, partitions=3, runner=each)
        for lab, each in ((here, None), (there, runner))
    ]
    assert done[0].counts == done[1].counts
    assert contents(here.repo) == contents(there.repo)
    audit(there.repo)


def test_merge(labs: tuple[Lab, Lab], runner: SparkRunner) -> None:
    here, there = labs
    known = people(40)
    change = [
        person("p1", age=77),
        person("p2", email=None),
        person("p3", email="p4@x"),
        person("p4", email="p3@x"),
        person("new"),
        edge("Rates", "p1", "c1", stars=0),
        edge("Rates", "new", "c1", stars=2),
    ]
    for lab, each in ((here, None), (there, runner)):
        lab.load(known)
        before = lab.row_ids(PERSON)
        lab.load(change, "merge", split_bytes=200, partitions=2, runner=each)
        after = lab.row_ids(PERSON)
        assert {name: after[name] for name in before} == before
    assert contents(here.repo) == contents(there.repo)
    assert there.rows(PERSON)["p1"]["score"] == 0.25
    audit(there.repo)


def test_overwrite_with_cascade(labs: tuple[Lab, Lab], runner: SparkRunner) -> None:
    here, there = labs
    for lab, each in ((here, None), (there, runner)):
        lab.load(people(30))
        change = [company(f"c{n}") for n in (0, 2, 9)]
        lab.load(change, "overwrite", cascade=True, runner=each)
    assert contents(here.repo) == contents(there.repo)
    audit(there.repo)


def test_a_graph_made_anew_in_the_place_of_another(tmp_path: Path, local: HeldSession) -> None:
    place = tmp_path / "g.omni"
    for names in (("first", "second"), ("added", "first", "second")):
        properties = "".join(f"  {name}: I32?" for name in names)
        values = {name: number for number, name in enumerate(names)}
        with og.init(place, f"node Person {{ name: String @key{properties} }}") as graph:
            row = {"name": "Ada", **values}
            graph.load({"Person": [row]}, engine="spark", spark=local.session)
            stored = [found.asDict() for found in graph.to_spark("Person").collect()]
            assert stored == [{"id": "Ada", **row}]
        shutil.rmtree(place)


def test_violations_are_the_same(labs: tuple[Lab, Lab], runner: SparkRunner) -> None:
    here, there = labs
    found = refused(here, faulty(50), None)
    assert refused(there, faulty(50), runner) == found
    assert {each["rule"] for each in found} == {
        "syntax",
        "field",
        "key",
        "range",
        "unique",
        "endpoint",
        "cardinality",
    }


def test_exports_are_equal_byte_by_byte(tmp_path: Path, local: HeldSession) -> None:
    schema = "node Person { name: String @key  age: I32?  b: Blob? }  edge Knows: Person -> Person"
    with og.init(tmp_path / "g.omni", schema) as graph:
        graph.load({"Person": [{"name": f"p{n}", "age": n, "b": b"x"} for n in range(100)]})
        graph.load({"Knows": [{"from": f"p{n}", "to": "p0"} for n in range(100)]})
        for name in ("one.jsonl", "parts/"):
            files = {}
            for engine in ("inprocess", "spark"):
                target = tmp_path / engine / name
                text = f"{target}/" if name.endswith("/") else str(target)
                target.parent.mkdir(exist_ok=True)
                spark = local.session if engine == "spark" else None
                graph.export(text, engine=engine, spark=spark)
                found = [target] if target.is_file() else sorted(target.iterdir())
                files[engine] = {path.name: path.read_bytes() for path in found}
            assert files["inprocess"] == files["spark"]
            assert files["spark"]
        with og.init(tmp_path / "copy.omni", schema) as copy:
            copy.load(tmp_path / "spark" / "parts", engine="spark", spark=local.session)
            copy.export(tmp_path / "again.jsonl")
        whole = (tmp_path / "spark" / "one.jsonl").read_bytes()
        assert (tmp_path / "again.jsonl").read_bytes() == whole


def test_optimize_on_spark(tmp_path: Path, local: HeldSession) -> None:
    with og.init(tmp_path / "g.omni", "node Person { name: String @key  age: I32? @index }") as g:
        for n in range(4):
            g.load({"Person": [{"name": f"{n}-{i}", "age": i} for i in range(50)]})
        done = g.optimize(engine="spark", spark=local.session)
        assert done.commit is not None
        assert done.engine == "spark"
        before, after = done.fragments["node:Person"]
        assert after < before
        text = "query q() { match { $p: Person { age: 7 } } return { count($p) as n } }"
        assert g.query(text).to_pylist() == [{"n": 4}]
        assert g.optimize(engine="spark", spark=local.session).commit is None


def test_progress_and_the_reason_are_told(tmp_path: Path, local: HeldSession) -> None:
    told: list[og.Progress] = []
    with og.init(tmp_path / "g.omni", "node Person { name: String @key }") as graph:
        done = graph.load(
            {"Person": [{"name": "a"}]}, engine="spark", spark=local.session, progress=told.append
        )
    assert (done.engine, done.reason) == ("spark", "asked for")
    assert {moment.stage for moment in told} >= {"read", "judge", "commit"}
    assert told[-1].rows == 1
