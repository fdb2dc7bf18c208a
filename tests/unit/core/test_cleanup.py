"""Clean-up of a graph: what goes, what stays, and what whoever asks for the rest is told."""

import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from omnigraph.core import tuning
from omnigraph.core.cleanup.cleaner import Cleaned
from omnigraph.core.failpoints import Fp
from omnigraph.core.journal.audit import RecoveryKind
from omnigraph.core.layout import CLEANUP_CLAIM, MANIFEST
from omnigraph.core.repository import OpenMode, Repository, components
from omnigraph.errors import Busy, Conflict, Corrupt, Forbidden, Gone, RecoveryRequired, Unavailable
from omnigraph.runtime.clock import ManualClock
from omnigraph.runtime.failpoints import LostReply, Refuse, armed
from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.root import Root
from omnigraph.store.tables import Pin, open_tables
from omnigraph.types import MAIN, BranchName, CommitId, TagName
from tests.faults.harness import Countdown, open_interrupted
from tests.graphs import (
    AT_ONCE,
    COMPANY,
    KNOWS,
    PERSON,
    Delta,
    acquaintances,
    audit,
    chain,
    clean,
    companies,
    ids,
    make,
    people,
    prepare,
    reopen,
    rows,
    write,
)

DEV, CHILD = BranchName("dev"), BranchName("child")


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root.parse(str(tmp_path / "graph"))


@pytest.fixture
def graph(root: Root) -> Repository:
    """Ten commits: p0 to p9, one after the other."""
    repo = make(root)
    for number in range(10):
        write(repo, {PERSON: people(f"p{number}")})
    return repo


def elsewhere(root: Root) -> tuple[Repository, ManualClock]:
    """The graph as another process has it open, whose time passes when it is told to."""
    parts, clock = components(root, durable=False), ManualClock()
    return Repository.open(root, replace(parts, clock=clock)), clock


def stored(root: Root) -> set[str]:
    return {
        str(Path(folder, name).relative_to(root.local_path))
        for folder, _, names in os.walk(root.local_path)
        for name in names
    }


def persons(repo: Repository, commit: CommitId) -> set[str]:
    return set(rows(repo, PERSON, repo.snapshot_at(commit)))


def of(cleaned: Cleaned, path: str) -> int:
    return sum(part.versions for part in cleaned.parts if part.path == path)


def test_the_newest_states_stay_and_others_are_gone(graph: Repository, root: Root) -> None:
    commits = chain(graph)
    path = graph.snapshot().pin(PERSON).path
    done = clean(graph, keep=3)
    assert of(done, path) == of(done, MANIFEST) == 8
    again = reopen(root)
    audit(again)
    assert persons(again, commits[-3]) == {f"p{number}" for number in range(8)}
    for commit in commits[:-3]:
        with pytest.raises(Gone, match="clean-up"):
            again.snapshot_at(commit)
    assert chain(again) == commits
    # A second run finds nothing, whoever asks.
    assert clean(again, keep=3).parts == ()


def test_a_kinder_policy_brings_nothing_back_and_is_no_mistake(graph: Repository) -> None:
    commits = chain(graph)
    graph.refs.create_tag(TagName("old"), graph.snapshot_at(commits[2]))
    clean(graph, keep=2)
    write(graph, {PERSON: people("x")})
    done = clean(graph, keep=12)
    # The tag, the two of before and the new one.
    assert (of(done, graph.snapshot().pin(PERSON).path), done.states) == (0, 4)
    assert persons(graph, commits[2]) == {"p0", "p1"}
    audit(graph)


