"""`graph.branches.reset`: an older state comes back as a new commit."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import Code, Forbidden, InvalidInput, NotFound, PreconditionFailed

SCHEMA = """
node Person { name: String @key  age: I32? }
edge Knows: Person -> Person { @key(src, dst) }
"""
START = """
query start() {
  insert Person { name: "Ada", age: 36 }
  insert Person { name: "Bo" }
  insert Knows { from: "Ada", to: "Bo" }
}
"""


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[og.Graph]:
    with og.init(str(tmp_path / "g.omni"), schema=SCHEMA, actor="ada") as graph:
        graph.mutate(START)
        graph.branches.create("dev")
        yield graph


def change(graph: og.Graph, text: str, branch: str = "dev") -> str:
    commit = graph.mutate(f"query q() {{ {text} }}", branch=branch).commit
    assert commit is not None
    return commit.id


def test_the_state_comes_back_and_history_stays(graph: og.Graph) -> None:
    good = graph.snapshot("dev")
    change(graph, 'delete Person where name = "Bo"')
    change(graph, 'update Person set { age: 1 } where name = "Ada"')
    former = change(graph, 'insert Person { name: "Cy" }')
    done = graph.branches.reset("dev", to=good.commit, message="wrong turn", if_head=former)
    assert done.commit is not None
    assert (done.branch, done.to, done.former_head) == ("dev", good.commit, former)
    assert (done.commit.kind, done.commit.message, done.commit.actor) == (
        "reset",
        "wrong turn",
        "ada",
    )
    assert done.commit.parent_id == former
    assert done.counts == {
        "node:Person": og.ChangeCounts(inserted=1, updated=1, deleted=1),
        "edge:Knows": og.ChangeCounts(inserted=1),
    }
    assert graph.diff(good, "dev").is_empty
    assert len(graph.commits.list("dev")) == 6
    again = graph.branches.reset("dev", to=former)
    assert graph.diff(former, "dev").is_empty
    assert again.former_head == done.commit.id


def test_what_stands_there_already_needs_no_commit(graph: og.Graph) -> None:
    done = graph.branches.reset("dev", to="main")
    assert (done.commit, dict(done.counts)) == (None, {})
    change(graph, 'insert Person { name: "Cy" }')
    tried = graph.branches.reset("dev", to="dev~1", dry_run=True)
    assert (tried.commit, tried.counts["node:Person"].deleted) == (None, 1)
    assert len(graph.snapshot("dev").counts) == 2


def test_it_depends_on_the_head(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = change(graph, 'insert Person { name: "Cy" }')
    change(graph, 'insert Person { name: "Di" }')
    with pytest.raises(PreconditionFailed, match="has moved on") as caught:
        graph.branches.reset("dev", to="main", if_head=seen)
    assert caught.value.details["expected"] == seen
    commit = graph._repo.commit

    def overtaken(prepared: object) -> object:
        monkeypatch.undo()
        change(graph, 'insert Person { name: "Ed" }')
        return commit(prepared)  # type: ignore[arg-type]

    monkeypatch.setattr(graph._repo, "commit", overtaken)
    with pytest.raises((PreconditionFailed, og.errors.Conflict)):
        graph.branches.reset("dev", to="main")
    assert graph.snapshot("dev").counts["node:Person"] == 5


def test_protected_branches_are_refused(graph: og.Graph) -> None:
    change(graph, 'insert Person { name: "Cy" }', "main")
    with pytest.raises(Forbidden, match="unprotect") as caught:
        graph.branches.reset("main", to="main~1")
    assert caught.value.code is Code.BRANCH_PROTECTED
    graph.branches.unprotect("main")
    assert graph.branches.reset("main", to="main~1").commit is not None
    assert graph.snapshot().counts["node:Person"] == 2


def test_what_is_not_there_is_refused(graph: og.Graph) -> None:
    with pytest.raises(NotFound):
        graph.branches.reset("nowhere", to="main")
    with pytest.raises(NotFound):
        graph.branches.reset("dev", to="v1")
    with pytest.raises(InvalidInput):
        graph.branches.reset("dev", to="main", if_head="x")
