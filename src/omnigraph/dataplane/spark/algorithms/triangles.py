"""Counting triangles on Spark: one task per set of up to three blocks.

A triangle has its corners in one, two or three blocks, and is counted by the task of just these.
That task needs the edges between these blocks, so each piece of edges goes to many tasks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa

from omnigraph.algorithms.csr import simple_csr_graph
from omnigraph.algorithms.triangles import triangle_counts
from omnigraph.dataplane.spark import tuning
from omnigraph.dataplane.spark.algorithms.blocks import BlockLayout, Blocks, each_row
from omnigraph.dataplane.spark.algorithms.messages import (
    MESSAGES,
    MESSAGES_ARROW,
    Kinds,
    Message,
    State,
    learned,
    packed_message,
    states,
    summed,
    sums,
)
from omnigraph.dataplane.spark.table_scan import Frame
from omnigraph.lang.ir.ops import Towards

_COPIES: Final = "corners string, source int, target int, sources binary, targets binary"
_COPIES_ARROW: Final = pa.schema(
    [
        ("corners", pa.string()),
        ("source", pa.int32()),
        ("target", pa.int32()),
        ("sources", pa.binary()),
        ("targets", pa.binary()),
    ]
)


def triangle_states(blocks: Blocks) -> Frame:
    """The state of every block: how many triangles each vertex is in."""
    shape = blocks.layout
    # Fewer and larger blocks than for iterations: the number of tasks grows with their third power.
    count = max(
        2, int(np.ceil(np.sqrt(12 * blocks.edge_count / tuning.active.triangle_task_edges)))
    )
    blocks.layout = BlockLayout(shape.size, max(1, -(-shape.size // count)), shape.partitions)
    state = states(blocks, _none)
    if not shape.size:
        return state
    copies = blocks.pieces(Towards.OUT, simple=True).mapInArrow(
        _Copies(blocks.layout.blocks), _COPIES
    )
    parts = max(shape.partitions, min(blocks.layout.blocks**2, 4 * shape.partitions))
    tasks = copies.repartition(parts, "corners").groupBy("corners")
    count_in = _Count(blocks.layout.width)
    messages = tasks.applyInArrow(
        lambda table: count_in(table),  # noqa: PLW0108 - as in `Blocks.pieces`
        MESSAGES,
    )
    kinds = Kinds(np.int64, np.int64, np.int64, np.int64)
    state = learned(blocks, state, messages, kinds, _add)
    sums(blocks, "triangle counts", state)
    return state


def _none(first: int, count: int) -> State:
    return State(np.zeros(count, np.int64))


def _add(first: int, old: State, heard: Message) -> State:
    return State(old.value + summed(len(old.value), heard.places, heard.value))


class _Copies:
    """Sends a piece to all sets of blocks that need it. Runs on the workers."""

    def __init__(self, blocks: int) -> None:
        self._blocks = blocks

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for cell in each_row(batches):
            source, target = cell["source"].as_py(), cell["target"].as_py()
            sets = {frozenset((source, target))}
            for other in range(self._blocks):
                # Three blocks share no triangle with an edge inside of one of them.
                if source != target or len({source, other}) == 2:
                    sets.add(frozenset((source, target, other)))
            for corners in sorted(sets, key=sorted):
                cells = [
                    pa.array([",".join(map(str, sorted(corners)))], pa.string()),
                    pa.array([source], pa.int32()),
                    pa.array([target], pa.int32()),
                    pa.array([cell["sources"].as_py()], pa.binary()),
                    pa.array([cell["targets"].as_py()], pa.binary()),
                ]
                yield pa.RecordBatch.from_arrays(cells, schema=_COPIES_ARROW)


class _Count:
    """Counts the triangles of a set of blocks. Runs on the workers."""

    def __init__(self, width: int) -> None:
        self._width = width

    def __call__(self, table: pa.Table) -> pa.Table:
        corners = [int(each) for each in table.column("corners")[0].as_py().split(",")]
        place = {block: number for number, block in enumerate(corners)}
        starts: list[Any] = []
        ends: list[Any] = []
        for cell in each_row(iter(table.to_batches())):
            for name, column, into in (
                ("source", "sources", starts),
                ("target", "targets", ends),
            ):
                local = np.frombuffer(cell[column].as_buffer(), np.int32)
                into.append(local + np.int32(place[cell[name].as_py()] * self._width))
        size = len(corners) * self._width
        neighbours = simple_csr_graph(np.concatenate(starts), np.concatenate(ends), size)
        colours = (1 << (np.arange(size) // self._width)).astype(np.uint8)
        counts = triangle_counts(neighbours, colours)
        made = []
        for block, number in place.items():
            part = counts[number * self._width : (number + 1) * self._width]
            places = np.flatnonzero(part)
            if places.size:
                made.append(packed_message(block, Message(places, part[places])))
        return pa.Table.from_batches(made, schema=MESSAGES_ARROW)
