"""Iterations: blocks send their values along their edges, and compute new ones from what arrives.

An iteration is two stages of Spark. In the first one a task has the state of a block and the
pieces of edges that start there, and makes one message per piece; in the second one a task has the
state of a block and all messages to it, and makes its next state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.algorithms.csr import Counts
from omnigraph.dataplane.spark.algorithms.blocks import Blocks, Row, each_row, kept, unpacked
from omnigraph.dataplane.spark.table_scan import Frame

STATE: Final = "block int, value binary, extra binary, first double, second double"
_STATE_ARROW: Final = pa.schema(
    [
        ("block", pa.int32()),
        ("value", pa.binary()),
        ("extra", pa.binary()),
        ("first", pa.float64()),
        ("second", pa.float64()),
    ]
)
MESSAGES: Final = "block int, places binary, value binary, extra binary"
MESSAGES_ARROW: Final = pa.schema(
    [("block", pa.int32()), ("places", pa.binary()), ("value", pa.binary()), ("extra", pa.binary())]
)

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class State:
    """The values of the vertices of one block.

    Attributes:
        value: One number per vertex.
        extra: Another one, if an algorithm has use for it.
        first: A number that is summed up over all blocks.
        second: Another one.
    """

    value: Array
    extra: Array | None = None
    first: float = 0.0
    second: float = 0.0


@dataclass(frozen=True, slots=True)
class Message:
    """A message to a block: places of vertices in it, and numbers for each."""

    places: Array
    value: Array
    extra: Array | None = None


@dataclass(frozen=True, slots=True)
class Piece:
    """Edges from one block to another, sorted by target."""

    sources: Array
    targets: Array
    weights: Array | None


@dataclass(frozen=True, slots=True)
class Kinds:
    """The types of the arrays in states and messages."""

    value: Any
    extra: Any = np.int32
    sent: Any = np.float64
    sent_extra: Any = np.int64


Send = Callable[[State, Piece], Message | None]
Learn = Callable[[int, State, Message], State]


def states(blocks: Blocks, begin: Callable[[int, int], State]) -> Frame:
    """The first state of every block; `begin` is given its first vertex and its size."""
    shape = blocks.layout
    starting = _Begin(shape.width, shape.size, begin)
    numbers = blocks.session.range(0, shape.blocks, 1, shape.partitions)
    return numbers.mapInArrow(starting, STATE)


def iterated(
    blocks: Blocks, state: Frame, pieces: Frame, kinds: Kinds, send: Send, learn: Learn
) -> Frame:
    """The states after one iteration; nothing is computed yet."""
    return learned(blocks, state, sent(blocks, state, pieces, kinds, send), kinds, learn)


def sent(blocks: Blocks, state: Frame, pieces: Frame, kinds: Kinds, send: Send) -> Frame:
    """The messages that blocks send along their edges."""
    parts = blocks.layout.partitions
    sending = state.repartition(parts, "block").withColumnRenamed("block", "source")
    return pieces.join(sending, ["source"]).mapInArrow(_Send(kinds, send), MESSAGES)


def learned(blocks: Blocks, state: Frame, messages: Frame, kinds: Kinds, learn: Learn) -> Frame:
    """The states after some messages."""
    # A union, since Spark multiplies the sizes of what it cogroups. Those of states would be
    # squared in every iteration, until the driver does nothing but multiply them.
    both = state.unionByName(messages, allowMissingColumns=True)
    learning = _Learn(blocks.layout.width, kinds, learn)
    made = (
        both.repartition(blocks.layout.partitions, "block")
        .groupBy("block")
        .applyInArrow(
            lambda table: learning(table),  # noqa: PLW0108 - as in `Blocks.pieces`
            STATE,
        )
    )
    return kept(made)


def sums(blocks: Blocks, stage: str, state: Frame) -> tuple[float, float]:
    """Compute states; the sums of their two numbers."""
    wanted = state.selectExpr("sum(first)", "sum(second)")
    row = blocks.runner.perform(stage, wanted.collect)[0]
    return float(row[0] or 0.0), float(row[1] or 0.0)


def messages_of(pieces: Frame, make: Callable[[Piece, int, int], Iterator[Any]]) -> Frame:
    """Messages that are made of pieces only; `make` is given a piece and its two blocks."""
    return pieces.mapInArrow(_Make(make), MESSAGES)


class _Begin:
    def __init__(self, width: int, size: int, begin: Callable[[int, int], State]) -> None:
        self._width = width
        self._size = size
        self._begin = begin

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for block in batch.column(0).to_pylist():
                first = block * self._width
                count = min(self._width, self._size - first)
                yield packed_state(block, self._begin(first, count))


class _Send:
    def __init__(self, kinds: Kinds, send: Send) -> None:
        self._kinds = kinds
        self._send = send

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for cell in each_row(batches):
            message = self._send(_state(cell, self._kinds), _piece(cell))
            if message is not None and len(message.places):
                yield packed_message(cell["target"].as_py(), message)


class _Make:
    def __init__(self, make: Callable[[Piece, int, int], Iterator[Any]]) -> None:
        self._make = make

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for cell in each_row(batches):
            made = self._make(_piece(cell), cell["source"].as_py(), cell["target"].as_py())
            for block, message in made:
                yield packed_message(block, message)


class _Learn:
    def __init__(self, width: int, kinds: Kinds, learn: Learn) -> None:
        self._width = width
        self._kinds = kinds
        self._learn = learn

    def __call__(self, table: pa.Table) -> pa.Table:
        # A state has no places, a message has.
        left, right = (
            table.filter(mask)
            for mask in (table.column("places").is_null(), table.column("places").is_valid())
        )
        if not left.num_rows:
            return _STATE_ARROW.empty_table()
        block = left.column("block")[0].as_py()
        old = _state({name: left.column(name)[0] for name in _STATE_ARROW.names}, self._kinds)
        kinds = self._kinds
        heard = Message(
            unpacked(right, "places", np.int32),
            unpacked(right, "value", kinds.sent),
            unpacked(right, "extra", kinds.sent_extra),
        )
        return pa.Table.from_batches(
            [packed_state(block, self._learn(block * self._width, old, heard))], schema=_STATE_ARROW
        )


def packed_state(block: int, state: State) -> pa.RecordBatch:
    """The state of a block as a row."""
    cells = [
        pa.array([block], pa.int32()),
        pa.array([state.value.tobytes()], pa.binary()),
        pa.array([None if state.extra is None else state.extra.tobytes()], pa.binary()),
        pa.array([state.first], pa.float64()),
        pa.array([state.second], pa.float64()),
    ]
    return pa.RecordBatch.from_arrays(cells, schema=_STATE_ARROW)


def packed_message(block: int, message: Message) -> pa.RecordBatch:
    """A message to a block as a row."""
    cells = [
        pa.array([block], pa.int32()),
        pa.array([message.places.astype(np.int32, copy=False).tobytes()], pa.binary()),
        pa.array([message.value.tobytes()], pa.binary()),
        pa.array([None if message.extra is None else message.extra.tobytes()], pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(cells, schema=MESSAGES_ARROW)


def _state(cell: Row, kinds: Kinds) -> State:
    value = np.frombuffer(cell["value"].as_buffer(), kinds.value)
    extra = cell["extra"]
    return State(
        value,
        np.frombuffer(extra.as_buffer(), kinds.extra) if extra.is_valid else None,
        cell["first"].as_py(),
        cell["second"].as_py(),
    )


def _piece(cell: Row) -> Piece:
    weights = cell["weights"]
    return Piece(
        np.frombuffer(cell["sources"].as_buffer(), np.int32),
        np.frombuffer(cell["targets"].as_buffer(), np.int32),
        np.frombuffer(weights.as_buffer(), np.float64) if weights.is_valid else None,
    )


def summed(size: int, places: Array, values: Array) -> Counts:
    """The sum of the whole numbers that each place gets."""
    counts = np.zeros(size, np.int64)
    np.add.at(counts, places, values)
    return counts
