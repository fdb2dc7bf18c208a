"""One faulty write, and the questions that every fault test asks afterwards.

The states a graph may be in after a fault are few: as before the write, or as after it, whole. An
acknowledged write must be there, one that was refused without effect must not be; only a write
whose outcome is unknown, or whose process died, leaves both open. And whichever it is, doing the
same write again with its key ends in the state after it, exactly once.
"""

from __future__ import annotations

import multiprocessing
import shutil
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, cast

from omnigraph.core.journal.audit import RecoveryKind
from omnigraph.core.repository import OpenMode, Repository, components
from omnigraph.errors import Code, Conflict, Effect, GraphError
from omnigraph.runtime.failpoints import (
    CRASH_STATUS,
    ArmedFailpoint,
    Crash,
    Fault,
    InjectedFault,
    LostReply,
    Plan,
    Refuse,
    armed,
    catalogued,
)
from omnigraph.store.failures import StorageFailure
from omnigraph.store.io.objects import ObjectStore
from omnigraph.store.io.storage_calls import StorageCall
from omnigraph.store.root import Root
from omnigraph.store.tables import Tables
from omnigraph.types import MAIN
from tests import tally
from tests.faults import worlds
from tests.faults.worlds import ACTIONS, COMPANY, DEV, KNOWS, PERSON, State

FAULTS: dict[str, Fault] = {"crash": Crash(), "refuse": Refuse(), "lost_reply": LostReply()}

# A child that ends itself must be a process of its own, and importing Lance takes most of a second.
# The server imports it once and does nothing with it; what it forks from there is cheap and clean.
children = multiprocessing.get_context("forkserver")
children.set_forkserver_preload(["tests.faults.worlds", "omnigraph.graph.bulk.bulk"])


class Ending(StrEnum):
    """How the faulty write ended, as far as its caller can tell."""

    ACKNOWLEDGED = "acknowledged"
    REFUSED = "refused"  # with a promise that nothing changed
    UNKNOWN = "unknown"
    CRASHED = "crashed"


@dataclass(frozen=True, slots=True)
class Faulty:
    """A fault that was tried: whether it came up at all, and how the write ended."""

    fired: bool
    ending: Ending


@dataclass(slots=True)
class Lab:
    """A folder of worlds to break. Worlds are copied from templates, which are made once."""

    folder: Path
    count: int = 0
    _states: dict[str, tuple[State, State]] = field(default_factory=dict)
    _passes: dict[str, dict[StrEnum, int]] = field(default_factory=dict)

    def template(self, name: str, make: Callable[[Path], None]) -> Path:
        """A world that is made when it is first asked for."""
        path = self.folder / f"template-{name}"
        if not path.exists():
            make(path)
        return path

    def copy(self, template: Path) -> Path:
        """A world to break."""
        self.count += 1
        path = self.folder / f"world-{self.count}"
        shutil.copytree(template, path)
        return path

    def world(self, action: str) -> Path:
        """A world in which an action can be tried."""
        path = self.copy(self.template("base", worlds.make))
        if ACTIONS[action].has_set_up:
            ACTIONS[action].set_up(worlds.open_world(path))
        return path

    def states(self, action: str) -> tuple[State, State]:
        """What readers see before and after an action."""
        if action not in self._states:
            path = self.world(action)
            repo = worlds.open_world(path)
            before = worlds.state(repo)
            ACTIONS[action].run(repo)
            self._states[action] = (before, worlds.state(repo))
            self.discard(path)
        return self._states[action]

    def passes(self, action: str) -> Mapping[StrEnum, int]:
        """How often an action passes each point of every catalogue."""
        if action not in self._passes:
            path = self.world(action)
            repo = worlds.open_world(path, durable=True)
            self._passes[action] = passes(lambda: ACTIONS[action].run(repo), catalogued())
            self.discard(path)
        return self._passes[action]

    def discard(self, path: Path) -> None:
        """Remove a world."""
        shutil.rmtree(path)


