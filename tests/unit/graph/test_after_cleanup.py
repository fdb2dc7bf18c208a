"""What a handle says about states that a clean-up has removed since it has read them."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.core import tuning
from omnigraph.graph.opening import graph_root
from omnigraph.store import tuning as store_tuning
from tests.graphs import AT_ONCE, clean, reopen


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


def test_the_newest_state_is_read_though_a_clean_up_took_one_that_is_in_memory(
    tmp_path: Path,
) -> None:
    schema = """
    node Note { title: String @key  text: String  place: Vector(2)  rank: I64 }
    edge Cites: Note -> Note
    """
    queries = {
        "sum": "query q() { match { $n: Note } return { sum($n.rank) as found } }",
        "edges": "query q() { match { $n: Note  $n cites $m } return { count($m) as found } }",
        "words": 'query q() { match { $n: Note  search($n.text, "even") } '
        "return { count($n) as found } }",
        "nearest": "query q() { match { $n: Note } return { $n.rank as found } "
        "order { nearest($n.place, [7.0, 1.0]) } limit 1 }",
    }
    with (
        tuning.tuned(store_time_ns=-1),
        store_tuning.tuned(trusted_head_ns=-1),
        og.init(str(tmp_path / "g.omni"), schema=schema) as graph,
    ):

        def load(number: int) -> None:
            text, place = ("even", "odd")[number % 2], [float(number), 1.0]
            row = {"title": f"n{number}", "text": text, "place": place, "rank": number}
            edge = {"from": f"n{number}", "to": "n0"}
            graph.load({"Note": [row], "Cites": [edge]})

        def read() -> dict[str, object]:
            return {name: graph.query(text).to_pylist() for name, text in queries.items()}

        for number in range(4):
            load(number)
        graph.query(queries["sum"], access="dense")
        read()
        for number in range(4, 8):
            load(number)
        clean(graph._repo)
        assert read() == {
            "sum": [{"found": 28}],
            "edges": [{"found": 8}],
            "words": [{"found": 4}],
            "nearest": [{"found": 7}],
        }


def test_a_column_is_read_though_the_version_that_it_could_be_derived_from_went(
    tmp_path: Path,
) -> None:
    schema = "node Note { title: String @key  rank: I64?  size: I64? }"

    def total(graph: og.Graph, name: str) -> object:
        text = f"query q() {{ match {{ $n: Note }} return {{ sum($n.{name}) as found }} }}"
        return graph.query(text, access="dense").to_pylist()

    with (
        tuning.tuned(store_time_ns=-1),
        store_tuning.tuned(trusted_head_ns=-1),
        og.init(str(tmp_path / "g.omni"), schema=schema) as graph,
    ):
        graph._parts.views.saved_rows_min = 1
        for number in range(4):
            graph.load({"Note": [{"title": f"n{number}", "rank": number, "size": 10 * number}]})
            assert total(graph, "rank") == [{"found": sum(range(number + 1))}]
        clean(graph._repo)
        assert total(graph, "size") == [{"found": 60}]
