"""`graph.branch`: every call of a graph, on one branch."""

import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import Code, InvalidInput, NotFound
from omnigraph.graph.schema import Schema
from omnigraph.graph.versioning.changes import ChangeFeed
from omnigraph.graph.versioning.commits import Commits

SCHEMA = """
node Person { name: String @key  age: I32? }
edge Knows: Person -> Person { @key(src, dst) }
"""
ALL = "query all() { match { $p: Person } return { $p.name as name } order { name } }"
ADD = "query add($n: String) { insert Person { name: $n } }"


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[og.Graph]:
    with og.init(str(tmp_path / "g.omni"), schema=SCHEMA, actor="ada") as graph:
        graph.mutate(ADD, {"n": "Ada"})
        graph.branches.create("agent/42")
        yield graph


@pytest.mark.parametrize("part", [og.Graph, Commits, ChangeFeed, Schema])
def test_every_call_that_takes_a_branch_leaves_it_to_the_handle(part: type) -> None:
    """A default of `main` would send a call of the handle to another branch."""
    defaults = {
        name: inspect.signature(method).parameters["branch"].default
        for name, method in inspect.getmembers(part, inspect.isfunction)
        if not name.startswith("_") and "branch" in inspect.signature(method).parameters
    }
    assert defaults
    assert defaults == dict.fromkeys(defaults)
    assert issubclass(og.BranchHandle, og.Graph)


def test_reading_and_writing_stay_on_the_branch(graph: og.Graph, tmp_path: Path) -> None:
    agent = graph.branch("agent/42")
    assert (agent.name, agent.mode) == ("agent/42", "rw")
    done = agent.mutate(ADD, {"n": "Bo"}).commit
    assert done is not None
    assert (done.branch, done.actor) == ("agent/42", "ada")
    assert agent.load({"Person": [{"name": "Cy"}]}).commit.branch == "agent/42"
    assert [row["name"] for row in agent.query(ALL)] == ["Ada", "Bo", "Cy"]
    assert [row["name"] for row in agent.query(ALL, at="~1")] == ["Ada", "Bo"]
    assert [row["name"] for row in agent.query(ALL, branch="main")] == ["Ada"]
    assert [row["name"] for row in graph.query(ALL)] == ["Ada"]
    assert agent.export(tmp_path / "p.jsonl").rows["node:Person"] == 3
    assert agent.diff("main").counts["node:Person"].inserted == 2
    assert [commit.branch for commit in agent.commits.list(limit=2)] == ["agent/42"] * 2
    assert [event.change.id for event in agent.changes.poll().events][-1] == "Cy"
    assert len(list(agent.algorithms.pagerank("Person"))) == 3
    optimized = agent.optimize().commit
    assert optimized is not None
    assert optimized.branch == "agent/42"


def test_merge_revert_and_reset(graph: og.Graph) -> None:
    agent = graph.branch("agent/42")
    wrong = agent.mutate(ADD, {"n": "Bo"}).commit
    assert wrong is not None
    assert agent.revert(wrong.id).counts["node:Person"].deleted == 1
    assert agent.reset(wrong.id, message="it was right").counts["node:Person"].inserted == 1
    done = agent.merge(into="main", message="done")
    assert (done.source, done.into, done.outcome) == ("agent/42", "main", "fast_forward")
    assert graph.snapshot().counts["node:Person"] == 2


def test_it_is_closed_with_its_graph(graph: og.Graph) -> None:
    with graph.branch("agent/42") as agent:
        agent.mutate(ADD, {"n": "Bo"})
    assert agent.snapshot().counts["node:Person"] == 2
    graph.close()
    with pytest.raises(InvalidInput) as caught:
        agent.query(ALL)
    assert caught.value.code is Code.CLOSED


def test_a_branch_has_to_be_there(graph: og.Graph) -> None:
    with pytest.raises(NotFound):
        graph.branch("agent/43")
