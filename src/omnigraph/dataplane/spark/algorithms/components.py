"""Weakly connected components on Spark: forests of parts of the edges, then of all.

A task that has seen many edges tells of them no more than which vertices they connect, which are
fewer edges than there are vertices. So one task can put together what all of them found.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa

from omnigraph.algorithms.components import components, forest
from omnigraph.dataplane.spark import tuning
from omnigraph.dataplane.spark.algorithms.blocks import Blocks, each_row, kept
from omnigraph.dataplane.spark.algorithms.messages import STATE, State, packed_state
from omnigraph.dataplane.spark.table_scan import Frame
from omnigraph.errors import Code, LimitExceeded

# The array of roots, the next one while paths are shortened, and a comparison of the two.
_VERTEX_BYTES: Final = 16
_FOREST: Final = "sources binary, targets binary"
_FOREST_ARROW: Final = pa.schema([("sources", pa.binary()), ("targets", pa.binary())])


def component_states(blocks: Blocks, bytes_max: int) -> Frame:
    """The state of every block: the component of each vertex.

    Raises:
        LimitExceeded: A task would need more memory than `bytes_max` for all vertices.
    """
    size = blocks.layout.size
    if size * _VERTEX_BYTES > bytes_max:
        text = (
            f"components of {size:,} vertices take {size * _VERTEX_BYTES} bytes in one task, at "
            f"most {bytes_max} are allowed; raise the setting `query_bytes_max`"
        )
        raise LimitExceeded(Code.LIMIT_EXCEEDED, text, limit="query_bytes_max", most=bytes_max)
    forests = blocks.edges().select("s", "t").mapInArrow(_Forest(size), _FOREST)
    parts = blocks.layout.partitions
    if parts > tuning.active.forests_max:
        forests = forests.repartition(tuning.active.forests_max).mapInArrow(_Forest(size), _FOREST)
    whole = forests.repartition(1).mapInArrow(_Whole(size, blocks.layout.width), STATE)
    made = kept(whole)
    blocks.runner.perform("connected components", made.count)
    return made


def _ends(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[Any, Any]]:
    """The ends of edges, whether they come one by one or in pieces."""
    for batch in batches:
        if pa.types.is_integer(batch.schema.field(0).type):
            sources, targets = (batch.column(end).to_numpy() for end in (0, 1))
            yield sources.astype(np.int32), targets.astype(np.int32)
            continue
        for cell in each_row(iter([batch])):
            yield (
                np.frombuffer(cell["sources"].as_buffer(), np.int32),
                np.frombuffer(cell["targets"].as_buffer(), np.int32),
            )


def _gathered(ends: Iterator[tuple[Any, Any]], size: int) -> Iterator[tuple[Any, Any]]:
    """Edges in larger pieces: shortening paths costs the same for few as for many."""
    held: list[tuple[Any, Any]] = []
    count = 0
    for pair in ends:
        held.append(pair)
        count += len(pair[0])
        if count >= max(size, tuning.active.piece_edges):
            yield tuple(np.concatenate(each) for each in zip(*held, strict=True))  # type: ignore[misc]
            held, count = [], 0
    if held:
        yield tuple(np.concatenate(each) for each in zip(*held, strict=True))  # type: ignore[misc]


class _Forest:
    """Turns edges into a forest that connects the same vertices. Runs on the workers."""

    def __init__(self, size: int) -> None:
        self._size = size

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        sources, targets = forest(components(self._size, _gathered(_ends(batches), self._size)))
        for start in range(0, len(sources), tuning.active.piece_edges):
            part = slice(start, start + tuning.active.piece_edges)
            cells = [pa.array([each[part].tobytes()], pa.binary()) for each in (sources, targets)]
            yield pa.RecordBatch.from_arrays(cells, schema=_FOREST_ARROW)


class _Whole:
    """Puts forests together and gives each block its components. Runs on one worker."""

    def __init__(self, size: int, width: int) -> None:
        self._size = size
        self._width = width

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        roots = components(self._size, _gathered(_ends(batches), self._size))
        for block, start in enumerate(range(0, self._size, self._width)):
            yield packed_state(block, State(roots[start : start + self._width]))
