"""The publisher: the one write that makes a change visible.

All rows of a change go into the manifest by one merge on `object_id`, as the version after the one
that the publisher read. So of two publishes of one branch from the same base only one succeeds: the
loser looks again, checks again, and tries again, a bounded number of times.

The first commit of a branch that is made with it has no rival for the head, only for the name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from omnigraph.core import gates
from omnigraph.core.births import Births, branch_exists
from omnigraph.core.failpoints import Fp, guarded
from omnigraph.core.graph_version import GraphVersion, Origin
from omnigraph.core.layout import MANIFEST
from omnigraph.core.manifest import Manifest, branch_replaced
from omnigraph.core.records import KEY, Commit, HeadRecord, Record, encode
from omnigraph.errors import (
    Code,
    Conflict,
    JsonValue,
    NotFound,
    PreconditionFailed,
    RecoveryRequired,
)
from omnigraph.runtime import telemetry
from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.tables import Pin, Tables
from omnigraph.types import BranchName, CommitId

ATTEMPTS_MAX = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What is to be published, and what must still hold for it.

    `expected` are the pins of the tables that the change moves, `judged` those of tables it was
    judged against and leaves alone. `head` is the caller's own condition on the branch.
    """

    branch: BranchName
    incarnation: str
    commit_id: CommitId
    kind: str
    actor: str | None
    created_at: int
    merged_parent_id: CommitId | None = None
    idempotency_key: str | None = None
    schema_base: str | None = None  # the digest of the schema that it was judged under
    schema_digest: str | None = None  # the one that it puts in force; None: no other
    head: CommitId | None = None
    expected: Mapping[str, int] = field(default_factory=dict)
    judged: Mapping[str, int] = field(default_factory=dict)
    records: tuple[Record, ...] = ()
    details: Mapping[str, JsonValue] = field(default_factory=dict)
    origin: Origin | None = None  # of a change that makes its own branch


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A visible change. `replayed` says that an earlier call had made it already."""

    commit: Commit
    manifest_version: int
    replayed: bool = False


class Publisher:
    """Publishes the changes of one graph."""

    __slots__ = ("_births", "_manifest", "_root", "_tables")

    def __init__(self, root: str, tables: Tables, manifest: Manifest, births: Births) -> None:
        """Publish into this manifest."""
        self._root = root
        self._tables = tables
        self._manifest = manifest
        self._births = births

    def publish(self, change: Change) -> Published:
        """Make a change visible, or raise a typed conflict with nothing changed."""
        if change.origin is not None:
            with telemetry.span("publish", branch=change.branch), self._births.alone():
                return self._publish_birth(change, change.origin)
        with (
            telemetry.span("publish", branch=change.branch),
            gates.publishing(self._root, change.branch),
        ):
            for _ in range(ATTEMPTS_MAX):
                snapshot = self._manifest.snapshot(change.branch)
                done = self._already(change, snapshot)
                if done is not None:
                    return done
                check(change, snapshot)
                commit, version = self._attempt(change, snapshot)
                if version is not None:
                    self._check_branch(change, snapshot)
                    return Published(commit=commit, manifest_version=version)
                telemetry.count("publish.lost_race")
        text = f"branch '{change.branch}' is written to by too many at once"
        raise Conflict(Code.HEAD_CONTENTION, text, branch=change.branch, attempts=ATTEMPTS_MAX)

    def _publish_birth(self, change: Change, origin: Origin) -> Published:
        """Make a branch with its first commit."""
        if self._manifest.exists(change.branch):
            done = self._already(change, self._manifest.snapshot(change.branch))
            if done is None:
                raise branch_exists(change.branch)
            return done
        self._births.check_free(change.branch)
        base = self._births.base(change.branch, origin)
        check(change, base)
        commit, records = _records(change, base)
        try:
            lookup = self._manifest.perhaps_held(origin.branch, origin.version, records)
            version = self._births.bear(
                change.branch, origin, encode(records, origin.version + 1), lookup
            )
        except StorageFailure as failure:
            version = self._look(change, failure)
        return Published(commit=commit, manifest_version=version)

    def _already(self, change: Change, snapshot: GraphVersion) -> Published | None:
        """The commit, if it is visible: our own by a lost reply, or an earlier one by its key."""
        commits = self._manifest.commits(change.branch)
        known = commits.get(change.commit_id)
        if known is not None:
            version = commits.manifest_version(known.id) or snapshot.manifest_version
            return Published(commit=known, manifest_version=version)
        if change.idempotency_key is not None:
            earlier = self._manifest.find_key(change.branch, change.idempotency_key)
            if earlier is not None:
                version = commits.manifest_version(earlier.id) or snapshot.manifest_version
                return Published(commit=earlier, manifest_version=version, replayed=True)
        return None

    def _attempt(self, change: Change, snapshot: GraphVersion) -> tuple[Commit, int | None]:
        """One try. The version is None when another publish came first."""
        commit, records = _records(change, snapshot)
        base = Pin(path=MANIFEST, version=snapshot.manifest_version, branch=snapshot.fork)
        lookup = self._manifest.perhaps_held(change.branch, base.version, records)

        def merge() -> int:
            rows = encode(records, base.version + 1)
            return self._tables.merge_rows(MANIFEST, snapshot.fork, base, KEY, rows, lookup=lookup)

        try:
            return commit, guarded(Fp.PUBLISH, merge)
        except StorageFailure as failure:
            if failure.kind is FailureKind.CONFLICT:
                return commit, None
            return commit, self._look(change, failure)

    def _check_branch(self, change: Change, snapshot: GraphVersion) -> None:
        """Refuse if the branch was deleted while we published: nobody can see what we wrote."""
        try:
            stands = self._manifest.stands(snapshot)
        except StorageFailure as failure:
            raise _unknown(change) from failure
        if not stands:
            raise branch_replaced(change.branch)

    def _look(self, change: Change, failure: StorageFailure) -> int:
        """After an unclear answer the manifest itself tells whether the change is in it."""
        try:
            snapshot = self._manifest.snapshot(change.branch)
            if change.commit_id in self._manifest.commits(change.branch):
                self.make_durable(change.branch)
                return snapshot.manifest_version
        except (StorageFailure, NotFound):
            telemetry.count("publish.unclear")
        raise _unknown(change) from failure

    def make_durable(self, branch: BranchName) -> None:
        """Sync a manifest that shows a commit whose own sync nobody has seen to succeed."""
        self._tables.sync(MANIFEST, self._manifest.branch(branch).fork)


def _unknown(change: Change) -> RecoveryRequired:
    text = "the publish was sent and its outcome is not known"
    return RecoveryRequired(
        Code.OUTCOME_UNKNOWN, text, commit_id=change.commit_id, branch=change.branch
    )


def _records(change: Change, snapshot: GraphVersion) -> tuple[Commit, tuple[Record, ...]]:
    """The commit that follows a snapshot, and everything that publishing it writes."""
    commit = Commit(
        id=change.commit_id,
        parent_id=snapshot.head,
        merged_parent_id=change.merged_parent_id,
        branch=change.branch,
        actor=change.actor,
        created_at=change.created_at,
        idempotency_key=change.idempotency_key,
        kind=change.kind,
        details=change.details,
    )
    digest = change.schema_digest or snapshot.schema_digest
    head = HeadRecord(branch=change.branch, commit=commit.id, schema_digest=digest)
    return commit, (*change.records, commit, head)


def check(change: Change, snapshot: GraphVersion) -> None:
    """Everything a change depends on must be as it was when the change was made."""
    if change.incarnation != snapshot.incarnation:
        raise branch_replaced(change.branch)
    if change.head is not None and change.head != snapshot.head:
        text = f"branch '{change.branch}' has moved on"
        raise PreconditionFailed(
            Code.PRECONDITION_FAILED, text, expected=change.head, actual=snapshot.head
        )
    if change.schema_base is not None and change.schema_base != snapshot.schema_digest:
        text = f"the schema of branch '{change.branch}' has changed meanwhile"
        raise Conflict(Code.CONFLICT, text, branch=change.branch)
    for pins in (change.expected, change.judged):
        for key, expected in pins.items():
            pin = snapshot.tables.get(key)
            actual = pin.version if pin is not None else None
            if actual != expected:
                raise version_mismatch(key, expected, actual)


def version_mismatch(table_key: str, expected: int, actual: int | None) -> Conflict:
    """The conflict of two writers over one table."""
    return Conflict(
        Code.EXPECTED_VERSION_MISMATCH,
        f"{table_key} is at version {actual}, the write was made for version {expected}",
        conflicts=[{"table_key": table_key, "expected": expected, "actual": actual}],
    )
