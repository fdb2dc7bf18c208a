"""Small graphs on local disk, every kind of write to them, and what must hold afterwards.

A fault test takes a world, lets one write fail in one way, opens the graph again and asks whether
it is in order. Everything here is plain functions on a folder, so that a test can do the write in
another process and let that process die.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from omnigraph.core.commits.keys import CallKey
from omnigraph.core.journal.intent import WriterKind
from omnigraph.core.layout import INTENTS, MANIFEST, fork_mark
from omnigraph.core.maintenance.indices import ensure_indices
from omnigraph.core.publish.publisher import Published
from omnigraph.core.repository import OpenMode, Repository, components
from omnigraph.core.schema.schema_state import AcceptedSchema
from omnigraph.dataplane.optimize.optimizer import Optimizer
from omnigraph.dataplane.progress import Monitor
from omnigraph.dataplane.run.inprocess import InProcessRunner
from omnigraph.errors import Code, Conflict, GraphError, NotFound
from omnigraph.exec.mutate.mutator import Mutated
from omnigraph.exec.schema_change.changer import SchemaApplied, SchemaChanger, SchemaRequest
from omnigraph.lang import compile_schema
from omnigraph.runtime import failpoints
from omnigraph.runtime.failpoints import Plan
from omnigraph.store.root import Root
from omnigraph.types import MAIN, BranchName, TagName
from tests.faults import loads, merges
from tests.faults.rows import (
    CITY,
    COMPANY,
    DEV,
    KEY,
    KNOWS,
    PERSON,
    add,
    insertion,
    transaction,
)

__all__ = [
    "ACTIONS",
    "COMPANY",
    "DEV",
    "KNOWS",
    "LOADS",
    "PERSON",
    "Action",
    "State",
    "add",
    "assert_in_order",
    "assert_nothing_left",
    "attach",
    "begin",
    "commit_new_branch",
    "insertion",
    "intents_left",
    "make",
    "open_world",
    "perform",
    "perform_begin",
    "perform_next",
    "rows_of",
    "state",
    "trace",
    "write_next",
]

_SCHEMA: Final = """
node Person { name: String @key  age: I32? }
node Company { name: String @key }
edge Knows: Person -> Person
"""
_NEXT_SCHEMA: Final = """
node Person {
  name: String @key
  years: I64? @rename_from("age")
  city: String?
  state: String @default("new")
}
node Company { name: String @key }
node City { name: String @key }
edge Knows: Person -> Person { since: I32 @default(1) }
"""
_LESS_SCHEMA: Final = """
node Person { name: String @key }
node Company { name: String @key }
"""


def _accepted(text: str) -> AcceptedSchema:
    return AcceptedSchema(catalog=compile_schema(text), text=text)


# -- making and opening ----------------------------------------------------------------------------


def _root(place: Path | Root) -> Root:
    return place if isinstance(place, Root) else Root.parse(str(place))


def begin(place: Path | Root, *, durable: bool = False) -> Repository:
    """Make an empty graph in a folder, or elsewhere."""
    root = _root(place)
    return Repository.init(root, _accepted(_SCHEMA), components(root, durable=durable))


def make(place: Path | Root) -> None:
    """Make a graph with a few rows in every table."""
    repo = begin(place)
    rows = {PERSON: ("p0", "p1"), COMPANY: ("c0",), KNOWS: ("k0",)}
    repo.commit(insertion(repo, MAIN, rows, kind=WriterKind.LOAD))


def open_world(
    place: Path | Root, mode: OpenMode = OpenMode.READ_WRITE, *, durable: bool = False
) -> Repository:
    """Open a graph with parts of its own, as a new process would."""
    root = _root(place)
    return Repository.open(root, components(root, durable=durable), mode)


def attach(place: Path | Root, *, durable: bool = False) -> Repository:
    """A handle that settles nothing when it is made, like one that was open all the time."""
    root = _root(place)
    return Repository(root, components(root, durable=durable), OpenMode.READ_WRITE)


# -- writing ---------------------------------------------------------------------------------------


def _mutation(repo: Repository) -> Published:
    return add(repo, {PERSON: ("new",)}, key=KEY)


def _load(repo: Repository) -> Published:
    rows = {PERSON: ("l0", "l1"), COMPANY: ("l0",), KNOWS: ("l0",)}
    return repo.commit(insertion(repo, MAIN, rows, kind=WriterKind.LOAD, key=KEY))


def _mutation_on_branch(repo: Repository) -> Published:
    return add(repo, {PERSON: ("new",), KNOWS: ("new",)}, branch=DEV, key=KEY)


def _creation(repo: Repository) -> Published:
    """Make a branch and load into it, at once."""
    return commit_new_branch(repo, {PERSON: ("b0", "b1"), KNOWS: ("b0",)}, key=KEY)


def _bare_creation(repo: Repository) -> Published:
    return commit_new_branch(repo, {}, key=KEY)


def commit_new_branch(
    repo: Repository,
    rows: Mapping[str, tuple[str, ...]],
    *,
    branch: BranchName = DEV,
    source: BranchName = MAIN,
    key: str | None = None,
) -> Published:
    """Insert named rows in one commit, on a branch that is made with it unless it is there."""
    if repo.has_branch(branch):
        return repo.commit(insertion(repo, branch, rows, kind=WriterKind.LOAD, key=key))
    with repo.creating_branch(branch, source=source) as base:
        kind = WriterKind.LOAD
        return repo.commit(insertion(repo, branch, rows, kind=kind, key=key, base=base))


def _schema_apply(repo: Repository) -> SchemaApplied:
    """Rename, widen, fill and add columns of two tables, and add a table, all at once."""
    return _apply(repo, _NEXT_SCHEMA)


def _schema_drop(repo: Repository) -> SchemaApplied:
    """Take a column out of the files of a table, and drop another table."""
    return _apply(repo, _LESS_SCHEMA, allow_data_loss=True)


def _apply(
    repo: Repository, text: str, *, branch: BranchName = MAIN, allow_data_loss: bool = False
) -> SchemaApplied:
    request = SchemaRequest(
        catalog=compile_schema(text),
        text=text,
        branch=branch,
        actor="tester",
        key=CallKey.of(KEY if branch == MAIN else None, "schema_apply", text),
        allow_data_loss=allow_data_loss,
    )
    return SchemaChanger(repo).apply(request)


def _diverge_in_schema(repo: Repository) -> None:
    """Change rows of both branches, and the schema of one."""
    _apply(repo, _NEXT_SCHEMA, branch=DEV)
    add(repo, {PERSON: ("m0", "m1"), CITY: ("m0",)}, branch=DEV)
    add(repo, {PERSON: ("n0",)})


def _write_to_branch(repo: Repository) -> None:
    add(repo, {PERSON: ("b0",)}, branch=DEV)


def _branch_delete(repo: Repository) -> None:
    with suppress(NotFound):  # an earlier attempt has done it
        repo.delete_branch(DEV)


def _branch_rename(repo: Repository) -> None:
    with suppress(NotFound):  # an earlier attempt has done it
        repo.refs.rename_branch(DEV, BranchName("renamed"))


def _transaction(repo: Repository) -> Mutated:
    """Changing queries, and one that reads what they made."""
    return transaction(repo, _STATEMENTS, key=KEY)


_STATEMENTS: Final = (
    'insert Person { name: "t0" } insert Company { name: "t0" }',
    'update Person set { age: 3 } where name = "p0"',
    "match { $p: Person { age: 3 } } return { count($p) as n }",
    'delete Company where name = "c0"',
    'delete Knows where from = "p0"',
)


def _ensure_indices(repo: Repository) -> Published | None:
    return ensure_indices(repo, actor="tester").published


def _optimize(repo: Repository) -> Published | None:
    # On one thread, so that storage calls come in the same order every time.
    monitor = Monitor("optimize", "inprocess", "", repo.clock)
    done = Optimizer(repo).optimize(
        repo.snapshot(MAIN), InProcessRunner(1), monitor, actor="tester"
    )
    return done.published


def _scatter(repo: Repository) -> None:
    """Leave an indexed table in several fragments, and another one without an index.

    The new rows are as many as those that the indexes cover. So these are built anew, and it
    takes three commits to put everything in place.
    """
    _insert_apart(repo, COMPANY, "s0")
    _optimize(repo)
    _insert_apart(repo, COMPANY, "s1", "s2")
    _insert_apart(repo, KNOWS, "s1")


def _insert_apart(repo: Repository, key: str, *names: str) -> None:
    for name in names:
        rows = {key: (name,)}
        repo.commit(insertion(repo, MAIN, rows, kind=WriterKind.MUTATION))


def _branch_create(repo: Repository) -> None:
    with suppress(_Exists):
        try:
            repo.branches.create(DEV)
        except Conflict as conflict:
            if conflict.code is Code.BRANCH_EXISTS:
                raise _Exists from conflict
            raise


def _tag(repo: Repository) -> object:
    return repo.refs.create_tag(TagName("v1"), repo.snapshot(), actor="tester")


def _move_tag(repo: Repository) -> object:
    return repo.refs.create_tag(TagName("v1"), repo.snapshot(), actor="tester", force=True)


def _tag_and_go_on(repo: Repository) -> None:
    _tag(repo)
    add(repo, {PERSON: ("later",)})


def _untag(repo: Repository) -> None:
    if TagName("v1") in repo.refs.tags():
        repo.refs.delete_tag(TagName("v1"), actor="tester")


def _protect(repo: Repository) -> None:
    repo.refs.protect(DEV, protected=True, actor="tester")


class _Exists(Exception):
    """An earlier attempt has done it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One kind of write. Doing it again after it succeeded changes nothing."""

    run: Callable[[Repository], object]
    needs_branch: bool = False
    prepare: Callable[[Repository], None] | None = None

    @property
    def has_set_up(self) -> bool:
        """True if it needs more than a copied world."""
        return self.needs_branch or self.prepare is not None

    def set_up(self, repo: Repository) -> None:
        """Bring a copied world into the state that the action starts from."""
        if self.needs_branch:
            # Forks name their parent by its absolute path, so they cannot be copied.
            repo.branches.create(DEV)
        if self.prepare is not None:
            self.prepare(repo)


LOADS: Final[Mapping[str, Action]] = MappingProxyType(
    {
        "append_load": Action(run=loads.append),
        "remote_load": Action(run=loads.append_elsewhere),
        "merge_load": Action(run=loads.merge),
        "overwrite_load": Action(run=loads.overwrite),
        "branch_load": Action(run=loads.branch),
    }
)
ACTIONS: Final[Mapping[str, Action]] = MappingProxyType(
    {
        "mutation": Action(run=_mutation),
        "load": Action(run=_load),
        "branch_mutation": Action(run=_mutation_on_branch, needs_branch=True),
        "schema_apply": Action(run=_schema_apply),
        "schema_drop": Action(run=_schema_drop),
        "schema_merge": Action(run=merges.merge, needs_branch=True, prepare=_diverge_in_schema),
        "branch_merge": Action(run=merges.merge, needs_branch=True, prepare=merges.diverge),
        "large_merge": Action(
            run=merges.large_merge, needs_branch=True, prepare=merges.diverge_widely
        ),
        "large_schema_merge": Action(
            run=merges.large_merge, needs_branch=True, prepare=_diverge_in_schema
        ),
        "revert": Action(run=merges.revert, prepare=merges.write_twice),
        "large_revert": Action(run=merges.large_revert, prepare=merges.write_twice),
        "branch_delete": Action(run=_branch_delete, needs_branch=True, prepare=_write_to_branch),
        "branch_rename": Action(run=_branch_rename, needs_branch=True, prepare=_write_to_branch),
        "transaction": Action(run=_transaction),
        "ensure_indices": Action(run=_ensure_indices),
        "optimize": Action(run=_optimize, prepare=_scatter),
        "branch_create": Action(run=_branch_create),
        "tag": Action(run=_tag),
        "tag_move": Action(run=_move_tag, prepare=_tag_and_go_on),
        "tag_delete": Action(run=_untag, prepare=_tag_and_go_on),
        "protect": Action(run=_protect, needs_branch=True),
        "reset": Action(run=merges.reset, needs_branch=True, prepare=merges.diverge),
        "creation": Action(run=_creation),
        "bare_creation": Action(run=_bare_creation),
        **LOADS,
    }
)


def perform(path: Path, name: str, plan: Plan | None, *, while_opening: bool = False) -> None:
    """Open a world and act, with faults. What a child process runs; it may not return.

    An unknown action is none: the child only opens the graph.
    """
    if plan is not None and while_opening:
        failpoints.arm(plan)
    repo = open_world(path, durable=True)
    if plan is not None and not while_opening:
        failpoints.arm(plan)
    if name in ACTIONS:
        with suppress(GraphError):
            ACTIONS[name].run(repo)


def perform_begin(path: Path, plan: Plan) -> None:
    """Make a graph, with faults. What a child process runs; it may not return."""
    failpoints.arm(plan)
    with suppress(GraphError):
        begin(path, durable=True)


def perform_next(path: Path, plan: Plan) -> None:
    """Write to every table through a handle that has settled nothing, with faults."""
    repo = attach(path, durable=True)
    failpoints.arm(plan)
    with suppress(GraphError):
        write_next(repo)


def write_next(repo: Repository) -> Published:
    """A write that meets whatever was left in any table of the main branch."""
    return add(repo, {PERSON: ("next",), COMPANY: ("next",), KNOWS: ("next",)}, key="next")


# -- what must hold --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class State:
    """All that a reader can see, in a form that compares and prints."""

    branches: Mapping[str, Mapping[str, object]]
    tags: Mapping[str, int]  # how many commits are behind each
    protected: frozenset[str] = frozenset()


def state(repo: Repository) -> State:
    """What a reader of a graph sees, on every branch."""
    names = repo.branches.list()
    tags = {
        str(tag.name): sum(1 for _ in repo.history(repo.snapshot_at(tag.commit, tag.branch)))
        for tag in repo.refs.tags().values()
    }
    protected = frozenset(str(name) for name in names if repo.refs.is_protected(name))
    return State({name: _branch_state(repo, name) for name in names}, tags, protected)


def _branch_state(repo: Repository, branch: BranchName) -> Mapping[str, object]:
    snapshot = repo.snapshot(branch)
    seen: dict[str, object] = {"schema": repo.schema(snapshot).text}
    for key in sorted(snapshot.tables):
        pin = snapshot.pin(key)
        table = repo.table(pin)
        rows = sorted(table.read(table.schema.names).to_pylist(), key=lambda row: str(row["id"]))
        indexes = sorted(index.name for index in table.indexes())
        if pin.row_count != len(rows):
            raise AssertionError(
                f"{key} on {branch}: {pin.row_count} rows noted, {len(rows)} there"
            )
        seen[key] = (rows, indexes)
    return seen


def rows_of(repo: Repository, key: str, branch: BranchName = MAIN) -> set[str]:
    """The names of the rows of a table."""
    return set(repo.read(repo.snapshot(branch), key).column("id").to_pylist())


def assert_in_order(repo: Repository) -> None:
    """Nothing is pending, the published tables are the newest, and history is one line."""
    if left := repo.intents.pending():
        raise AssertionError(f"intents are left: {[item.operation_id for item in left]}")
    operations = [row.operation_id for row in repo.recovery.audit.rows()]
    if len(operations) != len(set(operations)):
        raise AssertionError(f"an operation was recorded twice: {operations}")
    newest: dict[tuple[str, str | None], int] = {}
    for branch in repo.branches.list():
        for pin in repo.snapshot(branch).tables.values():
            place = (pin.path, pin.table_branch)
            # A branch may still stand on an older version of the table that it was made from.
            newest[place] = max(pin.version, newest.get(place, 0))
        _assert_chain(repo, branch)
    for (path, fork), version in newest.items():
        head = repo.tables.head(path, fork)
        if head != version:
            raise AssertionError(f"{path} on {fork}: published {version}, head {head}")


def assert_nothing_left(repo: Repository) -> None:
    """Whatever branches left that are gone, or were never created, can be reclaimed."""
    repo.branches.reclaim()
    branches = repo.manifest.branches().values()
    refs = {info.staging_ref for info in branches if info.staging_ref is not None}
    forks = set(repo.tables.fork_names(MANIFEST))
    if stray := forks - refs - {info.fork for info in branches}:
        raise AssertionError(f"forks of the manifest that are no branches: {stray}")
    marks = {fork_mark(info.incarnation) for info in branches}
    for pin in repo.snapshot().tables.values():
        names = repo.tables.fork_names(pin.path)
        if lost := [name for name in names if name.partition(".")[0] not in marks]:
            raise AssertionError(f"forks of {pin.table_key} without a branch: {lost}")


def _assert_chain(repo: Repository, branch: BranchName) -> None:
    chain = list(repo.commits(branch))
    if chain[-1].parent_id is not None or chain[-1].kind != "init":
        raise AssertionError(f"the history of {branch} ends at {chain[-1]}")
    if len({commit.id for commit in chain}) != len(chain):
        raise AssertionError(f"a commit of {branch} is its own ancestor")
    keys = [commit.idempotency_key for commit in chain if commit.idempotency_key is not None]
    if len(keys) != len(set(keys)):
        raise AssertionError(f"an idempotency key was used twice on {branch}: {keys}")


def intents_left(path: Path) -> set[str]:
    """The operations that a folder holds intents of, seen without opening it."""
    folder = path / INTENTS
    return {item.stem for item in folder.glob("*.json")} if folder.is_dir() else set()


def trace(path: Path) -> frozenset[tuple[str, int, int]]:
    """Every file of a folder with its size and time: equal if and only if nobody wrote."""
    found = []
    for folder, _, names in os.walk(path):
        for name in names:
            stat = os.stat(os.path.join(folder, name))
            place = os.path.relpath(os.path.join(folder, name), path)
            found.append((place, stat.st_size, stat.st_mtime_ns))
    return frozenset(found)
