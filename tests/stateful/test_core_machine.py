"""Any sequence of writes, conflicts, faults, reopenings and branches, against the model.

A fault makes an outcome unknown; the model then holds both worlds until the graph is looked at.
"""

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)

from omnigraph.core.failpoints import Fp
from omnigraph.core.repository import Repository
from omnigraph.errors import (
    Code,
    Conflict,
    Effect,
    GraphError,
    NotFound,
    RecoveryRequired,
    Unavailable,
)
from omnigraph.runtime import failpoints
from omnigraph.runtime.failpoints import Fault, InjectedFault, LostReply, Refuse
from omnigraph.store import tuning
from omnigraph.store.failures import StorageFailure
from omnigraph.store.io.storage_calls import StorageCall
from omnigraph.store.root import Root
from omnigraph.types import MAIN, BranchName
from tests.examples import is_deep
from tests.graphs import Delta, audit, chain, make, prepare, reopen, rows
from tests.stateful.branch_model import Change, Models, World

SCHEMA = """
node A { name: String @key  value: I32? }
node B { name: String @key  value: I32? }
node C { name: String @key  value: I32? }
"""
TABLES = ["node:A", "node:B", "node:C"]
NAMES = [BranchName("dev"), BranchName("agent/1"), BranchName("agent/2")]
IDS = ["a", "b", "c"]
POINTS: dict[str, list[Any]] = {
    "write": [point for point in Fp if point.value.startswith(("write.", "branch.fork"))],
    "storage": list(StorageCall),
}

changes = st.dictionaries(
    st.sampled_from(TABLES),
    st.dictionaries(st.sampled_from(IDS), st.none() | st.integers(0, 9), min_size=1),
    min_size=1,
)


def refusal(action: Callable[[], object]) -> Exception | None:
    """What an action failed with, if it did."""
    try:
        action()
    except (GraphError, InjectedFault) as error:
        return error
    return None


def code_of(error: Exception | None) -> Code | None:
    return error.code if isinstance(error, GraphError) else None


