"""Reading the manifest: cost, compaction, stamps, time travel, many threads."""

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import lance
import pyarrow as pa
import pytest

from omnigraph.core import init as initial
from omnigraph.core import tuning as core_tuning
from omnigraph.core.commits.records import (
    ARROW_SCHEMA,
    FORMAT_OLDEST,
    FORMAT_VERSION,
    KEY,
    MARK,
    Record,
    TableRecord,
    TombstoneRecord,
    VersionRecord,
    encode,
    format_metadata,
)
from omnigraph.core.layout import MANIFEST
from omnigraph.core.manifest.manifest import Manifest
from omnigraph.core.publish import destinations
from omnigraph.core.repository import OpenMode, Repository
from omnigraph.errors import Code, Conflict, Corrupt, Gone, NotFound
from omnigraph.runtime import telemetry
from omnigraph.store import tuning
from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.root import Root
from omnigraph.store.tables import Pin, Tables
from omnigraph.types import MAIN, BranchName, CommitId
from tests.graphs import (
    COMPANY,
    KNOWS,
    PERSON,
    audit,
    chain,
    companies,
    ids,
    make,
    people,
    reopen,
    write,
)

DEV, CHILD = BranchName("dev"), BranchName("child")
THREADS = 8


@pytest.fixture(autouse=True, params=[0, 1024], ids=["outlined", "whole"])
def few_rows(request: pytest.FixtureRequest) -> Iterator[int]:
    """A manifest is read in one of two ways when it is opened; everything holds for both."""
    rows: int = request.param
    with core_tuning.tuned(whole_manifest_rows_max=rows):
        yield rows


def version_of(location: str, number: int) -> VersionRecord:
    return VersionRecord(
        table_key="node:Firm", location=location, version=number, table_branch=None, row_count=0
    )


def counted(repo: Repository, branch: BranchName = MAIN) -> dict[str, int]:
    with telemetry.counting() as counts:
        repo.snapshot(branch)
    return counts.snapshot()


# -- cost ------------------------------------------------------------------------------------------


def test_looking_again_reads_nothing(graph: Repository) -> None:
    graph.snapshot()
    assert counted(graph) == {"table.head": 1}


def test_looking_reads_only_what_is_new(graph: Repository, root: Root) -> None:
    other = reopen(root)
    for size in (1, 5):
        for number in range(size):
            write(other, {PERSON: people(f"{size}-{number}")})
        read = counted(graph)
        # The fragment that the last publish wrote, with the rows that it took along.
        assert read["manifest.fragments_read"] == 1
        assert read["manifest.rows_read"] <= tuning.active.absorbed_rows + 3
        assert read["table.scan"] == 1
    assert counted(graph) == {"table.head": 1}


def test_what_a_handle_has_published_is_not_read(graph: Repository, root: Root) -> None:
    graph.create_branch(DEV)
    for branch in (MAIN, DEV):
        graph.snapshot(branch)
        seen = write(graph, {PERSON: people(f"{branch}-1")}, branch=branch)
        write(graph, {COMPANY: companies(f"{branch}-2")}, branch=branch, idempotency_key=branch)
        assert "table.scan" not in counted(graph, branch)
        fresh = reopen(root, OpenMode.READ_ONLY)
        assert graph.snapshot(branch) == fresh.snapshot(branch)
        assert chain(graph, branch) == chain(fresh, branch)
        # The state before was seen, so it is known.
        with telemetry.counting() as counts:
            known = graph.snapshot_at(seen.commit.id, branch)
        assert "table.scan" not in counts.snapshot()
        assert known == fresh.snapshot_at(seen.commit.id, branch)
        # What others publish in between is read.
        write(fresh_writer := reopen(root), {PERSON: people(f"{branch}-3")}, branch=branch)
        write(graph, {PERSON: people(f"{branch}-4")}, branch=branch)
        assert graph.snapshot(branch) == fresh_writer.snapshot(branch)
        assert chain(graph, branch) == chain(fresh_writer, branch)


def test_opening_a_long_history_reads_the_present_alone(graph: Repository, few_rows: int) -> None:
    seen = []
    for number in range(1, 33):
        write(graph, {PERSON: people(f"p{number}")}, idempotency_key=f"k{number}")
        if number in (16, 32):  # with as many fragments
            with telemetry.counting() as counts:
                opened = reopen(graph.root, OpenMode.READ_ONLY)
            seen.append(counts.snapshot())
            assert opened.snapshot() == graph.snapshot()
    short, long = seen
    if few_rows:
        assert "table.take" not in long
        assert long["manifest.rows_read"] > short["manifest.rows_read"]
    else:
        # The tables and the latest version of each, and the head.
        assert long["manifest.rows_read"] == short["manifest.rows_read"] == 2 * 3 + 1
        assert long["table.scan"] == long["table.take"] == long["table.head"] == 1
        assert "manifest.history_read" not in long


