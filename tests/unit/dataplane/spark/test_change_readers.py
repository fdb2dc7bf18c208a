"""The readers of changes, as Spark calls them, without a JVM."""

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict

import omnigraph as og
from omnigraph.dataplane.spark.datasource import DefaultSource

SCHEMA = """
node Person { name: String @key  age: I32?  big: U64?  v: Vector(2)?  photo: Blob? }
edge Knows: Person -> Person { @key(src, dst) }
"""


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[og.Graph]:
    with og.init(tmp_path / "g.omni", SCHEMA) as graph:
        graph.load({"Person": [{"name": "Ada", "age": 36, "v": [1, 2]}, {"name": "Bo", "age": 7}]})
        yield graph


def change(graph: og.Graph, text: str, branch: str = "main") -> None:
    graph.mutate(f"query q() {{ {text} }}", branch=branch)


def source(graph: og.Graph, **options: str) -> Any:
    given = {"path": graph.uri, "type": "Person", **options}
    return DefaultSource(CaseInsensitiveDict(given))


def rows(reader: Any, partitions: Any) -> list[tuple[str, str, int | None]]:
    """The rows of partitions; the reader travels to the task, as in Spark."""
    found = []
    for partition in partitions:
        task, piece = pickle.loads(pickle.dumps((reader, partition)))
        for batch in task.read(piece):
            found += batch.to_pylist()
    return [(row["_change_type"], row["name"], row["age"]) for row in found]


def read(graph: og.Graph, **options: str) -> list[tuple[str, str, int | None]]:
    made = source(graph, **options)
    reader = made.reader(made.schema())
    return rows(reader, reader.partitions())


def test_the_changes_between_two_states(graph: og.Graph) -> None:
    change(graph, 'update Person set { age: 37 } where name = "Ada"')
    change(graph, 'insert Knows { from: "Ada", to: "Bo" }')
    graph.optimize()
    change(graph, 'update Person set { photo: "base64:aGVsbG8=" } where name = "Bo"')
    change(graph, 'delete Person where name = "Ada"')
    expected = [
        ("insert", "Ada", 36),
        ("insert", "Bo", 7),
        ("update_preimage", "Ada", 36),
        ("update_postimage", "Ada", 37),
        ("update_preimage", "Bo", 7),
        ("update_postimage", "Bo", 7),
        ("delete", "Ada", 37),
    ]
    made = source(graph, changesFrom="beginning")
    names = made.schema().names
    assert names[-3:] == ["_change_type", "_commit_id", "_commit_time"]
    assert "photo" not in names
    assert read(graph, changesFrom="beginning") == expected
    assert read(graph, changesFrom="main~5", changesTo="main~1") == expected[2:6]
    assert read(graph, changesFrom="main") == []


def test_offsets_name_commits_and_repeat_the_same_rows(graph: og.Graph) -> None:
    made = source(graph, changes="beginning")
    stream = made.streamReader(made.schema())
    start, first = stream.initialOffset(), stream.latestOffset(None, None)
    assert all(isinstance(value, str) for value in (start | first).values())
    assert rows(stream, stream.partitions(start, first)) == [
        ("insert", "Ada", 36),
        ("insert", "Bo", 7),
    ]
    assert stream.partitions(first, first) == []
    change(graph, 'delete Person where name = "Bo"')
    second = stream.latestOffset(first, None)
    change(graph, 'insert Person { name: "Cy" }')
    again = source(graph, changes="beginning").streamReader(made.schema())
    for reader in (stream, again):
        assert rows(reader, reader.partitions(first, second)) == [("delete", "Bo", 7)]
    assert rows(again, again.partitions(second, again.latestOffset())) == [("insert", "Cy", None)]
    now = source(graph, changes="now").streamReader(made.schema())
    assert now.initialOffset() == now.latestOffset()


def test_offsets_of_a_branch_that_was_made_again_are_gone(graph: og.Graph) -> None:
    graph.branches.create("draft")
    made = source(graph, changes="beginning", branch="draft")
    before = made.streamReader(made.schema()).latestOffset()
    graph.branches.delete("draft")
    graph.branches.create("draft")
    stream = made.streamReader(made.schema())
    with pytest.raises(og.errors.Gone, match="deleted and made again"):
        stream.partitions(before, stream.latestOffset())
    lost = {**stream.latestOffset(), "commit": "01ARZ3NDEKTSV4RRFFQ69G5FAV"}
    with pytest.raises(og.errors.Gone, match="is not in the history"):
        stream.partitions(lost, stream.latestOffset())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"changesFrom": "main", "at": "main"}, "between two states"),
        ({"changes": "now"}, r"spark\.readStream"),
        ({"changesFrom": "beginning", "columns": "photo"}, "is a blob"),
        ({"changesFrom": "draft"}, "is not in the history of 'main'"),
        ({"changesFrom": "nowhere"}, "there is no commit"),
    ],
)
def test_options_that_do_not_fit(graph: og.Graph, options: dict[str, str], message: str) -> None:
    graph.branches.create("draft")
    change(graph, 'insert Person { name: "Cy" }', "draft")
    with pytest.raises(og.errors.GraphError, match=message):
        read(graph, **options)


def test_a_stream_needs_to_know_where_it_starts(graph: og.Graph) -> None:
    for options in ({}, {"changes": "yesterday"}):
        made = source(graph, **options)
        with pytest.raises(og.errors.InvalidInput, match="'beginning' or 'now'"):
            made.streamReader(made.schema())
