"""Distances from the nearest of some sources: by the number of edges, or by their weights.

A frontier of vertices is followed as a whole. Where it is small, as on a long path, its vertices
are followed one by one, since arrays cost more than they bring there.
"""

from __future__ import annotations

import heapq
from typing import Final

import numpy as np

from omnigraph.algorithms.csr import CsrGraph, Floats, Ids, first_of_runs, row_places
from omnigraph.runtime.cancellation import check

UNREACHED: Final = -1
# Up to so many vertices are followed one by one; arrays are not worth their calls there.
_FRONTIER_VERTICES_MIN: Final = 32
_CHECK_EVERY_STEPS: Final = 4096


def hops(outward: CsrGraph, sources: Ids, most: int | None = None) -> Ids:
    """The number of edges to the nearest source; -1 if none leads there.

    Args:
        outward: For each vertex those that it leads to.
        sources: Where paths begin.
        most: The longest path that counts; None for any.
    """
    distances = np.full(outward.size, UNREACHED, np.int32)
    distances[sources] = 0
    frontier = np.unique(sources)
    level = 0
    while frontier.size and (most is None or level < most):
        check()
        if frontier.size <= _FRONTIER_VERTICES_MIN:
            frontier, level = _stepwise(outward, distances, frontier, level, most)
            continue
        level += 1
        found = _reached(outward, frontier)
        found = found[distances[found] == UNREACHED]
        distances[found] = level
        frontier = _distinct(found, outward.size)
    return distances


def _stepwise(
    outward: CsrGraph, distances: Ids, frontier: Ids, level: int, most: int | None
) -> tuple[Ids, int]:
    """Follow single vertices until the frontier is large, or at its end."""
    known = memoryview(distances)  # type: ignore[arg-type]
    offsets, targets = memoryview(outward.offsets), outward.targets  # type: ignore[arg-type]
    current: list[int] = frontier.tolist()
    steps = 0
    while current and len(current) <= _FRONTIER_VERTICES_MIN and (most is None or level < most):
        level += 1
        steps += 1
        if steps % _CHECK_EVERY_STEPS == 0:
            check()
        following: list[int] = []
        for vertex in current:
            for target in targets[offsets[vertex] : offsets[vertex + 1]].tolist():
                if known[target] < 0:
                    known[target] = level
                    following.append(target)
        current = following
    return np.array(current, np.int32), level


def _reached(outward: CsrGraph, frontier: Ids) -> Ids:
    starts = outward.offsets[frontier]
    counts = outward.offsets[frontier.astype(np.int64) + 1] - starts
    return outward.targets[row_places(starts, counts)]


def _distinct(vertices: Ids, size: int) -> Ids:
    """Each vertex once, in order."""
    if len(vertices) * 8 > size:
        marks = np.zeros(size, np.bool_)
        marks[vertices] = True
        return np.flatnonzero(marks).astype(np.int32)
    ordered = np.sort(vertices)
    distinct: Ids = ordered[first_of_runs(ordered)]
    return distinct


def weighted(outward: CsrGraph, sources: Ids, most: float | None = None) -> Floats:
    """The least sum of weights on a path from a source; infinite if none leads there.

    Vertices within the same stretch of distances are settled together, again and again until
    nothing improves within the stretch; then the next one follows.

    Args:
        outward: For each vertex those that it leads to, with weights that are not negative.
        sources: Where paths begin.
        most: The longest path that counts; None for any.
    """
    weights = outward.weights
    assert weights is not None
    distances = np.full(outward.size, np.inf)
    distances[sources] = 0.0
    limit = np.inf if most is None else most
    if not weights.size:
        return distances
    stretch = max(float(weights.mean()), float(np.finfo(np.float64).tiny))
    waiting = np.unique(sources)
    while waiting.size:
        check()
        if waiting.size <= _FRONTIER_VERTICES_MIN:
            waiting = _one_by_one(outward, distances, waiting, limit)
            continue
        bound = float(distances[waiting].min()) + stretch
        near = waiting[distances[waiting] <= bound]
        later = [waiting[distances[waiting] > bound]]
        while near.size:
            check()
            improved = _relaxed(outward, distances, near, limit)
            near = improved[distances[improved] <= bound]
            later.append(improved[distances[improved] > bound])
        waiting = _distinct(np.concatenate(later), outward.size)
        # Some were settled on a shorter way since they were put off.
        waiting = waiting[distances[waiting] > bound]
    return distances


def _relaxed(outward: CsrGraph, distances: Floats, active: Ids, limit: float) -> Ids:
    """Follow the edges of some vertices; return those that are nearer now."""
    assert outward.weights is not None
    starts = outward.offsets[active]
    counts = outward.offsets[active.astype(np.int64) + 1] - starts
    places = row_places(starts, counts)
    targets = outward.targets[places]
    reached = np.repeat(distances[active], counts) + outward.weights[places]
    better = (reached < distances[targets]) & (reached <= limit)
    targets, reached = targets[better], reached[better]
    np.minimum.at(distances, targets, reached)
    return _distinct(targets, outward.size)


def _one_by_one(outward: CsrGraph, distances: Floats, waiting: Ids, limit: float) -> Ids:
    """Settle the nearest vertices by a heap; return what is left once many wait."""
    assert outward.weights is not None
    known, offsets = memoryview(distances), memoryview(outward.offsets)  # type: ignore[arg-type]
    heap = [(known[vertex], vertex) for vertex in waiting.tolist()]
    heapq.heapify(heap)
    steps = 0
    while heap and len(heap) <= 8 * _FRONTIER_VERTICES_MIN:
        steps += 1
        if steps % _CHECK_EVERY_STEPS == 0:
            check()
        distance, vertex = heapq.heappop(heap)
        if distance > known[vertex]:
            continue
        row = slice(offsets[vertex], offsets[vertex + 1])
        ends = zip(outward.targets[row].tolist(), outward.weights[row].tolist(), strict=True)
        for target, weight in ends:
            reached = distance + weight
            if reached < known[target] and reached <= limit:
                known[target] = reached
                heapq.heappush(heap, (reached, target))
    left = [vertex for distance, vertex in heap if distance <= known[vertex]]
    return np.unique(np.array(left, np.int32))
