"""Intents: what a write notes down before it moves anything, so that recovery can settle it.

One JSON file per operation. The file is written before the first table moves and removed after
the publish, so an intent that is found belongs to a writer that is at work or has died. It holds
everything that publishing the write takes, and what the write depends on; and the name of the
commit that would undo it, so that all who undo it make the same one.

The end of a branch is announced by an intent, too, before looking for writers: a writer and
the one who ends its branch each store theirs first and look afterwards, so one sees the other.

A write that makes its own branch notes that down before it prepares anything, without tables, and
again with them when it is armed: until it is published, nothing but the intent knows of the branch.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

import pyarrow as pa

from omnigraph.core.commits import records as rows
from omnigraph.core.commits import requirements
from omnigraph.core.commits.lineage import MERGE_SOURCE
from omnigraph.core.commits.records import CommitRecord, VersionRecord
from omnigraph.core.commits.request import CommitRequest
from omnigraph.core.commits.requirements import TableAt
from omnigraph.core.commits.target import ExistingBranch, NewBranch, Target
from omnigraph.core.layout import INTENTS, intent_path
from omnigraph.core.locks.owner import Owner
from omnigraph.errors import Code, Corrupt, GraphError, JsonValue
from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.io.objects import ObjectStore
from omnigraph.types import BranchName, CommitId

INTENT_FORMAT = 1


class WriterKind(StrEnum):
    """The kinds of writers. Appended to, never renamed: the names are on disk."""

    MUTATION = "mutation"
    LOAD = "load"
    SCHEMA_APPLY = "schema_apply"
    BRANCH_MERGE = "branch_merge"
    ENSURE_INDICES = "ensure_indices"
    OPTIMIZE = "optimize"
    REPAIR = "repair"
    REVERT = "revert"
    RESET = "reset"
    TAG = "tag"
    PROTECTION = "protection"
    TRANSACTION = "transaction"
    BRANCH_DELETE = "branch_delete"
    BRANCH_RENAME = "branch_rename"
    BRANCH_CREATE = "branch_create"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTable:
    """One table that a write moves: from `expected`, by the transactions `uuids` in their order.

    A writer that confirms fills in `confirmed` when all of them have landed.
    """

    table_key: str
    path: str
    table_branch: str | None
    expected: int
    uuids: tuple[str, ...]
    row_count: int
    confirmed: int | None = None

    @property
    def planned(self) -> int:
        """The version that the table has when everything has landed."""
        return self.expected + len(self.uuids)

    @property
    def restore_uuid(self) -> str:
        """The name of the transaction that takes the table back to `expected`."""
        return f"{self.uuids[0]}.restore"


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """A write in flight."""

    operation_id: str
    request: CommitRequest
    rollback_commit_id: CommitId  # of the commit that undoes it, should it come to that
    owner: Owner
    tables: tuple[PlannedTable, ...]
    confirms: bool  # the writer confirms the landed versions before it publishes
    # When the store saw the file written; None if not looked up. Not part of the file.
    modified_us: int | None = field(default=None, compare=False)

    @property
    def commit(self) -> CommitRecord:
        """The commit that the write makes."""
        return self.request.commit

    @property
    def branch(self) -> BranchName:
        """The branch that the write is for."""
        return self.request.commit.branch

    @property
    def ends_branch(self) -> bool:
        """True if it announces the end of its branch, rather than a write to it."""
        return self.commit.kind in (WriterKind.BRANCH_DELETE, WriterKind.BRANCH_RENAME)

    @property
    def needs(self) -> tuple[BranchName, ...]:
        """The branches that cannot be ended while this write is under way."""
        merged = self.commit.details.get(MERGE_SOURCE)
        sources = (BranchName(merged),) if isinstance(merged, str) else ()
        return (*self.request.target.needs, *sources)

    def touches(self, branch: BranchName, table_keys: Iterable[str]) -> bool:
        """True if this write moves one of these tables on this branch."""
        wanted = set(table_keys)
        return self.branch == branch and any(item.table_key in wanted for item in self.tables)

    def rivals(self, other: Intent) -> bool:
        """True if this write and another one must not be in flight together."""
        if self.operation_id == other.operation_id:
            return False
        if self.ends_branch or other.ends_branch:
            # By name: a merge does not say which of its branches that have had this name.
            return other.branch in self.needs or self.branch in other.needs
        if self.branch != other.branch:
            return False
        if self.request.target.incarnation != other.request.target.incarnation:
            return False  # each has tables of its own, and the name of the branch decides
        key = self.commit.idempotency_key
        if key is not None and key == other.commit.idempotency_key:
            return True
        return self.touches(other.branch, (item.table_key for item in other.tables))

    def landed(self, versions: Mapping[str, int] | None = None) -> CommitRequest:
        """The change with the versions that its tables reached, or were to reach."""
        return self.request.with_records(
            VersionRecord(
                table_key=item.table_key,
                location=item.path,
                version=item.planned if versions is None else versions[item.table_key],
                table_branch=item.table_branch,
                row_count=item.row_count,
            )
            for item in self.tables
        )

    def confirm(self, versions: Mapping[str, int]) -> Intent:
        """The intent with the versions that its tables reached."""
        tables = tuple(replace(item, confirmed=versions[item.table_key]) for item in self.tables)
        return replace(self, tables=tables)


# -- the file --------------------------------------------------------------------------------------


# The fields of a commit whose names in intents differ from their own.
_NAMES: Final = {"id": "commit_id"}


def encode(intent: Intent) -> bytes:
    """The file of an intent."""
    request = intent.request
    plain = {
        "format": INTENT_FORMAT,
        "operation_id": intent.operation_id,
        **rows.commit_to_json(request.commit, _NAMES),
        "incarnation": request.target.incarnation,
        "origin": _source_json(request.target),
        "rollback_commit_id": intent.rollback_commit_id,
        **requirements.to_json(request.requires),
        "schema_digest": request.schema_digest,
        "owner": intent.owner.to_json(),
        "confirms": intent.confirms,
        "records": rows.encode(request.records).to_pylist(),
        "tables": [
            {
                "table_key": item.table_key,
                "path": item.path,
                "table_branch": item.table_branch,
                "expected_version": item.expected,
                "post_commit_pin": item.planned,
                "transaction_uuids": list(item.uuids),
                "row_count": item.row_count,
                "confirmed_version": item.confirmed,
            }
            for item in intent.tables
        ],
    }
    return json.dumps(plain, indent=1, sort_keys=True).encode()


def _source_json(target: Target) -> dict[str, JsonValue] | None:
    if isinstance(target, ExistingBranch):
        return None
    return {
        "branch": target.source,
        "incarnation": target.source_incarnation,
        "manifest_version": target.source_version,
    }


def decode(data: bytes, place: str) -> Intent:
    """Read an intent; one that cannot be read is an error, and its file stays."""
    try:
        return _decoded(json.loads(data))
    except (LookupError, TypeError, ValueError, AttributeError, GraphError, pa.ArrowException) as e:
        text = (
            f"the intent {place} cannot be read ({e}). Which tables it is about is not known, so "
            "nothing is written to the graph until the file is gone; reading goes on. Inspect it, "
            "use a release that can read it, or move it away and check the graph"
        )
        raise Corrupt(Code.INTENT_UNREADABLE, text, path=place) from e


def _decoded(plain: Mapping[str, Any]) -> Intent:
    if plain["format"] != INTENT_FORMAT:
        raise ValueError(f"format {plain['format']!r} is not known to this release")
    records = pa.Table.from_pylist(plain["records"], schema=rows.ARROW_SCHEMA)
    tables = tuple(_planned(item) for item in plain["tables"])
    commit = rows.commit_from_json({**plain, "parent_id": None}, _NAMES)
    target = _target(plain, commit.branch)
    moved = (TableAt(item.table_key, item.expected) for item in tables)
    return Intent(
        operation_id=_text(plain["operation_id"]),
        request=CommitRequest(
            commit=replace(commit, kind=WriterKind(commit.kind)),
            target=target,
            requires=requirements.from_json(plain, target, moved),
            records=tuple(rows.decode(records)),
            schema_digest=_text_or_none(plain["schema_digest"]),
        ),
        rollback_commit_id=CommitId(plain["rollback_commit_id"]),
        owner=Owner.from_json(plain["owner"]),
        tables=tables,
        confirms=bool(plain["confirms"]),
    )


def _target(plain: Mapping[str, Any], branch: BranchName) -> Target:
    source = plain.get("origin")
    if source is None:
        return ExistingBranch(branch=branch, incarnation=_text(plain["incarnation"]))
    return NewBranch(
        branch=branch,
        operation_id=_text(plain["operation_id"]),
        source=BranchName(source["branch"]),
        source_incarnation=_text(source["incarnation"]),
        source_version=int(source["manifest_version"]),
    )


def _planned(plain: Mapping[str, Any]) -> PlannedTable:
    confirmed = plain["confirmed_version"]
    item = PlannedTable(
        table_key=_text(plain["table_key"]),
        path=_text(plain["path"]),
        table_branch=_text_or_none(plain["table_branch"]),
        expected=int(plain["expected_version"]),
        uuids=tuple(_text(uuid) for uuid in plain["transaction_uuids"]),
        row_count=int(plain["row_count"]),
        confirmed=None if confirmed is None else int(confirmed),
    )
    if not item.uuids or item.planned != plain["post_commit_pin"]:
        raise ValueError(f"the plan for {item.table_key} contradicts itself")
    return item


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value


def _text_or_none(value: object) -> str | None:
    return None if value is None else _text(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class IntentListing:
    """The intents that are there: those that can be read, oldest first, and the others."""

    intents: tuple[Intent, ...]
    unreadable: tuple[Corrupt, ...]

    def require_readable(self) -> None:
        """Refuse to go on when there is an intent that this release does not understand."""
        for error in self.unreadable:
            raise error


class IntentLog:
    """The intents of one graph."""

    __slots__ = ("_objects",)

    def __init__(self, objects: ObjectStore) -> None:
        """Keep them in this store."""
        self._objects = objects

    def put(self, intent: Intent) -> None:
        """Write a new intent; durable on return."""
        self._objects.put_new(intent_path(intent.operation_id), encode(intent))

    def replace(self, intent: Intent) -> None:
        """Write an intent again, with more known."""
        self._objects.put(intent_path(intent.operation_id), encode(intent))

    def remove(self, operation_id: str) -> None:
        """Forget an intent."""
        self._objects.delete(intent_path(operation_id))

    def release(self, operation_id: str) -> None:
        """Allow others to settle an intent although its process lives on."""
        # What is stored may know more than its writer: a confirmation whose reply was lost.
        stored = self.get(operation_id)
        if stored is not None:
            self.replace(replace(stored, owner=stored.owner.released()))

    def get(self, operation_id: str) -> Intent | None:
        """One intent, or None when it is gone."""
        place = intent_path(operation_id)
        try:
            return decode(self._objects.get(place), place)
        except StorageFailure as failure:
            if failure.kind is FailureKind.NOT_FOUND:
                return None
            raise

    def scan(self, *, apart_from: str | None = None) -> IntentListing:
        """Look at all intents but one. One that vanishes while we look has been settled."""
        found: list[Intent] = []
        unreadable: list[Corrupt] = []
        own = None if apart_from is None else intent_path(apart_from)
        for info in self._objects.list(INTENTS):
            if info.path == own or not info.path.endswith(".json"):
                continue
            try:
                intent = decode(self._objects.get(info.path), info.path)
                found.append(replace(intent, modified_us=info.modified_us))
            except StorageFailure as failure:
                if failure.kind is not FailureKind.NOT_FOUND:
                    raise
            except Corrupt as error:
                unreadable.append(error)
        found.sort(key=lambda item: item.operation_id)
        return IntentListing(intents=tuple(found), unreadable=tuple(unreadable))

    def pending(self, *, apart_from: str | None = None) -> tuple[Intent, ...]:
        """All intents but one, oldest first; one that cannot be read is an error."""
        found = self.scan(apart_from=apart_from)
        found.require_readable()
        return found.intents
