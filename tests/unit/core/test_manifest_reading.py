"""Reading the manifest: cost, compaction, stamps, time travel, many threads."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import lance
import pytest

from omnigraph.core import publish
from omnigraph.core.engine import Engine, OpenMode
from omnigraph.core.layout import MANIFEST
from omnigraph.core.records import FORMAT_VERSION, STAMP
from omnigraph.errors import Code, Conflict, Corrupt, Gone, NotFound
from omnigraph.runtime import telemetry
from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.root import Root
from omnigraph.store.tables import Pin
from omnigraph.types import MAIN, BranchName, CommitId
from tests.graphs import COMPANY, PERSON, audit, chain, companies, ids, make, people, reopen, write

DEV, CHILD = BranchName("dev"), BranchName("child")
THREADS = 8


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root.parse(str(tmp_path / "graph"))


@pytest.fixture
def graph(root: Root) -> Engine:
    return make(root)


def counted(engine: Engine, branch: BranchName = MAIN) -> dict[str, int]:
    with telemetry.counting() as counts:
        engine.snapshot(branch)
    return counts.snapshot()


# -- cost ------------------------------------------------------------------------------------------


def test_looking_again_reads_nothing(graph: Engine) -> None:
    graph.snapshot()
    assert counted(graph) == {"table.head": 1}


def test_looking_reads_only_what_is_new(graph: Engine, root: Root) -> None:
    other = reopen(root)
    for size in (1, 5):
        for number in range(size):
            write(other, {PERSON: people(f"{size}-{number}")})
        read = counted(graph)
        # One row each for the table's version and the commit, and one for the head.
        assert read["manifest.fragments_read"] == size
        assert read["manifest.rows_read"] == 2 * size + 1
        assert read["table.scan"] == 1
    assert counted(graph) == {"table.head": 1}


def test_the_manifest_stays_in_few_fragments(
    graph: Engine, root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publish, "FRAGMENTS_MAX", 5)
    reader = reopen(root)
    seen = []
    for number in range(25):
        write(graph, {PERSON: people(f"p{number}")})
        version = graph.tables.head(MANIFEST)
        table = graph.tables.open(Pin(MANIFEST, version))
        seen.append(len(table.fragment_ids()))
        assert reader.snapshot() == graph.snapshot()
    assert max(seen) <= 6
    assert len(chain(graph)) == len(chain(reader)) == 26
    assert [commit.id for commit in reopen(root).commits()] == chain(graph)[::-1]
    audit(graph)


def test_full_fragments_do_not_count_as_clutter(
    graph: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long the history is, compaction is not tried at every publish."""
    monkeypatch.setattr(publish, "FRAGMENTS_MAX", 4)
    monkeypatch.setattr(publish, "COMPACTED_ROWS", 8)
    tried = 0
    for number in range(40):
        with telemetry.counting() as counts:
            write(graph, {COMPANY: companies(f"c{number}")})
        tried += "table.compact" in counts.snapshot()
    assert 0 < tried <= 16
    audit(graph)


def test_time_travel_survives_compaction(graph: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publish, "FRAGMENTS_MAX", 3)
    done = [write(graph, {PERSON: people(f"p{number}")}) for number in range(12)]
    for number, published in enumerate(done):
        snapshot = graph.snapshot_at(published.commit.id)
        assert snapshot.head == published.commit.id
        assert snapshot.manifest_version == published.manifest_version
        assert graph.read(snapshot, PERSON).num_rows == number + 1


# -- time travel -----------------------------------------------------------------------------------


def test_the_past_by_commit_and_by_version(graph: Engine, root: Root) -> None:
    start = graph.snapshot()
    first = write(graph, {PERSON: people("a")})
    write(graph, {PERSON: people("b"), COMPANY: companies("x")})
    for engine in (graph, reopen(root, OpenMode.READ_ONLY)):
        then = engine.snapshot_at(first.commit.id)
        assert engine.snapshot_at_version(MAIN, first.manifest_version) == then
        assert engine.read(then, PERSON).column("id").to_pylist() == ["a"]
        assert engine.read(then, COMPANY).num_rows == 0
        assert engine.snapshot_at(start.head) == start
        assert engine.snapshot_at(engine.snapshot().head) == engine.snapshot()


def test_the_past_of_a_branch_reaches_into_what_it_was_made_from(graph: Engine) -> None:
    first = write(graph, {PERSON: people("a")})
    second = write(graph, {PERSON: people("b")})
    graph.create_branch(DEV)
    third = write(graph, {PERSON: people("c")}, branch=DEV)
    graph.create_branch(CHILD, source=DEV)
    fourth = write(graph, {PERSON: people("d")}, branch=CHILD)
    for hint in (MAIN, DEV, CHILD):
        for expected, published in enumerate((first, second, third, fourth), start=1):
            snapshot = graph.snapshot_at(published.commit.id, hint)
            assert snapshot.head == published.commit.id
            assert graph.read(snapshot, PERSON).num_rows == expected
    for expected, version in ((1, first.manifest_version), (2, second.manifest_version)):
        snapshot = graph.snapshot_at_version(CHILD, version)
        assert graph.read(snapshot, PERSON).num_rows == expected


