"""PageRank by power iteration.

The rank of a vertex is the chance to find a walker there that follows a random edge with the
probability `damping`, and else, or where no edge leads on, goes to any vertex. Ranks sum up to 1.
Parallel edges count each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from omnigraph.algorithms.csr import Counts, CsrGraph, Floats, blocks
from omnigraph.runtime.cancellation import check


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRankTerms:
    """The parameters of PageRank.

    Attributes:
        damping: The probability to follow an edge.
        tolerance: It ends when the ranks of all vertices together change by less than this.
        iterations: The most iterations.
    """

    damping: float = 0.85
    tolerance: float = 1e-8
    iterations: int = 100


@dataclass(frozen=True, slots=True, eq=False)
class Ranks:
    """The rank of each vertex, and how it was found."""

    values: Floats
    iterations: int
    converged: bool


def pagerank(inward: CsrGraph, out_degrees: Counts, terms: PageRankTerms) -> Ranks:
    """The ranks of vertices.

    Args:
        inward: For each vertex those that an edge leads from.
        out_degrees: How many edges leave each vertex.
        terms: Damping and when to stop.
    """
    size = inward.size
    if size == 0:
        return Ranks(np.empty(0), 0, converged=True)
    rows = np.flatnonzero(inward.degrees())
    bounds = np.append(inward.offsets[rows], len(inward.targets))
    ranges = list(blocks(bounds))

    def inflow(shares: Floats) -> Iterator[tuple[Counts, Floats]]:
        for low, high in ranges:
            check()
            start, end = bounds[low], bounds[high]
            # With whole machine words as places, and without a test of each, it is twice as fast.
            places = inward.targets[start:end].astype(np.intp)
            found = np.add.reduceat(shares.take(places, mode="clip"), bounds[low:high] - start)
            yield rows[low:high], found

    return power_iteration(out_degrees, terms, inflow)


def power_iteration(
    out_degrees: Counts,
    terms: PageRankTerms,
    inflow: Callable[[Floats], Iterable[tuple[npt.NDArray[Any], Floats]]],
) -> Ranks:
    """The ranks of vertices, by whatever follows their edges.

    Args:
        out_degrees: How many edges leave each vertex; there is at least one vertex.
        terms: Damping and when to stop.
        inflow: Is given what each vertex sends along each of its edges. Yields vertices, each at
            most once at a time, and what arrives there.
    """
    size = len(out_degrees)
    dangling = np.flatnonzero(out_degrees == 0)
    reciprocals = terms.damping / np.maximum(out_degrees, 1)
    ranks = np.full(size, 1.0 / size)
    for iteration in range(1, terms.iterations + 1):
        everywhere = teleport(size, terms.damping, float(ranks[dangling].sum()))
        fresh = np.full(size, everywhere)
        for places, found in inflow(ranks * reciprocals):
            fresh[places] += found
        change = float(np.abs(fresh - ranks).sum())
        ranks = fresh
        if change < terms.tolerance:
            return Ranks(ranks, iteration, converged=True)
    return Ranks(ranks, terms.iterations, converged=False)


def teleport(size: int, damping: float, dangling: float) -> float:
    """The rank that every vertex gets in one iteration, whatever leads to it.

    Args:
        size: How many vertices there are.
        damping: The probability to follow an edge.
        dangling: The rank that vertices without an edge have together.
    """
    return (1.0 - damping + damping * dangling) / size
