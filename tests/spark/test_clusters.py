"""The runner where workers are other processes: a cluster, and what breaks there."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from omnigraph.dataplane.spark.config import configured
from omnigraph.dataplane.spark.runner import SparkRunner
from omnigraph.dataplane.spark.session import acquire
from tests.spark import kernels
from tests.spark.clusters import EXECUTORS, Cluster, standalone
from tests.spark.kernels import Spec, traces

SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.minTaskRuntime": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.5",
}


def specs(folder: Path, count: int) -> list[Spec]:
    return [Spec(folder, number) for number in range(count)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with standalone(tmp_path_factory.mktemp("standalone")) as found:
        yield found


@pytest.fixture(scope="module")
def runner(cluster: Cluster) -> Iterator[SparkRunner]:
    with acquire(configured(cluster.master, {**EXECUTORS, **SPECULATION})) as held:
        assert held.ships
        yield SparkRunner(held)


def test_workers_run_the_code_that_they_are_given(runner: SparkRunner, tmp_path: Path) -> None:
    found = {place for _, place in runner.run("read", kernels.where_code_is, specs(tmp_path, 4))}
    assert len({Path(place).parents[1].name for place in found}) == 1
    assert all(Path(place).parents[1].name.startswith("omnigraph-") for place in found)
    assert all(Path(place).parents[1].suffix == ".zip" for place in found)


def test_a_task_that_fails_after_its_write_counts_once(runner: SparkRunner, tmp_path: Path) -> None:
    found = dict(runner.run("read", kernels.fail_after_write, specs(tmp_path, 3)))
    assert [found[number][1] for number in range(3)] == [0, 1, 0]
    # The file of the first attempt is there, and no receipt names it.
    assert len(traces(tmp_path, 1)) == 2
    assert (tmp_path / found[1][0]).read_text() == "row 1"


def test_an_executor_is_killed_and_every_item_has_one_result(
    runner: SparkRunner, tmp_path: Path
) -> None:
    found = dict(runner.run("read", kernels.kill_executor, specs(tmp_path, 4)))
    assert (tmp_path / "killed").exists()
    assert sorted(found) == [0, 1, 2, 3]
    for number, (name, _) in found.items():
        assert (tmp_path / name).read_text() == f"row {number}"


def test_the_copy_of_a_straggler_wins_and_counts_once(runner: SparkRunner, tmp_path: Path) -> None:
    found = dict(runner.run("read", kernels.straggle, specs(tmp_path, 4)))
    assert found[0][1] > 0
    assert len(traces(tmp_path, 0)) == 2
    assert sorted(found) == [0, 1, 2, 3]
