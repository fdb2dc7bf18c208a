"""Clean-ups beside writers, readers, branches and exports of other processes: nothing is lost."""

from __future__ import annotations

import multiprocessing as mp
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.core.cleanup.cleaner import CleanupRequest
from omnigraph.core.cleanup.retention import RetentionPolicy
from omnigraph.errors import Busy, Conflict, Gone, NotFound
from omnigraph.store.versions import latest

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person"
COUNT = "query q() { match { $p: Person } return { count($p) as n } }"
# Time passes fifty times as fast: versions are believed for a second, and go after six.
TRUSTED_NS, SUPERSEDED_US = 1_000_000_000, 6_000_000


def hurried() -> None:
    latest.TRUSTED_NS = TRUSTED_NS


def write(place: str, who: int, count: int) -> int:
    """Insert persons, each acknowledged."""
    hurried()
    with og.open(place) as graph:
        for number in range(count):
            text = f'query q() {{ insert Person {{ name: "w{who}-{number}", age: {number} }} }}'
            graph.mutate(text, retries=1_000)
    return count


def branch(place: str, who: int, count: int) -> int:
    """Make branches from old and new states, write there, merge, delete."""
    hurried()
    done = 0
    with og.open(place) as graph:
        for number in range(count):
            name = f"b{who}-{number}"
            try:
                graph.branches.create(name, at=f"main~{number % 3}")
                text = f'query q() {{ insert Person {{ name: "{name}" }} }}'
                graph.mutate(text, branch=name, retries=1_000)
                graph.branches.merge(name)
                graph.branches.delete(name)
                done += 1
            except (Gone, Conflict, Busy, NotFound):
                continue
    return done


def read(place: str, count: int) -> int:
    """Read states of all ages: right, or gone."""
    hurried()
    gone = 0
    with og.open(place, "r") as graph:
        for number in range(count):
            commits = graph.commits.list(limit=30)
            chosen = commits[number % len(commits)]
            try:
                found = graph.query(COUNT, at=chosen.id)[0]["n"]
                before = graph.query(COUNT, at=commits[-1].id)[0]["n"]
                assert found >= before
            except Gone:
                gone += 1
    return gone


def clean(place: str, count: int) -> int:
    hurried()
    gone = 0
    request = CleanupRequest(policy=RetentionPolicy(keep=2), superseded_us=SUPERSEDED_US)
    with og.open(place) as graph:
        for _ in range(count):
            try:
                done = graph._repo.cleanup(request, lambda _: None)
                gone += sum(part.versions for part in done.parts)
                assert all(part.error is None for part in done.parts), done.parts
            except Busy:
                continue
    return gone


@pytest.mark.deep
def test_nothing_that_was_acknowledged_is_lost(tmp_path: Path) -> None:
    place = str(tmp_path / "graph")
    with og.init(place, schema=SCHEMA) as graph:
        graph.mutate('query q() { insert Person { name: "first" } }')
    context: Any = mp.get_context("spawn")
    with context.Pool(6) as pool:
        writers = [pool.apply_async(write, (place, who, 40)) for who in range(2)]
        making = pool.apply_async(branch, (place, 0, 15))
        reading = pool.apply_async(read, (place, 60))
        cleaners = [pool.apply_async(clean, (place, 15)) for _ in range(2)]
        written = sum(each.get(900) for each in writers)
        merged = making.get(900)
        reading.get(900)
        removed = sum(each.get(900) for each in cleaners)
    with og.open(place) as graph:
        found = graph.query(COUNT)[0]["n"]
        assert found >= 1 + written + merged
        for depth in ("metadata", "files", "rows"):
            assert [each for each in graph.verify(depth).findings if each.severity == "error"] == []
        assert removed > 0
