"""Optimizing: fewer fragments, indexes up to date, one commit, and nothing else."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from omnigraph.core.engine import Engine, OpenMode
from omnigraph.core.indices import ensure_indices
from omnigraph.dataplane.optimize import optimizer
from omnigraph.dataplane.optimize.optimizer import Optimizer
from omnigraph.dataplane.progress import Cancelled, Monitor, Progress
from omnigraph.dataplane.run.inprocess import InProcessRunner
from omnigraph.dataplane.run.runner import EngineName
from omnigraph.errors import Code, Conflict, Forbidden, GraphError
from omnigraph.runtime import telemetry
from omnigraph.runtime.failpoints import Refuse, armed
from omnigraph.store.calls import StorageCall
from omnigraph.store.root import Root
from omnigraph.store.shape import read_shape
from omnigraph.testing import worlds
from omnigraph.types import MAIN, BranchName
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
def engine(tmp_path: Path) -> Engine:
    """Documents in three fragments, and citations in two."""
    engine = make(Root.parse(str(tmp_path / "g")), SCHEMA)
    write(engine, {DOC: docs(0, 1, 2), CITES: cites((0, 1))})
    write(engine, {DOC: docs(3, 4), CITES: cites((1, 2))})
    write(engine, {DOC: docs(5)})
    return engine


def identities(engine: Engine, key: str, branch: BranchName = MAIN) -> dict[str, tuple[int, ...]]:
    read = table_of(engine, key, branch).read(["id"], row_id=True, versions=True).to_pylist()
    names = ("_rowid", "_row_created_at_version", "_row_last_updated_at_version")
    return {row["id"]: tuple(row[name] for name in names) for row in read}


# ---------------------------------------------------------------- what it does


@pytest.mark.parametrize("runner", [InProcessRunner(1), InProcessRunner(4), PicklingRunner()])
def test_one_commit_puts_everything_in_order(
    engine: Engine, tmp_path: Path, runner: PicklingRunner | InProcessRunner
) -> None:
    before = {key: (rows(engine, key), identities(engine, key)) for key in (DOC, CITES)}
    commits = len(list(engine.commits()))
    done = optimize(engine, runner=runner, actor="keeper")
    assert done.published is not None
    assert (done.published.commit.kind, done.published.commit.actor) == ("optimize", "keeper")
    assert len(list(engine.commits())) == commits + 1
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
    assert fragments(engine, DOC) == fragments(engine, CITES) == 1
    assert {key: (rows(engine, key), identities(engine, key)) for key in (DOC, CITES)} == before
    check_indexes(table_of(engine, DOC))
    audit(engine)
    audit(reopen(engine.root))
    assert litter(tmp_path) == []


def test_a_second_time_there_is_nothing_to_do(engine: Engine) -> None:
    optimize(engine)
    engine.snapshot()
    with telemetry.counting() as counts:
        done = optimize(engine)
    assert done.published is None
    assert done.indexes == ()
    assert done.fragments == {DOC: (1, 1), CITES: (1, 1)}
    # One look at the branch, and one at each table. No row is read.
    assert counts.snapshot() == {"table.head": 1, "table.open": 2, "table.index": 2}


def test_new_rows_are_folded_into_the_indexes(engine: Engine) -> None:
    optimize(engine)
    write(engine, {DOC: docs(6)})
    few = 100  # as if six rows were many
    done = optimize(engine, target_rows=few)
    (doc,) = [each for each in done.tables if each.table_key == DOC]
    assert doc.built == ()
    assert len(doc.folded) == 7
    assert doc.fragments_after == 2  # one row is not worth rewriting six
    assert {len(read_shape(table_of(engine, DOC)).of(name)) for name in doc.folded} == {2}
    assert [each.table_key for each in done.tables if each.folded] == [DOC]
    check_indexes(table_of(engine, DOC))
    assert optimize(engine, target_rows=few).published is None


def test_empty_tables_and_columns_without_vectors_wait(tmp_path: Path) -> None:
    engine = make(Root.parse(str(tmp_path / "g")), SCHEMA)
    assert optimize(engine).published is None
    write(engine, {DOC: docs(0, 1, vectors=False)})
    done = optimize(engine)
    assert done.published is not None
    found = {(item.table_key, item.column, item.reason) for item in done.pending}
    assert (DOC, "vector", "no entity has a vector") in found
    assert (CITES, "id", "the table is empty") in found
    write(engine, {DOC: docs(2, 3)})
    assert (DOC, "vector_vector") in optimize(engine).indexes
    write(engine, {DOC: docs(4, vectors=False)})
    done = optimize(engine)
    assert (DOC, "id_ordered") in done.indexes
    assert (DOC, "vector_vector") not in done.indexes
    assert optimize(engine).published is None


def test_fragments_of_mostly_deleted_rows_are_rewritten(engine: Engine) -> None:
    write(engine, {DOC: docs(*range(6, 40))})
    optimize(engine)
    write(engine, {DOC: Delta(delete=[f"d{n}" for n in range(20)])})
    done = optimize(engine)
    assert done.published is not None
    assert sum(each.deleted for each in read_shape(table_of(engine, DOC)).fragments) == 0
    check_indexes(table_of(engine, DOC))
    assert optimize(engine).published is None


def test_a_few_updated_rows_do_not_cost_a_whole_word_index(engine: Engine) -> None:
    write(engine, {DOC: docs(*range(6, 40))})
    few = 100
    optimize(engine, target_rows=few)
    write(engine, {DOC: Delta(update=redone(7, generation=1))})
    done = optimize(engine, target_rows=few)
    assert {(DOC, "title_ordered"), (DOC, "vector_vector")} <= set(done.indexes)
    assert (DOC, "title_text") not in done.indexes
    check_indexes(table_of(engine, DOC), whole=False)
    assert optimize(engine, target_rows=few).published is None
    write(engine, {DOC: Delta(update=redone(8, 9, 10, generation=1))})
    assert (DOC, "title_text") in optimize(engine, target_rows=few).indexes
    check_indexes(table_of(engine, DOC))


def test_what_is_missing_is_also_found_by_those_who_only_build_indexes(engine: Engine) -> None:
    optimize(engine)
    assert ensure_indices(engine).published is None


@pytest.mark.parametrize("seed", range(6))
def test_searches_stay_right_whatever_happened_before(tmp_path: Path, seed: int) -> None:
    """Rounds of inserts, updates and deletes, on the main branch and on a fork of it."""
    dice = np.random.default_rng(seed)

    def some(numbers: set[int], *counts: int) -> list[int]:
        size = min(len(numbers), int(dice.choice(counts)))
        return [int(each) for each in dice.choice(sorted(numbers), size, replace=False)]

    engine = make(Root.parse(str(tmp_path / "g")), SCHEMA)
    write(engine, {DOC: docs(*range(12))})
    known, branch = set(range(12)), MAIN
    for generation in range(1, 9):
        if generation == 5:
            engine.create_branch(DEV)
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
        write(engine, {DOC: change}, branch=branch)
        if dice.random() < 0.7:
            before = rows(engine, DOC, engine.snapshot(branch)), identities(engine, DOC, branch)
            optimize(engine, branch, target_rows=int(dice.choice([16, 128])))
            after = rows(engine, DOC, engine.snapshot(branch)), identities(engine, DOC, branch)
            assert after == before
            check_indexes(table_of(engine, DOC, branch), whole=False)
    optimize(engine, branch)
    check_indexes(table_of(engine, DOC, branch))
    audit(engine)


# ---------------------------------------------------------------- history and branches


def test_the_past_stays_readable(engine: Engine) -> None:
    before = engine.snapshot()
    was = rows(engine, DOC, before)
    optimize(engine)
    write(engine, {DOC: docs(7)})
    optimize(engine)
    past = engine.snapshot_at(before.head)
    assert past.tables == before.tables
    assert rows(reopen(engine.root), DOC, past) == was


def test_a_branch_is_optimized_by_itself(engine: Engine) -> None:
    engine.create_branch(DEV)
    main = engine.snapshot()
    assert optimize(engine, DEV).published is None  # everything is still the other branch's
    write(engine, {DOC: docs(6, 7)}, branch=DEV)
    done = optimize(engine, DEV)
    assert done.fragments == {DOC: (4, 1)}
    assert engine.snapshot().tables == main.tables
    assert fragments(engine, DOC) == 3
    check_indexes(table_of(engine, DOC, DEV))
    optimize(engine)
    assert rows(engine, DOC, engine.snapshot(DEV)).keys() - rows(engine, DOC).keys() == {"d6", "d7"}
    audit(engine)


def test_reading_only_does_not_do(engine: Engine) -> None:
    with pytest.raises(Forbidden):
        optimize(reopen(engine.root, OpenMode.READ_ONLY))


# ---------------------------------------------------------------- others, and failures


def test_whoever_writes_meanwhile_wins_and_only_that_table_is_done_again(engine: Engine) -> None:
    pending = [docs(6)]

    def interfere() -> None:
        if pending:
            write(engine, {DOC: pending.pop()})

    with telemetry.counting() as counts:
        done = optimize(engine, runner=InterruptedRunner("index", interfere))
    assert done.published is not None
    assert counts.snapshot()["optimize.again"] == 1
    assert counts.snapshot()["table.compact"] == 3  # documents twice, citations once
    assert "d6" in rows(engine, DOC)
    assert fragments(engine, DOC) == 1
    check_indexes(table_of(engine, DOC))
    audit(engine)


def test_a_graph_that_never_rests_is_given_up(engine: Engine, tmp_path: Path) -> None:
    numbers = iter(range(6, 1_000))
    before = len(list(engine.commits()))
    interference = InterruptedRunner("compact", lambda: write(engine, {DOC: docs(next(numbers))}))
    with pytest.raises(Conflict) as caught:
        optimize(engine, runner=interference)
    assert caught.value.code is Code.EXPECTED_VERSION_MISMATCH
    kinds = [commit.kind for commit in list(engine.commits())[:-before]]
    assert set(kinds) == {"mutation"}
    assert len(kinds) > optimizer.RETRIES
    assert litter(tmp_path) == []
    audit(engine)


def test_it_can_be_stopped(engine: Engine, tmp_path: Path) -> None:
    head = engine.snapshot().head
    monitor = Monitor("optimize", EngineName.INPROCESS, "", engine.clock)
    runner = InterruptedRunner("index", monitor.stop)
    with pytest.raises(Cancelled):
        Optimizer(engine).optimize(MAIN, runner, monitor)
    assert engine.snapshot().head == head
    assert litter(tmp_path) == []
    audit(engine)


def failing() -> None:
    raise RuntimeError("a task fails")


def test_a_task_that_fails_leaves_nothing_visible(engine: Engine, tmp_path: Path) -> None:
    head = engine.snapshot().head
    for stage in ("compact", "index"):
        with pytest.raises(RuntimeError, match="a task fails"):
            optimize(engine, runner=InterruptedRunner(stage, failing))
    assert engine.snapshot().head == head
    assert litter(tmp_path) == []
    audit(engine)
    assert optimize(engine).published is not None


@pytest.mark.parametrize(
    "call", [StorageCall.TABLE_COMPACT, StorageCall.TABLE_DRAFT, StorageCall.TABLE_INDEX]
)
def test_trouble_with_storage_is_said_in_our_own_words(engine: Engine, call: StorageCall) -> None:
    head = engine.snapshot().head
    with pytest.raises(GraphError), armed({call: Refuse()}, nth=1):
        optimize(engine)
    assert engine.snapshot().head == head


def test_progress_tells_stages_tasks_and_rows(engine: Engine) -> None:
    seen: list[Progress] = []
    optimize(engine, listener=seen.append)
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


def test_its_size_is_known_beforehand(engine: Engine) -> None:
    assert Optimizer(engine).bytes(MAIN) == sum(
        each.bytes for key in (DOC, CITES) for each in read_shape(table_of(engine, key)).fragments
    )
    optimize(engine)
    assert Optimizer(engine).bytes(MAIN) == 0


def test_the_world_of_the_fault_tests_takes_three_commits(tmp_path: Path) -> None:
    """Or those tests would try less than they say."""
    action = worlds.ACTIONS["optimize"]
    worlds.make(tmp_path / "w")
    engine = worlds.open_world(tmp_path / "w")
    action.set_up(engine)
    versions: Callable[[], dict[str, int]] = lambda: {  # noqa: E731
        key: pin.version for key, pin in engine.snapshot().tables.items()
    }
    before = versions()
    assert action.run(engine) is not None
    moved = {key: version - before[key] for key, version in versions().items()}
    assert moved == {worlds.COMPANY: 3, worlds.KNOWS: 2, worlds.PERSON: 0}
