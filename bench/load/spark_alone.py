"""Spark without this graph: read the lines, write Parquet. No rules, and no graph afterwards."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

from bench.load.contender import THREADS, Pass
from bench.load.schema import EDGES

FIELDS: Final = {
    "Person": "key STRING, name STRING, age INT, score DOUBLE, active BOOLEAN, since DATE, "
    "city STRING, bio STRING",
    "Company": "key STRING, name STRING, sector STRING, founded INT",
    "Knows": "since DATE, weight DOUBLE",
    "WorksAt": "since DATE, role STRING",
}
# Every field of every type once.
UNION: Final = (
    "key STRING, name STRING, age INT, score DOUBLE, active BOOLEAN, since DATE, city STRING, "
    "bio STRING, sector STRING, founded INT, weight DOUBLE, role STRING"
)


def first_job(*, target: str = "") -> Pass:
    """A session as Spark starts it, and one job on it."""

    def run() -> None:
        assert session().range(10).count() == 10

    return Pass(run=run, count=dict)


def ndjson(*, source: str, types: Sequence[str], target: str) -> Pass:
    """One read and one write per type, each with the schema of the type."""
    spark = session()

    def run() -> None:
        for name in types:
            kind = "edge" if name in EDGES else "type"
            ends = "`from` STRING, `to` STRING, " if name in EDGES else ""
            schema = f"{kind} STRING, {ends}data STRUCT<{_struct(FIELDS[name])}>"
            lines = spark.read.schema(schema).json(source).where(f"{kind} = '{name}'")
            chosen = ["from", "to", "data.*"] if name in EDGES else ["data.*"]
            lines.select(*chosen).write.parquet(str(Path(target) / name))

    return Pass(run=run, count=lambda: {name: _rows(Path(target) / name) for name in types})


def ndjson_at_once(*, source: str, types: Sequence[str], target: str) -> Pass:
    """One read with the fields of all types, one write that parts them by type."""
    spark = session()

    def run() -> None:
        schema = (
            f"type STRING, edge STRING, `from` STRING, `to` STRING, data STRUCT<{_struct(UNION)}>"
        )
        lines = spark.read.schema(schema).json(source)
        rows = lines.selectExpr("coalesce(type, edge) AS kind", "`from`", "`to`", "data.*")
        rows.write.partitionBy("kind").parquet(target)

    return Pass(
        run=run, count=lambda: {name: _rows(Path(target) / f"kind={name}") for name in types}
    )


def parquet(*, source: str, types: Sequence[str], target: str) -> Pass:
    """Parquet to Parquet."""
    spark = session()

    def run() -> None:
        for name in types:
            rows = spark.read.parquet(f"{source}/{name}.parquet")
            rows.write.parquet(str(Path(target) / name))

    return Pass(run=run, count=lambda: {name: _rows(Path(target) / name) for name in types})


@cache
def session() -> Any:
    """A session as one would make it, kept for the life of the process."""
    sql = importlib.import_module("pyspark.sql")
    settings = {
        "spark.driver.memory": "4g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    builder = sql.SparkSession.builder.master(f"local[{THREADS}]")
    return builder.config(map=settings).getOrCreate()


def _struct(fields: str) -> str:
    return ", ".join(field.replace(" ", ": ", 1) for field in fields.split(", "))


def _rows(folder: Path) -> int:
    return sum(pq.read_metadata(path).num_rows for path in folder.glob("*.parquet"))
