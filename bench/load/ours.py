"""This graph, through its public interface."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.load.contender import Pass


def load(
    *,
    source: str | Mapping[str, str],
    target: str,
    engine: str,
    schema: str | None = None,
    mode: str = "append",
    spark: str | None = None,
) -> Pass:
    """A load into a new graph, or into the one at `target` when there is no schema."""
    omnigraph = importlib.import_module("omnigraph")
    graph = omnigraph.open(target) if schema is None else omnigraph.init(target, schema=schema)
    more = {} if spark is None else {"spark": spark}
    about: dict[str, Any] = {}

    def run() -> None:
        done = graph.load(source, mode=mode, engine=engine, **more)
        about.update(engine=str(done.engine), reason=done.reason)

    return Pass(run=run, count=lambda: counts(graph), close=graph.close, about=about)


def index(*, target: str) -> Pass:
    """The indexes of the graph at `target`."""
    omnigraph = importlib.import_module("omnigraph")
    graph = omnigraph.open(target)
    return Pass(run=graph.ensure_indices, count=lambda: counts(graph), close=graph.close)


def export(
    *,
    graph: str,
    target: str,
    engine: str,
    format: str,
    parts: bool = False,
    spark: str | None = None,
) -> Pass:
    """An export of a whole graph."""
    omnigraph = importlib.import_module("omnigraph")
    opened = omnigraph.open(graph, mode="r")
    more = {} if spark is None else {"spark": spark}

    def run() -> None:
        opened.export(target, format=format, parts=parts, engine=engine, **more)

    about: dict[str, Any] = {}

    def count() -> Mapping[str, int]:
        about.update(bytes=written(Path(target)))
        return counts(opened)

    return Pass(run=run, count=count, close=opened.close, about=about)


def first_job(*, spark: str, task: bool, target: str = "") -> Pass:
    """A session of Spark, and one job on it: of Spark alone, or a task in Python."""
    config = importlib.import_module("omnigraph.dataplane.spark.config").configured(spark)

    def run() -> None:
        session = importlib.import_module("omnigraph.dataplane.spark.session")
        with session.acquire(config) as held:
            if task:
                runner = importlib.import_module("omnigraph.dataplane.spark.runner")
                assert list(runner.SparkRunner(held).run("first", abs, [-1])) == [(0, 1)]
            else:
                assert held.session.range(10).count() == 10

    return Pass(run=run, count=dict)


def ready() -> Pass:
    """The class-data archive that the first use of Spark makes for the next."""
    config = importlib.import_module("omnigraph.dataplane.spark.config").configured()
    java = importlib.import_module("omnigraph.dataplane.spark.java")
    archive = importlib.import_module("omnigraph.dataplane.spark.archive")
    place = archive.archive_file(config.home / "cache", java.find_java(os.environ))
    return Pass(run=lambda: archive.make(place), count=dict)


def end_server() -> Pass:
    """The end of the Connect server that stays."""
    config = importlib.import_module("omnigraph.dataplane.spark.config").configured()
    connect = importlib.import_module("omnigraph.dataplane.spark.connect")
    return Pass(run=lambda: connect.stop_server(config.home), count=dict)


def counts(graph: Any) -> dict[str, int]:
    """How many rows a graph has, by type."""
    return {key.partition(":")[2]: rows for key, rows in graph.snapshot().counts.items()}


def written(path: Path) -> int:
    """The bytes of a file, or of all below a folder."""
    if path.is_file():
        return path.stat().st_size
    return sum(item.stat().st_size for item in path.rglob("*") if item.is_file())
