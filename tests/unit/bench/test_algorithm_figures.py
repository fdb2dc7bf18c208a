"""The page and the graph of the group `algorithms`."""

from pathlib import Path
from typing import Any

import numpy as np

from bench.algorithms.edges import write_edges
from bench.algorithms.group import page

FIGURES: dict[str, Any] = {
    "facts": {"implementation": "CPython", "python": "3", "cores": 2, "machine": "Linux"},
    "vertices": 64,
    "edges": 576,
    "inprocess": {
        "omnigraph": {"version": "1", "algorithms": {"pagerank": {"seconds": 0.5}}},
        "igraph": {"version": "2", "algorithms": {"pagerank": {"seconds": 1.25}}},
    },
    "spark": {
        "spark": "4",
        "algorithms": {
            "pagerank": {"omnigraph": 2.0, "graphframes": 5.0},
            "triangle_counts": {"omnigraph": 2.0},
        },
    },
}


def test_the_page_tells_ratios() -> None:
    lines = page(FIGURES).splitlines()
    assert "| pagerank | 500 ms | 1.25 s (2.5x) |" in lines
    assert "| pagerank | 2.00 s | 5.00 s (2.5x) |" in lines
    assert "| triangle_counts | 2.00 s | - |" in lines


def test_without_spark_the_page_has_no_such_part() -> None:
    left = {name: value for name, value in FIGURES.items() if name != "spark"}
    assert "Spark" not in page(left)


def test_the_graph_is_always_the_same(tmp_path: Path) -> None:
    assert write_edges(tmp_path / "a.npy", 1 / 512) == (64, 576)
    write_edges(tmp_path / "b.npy", 1 / 512)
    ends = np.load(tmp_path / "a.npy")
    assert (ends == np.load(tmp_path / "b.npy")).all()
    assert ends.shape == (2, 576)
    assert (ends.min(), ends.max()) >= (0, 63)
