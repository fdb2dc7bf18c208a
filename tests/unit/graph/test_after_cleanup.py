"""What a handle says about states that a clean-up has removed since it has read them."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.core import tuning
from omnigraph.graph.opening import graph_root
from omnigraph.store import tuning as store_tuning
from tests.graphs import AT_ONCE, reopen


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[og.Graph]:
    """A graph whose older states are gone, with a handle that has seen them."""
    with (
        tuning.tuned(store_time_ns=-1),
        store_tuning.tuned(trusted_head_ns=-1),
        og.init(str(tmp_path / "g.omni"), schema="node Note { title: String @key }") as graph,
    ):
        for number in range(6):
            graph.load({"Note": [{"title": f"n{number}"}]})
        with og.open(graph.uri) as reader:
            assert reader.snapshot(at="main~3").counts["node:Note"] == 3
            reopen(graph_root(graph.uri, None)).cleanup(AT_ONCE, lambda _: None)
            yield reader


@pytest.mark.parametrize(
    "read",
    [
        lambda graph: graph.diff("main~3", "main").counts,
        lambda graph: graph.blame("Note", "n0"),
        lambda graph: graph.commits.changes(graph.commits.list()[2].id).counts,
        lambda graph: graph.changes.poll(),
        lambda graph: graph.branches.create("older", at="main~3"),
        lambda graph: graph.branches.revert(graph.commits.list()[2].id),
    ],
    ids=["diff", "blame", "changes", "poll", "create", "revert"],
)
def test_a_state_that_a_clean_up_took_is_gone(
    graph: og.Graph, read: Callable[[og.Graph], Any]
) -> None:
    with pytest.raises(og.errors.Gone):
        read(graph)
    assert graph.branches.list() == ["main"]
    assert graph.snapshot().counts["node:Note"] == 6
