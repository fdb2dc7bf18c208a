"""Optimizing: fewer fragments, indexes up to date, one commit, and nothing else."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from omnigraph.core.maintenance.indices import ensure_indices
from omnigraph.core.repository import OpenMode, Repository
from omnigraph.dataplane.optimize.optimizer import Optimizer
from omnigraph.dataplane.progress import Monitor, Progress, StopRequested
from omnigraph.dataplane.run.inprocess import InProcessRunner
from omnigraph.errors import Code, Conflict, Forbidden, GraphError
from omnigraph.runtime import telemetry
from omnigraph.runtime.failpoints import Refuse, armed
from omnigraph.store.io.storage_calls import StorageCall
from omnigraph.store.maintenance.shape import read_shape
from omnigraph.store.root import Root
from omnigraph.types import MAIN, BranchName
from tests.faults import worlds
from tests.graphs import Delta, audit, make, reopen, rows, write
from tests.unit.dataplane.optimize.optimizing import (
    CITES,
    DOC,
    SCHEMA,
    InterruptedRunner,
    PicklingRunner,
    check_indexes,
    cites,
    docs,
    fragments,
    litter,
    optimize,
    redone,
    table_of,
)

DEV = BranchName("dev")


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    """Documents in three fragments, and citations in two."""
    repo = make(Root.parse(str(tmp_path / "g")), SCHEMA)
    write(repo, {DOC: docs(0, 1, 2), CITES: cites((0, 1))})
    write(repo, {DOC: docs(3, 4), CITES: cites((1, 2))})
    write(repo, {DOC: docs(5)})
    return repo


def identities(repo: Repository, key: str, branch: BranchName = MAIN) -> dict[str, tuple[int, ...]]:
    read = table_of(repo, key, branch).read(["id"], row_id=True, versions=True).to_pylist()
    names = ("_rowid", "_row_created_at_version", "_row_last_updated_at_version")
    return {row["id"]: tuple(row[name] for name in names) for row in read}


# ---------------------------------------------------------------- what it does


@pytest.mark.parametrize("runner", [InProcessRunner(1), InProcessRunner(4), PicklingRunner()])
def test_one_commit_puts_everything_in_order(
    repo: Repository, tmp_path: Path, runner: PicklingRunner | InProcessRunner
) -> None:
    before = {key: (rows(repo, key), identities(repo, key)) for key in (DOC, CITES)}
    commits = len(list(repo.commits()))
    done = optimize(repo, runner=runner, actor="keeper")
    assert done.published is not None
    assert (done.published.commit.kind, done.published.commit.actor) == ("optimize", "keeper")
    assert len(list(repo.commits())) == commits + 1
    assert done.fragments == {DOC: (3, 1), CITES: (2, 1)}
    (doc,) = [each for each in done.tables if each.table_key == DOC]
    assert set(doc.built) == {
        "id_ordered",
        "slug_ordered",
        "slug_text",
        "title_ordered",
        "title_text",
        "vector_vector",
        "year_ordered",
    }
    assert (doc.folded, done.pending) == ((), ())
    assert fragments(repo, DOC) == fragments(repo, CITES) == 1
    assert {key: (rows(repo, key), identities(repo, key)) for key in (DOC, CITES)} == before
    check_indexes(table_of(repo, DOC))
    audit(repo)
    audit(reopen(repo.root))
    assert litter(tmp_path) == []


def test_a_second_time_there_is_nothing_to_do(repo: Repository) -> None:
    optimize(repo)
    repo.snapshot()
    with telemetry.counting() as counts:
        done = optimize(repo)
    assert done.published is None
    assert done.indexes == ()
    assert done.fragments == {DOC: (1, 1), CITES: (1, 1)}
    # One look at the branch, and one at each table. No row is read.
    assert counts.snapshot() == {"table.head": 1, "table.open": 2, "table.index": 2}


def test_new_rows_are_folded_into_the_indexes(repo: Repository) -> None:
    optimize(repo)
    write(repo, {DOC: docs(6)})
    few = 100  # as if six rows were many
    done = optimize(repo, target_rows=few)
    (doc,) = [each for each in done.tables if each.table_key == DOC]
    assert doc.built == ()
    assert len(doc.folded) == 7
    assert doc.fragments_after == 2  # one row is not worth rewriting six
    assert {len(read_shape(table_of(repo, DOC)).of(name)) for name in doc.folded} == {2}
    assert [each.table_key for each in done.tables if each.folded] == [DOC]
    check_indexes(table_of(repo, DOC))
    assert optimize(repo, target_rows=few).published is None


def test_empty_tables_and_columns_without_vectors_wait(tmp_path: Path) -> None:
    repo = make(Root.parse(str(tmp_path / "g")), SCHEMA)
    assert optimize(repo).published is None
    write(repo, {DOC: docs(0, 1, vectors=False)})
    done = optimize(repo)
    assert done.published is not None
    found = {(item.table_key, item.column, item.reason) for item in done.pending}
    assert (DOC, "vector", "no entity has a vector") in found
    assert (CITES, "id", "the table is empty") in found
    write(repo, {DOC: docs(2, 3)})
    assert (DOC, "vector_vector") in optimize(repo).indexes
    write(repo, {DOC: docs(4, vectors=False)})
    done = optimize(repo)
    assert (DOC, "id_ordered") in done.indexes
    assert (DOC, "vector_vector") not in done.indexes
    assert optimize(repo).published is None


def test_fragments_of_mostly_deleted_rows_are_rewritten(repo: Repository) -> None:
    write(repo, {DOC: docs(*range(6, 40))})
    optimize(repo)
    write(repo, {DOC: Delta(delete=[f"d{n}" for n in range(20)])})
    done = optimize(repo)
    assert done.published is not None
    assert sum(each.deleted for each in read_shape(table_of(repo, DOC)).fragments) == 0
    check_indexes(table_of(repo, DOC))
    assert optimize(repo).published is None


def test_a_few_updated_rows_do_not_cost_a_whole_word_index(repo: Repository) -> None:
    write(repo, {DOC: docs(*range(6, 40))})
    few = 100
    optimize(repo, target_rows=few)
    write(repo, {DOC: Delta(update=redone(7, generation=1))})
    done = optimize(repo, target_rows=few)
    assert {(DOC, "title_ordered"), (DOC, "vector_vector")} <= set(done.indexes)
    assert (DOC, "title_text") not in done.indexes
    check_indexes(table_of(repo, DOC), whole=False)
    assert optimize(repo, target_rows=few).published is None
    write(repo, {DOC: Delta(update=redone(8, 9, 10, generation=1))})
    assert (DOC, "title_text") in optimize(repo, target_rows=few).indexes
    check_indexes(table_of(repo, DOC))


def test_what_is_missing_is_also_found_by_those_who_only_build_indexes(repo: Repository) -> None:
    optimize(repo)
    assert ensure_indices(repo).published is None


@pytest.mark.parametrize("seed", range(6))
def test_searches_stay_right_whatever_happened_before(tmp_path: Path, seed: int) -> None:
    """Rounds of inserts, updates and deletes, on the main branch and on a fork of it."""
    dice = np.random.default_rng(seed)

    def some(numbers: set[int], *counts: int) -> list[int]:
        size = min(len(numbers), int(dice.choice(counts)))
        return [int(each) for each in dice.choice(sorted(numbers), size, replace=False)]

    repo = make(Root.parse(str(tmp_path / "g")), SCHEMA)
    write(repo, {DOC: docs(*range(12))})
    known, branch = set(range(12)), MAIN
    for generation in range(1, 9):
        if generation == 5:
            repo.create_branch(DEV)
            branch = DEV
        updated = some(known, 0, 0, 1, 5)
        deleted = some(known.difference(updated), 0, 1, 4)
        fresh = some(set(range(45)) - known, 1, 1, 2, 9)
        change = Delta(
            insert=docs(*fresh, generation=generation % 4).insert,
            update=redone(*updated, generation=generation % 4),
            delete=[f"d{number}" for number in deleted],
        )
        known = known.difference(deleted).union(fresh)
        write(repo, {DOC: change}, branch=branch)
        if dice.random() < 0.7:
            before = rows(repo, DOC, repo.snapshot(branch)), identities(repo, DOC, branch)
            optimize(repo, branch, target_rows=int(dice.choice([16, 128])))
            after = rows(repo, DOC, repo.snapshot(branch)), identities(repo, DOC, branch)
            assert after == before
            check_indexes(table_of(repo, DOC, branch), whole=False)
    optimize(repo, branch)
    check_indexes(table_of(repo, DOC, branch))
    audit(repo)


# ---------------------------------------------------------------- history and branches


def test_the_past_stays_readable(repo: Repository) -> None:
    before = repo.snapshot()
    was = rows(repo, DOC, before)
    optimize(repo)
    write(repo, {DOC: docs(7)})
    optimize(repo)
    past = repo.snapshot_at(before.head)
    assert past.tables == before.tables
    assert rows(reopen(repo.root), DOC, past) == was


def test_a_branch_is_optimized_by_itself(repo: Repository) -> None:
    repo.create_branch(DEV)
    main = repo.snapshot()
    assert optimize(repo, DEV).published is None  # everything is still the other branch's
    write(repo, {DOC: docs(6, 7)}, branch=DEV)
    done = optimize(repo, DEV)
    assert done.fragments == {DOC: (4, 1)}
    assert repo.snapshot().tables == main.tables
    assert fragments(repo, DOC) == 3
    check_indexes(table_of(repo, DOC, DEV))
    optimize(repo)
    assert rows(repo, DOC, repo.snapshot(DEV)).keys() - rows(repo, DOC).keys() == {"d6", "d7"}
    audit(repo)


def test_reading_only_does_not_do(repo: Repository) -> None:
    with pytest.raises(Forbidden):
        optimize(reopen(repo.root, OpenMode.READ_ONLY))


# ---------------------------------------------------------------- others, and failures


def test_whoever_writes_meanwhile_wins_and_only_that_table_is_done_again(repo: Repository) -> None:
    pending = [docs(6)]

    def interfere() -> None:
        if pending:
            write(repo, {DOC: pending.pop()})

    with telemetry.counting() as counts:
        done = optimize(repo, runner=InterruptedRunner("index", interfere))
    assert done.published is not None
    assert counts.snapshot()["optimize.again"] == 1
    assert counts.snapshot()["table.compact"] == 3  # documents twice, citations once
    assert "d6" in rows(repo, DOC)
    assert fragments(repo, DOC) == 1
    check_indexes(table_of(repo, DOC))
    audit(repo)


def test_a_graph_that_never_rests_is_given_up(repo: Repository, tmp_path: Path) -> None:
    numbers = iter(range(6, 1_000))
    before = len(list(repo.commits()))
    interference = InterruptedRunner("compact", lambda: write(repo, {DOC: docs(next(numbers))}))
    with pytest.raises(Conflict) as caught:
        optimize(repo, runner=interference)
    assert caught.value.code is Code.EXPECTED_VERSION_MISMATCH
    kinds = [commit.kind for commit in list(repo.commits())[:-before]]
    assert set(kinds) == {"mutation"}
    assert len(kinds) > repo.retry.long_retries
    assert caught.value.details["attempts"] == repo.retry.long_retries + 1
    assert litter(tmp_path) == []
    audit(repo)


def test_it_can_be_stopped(repo: Repository, tmp_path: Path) -> None:
    head = repo.snapshot().head
    monitor = Monitor("optimize", "inprocess", "", repo.clock)
    runner = InterruptedRunner("index", monitor.stop)
    with pytest.raises(StopRequested):
        Optimizer(repo).optimize(repo.snapshot(MAIN), runner, monitor)
    assert repo.snapshot().head == head
    assert litter(tmp_path) == []
    audit(repo)


def failing() -> None:
    raise RuntimeError("a task fails")


def test_a_task_that_fails_leaves_nothing_visible(repo: Repository, tmp_path: Path) -> None:
    head = repo.snapshot().head
    for stage in ("compact", "index"):
        with pytest.raises(RuntimeError, match="a task fails"):
            optimize(repo, runner=InterruptedRunner(stage, failing))
    assert repo.snapshot().head == head
    assert litter(tmp_path) == []
    audit(repo)
    assert optimize(repo).published is not None


@pytest.mark.parametrize(
    "call", [StorageCall.TABLE_COMPACT, StorageCall.TABLE_DRAFT, StorageCall.TABLE_INDEX]
)
def test_trouble_with_storage_is_said_in_our_own_words(repo: Repository, call: StorageCall) -> None:
    head = repo.snapshot().head
    with pytest.raises(GraphError), armed({call: Refuse()}, nth=1):
        optimize(repo)
    assert repo.snapshot().head == head


def test_progress_tells_stages_tasks_and_rows(repo: Repository) -> None:
    seen: list[Progress] = []
    optimize(repo, listener=seen.append)
    assert list(dict.fromkeys(each.stage for each in seen)) == [
        "plan",
        "compact",
        "index",
        "commit",
    ]
    compact = [each for each in seen if each.stage == "compact"]
    assert [each.tasks_done for each in compact] == [0, 1, 2]
    assert compact[-1].rows == 8
    index = [each for each in seen if each.stage == "index"]
    assert index[-1].tasks_done == index[-1].tasks == 11


def test_its_size_is_known_beforehand(repo: Repository) -> None:
    assert Optimizer(repo).bytes(repo.snapshot(MAIN)) == sum(
        each.bytes for key in (DOC, CITES) for each in read_shape(table_of(repo, key)).fragments
    )
    optimize(repo)
    assert Optimizer(repo).bytes(repo.snapshot(MAIN)) == 0


def test_the_world_of_the_fault_tests_takes_three_commits(tmp_path: Path) -> None:
    """Or those tests would try less than they say."""
    action = worlds.ACTIONS["optimize"]
    worlds.make(tmp_path / "w")
    repo = worlds.open_world(tmp_path / "w")
    action.set_up(repo)
    versions: Callable[[], dict[str, int]] = lambda: {  # noqa: E731
        key: pin.version for key, pin in repo.snapshot().tables.items()
    }
    before = versions()
    assert action.run(repo) is not None
    moved = {key: version - before[key] for key, version in versions().items()}
    assert moved == {worlds.COMPANY: 3, worlds.KNOWS: 2, worlds.PERSON: 0}