class CoreMachine(RuleBasedStateMachine):
    """The repo and the model, side by side."""

    commits = Bundle("commits")

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.mkdtemp(prefix="og-machine-")
        self.root = Root.parse(f"{self.folder}/graph")
        self.repo = make(self.root, SCHEMA)
        self.models = Models(
            World(branches={MAIN: {key: {} for key in TABLES}}, parents={MAIN: None})
        )
        self.counter = 0

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    # -- helpers -----------------------------------------------------------------------------------

    @property
    def world(self) -> World:
        return self.models.worlds[0]

    def pick(self, number: int) -> BranchName:
        names = sorted(self.world.branches)
        return BranchName(names[number % len(names)])

    def see(self, repo: Repository, branch: BranchName) -> dict[str, dict[str, int]]:
        snapshot = repo.snapshot(branch)
        return {
            key: {name: row["value"] for name, row in rows(repo, key, snapshot).items()}
            for key in TABLES
        }

    def settle(self) -> None:
        """Open anew, as after a crash, and let the graph say which world is true."""
        self.repo = reopen(self.root)
        for branch in list(self.world.branches):
            self.models.observe(branch, self.see(self.repo, BranchName(branch)))
            for key in self.models.doubtful_keys(branch):
                found = self.repo.manifest.find_key(BranchName(branch), key)
                self.models.observe_key(branch, key, used=found is not None)
        assert self.models.certain
        assert set(self.repo.branches.list()) == set(self.world.branches)

    def deltas(
        self, branch: BranchName, wanted: Mapping[str, Mapping[str, int | None]]
    ) -> tuple[dict[str, Delta], Change]:
        """A value sets an entity, making it if need be; None removes it."""
        now = self.world.branches[branch]
        deltas: dict[str, Delta] = {}
        for key, entities in wanted.items():
            known = now[key]
            sets = {name: value for name, value in entities.items() if value is not None}
            deltas[key] = Delta(
                insert=[
                    {"id": name, "name": name, "value": value}
                    for name, value in sets.items()
                    if name not in known
                ],
                update={n: {"value": v} for n, v in sets.items() if n in known},
                delete=[n for n, value in entities.items() if value is None and n in known],
            )
        return deltas, Change(
            sets={
                key: {name: v for name, v in entities.items() if v is not None}
                for key, entities in wanted.items()
            },
            removes={key: frozenset(delta.delete) for key, delta in deltas.items()},
        )

    def fresh_key(self) -> str:
        self.counter += 1
        return f"key-{self.counter}"

    # -- writing -----------------------------------------------------------------------------------

    @initialize(target=commits)
    def genesis(self) -> Any:
        return (self.repo.snapshot().head, MAIN, self.repo.manifest.branch(MAIN), self.world)

    @rule(target=commits, at=st.integers(0, 9), wanted=changes, keyed=st.booleans())
    def write(self, at: int, wanted: Any, keyed: bool) -> Any:
        branch = self.pick(at)
        deltas, change = self.deltas(branch, wanted)
        key = self.fresh_key() if keyed else None
        base = self.repo.snapshot(branch)
        prepared = prepare(self.repo, deltas, base=base, idempotency_key=key)
        done = self.repo.commit(prepared)
        assert not done.replayed
        assert done.commit.parent_id == base.head
        self.models.step(lambda world: world.write(branch, change, key))
        if key is not None:
            again = self.repo.commit(prepare(self.repo, {}, base=base, idempotency_key=key))
            assert again.replayed
            assert again.commit == done.commit
        return (done.commit.id, branch, self.repo.manifest.branch(branch), self.world)

    @rule(at=st.integers(0, 9), first=changes, second=changes)
    def conflict(self, at: int, first: Any, second: Any) -> None:
        """Two writes made from one base: disjoint ones both land, others do not."""
        branch = self.pick(at)
        base = self.repo.snapshot(branch)
        one, one_change = self.deltas(branch, first)
        two, two_change = self.deltas(branch, second)
        early = prepare(self.repo, one, base=base)
        late = prepare(self.repo, two, base=base)
        moved = {item.table_key for item in early.tables}
        clash = moved & {item.table_key for item in late.tables}
        self.repo.commit(early)
        self.models.step(lambda world: world.write(branch, one_change))
        error = refusal(lambda: self.repo.commit(late))
        if error is None:
            assert not clash
            self.models.step(lambda world: world.write(branch, two_change))
        else:
            assert isinstance(error, Conflict)
            assert clash >= {str(each["table_key"]) for each in error.conflicts}

    @rule(
        at=st.integers(0, 9),
        wanted=changes,
        where=st.sampled_from(sorted(POINTS)),
        choice=st.integers(0, 99),
        nth=st.integers(1, 12),
        fault=st.sampled_from([Refuse(), LostReply()]),
        reopens=st.booleans(),
    )
    def write_with_fault(
        self,
        at: int,
        wanted: Any,
        where: str,
        choice: int,
        nth: int,
        fault: Fault,
        reopens: bool,
    ) -> None:
        """Something breaks on the way; a retry with the same key makes the outcome certain."""
        branch = self.pick(at)
        deltas, change = self.deltas(branch, wanted)
        key = self.fresh_key()
        points = POINTS[where]
        faults = (
            dict.fromkeys(points, fault)
            if where == "storage"
            else {points[choice % len(points)]: fault}
        )
        times = nth if where == "storage" else 1
        with failpoints.armed(faults, nth=times) as plan:
            unclear = self.attempt(branch, deltas, change, key)
        assert plan.fired or not unclear
        if reopens or unclear:
            self.settle()
        if unclear:
            self.retry(branch, wanted, change, key)

    def attempt(
        self, branch: BranchName, deltas: dict[str, Delta], change: Change, key: str
    ) -> bool:
        """Try once; tell whether the caller cannot know what happened."""

        def after(world: World) -> World:
            return world.write(branch, change, key)

        try:
            base = self.repo.snapshot(branch)
            prepared = prepare(self.repo, deltas, base=base, idempotency_key=key)
        except (Unavailable, StorageFailure):
            return False  # nothing has been asked for yet
        error = refusal(lambda: self.repo.commit(prepared))
        if error is None:
            self.models.step(after)
            return False
        if isinstance(error, GraphError) and error.effect is Effect.NONE:
            assert isinstance(error, Unavailable | Conflict), error
            return False
        assert isinstance(error, RecoveryRequired | InjectedFault), error
        self.models.maybe(after)
        return True

    def retry(self, branch: BranchName, wanted: Any, change: Change, key: str) -> None:
        """The same write again, with the same key: it happens exactly once in all."""
        happened = key in self.world.keys.get(branch, frozenset())
        base = self.repo.snapshot(branch)
        deltas, _ = self.deltas(branch, wanted)
        done = self.repo.commit(prepare(self.repo, deltas, base=base, idempotency_key=key))
        assert done.replayed == happened
        self.models.step(lambda world: world.write(branch, change, key))

    # -- branches ----------------------------------------------------------------------------------

    @rule(name=st.sampled_from(NAMES), at=st.integers(0, 9))
    def create_branch(self, name: BranchName, at: int) -> None:
        source = self.pick(at)
        taken = name in self.world.branches
        error = refusal(lambda: self.repo.create_branch(name, source=source))
        assert code_of(error) == (Code.BRANCH_EXISTS if taken else None)
        if error is None:
            self.models.step(lambda world: world.create(name, source))

    @rule(name=st.sampled_from(NAMES), past=commits)
    def create_branch_from_the_past(self, name: BranchName, past: Any) -> None:
        commit, branch, info, world = past
        if name in self.world.branches or not self.stands(branch, info):
            return
        self.repo.create_branch(name, source=branch, commit=commit)
        # It hangs on the branch that made the commit, which may be an ancestor of `branch`.
        parent = str(self.repo.manifest.branch(name).parent)
        tables, keys = world.branches[branch], world.keys.get(branch)
        self.models.step(lambda now: now.create_at(name, parent, tables, keys))

    @rule(target=commits, name=st.sampled_from(NAMES), at=st.integers(0, 9), wanted=changes)
    def bear_branch(self, name: BranchName, at: int, wanted: Any) -> Any:
        """A branch comes into being with a commit."""
        source = self.pick(at)
        if name in self.world.branches:
            assert code_of(refusal(lambda: self.repo.begin_branch(name))) == Code.BRANCH_EXISTS
            return multiple()
        deltas, change = self.deltas(source, wanted)
        with self.repo.creating_branch(name, source=source) as base:
            done = self.repo.commit(prepare(self.repo, deltas, base=base))
        assert done.commit.parent_id == self.repo.snapshot(source).head
        self.models.step(lambda world: world.create(name, source).write(name, change))
        return (done.commit.id, name, self.repo.manifest.branch(name), self.world)

    @rule(
        name=st.sampled_from(NAMES),
        at=st.integers(0, 9),
        wanted=changes,
        nth=st.integers(1, 60),
        fault=st.sampled_from([Refuse(), LostReply()]),
    )
    def bear_branch_with_fault(
        self, name: BranchName, at: int, wanted: Any, nth: int, fault: Fault
    ) -> None:
        """Something breaks on the way: the branch is there with its commit, or not at all."""
        source = self.pick(at)
        if name in self.world.branches:
            return
        deltas, change = self.deltas(source, wanted)

        def commit_new_branch() -> None:
            with self.repo.creating_branch(name, source=source) as base:
                self.repo.commit(prepare(self.repo, deltas, base=base))

        with failpoints.armed(dict.fromkeys(StorageCall, fault), nth=nth):
            error = refusal(commit_new_branch)
        unclear = isinstance(error, GraphError) and error.effect is not Effect.NONE
        self.repo = reopen(self.root)
        there = name in self.repo.branches.list()
        assert unclear or there == (error is None), error
        if there:
            self.models.step(lambda world: world.create(name, source).write(name, change))

    @rule(name=st.sampled_from(NAMES))
    def delete_branch(self, name: BranchName) -> None:
        error = refusal(lambda: self.repo.delete_branch(name))
        if name not in self.world.branches:
            assert code_of(error) == Code.NOT_FOUND
        elif self.world.children(name):
            assert code_of(error) == Code.BRANCH_IN_USE
        else:
            assert error is None
            self.models.step(lambda world: world.delete(name))

    @rule(name=st.sampled_from(NAMES))
    @precondition(lambda self: len(self.world.branches) > 1)
    def write_to_a_replaced_branch(self, name: BranchName) -> None:
        if name not in self.world.branches or self.world.children(name):
            return
        base = self.repo.snapshot(name)
        late = prepare(self.repo, {"node:A": Delta(insert=[{"id": "late"}])}, base=base)
        parent = BranchName(str(self.world.parents[name]))
        other = reopen(self.root)
        other.delete_branch(name)
        other.create_branch(name, source=parent)
        self.models.step(lambda world: world.delete(name).create(name, parent))
        assert code_of(refusal(lambda: self.repo.commit(late))) == Code.BRANCH_REPLACED

    # -- reading -----------------------------------------------------------------------------------

    def stands(self, branch: BranchName, info: Any) -> bool:
        try:
            return bool(self.repo.manifest.branch(branch) == info)
        except NotFound:
            return False

    @rule(past=commits)
    def travel(self, past: Any) -> None:
        commit, branch, info, world = past
        if not self.stands(branch, info):
            return
        snapshot = self.repo.snapshot_at(commit, branch)
        assert snapshot.head == commit
        for key in TABLES:
            found = {n: row["value"] for n, row in rows(self.repo, key, snapshot).items()}
            assert found == dict(world.branches[branch][key])

    @rule()
    def reopen(self) -> None:
        self.settle()

    @rule()
    def audit(self) -> None:
        self.repo.recovery.sweep()
        audit(self.repo)

    @invariant()
    def the_graph_is_what_the_model_says(self) -> None:
        if not self.models.certain:
            return
        for branch in self.world.branches:
            self.models.observe(branch, self.see(self.repo, BranchName(branch)))
            chain(self.repo, BranchName(branch))


@contextmanager
def small_manifests() -> Iterator[None]:
    """Small fragments, so that short sequences meet the rewriting of large ones, too."""
    with tuning.tuned(absorbed_rows=6, absorbed_fanout=2):
        yield


def test_core_machine() -> None:
    bounds = settings(
        max_examples=400 if is_deep() else 25,
        stateful_step_count=40 if is_deep() else 12,
        suppress_health_check=list(HealthCheck),
    )
    with small_manifests():
        run_state_machine_as_test(CoreMachine, settings=bounds)
