"""One commit or none: branches, repeated calls, and others who write at the same time."""

import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import pytest

from omnigraph.core.repository import OpenMode, Repository
from omnigraph.core.retry import RetryPolicy
from omnigraph.dataplane.counts import Counts
from omnigraph.dataplane.progress import Monitor, Progress, StopRequested
from omnigraph.dataplane.run.inprocess import InProcessRunner
from omnigraph.errors import (
    Code,
    Conflict,
    ConstraintViolated,
    Forbidden,
    NotFound,
)
from omnigraph.types import MAIN, BranchName
from tests.graphs import Delta, audit, chain, reopen, write
from tests.unit.dataplane.load.support import (
    COMPANY,
    KNOWS,
    NOTE,
    PERSON,
    Item,
    Lab,
    PicklingRunner,
    Result,
    company,
    edge,
    note,
    person,
)

DEV = BranchName("dev")


class Meddling:
    """Runs tasks in this process, and lets somebody else write before a stage, once."""

    is_remote = False
    parallelism = 1

    def __init__(self, stage: str, meddle: Callable[[], object], times: int = 1) -> None:
        self._stage, self._meddle, self._left = stage, meddle, times
        self.stages: list[str] = []

    def run(
        self, stage: str, task: Callable[[Item], Result], items: Sequence[Item]
    ) -> Iterator[tuple[int, Result]]:
        self.stages.append(stage)
        for number, item in enumerate(items):
            yield number, task(item)
        if stage == self._stage and self._left:
            self._left -= 1
            self._meddle()


# -- branches --------------------------------------------------------------------------------------


@pytest.mark.parametrize("runner", [InProcessRunner(2), PicklingRunner()])
def test_loading_into_a_branch(lab: Lab, runner: Any) -> None:
    lab.load([person("Ada"), company("Acme")])
    lab.repo.create_branch(DEV)
    main = lab.repo.snapshot()
    lab.load([person("Bo"), edge("Knows", "Bo", "Ada")], branch=DEV, runner=runner)
    lab.load([person("Ada", age=3)], "merge", branch=DEV, runner=runner)
    lab.load([company("Other")], "overwrite", branch=DEV, runner=runner)
    assert lab.repo.snapshot().tables == main.tables
    assert {n: r["age"] for n, r in lab.rows(PERSON, DEV).items()} == {"Ada": 3, "Bo": None}
    assert (set(lab.rows(COMPANY, DEV)), lab.edges(KNOWS, DEV)) == ({"Other"}, [("Bo", "Ada")])
    audit(lab.repo)


def test_types_that_do_not_come_are_not_forked(lab: Lab) -> None:
    lab.load([person("Ada"), company("Acme")])
    lab.repo.create_branch(DEV)
    before = lab.repo.snapshot(DEV).tables
    lab.load([person("Bo")], branch=DEV)
    after = lab.repo.snapshot(DEV).tables
    assert {key for key in after if after[key] != before[key]} == {PERSON}
    tables = lab.repo.tables
    assert {key: len(tables.fork_names(pin.path)) for key, pin in before.items()} == {
        key: int(key == PERSON) for key in before
    }


@pytest.mark.parametrize("runner", [InProcessRunner(2), PicklingRunner()])
def test_a_branch_and_its_first_commit(lab: Lab, runner: Any) -> None:
    lab.load([person("Ada")])
    done = lab.load([person("Bo")], branch=DEV, create_from=MAIN, runner=runner)
    assert done.branch_created
    assert set(lab.rows(PERSON, DEV)) == {"Ada", "Bo"}
    assert set(lab.rows(PERSON)) == {"Ada"}
    # The branch is there now, so it is loaded into.
    done = lab.load([person("Cy")], branch=DEV, create_from=MAIN, runner=runner)
    assert not done.branch_created
    assert len(chain(lab.repo, DEV)) == len(chain(lab.repo)) + 2
    audit(lab.repo)


def test_a_refused_load_makes_no_branch(lab: Lab) -> None:
    lab.load([person("Ada")])
    with pytest.raises(ConstraintViolated):
        lab.load([person("Ada")], branch=DEV, create_from=MAIN)
    assert lab.repo.branches.list() == (MAIN,)
    assert lab.repo.intents.pending() == ()
    with pytest.raises(NotFound):
        lab.load([person("Bo")], branch=DEV)


# -- repeating -------------------------------------------------------------------------------------


def test_a_repeated_load_is_done_once(lab: Lab) -> None:
    lines = [person("Ada"), person("Bo"), edge("Knows", "Ada", "Bo")]
    first = lab.load(lines, idempotency_key="k", actor="me")
    head = lab.repo.snapshot().head
    # Done in earnest it would fail: the ids are taken.
    again = lab.load(lines, idempotency_key="k")
    assert (again.replayed, again.commit) == (True, first.commit)
    assert (again.counts, again.rows, again.bytes) == (first.counts, first.rows, first.bytes)
    assert again.counts[PERSON] == Counts(inserted=2)
    assert (lab.repo.snapshot().head, first.commit.actor) == (head, "me")
    assert (
        lab.load([], idempotency_key="empty").commit == lab.load([], idempotency_key="empty").commit
    )


