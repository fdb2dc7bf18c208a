"""Running an algorithm on Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.algorithms.csr import first_of_runs
from omnigraph.algorithms.label_propagation import tallied, winning_labels
from omnigraph.algorithms.model import (
    ComponentsTask,
    LabelPropagationTask,
    PageRankTask,
    ShortestPathsTask,
    Task,
    TrianglesTask,
)
from omnigraph.algorithms.pagerank import PageRankTerms, teleport
from omnigraph.dataplane.spark.algorithms import broadcast, one_task
from omnigraph.dataplane.spark.algorithms.blocks import Blocks
from omnigraph.dataplane.spark.algorithms.components import component_states
from omnigraph.dataplane.spark.algorithms.messages import (
    Kinds,
    Message,
    Piece,
    State,
    iterated,
    learned,
    messages_of,
    sent,
    states,
    summed,
    sums,
)
from omnigraph.dataplane.spark.algorithms.triangles import triangle_states
from omnigraph.dataplane.spark.table_scan import Frame
from omnigraph.errors import Code, NotFound

_NOWHERE: Final = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class VertexValues:
    """The value of each vertex, and how it was found.

    Attributes:
        found: One array for all vertices, or a frame of states, where `value` has a number per
            vertex of the block.
        kind: What these numbers are.
        iterations: How many it took, where it iterates.
        converged: False if it ended because of the most iterations.
    """

    found: Frame | npt.NDArray[Any]
    kind: Any
    iterations: int | None = None
    converged: bool = True


def compute(blocks: Blocks, task: Task, bytes_max: int) -> VertexValues:
    """Run an algorithm on Spark.

    Raises:
        NotFound: A source of shortest paths is not there.
        InvalidInput: A weight is null or negative.
        LimitExceeded: A task would need more memory than `bytes_max`.
    """
    if blocks.layout.size and broadcast.fits(blocks, edges=isinstance(task, TrianglesTask)):
        return _by_broadcast(blocks, task)
    match task:
        case PageRankTask(terms=terms):
            return _pagerank(blocks, task, terms)
        case ComponentsTask():
            return VertexValues(component_states(blocks, bytes_max), np.int32)
        case LabelPropagationTask():
            return _labels(blocks, task)
        case ShortestPathsTask():
            return _distances(blocks, task)
        case TrianglesTask():
            return VertexValues(triangle_states(blocks), np.int64)
        case _:
            raise AssertionError(task)


def _by_broadcast(blocks: Blocks, task: Task) -> VertexValues:
    if isinstance(task, one_task.IteratingTask) and one_task.fits(blocks, task):
        starts = _sources(blocks, task) if isinstance(task, ShortestPathsTask) else _NOWHERE
        done = one_task.solve(blocks, task, starts)
        return VertexValues(done.values, done.values.dtype, done.iterations, done.converged)
    match task:
        case PageRankTask(direction=direction, terms=terms):
            ranks = broadcast.pagerank(blocks, direction, terms)
            return VertexValues(ranks.values, np.float64, ranks.iterations, ranks.converged)
        case ComponentsTask():
            return VertexValues(broadcast.component_roots(blocks), np.int32)
        case LabelPropagationTask(direction=direction, iterations=iterations):
            labels = broadcast.labels(blocks, direction, iterations)
            return VertexValues(labels.values, np.int32, labels.iterations, labels.converged)
        case ShortestPathsTask(direction=direction, weight=weight, most=most):
            sources = _sources(blocks, task)
            found = broadcast.distances(blocks, direction, weight, sources, most)
            return VertexValues(found, np.float64)
        case TrianglesTask():
            return VertexValues(broadcast.triangles(blocks), np.int64)
        case _:
            raise AssertionError(task)


# -- PageRank --------------------------------------------------------------------------------------


def _pagerank(blocks: Blocks, task: PageRankTask, terms: PageRankTerms) -> VertexValues:
    size = blocks.layout.size
    if not size:
        return VertexValues(states(blocks, partial(_equal_ranks, 1)), np.float64, 0)
    pieces = blocks.pieces(task.direction)
    kinds = Kinds(np.float64, np.int64, np.float64, np.int64)
    begin = states(blocks, partial(_equal_ranks, size))
    degrees = messages_of(pieces, _count_sources)
    state = learned(blocks, begin, degrees, kinds, _learn_degrees)
    _, dangling = sums(blocks, "pagerank: degrees", state)
    for iteration in range(1, terms.iterations + 1):
        everywhere = teleport(size, terms.damping, dangling)
        send = partial(_send_shares, terms.damping)
        learn = partial(_learn_ranks, everywhere)
        state = iterated(blocks, state, pieces, kinds, send, learn)
        change, dangling = sums(blocks, f"pagerank: iteration {iteration}", state)
        if change < terms.tolerance:
            return VertexValues(state, np.float64, iteration)
    return VertexValues(state, np.float64, terms.iterations, converged=False)


def _equal_ranks(size: int, first: int, count: int) -> State:
    return State(np.full(count, 1.0 / size), np.zeros(count, np.int64))


def _count_sources(piece: Piece, source: int, target: int) -> Iterator[tuple[int, Message]]:
    counts = np.bincount(piece.sources)
    places = np.flatnonzero(counts)
    yield source, Message(places, np.zeros(len(places)), counts[places].astype(np.int64))


def _learn_degrees(first: int, old: State, heard: Message) -> State:
    assert heard.extra is not None
    degrees = summed(len(old.value), heard.places, heard.extra)
    return State(old.value, degrees, 0.0, float(old.value[degrees == 0].sum()))


def _send_shares(damping: float, state: State, piece: Piece) -> Message:
    assert state.extra is not None
    shares = state.value * (damping / np.maximum(state.extra, 1))
    starts = np.flatnonzero(first_of_runs(piece.targets))
    return Message(piece.targets[starts], np.add.reduceat(shares[piece.sources], starts))


def _learn_ranks(everywhere: float, first: int, old: State, heard: Message) -> State:
    ranks = np.full(len(old.value), everywhere)
    if len(heard.places):
        ranks += np.bincount(heard.places, weights=heard.value, minlength=len(ranks))
    assert old.extra is not None
    change = float(np.abs(ranks - old.value).sum())
    return State(ranks, old.extra, change, float(ranks[old.extra == 0].sum()))


# -- label propagation -----------------------------------------------------------------------------


def _labels(blocks: Blocks, task: LabelPropagationTask) -> VertexValues:
    state = states(blocks, _own_labels)
    if not blocks.layout.size:
        return VertexValues(state, np.int32, 1)
    kinds = Kinds(np.int32, np.int32, np.int32, np.int64)
    pieces = blocks.pieces(task.direction)
    for iteration in range(1, task.iterations + 1):
        state = iterated(blocks, state, pieces, kinds, _send_votes, _learn_labels)
        changed, _ = sums(blocks, f"label propagation: iteration {iteration}", state)
        if not changed:
            return VertexValues(state, np.int32, iteration)
    return VertexValues(state, np.int32, task.iterations, converged=False)


def _own_labels(first: int, count: int) -> State:
    return State(np.arange(first, first + count, dtype=np.int32))


def _send_votes(state: State, piece: Piece) -> Message:
    return Message(*tallied(piece.targets.astype(np.int64), state.value[piece.sources]))


def _learn_labels(first: int, old: State, heard: Message) -> State:
    labels = old.value.copy()
    places, winners = winning_labels(
        heard.places.astype(np.int64), heard.value, old.value, heard.extra
    )
    labels[places] = winners
    return State(labels, None, float(np.count_nonzero(labels != old.value)))


# -- shortest paths --------------------------------------------------------------------------------


def _distances(blocks: Blocks, task: ShortestPathsTask) -> VertexValues:
    sources = _sources(blocks, task)
    limit = np.inf if task.most is None else task.most
    kinds = Kinds(np.float64, np.bool_, np.float64, np.int64)
    pieces = blocks.pieces(task.direction, weight=task.weight)
    state = states(blocks, partial(_at_sources, sources))
    learn = partial(_learn_distances, limit)
    active, iteration = 1.0, 0
    while active:
        iteration += 1
        sending = state if iteration == 1 else state.where("first > 0")
        messages = sent(blocks, sending, pieces, kinds, _send_distances)
        state = learned(blocks, state, messages, kinds, learn)
        active, _ = sums(blocks, f"shortest paths: iteration {iteration}", state)
    return VertexValues(state, np.float64)


def _sources(blocks: Blocks, task: ShortestPathsTask) -> np.ndarray:
    """The numbers of the sources."""
    found: list[int] = []
    vertices = blocks.vertices()
    for name, ids in sorted(task.sources.items()):
        place = blocks.selection.nodes.index(name)
        rows = vertices.where((vertices["type"] == place) & vertices["id"].isin(list(ids)))
        known = blocks.runner.perform("find sources", rows.select("id", "vertex").collect)
        numbers = {row[0]: int(row[1]) for row in known}
        for each in ids:
            if each not in numbers:
                text = f"there is no {name} '{each}'"
                raise NotFound(Code.NOT_FOUND, text, type=name, id=each)
        found += numbers.values()
    return np.array(sorted(found), np.int64)


def _at_sources(sources: np.ndarray, first: int, count: int) -> State:
    distances = np.full(count, np.inf)
    distances[sources[(sources >= first) & (sources < first + count)] - first] = 0.0
    active = distances == 0.0
    return State(distances, active, float(np.count_nonzero(active)))


def _send_distances(state: State, piece: Piece) -> Message | None:
    assert state.extra is not None
    active = np.flatnonzero(state.extra[piece.sources])
    if not active.size:
        return None
    steps = 1.0 if piece.weights is None else piece.weights[active]
    reached = state.value[piece.sources[active]] + steps
    targets = piece.targets[active]
    starts = np.flatnonzero(first_of_runs(targets))
    return Message(targets[starts], np.minimum.reduceat(reached, starts))


def _learn_distances(limit: float, first: int, old: State, heard: Message) -> State:
    distances = old.value.copy()
    near = heard.value <= limit
    np.minimum.at(distances, heard.places[near], heard.value[near])
    active = distances < old.value
    return State(distances, active, float(np.count_nonzero(active)))


def shown_values(task: Task, values: npt.NDArray[Any]) -> pa.Array:
    """The numbers that were computed as users see them."""
    if not isinstance(task, ShortestPathsTask):
        return pa.array(values.astype(np.int64) if task.is_whole else values)
    mask = np.isinf(values)
    if task.is_whole:
        return pa.array(np.where(mask, 0, values).astype(np.int64), mask=mask)
    return pa.array(values, mask=mask)
