"""A selection of types as rows of Spark: vertices in blocks, edges in pieces between two blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.algorithms.csr import Ids, first_of_runs
from omnigraph.algorithms.model import VERTICES_MAX, Selection, bad_weights
from omnigraph.dataplane.spark import tuning
from omnigraph.dataplane.spark.dense import NUMBER, SOURCE, TARGET, DenseFrames
from omnigraph.dataplane.spark.runner import SparkRunner
from omnigraph.dataplane.spark.table_scan import Frame
from omnigraph.errors import Code, LimitExceeded
from omnigraph.lang.ir.ops import Towards

Row: TypeAlias = Mapping[str, pa.Scalar]
VERTEX_ROWS: Final = "type int, row long, id string, vertex long"
PIECES: Final = "source int, target int, sources binary, targets binary, weights binary"
IN_PIECES: Final = "sources binary, targets binary, starts binary, weights binary"
_PIECES_ARROW: Final = pa.schema(
    [
        ("source", pa.int32()),
        ("target", pa.int32()),
        ("sources", pa.binary()),
        ("targets", pa.binary()),
        ("weights", pa.binary()),
    ]
)


_IN_PIECES_ARROW: Final = pa.schema(
    [(name, pa.binary()) for name in ("sources", "targets", "starts", "weights")]
)


@dataclass(frozen=True, slots=True)
class BlockLayout:
    """The division of vertices: `size` of them into blocks of `width`."""

    size: int
    width: int
    partitions: int

    @property
    def blocks(self) -> int:
        """The number of blocks."""
        return -(-self.size // self.width)


def layout(vertices: int, edges: int, parallelism: int) -> BlockLayout:
    """Blocks that are small enough for a task, and enough of them for all tasks."""
    if vertices > VERTICES_MAX:
        text = f"an algorithm takes at most {VERTICES_MAX} vertices"
        raise LimitExceeded(Code.LIMIT_EXCEEDED, text, limit="vertices", most=VERTICES_MAX)
    by_edges = int(np.ceil(np.sqrt(edges / tuning.active.piece_edges)))
    count = max(-(-vertices // tuning.active.block_vertices), by_edges, 2 * parallelism)
    width = max(1, -(-vertices // count))
    # Tasks cost more than what they do on a graph that one piece could hold.
    most = parallelism if edges <= tuning.active.piece_edges else 4 * parallelism
    return BlockLayout(vertices, width, max(1, min(count, most)))


def kept(frame: Frame) -> Frame:
    """The same rows, without the way they were made: they stay with the workers.

    With a checkpoint folder they survive the loss of a worker.
    """
    context = getattr(frame.sparkSession, "_sc", None)
    if context is not None and context.getCheckpointDir() is not None:
        return frame.checkpoint(eager=False)
    return frame.localCheckpoint(eager=False)


# The partition of a row, by its increasing id.
_PART: Final = "shiftright(place, 33)"


@dataclass(frozen=True, slots=True)
class _Ordered:
    """The nodes of a type in the order of their ids, and how many are before each partition."""

    frame: Frame
    starts: tuple[int, ...]

    def unpersist(self) -> None:
        self.frame.unpersist()


class Blocks:
    """The vertices and edges of a selection on Spark."""

    def __init__(self, frames: DenseFrames, selection: Selection, runner: SparkRunner) -> None:
        """Read these types of a snapshot."""
        self._frames = frames
        self.selection = selection
        self.runner = runner
        rows = {key: frames.snapshot.pin(key).row_count for key in selection.keys}
        self._sizes = [rows[f"node:{name}"] for name in selection.nodes]
        edges = sum(rows[f"edge:{edge.name}"] for edge in selection.edges)
        self.edge_count = edges
        self.layout = layout(sum(self._sizes), edges, runner.parallelism)
        self._vertices: Frame | None = None

    @property
    def session(self) -> Any:
        """The session of Spark."""
        return self._frames.session

    def vertices(self) -> Frame:
        """Type, row id, id and number of each vertex."""
        if self._vertices is None:
            made: Frame | None = None
            for place, name in enumerate(self.selection.nodes):
                part = self._numbered(place, name, sum(self._sizes[:place]))
                made = part if made is None else made.unionByName(part)
            if made is None:
                made = self.session.createDataFrame([], VERTEX_ROWS)
            self._vertices = made
        return self._vertices

    def _numbered(self, place: int, name: str, first: int) -> Frame:
        """The nodes of a type, numbered in the order of their ids."""
        count = self._sizes[place]
        if not count:
            return self.session.createDataFrame([], VERTEX_ROWS)
        parts = max(
            1,
            min(self.layout.partitions, -(-count // 10_000)),
            -(-count // tuning.active.sorted_vertices),
        )
        key = f"node:{name}"
        found = self._frames.kept(("ordered", parts), [key], lambda: self._ordered(name, parts))
        starts = ", ".join(f"{first + start}L" for start in found.starts)
        start = f"element_at(array({starts}), CAST({_PART} + 1 AS INT))"
        vertex = f"{start} + (place & {(1 << 33) - 1}L) AS vertex"
        return found.frame.selectExpr(f"{place} AS type", f"{NUMBER} AS row", "id", vertex)

    def _ordered(self, name: str, parts: int) -> _Ordered:
        nodes = self._frames.nodes(name, {"id": "id"})
        ordered = nodes.repartitionByRange(parts, "id").sortWithinPartitions("id")
        placed = ordered.selectExpr("*", "monotonically_increasing_id() AS place").persist()
        by_part = placed.selectExpr(f"{_PART} AS part").groupBy("part").count()
        rows = self.runner.perform("number vertices", by_part.collect)
        counts = {int(row[0]): int(row[1]) for row in rows}
        before = accumulate((counts.get(part, 0) for part in range(parts - 1)), initial=0)
        return _Ordered(placed, tuple(before))

    def edges(self, weight: str | None = None) -> Frame:
        """The numbers of the ends of each edge as `s` and `t`, and its weight as `w`.

        Raises:
            InvalidInput: A weight is null or negative.
        """
        rows = self.vertices().select("type", "row", "vertex")
        made: Frame | None = None
        for edge in self.selection.edges:
            columns = {} if weight is None else {"w": weight}
            part = self._frames.edges(edge.name, columns)
            for column, end, type_name in ((SOURCE, "s", edge.source), (TARGET, "t", edge.target)):
                place = self.selection.nodes.index(type_name)
                known = rows.where(f"type = {place}")
                known = known.selectExpr(f"row AS {column}", f"vertex AS {end}")
                part = part.join(known, [column])
            value = "NULL" if weight is None else "w"
            part = part.selectExpr("s", "t", f"CAST({value} AS DOUBLE) AS w")
            if weight is not None:
                bad = part.where("w IS NULL OR w < 0").limit(1)
                if self.runner.perform("check weights", bad.collect):
                    raise bad_weights(edge.name, weight)
            made = part if made is None else made.unionByName(part)
        return (
            made
            if made is not None
            else self.session.createDataFrame([], "s long, t long, w double")
        )

    def pieces(self, towards: Towards, *, simple: bool = False, weight: str | None = None) -> Frame:
        """Edges in pieces from one block to another, by the block that they start from.

        Args:
            towards: Which way edges lead.
            simple: Each pair of different vertices once, from the smaller to the larger.
            weight: The property that becomes the weights.
        """
        name = ("pieces", self.selection.nodes, self.layout, towards, simple, weight)
        make = partial(self._merged, towards, simple, weight)
        return self._frames.kept(name, self.selection.keys, make)

    def _merged(self, towards: Towards, simple: bool, weight: str | None) -> Frame:
        pack = Pack(self.layout.width, towards, tuning.active.buffered_edges, simple=simple)
        # Spark counts the arguments of a function, and gets those of an object wrong.
        merge = Merge(tuning.active.piece_edges, simple=simple)
        packed = self.edges(weight).mapInArrow(pack, PIECES)
        joined = packed.repartition(self.layout.partitions, "source", "target")
        merged = joined.groupBy("source", "target").applyInArrow(
            lambda table: merge(table),  # noqa: PLW0108
            PIECES,
        )
        return merged.repartition(self.layout.partitions, "source").persist()

    def inward(self, towards: Towards, weight: str | None = None) -> Frame:
        """Edges in pieces that are sorted by the vertex that they lead to.

        All edges that lead to a vertex are in one partition.

        Args:
            towards: Which way edges lead.
            weight: The property that becomes the weights.
        """
        parts = max(self.runner.parallelism, -(-self.edge_count // tuning.active.buffered_edges))
        name = ("inward", self.selection.nodes, parts, towards, weight)
        make = partial(self._by_target, parts, towards, weight)
        return self._frames.kept(name, self.selection.keys, make)

    def _by_target(self, parts: int, towards: Towards, weight: str | None) -> Frame:
        # Several blocks for each partition, since they are spread by chance.
        width = max(1, -(-self.layout.size // (8 * parts)))
        pack = Pack(width, towards, tuning.active.buffered_edges, from_blocks=False)
        packed = self.edges(weight).mapInArrow(pack, PIECES).repartition(parts, "target")
        return packed.mapInArrow(
            SortByTarget(width, tuning.active.buffered_edges), IN_PIECES
        ).persist()


class Pack:
    """Puts edges into pieces. Runs on the workers."""

    def __init__(
        self,
        width: int,
        towards: Towards,
        at_once: int,
        *,
        simple: bool = False,
        from_blocks: bool = True,
    ) -> None:
        """Divide vertices into blocks of this width, and look at so many edges at once.

        Args:
            width: How many vertices are in a block.
            towards: Which way edges lead.
            at_once: So many edges are held in memory.
            simple: Put the smaller vertex first.
            from_blocks: Divide edges by where they come from, too.
        """
        self._width = width
        self._at_once = at_once
        self._towards = towards
        self._simple = simple
        self._from_blocks = from_blocks

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Turn edges into pieces, as many as memory allows at a time."""
        held: list[pa.RecordBatch] = []
        count = 0
        for batch in batches:
            held.append(batch)
            count += batch.num_rows
            if count >= self._at_once:
                yield from self._packed(held)
                held, count = [], 0
        if count:
            yield from self._packed(held)

    def _packed(self, held: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        table = pa.Table.from_batches(held)
        sources, targets = (table.column(name).to_numpy().astype(np.int64) for name in ("s", "t"))
        weights = table.column("w").to_numpy() if table.column("w").null_count == 0 else None
        if self._simple:
            sources, targets = np.minimum(sources, targets), np.maximum(sources, targets)
        elif self._towards is Towards.IN:
            sources, targets = targets, sources
        elif self._towards is Towards.BOTH:
            back = sources != targets
            if weights is not None:
                weights = np.concatenate([weights, weights[back]])
            sources, targets = (
                np.concatenate([sources, targets[back]]),
                np.concatenate([targets, sources[back]]),
            )
        keys = targets // self._width
        if self._from_blocks:
            keys |= (sources // self._width) << 32
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        starts = np.flatnonzero(first_of_runs(keys))
        for start, end in zip(starts, np.append(starts[1:], len(keys)), strict=True):
            at = order[start:end]
            source, target = int(keys[start] >> 32), int(keys[start] & 0xFFFFFFFF)
            yield piece(
                source,
                target,
                (sources[at] - source * self._width).astype(np.int32),
                (targets[at] - target * self._width).astype(np.int32),
                None if weights is None else weights[at],
            )


class SortByTarget:
    """Sorts the edges of a partition by where they lead to. Runs on the workers."""

    def __init__(self, width: int, at_once: int) -> None:
        """Take pieces to blocks of this width, and sort so many edges at once."""
        self._width = width
        self._at_once = at_once

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Turn pieces to blocks into sorted ones, as many as memory allows at a time."""
        held: list[tuple[Any, Any, Any]] = []
        count = 0
        for cell in each_row(batches):
            first = np.int32(cell["target"].as_py() * self._width)
            sources = np.frombuffer(cell["sources"].as_buffer(), np.int32)
            targets = np.frombuffer(cell["targets"].as_buffer(), np.int32) + first
            weights = cell["weights"]
            held.append(
                (
                    sources,
                    targets,
                    np.frombuffer(weights.as_buffer(), np.float64) if weights.is_valid else None,
                )
            )
            count += len(sources)
            if count >= self._at_once:
                yield from _sorted_pieces(held)
                held, count = [], 0
        if held:
            yield from _sorted_pieces(held)


def _sorted_pieces(held: list[tuple[Any, Any, Any]]) -> Iterator[pa.RecordBatch]:
    sources, targets = (np.concatenate([each[end] for each in held]) for end in (0, 1))
    weights = None if held[0][2] is None else np.concatenate([each[2] for each in held])
    order = np.lexsort((sources, targets))
    sources, targets = sources[order], targets[order]
    weights = None if weights is None else weights[order]
    for start in range(0, len(sources), tuning.active.piece_edges):
        part = slice(start, start + tuning.active.piece_edges)
        starts = np.flatnonzero(first_of_runs(targets[part])).astype(np.int32)
        arrays = [
            sources[part],
            targets[part][starts],
            starts,
            None if weights is None else weights[part],
        ]
        cells = [
            pa.array([None if each is None else each.tobytes()], pa.binary()) for each in arrays
        ]
        yield pa.RecordBatch.from_arrays(cells, schema=_IN_PIECES_ARROW)


class Merge:
    """Joins the pieces between two blocks, sorted by target. Runs on the workers."""

    def __init__(self, most: int, *, simple: bool) -> None:
        """Make pieces of so many edges; `simple`: with each pair of different vertices once."""
        self._most = most
        self._simple = simple

    def __call__(self, table: pa.Table) -> pa.Table:
        """Turn pieces of any size into pieces of bounded size."""
        source, target = table.column("source")[0].as_py(), table.column("target")[0].as_py()
        sources, targets = (unpacked(table, name, np.int32) for name in ("sources", "targets"))
        weights = None
        if table.column("weights").null_count == 0:
            weights = unpacked(table, "weights", np.float64)
            order = np.argsort(targets, kind="stable")
            sources, targets, weights = sources[order], targets[order], weights[order]
        else:
            keys = (targets.astype(np.int64) << 32) | sources
            keys.sort()
            if self._simple:
                keys = keys[first_of_runs(keys)]
                if source == target:
                    keys = keys[(keys >> 32) != (keys & 0xFFFFFFFF)]
            sources, targets = (keys & 0xFFFFFFFF).astype(np.int32), (keys >> 32).astype(np.int32)
        made = [
            piece(
                source,
                target,
                sources[start : start + self._most],
                targets[start : start + self._most],
                None if weights is None else weights[start : start + self._most],
            )
            for start in range(0, len(sources), self._most)
        ]
        return pa.Table.from_batches(made, schema=_PIECES_ARROW)


def piece(
    source: int, target: int, sources: Ids, targets: Ids, weights: npt.NDArray[Any] | None
) -> pa.RecordBatch:
    """One row with some edges between two blocks."""
    cells = [
        pa.array([source], pa.int32()),
        pa.array([target], pa.int32()),
        pa.array([sources.tobytes()], pa.binary()),
        pa.array([targets.tobytes()], pa.binary()),
        pa.array([None if weights is None else weights.tobytes()], pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(cells, schema=_PIECES_ARROW)


def unpacked(rows: Any, name: str, kind: Any) -> npt.NDArray[Any]:
    """The arrays of a column of binaries, one after the other."""
    cells = [np.frombuffer(cell.as_buffer(), kind) for cell in rows.column(name) if cell.is_valid]
    return np.concatenate([np.empty(0, kind), *cells])


def each_row(batches: Iterator[pa.RecordBatch]) -> Iterator[Row]:
    """The rows of some batches."""
    for batch in batches:
        columns = {name: batch.column(name) for name in batch.schema.names}
        for place in range(batch.num_rows):
            yield {name: column[place] for name, column in columns.items()}
