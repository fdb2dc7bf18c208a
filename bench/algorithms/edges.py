"""The graph that is measured: few vertices have many edges, and many have few."""

from __future__ import annotations

from pathlib import Path

import numpy as np

# How likely each quarter of the matrix is at every step; the usual values of R-MAT.
_QUARTERS = (0.57, 0.19, 0.19)


def write_edges(path: Path, scale: float) -> tuple[int, int]:
    """Write the ends of all edges as one array; how many vertices and edges there are."""
    bits = max(6, 15 + round(np.log2(scale)))
    vertices, edges = 1 << bits, 9 << bits
    random = np.random.default_rng(11)
    ends = np.zeros((2, edges), np.int64)
    first, second, third = np.cumsum(_QUARTERS)
    for _ in range(bits):
        drawn = random.random(edges)
        ends[0] = (ends[0] << 1) | (drawn >= second)
        ends[1] = (ends[1] << 1) | (((drawn >= first) & (drawn < second)) | (drawn >= third))
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, random.permutation(vertices)[ends])
    return vertices, edges
