"""Commits of a feed that are read together, against the same commits one by one."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import omnigraph as og
from omnigraph.exec.tuning import tuned
from omnigraph.runtime import telemetry

SCHEMA = """
node Person { name: String @key  age: I32?  tags: [String]? }
node City { name: String @key }
edge Knows: Person -> Person { @key(src, dst)  since: I32? }
"""
Told = list[tuple[str, og.Change]]


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[og.Graph]:
    with og.init(str(tmp_path / "g.omni"), schema=SCHEMA) as graph:
        people = [{"name": f"p{number}", "age": number} for number in range(40)]
        graph.load({"Person": people, "City": [{"name": "c"}]})
        yield graph


def change(graph: og.Graph, text: str, branch: str = "main") -> None:
    graph.mutate(f"query q() {{ {text} }}", branch=branch)


def one_by_one(graph: og.Graph, count: int) -> Told:
    commits = graph.commits.list()[:count][::-1]
    return [(each.id, item) for each in commits for item in graph.commits.changes(each.id)]


def polled(graph: og.Graph, cursor: str, limit: int) -> Told:
    found: Told = []
    while True:
        page = graph.changes.poll(cursor, limit=limit)
        found += [(event.commit.id, event.change) for event in page.events]
        assert len(page.events) == limit or not page.more
        cursor = page.cursor
        if not page.more:
            return found


def random_step(graph: og.Graph, chance: np.random.Generator) -> None:
    one, other = (f"p{number}" for number in chance.choice(12, 2, replace=False))
    number = int(chance.integers(3))
    texts = [
        f'update Person set {{ age: {number} }} where name = "{one}"',
        f'update Person set {{ tags: ["t{number}"] }} where age > {number}',
        f'delete Person where name = "{one}"',
        f'insert Knows {{ from: "p30", to: "p{20 + number}", since: 1 }}',
        f"update Knows set {{ since: {number} }} where since > 0",
        f'insert City {{ name: "c{chance.random()}" }}',
    ]
    text = texts[int(chance.integers(len(texts)))]
    if chance.random() < 0.3:
        graph.load({"Person": [{"name": one, "age": number}, {"name": other}]}, mode="merge")
    else:
        graph.mutate(f"query q() {{ {text} }}")


@pytest.mark.parametrize("seed", [1, 2])
def test_the_same_as_one_by_one(graph: og.Graph, seed: int) -> None:
    """Folds, deletions, rows that come back, two types in one commit, pages that end anywhere."""
    chance = np.random.default_rng(seed)
    cursor = graph.changes.poll(start="now").cursor
    start = len(graph.commits.list())
    for _ in range(24):
        random_step(graph, chance)
    count = len(graph.commits.list()) - start
    expected = one_by_one(graph, count)
    assert polled(graph, cursor, 1_000) == expected
    assert polled(graph, cursor, 7) == expected


def test_what_is_not_small_or_changes_the_schema_is_read_alone(graph: og.Graph) -> None:
    cursor = graph.changes.poll(start="now").cursor
    change(graph, 'update Person set { age: 7 } where name = "p1"')
    graph.load({"Person": [{"name": f"n{number}"} for number in range(40)]}, mode="overwrite")
    change(graph, 'insert City { name: "d" }')
    graph.schema.apply(SCHEMA.replace("node City { ", "node City { size: I32?  "))
    change(graph, 'update City set { size: 3 } where name = "d"')
    graph.branches.create("side")
    change(graph, 'insert City { name: "e" }', "side")
    change(graph, 'insert City { name: "f" }')
    graph.branches.merge("side")
    graph.optimize()
    change(graph, 'delete City where name = "e"')
    count = len(graph.commits.list()) - 2
    with tuned(feed_rows_max=30, feed_commits_max=4):
        assert polled(graph, cursor, 1_000) == one_by_one(graph, count)


def test_a_feed_reads_rows_once(graph: og.Graph) -> None:
    """Reading many commits takes far fewer calls for rows than there are commits."""
    cursor = graph.changes.poll(start="now").cursor
    for number in range(24):
        change(graph, f'update Person set {{ age: {100 + number} }} where name = "p{number % 3}"')
    with telemetry.counting() as counts:
        page = graph.changes.poll(cursor)
    assert len(page.events) == 24
    found = counts.snapshot()
    # A commit deletes rows, and what it deleted is in a file of its own.
    assert found["table.take"] == 1, found
    assert found["table.scan"] <= 24 + 6, found
    # What the handle has published itself is not read.
    assert "manifest.fragments_read" not in found, found