def crash_child(path: Path, action: str, plan: Plan, *, while_opening: bool = False) -> Faulty:
    """Perform an action in a process that a fault may end."""
    child = children.Process(
        target=worlds.perform, args=(path, action, plan), kwargs={"while_opening": while_opening}
    )
    child.start()
    child.join()
    if child.exitcode == CRASH_STATUS:
        tally.count("crashes of a process at a failpoint or a storage call")
        return Faulty(True, Ending.CRASHED)
    if child.exitcode != 0:
        raise AssertionError(f"the child ended with {child.exitcode}")
    return Faulty(False, Ending.ACKNOWLEDGED)


def attempt(run: Callable[[], object], faults: Mapping[StrEnum, Fault], nth: int) -> Faulty:
    """Do something in this process, under a fault that raises."""
    with armed(faults, nth=nth) as plan:
        ending = _ending(run)
    if _fired(plan):
        tally.count("failpoints and storage calls that were refused or whose reply was lost")
    return Faulty(_fired(plan), ending)


def _fired(plan: ArmedFailpoint) -> bool:
    return plan.fired is not None


def _ending(run: Callable[[], object]) -> Ending:
    try:
        run()
    except GraphError as error:
        return Ending.REFUSED if error.effect is Effect.NONE else Ending.UNKNOWN
    except InjectedFault:
        return Ending.REFUSED
    except StorageFailure:
        # Of a call that the test made itself, before there was anything to promise.
        return Ending.UNKNOWN
    return Ending.ACKNOWLEDGED


def try_one(
    lab: Lab, action: str, faults: Mapping[StrEnum, Fault], nth: int, *, reopen: bool = True
) -> Faulty:
    """Break one write at one place and judge what is left."""
    path = lab.world(action)
    if any(isinstance(fault, Crash) for fault in faults.values()):
        result = crash_child(path, action, Plan(faults=tuple(faults.items()), nth=nth))
        judge_by_reopening(lab, path, action, result.ending)
    else:
        repo = worlds.open_world(path, durable=True)
        result = attempt(lambda: ACTIONS[action].run(repo), faults, nth)
        if reopen:
            judge_by_reopening(lab, path, action, result.ending)
        else:
            judge_by_carrying_on(lab, repo, action, result.ending)
    lab.discard(path)
    return result


def check(lab: Lab, action: str, faults: Mapping[StrEnum, Fault], nths: Iterable[int]) -> None:
    """Break a write at these passes, one after the other, judging in both ways by turns."""
    for position, nth in enumerate(nths):
        try:
            result = try_one(lab, action, faults, nth, reopen=position % 2 == 0)
            assert result.fired, "there is no such pass"
        except Exception as error:
            kinds = {type(fault).__name__ for fault in faults.values()}
            where = next(iter(faults)) if len(faults) == 1 else "all calls"
            error.add_note(f"{action}: {kinds} at pass {nth} of {where}")
            raise


def at_any_call(fault: Fault) -> dict[StrEnum, Fault]:
    return dict.fromkeys(StorageCall, fault)


def storage_calls(lab: Lab, action: str) -> range:
    """The numbers of the storage calls of an action."""
    calls = [times for point, times in lab.passes(action).items() if point in set(StorageCall)]
    return range(1, sum(calls) + 1)


def admissible(ending: Ending, before: State, after: State) -> tuple[State, ...]:
    """The states that a graph may be in after a write ended so."""
    match ending:
        case Ending.ACKNOWLEDGED:
            return (after,)
        case Ending.REFUSED:
            return (before,)
        case Ending.UNKNOWN | Ending.CRASHED:
            return (before, after)