def test_history_is_there_when_it_is_asked_for(graph: Repository, root: Root) -> None:
    done = [write(graph, {PERSON: people(f"p{n}")}, idempotency_key=f"k{n}") for n in range(20)]
    for number in (0, 7, 19):
        published = done[number]
        fresh = reopen(root, OpenMode.READ_ONLY)
        assert fresh.manifest.find_key(MAIN, f"k{number}") == published.commit
        assert fresh.manifest.find_key(MAIN, "k") is None
        fresh = reopen(root, OpenMode.READ_ONLY)
        assert fresh.commit_info(published.commit.id) == published.commit
        log = reopen(root, OpenMode.READ_ONLY).manifest.commits(MAIN)
        assert log.manifest_version(published.commit.id) == published.manifest_version
    assert chain(reopen(root)) == chain(graph)
    again = write(reopen(root), {PERSON: people("again")}, idempotency_key="k7")
    assert (again.replayed, again.commit) == (True, done[7].commit)


def test_what_follows_the_opening_is_seen(graph: Repository, root: Root) -> None:
    """Heads, tables that were dropped and renamed: news after the first look as before it."""
    write(graph, {PERSON: people("a"), COMPANY: companies("x")})
    reader = reopen(root, OpenMode.READ_ONLY)
    pin = graph.snapshot().pin(COMPANY)
    records: list[tuple[Record, ...]] = [
        (TableRecord(table_key="node:Firm", location=pin.path),),
        (TombstoneRecord(table_key="node:Firm", location=pin.path, version=pin.version),),
        (TableRecord(table_key="node:Firm", location="nodes/new"), version_of("nodes/new", 1)),
    ]
    expected = [{PERSON, KNOWS, "node:Firm"}, {PERSON, KNOWS}, {PERSON, KNOWS, "node:Firm"}]
    for step, tables in zip(records, expected, strict=True):
        write(graph, {}, records=step)
        assert set(reader.snapshot().tables) == tables
        assert reader.snapshot() == graph.snapshot() == reopen(root).snapshot()


@pytest.mark.parametrize(
    "damage",
    [
        {"object_type": "graph_tag"},
        {"location": None},
        {"table_version": None},
        {"row_count": None},
    ],
    ids=str,
)
def test_a_row_that_cannot_be_read_is_reported_when_the_graph_is_opened(
    graph: Repository, root: Root, damage: dict[str, object]
) -> None:
    write(graph, {PERSON: people("a")})
    base = Pin(MANIFEST, graph.snapshot().manifest_version)
    good = encode([version_of("nodes/odd", 1)]).to_pylist()[0]
    bad = pa.Table.from_pylist([{**good, **damage}], schema=ARROW_SCHEMA)
    graph.tables.merge_rows(base, KEY, bad)
    with pytest.raises(Corrupt) as caught:
        reopen(root, OpenMode.READ_ONLY)
    assert caught.value.details["object_id"] == good["object_id"]


@pytest.fixture
def small_tiers() -> Iterator[None]:
    """A short history meets every size of fragment, too."""
    with tuning.tuned(absorbed_rows=6, absorbed_fanout=2):
        yield


def test_the_manifest_stays_in_few_fragments(
    graph: Repository, root: Root, small_tiers: None
) -> None:
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


def test_time_travel_survives_rewriting(graph: Repository, small_tiers: None) -> None:
    done = [write(graph, {PERSON: people(f"p{number}")}) for number in range(12)]
    for number, published in enumerate(done):
        snapshot = graph.snapshot_at(published.commit.id)
        assert snapshot.head == published.commit.id
        assert snapshot.manifest_version == published.manifest_version
        assert graph.read(snapshot, PERSON).num_rows == number + 1


# -- time travel -----------------------------------------------------------------------------------


def test_the_past_by_commit_and_by_version(graph: Repository, root: Root) -> None:
    start = graph.snapshot()
    first = write(graph, {PERSON: people("a")})
    write(graph, {PERSON: people("b"), COMPANY: companies("x")})
    for repo in (graph, reopen(root, OpenMode.READ_ONLY)):
        then = repo.snapshot_at(first.commit.id)
        assert repo.snapshot_at_version(MAIN, first.manifest_version) == then
        assert repo.read(then, PERSON).column("id").to_pylist() == ["a"]
        assert repo.read(then, COMPANY).num_rows == 0
        assert repo.snapshot_at(start.head) == start
        assert repo.snapshot_at(repo.snapshot().head) == repo.snapshot()


def test_the_past_of_a_branch_reaches_into_what_it_was_made_from(graph: Repository) -> None:
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


def test_what_never_was_and_what_is_no_more(graph: Repository, root: Root) -> None:
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


def test_the_past_is_read_once(graph: Repository) -> None:
    first = write(graph, {PERSON: people("a")})
    write(graph, {PERSON: people("b")})
    graph.snapshot_at(first.commit.id)
    with telemetry.counting() as counts:
        graph.snapshot_at(first.commit.id)
    assert counts.snapshot() == {"table.head": 1}


