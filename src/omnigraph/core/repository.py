"""The repository: one graph, opened, with its branches and commits.

It pins snapshots, hands out branches and takes prepared writes. It knows no queries and no rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from omnigraph.core.branches.branches import StoredBranches
from omnigraph.core.branches.creation import BranchCreation
from omnigraph.core.branches.kept_states import KeptStates
from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.core.commits.records import CommitRecord
from omnigraph.core.commits.target import NewBranch
from omnigraph.core.init import create_graph, refuse_unfinished_copy
from omnigraph.core.journal.intent import IntentLog, WriterKind
from omnigraph.core.journal.staging_areas import StagingAreas
from omnigraph.core.keyed_branches import KeyedBranches
from omnigraph.core.locks.claims import open_claims
from omnigraph.core.locks.holds import NO_HOLD, Holder, Holds
from omnigraph.core.locks.liveness import LIVE_OPERATIONS
from omnigraph.core.manifest.branch_info import BranchInfo
from omnigraph.core.manifest.deleted_branches import DeletedBranches
from omnigraph.core.manifest.manifest import Manifest
from omnigraph.core.manifest.migrate import Migration
from omnigraph.core.manifest.original_formats import Originals
from omnigraph.core.publish.context import WriteContext
from omnigraph.core.publish.destinations import Destinations
from omnigraph.core.publish.publisher import Published, Publisher
from omnigraph.core.reader import RepositoryReader
from omnigraph.core.recovery.settlement import Settlement
from omnigraph.core.recovery.sweep import Recovery
from omnigraph.core.recovery.torn import TornFiles
from omnigraph.core.retry import RetryPolicy
from omnigraph.core.schema.schema_state import AcceptedSchema, SchemaFiles
from omnigraph.core.storage_errors import public, storage_errors
from omnigraph.core.update_refs import Refs
from omnigraph.core.write import Prepared, WritePath
from omnigraph.errors import Code, Corrupt, Forbidden, Gone, InvalidInput, NotFound
from omnigraph.runtime import telemetry
from omnigraph.runtime.clock import Clock, SystemClock
from omnigraph.runtime.ids import Ids, UlidIds
from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.io.objects import ObjectStore, open_objects
from omnigraph.store.root import Root
from omnigraph.store.tables import SetAside, Table, Tables, open_tables
from omnigraph.types import MAIN, BranchName, CommitId

if TYPE_CHECKING:
    from omnigraph.core.cleanup.cleaner import Cleaned, Cleaner, CleanupRequest
    from omnigraph.core.recovery.repair import Drift


class OpenMode(StrEnum):
    """The rights of a handle. A read-only one never writes, not even to recover."""

    READ_WRITE = "rw"
    READ_ONLY = "r"


@dataclass(frozen=True, slots=True, kw_only=True)
class Components:
    """The parts of a repository that a test may swap."""

    objects: ObjectStore
    tables: Tables
    clock: Clock
    ids: Ids


def components(root: Root, *, durable: bool = True) -> Components:
    """The real parts for a place."""
    clock = SystemClock()
    return Components(
        objects=open_objects(root, durable=durable),
        tables=open_tables(root, durable=durable),
        clock=clock,
        ids=UlidIds(clock),
    )


class Repository(RepositoryReader):
    """One graph. Thread-safe."""

    def __init__(self, root: Root, parts: Components, mode: OpenMode) -> None:
        """Put the parts together; nothing is read or written yet."""
        self.mode = mode
        self.retry = RetryPolicy()
        self.objects = parts.objects
        self.clock = parts.clock
        self.ids = parts.ids
        self.intents = IntentLog(parts.objects)
        self.torn = TornFiles(parts.tables, self.intents, lambda: mode is OpenMode.READ_WRITE)
        deleted = DeletedBranches(parts.objects)
        schemas = SchemaFiles(parts.objects)
        originals = Originals(parts.tables, parts.objects, schemas)
        manifest = Manifest(parts.tables, deleted, originals, self.torn.settle, parts.clock)
        super().__init__(root, parts.tables, manifest, schemas)
        self.migration = Migration(
            parts.tables, parts.objects, self.schemas, self.manifest, originals, parts.ids
        )
        claims = open_claims(parts.objects, parts.clock, parts.ids, LIVE_OPERATIONS)
        self.creation = BranchCreation(root.uri, parts.tables, self.manifest, claims, self.intents)
        destinations = Destinations(
            root=root.uri,
            tables=parts.tables,
            manifest=self.manifest,
            creation=self.creation,
            intents=self.intents,
            migration=self.migration,
            ids=parts.ids,
        )
        self.publisher = Publisher(destinations)
        shared = WriteContext(
            root=root.uri,
            tables=parts.tables,
            manifest=self.manifest,
            destinations=destinations,
            publisher=self.publisher,
            intents=self.intents,
            liveness=claims.liveness,
            local=root.is_local,
            clock=parts.clock,
            ids=parts.ids,
        )
        self.recovery = Recovery(shared)
        self.areas = StagingAreas(
            objects=open_objects(root, durable=False) if root.is_local else parts.objects,
            tables=parts.tables,
            clock=parts.clock,
            ids=parts.ids,
            liveness=claims.liveness,
            folder=root.local_path if root.is_local else None,
        )
        self.holds = Holds(
            objects=parts.objects,
            tables=parts.tables,
            clock=parts.clock,
            ids=parts.ids,
            liveness=claims.liveness,
        )
        self._claims = claims
        self.refs = Refs(self)
        self.keyed_branches = KeyedBranches(self)
        self.settled_on_open: tuple[Settlement, ...] = ()
        self._writes = WritePath(shared, self.recovery)
        self.kept = KeptStates(parts.objects, self.manifest)
        self.branches = StoredBranches(
            parts.tables,
            self.manifest,
            deleted,
            self.creation,
            self.intents,
            self.kept,
            self._writers_of,
        )

    # -- opening -----------------------------------------------------------------------------------

    @classmethod
    def init(
        cls, root: Root, schema: AcceptedSchema, parts: Components, actor: str | None = None
    ) -> Repository:
        """Make a new graph on behalf of an actor, or refuse if one is there."""
        with storage_errors():
            claims = open_claims(parts.objects, parts.clock, parts.ids, LIVE_OPERATIONS)
            create_graph(root, schema, parts.tables, claims, parts.clock, parts.ids, actor)
        return cls.open(root, parts, OpenMode.READ_WRITE)

    @classmethod
    def open(
        cls, root: Root, parts: Components, mode: OpenMode = OpenMode.READ_WRITE
    ) -> Repository:
        """Open a graph; for writing, settle first what dead writers left behind."""
        repo = cls(root, parts, mode)
        with storage_errors():
            refuse_unfinished_copy(root, parts.objects)
        try:
            repo.manifest.snapshot(MAIN)
        except StorageFailure as failure:
            is_file = root.is_local and root.local_path.is_file()
            if is_file or failure.kind is FailureKind.NOT_FOUND:
                text = f"there is no graph at {root.uri}" + (": it is a file" if is_file else "")
                raise NotFound(Code.NOT_FOUND, text, uri=root.uri) from failure
            with storage_errors():
                raise
        if mode is OpenMode.READ_WRITE:
            with storage_errors():
                repo.migration.bring_forward(MAIN)
            repo.settled_on_open = repo.refresh()
        return repo

    def writable_table(self, snapshot: GraphVersion, table_key: str) -> Table:
        """A table to stage changes for; on a branch its first write forks it."""
        self.require_writable()
        with storage_errors():
            return self.branches.writable(snapshot, table_key)

    @contextmanager
    def preparing(self, base: GraphVersion) -> Iterator[None]:
        """Translate what storage says while a write is prepared: its branch may go meanwhile."""
        try:
            yield
        except StorageFailure as failure:
            if failure.kind is FailureKind.NOT_FOUND:
                with storage_errors():
                    self.branches.check_base(base)
            raise public(failure) from failure

    def has_branch(self, name: BranchName) -> bool:
        """True if there is a branch of this name, or a dead writer was about to make one.

        Which of both it is, is settled first, so that a repeated write finds it.
        """
        self.require_open()
        with storage_errors():
            if self.manifest.exists(name):
                return True
            if self.mode is OpenMode.READ_ONLY:
                return False
            for intent in self.intents.scan().intents:
                if isinstance(intent.request.target, NewBranch) and intent.branch == name:
                    self.recovery.settle_left(intent)
            return self.manifest.exists(name)

    def base_of(self, name: BranchName, *, create_from: BranchName | None) -> GraphVersion:
        """The newest state of a branch; of the one that it is created from, if it is missing."""
        missing = create_from is not None and not self.has_branch(name)
        return self.snapshot(create_from if missing and create_from is not None else name)

    def create_branch(
        self,
        name: BranchName,
        *,
        source: BranchName = MAIN,
        commit: CommitId | None = None,
        start: GraphVersion | None = None,
    ) -> BranchInfo:
        """Make a branch from another one, as it is, or as of a commit or a state of it."""
        self.require_writable()
        with storage_errors():
            return self.branches.create(name, source=source, commit=commit, start=start)

    def delete_branch(self, name: BranchName, *, if_head: CommitId | None = None) -> None:
        """Delete a branch without descendants and writers."""
        self.require_writable()
        with storage_errors():
            self.branches.delete(name, if_head=if_head)

    def begin_branch(
        self,
        name: BranchName,
        *,
        source: BranchName = MAIN,
        commit: CommitId | None = None,
        start: GraphVersion | None = None,
        kind: WriterKind = WriterKind.LOAD,
    ) -> GraphVersion:
        """Begin a branch that comes into being with its first commit; return that commit's base.

        The branch is not visible until a write with this base is committed. A caller that does not
        get that far abandons it; `creating_branch` sees to that. It starts from `source`, as it is
        or as of one of its commits, or from what the caller has pinned.
        """
        self.require_writable()
        with storage_errors():
            if start is None:
                found = commit is not None and self.manifest.at_commit(commit, source)
                start = found or self.manifest.snapshot(source)
            return self.creation.begin(name, self._in_our_form(start), kind)

    def _in_our_form(self, start: GraphVersion) -> GraphVersion:
        """The same state in a manifest of ours: a first commit cannot be written to another one."""
        if not self.manifest.is_original(start):
            return start
        self.migration.bring_forward(start.branch)
        newest = self.manifest.snapshot(start.branch)
        if newest.head != start.head:
            text = (
                "a branch that starts from a commit of the original is made first, with "
                "`graph.branches.create`, and written to then"
            )
            raise InvalidInput(Code.INPUT_INVALID, text, commit=start.head)
        return newest

    def abandon_branch(self, base: GraphVersion) -> None:
        """Give up a branch that was begun; once its write was committed, do nothing."""
        self.creation.abandon(base)

    @contextmanager
    def creating_branch(
        self,
        name: BranchName,
        *,
        source: BranchName = MAIN,
        commit: CommitId | None = None,
        start: GraphVersion | None = None,
    ) -> Iterator[GraphVersion]:
        """Begin a branch for the length of a block that prepares and commits its first write."""
        base = self.begin_branch(name, source=source, commit=commit, start=start)
        try:
            yield base
        finally:
            self.abandon_branch(base)

    def _writers_of(self, branch: BranchName, apart_from: str | None = None) -> tuple[str, ...]:
        """The operations that write to a branch right now, merge it or make another one from it."""
        found = []
        for intent in self.intents.pending(apart_from=apart_from):
            if branch not in intent.needs:
                continue
            if self.recovery.is_live(intent):
                found.append(intent.operation_id)
            elif isinstance(intent.request.target, NewBranch) or intent.ends_branch:
                # Not to be taken up again once the branch is gone.
                self.recovery.settle_left(intent)
        return tuple(found)

    def new_commit(self, base: GraphVersion, kind: WriterKind) -> CommitRecord:
        """A commit on top of a version; the caller fills in the rest."""
        return CommitRecord(
            id=CommitId(self.ids.new()),
            parent_id=None,
            branch=base.branch,
            actor=None,
            created_at=self.clock.now_us(),
            kind=kind,
        )

    def commit(self, prepared: Prepared) -> Published:
        """Make a prepared write visible."""
        self.require_writable()
        return self._writes.commit(prepared)

    def refresh(self) -> tuple[Settlement, ...]:
        """Look at the store anew; when writing is allowed, settle what dead writers left."""
        self.require_open()
        if self.mode is OpenMode.READ_ONLY:
            return ()
        settled = self.recovery.sweep()
        self.areas.sweep()
        return settled

    def recover(self) -> tuple[Settlement, ...]:
        """Settle what dead writers left behind, and look for orphans in every table."""
        self.require_writable()
        settled = list(self._settle())
        with storage_errors():
            names = self.manifest.names()
        for branch in names:
            settled.extend(self._settle_orphans(branch))
        return tuple(settled)

    def _settle(self) -> tuple[Settlement, ...]:
        """Settle what is unfinished, and torn branches, which opening leaves."""
        with storage_errors():
            self.torn.settle_records()
        return self.refresh()

    def _settle_orphans(self, branch: BranchName) -> tuple[Settlement, ...]:
        try:
            with storage_errors():
                return self.recovery.settle_orphans(branch)
        except NotFound:
            telemetry.count("manifest.branch_gone")  # deleted since it was listed
        except (Corrupt, Gone) as damage:
            # Reading the branch reports it; other branches can still be used.
            if branch == MAIN:
                raise
            telemetry.count("manifest.branch_damaged")
            telemetry.logger.warning("branch '%s' cannot be read: %s", branch, damage)
        return ()

    @contextmanager
    def holding(
        self, version: GraphVersion, what: str, *, onward: bool = False, insist: bool = False
    ) -> Iterator[Holder]:
        """Keep a version from clean-ups for the length of a block, if the handle may write.

        Args:
            version: The version.
            what: The reader.
            onward: All later versions of the branch, too.
            insist: A handle for reading does so, too, where storage lets it.
        """
        is_reading = self.mode is OpenMode.READ_ONLY
        if is_reading and (not insist or self._is_original(version.branch)):
            yield NO_HOLD
            return
        with storage_errors():
            hold = self.holds.take(version, what, onward=onward, must=not is_reading)
        try:
            yield hold
        finally:
            hold.release()

    def _is_original(self, branch: BranchName) -> bool:
        return self.manifest.is_original(self.manifest.snapshot(branch))

    def cleanup(self, request: CleanupRequest, report: Callable[[str], None]) -> Cleaned:
        """Remove versions and files that nothing needs which is to stay; see `core.cleanup`."""
        self.require_writable()
        if not request.dry_run:
            self._settle()
        with storage_errors():
            if not request.dry_run:
                self.holds.sweep()
            return self._cleaner().clean(request, report)

    def repair(
        self, *, dry_run: bool, force: bool, actor: str | None
    ) -> tuple[list[Drift], dict[BranchName, CommitId]]:
        """Find drift that recovery does not settle, and settle what is harmless; see `Repairer`."""
        from omnigraph.core.recovery.repair import Repairer  # noqa: PLC0415

        self.require_writable()
        if not dry_run:
            self.recover()
        with storage_errors():
            repairer = Repairer(self)
            found = repairer.find()
            made = {} if dry_run else repairer.settle(found, force=force, actor=actor)
            return found, made

    def _cleaner(self) -> Cleaner:
        # Most processes clean nothing, and do not wait for what it takes.
        from omnigraph.core.cleanup.cleaner import Cleaner  # noqa: PLC0415
        from omnigraph.core.cleanup.survey import Survey  # noqa: PLC0415

        survey = Survey(
            tables=self.tables,
            manifest=self.manifest,
            intents=self.intents,
            holds=self.holds,
            areas=self.areas,
            kept=self.kept,
        )
        return Cleaner(
            survey=survey,
            tables=self.tables,
            objects=self.objects,
            branches=self.branches,
            creation=self.creation,
            claims=self._claims,
            clock=self.clock,
            ids=self.ids,
        )

    def set_aside(self) -> tuple[SetAside, ...]:
        """The files that power cuts left unfinished and that were set aside, oldest first."""
        with storage_errors():
            return self.torn.records()

    def require_writable(self) -> None:
        """Refuse to go on with a handle that may not write."""
        self.require_open()
        if self.mode is OpenMode.READ_ONLY:
            raise Forbidden(Code.READ_ONLY, "the graph is open for reading only")
