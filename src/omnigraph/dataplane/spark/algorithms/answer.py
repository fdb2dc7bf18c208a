"""The result of an algorithm on Spark; it stays there until it is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa

from omnigraph.algorithms.model import Task
from omnigraph.dataplane.spark.algorithms.blocks import Blocks
from omnigraph.dataplane.spark.algorithms.run import VertexValues, shown_values
from omnigraph.dataplane.spark.runner import SparkRunner
from omnigraph.dataplane.spark.table_scan import Frame
from omnigraph.errors import Code, LimitExceeded

_ROW_BYTES: Final = 96


class FrameAnswer:
    """Values that were computed on Spark."""

    def __init__(self, blocks: Blocks, task: Task, done: VertexValues, bytes_max: int) -> None:
        """Hold what was computed for these blocks."""
        self._runner: SparkRunner = blocks.runner
        self._names = blocks.selection.nodes
        self._task = task
        self._size = blocks.layout.size
        self._bytes_max = bytes_max
        self._rows = _rows(blocks, task, done)

    def table(self) -> pa.Table:
        """Rows of type, id and value in memory.

        Raises:
            LimitExceeded: They would take more memory than a result may.
        """
        if self._size * _ROW_BYTES > self._bytes_max:
            text = (
                f"{self._size:,} rows would take about {self._size * _ROW_BYTES} bytes, at most "
                f"{self._bytes_max} are allowed; use to_spark(), or raise `query_bytes_max`"
            )
            raise LimitExceeded(
                Code.LIMIT_EXCEEDED, text, limit="query_bytes_max", most=self._bytes_max
            )
        found = self._runner.perform("result", self._rows.toArrow)
        return found.sort_by("vertex").drop_columns(["vertex"])

    def frame(self, spark: object) -> Frame:
        """The same as a Spark DataFrame."""
        return self._rows.drop("vertex")

    def loadable(self, property_name: str, narrow: bool) -> Mapping[str, Any]:
        """Per node type, what a load reads."""
        kind = "float" if narrow else "long" if self._task.is_whole else "double"
        value = f"CAST({self._task.column} AS {kind}) AS `{property_name}`"
        return {
            f"node:{name}": self._rows.where(f"type = '{name}'").selectExpr("id", value)
            for name in self._names
        }


def _rows(blocks: Blocks, task: Task, done: VertexValues) -> Frame:
    kind = "long" if task.is_whole else "double"
    schema = f"type string, id string, {task.column} {kind}, vertex long"
    attach = _Attach(task, blocks.selection.nodes)
    if isinstance(done.found, np.ndarray):
        return blocks.vertices().mapInArrow(_AttachAll(attach, done.found), schema)
    parts, width = blocks.layout.partitions, blocks.layout.width
    block = f"CAST(vertex DIV {width} AS INT) AS block"
    vertices = blocks.vertices().selectExpr("type", "id", "vertex", block)
    left = vertices.repartition(parts, "block").groupBy("block")
    right = done.found.select("block", "value").repartition(parts, "block").groupBy("block")
    of_block = _AttachBlock(attach, done.kind, width)
    return left.cogroup(right).applyInArrow(
        lambda old, found: of_block(old, found),  # noqa: PLW0108 - as in `Blocks.pieces`
        schema,
    )


class _Attach:
    """Gives vertices their values. Runs on the workers."""

    def __init__(self, task: Task, names: tuple[str, ...]) -> None:
        self._task = task
        self._names = names
        self.columns = ["type", "id", task.column, "vertex"]

    def __call__(self, rows: Any, values: np.ndarray) -> list[Any]:
        types = pa.array(self._names, pa.string()).take(
            pa.array(rows.column("type").to_numpy().astype(np.int32))
        )
        shown = shown_values(self._task, values)
        return [types, rows.column("id"), shown, rows.column("vertex")]

    def empty(self) -> pa.Table:
        value = pa.int64() if self._task.is_whole else pa.float64()
        kinds = (pa.string(), pa.string(), value, pa.int64())
        return pa.Table.from_arrays([pa.array([], each) for each in kinds], names=self.columns)


class _AttachAll:
    """The same, with the values of all vertices. Runs on the workers."""

    def __init__(self, attach: _Attach, values: np.ndarray) -> None:
        self._attach = attach
        self._values = values

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            values = self._values[batch.column("vertex").to_numpy()]
            cells = self._attach(batch, values)
            yield pa.RecordBatch.from_arrays(cells, names=self._attach.columns)


class _AttachBlock:
    """The same, with the values of one block. Runs on the workers."""

    def __init__(self, attach: _Attach, kind: Any, width: int) -> None:
        self._attach = attach
        self._kind = kind
        self._width = width

    def __call__(self, left: pa.Table, right: pa.Table) -> pa.Table:
        if not left.num_rows:
            return self._attach.empty()
        values = np.frombuffer(right.column("value")[0].as_buffer(), self._kind)
        places = left.column("vertex").to_numpy() % self._width
        return pa.Table.from_arrays(self._attach(left, values[places]), names=self._attach.columns)
