"""Large merges run on Spark, with the result of small ones."""

from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.dataplane.spark.runner import SparkRunner
from omnigraph.dataplane.spark.session import HeldSession
from tests.large_merges import check_agreement, made


def test_spark_merges_what_one_process_would(
    tmp_path: Path, local: HeldSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    stages: list[str] = []
    run = SparkRunner.run

    def noted(self, stage, task, items):  # type: ignore[no-untyped-def]
        stages.append(stage)
        return run(self, stage, task, items)

    monkeypatch.setattr(SparkRunner, "run", noted)
    assert local.session is not None  # a session that runs is taken from the first byte on
    settings = og.Settings(spark_running_bytes_min=0)
    made(tmp_path / "g.omni").close()
    with og.open(str(tmp_path / "g.omni"), settings=settings) as graph:
        # Each stage is a job of Spark, which takes its time.
        check_agreement(graph, sides=(None,), merge_task_rows=150, merge_keys=1_000)
    assert {"compare", "merge", "write"} <= set(stages)