def test_what_never_was_and_what_is_no_more(graph: Engine, root: Root) -> None:
    first = write(graph, {PERSON: people("a")})
    write(graph, {PERSON: people("b")})
    with pytest.raises(NotFound):
        graph.snapshot_at(CommitId("0" * 26))
    for version in (0, 99):
        with pytest.raises(NotFound):
            graph.snapshot_at_version(MAIN, version)
    with pytest.raises(NotFound):
        graph.snapshot_at_version(BranchName("nope"), 1)
    open_dataset: Callable[[str], Any] = lance.dataset
    open_dataset(root.join(MANIFEST)).cleanup_old_versions(versions=[first.manifest_version])
    fresh = reopen(root)
    attempts: tuple[Callable[[], object], ...] = (
        lambda: fresh.snapshot_at(first.commit.id),
        lambda: fresh.snapshot_at_version(MAIN, first.manifest_version),
    )
    for attempt in attempts:
        with pytest.raises(Gone) as caught:
            attempt()
        assert caught.value.details["version"] == first.manifest_version
    assert ids(fresh, PERSON) == {"a", "b"}


def test_the_past_is_read_once(graph: Engine) -> None:
    first = write(graph, {PERSON: people("a")})
    write(graph, {PERSON: people("b")})
    graph.snapshot_at(first.commit.id)
    with telemetry.counting() as counts:
        graph.snapshot_at(first.commit.id)
    assert counts.snapshot() == {"table.head": 1}


# -- stamps ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", OpenMode)
@pytest.mark.parametrize(
    ("stamp", "code"),
    [
        (str(FORMAT_VERSION + 1), Code.FORMAT_UNSUPPORTED),
        (str(FORMAT_VERSION - 1), Code.FORMAT_UNSUPPORTED),
        ("0", Code.FORMAT_UNSUPPORTED),
        ("four", Code.CORRUPT),
    ],
)
def test_other_formats_are_refused(
    graph: Engine, root: Root, stamp: str, code: Code, mode: OpenMode
) -> None:
    write(graph, {PERSON: people("a")})
    graph.tables.update_schema_metadata(MANIFEST, None, {STAMP: stamp})
    with pytest.raises(Corrupt) as caught:
        reopen(root, mode)
    assert caught.value.code is code
    # A handle that was open before the upgrade must not write an old format into a new one.
    with pytest.raises(Corrupt):
        write(graph, {PERSON: people("b")})


# -- threads ---------------------------------------------------------------------------------------


def test_many_threads_look_while_others_publish(graph: Engine) -> None:
    """Each look is whole, never goes back, and finds every commit it names."""
    stop = threading.Event()

    def look(_: int) -> int:
        last = 0
        while not stop.is_set():
            snapshot = graph.snapshot()
            assert snapshot.manifest_version >= last
            last = snapshot.manifest_version
            assert snapshot.head in graph.manifest.commits(MAIN)
            history = list(graph.commits())
            assert sum(commit.kind != "init" for commit in history) == len(history) - 1
        return last

    with ThreadPoolExecutor(THREADS) as pool:
        looking = [pool.submit(look, number) for number in range(THREADS - 1)]
        try:
            for number in range(15):
                write(graph, {PERSON: people(f"p{number}")})
        finally:
            stop.set()
        assert all(each.result() > 0 for each in looking)
    assert len(ids(graph, PERSON)) == 15


# -- publishing against others ---------------------------------------------------------------------


def test_a_publish_is_tried_five_times(graph: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    tries = []

    def lose(*_: object) -> int:
        tries.append(1)
        raise StorageFailure(FailureKind.CONFLICT, "table.merge", MANIFEST, "lost")

    monkeypatch.setattr(graph.tables, "merge_rows", lose)
    with pytest.raises(Conflict) as caught:
        write(graph, {})
    assert caught.value.code is Code.HEAD_CONTENTION
    assert caught.value.details["attempts"] == len(tries) == publish.ATTEMPTS_MAX
    monkeypatch.undo()
    write(graph, {})
    audit(graph)


@pytest.mark.parametrize("rival", [PERSON, COMPANY])
def test_each_try_checks_everything_again(
    graph: Engine, root: Root, monkeypatch: pytest.MonkeyPatch, rival: str
) -> None:
    """A rival publishes between our check and our try: over another table that is no matter."""
    other = reopen(root)
    merge = graph.tables.merge_rows
    rivals = iter([{PERSON: people("rival"), COMPANY: companies("rival")}[rival]])

    def late(*args: Any) -> int:
        for delta in rivals:
            write(other, {rival: delta})
        return merge(*args)

    judged = {PERSON: graph.snapshot().pin(PERSON).version}
    before = graph.snapshot()
    monkeypatch.setattr(graph.tables, "merge_rows", late)
    if rival == COMPANY:
        done = write(graph, {}, judged=judged)
        assert len(chain(graph)) == 3
        assert done.commit.parent_id == chain(graph)[1] != before.head
    else:
        with pytest.raises(Conflict) as caught:
            write(graph, {}, judged=judged)
        assert caught.value.conflicts == [{"table_key": PERSON, "expected": 1, "actual": 2}]
        assert len(chain(graph)) == 2
