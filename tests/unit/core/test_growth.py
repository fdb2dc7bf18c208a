"""What a commit adds to storage does not grow with history."""

from collections.abc import Callable
from pathlib import Path

import pytest

from omnigraph.core.layout import MANIFEST
from omnigraph.core.repository import Repository
from omnigraph.store.root import Root
from tests.graphs import PERSON, Delta, make, people, write

# Fragments are put together every 16 commits, and those again every 128.
WINDOW, EARLY, LATE = 128, 112, 384
HOT = 8


def grow(
    root: Root, step: Callable[[Repository, int], None]
) -> tuple[dict[str, float], dict[str, float]]:
    """Commit, and tell what one commit added on average: in an early window, and in the last."""
    repo = make(root)
    marks = (EARLY, EARLY + WINDOW, LATE - WINDOW, LATE)
    seen = {}
    for count in range(1, LATE + 1):
        step(repo, count)
        if count in marks:
            seen[count] = census(root.local_path)
    first, second, third, last = (seen[mark] for mark in marks)
    early = {name: (second[name] - first[name]) / WINDOW for name in first}
    return early, {name: (last[name] - third[name]) / WINDOW for name in first}


def census(folder: Path) -> dict[str, int]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    inside = [path for path in files if path.is_relative_to(folder / MANIFEST)]
    return {
        "files": len(files),
        "bytes": sum(path.stat().st_size for path in files),
        "manifest files": len(inside),
        "manifest bytes": sum(path.stat().st_size for path in inside),
    }


def insert(repo: Repository, count: int) -> None:
    write(repo, {PERSON: people(f"p{count}")})


def update(repo: Repository, count: int) -> None:
    if count <= HOT:
        insert(repo, count)
    else:
        write(repo, {PERSON: Delta(update={f"p{count % HOT + 1}": {"name": f"n{count}"}})})


@pytest.mark.parametrize("step", [insert, update], ids=lambda step: step.__name__)
def test_a_late_commit_adds_what_an_early_one_does(
    tmp_path: Path, step: Callable[[Repository, int], None]
) -> None:
    early, late = grow(Root.parse(str(tmp_path / "graph")), step)
    assert late["files"] <= 1.05 * early["files"] <= 5.5
    assert late["manifest files"] <= 1.05 * early["manifest files"]
    assert late["manifest bytes"] <= 1.2 * early["manifest bytes"] <= 14_000
    assert late["bytes"] <= 1.2 * early["bytes"]
