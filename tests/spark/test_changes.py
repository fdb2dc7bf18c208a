"""Changes on Spark: those between two states, and a stream that goes on from its checkpoint."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.dataplane.spark.session import HeldSession
from tests.spark.streams import patiently

SCHEMA = """
node Person { name: String @key  age: I32?  photo: Blob? }
edge Knows: Person -> Person { since: Date?  @key(src, dst) }
"""
Row = tuple[str, str, int | None]


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[og.Graph]:
    with og.init(tmp_path / "g.omni", SCHEMA) as graph:
        graph.load({"Person": [{"name": "Ada", "age": 36}, {"name": "Bo", "age": 7}]})
        yield graph


def change(graph: og.Graph, text: str, branch: str = "main") -> str:
    commit = graph.mutate(f"query q() {{ {text} }}", branch=branch).commit
    assert commit is not None
    return commit.id


def history(graph: og.Graph) -> None:
    change(graph, 'update Person set { age: 37 } where name = "Ada"')
    change(graph, 'insert Knows { from: "Ada", to: "Bo", since: date("2024-01-01") }')
    graph.optimize()
    change(graph, 'update Person set { photo: "base64:aGVsbG8=" } where name = "Bo"')
    change(graph, 'delete Person where name = "Ada"')


def changes(local: HeldSession, graph: og.Graph, type_name: str = "Person", **options: str) -> Any:
    reader = local.session.read.format("omnigraph").options(path=graph.uri, type=type_name)
    return reader.options(**options).load()


EXPECTED = [
    ("insert", "Ada", 36),
    ("insert", "Bo", 7),
    ("update_preimage", "Ada", 36),
    ("update_postimage", "Ada", 37),
    ("update_preimage", "Bo", 7),
    ("update_postimage", "Bo", 7),
    ("delete", "Ada", 37),
]


def rows(frame: Any) -> list[Row]:
    """The changes in the order of their commits; within one, as they came."""
    found = frame.select("_change_type", "name", "age", "_commit_id").collect()
    found = sorted(found, key=lambda row: row["_commit_id"])
    return [(row["_change_type"], row["name"], row["age"]) for row in found]


def test_the_changes_between_two_states(graph: og.Graph, local: HeldSession) -> None:
    history(graph)
    frame = changes(local, graph, changesFrom="beginning")
    assert frame.columns == ["id", "age", "name", "_change_type", "_commit_id", "_commit_time"]
    assert rows(frame) == EXPECTED
    commits = {commit.id: commit for commit in graph.commits.list()}
    for row in frame.select("_commit_id", "_commit_time").distinct().collect():
        assert commits[row["_commit_id"]].created_at.timestamp() == row["_commit_time"].timestamp()
    first, last = graph.commits.list()[-2].id, graph.commits.list()[0].id
    assert rows(changes(local, graph, changesFrom=first)) == EXPECTED[2:]
    part = changes(local, graph, changesFrom=first, changesTo="main~1", columns="name,age")
    assert part.columns[:2] == ["name", "age"]
    assert rows(part) == EXPECTED[2:6]
    assert changes(local, graph, changesFrom=last).count() == 0
    edges = changes(local, graph, "Knows", changesFrom=first)
    found = sorted(edges.collect(), key=lambda row: row["_commit_id"])
    assert [(row["_change_type"], row["src"], str(row["since"])) for row in found] == [
        ("insert", "Ada", "2024-01-01"),
        ("delete", "Ada", "2024-01-01"),
    ]


def test_changes_go_on_across_a_schema_change(graph: og.Graph, local: HeldSession) -> None:
    change(graph, 'update Person set { age: 37 } where name = "Ada"')
    human = (
        'node Human @rename_from("Person") { name: String @key  age: I64?  rank: I32 @default(1)'
    )
    graph.schema.apply(f"{human}  photo: Blob? }}\nnode City {{ name: String @key }}")
    change(graph, 'insert Human { name: "Cy", age: 5000000000, rank: 2 }')
    change(graph, 'insert City { name: "Oslo" }')
    frame = changes(local, graph, "Human", changesFrom="beginning")
    assert rows(frame) == [*EXPECTED[:4], ("insert", "Cy", 5_000_000_000)]
    ranks = {row["name"]: row["rank"] for row in frame.collect()}
    assert ranks == {"Ada": 1, "Bo": 1, "Cy": 2}
    cities = changes(local, graph, "City", changesFrom="beginning").collect()
    assert [(row["_change_type"], row["name"]) for row in cities] == [("insert", "Oslo")]


def test_options_that_do_not_fit_are_refused(graph: og.Graph, local: HeldSession) -> None:
    graph.branches.create("draft")
    other = change(graph, 'insert Person { name: "Cy" }', "draft")
    for options, kind, message in (
        ({"changesFrom": "main", "at": "main"}, og.errors.InvalidInput, "between two states"),
        ({"changes": "now"}, og.errors.InvalidInput, "spark.readStream"),
        ({"changesFrom": "beginning", "columns": "photo"}, og.errors.InvalidInput, "is a blob"),
        ({"changesFrom": other}, og.errors.Gone, "is not in the history of 'main'"),
        ({"changesFrom": "nowhere"}, og.errors.NotFound, "there is no commit"),
    ):
        with pytest.raises(Exception, match=message) as caught:
            changes(local, graph, **options).count()
        assert isinstance(og.spark_error(caught.value), kind), options


class Stream:
    """A stream of changes into a list, by micro-batch."""

    def __init__(self, graph: og.Graph, session: Any, folder: Path, branch: str = "main") -> None:
        self.place = {"path": graph.uri, "type": "Person", "branch": branch}
        self.session = session
        self.checkpoint = folder / "checkpoint"
        self.batches: dict[int, list[Row]] = {}
        self.repeated: list[int] = []

    def run(self, start: str = "beginning", *, fails: bool = False) -> None:
        """Take what there is; a run that fails does so once the rows are out."""
        patiently(lambda: self._run(start, fails=fails))

    def _run(self, start: str, *, fails: bool) -> None:
        def take(frame: Any, number: int) -> None:
            found = rows(frame)
            if number in self.batches:
                assert found == self.batches[number], "a batch that is repeated is the same"
                self.repeated.append(number)
            self.batches[number] = found
            if fails:
                raise RuntimeError("the sink is gone")

        reader = self.session.readStream.format("omnigraph").options(**self.place)
        query = (
            reader.option("changes", start)
            .load()
            .writeStream.option("checkpointLocation", str(self.checkpoint))
            .trigger(availableNow=True)
            .foreachBatch(take)
            .start()
        )
        try:
            query.awaitTermination()
        finally:
            query.stop()

    @property
    def seen(self) -> list[Row]:
        return [row for _, found in sorted(self.batches.items()) for row in found]


@pytest.mark.deep
def test_a_stream_has_each_change_once(graph: og.Graph, local: HeldSession, tmp_path: Path) -> None:
    stream = Stream(graph, local.session, tmp_path)
    stream.run()
    assert stream.seen == EXPECTED[:2]
    history(graph)
    with pytest.raises(Exception, match="the sink is gone"):
        stream.run(fails=True)
    change(graph, 'insert Person { name: "Cy" }')
    stream.run()
    assert stream.repeated, "the batch whose sink failed came again"
    stream.run()
    assert Counter(stream.seen) == Counter([*EXPECTED, ("insert", "Cy", None)])
    stream.run()
    assert len(stream.seen) == len(EXPECTED) + 1
