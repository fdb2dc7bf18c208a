"""Clean-ups beside writers, merges, readers, exports, feeds and copies of other processes.

Nothing that was acknowledged is lost, and nobody gets a wrong answer; on local disk and on S3.
"""

from __future__ import annotations

import io
import multiprocessing as mp
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.core.cleanup.cleaner import CleanupRequest
from omnigraph.core.cleanup.retention import RetentionPolicy
from omnigraph.errors import Busy, Conflict, Gone, NotFound
from omnigraph.store import tuning
from tests.conformance.conftest import IDS, s3_options
from tests.conformance.seaweed import BUCKET

__all__ = ["s3_options"]

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person"
COUNT = "query q() { match { $p: Person } return { count($p) as n } }"
LAST = "last"
# Time passes fifty times as fast: versions are believed for a second, and go after six.
TRUSTED_NS, SUPERSEDED_US = 1_000_000_000, 6_000_000
Place = tuple[str, dict[str, str]]


def opened(place: Place, mode: str = "rw") -> og.Graph:
    tuning.active.trusted_head_ns = TRUSTED_NS
    return og.open(place[0], mode, storage_options=place[1] or None)


def insert(graph: og.Graph, name: str, branch: str = "main") -> None:
    text = f'query q() {{ insert Person {{ name: "{name}" }} }}'
    graph.mutate(text, branch=branch, retries=1_000)


def write(place: Place, who: int, count: int) -> int:
    """Insert persons, each acknowledged."""
    with opened(place) as graph:
        for number in range(count):
            insert(graph, f"w{who}-{number}")
    return count


def branch(place: Place, who: int, count: int) -> int:
    """Make branches from old and new states, write there, merge, delete."""
    done = 0
    with opened(place) as graph:
        for number in range(count):
            name = f"b{who}-{number}"
            try:
                graph.branches.create(name, at=f"main~{number % 3}")
                insert(graph, name, name)
                graph.branches.merge(name)
                graph.branches.delete(name)
                done += 1
            except (Gone, Conflict, Busy, NotFound):
                continue
    return done


def read(place: Place, count: int) -> int:
    """Read states of all ages: right, or gone."""
    gone = 0
    with opened(place, "r") as graph:
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


def export(place: Place, count: int) -> int:
    """Export states of all ages: the rows that a query finds there, or gone."""
    done = 0
    with opened(place) as graph:
        for number in range(count):
            commits = graph.commits.list(limit=10)
            chosen = commits[number % len(commits)].id
            try:
                expected = graph.query(COUNT, at=chosen)[0]["n"]
                found = graph.export(io.BytesIO(), format="ndjson", at=chosen)
            except Gone:
                continue
            assert found.rows["node:Person"] == expected
            done += 1
    return done


def follow(place: Place, cursor: str) -> list[str]:
    """Follow the feed to its last event; an open feed loses nothing."""
    found = []
    with opened(place) as graph:
        for page in graph.changes.follow(cursor, limit=5, every=0.2):
            found += [event.change.id for event in page.events]
            if LAST in found:
                break
    return found


def copy(place: Place, folder: str, count: int) -> int:
    """Copy everything, again and again; each copy is whole."""
    for number in range(count):
        target = str(Path(folder, f"copy{number}"))
        with opened(place) as graph:
            least = graph.query(COUNT)[0]["n"]
            graph.copy_to(target, engine="inprocess")
        with og.open(target) as found:
            assert flaws(found) == []
            assert found.query(COUNT)[0]["n"] >= least
    return count


def clean(place: Place, count: int) -> int:
    gone = 0
    request = CleanupRequest(policy=RetentionPolicy(keep=2), superseded_us=SUPERSEDED_US)
    with opened(place) as graph:
        for _ in range(count):
            try:
                done = graph._repo.cleanup(request, lambda _: None)
                gone += sum(part.versions for part in done.parts)
                assert all(part.error is None for part in done.parts), done.parts
            except Busy:
                continue
    return gone


def flaws(graph: og.Graph) -> list[og.VerifyFinding]:
    found = graph.verify("rows", engine="inprocess").findings
    return [each for each in found if each.severity == "error"]


@pytest.fixture(params=["local", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "local":
        yield str(tmp_path / "graph"), {}
    else:
        yield f"s3://{BUCKET}/{IDS.new()}", request.getfixturevalue("s3_options")


def _wait_for_a_hold(place: Place) -> None:
    with opened(place) as graph:
        while not graph._repo.holds.all():
            threading.Event().wait(0.05)


@pytest.mark.deep
def test_nothing_that_was_acknowledged_is_lost(place: Place, tmp_path: Path) -> None:
    with og.init(place[0], SCHEMA, storage_options=place[1] or None) as graph:
        insert(graph, "first")
        cursor = graph.changes.poll(start="now").cursor
    context: Any = mp.get_context("spawn")
    with context.Pool(9) as pool:
        following = pool.apply_async(follow, (place, cursor))
        _wait_for_a_hold(place)  # an open feed loses nothing; one that opens later may be told so
        writers = [pool.apply_async(write, (place, who, 30)) for who in range(2)]
        making = pool.apply_async(branch, (place, 0, 12))
        others = [
            pool.apply_async(read, (place, 40)),
            pool.apply_async(export, (place, 25)),
            pool.apply_async(copy, (place, str(tmp_path), 3)),
        ]
        cleaners = [pool.apply_async(clean, (place, 12)) for _ in range(2)]
        written, merged = sum(each.get(1_200) for each in writers), making.get(1_200)
        for each in others:
            each.get(1_200)
        removed = sum(each.get(1_200) for each in cleaners)
        with opened(place) as graph:
            removed += clean(place, 1)
            insert(graph, LAST)
        seen = following.get(600)
    with opened(place) as graph:
        found = graph.query(COUNT)[0]["n"]
        assert found >= 2 + written + merged
        # The feed has told of everyone after the first, once.
        assert len(seen) == len(set(seen)) == found - 1
        assert flaws(graph) == []
        assert removed > 0
