"""Every public call of a graph is authorized before it reads or writes anything."""

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.errors import Code, Forbidden
from omnigraph.graph.algorithms.calls import Algorithms
from omnigraph.graph.schema import Schema
from omnigraph.graph.versioning.branches import Branches
from omnigraph.graph.versioning.changes import ChangeFeed
from omnigraph.graph.versioning.commits import Commits
from omnigraph.graph.versioning.tags import Tags
from omnigraph.policy.authorization import AccessRequest, Permission

SCHEMA = """
node Person { name: String @key  age: I32?  photo: Blob? }
edge Knows: Person -> Person
"""
ADD = 'query add() { insert Person { name: "Cy" } }'
ALL = "query all() { match { $p: Person } return { $p.name as name } }"


class Gate:
    """A policy that keeps what it is asked, and refuses once it is shut."""

    def __init__(self) -> None:
        self.asked: list[AccessRequest] = []
        self.is_shut = False

    def authorise(self, request: AccessRequest) -> None:
        self.asked.append(request)
        if self.is_shut:
            raise Forbidden(Code.FORBIDDEN, "no")


Opened = tuple[og.Graph, Gate]


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    gate, place = Gate(), tmp_path_factory.mktemp("door") / "g.omni"
    with og.init(place, SCHEMA, actor="ada", policy=gate) as graph:
        graph.load({"Person": [{"name": "Ada", "photo": b"p"}, {"name": "Bo"}]})
        yield graph, gate


@pytest.fixture
def graph(opened: Opened) -> og.Graph:
    return opened[0]


@pytest.fixture
def gate(opened: Opened) -> Gate:
    opened[1].is_shut = False
    opened[1].asked.clear()
    return opened[1]


def entered(graph: og.Graph) -> og.Transaction:
    # A handle of its own: a thread has one transaction per branch and handle.
    return graph.acting_as("ada").transaction().__enter__()


# By class: how to reach an object of it, and arguments for each of its public methods.
CALLS: dict[type[Any], tuple[Callable[[og.Graph], Any], dict[str, tuple[Any, ...]]]] = {
    og.Graph: (
        lambda graph: graph,
        {
            "blame": ("Person", "Ada"),
            "blob_size": ("Person", "Ada", "photo"),
            "branch": ("main",),
            "cleanup": (),
            "copy_to": ("copy.omni",),
            "diff": ("main", "main"),
            "edges": ("Knows",),
            "embed": (),
            "ensure_indices": (),
            "explain": (ALL,),
            "export": ("out.jsonl",),
            "load": ({"Person": [{"name": "Di"}]},),
            "mutate": (ADD,),
            "optimize": (),
            "profile": (ALL,),
            "query": (ALL,),
            "read_blob": ("Person", "Ada", "photo"),
            "recover": (),
            "refresh": (),
            "repair": (),
            "snapshot": (),
            "stream_sink": ("Person",),
            "to_spark": ("Person",),
            "transact": (lambda tx: tx.query(ALL),),
            "transaction": (),
            "verify": (),
            "vertices": ("Person",),
        },
    ),
    og.BranchHandle: (
        lambda graph: graph.branch("main"),
        {"merge": ("other",), "revert": ("01ARZ3NDEKTSV4RRFFQ69G5FAV",), "reset": ("main~1",)},
    ),
    Branches: (
        lambda graph: graph.branches,
        {
            "create": ("other",),
            "delete": ("other",),
            "list": (),
            "merge": ("other",),
            "protect": ("main",),
            "rename": ("other", "another"),
            "reset": ("main", "main~1"),
            "revert": ("01ARZ3NDEKTSV4RRFFQ69G5FAV",),
            "show": ("main",),
            "unprotect": ("main",),
        },
    ),
    Tags: (
        lambda graph: graph.tags,
        {"create": ("v1",), "delete": ("v1",), "get": ("v1",), "list": ()},
    ),
    Commits: (
        lambda graph: graph.commits,
        {
            "changes": ("01ARZ3NDEKTSV4RRFFQ69G5FAV",),
            "list": (),
            "log": (),
            "show": ("01ARZ3NDEKTSV4RRFFQ69G5FAV",),
            "version": ("01ARZ3NDEKTSV4RRFFQ69G5FAV",),
            "walk": (),
        },
    ),
    ChangeFeed: (lambda graph: graph.changes, {"baseline": (), "follow": (), "poll": ()}),
    Schema: (
        lambda graph: graph.schema,
        {"apply": (SCHEMA,), "drift": (), "plan": (SCHEMA,), "show": ()},
    ),
    Algorithms: (
        lambda graph: graph.algorithms,
        {
            "connected_components": ("Person", "Knows"),
            "label_propagation": ("Person", "Knows"),
            "pagerank": ("Person", "Knows"),
            "shortest_paths": ("Person", "Knows"),
            "triangle_counts": ("Person", "Knows"),
        },
    ),
    og.Snapshot: (
        lambda graph: graph.snapshot(),
        {"explain": (ALL,), "profile": (ALL,), "query": (ALL,)},
    ),
    og.Transaction: (
        entered,
        {"load": ({"Person": [{"name": "Di"}]},), "mutate": (ADD,), "query": (ALL,)},
    ),
}
NAMED = {"stream_sink": {"stream": "people"}, "shortest_paths": {"sources": "Ada"}}
# They read and write nothing; a transaction has asked when it was opened.
FREE = {"acting_as", "close", "rollback"}