def test_every_file_that_is_left_belongs_to_a_version(graph: Repository, root: Root) -> None:
    graph.create_branch(DEV)
    write(graph, {PERSON: people("d"), COMPANY: companies("c")}, branch=DEV)
    write(graph, {PERSON: Delta(delete=["p1"], update={"p2": {"age": 7}})})
    clean(graph)
    for path in (MANIFEST, *(pin.path for pin in graph.snapshot().tables.values())):
        found = graph.tables.inventories.take(path)
        used = found.all_referenced()
        assert [each for each in found.files if each.owner not in used] == []
    for branch in (MAIN, DEV):
        snapshot = reopen(root).snapshot(branch)
        for key in snapshot.tables:
            graph.read(snapshot, key)


def test_a_dry_run_tells_exactly_what_goes(graph: Repository, root: Root) -> None:
    graph.create_branch(DEV)
    write(graph, {PERSON: people("d")}, branch=DEV)
    graph.delete_branch(DEV)
    write(graph, {PERSON: people("x")})
    before = stored(root)
    told = clean(graph, keep=2, dry_run=True)
    assert {name for name in stored(root) ^ before if "__claims" not in name} == set()
    done = clean(graph, keep=2)
    assert told.parts == done.parts
    gone = before - stored(root)
    left = [name for name in gone if "__claims" not in name]
    assert sum(part.files for part in done.parts) == len(left)


def test_branches_keep_what_they_stand_on(graph: Repository, root: Root) -> None:
    graph.create_branch(DEV, commit=chain(graph)[3])
    write(graph, {PERSON: people("x")})
    clean(graph)
    again = reopen(root)
    assert ids(again, PERSON, DEV) == {"p0", "p1", "p2"}
    write(again, {PERSON: people("d")}, branch=DEV)
    again.create_branch(CHILD, source=DEV)
    write(again, {PERSON: people("e")}, branch=CHILD)
    clean(again)
    assert ids(again, PERSON, CHILD) == {"p0", "p1", "p2", "d", "e"}
    audit(again)


def test_merge_bases_and_tags_stay(graph: Repository) -> None:
    base = graph.snapshot().head
    graph.create_branch(DEV)
    for number in range(4):
        write(graph, {PERSON: people(f"m{number}")})
        write(graph, {PERSON: people(f"d{number}")}, branch=DEV)
    tagged = chain(graph)[2]
    graph.refs.create_tag(TagName("first"), graph.snapshot_at(tagged))
    clean(graph)
    assert persons(graph, tagged) == {"p0", "p1"}
    assert persons(graph, base) == {f"p{number}" for number in range(10)}


def test_forks_of_deleted_branches_go(graph: Repository) -> None:
    graph.create_branch(DEV)
    write(graph, {PERSON: people("d")}, branch=DEV)
    path = graph.snapshot().pin(PERSON).path
    with armed({Fp.DROP: Refuse()}, nth=3):
        graph.delete_branch(DEV)
    assert graph.tables.fork_names(path)
    told = clean(graph, keep=100, dry_run=True)
    assert [part.forks for part in told.parts if part.path == path] == [1]
    clean(graph, keep=100)
    assert graph.tables.fork_names(path) == ()


@pytest.mark.parametrize("branch", [MAIN, DEV])
def test_what_the_newest_version_of_a_table_needs_stays_while_its_file_is_missing(
    graph: Repository, root: Root, branch: BranchName
) -> None:
    """It may come back from a backup; what it refers to alone would be gone for good."""
    graph.create_branch(DEV)
    write(graph, {PERSON: people("newest")}, branch=branch)
    pin = graph.snapshot(branch).pin(PERSON)
    lost = graph.tables.version_file(Pin(pin.path, pin.version, pin.table_branch))
    content = (root.local_path / lost).read_bytes()
    (root.local_path / lost).unlink()
    (part,) = (part for part in clean(reopen(root), keep=1).parts if part.path == pin.path)
    assert (part.versions, part.files) == (0, 0)
    assert lost in str(part.error)
    (root.local_path / lost).write_bytes(content)
    again = reopen(root)
    assert "newest" in rows(again, PERSON, again.snapshot(branch))
    audit(again)


