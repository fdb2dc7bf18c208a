"""Merges at once with writes to both sides, other merges, and a deletion of the source."""

import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.errors import Code, GraphError
from omnigraph.store.root import Root
from tests.conformance.conftest import fresh_root, s3_options
from tests.conformance.racing import in_processes, in_threads

__all__ = ["s3_options"]

SCHEMA = """
node Person { name: String @key  hits: I64? }
node Event { by: String }
edge Knows: Person -> Person { by: String }
"""
# An event and a friendship have no key: merged twice, they would be there twice.
ADD = """
query q($n: String) {
  insert Person { name: $n }
  insert Event { by: $n }
  insert Knows { from: $n, to: "root", by: $n }
}
"""
NAMES = "query q() { match { $p: Person } return { $p.name as by } }"
EVENTS = "query q() { match { $e: Event } return { $e.by as by } }"
KNOWS = "query q() { match { $a: Person  $a $k: knows $b } return { $k.by as by } }"
LOST_RACES = {
    Code.EXPECTED_VERSION_MISMATCH,
    Code.HEAD_CONTENTION,
    Code.WRITER_ACTIVE,
    Code.BUSY,
    Code.BRANCH_IN_USE,
}
SOURCE, OTHER, DOOMED = "source", "other", "doomed"
TRIES_MAX = 3_000


def persistently(act: Callable[[], object]) -> str | None:
    """Do something that others get in the way of; the code of what ends it, if something does."""
    for _ in range(TRIES_MAX):
        try:
            act()
        except GraphError as error:
            if error.code not in LOST_RACES:
                return str(error.code)
        else:
            return None
    raise AssertionError("no progress")


def write(graph: og.Graph, branch: str, label: str, rounds: int) -> list[str]:
    done = []
    for number in range(rounds):
        name = f"{label}-{number}"
        key = f"key-{name}"
        ended = persistently(
            partial(graph.mutate, ADD, {"n": name}, branch=branch, idempotency_key=key)
        )
        assert ended is None, ended
        done.append(name)
    return done


def merge(graph: og.Graph, source: str, rounds: int) -> list[str]:
    for _ in range(rounds):
        assert persistently(lambda: graph.branches.merge(source)) is None
    return []


def merge_doomed(graph: og.Graph, rounds: int) -> list[str]:
    """Merge a branch that somebody deletes; how that ended."""
    ends = (persistently(lambda: graph.branches.merge(DOOMED)) for _ in range(rounds))
    return [each or "merged" for each in ends]


def delete_doomed(graph: og.Graph) -> list[str]:
    return [persistently(lambda: graph.branches.delete(DOOMED)) or "deleted"]


ROLES: list[Callable[[og.Graph, int], list[str]]] = [
    lambda graph, rounds: write(graph, SOURCE, "s", rounds),
    lambda graph, rounds: merge(graph, SOURCE, rounds),
    lambda graph, rounds: write(graph, "main", "m", rounds) + delete_doomed(graph),
    lambda graph, rounds: merge_doomed(graph, 2) + merge(graph, OTHER, rounds),
    lambda graph, rounds: merge(graph, SOURCE, rounds) + write(graph, OTHER, "o", rounds),
]


def contend(starter: Any, racer: int, root: Root, rounds: int) -> list[str]:
    with og.open(root.uri, storage_options=dict(root.storage_options)) as graph:
        starter.wait()
        return ROLES[racer](graph, rounds)


def start(root: Root) -> None:
    with og.init(root.uri, schema=SCHEMA, storage_options=dict(root.storage_options)) as graph:
        graph.mutate('query q() { insert Person { name: "root" } }')
        for branch in (SOURCE, OTHER, DOOMED):
            graph.branches.create(branch)
        write(graph, OTHER, "other", 1)
        write(graph, DOOMED, "doomed", 2)


def names(graph: og.Graph, text: str, branch: str) -> Counter[str]:
    return Counter(row["by"] for row in graph.query(text, branch=branch))


def judge(root: Root, outcomes: list[list[str]]) -> None:
    """Nothing that was acknowledged is lost, and everything was merged once."""
    with og.open(root.uri, storage_options=dict(root.storage_options)) as graph:
        ends = {each for mine in outcomes for each in mine if "-" not in each}
        assert ends <= {"merged", "deleted", Code.NOT_FOUND, Code.BRANCH_REPLACED, Code.GONE}, ends
        assert "deleted" in ends
        assert DOOMED not in graph.branches.list()
        assert {name for name in names(graph, NAMES, "main") if name.startswith("doomed")} == (
            {"doomed-0", "doomed-1"} if "merged" in ends else set()
        )
        written = {each for mine in outcomes for each in mine if "-" in each}
        for branch, label in ((SOURCE, "s-"), (OTHER, "o-"), ("main", "m-")):
            mine = {name for name in written if name.startswith(label)}
            assert mine <= set(names(graph, NAMES, branch))
        merge(graph, SOURCE, 1)
        merge(graph, OTHER, 1)
        known = names(graph, NAMES, "main")
        assert set(known) >= written | {"root", "other-0"}
        for text in (NAMES, EVENTS, KNOWS):
            found = names(graph, text, "main")
            assert set(found.values()) == {1}, [each for each in found if found[each] > 1]
            assert set(found) | {"root"} == set(known)
        check_lineage(graph)
        assert graph.recover().is_settled


def check_lineage(graph: og.Graph) -> None:
    """Each merge has two parents, no state was merged twice, and each write is there once."""
    history = list(graph.commits.list())
    assert len({each.id for each in history}) == len(history)
    for each in history:
        if each.kind == "branch_merge":
            assert each.merged_parent_id is not None
    heads = [each.merged_parent_id for each in history if each.merged_parent_id is not None]
    assert len(set(heads)) == len(heads), "one state of a branch was merged twice"
    keys = [each.idempotency_key for each in history if each.idempotency_key is not None]
    assert len(set(keys)) == len(keys)


def test_threads_merge_write_and_delete(tmp_path: Path) -> None:
    root = Root.parse(str(tmp_path / "graph"))
    start(root)
    barrier = threading.Barrier(4)
    judge(root, in_threads(lambda racer: contend(barrier, racer, root, 2), 4))


@pytest.mark.deep
@pytest.mark.parametrize("place", ["local", "s3"])
def test_processes_merge_write_and_delete(
    request: pytest.FixtureRequest, tmp_path: Path, place: str
) -> None:
    root = fresh_root(place, request, tmp_path)
    start(root)
    judge(root, in_processes(contend, len(ROLES), root, 10))