def judge_by_reopening(lab: Lab, path: Path, action: str, ending: Ending) -> None:
    """Look at the graph as the next process would, let it recover, and write again."""
    before, after = lab.states(action)
    left = worlds.intents_left(path)
    assert_reading_only_reads(path, (before, after))
    repo = worlds.open_world(path)
    seen = worlds.state(repo)
    assert seen in admissible(ending, before, after), f"{ending}: {seen}"
    worlds.assert_in_order(repo)
    assert left <= audited(repo), f"{left} left, {audited(repo)} recorded"
    if ending is Ending.CRASHED:
        assert audited(repo) == left
    finish(repo, action, after)


def judge_by_carrying_on(lab: Lab, repo: Repository, action: str, ending: Ending) -> None:
    """Go on with the same handle: what it left behind itself must not be in its way."""
    before, after = lab.states(action)
    seen = worlds.state(repo)
    assert seen in (before, after), seen
    if ending is Ending.ACKNOWLEDGED:
        assert seen == after
    try:
        ACTIONS[action].run(repo)
    except Conflict as conflict:
        # The write settled what was left, so its own base is out of date; the next one is not.
        if conflict.code is not Code.EXPECTED_VERSION_MISMATCH:
            raise
    finish(repo, action, after)


def assert_reading_only_reads(path: Path, states: tuple[State, ...]) -> None:
    """A handle for reading sees a whole state, whatever is pending, and leaves no trace."""
    trace = worlds.trace(path)
    reader = worlds.open_world(path, OpenMode.READ_ONLY)
    seen = worlds.state(reader)
    reader.refresh()
    assert seen in states, seen
    assert worlds.trace(path) == trace, worlds.trace(path) ^ trace


def finish(repo: Repository, action: str, after: State) -> None:
    """Do the same write again, then another one to every table."""
    ACTIONS[action].run(repo)
    assert worlds.state(repo) == after
    branches = (MAIN, DEV) if DEV in repo.branches.list() else (MAIN,)
    for branch in branches:
        there = repo.snapshot(branch).tables
        rows = {key: ("next",) for key in (PERSON, COMPANY, KNOWS) if key in there}
        published = worlds.add(repo, rows, branch=branch)
        assert repo.snapshot(branch).head == published.commit.id
        assert all("next" in worlds.rows_of(repo, key, branch) for key in rows)
    worlds.assert_in_order(repo)
    worlds.assert_nothing_left(repo)


def kinds(repo: Repository) -> list[RecoveryKind]:
    return [row.recovery_kind for row in repo.recovery.audit.rows()]


def audited(repo: Repository) -> set[str]:
    """The operations that the audit has a row of."""
    return {row.operation_id for row in repo.recovery.audit.rows()}


def passes(run: Callable[[], object], points: Iterable[StrEnum]) -> dict[StrEnum, int]:
    """How often each point is passed when nothing fails."""
    never = 1_000_000
    with ExitStack() as stack:
        plans = {
            point: stack.enter_context(armed({point: Refuse()}, nth=never)) for point in points
        }
        run()
    return {point: plan.passes for point, plan in plans.items() if plan.passes}


class Interrupted:
    """Passes every call on; at one of them, something else happens first."""

    def __init__(self, inner: object, due: Callable[[], object]) -> None:
        self._inner = inner
        self._due = due

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not callable(found):
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            self._due()
            return found(*args, **kwargs)

        return call


class Countdown:
    """Runs something once, when it has been called often enough."""

    def __init__(self, nth: int, run: Callable[[], None]) -> None:
        self.left = nth
        self._run = run

    def __call__(self) -> None:
        self.left -= 1
        if self.left == 0:
            self._run()

    @property
    def came(self) -> bool:
        return self.left <= 0


def open_interrupted(path: Path, due: Callable[[], object]) -> Repository:
    """Open a world; before one of the calls to storage, something else happens."""
    root = Root.parse(str(path))
    parts = components(root, durable=False)
    parts = replace(
        parts,
        tables=cast("Tables", Interrupted(parts.tables, due)),
        objects=cast("ObjectStore", Interrupted(parts.objects, due)),
    )
    return Repository.open(root, parts)