@pytest.mark.parametrize("branch", [MAIN, DEV])
def test_nothing_is_cleaned_up_while_the_newest_version_of_a_branch_is_missing(
    graph: Repository, root: Root, branch: BranchName
) -> None:
    graph.create_branch(DEV)
    write(graph, {PERSON: people("newest")}, branch=branch)
    head = graph.snapshot(branch)
    lost = graph.tables.version_file(Pin(MANIFEST, head.manifest_version, head.fork))
    content = (root.local_path / lost).read_bytes()
    (root.local_path / lost).unlink()
    with pytest.raises(Corrupt) as refused:
        clean(reopen(root), keep=1)
    assert refused.value.details["path"] == lost
    (root.local_path / lost).write_bytes(content)
    again = reopen(root)
    assert "newest" in rows(again, PERSON, again.snapshot(branch))
    audit(again)


def test_what_another_process_knows_as_the_newest_is_not_a_dead_end(
    graph: Repository, root: Root
) -> None:
    other, clock = elsewhere(root)
    assert len(ids(other, PERSON)) == 10
    for number in range(10, 20):
        write(graph, {PERSON: people(f"p{number}")})
    clean(graph)
    clock.advance(61_000_000)
    assert len(ids(other, PERSON)) == 20
    write(other, {PERSON: people("last")})
    assert len(ids(graph, PERSON)) == 21


def test_what_was_the_newest_a_moment_ago_stays(graph: Repository) -> None:
    assert clean(graph, superseded_us=300_000_000).parts == ()


def test_a_commit_that_sleeps_does_not_land_in_a_gap(root: Root) -> None:
    """Stopped at the last moment, it wakes up when its place is free again, below others."""
    repo = make(root)
    write(repo, {PERSON: people("a")})
    clock = ManualClock()
    slow = open_tables(root, durable=False, clock=clock)
    pin = repo.snapshot().pin(PERSON)
    table = slow.open(Pin(pin.path, pin.version))
    staged = slow.stage(table, inserts=table.read(), uuid=repo.ids.new())
    assert staged is not None

    def go_on() -> None:
        for name in "bcd":
            write(repo, {PERSON: people(name)})
        clean(repo, left_us=3_600_000_000)

    def asleep() -> None:
        # Lance calls from a thread of its own, on which nothing else of Lance can run.
        others = threading.Thread(target=go_on)
        others.start()
        others.join()
        clock.advance(61_000_000)

    with pytest.raises(StorageFailure) as caught:
        slow.land(staged, asleep)
    assert caught.value.kind is FailureKind.CONFLICT
    assert not slow.has_version(pin.path, pin.version + 1)
    audit(repo)


@pytest.fixture
def outlined() -> Iterator[None]:
    """Of every manifest that is opened, the newest rows are read first."""
    with tuning.tuned(whole_manifest_rows_max=1):
        yield


@pytest.mark.usefixtures("outlined")
def test_a_history_that_was_not_read_yet_is_read_from_what_is_left(root: Root) -> None:
    repo = make(root)
    for number in range(20):
        write(repo, {PERSON: people(f"p{number}")})
    other, clock = elsewhere(root)
    other.snapshot()
    for number in range(20, 40):
        write(repo, {PERSON: people(f"p{number}")})
    clean(repo)
    clock.advance(61_000_000)
    assert len(list(other.commits())) == 41


def test_the_files_of_dead_writers_go_when_they_are_old(graph: Repository, root: Root) -> None:
    base = graph.snapshot()
    prepare(graph, {PERSON: people("never")}, base=base)
    folder = root.local_path / base.pin(PERSON).path
    left = [
        folder / "_versions" / "d123.manifest",
        folder / "_versions" / "18446744073709551000.manifest-abc",
        folder / "tree" / "f000.0" / "data" / "x.lance",
    ]
    for path in left:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    before = stored(root)
    clean(graph, keep=100, left_us=3_600_000_000)
    assert {name for name in before - stored(root) if "__claims" not in name} == set()
    done = clean(graph, keep=100)
    assert [part.files for part in done.parts] == [4]
    assert not any(path.exists() for path in left)
    write(graph, {PERSON: people("more")})
    audit(graph)