# -- the format before ----------------------------------------------------------------------------


@pytest.fixture
def older(root: Root, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """A graph of the format before, whose rows did not say which version wrote them.

    Its manifest has identities of rows instead, and with them Lance's own columns of versions.
    """
    create = Tables.create

    def with_row_ids(self: Tables, *args: Any, **options: Any) -> int:
        return create(self, *args, **{**options, "row_ids": True})

    def without_versions(records: Iterable[Record], manifest_version: int) -> pa.Table:
        return encode(records)

    with monkeypatch.context() as patch:
        patch.setattr(Tables, "create", with_row_ids)
        patch.setattr(initial, "FORMAT_VERSION", FORMAT_OLDEST)
        patch.setattr(initial, "encode", without_versions)
        patch.setattr(destinations, "encode", without_versions)
        # It read what it had written itself: only Lance's columns said which version that was.
        patch.setattr(Manifest, "published", lambda *_: None)
        graph = make(root)
        for number in range(40):
            write(graph, {PERSON: people(f"old{number}")}, idempotency_key=f"k{number}")
    return graph


def test_a_graph_of_the_format_before_is_read_and_written(
    older: Repository, root: Root, few_rows: int
) -> None:
    before = chain(older)
    assert len(before) == 41
    graph = reopen(root)
    assert chain(graph) == before
    write(graph, {PERSON: people("new")})
    graph.create_branch(BranchName("side"))
    write(graph, {COMPANY: companies("side")}, branch=BranchName("side"))
    done = [write(graph, {PERSON: people(f"more{number}")}) for number in range(20)]
    for repo in (graph, older, reopen(root)):
        assert repo.snapshot() == graph.snapshot()
        assert chain(repo)[:41] == before
        for number, published in enumerate(done):
            then = repo.snapshot_at(published.commit.id)
            assert then.manifest_version == published.manifest_version
            assert repo.read(then, PERSON).num_rows == 42 + number
        assert repo.read(repo.snapshot_at(before[4]), PERSON).num_rows == 4
        found = repo.manifest.find_key(MAIN, "k7")
        assert found is not None
        assert found.id == before[8]
    audit(graph)


def test_a_manifest_lists_nothing_of_its_history(graph: Repository) -> None:
    """A version of it names a few fragments and nothing about single rows."""
    for number in range(60):
        write(graph, {PERSON: people(f"p{number}")})
    table = graph.tables.open(Pin(MANIFEST, graph.snapshot().manifest_version))
    assert not table.has_row_versions
    for fragment in table.dataset.get_fragments():
        assert fragment.metadata.row_id_meta is None
        assert fragment.metadata.created_at_version_meta is None


# -- stamps ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", OpenMode)
@pytest.mark.parametrize(
    ("stamp", "code"),
    [
        (format_metadata(FORMAT_VERSION + 1), Code.FORMAT_UNSUPPORTED),
        ({MARK: "0"}, Code.CORRUPT),
        ({MARK: "four"}, Code.CORRUPT),
    ],
)
def test_other_formats_are_refused(
    graph: Repository, root: Root, stamp: dict[str, str], code: Code, mode: OpenMode
) -> None:
    write(graph, {PERSON: people("a")})
    graph.tables.stamp(Pin(MANIFEST, graph.tables.head(MANIFEST)), stamp)
    with pytest.raises(Corrupt) as caught:
        reopen(root, mode)
    assert caught.value.code is code
    # A handle that was open before the upgrade must not write an old format into a new one.
    with pytest.raises(Corrupt):
        write(graph, {PERSON: people("b")})


# -- threads ---------------------------------------------------------------------------------------


def test_many_threads_look_while_others_publish(graph: Repository) -> None:
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


def test_a_publish_is_tried_five_times(graph: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    tries = []

    def lose(*_: object, **__: object) -> int:
        tries.append(1)
        raise StorageFailure(FailureKind.CONFLICT, "table.commit", MANIFEST, "lost")

    monkeypatch.setattr(graph.tables, "merge_rows", lose)
    with pytest.raises(Conflict) as caught:
        write(graph, {})
    assert caught.value.code is Code.HEAD_CONTENTION
    assert caught.value.details["attempts"] == len(tries) == core_tuning.active.publish_attempts_max
    monkeypatch.undo()
    write(graph, {})
    audit(graph)


@pytest.mark.parametrize("rival", [PERSON, COMPANY])
def test_each_try_checks_everything_again(
    graph: Repository, root: Root, monkeypatch: pytest.MonkeyPatch, rival: str
) -> None:
    """A rival publishes between our check and our try: over another table that is no matter."""
    other = reopen(root)
    merge = graph.tables.merge_rows
    rivals = iter([{PERSON: people("rival"), COMPANY: companies("rival")}[rival]])

    def late(*args: Any, **options: Any) -> int:
        for delta in rivals:
            write(other, {rival: delta})
        return merge(*args, **options)

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
