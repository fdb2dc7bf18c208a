"""What a load leaves behind: nothing, whether it is refused, beaten, killed or only slow."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from omnigraph.core import tuning
from omnigraph.core.failpoints import Fp
from omnigraph.core.journal.staging_areas import RECORD, Ending
from omnigraph.core.layout import STAGING
from omnigraph.core.locks.owner import Owner, this_process
from omnigraph.core.repository import Repository
from omnigraph.core.retry import RetryPolicy
from omnigraph.dataplane.run.inprocess import InProcessRunner
from omnigraph.dataplane.run.runner import Runner
from omnigraph.errors import Busy, Conflict
from omnigraph.runtime import failpoints
from omnigraph.runtime.failpoints import CRASH_STATUS, Crash
from omnigraph.store.io.storage_calls import StorageCall
from omnigraph.store.maintenance.orphan_files import OrphanFiles
from omnigraph.store.root import Root
from tests.faults.harness import children
from tests.graphs import Delta, audit, reopen, write
from tests.unit.dataplane.load.support import (
    COMPANY,
    KNOWS,
    PERSON,
    Lab,
    Line,
    PicklingRunner,
    company,
    edge,
    note,
    person,
)
from tests.unit.dataplane.load.test_commit import Meddling

LEASE_US = tuning.active.staging_lease_us
GRACE_US = tuning.active.lease_grace_us

RUNNERS = [InProcessRunner, PicklingRunner]
BLOB = "base64:" + "eHl6" * 40_000  # large enough to lie in a file of its own


def files(repo: Repository) -> set[str]:
    """The data and deletion files of all tables, and whatever is staged."""
    root = repo.root.local_path
    found = [each for name in ("nodes", "edges", STAGING) for each in (root / name).rglob("*")]
    kinds = ("data", "_deletions", STAGING)
    return {
        path.relative_to(root).as_posix()
        for path in found
        if path.is_file() and any(kind in path.parts for kind in kinds)
    }


def used(repo: Repository) -> set[str]:
    """The files that the newest versions refer to, with their blobs."""
    found: set[str] = set()
    for pin in repo.snapshot().tables.values():
        found |= OrphanFiles.files_of(repo.table(pin))
    blobs = {path.removesuffix(".lance") for path in found}
    return {path for path in files(repo) if path in found or path.rpartition("/")[0] in blobs}


def lines() -> list[Line]:
    people = [person(f"p{number}") for number in range(30)]
    friends = [edge("Knows", f"p{number}", "p0") for number in range(30)]
    return [*people, *friends, company("Acme"), note("n"), person("z", bio=BLOB)]


@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize("mode", ["append", "merge", "overwrite"])
def test_a_refused_load_leaves_nothing(lab: Lab, runner: type[Runner], mode: str) -> None:
    lab.load([person("Ada", bio=BLOB), company("Old"), edge("Knows", "Ada", "Ada")])
    before = files(lab.repo)
    bad = edge("Knows", "p1", "nobody")
    known = [person("Ada", age=3)] if mode == "merge" else []
    found = lab.violations([*lines(), *known, bad], mode, runner=runner(), split_bytes=300)
    assert "endpoint" in [each["rule"] for each in found]
    assert files(lab.repo) == before


@pytest.mark.parametrize("runner", RUNNERS)
def test_a_load_leaves_what_its_commit_refers_to(lab: Lab, runner: type[Runner]) -> None:
    """Every task of the second runner runs twice, and only one of them counts."""
    lab.load(lines(), runner=runner(), split_bytes=300)
    assert files(lab.repo) == used(lab.repo)
    before = files(lab.repo)
    changed = [person(f"p{number}", age=number) for number in range(30)]
    lab.load([*changed, person("new")], "merge", runner=runner(), split_bytes=300)
    assert files(lab.repo) - before == used(lab.repo) - before
    assert lab.rows(PERSON)["p3"]["age"] == 3
    audit(lab.repo)


def test_a_load_that_was_done_before_leaves_nothing(lab: Lab) -> None:
    terms: dict[str, Any] = {"idempotency_key": "once"}
    other = Lab(reopen(lab.repo.root), lab.folder, count=50)
    meddling = Meddling("read", lambda: other.load(lines(), **terms))
    assert lab.load(lines(), runner=meddling, **terms).replayed
    assert files(lab.repo) == used(lab.repo)


@pytest.mark.parametrize("mode", ["append", "merge"])
def test_a_load_that_others_beat_leaves_nothing(lab: Lab, mode: str) -> None:
    lab.load([company("Acme", size=1), *(person(f"q{number}") for number in range(3))])
    lab.repo.retry = RetryPolicy(retries=1)
    other = reopen(lab.repo.root)
    count = 0

    def meddle() -> None:
        nonlocal count
        count += 1
        write(other, {COMPANY: Delta(insert=[{"id": f"x{count}", "name": f"x{count}"}])})

    given = [company("New"), *([company("Acme", size=2)] if mode == "merge" else [])]
    meddling = Meddling("judge" if mode == "append" else "delete", meddle, times=9)
    with pytest.raises(Conflict):
        lab.load(given, mode, runner=meddling)
    table = lab.repo.table(lab.repo.snapshot().pin(COMPANY))
    assert len(lab.rows(COMPANY)) == 1 + count
    left = {path for path in files(lab.repo) if path.startswith(table.pin.path)}
    # Older versions refer to what was folded since.
    known: set[str] = set()
    for version in range(1, table.pin.version + 1):
        known |= OrphanFiles.files_of(lab.repo.tables.open(replace(table.pin, version=version)))
    assert left <= known


def test_an_interrupted_load_leaves_the_files_of_one_that_deletes_the_same_rows(lab: Lab) -> None:
    lab.load([person(f"p{number}", age=1) for number in range(5_000)])
    given = [person(f"p{number}", age=2) for number in range(0, 5_000, 10)]
    other = Lab(reopen(lab.repo.root), lab.folder, count=50)

    def interrupt() -> None:
        raise KeyboardInterrupt

    def meddle() -> None:
        with pytest.raises(KeyboardInterrupt):
            other.load(given, "merge", runner=Meddling("delete", interrupt))

    lab.load(given, "merge", runner=Meddling("delete", meddle))
    ages = [row["age"] for row in lab.rows(PERSON).values()]
    assert (len(ages), ages.count(2)) == (5_000, 500)
    audit(lab.repo)
    assert any("_deletions" in path for path in used(lab.repo))  # or this shows nothing
    assert files(lab.repo) == used(lab.repo)


# -- killed ----------------------------------------------------------------------------------------


def _die(root: str, source: str, mode: str, point: str, nth: int, remote: bool) -> None:
    lab = Lab(reopen(Root.parse(root)), Path(source), count=500)
    every = {str(each): each for each in failpoints.catalogued()}
    with failpoints.armed({every[point]: Crash()}, nth=nth):
        given = [*lines(), *([person("Ada", age=2)] if mode == "merge" else [])]
        runner = PicklingRunner() if remote else InProcessRunner(1)
        lab.load(given, mode, runner=runner, split_bytes=300, partitions=4)


@pytest.mark.parametrize("remote", [False, pytest.param(True, marks=pytest.mark.deep)])
@pytest.mark.parametrize(
    ("point", "nth"),
    [
        (StorageCall.TABLE_WRITE, 2),
        (StorageCall.TABLE_WRITE, 6),
        (StorageCall.TABLE_ERASE, 1),
        (Fp.STAGED, 1),
        (Fp.ARMED, 1),
        (Fp.LANDED_ONE, 1),
        (Fp.LANDED, 1),
        (Fp.PUBLISHED, 1),
    ],
)
def test_what_a_killed_load_left_is_swept_by_whoever_opens_the_graph(
    lab: Lab, point: Any, nth: int, remote: bool
) -> None:
    lab.load([person("Ada"), edge("Knows", "Ada", "Ada")])
    before = files(lab.repo)
    args = (lab.repo.root.uri, str(lab.folder), "merge", str(point), nth, remote)
    child = children.Process(target=_die, args=args)
    child.start()
    child.join()
    assert child.exitcode == CRASH_STATUS
    repo = reopen(lab.repo.root)
    new = files(repo) - before
    assert not any(path.startswith(STAGING) for path in new)
    is_done = len(Lab(repo, lab.folder).rows(PERSON)) > 1
    assert is_done is (point in (Fp.LANDED, Fp.PUBLISHED))
    known = used(repo)
    for pin in repo.snapshot().tables.values():
        for version in range(1, repo.tables.head(pin.path, pin.table_branch) + 1):
            at = replace(repo.table(pin).pin, version=version)
            known |= OrphanFiles.files_of(repo.tables.open(at))
    blobs = {path.removesuffix(".lance") for path in known}
    left = {path for path in new if path not in known and path.rpartition("/")[0] not in blobs}
    # Lance writes tables with blobs itself, under names of its own, noted once they are whole.
    assert {path for path in left if _plain(repo, path)} == set()
    audit(repo)
    Lab(repo, lab.folder, count=900).load(lines(), "merge")
    assert len(Lab(repo, lab.folder).rows(KNOWS)) >= 31


def _plain(repo: Repository, path: str) -> bool:
    return not path.startswith(repo.snapshot().pin(PERSON).path)


# -- who may sweep ---------------------------------------------------------------------------------


def area_of(repo: Repository, owner: Owner, name: str | None = None) -> str:
    """Stage something on behalf of an owner."""
    operation = name or repo.ids.new()
    pin = repo.table(repo.snapshot().pin(COMPANY)).pin
    area = repo.areas.begin(operation)
    area.add_tables([pin])
    folder = repo.root.local_path
    record = json.loads((folder / STAGING / operation / RECORD).read_bytes())
    record["owner"] = owner.to_json()
    (folder / STAGING / operation / RECORD).write_text(json.dumps(record))
    (folder / STAGING / operation / "keys.arrow").write_bytes(b"x")
    (folder / pin.path / "data" / f"{operation}-1.lance").write_bytes(b"x")
    repo.areas.liveness.live.end(operation)
    return operation


def left_of(repo: Repository, operation: str) -> int:
    return sum(operation in path for path in files(repo))


@pytest.fixture
def stocked(lab: Lab) -> Lab:
    lab.load([company("Acme")])
    return lab


def test_the_area_of_a_process_that_runs_is_left_alone(stocked: Lab) -> None:
    parent = os.getppid()
    stat = Path(f"/proc/{parent}/stat").read_text()
    started = stat.rpartition(")")[2].split()[19]
    owner = replace(this_process(0), process=parent, started=started)
    running = area_of(stocked.repo, owner)
    ended = area_of(stocked.repo, replace(owner, started="1"))
    reopen(stocked.repo.root)
    assert (left_of(stocked.repo, running), left_of(stocked.repo, ended)) == (3, 0)
    assert set(stocked.rows(COMPANY)) == {"Acme"}


def test_an_owner_elsewhere_has_its_lease_by_the_time_of_the_store(stocked: Lab) -> None:
    owner = replace(this_process(0, LEASE_US), machine="another")
    operation = area_of(stocked.repo, owner)
    path = stocked.repo.root.local_path / STAGING / operation / RECORD
    assert reopen(stocked.repo.root).areas.sweep() == 0
    assert left_of(stocked.repo, operation) == 3
    stat = path.stat()
    age_ns = (LEASE_US + GRACE_US) * 1_000
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns - age_ns + 20_000_000_000))
    reopen(stocked.repo.root)
    assert left_of(stocked.repo, operation) == 3
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns - age_ns - 1_000_000_000))
    reopen(stocked.repo.root)
    assert left_of(stocked.repo, operation) == 0


def test_the_own_loads_of_a_process_are_live_while_they_run(stocked: Lab) -> None:
    other = reopen(stocked.repo.root)
    seen: list[int] = []
    meddling = Meddling("judge", lambda: seen.append(other.areas.sweep()))
    stocked.load(lines(), "merge", runner=meddling)
    assert seen == [0]
    assert len(stocked.rows(PERSON)) == 31


@pytest.mark.parametrize("runner", [Meddling, PicklingRunner])
def test_a_load_that_was_taken_for_dead_is_refused(lab: Lab, runner: type[Any]) -> None:
    """It wakes up when another process has swept its area, wholly or in part."""

    def sweep() -> None:
        (operation,) = os.listdir(lab.repo.root.local_path / STAGING)
        place = lab.repo.root.local_path / STAGING / operation / RECORD
        record = json.loads(place.read_bytes())
        record["owner"] |= {"process": 1 << 22, "machine": this_process(0).machine}
        place.write_text(json.dumps(record))
        lab.repo.areas.liveness.live.end(operation)
        assert reopen(lab.repo.root) is not None

    before = files(lab.repo)
    with pytest.raises(Busy, match="try again"):
        lab.load(lines(), runner=Meddling("judge", sweep))
    assert files(lab.repo) == before
    assert not lab.rows(PERSON)


def test_whoever_is_first_decides(stocked: Lab) -> None:
    areas = stocked.repo.areas
    area = areas.begin(operation := stocked.repo.ids.new())
    assert areas.decide(operation, b"sweep")
    assert areas.decide(operation, b"sweep")  # a second one goes on with it
    with pytest.raises(Busy):
        area.decide()
    area.end(Ending.UNCLEAR)
    one = areas.begin(operation := stocked.repo.ids.new())
    one.decide()
    one.decide()
    assert not areas.decide(operation, b"sweep")
    one.end(Ending.UNCLEAR)
    assert left_of(stocked.repo, operation) == 2
    # It is this process that gave it up: nothing of it can come any more, but nobody can tell.
    assert areas.sweep() == 1
    assert left_of(stocked.repo, operation) == 0


def test_a_killed_load_that_was_committed_keeps_its_files(stocked: Lab) -> None:
    """Dead between its commit and the removal of its area, with every file in use."""
    dead = replace(this_process(0), process=1 << 22)
    (name,) = [path for path in used(stocked.repo) if "/data/" in path]
    operation = name.rpartition("/")[2].partition("-")[0]
    for decided in (b"commit x", None):
        folder = stocked.repo.root.local_path / STAGING / operation
        pin = stocked.repo.table(stocked.repo.snapshot().pin(COMPANY)).pin
        folder.mkdir(parents=True)
        tables = [[pin.path, pin.version - 1, pin.branch]]
        record = {"owner": dead.to_json(), "tables": tables, "folder": None}
        (folder / RECORD).write_text(json.dumps(record))
        if decided is not None:
            (folder / "decided").write_bytes(decided)
        reopen(stocked.repo.root)
        assert not folder.exists()
        assert (stocked.repo.root.local_path / name).exists()
    assert set(stocked.rows(COMPANY)) == {"Acme"}


def test_what_has_no_record_was_swept_before(stocked: Lab) -> None:
    folder = stocked.repo.root.local_path / STAGING / stocked.repo.ids.new()
    folder.mkdir(parents=True)
    (folder / "late.arrow").write_bytes(b"x")
    kept = folder.with_name("not ours")
    kept.mkdir()
    reopen(stocked.repo.root)
    assert not folder.exists()
    assert kept.exists()