def test_a_pending_write_keeps_what_recovery_needs(graph: Repository, root: Root) -> None:
    """A landed table whose write is not published is judged by the versions around it."""
    with armed({Fp.PUBLISH: Refuse()}), pytest.raises(RecoveryRequired):
        write(graph, {PERSON: people("late"), KNOWS: acquaintances(("p0", "p1"))})
    clean(graph)
    again = reopen(root)
    assert "late" in ids(again, PERSON)
    audit(again)


def test_a_hold_keeps_its_state_and_one_that_comes_too_late_is_told(graph: Repository) -> None:
    commits = chain(graph)
    old, older = (graph.snapshot_at(commits[place]) for place in (4, 3))
    with graph.holding(old, "export"):
        clean(graph)
        assert len(rows(graph, PERSON, old)) == 4
        with pytest.raises(Gone, match="start over"), graph.holding(older, "export"):
            pass
    clean(graph)
    with pytest.raises(Gone):
        rows(graph, PERSON, old)
    assert graph.holds.all() == []


def test_a_feed_keeps_everything_from_its_place_on(graph: Repository) -> None:
    commits = chain(graph)
    with graph.holding(graph.snapshot_at(commits[4]), "feed", onward=True) as held:
        clean(graph)
        for place in range(4, 11):
            assert len(persons(graph, commits[place])) == place
        held.move(graph.snapshot_at(commits[8]))
    with pytest.raises(Gone):
        persons(graph, commits[3])


def test_a_handle_for_reading_holds_nothing_and_cleans_nothing_up(
    graph: Repository, root: Root
) -> None:
    reader = reopen(root, OpenMode.READ_ONLY)
    with reader.holding(reader.snapshot(), "export"):
        assert graph.holds.all() == []
    with pytest.raises(Forbidden):
        clean(reader)


def test_only_one_process_cleans_up_at_a_time(graph: Repository, root: Root) -> None:
    def meanwhile(_: str) -> None:
        with pytest.raises(Busy):
            clean(reopen(root))

    graph.cleanup(AT_ONCE, meanwhile)


def test_a_clean_up_is_audited(graph: Repository) -> None:
    clean(graph, actor="mallory")
    (row,) = graph.recovery.audit.rows()
    assert (row.recovery_kind, row.recovery_for_actor) == (RecoveryKind.CLEANED_UP, "mallory")
    assert '"versions": 10' in row.table_outcomes


@pytest.mark.parametrize("nth", range(1, 20, 3))
def test_a_branch_that_is_deleted_while_it_is_looked_at_is_no_mistake(
    graph: Repository, root: Root, monkeypatch: pytest.MonkeyPatch, nth: int
) -> None:
    graph.create_branch(DEV)
    for number in range(3):
        write(graph, {PERSON: people(f"d{number}")}, branch=DEV)
    other = reopen(root)
    # The claim of who makes and deletes branches is given back at this point.
    due = Countdown(nth, lambda: other.delete_branch(DEV))
    calls: list[Countdown] = []

    def passed(point: Fp) -> None:
        if point is Fp.CLEANUP_DECIDED:
            calls.append(due)

    monkeypatch.setattr("omnigraph.core.cleanup.cleaner.hit", passed)

    def before_each_call() -> None:
        for call in calls:
            call()

    cleaner = open_interrupted(root.local_path, before_each_call)
    done = clean(cleaner, keep=2)
    assert due.came
    assert [part.error for part in done.parts if part.error] == []
    assert len(ids(reopen(root), PERSON)) == 10


