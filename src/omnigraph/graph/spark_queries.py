"""Queries on Spark."""

from __future__ import annotations

from collections.abc import Mapping

from omnigraph.core.graph_version import GraphVersion
from omnigraph.dataplane.spark.config import configured, unavailable
from omnigraph.errors import Code, InvalidInput
from omnigraph.exec.read.rows import Rows
from omnigraph.graph.arguments import one_of
from omnigraph.graph.languages import CompiledQuery
from omnigraph.graph.parts import GraphParts
from omnigraph.lang.catalog.model import Catalog
from omnigraph.lang.ir.expr import ConstValue
from omnigraph.types import EngineChoice


def on_spark(
    parts: GraphParts,
    reading: CompiledQuery,
    params: Mapping[str, ConstValue],
    pinned: GraphVersion,
    catalog: Catalog,
    engine: EngineChoice,
    spark: object,
) -> Rows | None:
    """The result of a query on Spark; None when `auto` finds that there is no Spark here."""
    asked = one_of(EngineChoice, engine, "engine")
    config = configured(spark)
    missing = unavailable(config)
    if missing is not None:
        if asked == "spark":
            raise InvalidInput(Code.ENGINE_UNAVAILABLE, missing)
        return None
    # Spark is imported only by those who use it.
    from omnigraph.exec.spark.query import SparkQueries  # noqa: PLC0415

    queries = SparkQueries(parts.repo, parts.search, parts.limits)
    now_ms = parts.clock.now_us() // 1000
    return queries.run(reading.plan, params, now_ms, pinned, catalog, config)
