"""Every write with a key: repeated, it returns the first result; the key is for nothing else."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.core.failpoints import Fp
from omnigraph.errors import Code, Conflict, GraphError, NotFound
from omnigraph.runtime import failpoints
from omnigraph.runtime.failpoints import LostReply, Refuse

SCHEMA = "node Person { name: String @key }"
KEY = "the same key"

Call = Callable[..., Any]


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[og.Graph]:
    with og.init(tmp_path / "g.omni", schema=SCHEMA, actor="ada") as graph:
        for name in ("Ada", "Bo"):
            add(graph, name)
        graph.branches.create("draft")
        add(graph, "Cy", "draft")
        graph.tags.create("old")
        yield graph


def add(graph: og.Graph, name: str, branch: str = "main") -> None:
    graph.mutate(f'query q() {{ insert Person {{ name: "{name}" }} }}', branch=branch)


def state(graph: og.Graph) -> object:
    """All that a second call could have changed."""
    branches = [graph.branches.show(name) for name in graph.branches.list()]
    history = {each.name: [c.id for c in graph.commits.list(each.name)] for each in branches}
    return branches, graph.tags.list(), history


# A call, and the same with other arguments.
CALLS: dict[str, tuple[Call, Call]] = {
    "mutate": (
        lambda graph, **key: graph.mutate('query q() { insert Person { name: "X" } }', **key),
        lambda graph, **key: graph.mutate('query q() { insert Person { name: "Y" } }', **key),
    ),
    "merge": (
        lambda graph, **key: graph.branches.merge("draft", **key),
        lambda graph, **key: graph.branches.merge("draft", granularity="row", **key),
    ),
    "merge and delete": (
        lambda graph, **key: graph.branches.merge("draft", delete_branch=True, **key),
        lambda graph, **key: graph.branches.merge("other", **key),
    ),
    "revert": (
        lambda graph, **key: graph.branches.revert("main", **key),
        lambda graph, **key: graph.branches.revert("main~1", **key),
    ),
    "reset": (
        lambda graph, **key: graph.branches.reset("draft", "draft~1", **key),
        lambda graph, **key: graph.branches.reset("draft", "draft~2", **key),
    ),
    "create": (
        lambda graph, **key: graph.branches.create("new", **key),
        lambda graph, **key: graph.branches.create("newer", **key),
    ),
    "create at": (
        lambda graph, **key: graph.branches.create("new", at="main~1", **key),
        lambda graph, **key: graph.branches.create("new", **key),
    ),
    "delete": (
        lambda graph, **key: graph.branches.delete("draft", **key),
        lambda graph, **key: graph.branches.delete("main", **key),
    ),
    "rename": (
        lambda graph, **key: graph.branches.rename("draft", "plan", **key),
        lambda graph, **key: graph.branches.rename("draft", "sketch", **key),
    ),
    "protect": (
        lambda graph, **key: graph.branches.protect("draft", **key),
        lambda graph, **key: graph.branches.unprotect("draft", **key),
    ),
    "tag": (
        lambda graph, **key: graph.tags.create("v1", **key),
        lambda graph, **key: graph.tags.create("v1", "main~1", **key),
    ),
    "delete a tag": (
        lambda graph, **key: graph.tags.delete("old", **key),
        lambda graph, **key: graph.tags.delete("older", **key),
    ),
    "schema": (
        lambda graph, **key: graph.schema.apply(SCHEMA + "node City { name: String @key }", **key),
        lambda graph, **key: graph.schema.apply(SCHEMA + "node Town { name: String @key }", **key),
    ),
}


def plain(result: Any) -> Any:
    """A result without what says that it is a second one."""
    if isinstance(result, og.SchemaChange):
        result = replace(result, migration=None)
    return replace(result, replayed=False) if hasattr(result, "replayed") else result


@pytest.mark.parametrize("name", CALLS)
def test_a_repeated_call_returns_the_first_result(graph: og.Graph, name: str) -> None:
    call, other = CALLS[name]
    first = call(graph, idempotency_key=KEY)
    before = state(graph)
    again = call(graph, idempotency_key=KEY)
    assert plain(again) == plain(first)
    assert getattr(again, "replayed", True)
    assert state(graph) == before
    with pytest.raises(Conflict) as refused:
        other(graph, idempotency_key=KEY)
    assert refused.value.code is Code.IDEMPOTENCY_KEY_REUSED
    assert state(graph) == before


@pytest.mark.parametrize("name", CALLS)
def test_a_key_of_another_operation_is_refused(graph: og.Graph, name: str) -> None:
    for branch in ("main", "draft"):
        graph.mutate(
            'query q() { insert Person { name: "First" } }', branch=branch, idempotency_key=KEY
        )
    before = state(graph)
    with pytest.raises(Conflict) as refused:
        CALLS[name][0](graph, idempotency_key=KEY)
    assert refused.value.code is Code.IDEMPOTENCY_KEY_REUSED
    assert state(graph) == before


@pytest.mark.parametrize("fault", [Refuse(), LostReply()], ids=["refused", "lost"])
@pytest.mark.parametrize("point", [Fp.FORK, Fp.PUBLISH])
@pytest.mark.parametrize("name", ["create", "tag", "rename"])
def test_a_call_that_was_cut_off_is_finished_by_the_next(
    graph: og.Graph, name: str, point: Fp, fault: Refuse | LostReply
) -> None:
    call, _ = CALLS[name]
    with failpoints.armed({point: fault}), suppress(GraphError):
        call(graph, idempotency_key=KEY)
    first = call(graph, idempotency_key=KEY)
    before = state(graph)
    assert call(graph, idempotency_key=KEY) == first
    assert state(graph) == before


@pytest.mark.parametrize("nth", [1, 2])
def test_a_deletion_that_was_cut_off_is_finished_by_the_next(graph: og.Graph, nth: int) -> None:
    with failpoints.armed({Fp.DROP: LostReply()}, nth=nth):
        graph.branches.delete("draft", idempotency_key=KEY)
    graph.branches.delete("draft", idempotency_key=KEY)
    assert graph.branches.list() == ["main"]


def test_a_deletion_never_hits_a_branch_that_was_made_since(graph: og.Graph) -> None:
    graph.branches.delete("draft", idempotency_key=KEY)
    made = graph.branches.create("draft")
    graph.branches.delete("draft", idempotency_key=KEY)
    assert graph.branches.show("draft") == made


def test_a_deletion_that_was_refused_can_be_repeated(graph: og.Graph) -> None:
    graph.branches.protect("draft")
    with pytest.raises(og.errors.Forbidden):
        graph.branches.delete("draft", idempotency_key=KEY)
    graph.branches.unprotect("draft")
    graph.branches.delete("draft", idempotency_key=KEY)
    assert graph.branches.list() == ["main"]


def test_a_branch_that_was_renamed_before_its_deletion_is_not_found(graph: og.Graph) -> None:
    graph.branches.protect("draft")
    with pytest.raises(og.errors.Forbidden):
        graph.branches.delete("draft", idempotency_key=KEY)
    graph.branches.unprotect("draft")
    graph.branches.rename("draft", "plan")
    with pytest.raises(NotFound):
        graph.branches.delete("draft", idempotency_key=KEY)
    assert graph.branches.list() == ["main", "plan"]


def test_a_branch_that_was_made_and_deleted_is_not_made_again(graph: og.Graph) -> None:
    made = graph.branches.create("new", idempotency_key=KEY)
    graph.branches.delete("new")
    assert graph.branches.create("new", idempotency_key=KEY) == made
    assert "new" not in graph.branches.list()


def test_a_branch_that_was_made_and_renamed_is_not_made_again(graph: og.Graph) -> None:
    made = graph.branches.create("new", idempotency_key=KEY)
    graph.branches.rename("new", "renamed")
    assert graph.branches.create("new", idempotency_key=KEY) == made
    assert graph.branches.list() == ["draft", "main", "renamed"]


def test_a_branch_that_another_made_meanwhile_is_not_ours(graph: og.Graph) -> None:
    with failpoints.armed({Fp.FORK: Refuse()}), pytest.raises(GraphError):
        graph.branches.create("new", idempotency_key=KEY)
    graph.branches.create("new", "draft")
    with pytest.raises(Conflict) as refused:
        graph.branches.create("new", idempotency_key=KEY)
    assert refused.value.code is Code.BRANCH_EXISTS


def test_notes_of_keys_are_seen_by_nobody(graph: og.Graph) -> None:
    before = graph.commits.list()
    graph.branches.create("new", idempotency_key=KEY)
    graph.branches.delete("new", idempotency_key="another")
    assert graph.commits.list() == before
    assert [tag.name for tag in graph.tags.list()] == ["old"]
