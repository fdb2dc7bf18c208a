"""Reading a graph: its snapshots, the schemas and tables that they pin, its commits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pyarrow as pa

from omnigraph.core.commits.lineage import Ancestry, first_parents, merge_base
from omnigraph.core.layout import table_key
from omnigraph.core.schema.alignment import TypeState, type_diff
from omnigraph.core.storage_errors import public, storage_errors
from omnigraph.errors import Code, InvalidInput, NotFound
from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.types import MAIN, BranchName, CommitId

if TYPE_CHECKING:
    from omnigraph.core.commits.graph_version import GraphVersion, TablePin
    from omnigraph.core.commits.records import CommitRecord
    from omnigraph.core.manifest.manifest import Manifest
    from omnigraph.core.schema.schema_state import AcceptedSchema, SchemaFiles
    from omnigraph.lang.catalog.model import EntityType
    from omnigraph.store.reading.table_diff import TableDiff
    from omnigraph.store.root import Root
    from omnigraph.store.tables import Table, Tables


class RepositoryReader:
    """The part of `Repository` that reads. Thread-safe."""

    def __init__(
        self, root: Root, tables: Tables, manifest: Manifest, schemas: SchemaFiles
    ) -> None:
        """Read the graph that has these tables."""
        self.root = root
        self.tables = tables
        self.manifest = manifest
        self.schemas = schemas
        self._closed = False

    def close(self) -> None:
        """Refuse all calls from now on. Running ones are completed."""
        self._closed = True
        self.tables.forget_all()

    def require_open(self) -> None:
        """Refuse to go on with a handle that was closed."""
        if self._closed:
            text = "the graph was closed; open it again with `omnigraph.open`"
            raise InvalidInput(Code.CLOSED, text, uri=self.root.uri)

    def snapshot(self, branch: BranchName = MAIN) -> GraphVersion:
        """The newest state of a branch."""
        self.require_open()
        try:
            return self.manifest.snapshot(branch)
        except StorageFailure as failure:
            raise public(failure) from failure

    def snapshot_at(self, commit: CommitId, hint: BranchName = MAIN) -> GraphVersion:
        """The state that a commit published; `hint` is the branch where to look first."""
        self.require_open()
        with storage_errors():
            return self.manifest.at_commit(commit, hint)

    def snapshot_at_version(self, branch: BranchName, version: int) -> GraphVersion:
        """The state of a branch at an older manifest version."""
        self.require_open()
        with storage_errors():
            return self.manifest.at_version(branch, version)

    def schema(self, snapshot: GraphVersion) -> AcceptedSchema:
        """The schema in force at a snapshot."""
        self.require_open()
        with storage_errors():
            return self.schemas.load(snapshot.schema_digest)

    def table(self, pin: TablePin) -> Table:
        """A published table, to read."""
        self.require_open()
        with self._still_stored(pin):
            return self.tables.open(pin.store_pin)

    def written_by(self, pin: TablePin) -> str | None:
        """The identity of the commit that wrote a published table."""
        self.require_open()
        with self._still_stored(pin):
            return self.tables.transaction_uuid(pin.store_pin)

    def type_diff(self, older: TypeState | None, newer: TypeState, wanted: EntityType) -> TableDiff:
        """The rows of a type that two states do not share, with the columns of `wanted`."""
        self.require_open()
        with storage_errors():
            try:
                return type_diff(self.tables, older, newer, wanted)
            except StorageFailure as failure:
                if failure.kind is not FailureKind.NOT_FOUND:
                    raise
                old = newer.pin if older is None else older.pin
                is_there = self.tables.has_version(old.path, old.version, old.branch)
                lost = newer if older is None or is_there else older
                key = table_key(lost.entity.kind, lost.entity.name)
                raise self.manifest.missing_table(lost.pin, key) from failure

    @contextmanager
    def _still_stored(self, pin: TablePin) -> Iterator[None]:
        """Say `Gone` when a snapshot has outlived what it pins, `Corrupt` if a head needs it."""
        with storage_errors():
            try:
                yield
            except StorageFailure as failure:
                if failure.kind is not FailureKind.NOT_FOUND:
                    raise
                raise self.manifest.missing_table(pin.store_pin, pin.table_key) from failure

    def read(self, snapshot: GraphVersion, table_key: str) -> pa.Table:
        """A whole table of a snapshot; for small tables and tests."""
        self.require_open()
        pin = snapshot.pin(table_key)
        with self._still_stored(pin):
            table = self.tables.open(pin.store_pin)
            return table.read(table.schema.names)

    def commits(
        self, branch: BranchName = MAIN, *, actor: str | None = None
    ) -> Iterator[CommitRecord]:
        """The history of a branch, newest first; of one actor, if given."""
        history = self.history(self.snapshot(branch))
        return (commit for commit in history if actor is None or commit.actor == actor)

    def history(self, version: GraphVersion) -> Iterator[CommitRecord]:
        """The commits that led to a version, newest first, without what was merged."""
        log = self.manifest.commits(version.branch)

        def find(commit: CommitId) -> CommitRecord | None:
            self.require_open()
            return log.get(commit)

        return first_parents(find, version.head)

    def commit_info(self, commit: CommitId, hint: BranchName = MAIN) -> CommitRecord:
        """One commit, wherever it was made; `hint` is the branch where to look first."""
        self.require_open()
        with storage_errors():
            branch = self.manifest.find(commit, hint)
            found = None if branch is None else self.manifest.commits(branch).get(commit)
        if found is None:
            raise NotFound(Code.NOT_FOUND, f"commit {commit} does not exist", commit=commit)
        return found

    def ancestry(self, *branches: BranchName) -> Ancestry:
        """The commit graph behind some branches."""
        self.require_open()
        with storage_errors():
            return Ancestry(*(self.manifest.commits(branch).get for branch in branches))

    def whole_ancestry(self) -> Ancestry:
        """The commit graph behind all branches, without those that are deleted meanwhile."""
        self.require_open()
        found = []
        with storage_errors():
            for name in self.manifest.names():
                with suppress(NotFound):
                    found.append(self.manifest.commits(name).get)
        return Ancestry(*found)

    def merge_base(self, left: BranchName, right: BranchName) -> CommitId | None:
        """The latest commit that two branches share."""
        heads = [self.snapshot(branch).head for branch in (left, right)]
        return merge_base(self.ancestry(left, right).find, heads[0], heads[1])