def test_a_key_names_one_operation(lab: Lab) -> None:
    lab.load([person("Ada")], idempotency_key="k")
    # What the input holds is not looked at; what is done with it is.
    assert lab.load([person("Bo")], idempotency_key="k").replayed
    for mode, cascade in (("merge", False), ("overwrite", False), ("overwrite", True)):
        with pytest.raises(Conflict):
            lab.load([person("Ada")], mode, idempotency_key="k", cascade=cascade)


def test_a_branch_is_made_once(lab: Lab) -> None:
    terms: dict[str, Any] = {"branch": DEV, "create_from": MAIN, "idempotency_key": "k"}
    first = lab.load([person("Ada")], **terms)
    again = lab.load([person("Ada")], **terms)
    assert (again.replayed, again.branch_created, again.commit) == (True, True, first.commit)


# -- others ----------------------------------------------------------------------------------------


def test_what_others_add_is_judged_too(lab: Lab) -> None:
    lab.load([company("Acme")])
    other = reopen(lab.repo.root)
    row = {"id": "Ada", "name": "Ada", "role": "guest"}
    meddling = Meddling("judge", lambda: write(other, {PERSON: Delta(insert=[row])}))
    with pytest.raises(ConstraintViolated) as caught:
        lab.load([person("Ada")], runner=meddling)
    assert [v["rule"] for v in caught.value.violations] == ["key"]
    assert meddling.stages == ["read", "judge", "judge"]


def test_an_append_goes_on_where_others_left(lab: Lab) -> None:
    other = reopen(lab.repo.root)
    names = iter("xyz")

    def meddle() -> None:
        name = next(names)
        write(other, {PERSON: Delta(insert=[{"id": name, "name": name, "role": "guest"}])})

    meddling = Meddling("judge", meddle, times=3)
    done = lab.load([person("Ada"), edge("Knows", "Ada", "Ada")], runner=meddling)
    # It was read and written once.
    assert meddling.stages == ["read", *["judge"] * 4]
    assert done.counts[PERSON].inserted == 1
    assert set(lab.rows(PERSON)) == {"Ada", "x", "y", "z"}
    audit(lab.repo)


def test_edges_see_nodes_that_others_delete(lab: Lab) -> None:
    lab.load([person("Ada"), person("Bo")])
    other = reopen(lab.repo.root)
    meddling = Meddling("judge", lambda: write(other, {PERSON: Delta(delete=["Bo"])}))
    with pytest.raises(ConstraintViolated) as caught:
        lab.load([edge("Knows", "Ada", "Bo")], runner=meddling)
    assert [v["rule"] for v in caught.value.violations] == ["endpoint"]
    assert not lab.rows(KNOWS)


def test_a_merge_looks_again(lab: Lab) -> None:
    lab.load([note("a", id="n"), note("b", id="m")])
    other = reopen(lab.repo.root)
    meddling = Meddling(
        "judge",
        lambda: write(other, {NOTE: Delta(update={"n": {"tag": "theirs"}}, delete=["m"])}),
    )
    done = lab.load(
        [note(id="n", stars=9), note("new", id="m"), note("c")], "merge", runner=meddling
    )
    again = ["match", "write", "judge", "delete"]
    assert meddling.stages == ["read", *again, *again]
    assert done.counts[NOTE] == Counts(inserted=2, updated=1)
    notes = lab.rows(NOTE)
    assert (notes["n"]["stars"], notes["n"]["tag"], notes["m"]["text"]) == (9, "theirs", "new")
    audit(lab.repo)


def test_a_merge_that_took_a_type_for_empty_is_told(lab: Lab) -> None:
    other = reopen(lab.repo.root)
    row = {"id": "Bo", "name": "Bo", "role": "guest"}
    meddling = Meddling("judge", lambda: write(other, {PERSON: Delta(insert=[row])}))
    with pytest.raises(Conflict):
        lab.load([person("Ada")], "merge", runner=meddling)
    assert set(lab.rows(PERSON)) == {"Bo"}
    lab.load([person("Ada")], "merge")


def test_an_overwrite_is_not_repeated(lab: Lab) -> None:
    lab.load([person("Ada"), company("Acme")])
    other = reopen(lab.repo.root)
    # Neither of them is written; that edges are there is what was judged.
    edges = Delta(insert=[{"id": "k", "src": "Ada", "dst": "Ada"}])
    meddling = Meddling("judge", lambda: write(other, {KNOWS: edges}))
    with pytest.raises(Conflict) as caught:
        lab.load([person("Bo")], "overwrite", runner=meddling)
    assert caught.value.code == Code.EXPECTED_VERSION_MISMATCH
    assert set(lab.rows(PERSON)) == {"Ada"}


