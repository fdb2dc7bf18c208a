"""Running an algorithm on the arrays of a snapshot."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from omnigraph.algorithms.components import components
from omnigraph.algorithms.csr import simple_csr_graph
from omnigraph.algorithms.label_propagation import label_propagation
from omnigraph.algorithms.model import (
    ComponentsTask,
    LabelPropagationTask,
    PageRankTask,
    ShortestPathsTask,
    Task,
    TrianglesTask,
)
from omnigraph.algorithms.pagerank import pagerank
from omnigraph.algorithms.shortest_paths import UNREACHED, hops, weighted
from omnigraph.algorithms.triangles import triangle_counts
from omnigraph.exec.algorithms.arrays import Arrays
from omnigraph.lang.ir.ops import Towards


@dataclass(frozen=True, slots=True, eq=False)
class Computed:
    """The result of an algorithm for each vertex, in the order of their numbers.

    Attributes:
        values: Longs or doubles; null where there is none.
        iterations: How many it took, where it iterates.
        converged: False if it ended because of the most iterations.
    """

    values: pa.Array
    iterations: int | None = None
    converged: bool = True


def compute(arrays: Arrays, task: Task) -> Computed:
    """Run an algorithm in this process.

    Raises:
        NotFound: A source of shortest paths is not there.
        InvalidInput: A weight is null or negative.
    """
    match task:
        case PageRankTask(direction=towards, terms=terms):
            inward = arrays.rows(towards.reversed)
            ranks = pagerank(inward, _out_degrees(arrays, towards), terms)
            return Computed(pa.array(ranks.values), ranks.iterations, ranks.converged)
        case ComponentsTask():
            return Computed(_longs(components(arrays.size, arrays.edges())))
        case LabelPropagationTask(direction=towards, iterations=most):
            # The rows of the other direction are at hand only where they are the same.
            voters = arrays.rows(towards.reversed)
            hearers = voters if towards is Towards.BOTH else None
            labels = label_propagation(voters, most, hearers)
            return Computed(_longs(labels.values), labels.iterations, labels.converged)
        case ShortestPathsTask():
            return Computed(_distances(arrays, task))
        case TrianglesTask():
            neighbours = simple_csr_graph(*arrays.all_edges(), arrays.size)
            return Computed(pa.array(triangle_counts(neighbours)))
        case _:
            raise AssertionError(task)


def _out_degrees(arrays: Arrays, towards: Towards) -> np.ndarray:
    if towards is Towards.BOTH:
        return arrays.rows(towards).degrees()
    end = 0 if towards is Towards.OUT else 1
    degrees = np.zeros(arrays.size, np.int64)
    for edges in arrays.edges():
        degrees += np.bincount(edges[end], minlength=arrays.size)
    return degrees


def _distances(arrays: Arrays, task: ShortestPathsTask) -> pa.Array:
    found = [arrays.find(name, ids) for name, ids in sorted(task.sources.items())]
    sources = np.concatenate([np.empty(0, np.int32), *found])
    if task.weight is None:
        most = None if task.most is None else int(task.most)
        counted = hops(arrays.rows(task.direction, distinct=True), sources, most)
        return pa.array(counted.astype(np.int64), mask=counted == UNREACHED)
    summed = weighted(arrays.weighted_rows(task.direction, task.weight), sources, task.most)
    return pa.array(summed, mask=np.isinf(summed))


def _longs(values: np.ndarray) -> pa.Array:
    return pa.array(values.astype(np.int64))
