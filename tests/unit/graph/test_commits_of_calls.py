"""The commit that a call makes: its message from the caller to the history, and its head reads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.core.failpoints import Fp
from omnigraph.core.manifest.manifest import Manifest
from omnigraph.runtime.failpoints import Refuse, armed

ADD = "query add($n: String) { insert Person { name: $n } }"
MESSAGE = "why it was done\n\nat length: é"


def newest(graph: og.Graph, branch: str = "main") -> og.Commit:
    return graph.commits.list(branch, limit=1)[0]


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = og.init(tmp_path / "g", "node Person { name: String @key  age: I32? @index }")
    graph.mutate(ADD, {"n": "Ada"})
    return graph


CALLS: dict[str, Callable[[og.Graph], object]] = {
    "mutate": lambda graph: graph.mutate(ADD, {"n": "Bo"}, message=MESSAGE),
    "load": lambda graph: graph.load({"Person": [{"name": "Bo"}]}, message=MESSAGE),
    "optimize": lambda graph: graph.optimize(message=MESSAGE),
}


def test_the_kind_of_a_commit_is_a_plain_text(graph: og.Graph) -> None:
    made = graph.mutate(ADD, {"n": "Bo"}).commit
    assert made is not None
    assert type(made.kind) is str
    assert made == newest(graph)


@pytest.mark.parametrize("call", CALLS)
def test_a_message_is_part_of_the_commit(graph: og.Graph, call: str) -> None:
    assert newest(graph).message is None
    CALLS[call](graph)
    assert newest(graph).message == MESSAGE
    with og.open(graph.uri, mode="r") as other:
        assert newest(other).message == MESSAGE


def test_a_load_that_creates_its_branch_has_a_message_too(graph: og.Graph) -> None:
    graph.load({"Person": [{"name": "Bo"}]}, branch="dev", create_from="main", message=MESSAGE)
    assert (newest(graph, "dev").message, newest(graph).message) == (MESSAGE, None)


def test_a_message_survives_that_others_finish_the_write(graph: og.Graph) -> None:
    with armed({Fp.PUBLISH: Refuse()}), pytest.raises(og.errors.RecoveryRequired):
        graph.mutate(ADD, {"n": "Bo"}, message=MESSAGE)
    with og.open(graph.uri) as other:
        assert newest(other).message == MESSAGE


@pytest.mark.parametrize("message", ["", " \n", "x" * 4_097, "a\0b", 7])
def test_what_is_no_message_is_refused(graph: og.Graph, message: Any) -> None:
    with pytest.raises(og.errors.InvalidInput):
        graph.mutate(ADD, {"n": "Bo"}, message=message)
    assert newest(graph).message is None


# One to pin the base; one when the intent is stored, because others may have published since; one
# to publish on top of what is there.
HEAD_READS = 3


@pytest.mark.parametrize("call", CALLS)
def test_the_head_is_read_as_often_as_the_protocol_needs(
    graph: og.Graph, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[str] = []
    snapshot = Manifest.snapshot

    def counted(self: Manifest, branch: Any) -> Any:
        reads.append(branch)
        return snapshot(self, branch)

    monkeypatch.setattr(Manifest, "snapshot", counted)
    CALLS[call](graph)
    assert reads == ["main"] * HEAD_READS
