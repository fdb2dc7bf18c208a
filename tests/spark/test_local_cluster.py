"""Executors under the driver. Apart from other clusters: Spark has one session per process."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from omnigraph.dataplane.spark.config import configured
from omnigraph.dataplane.spark.runner import SparkRunner
from omnigraph.dataplane.spark.session import acquire
from tests.spark import kernels
from tests.spark.agreeing import agree
from tests.spark.clusters import EXECUTORS, local_cluster
from tests.spark.loads import BreakingRunner, contents, loaded_here, people
from tests.spark.test_clusters import specs
from tests.unit.dataplane.load.support import lab_at, person


@pytest.fixture(scope="module")
def executors() -> Iterator[SparkRunner]:
    with local_cluster() as master, acquire(configured(master, EXECUTORS)) as held:
        yield SparkRunner(held)


def test_tasks(executors: SparkRunner, tmp_path: Path) -> None:
    found = dict(executors.run("read", kernels.kill_executor, specs(tmp_path, 4)))
    assert sorted(found) == [0, 1, 2, 3]
    places = dict(executors.run("read", kernels.where_code_is, specs(tmp_path, 1)))
    assert ".zip" in places[0]


def test_loads(executors: SparkRunner, tmp_path: Path) -> None:
    lab = lab_at(tmp_path / "lab")
    broken = BreakingRunner(executors, tmp_path, "kill")
    lab.load(people(40), split_bytes=2_000, partitions=2, runner=broken)
    changes = [person(f"p{n}", age=1) for n in range(0, 40, 3)]
    lab.load(changes, "merge", runner=executors)
    assert contents(lab.repo) == contents(loaded_here(tmp_path / "expected").repo)


def test_queries(executors: SparkRunner, tmp_path: Path) -> None:
    agree(tmp_path / "g", executors.session)
