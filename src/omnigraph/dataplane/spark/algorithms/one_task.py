"""Algorithms that iterate, by one task that has all edges.

Where they fit, following all edges once takes less time than starting a stage. So there is one
stage, however many iterations there are, and the code of one process runs in its only task.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.algorithms.csr import Floats, Ids, csr_graph
from omnigraph.algorithms.label_propagation import label_propagation
from omnigraph.algorithms.model import LabelPropagationTask, PageRankTask, ShortestPathsTask
from omnigraph.algorithms.pagerank import pagerank
from omnigraph.algorithms.shortest_paths import UNREACHED, hops, weighted
from omnigraph.dataplane.run.memory import take_small_pages
from omnigraph.dataplane.spark import tuning
from omnigraph.dataplane.spark.algorithms import broadcast
from omnigraph.dataplane.spark.algorithms.blocks import Blocks
from omnigraph.dataplane.spark.kernel import raising
from omnigraph.lang.ir.ops import Towards

IteratingTask: TypeAlias = PageRankTask | LabelPropagationTask | ShortestPathsTask
_SOLVED: Final = "value binary, iterations int, converged boolean"
_SOLVED_ARROW: Final = pa.schema(
    [("value", pa.binary()), ("iterations", pa.int32()), ("converged", pa.bool_())]
)


@dataclass(frozen=True, slots=True, eq=False)
class Solved:
    """The value of each vertex, and how it was found; `iterations` is None if not counted."""

    values: npt.NDArray[Any]
    iterations: int | None = None
    converged: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class _EdgeArrays:
    """All edges, in the direction in which an algorithm follows them."""

    sources: Ids
    targets: Ids
    weights: Floats | None


def fits(blocks: Blocks, task: IteratingTask) -> bool:
    """True if one task can have all edges, each twice if they are followed both ways."""
    entries = blocks.edge_count * (2 if task.direction is Towards.BOTH else 1)
    return entries <= tuning.active.one_task_edges_max and broadcast.fits(blocks)


def solve(blocks: Blocks, task: IteratingTask, starts: npt.NDArray[np.int64]) -> Solved:
    """The values of all vertices.

    Args:
        blocks: Vertices and edges.
        task: What to compute.
        starts: The vertices from which shortest paths begin.
    """
    solver = _Solver(task, blocks.layout.size, starts)
    if not blocks.edge_count:
        none = np.empty(0, np.int32)
        return solver.solved(_EdgeArrays(none, none, np.empty(0) if _weight(task) else None))
    frame = blocks.inward(task.direction, _weight(task)).coalesce(1).mapInArrow(solver, _SOLVED)
    (row,) = blocks.runner.perform(task.name.replace("_", " "), frame.collect)
    return Solved(np.frombuffer(row[0], solver.kind), row[1], row[2])


def _weight(task: IteratingTask) -> str | None:
    return task.weight if isinstance(task, ShortestPathsTask) else None


class _Solver:
    """Computes all values of an algorithm. Runs on a worker."""

    def __init__(self, task: IteratingTask, size: int, starts: npt.NDArray[np.int64]) -> None:
        self._task = task
        self._size = size
        self._starts = starts

    @property
    def kind(self) -> Any:
        """The type of the values."""
        return np.int32 if isinstance(self._task, LabelPropagationTask) else np.float64

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with raising():
            take_small_pages()
            found = self.solved(_edges(batches))
            cells = [
                pa.array([found.values.astype(self.kind, copy=False).tobytes()], pa.binary()),
                pa.array([found.iterations], pa.int32()),
                pa.array([found.converged], pa.bool_()),
            ]
            yield pa.RecordBatch.from_arrays(cells, schema=_SOLVED_ARROW)

    def solved(self, edges: _EdgeArrays) -> Solved:
        """The values of all vertices."""
        sources, targets, size = edges.sources, edges.targets, self._size
        match self._task:
            case PageRankTask(terms=terms):
                degrees = np.bincount(sources, minlength=size)
                ranks = pagerank(csr_graph(targets, sources, size), degrees, terms)
                return Solved(ranks.values, ranks.iterations, ranks.converged)
            case LabelPropagationTask(direction=direction, iterations=most):
                voters = csr_graph(targets, sources, size)
                hearers = voters if direction is Towards.BOTH else None
                labels = label_propagation(voters, most, hearers)
                return Solved(labels.values, labels.iterations, labels.converged)
            case ShortestPathsTask(weight=weight, most=most):
                rows = csr_graph(sources, targets, size, edges.weights)
                starts = self._starts.astype(np.int32)
                if weight is not None:
                    return Solved(weighted(rows, starts, most))
                counted = hops(rows, starts, None if most is None else int(most))
                return Solved(np.where(counted == UNREACHED, np.inf, counted))


def _edges(batches: Iterator[pa.RecordBatch]) -> _EdgeArrays:
    pieces = list(broadcast.in_pieces(batches))
    ends = [piece.ends() for piece in pieces]
    weights = [piece.weights for piece in pieces if piece.weights is not None]
    return _EdgeArrays(
        np.concatenate([sources for sources, _ in ends]),
        np.concatenate([targets for _, targets in ends]),
        np.concatenate(weights) if weights else None,
    )
