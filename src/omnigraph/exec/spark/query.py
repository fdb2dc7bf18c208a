"""Running a plan on Spark."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import pyarrow as pa

from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.core.repository import Repository
from omnigraph.dataplane.spark.config import SparkConfig
from omnigraph.dataplane.spark.dense import DenseFrames
from omnigraph.dataplane.spark.failures import job_error
from omnigraph.dataplane.spark.runner import SparkRunner
from omnigraph.dataplane.spark.session import HeldSession, acquire
from omnigraph.dataplane.spark.table_scan import Frame
from omnigraph.errors import GraphError
from omnigraph.exec.evaluate import EvalContext
from omnigraph.exec.read.bounded import bounded, predicates, text_matches
from omnigraph.exec.read.limits import Limits
from omnigraph.exec.read.program import mode_of, read_at_the_end
from omnigraph.exec.search.engine import Search, query_words
from omnigraph.exec.spark.frames import Frames
from omnigraph.exec.spark.pipeline import Pipeline
from omnigraph.exec.spark.results import Results
from omnigraph.exec.spark.rows import SparkRows
from omnigraph.lang.catalog.model import Catalog
from omnigraph.lang.ir.expr import ConstValue
from omnigraph.lang.ir.ops import ReadPlan


class SparkQueries:
    """Runs reading plans of one graph on Spark."""

    def __init__(self, repo: Repository, search: Search, limits: Limits) -> None:
        """Read this graph."""
        self._repo = repo
        self._search = search
        self._limits = limits

    def run(
        self,
        plan: ReadPlan,
        params: Mapping[str, ConstValue],
        now_ms: int,
        snapshot: GraphVersion,
        catalog: Catalog,
        config: SparkConfig,
    ) -> SparkRows:
        """The result of a plan over a snapshot, to be computed when it is asked for.

        Long traversals and the statistics of text search are computed at once.

        Raises:
            InvalidInput: A parameter is out of bounds, or Spark cannot be started here.
            Unavailable: Spark does not answer.
        """
        context = EvalContext(params, now_ms)
        for item in bounded(plan):
            item.check(context)
        for predicate in predicates(plan.pipeline):
            for match in text_matches(predicate):
                query_words(match.query, context)
        held = acquire(config)
        pipeline: Pipeline | None = None
        try:
            runner = SparkRunner(held)
            frames = Frames(
                DenseFrames(held, self._repo, snapshot, catalog), plan, catalog, context
            )
            pipeline = Pipeline(frames, runner.perform)
            results = Results(frames, self._search, runner.perform)
            bound = pipeline.run(
                plan.pipeline, frames.start(), read_at_the_end(plan), mode_of(plan)
            )
            frame = results.frame(bound)
        except BaseException as error:
            log = held.log
            _release(held, pipeline)
            if isinstance(error, GraphError) or not isinstance(error, Exception):
                raise
            raise job_error(error, log) from error

        def collect(made: Frame) -> pa.Table:
            self._repo.require_open()
            found: pa.Table = runner.perform("query", made.toArrow)
            return found

        return SparkRows(plan, frame, collect, self._limits, partial(_release, held, pipeline))


def _release(held: HeldSession, pipeline: Pipeline | None) -> None:
    frames: list[Any] = [] if pipeline is None else pipeline.kept
    for frame in frames:
        # The session may be gone, and what it kept with it.
        with suppress(Exception):
            frame.unpersist()
    held.release()
