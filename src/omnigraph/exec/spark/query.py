"""Running a plan on Spark."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.core.repository import Repository
from omnigraph.core.schema.arrow_types import arrow_type
from omnigraph.dataplane.spark.config import SparkConfig
from omnigraph.dataplane.spark.dense import DenseFrames
from omnigraph.dataplane.spark.failures import job_error
from omnigraph.dataplane.spark.runner import SparkRunner
from omnigraph.dataplane.spark.session import HeldSession, acquire
from omnigraph.dataplane.spark.table_scan import Frame
from omnigraph.errors import GraphError
from omnigraph.exec.evaluate import EvalContext
from omnigraph.exec.large_text import joined
from omnigraph.exec.memory import too_large
from omnigraph.exec.read.bounded import bounded, predicates, text_matches
from omnigraph.exec.read.columns import ComputedColumn, EntityColumn, ResultColumn
from omnigraph.exec.read.limits import Limits
from omnigraph.exec.read.program import mode_of, read_at_the_end
from omnigraph.exec.read.rows import Rows
from omnigraph.exec.search.search import Search, query_words
from omnigraph.exec.spark.frames import Frames
from omnigraph.exec.spark.pipeline import Pipeline
from omnigraph.exec.spark.results import Results
from omnigraph.exec.view import GraphView
from omnigraph.lang.catalog.identity import END_NAMES
from omnigraph.lang.catalog.model import Catalog
from omnigraph.lang.ir.expr import ConstValue, Entity
from omnigraph.lang.ir.ops import OutputColumn, ReadPlan
from omnigraph.lang.values import ValueType


class SparkRows(Rows):
    """Rows that Spark computes. The first use of a value collects all of them.

    What is collected must fit into `query_bytes_max`; `to_spark` has no such bound.
    """

    __slots__ = ("__weakref__", "_collect", "_frame", "_outputs", "_table")

    def __init__(
        self,
        plan: ReadPlan,
        frame: Frame,
        collect: Callable[[Frame], pa.Table],
        limits: Limits,
        done: Callable[[], None],
    ) -> None:
        """Hold a frame with the columns `o0`, `o1`, …; `done` is called at its end."""
        self.columns = plan.columns
        self._outputs = plan.outputs
        self._frame = frame
        self._collect = collect
        self._limits = limits
        self._listed = None
        self._table: Rows | None = None
        # At the end of the process the session goes anyway.
        weakref.finalize(self, done).atexit = False

    def __repr__(self) -> str:
        if self._table is not None:
            return super().__repr__()
        return f"<rows on Spark: {', '.join(self.columns)}>"

    @property
    def types(self) -> tuple[ValueType, ...]:
        """The types of the columns."""
        return tuple(item.type for item in self._outputs)

    def to_spark(self, spark: object = None) -> Any:
        """The result as a DataFrame of the session that computes it; nothing is collected."""
        if spark is not None and spark is not self._frame.sparkSession:
            return super().to_spark(spark)
        return self._frame.toDF(*self.columns)

    def settled(self) -> Rows:
        """The same rows, with nothing left to read."""
        return self._read()

    @property
    def _columns(self) -> Sequence[ResultColumn]:  # type: ignore[override]
        return self._read()._columns

    @property
    def _count(self) -> int:  # type: ignore[override]
        return len(self._read())

    def _read(self) -> Rows:
        if self._table is None:
            table = self._collect(self._frame)
            if table.nbytes > self._limits.bytes_max:
                raise too_large(table.nbytes, self._limits.bytes_max, "collecting the result")
            columns = [
                _column(item, table.column(place)) for place, item in enumerate(self._outputs)
            ]
            self._table = Rows(self.columns, columns, table.num_rows, self._limits)
        return self._table


def _column(item: OutputColumn, array: pa.ChunkedArray) -> ResultColumn:
    """A column as it came back, in the types that the graph gives it."""
    if not isinstance(item.expr, Entity):
        return ComputedColumn(_cast(array, item.type), item.type)
    whole = joined(array)
    valid = whole.is_valid().to_numpy(zero_copy_only=False)
    expr = item.expr
    read = {
        column.name: _cast(
            pc.struct_field(whole, END_NAMES.get(column.name, column.name)), column.type
        )
        for column in expr.columns
    }
    handles = np.where(valid, np.int32(0), np.int32(-1))
    # Everything is read, so no view is asked.
    return EntityColumn(cast(GraphView, None), expr.entity, expr.columns, handles, expr.type, read)


def _cast(array: pa.Array | pa.ChunkedArray, kind: ValueType) -> pa.Array:
    wanted = arrow_type(kind)
    found = joined(array)
    return found if found.type == wanted else pc.cast(found, wanted)


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
