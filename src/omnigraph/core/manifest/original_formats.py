"""Manifests of the original, formats 1 to 4, read as if they were ours.

The original is written in Rust. Its rows have other keys and name no location with a version. Up to
its format 3 the lineage is in a table of its own, forked like the manifest, with the actors beside
it in one that never is; format 4 has it in the manifest. Reading changes nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa

from omnigraph.core.commits.records import (
    COMMIT_KIND,
    KEY,
    CommitRecord,
    HeadRecord,
    Record,
    TableRecord,
    TombstoneRecord,
    VersionRecord,
    encode_dated,
)
from omnigraph.core.layout import (
    MANIFEST,
    ORIGINAL_ACTORS,
    ORIGINAL_COMMITS,
    ORIGINAL_NOTE,
    SCHEMA_TEXT,
)
from omnigraph.core.manifest.formats import ManifestFormat, unreadable_original
from omnigraph.core.schema.schema_state import AcceptedSchema, SchemaFiles
from omnigraph.core.storage_errors import damaged
from omnigraph.errors import GraphError
from omnigraph.lang import compile_schema
from omnigraph.runtime.ids import encode as ulid
from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.io.objects import ObjectStore
from omnigraph.store.table import CREATED_AT
from omnigraph.store.tables import Pin, Table, Tables
from omnigraph.types import MAIN, BranchName, CommitId

LINEAGE_IN_MANIFEST: Final = 4  # the first format of the original that has it there
_KIND: Final = "original"
_NO_VERSION: Final = (1 << 64) - 1  # of a commit that was written before its version was known
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# A graph without any lineage gets one commit, the same in every process.
_GENESIS: Final = CommitId(
    ulid(int.from_bytes(hashlib.sha256(b"a graph without lineage").digest()[:10], "big"))
)


@dataclass(frozen=True, slots=True)
class OriginalCommit:
    """A commit of the original, and the version of the manifest that it published."""

    commit: CommitRecord
    version: int

    @property
    def age(self) -> tuple[int, int, str]:
        """The order by which the original finds the newest."""
        return self.version, self.commit.created_at, self.commit.id


class Originals:
    """The manifests that the original left in one graph."""

    def __init__(self, tables: Tables, objects: ObjectStore, schemas: SchemaFiles) -> None:
        """Read through these."""
        self._tables = tables
        self._objects = objects
        self._schemas = schemas
        self._schema: AcceptedSchema | None = None

    # -- rows --------------------------------------------------------------------------------------

    def rows(self, table: Table, branch: BranchName, format: ManifestFormat) -> pa.Table:
        """A version of a manifest, as rows of ours."""
        rows = unique_rows(table)
        commits = self.lineage(table, format)
        head = max(commits, key=lambda each: each.age)
        version = table.pin.version
        digest = self.schema().digest
        newest = HeadRecord(branch=branch, commit=head.commit.id, schema_digest=digest)
        records: list[tuple[Record, int | None]] = [(each, version) for each in _tables_of(rows)]
        records += [(each.commit, each.version) for each in commits]
        return encode_dated([*records, (newest, version)])

    def schema(self) -> AcceptedSchema:
        """The schema that the graph had when it was of the original; the same for all branches."""
        if self._schema is None:
            self._schema = self._find_schema()
            self._schemas.remember(self._schema)
        return self._schema

    def _find_schema(self) -> AcceptedSchema:
        try:
            note = json.loads(self._objects.get(ORIGINAL_NOTE))
            return self._schemas.load(str(note["schema_digest"]))
        except StorageFailure as failure:
            if failure.kind is not FailureKind.NOT_FOUND:
                raise
        except (KeyError, TypeError, ValueError) as error:
            raise damaged(ORIGINAL_NOTE, f"it cannot be read: {error}") from error
        try:
            text = self._objects.get(SCHEMA_TEXT).decode()
            return AcceptedSchema(catalog=compile_schema(text, SCHEMA_TEXT), text=text)
        except StorageFailure as failure:
            if failure.kind is not FailureKind.NOT_FOUND:
                raise
            raise damaged(SCHEMA_TEXT, "the schema is missing") from failure
        except UnicodeDecodeError as error:
            raise damaged(SCHEMA_TEXT, f"it is no text: {error}") from error
        except GraphError as error:
            reason = f"its schema is not understood here ({error})"
            raise unreadable_original(reason, path=SCHEMA_TEXT) from error

    def keep_schema(self) -> AcceptedSchema:
        """Store the schema where our schemas are, and note which one it was."""
        schema = self.schema()
        note = json.dumps({"schema_digest": self._schemas.keep(schema)}).encode()
        try:
            self._objects.put_new(ORIGINAL_NOTE, note)
        except StorageFailure as failure:
            if failure.kind is not FailureKind.EXISTS:
                raise
        return schema

    # -- lineage -----------------------------------------------------------------------------------

    def lineage(self, table: Table, format: ManifestFormat) -> list[OriginalCommit]:
        """The commits up to a version of a manifest, never none."""
        version = table.pin.version
        if format.number >= LINEAGE_IN_MANIFEST:
            found = _in_manifest(table)
        else:
            found = self.stored_lineage(table.pin)
        known = [each for each in found if each.version <= version]
        return known or [OriginalCommit(_genesis(), version)]

    def stored_lineage(self, pin: Pin) -> list[OriginalCommit]:
        """The commits that the tables of the original have for a version of a manifest.

        Raises:
            StorageFailure: A table is there and cannot be read, which is not the same as none.
        """
        if not self._is_there(ORIGINAL_COMMITS):
            return []
        fork, limit = self._place_of_lineage(pin)
        newest = self._tables.head(ORIGINAL_COMMITS, fork)
        rows = self._read(Pin(ORIGINAL_COMMITS, newest, fork))
        actors = self._actors()
        found = [_stored(row, actors) for row in rows]
        return [each for each in found if each.version <= limit]

    def _place_of_lineage(self, pin: Pin) -> tuple[str | None, int]:
        """The fork that has the lineage of a version of a manifest, and up to which version.

        A branch that the original made has a fork of its own. One that we made from an old commit
        has none; it inherits what its origin had, as long as nothing was published on it.
        """
        fork, limit = pin.branch, pin.version
        while fork is not None:
            info = self._tables.fork_info(MANIFEST, fork)
            if info is None:
                raise damaged(MANIFEST, f"the record of branch {fork!r} is missing")
            if limit > info.parent_version:
                if self._tables.fork_info(ORIGINAL_COMMITS, fork) is not None:
                    break
                if self._keys(fork, limit) != self._keys(fork, info.parent_version):
                    raise damaged(ORIGINAL_COMMITS, f"the lineage of branch {fork!r} is missing")
            fork, limit = info.parent_branch, min(limit, info.parent_version)
        return fork, limit

    def _keys(self, fork: str, version: int) -> set[str]:
        found = self._tables.open(Pin(MANIFEST, version, fork)).read([KEY])
        return set(found.column(KEY).to_pylist())

    def _actors(self) -> Mapping[str, str]:
        if not self._is_there(ORIGINAL_ACTORS):
            return {}
        rows = self._read(Pin(ORIGINAL_ACTORS, self._tables.head(ORIGINAL_ACTORS)))
        return {row["graph_commit_id"]: row["actor_id"] for row in rows}

    def _is_there(self, path: str) -> bool:
        """True if there is a table at all. To a reader a damaged one looks like none."""
        return bool(self._objects.list(f"{path}/_versions"))

    def _read(self, pin: Pin) -> list[dict[str, Any]]:
        table = self._tables.open(pin)
        found: list[dict[str, Any]] = table.read(table.schema.names).to_pylist()
        return found


def unique_rows(table: Table) -> list[dict[str, Any]]:
    """The rows of a manifest, of each key the last one: format 1 let rivals land twice."""
    found = {row["object_id"]: row for row in table.read(table.schema.names).to_pylist()}
    return list(found.values())


def _tables_of(rows: Iterable[Mapping[str, Any]]) -> list[Record]:
    """The records of tables, with the location that the original notes once for all versions."""
    locations = {row["table_key"]: row["location"] for row in rows if row["object_type"] == "table"}
    found: list[Record] = [
        TableRecord(table_key=key, location=location) for key, location in locations.items()
    ]
    for row in rows:
        key, kind = row["table_key"], row["object_type"]
        if kind not in {"table_version", "table_tombstone"}:
            continue
        if key not in locations:
            raise damaged(MANIFEST, f"the row {row['object_id']!r} is of a table without location")
        version = int(row["table_version"])
        if kind == "table_tombstone":
            found.append(TombstoneRecord(table_key=key, location=locations[key], version=version))
            continue
        found.append(
            VersionRecord(
                table_key=key,
                location=locations[key],
                version=version,
                table_branch=row["table_branch"],
                row_count=int(row["row_count"] or 0),
            )
        )
    return found


def _in_manifest(table: Table) -> list[OriginalCommit]:
    """The commits that format 4 has in the manifest itself."""
    filter = f"object_type = '{COMMIT_KIND}'"
    rows = table.read(table.schema.names, filter=filter, versions=True).to_pylist()
    return [_noted(row) for row in rows]


def _noted(row: Mapping[str, Any]) -> OriginalCommit:
    try:
        plain = json.loads(row["metadata"])
        commit = _commit(
            row["object_id"],
            row["table_branch"],
            plain.get("parent_commit_id"),
            plain.get("merged_parent_commit_id"),
            plain.get("actor_id"),
            int(plain["created_at"]),
        )
    except (KeyError, TypeError, ValueError, GraphError) as error:
        reason = f"the row {row['object_id']!r} cannot be read: {error}"
        raise damaged(MANIFEST, reason) from error
    said = row["table_version"]
    version = row[CREATED_AT] if said is None or said == _NO_VERSION else said
    return OriginalCommit(commit, int(version))


def _stored(row: Mapping[str, Any], actors: Mapping[str, str]) -> OriginalCommit:
    created = row["created_at"]
    try:
        commit = _commit(
            row["graph_commit_id"],
            row["manifest_branch"],
            row["parent_commit_id"],
            row["merged_parent_commit_id"],
            actors.get(row["graph_commit_id"]),
            int((created.replace(tzinfo=UTC) - _EPOCH).total_seconds() * 1_000_000),
        )
        return OriginalCommit(commit, int(row["manifest_version"]))
    except (KeyError, TypeError, ValueError, AttributeError, GraphError) as error:
        reason = f"the row {row.get('graph_commit_id')!r} cannot be read: {error}"
        raise damaged(ORIGINAL_COMMITS, reason) from error


def _commit(
    id: str,
    branch: str | None,
    parent: str | None,
    merged: str | None,
    actor: str | None,
    created_at: int,
) -> CommitRecord:
    return CommitRecord(
        id=CommitId(id),
        parent_id=None if parent is None else CommitId(parent),
        merged_parent_id=None if merged is None else CommitId(merged),
        branch=MAIN if branch is None else BranchName(branch),
        actor=actor,
        created_at=created_at,
        kind=_KIND,
    )


def _genesis() -> CommitRecord:
    return CommitRecord(
        id=_GENESIS, parent_id=None, branch=MAIN, actor=None, created_at=0, kind=_KIND
    )
