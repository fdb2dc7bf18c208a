"""The graphs that are branched and merged, and the changes of a branch."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

import omnigraph as og

SCHEMA: Final = "node Item { name: String @key  a: I64  b: F64?  c: String?  d: String? }"
# Of so many rows that a branch changes, most are updated; the others are inserted and deleted.
_UPDATED, _INSERTED = 0.8, 0.1
_CHANGES_OF_TARGET: Final = 100


def items(numbers: np.ndarray[tuple[int, ...], np.dtype[np.int64]], salt: int = 0) -> pa.Table:
    """Rows of the type, by their numbers."""
    listed = numbers.tolist()
    return pa.table(
        {
            "name": [f"k{number:09}" for number in listed],
            "a": pa.array(numbers * 7 + salt),
            "b": pa.array(numbers * 0.5),
            "c": [f"city {number % 1000} {salt}" for number in listed],
            "d": [f"text of {number}" for number in listed],
        }
    )


@dataclass(frozen=True, slots=True, eq=False)
class Delta:
    """The changes of one branch: rows that are updated or inserted, and keys that are deleted."""

    written: pa.Table
    deleted: tuple[str, ...]

    @classmethod
    def of(cls, rows: int, count: int, seed: int) -> Delta:
        """Changes of so many of the first rows, and of new ones."""
        chosen = np.random.default_rng(seed).choice(rows, count, replace=False)
        updated, inserted = int(count * _UPDATED), int(count * _INSERTED)
        new = np.arange(inserted) + 10_000_000 * (seed + 1)
        gone = chosen[updated : updated + count - updated - inserted]
        return cls(
            items(np.concatenate([chosen[:updated], new]), seed),
            tuple(f"k{number:09}" for number in gone.tolist()),
        )

    def apply(self, graph: og.Graph, branch: str) -> None:
        """Change a branch."""
        graph.load({"Item": self.written}, mode="merge", branch=branch)
        if self.deleted:
            text = "query q($names: [String]) { delete Item where name in $names }"
            graph.mutate(text, {"names": list(self.deleted)}, branch=branch)


def made(folder: Path, rows: int) -> og.Graph:
    """A graph with so many rows, made anew."""
    shutil.rmtree(folder, ignore_errors=True)
    graph = og.init(str(folder), schema=SCHEMA)
    graph.load({"Item": items(np.arange(rows))}, mode="append")
    return graph


def branched(graph: og.Graph, rows: int, count: int, seed: int) -> tuple[str, Delta]:
    """A branch with changes, while its parent changes a little, too."""
    name = f"b{seed}"
    graph.branches.create(name)
    delta = Delta.of(rows, count, seed)
    delta.apply(graph, name)
    graph.load({"Item": Delta.of(rows, _CHANGES_OF_TARGET, seed + 500).written}, mode="merge")
    return name, delta