def own_methods(kind: type[Any]) -> set[str]:
    inherited = set(dir(og.Graph)) if kind is og.BranchHandle else set()
    return {
        name
        for name, value in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_") and name not in inherited | FREE
    }


def test_every_public_method_is_walked() -> None:
    for kind, (_, calls) in CALLS.items():
        own = own_methods(kind)
        if kind is og.BranchHandle:
            assert set(calls) == {"merge", "revert", "reset"}
            assert own <= set(calls)
        else:
            assert own == set(calls), kind


def test_every_object_that_a_graph_offers_is_walked(graph: og.Graph) -> None:
    names = [name for name in dir(graph) if not name.startswith("_")]
    offered = {type(getattr(graph, name)) for name in names}
    ours = {kind for kind in offered if kind.__module__.startswith("omnigraph.")}
    assert {Branches, Tags, Commits, ChangeFeed, Schema, Algorithms} <= ours
    assert {kind for kind in ours if own_methods(kind)} <= set(CALLS)


@pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, name) for kind, (_, calls) in CALLS.items() for name in calls],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_a_method_is_refused_at_the_door(
    graph: og.Graph, gate: Gate, tmp_path: Path, kind: type[Any], name: str
) -> None:
    reach, calls = CALLS[kind]
    before = graph.snapshot().commit
    subject = reach(graph)
    gate.is_shut = True
    # A feed is read when its pages are asked for.
    with pytest.raises(Forbidden, match="no"):
        next(iter(getattr(subject, name)(*calls[name], **NAMED.get(name, {}))))
    gate.is_shut = False
    assert graph.snapshot().commit == before
    assert not (tmp_path / "out.jsonl").exists()


def test_the_door_is_told_who_does_what_to_which_types(graph: og.Graph, gate: Gate) -> None:
    graph.query(ALL)
    assert gate.asked == [
        AccessRequest("ada", Permission.READ, "main"),
        AccessRequest("ada", Permission.READ, "main", frozenset({"node:Person"})),
    ]
    gate.asked.clear()
    graph.mutate(ADD, actor="bo")
    assert gate.asked == [
        AccessRequest("bo", Permission.CHANGE, "main"),
        AccessRequest("bo", Permission.CHANGE, "main", frozenset({"node:Person"})),
    ]
    gate.asked.clear()
    graph.load({"Person": [{"name": "Di"}]}, branch="draft", create_from="main")
    assert gate.asked == [
        AccessRequest("ada", Permission.CHANGE, "draft", source="main"),
        AccessRequest("ada", Permission.BRANCH_CREATE, "draft", source="main"),
        AccessRequest("ada", Permission.CHANGE, "draft", frozenset({"node:Person"})),
    ]
    gate.asked.clear()
    graph.branches.merge("draft", delete_branch=True)
    assert gate.asked == [
        AccessRequest("ada", Permission.BRANCH_MERGE, "main", source="draft"),
        AccessRequest("ada", Permission.BRANCH_DELETE, "draft"),
    ]


def test_a_revision_of_another_branch_is_asked_for_that_branch(graph: og.Graph, gate: Gate) -> None:
    graph.branches.create("secret")
    gate.asked.clear()
    graph.snapshot(at="secret")
    assert [request.branch for request in gate.asked] == ["main", "secret"]


def test_a_load_whose_types_are_refused_publishes_nothing(tmp_path: Path) -> None:
    class NoEdges:
        def authorise(self, request: AccessRequest) -> None:
            if request.types and "edge:Knows" in request.types:
                raise Forbidden(Code.FORBIDDEN, "no edges")

    lines = '{"type":"Person","data":{"name":"A"}}\n{"edge":"Knows","from":"A","to":"A"}\n'
    (tmp_path / "both.jsonl").write_text(lines)
    with og.init(tmp_path / "g.omni", SCHEMA, policy=NoEdges()) as graph:
        with pytest.raises(Forbidden, match="no edges"):
            graph.load(tmp_path / "both.jsonl")
        assert graph.snapshot().counts == {"edge:Knows": 0, "node:Person": 0}


def test_a_policy_is_something_that_authorises(tmp_path: Path) -> None:
    with pytest.raises(og.errors.InvalidInput, match="authorise"):
        og.init(tmp_path / "g.omni", SCHEMA, policy=object())  # type: ignore[arg-type]
