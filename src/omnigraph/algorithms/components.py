"""Weakly connected components by hooking roots to smaller ones and shortening paths.

Edges come in blocks, and none is kept: what is known of a block afterwards is a forest in one
array. So the memory depends on the vertices alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from omnigraph.algorithms.csr import Ids
from omnigraph.runtime.cancellation import check

EDGES_AT_ONCE: Final = 1 << 22


def components(size: int, edges: Iterable[tuple[Ids, Ids]]) -> Ids:
    """The component of each vertex, named by its smallest member.

    Args:
        size: How many vertices there are.
        edges: Their ends, in blocks; the direction does not matter.
    """
    roots = np.arange(size, dtype=np.int32)
    for sources, targets in edges:
        for start in range(0, len(sources), EDGES_AT_ONCE):
            part = slice(start, start + EDGES_AT_ONCE)
            roots = _united(roots, sources[part], targets[part])
    return roots


def forest(roots: Ids) -> tuple[Ids, Ids]:
    """The fewest edges that connect what `roots` connects: each vertex with its root."""
    others = np.flatnonzero(roots != np.arange(len(roots), dtype=np.int32)).astype(np.int32)
    return others, roots[others]


def _united(roots: Ids, sources: Ids, targets: Ids) -> Ids:
    """The components when these edges are there, too."""
    while True:
        check()
        left, right = roots[sources], roots[targets]
        apart = left != right
        if not apart.any():
            return roots
        sources, targets = left[apart], right[apart]
        # Of several edges at a root one wins; it always leads to a smaller one, so no circle arises
        # and the smallest member of a component stays its root.
        roots[np.maximum(sources, targets)] = np.minimum(sources, targets)
        while True:
            nearer = roots[roots]
            if np.array_equal(nearer, roots):
                break
            roots = nearer