def test_attempts_are_bounded(lab: Lab) -> None:
    lab.repo.retry = RetryPolicy(retries=2)
    other = reopen(lab.repo.root)
    count = 0

    def meddle() -> None:
        nonlocal count
        count += 1
        name = f"x{count}"
        write(other, {COMPANY: Delta(insert=[{"id": name, "name": name}])})

    with pytest.raises(Conflict, match="attempt 3"):
        lab.load([company("Acme")], runner=Meddling("judge", meddle, times=100))
    assert count == 3


def test_loads_side_by_side(lab: Lab) -> None:
    """Of one id there is one winner; others do not get in each other's way."""
    engines = [reopen(lab.repo.root) for _ in range(4)]
    outcomes: list[str] = []

    def load(number: int, repo: Repository) -> None:
        mine = Lab(repo, lab.folder, count=100 * (number + 1))
        try:
            for part in range(3):
                mine.run(mine.request(mine.file([company(f"c{number}-{part}")])))
            mine.run(mine.request(mine.file([person("Ada", age=number)])))
            outcomes.append("won")
        except ConstraintViolated:
            outcomes.append("lost")

    threads = [threading.Thread(target=load, args=pair) for pair in enumerate(engines)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["lost", "lost", "lost", "won"]
    assert len(lab.rows(COMPANY)) == 12
    audit(lab.repo)


# -- stopping --------------------------------------------------------------------------------------


@pytest.mark.parametrize("stage", ["read", "match", "write", "judge", "commit"])
def test_stopping_leaves_nothing(lab: Lab, stage: str) -> None:
    lab.load([note("a", id="n")])
    before = lab.repo.snapshot()
    monitor: Monitor

    def listener(progress: Progress) -> None:
        if progress.stage == stage:
            monitor.stop()

    monitor = Monitor("load", "inprocess", "a test", lab.repo.clock, listener)
    lines = [note("b", id=f"n{number}") for number in range(20)]
    request = lab.request(lab.file(lines), mode="merge", split_bytes=200, partitions=2)
    with pytest.raises(StopRequested):
        lab.run(request, monitor=monitor)
    lab.check_clean()
    assert lab.repo.snapshot().head == before.head
    assert lab.repo.intents.pending() == ()


def test_an_interrupt_leaves_nothing(lab: Lab) -> None:
    lab.load([note("a", id="n")])
    head = lab.repo.snapshot().head

    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lab.load([note("b", id="n")], "merge", runner=Meddling("write", interrupt))
    lab.check_clean()
    assert lab.repo.snapshot().head == head


def test_progress_is_told(lab: Lab) -> None:
    told: list[Progress] = []
    lines = [person(f"p{number}") for number in range(30)]
    request = lab.request(lab.file(lines), split_bytes=200, partitions=2)
    lab.run(request, listener=told.append)
    stages = list(dict.fromkeys(progress.stage for progress in told))
    assert stages == ["split", "read", "judge", "commit"]
    last = told[-1]
    assert (last.rows, last.bytes) == (30, last.bytes_total)
    assert all(a.rows <= b.rows for a, b in pairwise(told))


def test_a_reader_cannot_load(lab: Lab) -> None:
    reader = Lab(reopen(lab.repo.root, OpenMode.READ_ONLY), lab.folder, count=50)
    with pytest.raises(Forbidden):
        reader.load([person("Ada")])


def test_a_branch_that_is_made_again_meanwhile_is_another_one(lab: Lab) -> None:
    lab.repo.create_branch(DEV)

    def replace_branch() -> None:
        other = reopen(lab.repo.root)
        other.delete_branch(DEV)
        other.create_branch(DEV)

    for stage in ("read", "judge"):
        with pytest.raises(Conflict) as caught:
            lab.load([person("Ada")], branch=DEV, runner=Meddling(stage, replace_branch))
        assert caught.value.code == Code.BRANCH_REPLACED
    assert not lab.rows(PERSON, DEV)


def test_what_others_did_while_the_input_was_read_is_no_conflict(lab: Lab) -> None:
    other = reopen(lab.repo.root)
    row = {"id": "Bo", "name": "Bo", "role": "guest"}
    meddling = Meddling("read", lambda: write(other, {PERSON: Delta(insert=[row])}))
    lab.load([person("Ada"), edge("Knows", "Ada", "Bo")], runner=meddling)
    # Nobody is blamed for what is missing in an older state: it is judged on the newest one.
    assert meddling.stages == ["read", "judge", "judge"]
    assert lab.edges(KNOWS) == [("Ada", "Bo")]
