"""Algorithms on Spark whose values for all vertices fit into one array on the driver.

Edges stay with the workers, in pieces by the vertices that they lead to. An iteration is one stage
without a shuffle: the array travels with the tasks, each of them follows the edges of a partition,
and the driver puts what they found into the next array.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.algorithms.components import components, forest
from omnigraph.algorithms.csr import Counts, Floats, Ids, simple_csr_graph
from omnigraph.algorithms.label_propagation import Labels, tallied, winning_labels
from omnigraph.algorithms.pagerank import PageRankTerms, Ranks, power_iteration
from omnigraph.algorithms.triangles import corners_by_rank, ranked_edges
from omnigraph.dataplane.run.memory import take_small_pages
from omnigraph.dataplane.spark import tuning
from omnigraph.dataplane.spark.algorithms.blocks import Blocks, each_row
from omnigraph.dataplane.spark.kernel import raising
from omnigraph.lang.ir.ops import Towards

_FOUND: Final = "places binary, value binary"
_FOUND_ARROW: Final = pa.schema([("places", pa.binary()), ("value", pa.binary())])
Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class InPiece:
    """Edges sorted by the vertex that they lead to.

    Attributes:
        sources: Where each edge comes from.
        targets: The vertices that they lead to, each once.
        starts: Where the edges of each target begin.
        weights: The weight of each edge, if there are weights.
    """

    sources: Ids
    targets: Ids
    starts: Ids
    weights: Floats | None

    def ends(self) -> tuple[Ids, Ids]:
        """Source and target of each edge."""
        counts = np.diff(self.starts, append=len(self.sources))
        return self.sources, np.repeat(self.targets, counts)


Found = tuple[Array, Array]
Work = Callable[[Iterator[InPiece]], Iterator[Found]]


def fits(blocks: Blocks, *, edges: bool = False) -> bool:
    """True if the values of all vertices, or all `edges`, too, can be sent to every task."""
    if edges and blocks.edge_count > tuning.active.one_task_edges_max:
        return False
    return blocks.layout.size <= tuning.active.broadcast_vertices_max


def pagerank(blocks: Blocks, direction: Towards, terms: PageRankTerms) -> Ranks:
    """The rank of each vertex."""
    inward = _Inward(blocks, direction, None)
    degrees = np.zeros(blocks.layout.size, np.int64)
    for places, counts in inward.run("pagerank: degrees", _count_sources, np.int64):
        degrees[places] += counts

    def inflow(shares: Floats) -> Iterator[tuple[Array, Floats]]:
        return inward.run("pagerank: iteration", partial(_add_shares, shares), np.float64)

    return power_iteration(degrees, terms, inflow)


def _count_sources(pieces: Iterator[InPiece]) -> Iterator[Found]:
    for piece in pieces:
        counts = np.bincount(piece.sources)
        places = np.flatnonzero(counts)
        yield places, counts[places]


def _add_shares(shares: Floats, pieces: Iterator[InPiece]) -> Iterator[Found]:
    for piece in pieces:
        sent = shares.take(piece.sources.astype(np.intp), mode="clip")
        yield piece.targets, np.add.reduceat(sent, piece.starts)


def labels(blocks: Blocks, direction: Towards, iterations: int) -> Labels:
    """The community of each vertex."""
    inward = _Inward(blocks, direction, None)
    found = np.arange(blocks.layout.size, dtype=np.int32)
    for iteration in range(1, iterations + 1):
        stage = f"label propagation: iteration {iteration}"
        fresh, changed = found.copy(), False
        for places, winners in inward.run(stage, partial(_new_labels, found), np.int32):
            fresh[places] = winners
            changed = True
        if not changed:
            return Labels(found, iteration, converged=True)
        found = fresh
    return Labels(found, iterations, converged=False)


def _new_labels(current: Ids, pieces: Iterator[InPiece]) -> Iterator[Found]:
    tallies = []
    for piece in pieces:
        sources, targets = piece.ends()
        tallies.append(tallied(targets.astype(np.int64), current[sources]))
    if not tallies:
        return
    rows, votes, counts = (np.concatenate(each) for each in zip(*tallies, strict=True))
    places, winners = winning_labels(rows, votes, current, counts)
    changed = winners != current[places]
    if changed.any():
        yield places[changed], winners[changed]


def distances(
    blocks: Blocks, direction: Towards, weight: str | None, sources: Array, most: float | None
) -> Floats:
    """The distance of each vertex from the nearest source; infinite where no path leads."""
    inward = _Inward(blocks, direction, weight)
    found = np.full(blocks.layout.size, np.inf)
    found[sources] = 0.0
    limit, nearer, iteration = np.inf if most is None else most, True, 0
    while nearer:
        nearer, iteration = False, iteration + 1
        work = partial(_nearer, found.copy(), limit)
        stage = f"shortest paths: iteration {iteration}"
        for places, reached in inward.run(stage, work, np.float64):
            found[places] = np.minimum(found[places], reached)
            nearer = True
    return found


def _nearer(known: Floats, limit: float, pieces: Iterator[InPiece]) -> Iterator[Found]:
    for piece in pieces:
        reached = known[piece.sources]
        reached += 1.0 if piece.weights is None else piece.weights
        nearest = np.minimum.reduceat(reached, piece.starts)
        better = (nearest < known[piece.targets]) & (nearest <= limit)
        if better.any():
            yield piece.targets[better], nearest[better]


def component_roots(blocks: Blocks) -> Ids:
    """The component of each vertex."""
    inward = _Inward(blocks, Towards.OUT, None)
    size = blocks.layout.size
    forests = inward.run("connected components", partial(_forest, size), np.int32)
    return components(size, forests)


def _forest(size: int, pieces: Iterator[InPiece]) -> Iterator[Found]:
    yield forest(components(size, (piece.ends() for piece in pieces)))


def triangles(blocks: Blocks) -> Counts:
    """The number of triangles that each vertex is in."""
    inward = _Inward(blocks, Towards.OUT, None)
    size, tasks = blocks.layout.size, blocks.layout.partitions
    pairs = list(inward.run("collect edges", _ends, np.int32))
    sources, targets = (
        np.concatenate([np.empty(0, np.int32), *each])
        for each in (zip(*pairs, strict=True) if pairs else ((), ()))
    )
    edges = ranked_edges(simple_csr_graph(sources, targets, size))
    work = _CountShare(edges.keys, size, tasks)
    frame = blocks.session.range(0, tasks, 1, tasks).mapInArrow(work, _FOUND)
    total = np.zeros(size, np.int64)
    for row in blocks.runner.perform("triangle counts", frame.collect):
        total[np.frombuffer(row[0], np.int32)] += np.frombuffer(row[1], np.int64)
    return edges.by_vertex(total)


def _ends(pieces: Iterator[InPiece]) -> Iterator[Found]:
    for piece in pieces:
        yield piece.ends()


class _CountShare:
    """Counts a share of the triangles. Runs on the workers."""

    def __init__(self, keys: Counts, size: int, shares: int) -> None:
        self._keys = keys
        self._size = size
        self._shares = shares

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with raising():
            take_small_pages()
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    share = (number, self._shares)
                    counts = corners_by_rank(self._keys, self._size, share=share)
                    places = np.flatnonzero(counts)
                    yield _packed(places, counts[places])


class _Inward:
    """The edges of a selection on the workers, by the vertices that they lead to."""

    def __init__(self, blocks: Blocks, direction: Towards, weight: str | None) -> None:
        self._blocks = blocks
        self._frame = blocks.inward(direction, weight)

    def run(self, stage: str, work: Work, kind: Any) -> Iterator[Found]:
        """The places and values that tasks find; `kind` is the type of the values."""
        frame = self._frame.mapInArrow(_PieceKernel(work), _FOUND)
        for row in self._blocks.runner.perform(stage, frame.collect):
            yield np.frombuffer(row[0], np.int32), np.frombuffer(row[1], kind)


class _PieceKernel:
    """Runs over the pieces of a partition. Runs on the workers."""

    def __init__(self, work: Work) -> None:
        self._work = work

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with raising():
            take_small_pages()
            for places, value in self._work(in_pieces(batches)):
                if len(places):
                    yield _packed(places, value)


def in_pieces(batches: Iterator[pa.RecordBatch]) -> Iterator[InPiece]:
    """The pieces of `Blocks.inward`, on a worker."""
    for cell in each_row(batches):
        weights = cell["weights"]
        sources, targets, starts = (
            np.frombuffer(cell[name].as_buffer(), np.int32)
            for name in ("sources", "targets", "starts")
        )
        yield InPiece(
            sources,
            targets,
            starts,
            np.frombuffer(weights.as_buffer(), np.float64) if weights.is_valid else None,
        )


def _packed(places: Array, value: Array) -> pa.RecordBatch:
    cells = [
        pa.array([places.astype(np.int32, copy=False).tobytes()], pa.binary()),
        pa.array([value.tobytes()], pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(cells, schema=_FOUND_ARROW)