def test_a_branch_that_is_deleted_before_its_table_is_cleaned_up_is_no_damage(
    graph: Repository, root: Root
) -> None:
    graph.create_branch(DEV)
    write(graph, {PERSON: people("dev")}, branch=DEV)
    other = reopen(root)

    def delete(folder: str) -> None:
        if folder != MANIFEST and DEV in other.branches.list():
            other.delete_branch(DEV)

    done = graph.cleanup(AT_ONCE, delete)
    assert [part.error for part in done.parts if part.error] == []
    assert DEV not in graph.branches.list()


def test_a_branch_made_from_a_state_that_goes_is_refused_or_whole(
    graph: Repository, root: Root
) -> None:
    other, commits = reopen(root), chain(graph)
    made: list[BranchName] = []

    def meanwhile(path: str) -> None:
        if path == MANIFEST:
            return
        name = BranchName(f"b{len(made)}")
        with pytest.raises(Gone):
            other.create_branch(name, commit=commits[5])
        other.create_branch(name, commit=commits[-1])
        made.append(name)

    graph.cleanup(AT_ONCE, meanwhile)
    for name in made:
        assert len(ids(reopen(root), PERSON, name)) == 10
    audit(graph)


@pytest.mark.parametrize("branch", [MAIN, DEV])
def test_a_branch_made_from_a_state_that_this_handle_has_read_and_that_went_is_refused(
    graph: Repository, root: Root, branch: BranchName
) -> None:
    graph.create_branch(DEV)
    for name in ("x", "y"):
        write(graph, {PERSON: people(name)}, branch=branch)
    commit = chain(graph, branch)[-2]
    known = graph.snapshot_at(commit, branch)
    clean(reopen(root), keep=1)
    for terms in ({"start": known}, {"commit": commit, "source": branch}):
        with pytest.raises(Gone, match="clean-up"):
            graph.create_branch(BranchName("late"), **terms)
    assert not graph.has_branch(BranchName("late"))


def test_a_branch_made_from_a_branch_that_was_deleted_since_it_was_read_is_refused(
    graph: Repository, root: Root
) -> None:
    graph.create_branch(DEV)
    write(graph, {PERSON: people("x")}, branch=DEV)
    known = graph.snapshot(DEV)
    reopen(root).delete_branch(DEV)
    with pytest.raises(Conflict, match="deleted"):
        graph.create_branch(BranchName("late"), start=known)
    assert not graph.has_branch(BranchName("late"))


@pytest.mark.parametrize("point", [Fp.CLEANUP_VERSIONS, Fp.CLEANUP_FILES])
@pytest.mark.parametrize("fault", [Refuse(), LostReply()])
@pytest.mark.parametrize("nth", [1, 2])
def test_a_clean_up_that_fails_harms_nobody_and_the_next_one_converges(
    graph: Repository, root: Root, point: Fp, fault: Refuse | LostReply, nth: int
) -> None:
    with armed({point: fault}, nth=nth), pytest.raises((Unavailable, Conflict)):
        clean(graph)
    again = reopen(root)
    audit(again)
    assert len(ids(again, PERSON)) == 10
    clean(again)
    assert clean(again).parts == ()
    for path in (MANIFEST, again.snapshot().pin(PERSON).path):
        assert len(again.tables.inventories.take(path).versions) == 1


def test_a_clean_up_that_looks_for_longer_than_its_claim_lasts_goes_on(
    graph: Repository, root: Root
) -> None:
    other, clock = elsewhere(root)
    person = graph.snapshot().pin(PERSON).path
    folder = root.local_path / CLEANUP_CLAIM

    def look_long(path: str) -> None:
        for _ in range(3 if path == person else 0):
            [claim] = folder.iterdir()
            before = claim.read_bytes()
            clock.advance(tuning.active.claim_lease_us // 2)
            for _ in range(500):  # without the thread that renews it, the claim is lost below
                if claim.read_bytes() != before:
                    break
                threading.Event().wait(0.01)

    done = other.cleanup(replace(AT_ONCE, policy=replace(AT_ONCE.policy, keep=3)), look_long)
    assert of(done, person) == 8
    audit(reopen(root))
