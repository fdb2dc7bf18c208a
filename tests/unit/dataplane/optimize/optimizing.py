"""Graphs to optimize, runners that get in the way, and the questions asked afterwards."""

import pickle
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from omnigraph.core.repository import Repository
from omnigraph.dataplane.optimize.model import Optimized
from omnigraph.dataplane.optimize.optimizer import Optimizer
from omnigraph.dataplane.progress import Listener, Monitor
from omnigraph.dataplane.run.inprocess import InProcessRunner
from omnigraph.dataplane.run.runner import Runner
from omnigraph.store.maintenance.shape import read_shape
from omnigraph.store.tables import Table
from omnigraph.types import MAIN, BranchName
from tests.graphs import Delta

Item = TypeVar("Item")
Result = TypeVar("Result")

SCHEMA = """
node Doc {
  slug: String @key
  title: String? @index
  year: I32? @index
  vector: Vector(4)? @index @metric(l2)
}
edge Cites: Doc -> Doc { weight: F64? @index }
"""
DOC, CITES = "node:Doc", "edge:Cites"
WORDS = ("red", "green", "blue", "pink", "gray")


def optimize(
    repo: Repository,
    branch: BranchName = MAIN,
    runner: Runner | None = None,
    listener: Listener | None = None,
    **options: Any,
) -> Optimized:
    monitor = Monitor("optimize", "inprocess", "asked for", repo.clock, listener)
    return Optimizer(repo).optimize(
        repo.snapshot(branch), runner or InProcessRunner(), monitor, **options
    )


class PicklingRunner:
    """Sends tasks and results through pickle, as another process would get them."""

    parallelism = 2
    is_remote = True

    def run(
        self, stage: str, task: Callable[[Item], Result], items: Sequence[Item]
    ) -> Iterator[tuple[int, Result]]:
        # Backwards: results come in no order that anybody may rely on.
        for number in reversed(range(len(items))):
            work, item = pickle.loads(pickle.dumps((task, items[number])))
            yield number, pickle.loads(pickle.dumps(work(item)))


class InterruptedRunner:
    """Does something else after each task of a stage."""

    parallelism = 1
    is_remote = False

    def __init__(self, stage: str, interruption: Callable[[], object]) -> None:
        self._stage = stage
        self._interruption = interruption

    def run(
        self, stage: str, task: Callable[[Item], Result], items: Sequence[Item]
    ) -> Iterator[tuple[int, Result]]:
        for number, item in enumerate(items):
            result = task(item)
            if stage == self._stage:
                self._interruption()
            yield number, result


def docs(*numbers: int, generation: int = 0, vectors: bool = True) -> Delta:
    return Delta(insert=[{"id": f"d{n}", **_doc(n, generation, vectors)} for n in numbers])


def redone(*numbers: int, generation: int) -> dict[str, Any]:
    """The changes that bring some documents to a later generation."""
    return {f"d{n}": _doc(n, generation, True) for n in numbers}


def _doc(number: int, generation: int, vectors: bool) -> dict[str, Any]:
    title = f"{WORDS[(number + generation) % len(WORDS)]} of {number % 3}"
    vector = [float(number), float(generation), 1.0, 2.0] if vectors else None
    year = 2000 + number + generation
    return {"slug": f"d{number}", "title": title, "year": year, "vector": vector}


def cites(*pairs: tuple[int, int]) -> Delta:
    return Delta(
        insert=[
            {"id": f"{a}-{b}", "src": f"d{a}", "dst": f"d{b}", "weight": a / 2} for a, b in pairs
        ]
    )


def table_of(repo: Repository, key: str, branch: BranchName = MAIN) -> Table:
    return repo.table(repo.snapshot(branch).pin(key))


def fragments(repo: Repository, key: str, branch: BranchName = MAIN) -> int:
    return len(table_of(repo, key, branch).fragment_ids())


def check_indexes(table: Table, *, whole: bool = True) -> None:
    """Every index covers every row once, and by it is found what looking at all rows finds."""
    live = set(table.fragment_ids())
    shape = read_shape(table)
    for name in {segment.index for segment in shape.segments}:
        covers = [segment.fragments & live for segment in shape.of(name)]
        covered = frozenset().union(*covers)
        assert sum(map(len, covers)) == len(covered), name
        # Rows that were updated may have to do without a word index for a while.
        assert covered == live or (covered < live and name.endswith("_text") and not whole), name
    rows = table.read(row_id=True).to_pylist()
    dataset = table.dataset
    for year in range(1999, 2060):
        found = dataset.to_table(columns=["id"], filter=f"year = {year}")["id"].to_pylist()
        assert sorted(found) == sorted(row["id"] for row in rows if row["year"] == year)
    for number in range(45):
        found = dataset.to_table(columns=["id"], filter=f"slug = 'd{number}'")["id"].to_pylist()
        assert found == [row["id"] for row in rows if row["slug"] == f"d{number}"]
    for word in WORDS:
        query = {"columns": ["title"], "query": word}
        found = dataset.to_table(columns=["id", "_score"], full_text_query=query)["id"]
        wanted = [row["id"] for row in rows if word in (row["title"] or "").split()]
        assert sorted(found.to_pylist()) == sorted(wanted), word
        best = dataset.to_table(columns=["id", "_score"], full_text_query=query, limit=2)
        assert best.num_rows == min(2, len(wanted)), word
    _check_nearest(dataset, [row for row in rows if row["vector"] is not None])


def _check_nearest(dataset: Any, rows: list[dict[str, Any]]) -> None:
    vectors = np.array([row["vector"] for row in rows], np.float32).reshape(-1, 4)
    for x in range(0, 45, 4):
        for generation in range(4):
            point = np.array([x + 0.25, generation, 1.0, 2.0], np.float32)
            wanted = np.sort(((vectors - point) ** 2).sum(axis=1))[:3]
            nearest = {"column": "vector", "q": point, "k": 3, "nprobes": 64}
            found = dataset.to_table(columns=["_distance"], nearest=nearest)["_distance"]
            assert np.allclose(np.sort(found.to_numpy()), wanted), point


def litter(folder: Path) -> list[str]:
    """What drafts leave behind when nobody tidies up."""
    manifests = [each.name for each in folder.rglob("d*.manifest")]
    return manifests + [each.name for each in folder.rglob("*.draft*")]
