"""What a power cut leaves of a writer that names files too early: the graph opens at the last good
state, says what it set aside, and never takes a damaged commit for an unfinished one."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.core.cleanup.cleaner import CleanupRequest
from omnigraph.core.cleanup.retention import RetentionPolicy
from omnigraph.core.failpoints import Fp
from omnigraph.core.layout import MANIFEST
from omnigraph.core.maintenance.verify import MetadataVerifier
from omnigraph.core.repository import OpenMode
from omnigraph.errors import Code, Corrupt, NotFound
from omnigraph.runtime.failpoints import Crash, Plan
from omnigraph.store.forks.fork_records import reference_path
from omnigraph.store.versions.files import manifest_name
from omnigraph.types import BranchName
from tests.faults import worlds
from tests.faults.harness import Ending, crash_child
from tests.faults.worlds import COMPANY, DEV, PERSON

OTHER = BranchName("other")
Tear = Callable[[Path], None]


def empty(path: Path) -> None:
    path.write_bytes(b"")


def shorten(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def blank(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


every_tear = pytest.mark.parametrize("tear", [empty, shorten, blank], ids=lambda t: t.__name__)


def version_file(world: Path, version: int, branch: str | None = None) -> Path:
    place = MANIFEST if branch is None else f"{MANIFEST}/tree/{branch}"
    return world / place / "_versions" / manifest_name(version)


def tear_next(world: Path, tear: Tear, branch: BranchName | None = None) -> Path:
    """What is left of a publish that was cut off, after the newest version of a manifest."""
    repo = worlds.open_world(world, OpenMode.READ_ONLY)
    newest = repo.snapshot(branch).manifest_version if branch else repo.snapshot().manifest_version
    file = version_file(world, newest + 1, branch)
    file.write_bytes(version_file(world, newest, branch).read_bytes())
    tear(file)
    return file


@every_tear
def test_a_graph_opens_at_the_last_good_version(
    world: Path, tear: Tear, caplog: pytest.LogCaptureFixture
) -> None:
    before = worlds.state(worlds.open_world(world))
    file = tear_next(world, tear)
    trace = worlds.trace(world)
    with caplog.at_level(logging.WARNING, logger="omnigraph"):
        assert worlds.state(worlds.open_world(world, OpenMode.READ_ONLY)) == before
        assert "power cut" in caplog.text
        assert worlds.trace(world) == trace
        repo = worlds.open_world(world)
    assert worlds.state(repo) == before
    (taken,) = repo.set_aside()
    assert world / taken.path == file
    assert (world / taken.kept_as).exists()
    assert not file.exists()
    assert taken.path in caplog.text
    worlds.add(repo, {PERSON: ("next",)})
    worlds.assert_in_order(worlds.open_world(world))
    assert "next" in worlds.rows_of(worlds.open_world(world, OpenMode.READ_ONLY), PERSON)


@every_tear
def test_a_handle_that_is_open_steps_over_it_too(world: Path, tear: Tear) -> None:
    writer = worlds.open_world(world)
    reader = worlds.open_world(world, OpenMode.READ_ONLY)
    before = worlds.state(writer)
    assert worlds.state(reader) == before
    tear_next(world, tear)
    assert worlds.state(reader) == before
    worlds.add(writer, {PERSON: ("next",)})
    assert "next" in worlds.rows_of(reader, PERSON)
    assert len(writer.set_aside()) == 1


@every_tear
def test_what_had_landed_is_finished(world: Path, tear: Tear) -> None:
    """Its intent says that the write was going on, so it was not acknowledged."""
    plan = Plan(faults=((Fp.LANDED, Crash()),))
    assert crash_child(world, "mutation", plan).ending is Ending.CRASHED
    tear_next(world, tear)
    assert "new" not in worlds.rows_of(worlds.open_world(world, OpenMode.READ_ONLY), PERSON)
    repo = worlds.open_world(world)
    assert "new" in worlds.rows_of(repo, PERSON)
    worlds.assert_in_order(repo)
    assert len(repo.set_aside()) == 1


@every_tear
@pytest.mark.parametrize("branch", [None, DEV])
@pytest.mark.parametrize("names", [("one", "two"), ("first",)])
def test_an_acknowledged_commit_is_never_taken_for_an_unfinished_one(
    world: Path, tear: Tear, branch: BranchName | None, names: tuple[str, ...]
) -> None:
    repo = worlds.open_world(world)
    repo.create_branch(DEV)
    on = branch or BranchName("main")
    for name in names:
        worlds.add(repo, {COMPANY: (name,)}, branch=on)
    newest = repo.snapshot(on).manifest_version
    file = version_file(world, newest, branch)
    tear(file)
    left = file.read_bytes()
    for mode in OpenMode:
        with pytest.raises(Corrupt) as caught:
            worlds.open_world(world, mode).snapshot(on)
        assert caught.value.code is Code.CORRUPT
        assert caught.value.details["tables"] == [COMPANY]
        assert file.read_bytes() == left


@pytest.mark.parametrize("branch", [None, DEV])
def test_without_the_file_the_version_before_it_goes_on_in_a_copy(
    world: Path, tmp_path: Path, branch: BranchName | None
) -> None:
    repo = worlds.open_world(world)
    repo.create_branch(DEV)
    on = branch or BranchName("main")
    for name in ("one", "two"):
        worlds.add(repo, {COMPANY: (name,)}, branch=on)
    file = version_file(world, repo.snapshot(on).manifest_version, branch)
    shorten(file)
    with pytest.raises(Corrupt, match="`omnigraph clone`"):
        worlds.open_world(world).snapshot(on)
    file.unlink()
    with og.open(world) as graph:
        graph.copy_to(tmp_path / "copy")
    copy = worlds.open_world(tmp_path / "copy")
    assert "one" in worlds.rows_of(copy, COMPANY, on)
    worlds.add(copy, {COMPANY: ("next",)}, branch=on)
    worlds.assert_in_order(worlds.open_world(tmp_path / "copy"))


@every_tear
def test_a_torn_branch_is_absent_and_harms_no_other(world: Path, tear: Tear) -> None:
    repo = worlds.open_world(world)
    for name in (DEV, OTHER):
        repo.create_branch(name)
    worlds.add(repo, {PERSON: ("o",)}, branch=OTHER)
    record = world / reference_path(MANIFEST, DEV)
    tear(record)
    trace = worlds.trace(world)
    reader = worlds.open_world(world, OpenMode.READ_ONLY)
    assert reader.branches.list() == ("main", OTHER)
    assert "o" in worlds.rows_of(reader, PERSON, OTHER)
    with pytest.raises(NotFound):
        reader.snapshot(DEV)
    assert worlds.trace(world) == trace
    repo = worlds.open_world(world)
    assert repo.branches.list() == ("main", OTHER)
    repo.recover()
    assert not record.exists()
    assert [world / taken.path for taken in repo.set_aside()] == [record]
    repo.create_branch(DEV)
    worlds.add(repo, {PERSON: ("d",)}, branch=DEV)
    repo.delete_branch(OTHER)
    assert repo.branches.list() == (DEV, "main")
    worlds.assert_in_order(repo)
    worlds.assert_nothing_left(repo)


@every_tear
@pytest.mark.parametrize("renamed", [False, True])
def test_a_branch_with_commits_is_never_taken_for_an_unfinished_one(
    world: Path, tear: Tear, renamed: bool
) -> None:
    record = world / reference_path(MANIFEST, DEV)
    name = OTHER if renamed else DEV
    repo = worlds.open_world(world)
    repo.create_branch(DEV)
    worlds.add(repo, {PERSON: ("d",)}, branch=DEV)
    if renamed:
        repo.refs.rename_branch(DEV, OTHER)
    whole = record.read_bytes()
    tear(record)
    _assert_lost(world, name)
    record.write_bytes(whole)
    worlds.assert_in_order(worlds.open_world(world))
    record.unlink()
    _assert_lost(world, name)
    record.write_bytes(whole)
    assert "d" in worlds.rows_of(worlds.open_world(world), PERSON, name)


def _assert_lost(world: Path, name: BranchName) -> None:
    """Reading, making, cleaning up and verifying say which file is gone, and drop nothing."""
    path = reference_path(MANIFEST, DEV)
    repo = worlds.open_world(world)
    for call in (
        lambda: repo.snapshot(name),
        lambda: repo.create_branch(name),
        lambda: repo.cleanup(CleanupRequest(policy=RetentionPolicy(keep=1)), lambda _: None),
    ):
        with pytest.raises(Corrupt) as caught:
            call()
        assert caught.value.details["path"] == path
    flaws = list(MetadataVerifier(repo).flaws())
    assert [flaw.place for flaw in flaws] == [path]
    assert not flaws[0].is_harmless


@every_tear
def test_a_torn_branch_is_in_the_way_of_no_other_of_its_name(world: Path, tear: Tear) -> None:
    repo = worlds.open_world(world)
    repo.create_branch(DEV)
    record = world / reference_path(MANIFEST, DEV)
    tear(record)
    repo = worlds.open_world(world)
    repo.create_branch(DEV)
    worlds.add(repo, {PERSON: ("d",)}, branch=DEV)
    repo.recover()
    assert [world / taken.path for taken in repo.set_aside()] == [record]
    assert repo.branches.list() == (DEV, "main")
    worlds.assert_in_order(worlds.open_world(world))


@every_tear
def test_a_branch_whose_only_version_is_torn_is_absent(world: Path, tear: Tear) -> None:
    repo = worlds.open_world(world)
    repo.create_branch(DEV)
    tear(version_file(world, repo.snapshot(DEV).manifest_version, DEV))
    reader = worlds.open_world(world, OpenMode.READ_ONLY)
    assert reader.branches.list() == ("main",)
    with pytest.raises(NotFound):
        reader.snapshot(DEV)
    repo = worlds.open_world(world)
    assert repo.branches.list() == ("main",)
    repo.create_branch(DEV)
    worlds.add(repo, {PERSON: ("d",)}, branch=DEV)
    worlds.assert_in_order(repo)


def test_a_branch_whose_files_are_gone_says_so(world: Path) -> None:
    repo = worlds.open_world(world)
    repo.create_branch(DEV)
    place = f"{MANIFEST}/tree/{repo.snapshot(DEV).fork}"
    shutil.rmtree(world / place)
    for mode in OpenMode:
        with pytest.raises(Corrupt) as caught:
            worlds.open_world(world, mode).snapshot(DEV)
        assert caught.value.details["path"] == place
    worlds.add(worlds.open_world(world), {PERSON: ("next",)})


@every_tear
def test_the_torn_fork_of_a_table_is_in_nobodys_way(world: Path, tear: Tear) -> None:
    """A branch's first write to a table forks it."""
    repo = worlds.open_world(world)
    repo.create_branch(DEV)
    repo.writable_table(repo.snapshot(DEV), PERSON)
    path = repo.snapshot(DEV).pin(PERSON).path
    (fork,) = repo.tables.fork_names(path)
    tear(world / reference_path(path, fork))
    repo = worlds.open_world(world)
    worlds.add(repo, {PERSON: ("d",)}, branch=DEV)
    repo.create_branch(OTHER)
    worlds.add(repo, {PERSON: ("o",)}, branch=OTHER)
    repo.delete_branch(DEV)
    assert "o" in worlds.rows_of(worlds.open_world(world), PERSON, OTHER)


@every_tear
def test_a_graph_that_was_never_finished_can_be_made(tmp_path: Path, tear: Tear) -> None:
    path = tmp_path / "graph"
    worlds.begin(path)
    tear(version_file(path, 1))
    with pytest.raises(NotFound):
        worlds.open_world(path)
    repo = worlds.begin(path)
    worlds.add(repo, {PERSON: ("p",)})
    worlds.assert_in_order(worlds.open_world(path))
