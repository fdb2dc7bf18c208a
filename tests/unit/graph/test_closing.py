"""A closed handle is closed: whatever reads or writes storage says so."""

import io
import threading
from collections.abc import Callable
from functools import cached_property
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import Code, InvalidInput
from omnigraph.types import AccessChoice

SCHEMA = "node Person { name: String @key  about: String? }\nnode File { k: String @key  c: Blob? }"
ADD = 'query add() { insert Person { name: "Ada", about: "long" } }'
ALL = "query all() { match { $p: Person } return { $p.name as name } }"
ABOUT = "query all() { match { $p: Person } return { $p.about as about } }"


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = og.init(tmp_path / "g", SCHEMA)
    graph.mutate(ADD)
    return graph


def refused(action: Callable[[], object]) -> None:
    with pytest.raises(InvalidInput) as caught:
        action()
    assert caught.value.code is Code.CLOSED
    assert "omnigraph.open" in str(caught.value)


CALLS: dict[str, Callable[[og.Graph], object]] = {
    "query": lambda graph: graph.query(ALL),
    "query at": lambda graph: graph.query(ALL, at="01ARZ3NDEKTSV4RRFFQ69G5FAV"),
    "explain": lambda graph: graph.explain(ALL),
    "profile": lambda graph: graph.profile(ALL),
    "snapshot": lambda graph: graph.snapshot(),
    "version": lambda graph: graph.snapshot(version=1),
    "read_blob": lambda graph: graph.read_blob("File", "x", "c"),
    "mutate": lambda graph: graph.mutate(ADD),
    "transaction": lambda graph: graph.transaction(),
    "transact": lambda graph: graph.transact(lambda tx: tx.mutate(ADD)),
    "ensure_indices": lambda graph: graph.ensure_indices(),
    "load": lambda graph: graph.load({"Person": [{"name": "Bo"}]}),
    "export": lambda graph: graph.export(io.BytesIO()),
    "to_spark": lambda graph: graph.to_spark("Person"),
    "vertices": lambda graph: graph.vertices("Person"),
    "edges": lambda graph: graph.edges("Knows"),
    "diff": lambda graph: graph.diff("main", "main"),
    "changes of a commit": lambda graph: graph.commits.changes("01ARZ3NDEKTSV4RRFFQ69G5FAV"),
    "poll": lambda graph: graph.changes.poll(),
    "pagerank": lambda graph: graph.algorithms.pagerank("Person"),
    "merge": lambda graph: graph.branches.merge("dev"),
    "revert": lambda graph: graph.branches.revert("01ARZ3NDEKTSV4RRFFQ69G5FAV"),
    "stream_sink": lambda graph: graph.stream_sink("Person", stream="s")([{"name": "Bo"}], 1),
    "optimize": lambda graph: graph.optimize(),
    "embed": lambda graph: graph.embed(),
    "refresh": lambda graph: graph.refresh(),
    "recover": lambda graph: graph.recover(),
    "create": lambda graph: graph.branches.create("dev"),
    "list": lambda graph: graph.branches.list(),
    "show": lambda graph: graph.branches.show("main"),
    "delete": lambda graph: graph.branches.delete("dev"),
    "branch": lambda graph: graph.branch("main"),
    "blame": lambda graph: graph.blame("Person", "Ada"),
    "tag": lambda graph: graph.tags.create("v1"),
    "tags": lambda graph: graph.tags.list(),
    "one tag": lambda graph: graph.tags.get("v1"),
    "untag": lambda graph: graph.tags.delete("v1"),
    "reset": lambda graph: graph.branches.reset("main", "main~1"),
    "protect": lambda graph: graph.branches.protect("main"),
    "commits": lambda graph: graph.commits.list(),
    "commit": lambda graph: graph.commits.show("01ARZ3NDEKTSV4RRFFQ69G5FAV"),
    "blob_size": lambda graph: graph.blob_size("Person", "Ada", "photo"),
    "cleanup": lambda graph: graph.cleanup(keep=1),
    "verify": lambda graph: graph.verify(),
    "repair": lambda graph: graph.repair(),
    "copy_to": lambda graph: graph.copy_to(f"{graph.uri}-copy"),
    "enter": lambda graph: graph.__enter__(),
}


@pytest.mark.parametrize("mode", ["r", "rw"])
@pytest.mark.parametrize("call", CALLS)
def test_a_closed_graph_refuses(graph: og.Graph, call: str, mode: str) -> None:
    closed = og.open(graph.uri, mode)
    closed.query(ALL)
    closed.close()
    closed.close()
    refused(lambda: CALLS[call](closed))


def test_every_method_is_refused(graph: og.Graph) -> None:
    """What is added to the facade is added to the list above."""
    public = {name for name in dir(og.Graph) if not name.startswith("_")}
    parts = {name for name, kept in vars(og.Graph).items() if isinstance(kept, cached_property)}
    quiet = {"acting_as", "close", "uri", "mode"} | parts
    assert public - quiet <= set(CALLS)


def test_what_needs_no_storage_goes_on(graph: og.Graph) -> None:
    now = graph.snapshot()
    graph.close()
    assert graph.mode == "rw"
    assert graph.uri in repr(graph)
    assert now.counts["node:Person"] == 1
    assert now.commit in repr(now)


@pytest.mark.parametrize("access", ["dense", "direct"])
def test_a_snapshot_of_a_closed_graph_refuses(graph: og.Graph, access: AccessChoice) -> None:
    now = graph.snapshot()
    now.query(ALL, access=access)
    graph.close()
    refused(lambda: now.query(ALL, access=access))
    refused(lambda: now.profile(ALL, access=access))
    refused(lambda: now.explain(ALL))


def test_results_that_were_read_stay_and_others_are_refused(graph: og.Graph) -> None:
    read = graph.query(ALL)
    assert read.to_pylist() == [{"name": "Ada"}]
    unread = graph.query(ABOUT)
    graph.close()
    assert read.to_pylist() == [{"name": "Ada"}]
    refused(unread.to_pylist)


def test_a_walk_through_history_ends_with_the_handle(graph: og.Graph) -> None:
    graph.mutate(ADD)
    walk = graph.commits.walk()
    next(walk)
    graph.close()
    refused(lambda: next(walk))


def test_other_handles_of_the_graph_go_on(graph: og.Graph) -> None:
    other = og.open(graph.uri)
    graph.close()
    other.mutate(ADD)
    assert other.query(ALL).to_pylist() == [{"name": "Ada"}]


def test_closing_beside_readers_and_writers_is_clean(graph: og.Graph) -> None:
    """Whoever is at work finishes, or is told; nothing is left half-done."""
    begun = threading.Barrier(4)
    seen: list[og.errors.GraphError] = []

    def work(action: Callable[[], object]) -> None:
        begun.wait()
        try:
            while True:
                action()
        except og.errors.GraphError as error:
            seen.append(error)

    actions = [lambda: graph.query(ALL).to_pylist(), lambda: graph.mutate(ADD), graph.commits.list]
    threads = [threading.Thread(target=work, args=(action,)) for action in actions]
    for thread in threads:
        thread.start()
    begun.wait()
    graph.close()
    for thread in threads:
        thread.join()
    assert [error.code for error in seen] == [Code.CLOSED] * 3
    with og.open(graph.uri) as again:
        assert again.query(ALL).to_pylist() == [{"name": "Ada"}]
    assert not list((Path(graph.uri) / "__recovery").glob("*.json"))
