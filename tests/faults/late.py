"""A process on another machine that is stopped at its n-th storage call, and later goes on.

One child process takes any number of jobs, so that a test can try every storage call of an action
in turn. It says that it runs on another machine; the test makes its files look old with `age`, so
that others take it for dead although it is only slow.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from multiprocessing.connection import Connection
from pathlib import Path

from omnigraph.core.failpoints import Fp
from omnigraph.core.journal.intent import WriterKind
from omnigraph.core.layout import BRANCH_CLAIM, INTENTS
from omnigraph.core.locks import owner
from omnigraph.core.manifest.branch_info import BranchInfo
from omnigraph.core.publish.publisher import Published
from omnigraph.core.repository import Repository
from omnigraph.errors import Effect, GraphError, RecoveryRequired
from omnigraph.runtime import failpoints
from omnigraph.store.failures import StorageFailure
from omnigraph.store.io.storage_calls import StorageCall
from omnigraph.store.root import Root
from omnigraph.types import MAIN, BranchName
from tests import tally
from tests.faults import worlds
from tests.faults.harness import children
from tests.faults.worlds import ACTIONS, COMPANY, DEV, KNOWS, PERSON

CHILD = BranchName("child")
LATE = {PERSON: ("late",), KNOWS: ("late",)}
# Longer than any lease, also that of a branch in the making.
_LONG_AGO_S = 26 * 3_600


def age(world: Path) -> None:
    """Make every intent and claim older than its lease, by the time of the file system."""
    for folder in (INTENTS, BRANCH_CLAIM):
        for file in (world / folder).glob("*"):
            then = file.stat().st_mtime - _LONG_AGO_S
            os.utime(file, (then, then))


# -- what the child does ---------------------------------------------------------------------------


def _write(repo: Repository) -> object:
    return worlds.add(repo, LATE, key="late")


def _write_on_branch(repo: Repository) -> object:
    return worlds.add(repo, LATE, branch=DEV, key="late")


def _create(repo: Repository) -> object:
    return repo.create_branch(DEV)


def _create_child(repo: Repository) -> object:
    return repo.create_branch(CHILD, source=DEV)


def _delete(repo: Repository) -> object:
    repo.delete_branch(DEV)
    return None


def _creation(repo: Repository) -> object:
    return _born(repo, DEV, MAIN)


def _creation_of_child(repo: Repository) -> object:
    return _born(repo, CHILD, DEV)


def _born(repo: Repository, name: BranchName, source: BranchName) -> object:
    with repo.creating_branch(name, source=source) as base:
        write = worlds.insertion(repo, name, LATE, kind=WriterKind.LOAD, key="late", base=base)
        return repo.commit(write)


def _stop_half_way(repo: Repository) -> None:
    """Leave a write of which one table has landed."""
    with failpoints.armed({Fp.LAND: failpoints.LostReply()}), suppress(RecoveryRequired):
        worlds.add(repo, {PERSON: ("half",), COMPANY: ("half",)})


def _recover(repo: Repository) -> object:
    return repo.recover()


@dataclass(frozen=True, slots=True, kw_only=True)
class Late:
    """An action of the child: which branch it writes to, makes or deletes."""

    run: Callable[[Repository], object]
    branch: BranchName | None = None
    needs_branch: bool = False
    deletes: bool = False
    prepare: Callable[[Repository], None] | None = None


LATE_ACTIONS: dict[str, Late] = {
    "write": Late(run=_write, branch=MAIN),
    "write_on_branch": Late(run=_write_on_branch, branch=DEV, needs_branch=True),
    "optimize": Late(run=ACTIONS["optimize"].run, branch=MAIN, prepare=ACTIONS["optimize"].prepare),
    "branch_merge": Late(run=ACTIONS["branch_merge"].run, branch=MAIN, needs_branch=True),
    "create": Late(run=_create, branch=DEV),
    "create_child": Late(run=_create_child, branch=CHILD, needs_branch=True),
    "delete": Late(run=_delete, branch=DEV, needs_branch=True, deletes=True),
    "creation": Late(run=_creation, branch=DEV),
    "creation_of_child": Late(run=_creation_of_child, branch=CHILD, needs_branch=True),
    "recover": Late(run=_recover, prepare=_stop_half_way),
}


# -- the child -------------------------------------------------------------------------------------


class Ending(StrEnum):
    """What the child says in the end."""

    ACKNOWLEDGED = "acknowledged"
    REFUSED = "refused"  # nothing was changed
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How the child's action ended: the commit or the incarnation that it made, or the error."""

    ending: Ending
    made: str | None = None
    text: str = ""


def attempt(world: Path | Root, action: str) -> Outcome:
    """Do something through a handle of its own, and say how it ended."""
    try:
        result = LATE_ACTIONS[action].run(worlds.attach(world))
    except GraphError as error:
        none = error.effect is Effect.NONE
        text = f"{type(error).__name__} {error.code}: {error}"
        return Outcome(ending=Ending.REFUSED if none else Ending.UNKNOWN, text=text)
    except StorageFailure as failure:  # while it was prepared, which the facade translates
        return Outcome(ending=Ending.UNKNOWN, text=str(failure))
    made = None
    if isinstance(result, Published):
        made = str(result.commit.id)
    if isinstance(result, BranchInfo):
        made = result.incarnation
    return Outcome(ending=Ending.ACKNOWLEDGED, made=made)


def serve(pipe: Connection, machine: str) -> None:
    """Do one job after the other: stop at the n-th storage call until told. Runs in a child."""
    owner._machine = lambda: machine  # type: ignore[assignment]
    left, call = 0, None

    def hold(point: StrEnum) -> None:
        nonlocal left
        if not isinstance(point, StorageCall) or not left or call not in (None, point):
            return
        left -= 1
        if not left:
            pipe.send(point.value)
            pipe.recv()

    failpoints.watch(hold)
    while (job := pipe.recv()) is not None:
        world, action, left, call = job
        outcome = attempt(world, action)
        left = 0
        pipe.send(outcome)


@dataclass(slots=True)
class Machine:
    """The other machine, as seen from the test."""

    pipe: Connection

    def start(
        self, world: Path, action: str, nth: int, call: StorageCall | None = None
    ) -> str | Outcome:
        """Let it act until its n-th storage call, if given of one kind.

        Returns that call, or the end if it came first.
        """
        self.pipe.send((world, action, nth, call))
        said: str | Outcome = self.pipe.recv()
        if not isinstance(said, Outcome):
            tally.count("processes stopped at a storage call, taken for dead, and let go on")
        return said

    def go_on(self) -> Outcome:
        """Let it go on to its end."""
        self.pipe.send("go")
        said: Outcome = self.pipe.recv()
        return said


@contextmanager
def machine(name: str = "elsewhere") -> Iterator[Machine]:
    """Another machine with one process."""
    ours, theirs = children.Pipe()
    child = children.Process(target=serve, args=(theirs, name))
    child.start()
    theirs.close()
    try:
        yield Machine(ours)
        ours.send(None)
        child.join()
        assert child.exitcode == 0
    finally:
        child.kill()
        child.join()
        ours.close()
