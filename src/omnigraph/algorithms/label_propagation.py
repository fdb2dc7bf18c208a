"""Communities by label propagation, synchronous and deterministic.

Each vertex starts with its own number as its label. In an iteration every vertex takes the label
that most of its neighbours had before. When several are equally frequent it keeps its own if that
is one of them, and takes the smallest otherwise. A neighbour counts once per edge. A vertex without
neighbours keeps its label.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from omnigraph.algorithms.csr import Counts, CsrGraph, Ids, blocks, first_of_runs, row_places
from omnigraph.runtime.cancellation import check

_ENTRIES_AT_ONCE: Final = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class Labels:
    """The label of each vertex, and how it was found."""

    values: Ids
    iterations: int
    converged: bool


def label_propagation(voters: CsrGraph, iterations: int, hearers: CsrGraph | None = None) -> Labels:
    """The labels of vertices.

    Args:
        voters: For each vertex those whose labels count there.
        iterations: The most iterations.
        hearers: For each vertex those where its label counts, if that is known. Then only
            vertices with a changed neighbour are looked at again: the others would not change.
    """
    labels = np.arange(voters.size, dtype=np.int32)
    degrees = voters.degrees()
    everyone = np.flatnonzero(degrees)
    active = everyone
    for iteration in range(1, iterations + 1):
        fresh = labels.copy()
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(degrees[active])])
        for low, high in blocks(ends, _ENTRIES_AT_ONCE):
            check()
            some = active[low:high]
            counts = degrees[some]
            if active is everyone:
                # Between them lie only vertices without neighbours.
                first = voters.offsets[some[0]]
                entries = voters.targets[first : first + ends[high] - ends[low]]
            else:
                entries = voters.targets[row_places(voters.offsets[some], counts)]
            rows = np.repeat(np.arange(high - low, dtype=np.int64), counts)
            heard, winners = winning_labels(rows, labels[entries], labels[some])
            fresh[some[heard]] = winners
        changed = np.flatnonzero(fresh != labels)
        if not changed.size:
            return Labels(labels, iteration, converged=True)
        labels = fresh
        active = everyone if hearers is None else _hearing(hearers, changed, everyone)
    return Labels(labels, iterations, converged=False)


def _hearing(hearers: CsrGraph, changed: Counts, everyone: Counts) -> Counts:
    """The vertices at which a changed label counts, in order; everyone, if they may be many."""
    starts = hearers.offsets[changed]
    counts = hearers.offsets[changed + 1] - starts
    if 2 * counts.sum() > len(hearers.targets):
        return everyone
    marks = np.zeros(hearers.size, np.bool_)
    marks[hearers.targets[row_places(starts, counts)]] = True
    return np.flatnonzero(marks)


def tallied(rows: Counts, votes: Ids) -> tuple[Counts, Ids, Counts]:
    """Equal votes for the same vertex together: the vertices, the labels, and how many."""
    keys = (rows << 32) | votes
    keys.sort()
    starts = np.flatnonzero(first_of_runs(keys))
    counts = np.diff(starts, append=len(keys))
    keys = keys[starts]
    return keys >> 32, (keys & 0xFFFFFFFF).astype(np.int32), counts


def winning_labels(
    rows: Counts, votes: Ids, current: Ids, weights: Counts | None = None
) -> tuple[Counts, Ids]:
    """The vertices that get any votes, and the label that wins at each.

    Args:
        rows: The vertex that each vote is for.
        votes: The labels.
        current: The label that each of those has.
        weights: How often each vote counts; once by default.
    """
    keys = (rows << 32) | votes
    if weights is None:
        keys.sort()
    else:
        order = np.argsort(keys)
        keys, weights = keys[order], weights[order]
    starts = np.flatnonzero(first_of_runs(keys))
    if not starts.size:
        return np.empty(0, np.int64), np.empty(0, np.int32)
    totals = np.diff(starts, append=len(keys))
    if weights is not None:
        totals = np.add.reduceat(weights, starts)
    keys = keys[starts]
    rows, candidates = keys >> 32, (keys & 0xFFFFFFFF).astype(np.int32)
    begins = np.flatnonzero(first_of_runs(rows))
    most = np.maximum.reduceat(totals, begins)
    counts = np.diff(begins, append=len(rows))
    best = totals == np.repeat(most, counts)
    # The smallest of the best, and below all of them the current one.
    ranked = np.where(best, candidates, np.iinfo(np.int32).max)
    ranked[best & (candidates == current[rows])] = -1
    heard = rows[begins]
    winners = np.minimum.reduceat(ranked, begins)
    return heard, np.where(winners < 0, current[heard], winners)
