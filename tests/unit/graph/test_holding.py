"""Feeds, exports and copies at work keep what they read from clean-ups, and nothing else."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict

import omnigraph as og
from omnigraph.core import tuning
from omnigraph.dataplane.spark.datasource import DefaultSource
from omnigraph.errors import Gone, GraphError
from omnigraph.exec.changes.cursor import decode
from omnigraph.runtime.failpoints import Refuse, armed
from omnigraph.store.io.storage_calls import StorageCall
from tests.graphs import clean

SCHEMA = "node Person { name: String @key }"
ALL = "query all() { match { $p: Person } return { $p.name as name } order { name } }"


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[og.Graph]:
    """Six commits: empty, then a, b, c, d, e, one after the other."""
    with og.init(tmp_path / "graph", SCHEMA) as graph:
        for name in "abcde":
            add(graph, name)
        yield graph


@pytest.fixture
def renewed_always() -> Iterator[None]:
    """A hold is written anew each time that it moves."""
    with tuning.tuned(hold_renewed_ns=-1):
        yield


def add(graph: og.Graph, name: str, branch: str = "main") -> None:
    graph.mutate(f'query q() {{ insert Person {{ name: "{name}" }} }}', branch=branch)


def names(graph: og.Graph, at: str | None = None, branch: str | None = None) -> list[str]:
    return [row["name"] for row in graph.query(ALL, at=at, branch=branch)]


def seen(page: og.ChangePage) -> list[str]:
    return [event.change.id for event in page.events]


def commits(graph: og.Graph, branch: str = "main") -> list[str]:
    return [str(commit.id) for commit in graph.commits.list(branch)]


def stored_states(graph: og.Graph, branch: str = "main") -> int:
    """How many commits of a branch can be asked for, by somebody who remembers nothing."""
    count = 0
    with og.open(graph.uri, "r") as reader:
        for commit in commits(graph, branch):
            with suppress(Gone):
                names(reader, at=commit)
                count += 1
    return count


@pytest.mark.usefixtures("renewed_always")
def test_a_feed_from_the_beginning_keeps_everything_that_it_has_not_read(graph: og.Graph) -> None:
    pages = graph.changes.follow(start="beginning", limit=2)
    found = []
    for _ in range(3):
        found += seen(next(pages))
        clean(graph._repo)
    assert found == ["a", "b", "c", "d", "e"]
    pages.close()  # type: ignore[attr-defined]
    clean(graph._repo)
    assert stored_states(graph) == 1


def test_a_feed_keeps_what_it_has_to_tell_before_its_first_page_is_asked_for(
    graph: og.Graph,
) -> None:
    pages = graph.changes.follow(start="beginning")
    clean(graph._repo)
    assert seen(next(pages)) == ["a", "b", "c", "d", "e"]
    other = graph.changes.follow(start="now")
    del pages, other
    clean(graph._repo)
    assert stored_states(graph) == 1


@pytest.mark.usefixtures("renewed_always")
def test_a_feed_in_the_middle_of_a_commit_keeps_what_it_is_told_against(graph: og.Graph) -> None:
    cursor = graph.changes.poll(start="now").cursor
    graph.load({"Person": [{"name": f"m{number}"} for number in range(5)]})
    pages = graph.changes.follow(cursor, limit=2)
    found = seen(next(pages))
    add(graph, "z")
    for _ in range(2):
        clean(graph._repo)
        found += seen(next(pages))
    assert found == ["m0", "m1", "m2", "m3", "m4", "z"]


@pytest.mark.usefixtures("renewed_always")
def test_a_feed_of_a_branch_may_begin_before_the_branch(graph: og.Graph) -> None:
    graph.branches.create("dev")
    for name in ("x", "y"):
        add(graph, name, "dev")
        add(graph, f"{name}{name}")
    now = decode(graph.changes.poll(start="now", branch="dev").cursor)
    before = replace(now, commit=commits(graph)[4]).encode()
    pages = graph.changes.follow(before, limit=1)
    found = []
    for _ in range(4):
        found += seen(next(pages))
        clean(graph._repo)
    assert found == ["d", "e", "x", "y"]


@pytest.mark.usefixtures("renewed_always")
def test_a_feed_keeps_its_branch_when_that_is_renamed(graph: og.Graph) -> None:
    graph.branches.create("dev")
    pages = graph.changes.follow(graph.changes.poll(start="now", branch="dev").cursor, limit=1)
    for name in ("x", "y", "z"):
        add(graph, name, "dev")
    found = seen(next(pages))
    graph.branches.rename("dev", "other")
    for _ in range(2):
        clean(graph._repo)
        found += seen(next(pages))
    assert found == ["x", "y", "z"]


# -- copies ----------------------------------------------------------------------------------------

Copy = Callable[[og.Graph, Callable[[og.Progress], None], Path], og.CopyResult]


def whole(graph: og.Graph, meanwhile: Callable[[og.Progress], None], to: Path) -> og.CopyResult:
    return graph.copy_to(to, progress=meanwhile)


def branch(graph: og.Graph, meanwhile: Callable[[og.Progress], None], to: Path) -> og.CopyResult:
    return graph.copy_to(to, branch="dev", progress=meanwhile)


def state(graph: og.Graph, meanwhile: Callable[[og.Progress], None], to: Path) -> og.CopyResult:
    return graph.copy_to(to, at="main~3", progress=meanwhile)


@pytest.mark.parametrize("copy", [whole, branch, state])
def test_a_copy_keeps_what_it_copies(graph: og.Graph, tmp_path: Path, copy: Copy) -> None:
    graph.branches.create("dev", at="main~2")
    for name in ("x", "y"):
        add(graph, name, "dev")
    graph.tags.create("v1", at="main~4")
    cleaned: list[object] = []

    def meanwhile(progress: og.Progress) -> None:
        if progress.stage == "copy" and not cleaned:
            cleaned.append(clean(graph._repo))

    copy(graph, meanwhile, tmp_path / "copy")
    assert cleaned
    with og.open(tmp_path / "copy") as found:
        assert found.verify("rows").is_sound
        if copy is state:
            assert names(found) == ["a", "b"]
        else:
            assert stored_states(found) == 6
            assert names(found, at="dev~1") == ["a", "b", "c", "x"]
    clean(graph._repo)
    # Main, its tag, and the base of the branch.
    assert stored_states(graph) == 3
    assert graph._repo.holds.all() == []


def test_a_handle_for_reading_holds_when_it_is_told_to(graph: og.Graph, tmp_path: Path) -> None:
    told = []

    def meanwhile(progress: og.Progress) -> None:
        told.append(len(graph._repo.holds.all()))

    with og.open(graph.uri, "r") as reader:
        reader.copy_to(tmp_path / "one", progress=meanwhile)
        reader.export(tmp_path / "out1", progress=meanwhile)
        assert set(told) == {0}
        told.clear()
        reader.copy_to(tmp_path / "two", progress=meanwhile, hold=True)
        reader.export(tmp_path / "out2", progress=meanwhile, hold=True)
        assert set(told) == {1}


def test_where_holds_cannot_be_stored_a_reader_goes_on_without(
    graph: og.Graph, tmp_path: Path
) -> None:
    refused = {StorageCall.OBJECT_PUT_NEW: Refuse()}
    with og.open(graph.uri, "r") as reader, armed(refused):
        reader.export(tmp_path / "out.ndjson", hold=True)
    with armed(refused), pytest.raises(GraphError):
        graph.export(tmp_path / "other.ndjson")
    assert graph._repo.holds.all() == []


# -- Spark -----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("renewed_always")
@pytest.mark.parametrize("start", ["beginning", "now"])
def test_a_stream_of_spark_keeps_what_it_has_not_read(graph: og.Graph, start: str) -> None:
    options = {"path": graph.uri, "type": "Person", "changes": start}
    source: Any = DefaultSource(CaseInsensitiveDict(options))
    stream = source.streamReader(source.schema())
    place, expected = stream.initialOffset(), 6 if start == "beginning" else 1
    clean(graph._repo)
    assert stored_states(graph) == expected
    for name in ("x", "y"):
        add(graph, name)
        clean(graph._repo)
    end = stream.latestOffset()
    pieces = stream.partitions(place, end)
    read = [
        row["name"] for each in pieces for batch in stream.read(each) for row in batch.to_pylist()
    ]
    assert read == [*("abcde" if start == "beginning" else ""), "x", "y"]
    stream.commit(end)
    add(graph, "z")
    clean(graph._repo)
    assert stored_states(graph) == 2
    stream.stop()
    clean(graph._repo)
    assert stored_states(graph) == 1


def test_a_stream_that_goes_on_after_a_clean_up_is_told(graph: og.Graph) -> None:
    options = {"path": graph.uri, "type": "Person", "changes": "beginning"}
    source: Any = DefaultSource(CaseInsensitiveDict(options))
    stream = source.streamReader(source.schema())
    place = stream.initialOffset()
    stream.stop()
    clean(graph._repo)
    again = source.streamReader(source.schema())
    with pytest.raises(Exception, match="clean-up"):
        again.partitions(place, again.latestOffset())
