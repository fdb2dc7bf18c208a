"""Loads into the small graphs of `worlds`: one of each mode, each as it is done in earnest.

The input is a file beside the graph, read in several splits and judged in several partitions. The
tasks run one after the other, so that the n-th call to storage is the same one on every run.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from omnigraph.core.repository import Repository
from omnigraph.dataplane.load.loader import Loader
from omnigraph.dataplane.load.request import Loaded, LoadRequest
from omnigraph.dataplane.progress import Monitor
from omnigraph.dataplane.run.inprocess import InProcessRunner
from omnigraph.dataplane.run.runner import Item, Result, Runner
from omnigraph.dataplane.source.model import FileInput, Format
from omnigraph.types import MAIN, BranchName, LoadMode

__all__ = ["Elsewhere", "append", "append_elsewhere", "branch", "load", "merge", "overwrite"]

_KEY: Final = "the-one-load"
_SPLIT_BYTES: Final = 120
_PARTITIONS: Final = 2


class Elsewhere:
    """Runs tasks as if in another process: whatever goes in or out is pickled."""

    is_remote = True
    parallelism = 1

    def run(
        self, stage: str, task: Callable[[Item], Result], items: Sequence[Item]
    ) -> Iterator[tuple[int, Result]]:
        """Run a task for each item."""
        for number, item in enumerate(items):
            yield number, pickle.loads(pickle.dumps(task(pickle.loads(pickle.dumps(item)))))


def _node(kind: str, name: str, **data: Any) -> dict[str, Any]:
    return {"type": kind, "data": {"name": name, **data}}


def _knows(name: str, source: str, target: str) -> dict[str, Any]:
    return {"edge": "Knows", "from": source, "to": target, "data": {"id": name}}


_NEW: Final = (
    _knows("l0", "l0", "p0"),
    _node("Person", "l0", age=7),
    _node("Person", "l1"),
    _node("Company", "l0"),
    _knows("l1", "p1", "l1"),
)
_CHANGED: Final = (
    _node("Person", "p0", age=8),
    _node("Person", "m0"),
    _knows("k0", "m0", "p1"),
    _node("Company", "c0"),
)
_OTHER: Final = (_node("Person", "p1", age=9), _node("Person", "o0"), _node("Company", "o0"))


def append(repo: Repository, runner: Runner | None = None) -> Loaded:
    """Add nodes and edges, some of them between what is new and what is not."""
    return load(repo, _NEW, "append", runner=runner)


def append_elsewhere(repo: Repository) -> Loaded:
    """The same, with tasks that share nothing with the graph but its storage."""
    return append(repo, Elsewhere())


def merge(repo: Repository) -> Loaded:
    """Change a node and an edge, add a node."""
    return load(repo, _CHANGED, "merge")


def overwrite(repo: Repository) -> Loaded:
    """Replace the nodes; an edge loses an end and goes, too."""
    return load(repo, _OTHER, "overwrite", cascade=True)


def branch(repo: Repository) -> Loaded:
    """Add nodes and edges to a branch that is made with them."""
    return load(repo, _NEW, "append", branch=BranchName("dev"), create_from=MAIN)


def load(
    repo: Repository,
    lines: Sequence[dict[str, Any]],
    mode: LoadMode,
    *,
    runner: Runner | None = None,
    **terms: Any,
) -> Loaded:
    """Load lines as `graph.load` does; once, however often it is called."""
    request = LoadRequest(
        inputs=(_file(repo, lines),),
        catalog=repo.schema(repo.snapshot()).catalog,
        mode=mode,
        actor="tester",
        idempotency_key=_KEY,
        split_bytes=_SPLIT_BYTES,
        partitions=_PARTITIONS,
        **terms,
    )
    monitor = Monitor("load", "inprocess", "a test", repo.clock)
    loader = Loader(repo, wait=lambda _: None)
    return loader.load(request, runner or InProcessRunner(1), monitor)


def _file(repo: Repository, lines: Sequence[dict[str, Any]]) -> FileInput:
    """A file beside the graph: what is below its root is the graph's."""
    graph = repo.root.local_path
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    path = Path(f"{graph}.jsonl")
    path.write_text(text, encoding="utf-8")
    return FileInput(uri=str(path), name=path.name, format=Format.NDJSON, size=len(text))
