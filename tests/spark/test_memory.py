"""The memory of the driver, the JVM and every worker keeps within what docs/spark.md says."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from bench.load import items
from bench.load.client import Client, Sample
from bench.load.contender import Pass
from omnigraph.dataplane import tuning
from omnigraph.dataplane.spark.config import configured
from omnigraph.dataplane.spark.runner import SparkRunner
from omnigraph.dataplane.spark.session import acquire
from omnigraph.errors import Code, LimitExceeded
from tests.spark import kernels

MIB = 1 << 20
SCALE = 1 / 12
# As docs/spark.md has them.
DRIVER_BYTES = 400 * MIB
PER_JUDGED_KEY = 180
PER_UPDATED_ROW = 120
WORKER_BYTES = 1_024 * MIB
JVM_BYTES = (1_024 + 512) * MIB
SPARK = {"engine": "spark", "spark": "local[2,3]"}
QUERY = """
query q() { match { $i: Item $i.value > 10 } return { $i.value as value, count($i) as n }
  order { $i.value asc } limit 5 }
"""


def query(*, target: str) -> Pass:
    """The contender of a query. It runs in the process that is measured."""
    omnigraph = importlib.import_module("omnigraph")
    graph = omnigraph.open(target, "r")
    rows: list[Any] = []

    def run() -> None:
        rows.extend(graph.query(QUERY, **SPARK).to_pylist())

    def count() -> Mapping[str, int]:
        return {"rows": len(rows)}

    return Pass(run=run, count=count, close=graph.close)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Sample]:
    """What a load, an update of all rows, and a query of one process took."""
    folder = tmp_path_factory.mktemp("memory")
    rows = items.updated(folder / "data", SCALE)
    graph = str(folder / "g.omni")
    load = {"schema": items.SCHEMA, "target": graph, **SPARK}
    merge = {"mode": "merge", "target": graph, **SPARK}
    found: dict[str, Sample] = {}
    with Client(folder / "log.txt", cache=folder / "home") as client:
        for name, call, arguments in (
            ("load", "bench.load.ours:load", _with(load, folder, "base")),
            ("merge", "bench.load.ours:load", _with(merge, folder, "change")),
            ("query", f"{__name__}:query", {"target": graph}),
        ):
            found[name] = client.measure(call, arguments)
    assert found["load"].counts == found["merge"].counts == {"Item": rows}
    assert found["query"].counts == {"rows": 5}
    return found


def _with(arguments: dict[str, Any], folder: Path, name: str) -> dict[str, Any]:
    return {**arguments, "source": {"Item": str(folder / "data" / f"{name}.parquet")}}


@pytest.mark.parametrize("work", ["load", "merge", "query"])
def test_every_process_keeps_within_its_bound(measured: dict[str, Sample], work: str) -> None:
    sample = measured[work]
    rows = round(12_000_000 * SCALE)
    most = DRIVER_BYTES
    if work != "query":
        most += PER_JUDGED_KEY * min(rows, tuning.active.driver_keys_max)
    if work == "merge":
        most += PER_UPDATED_ROW * rows
    assert sample.driver_bytes <= most
    assert 0 < sample.jvm_bytes <= JVM_BYTES
    assert 0 < sample.worker_bytes <= WORKER_BYTES


def test_a_worker_that_passes_a_hard_bound_is_told_as_out_of_memory(tmp_path: Path) -> None:
    bound = {"spark.executor.pyspark.memory": "3g"}
    with (
        acquire(configured("local[1,2]", bound)) as held,
        pytest.raises(LimitExceeded) as caught,
    ):
        list(SparkRunner(held).run("read", kernels.take_memory, [kernels.Spec(tmp_path, 0)]))
    assert caught.value.code is Code.OUT_OF_MEMORY
