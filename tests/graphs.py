"""Small graphs for tests of the core: making, changing, reading and auditing them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, TypeVar

import pyarrow as pa

from omnigraph.core.branches.branches import is_fork_of
from omnigraph.core.cleanup.cleaner import Cleaned, CleanupRequest
from omnigraph.core.cleanup.retention import RetentionPolicy
from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.core.journal.intent import WriterKind
from omnigraph.core.publish.publisher import Published
from omnigraph.core.repository import Components, OpenMode, Repository, components
from omnigraph.core.schema.schema_state import AcceptedSchema
from omnigraph.core.write import Prepared, TableWrite
from omnigraph.errors import Busy, Conflict
from omnigraph.lang import compile_schema
from omnigraph.store.root import Root
from omnigraph.store.tables import Staged
from omnigraph.types import MAIN, BranchName, CommitId

T = TypeVar("T")
Row = Mapping[str, Any]

SCHEMA = """
node Person { name: String @key  age: I32? }
node Company { name: String @key  size: I32? }
edge Knows: Person -> Person
"""
PERSON, COMPANY, KNOWS = "node:Person", "node:Company", "edge:Knows"
RETRIES_MAX = 2_000
# What a writer says about a commit; the other options are about the write.
_SAID = ("actor", "idempotency_key", "merged_parent_id", "message", "details")


def accepted(text: str = SCHEMA) -> AcceptedSchema:
    return AcceptedSchema(catalog=compile_schema(text), text=text)


def many_types(count: int) -> str:
    return "\n".join(f"node T{number} {{ name: String @key }}" for number in range(count))


def make(root: Root, text: str = SCHEMA, *, durable: bool = False) -> Repository:
    return Repository.init(root, accepted(text), components(root, durable=durable))


def reopen(
    root: Root, mode: OpenMode = OpenMode.READ_WRITE, *, durable: bool = False
) -> Repository:
    """Open with nothing shared: like another process, but for the gates."""
    return Repository.open(root, components(root, durable=durable), mode)


def fresh_parts(root: Root) -> Components:
    return components(root, durable=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """A change of one table: rows to add, fields to set by id, ids to remove."""

    insert: Sequence[Row] = ()
    update: Mapping[str, Row] | None = None
    delete: Sequence[str] = ()


def people(*ids: str, age: int | None = None) -> Delta:
    return Delta(insert=[{"id": each, "name": each, "age": age} for each in ids])


def companies(*ids: str) -> Delta:
    return Delta(insert=[{"id": each, "name": each} for each in ids])


def acquaintances(*pairs: tuple[str, str]) -> Delta:
    rows = [{"id": f"{src}-{dst}", "src": src, "dst": dst} for src, dst in pairs]
    return Delta(insert=rows)


def stage(repo: Repository, snapshot: GraphVersion, key: str, delta: Delta) -> Staged | None:
    """Stage a change of one table for a snapshot."""
    table = repo.writable_table(snapshot, key)
    inserts = pa.Table.from_pylist([dict(row) for row in delta.insert], schema=table.schema)
    updates = deletes = None
    if delta.update:
        updates = _updated(table.read(row_id=True, row_address=True), delta.update)
    if delta.delete:
        deletes = table.locate(list(delta.delete))
    return repo.tables.stage(
        table,
        inserts=inserts if inserts.num_rows else None,
        updates=updates,
        deletes=deletes,
        uuid=repo.ids.new(),
    )


def _updated(rows: pa.Table, changes: Mapping[str, Row]) -> pa.Table:
    found = [row for row in rows.to_pylist() if row["id"] in changes]
    return pa.Table.from_pylist(
        [{**row, **changes[row["id"]]} for row in found], schema=rows.schema
    )


def prepare(
    repo: Repository, deltas: Mapping[str, Delta], *, base: GraphVersion, **options: Any
) -> Prepared:
    """Stage changes of several tables for one commit."""
    with repo.preparing(base):
        staged = [(key, stage(repo, base, key, delta)) for key, delta in deltas.items()]
    writes = tuple(
        TableWrite(table_key=key, staged=(change,)) for key, change in staged if change is not None
    )
    said = {name: options.pop(name) for name in _SAID if name in options}
    commit = replace(repo.new_commit(base, WriterKind.MUTATION), **said)
    return Prepared(base=base, commit=commit, tables=writes, **options)


def write(
    repo: Repository,
    deltas: Mapping[str, Delta],
    *,
    branch: BranchName = MAIN,
    base: GraphVersion | None = None,
    **options: Any,
) -> Published:
    """Change several tables in one commit."""
    start = base or repo.snapshot(branch)
    return repo.commit(prepare(repo, deltas, base=start, **options))


def retrying(action: Callable[[], T]) -> T:
    """Start over after a conflict, as a caller does; bounded, so that a livelock fails."""
    for _ in range(RETRIES_MAX):
        try:
            return action()
        except (Conflict, Busy):
            continue
    raise AssertionError("no progress")


def rows(repo: Repository, key: str, snapshot: GraphVersion | None = None) -> dict[str, Row]:
    """The rows of a table, by id."""
    found = repo.read(snapshot or repo.snapshot(), key).to_pylist()
    by_id = {row["id"]: row for row in found}
    assert len(by_id) == len(found), "an id is stored twice"
    return by_id


def ids(repo: Repository, key: str, branch: BranchName = MAIN) -> set[str]:
    return set(rows(repo, key, repo.snapshot(branch)))


def audit(repo: Repository) -> None:
    """Everything that must hold when nobody is writing."""
    assert repo.intents.pending() == ()
    for branch in repo.branches.list():
        snapshot = repo.snapshot(branch)
        for pin in snapshot.tables.values():
            # A branch that has not written a table yet stands on a version of its parent's.
            if branch == MAIN or is_fork_of(pin, snapshot.incarnation):
                assert repo.tables.head(pin.path, pin.table_branch) == pin.version, pin
            assert repo.table(pin).row_count == pin.row_count, pin
        assert chain(repo, branch)[-1] == snapshot.head


def chain(repo: Repository, branch: BranchName = MAIN) -> list[CommitId]:
    """The commits of a branch, oldest first; fails unless each names the one before it."""
    history = list(repo.commits(branch))[::-1]
    assert history[0].parent_id is None
    for older, newer in pairwise(history):
        assert newer.parent_id == older.id
    return [commit.id for commit in history]


# As if minutes and days had passed since everything was written.
AT_ONCE = CleanupRequest(policy=RetentionPolicy(keep=1), superseded_us=0, left_us=0)


def clean(repo: Repository, request: CleanupRequest = AT_ONCE, **terms: Any) -> Cleaned:
    """Clean a graph up; `keep` and `since_us` are of the policy."""
    policy = {name: terms.pop(name) for name in ("keep", "since_us") if name in terms}
    wanted = replace(request, policy=replace(request.policy, **policy), **terms)
    return repo.cleanup(wanted, lambda _: None)
