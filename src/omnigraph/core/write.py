"""The one write path: Prepared, Armed, Landed, Published.

Every writer makes a `Prepared` and leaves through `WritePath.commit`. Up to `arm` nothing has
moved; `land` moves tables one by one, each strictly from the version that the write was made for;
`publish` makes all of it visible at once. A write that is refused after `arm` is undone on the
spot; any other failure is reported with the operation id by which recovery will settle it.

What differs between a branch that is there and one that is created with the commit is up to the
destination of the write.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field

from omnigraph.core import tuning
from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.core.commits.records import CommitRecord, Record
from omnigraph.core.commits.request import CommitRequest
from omnigraph.core.commits.requirements import (
    HeadIs,
    JudgedTableAt,
    RefIs,
    Requirement,
    SchemaIs,
    SourceExists,
    TableAt,
    branch_replaced,
    check,
    requirement_of,
    version_mismatch,
)
from omnigraph.core.failpoints import Fp, guarded
from omnigraph.core.journal.intent import Intent, PlannedTable, WriterKind
from omnigraph.core.journal.lease import Lease
from omnigraph.core.locks.owner import this_process
from omnigraph.core.publish.context import WriteContext
from omnigraph.core.publish.destinations import Destination
from omnigraph.core.publish.publisher import Published, find_replay
from omnigraph.core.recovery.settlement import Settled
from omnigraph.core.recovery.sweep import Authority, Recovery, unsettled
from omnigraph.core.storage_errors import public, storage_errors
from omnigraph.errors import (
    Busy,
    Code,
    Conflict,
    Corrupt,
    GraphError,
    NotFound,
    RecoveryRequired,
)
from omnigraph.runtime import cancellation, telemetry
from omnigraph.runtime.failpoints import hit
from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.tables import Staged
from omnigraph.types import CommitId


@dataclass(frozen=True, slots=True, kw_only=True)
class TableWrite:
    """Staged changes of one table, to be landed in this order. Usually there is one."""

    table_key: str
    staged: tuple[Staged, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A prepared write: what arming, landing and publishing need. No table has moved."""

    base: GraphVersion
    commit: CommitRecord
    tables: tuple[TableWrite, ...]
    head: CommitId | None = None  # the caller's condition on the branch
    judged: Mapping[str, int] = field(default_factory=dict)  # tables that it was judged against
    schema_digest: str | None = None  # the schema that it puts in force; None: no other
    records: tuple[Record, ...] = ()
    ref: RefIs | None = None  # what it sets, instead of moving the branch
    source: SourceExists | None = None  # the branch that it merges

    @property
    def confirms(self) -> bool:
        """True if several commits may land per table, as of a merge: they look alike until then."""
        several = any(len(item.staged) > 1 for item in self.tables)
        return several or self.commit.kind == WriterKind.BRANCH_MERGE

    @property
    def request(self) -> CommitRequest:
        """The commit request, without the versions that its tables reach."""
        return CommitRequest(
            commit=self.commit,
            target=self.base.target,
            requires=tuple(self._requires()),
            records=self.records,
            schema_digest=self.schema_digest,
            moves_head=self.ref is None,
        )

    def _requires(self) -> Iterator[Requirement]:
        yield requirement_of(self.base.target)
        if self.ref is not None:
            yield self.ref
            return
        if self.head is not None:
            yield HeadIs(self.head)
        yield SchemaIs(self.base.schema_digest)
        for item in self.tables:
            yield TableAt(item.table_key, item.staged[0].expected)
        for key, version in self.judged.items():
            yield JudgedTableAt(key, version)
        if self.source is not None:
            yield self.source


@dataclass(frozen=True, slots=True, kw_only=True)
class Armed:
    """The intent is durable. From here on a crash is settled by recovery."""

    prepared: Prepared
    lease: Lease  # with the intent, as it was stored last
    bystanders: tuple[Intent, ...] = ()  # what others have in flight, or left behind

    @property
    def intent(self) -> Intent:
        """The intent, as it was stored last."""
        return self.lease.intent


@dataclass(frozen=True, slots=True, kw_only=True)
class Landed:
    """Every table has moved, which is not visible yet."""

    armed: Armed
    versions: Mapping[str, int]


class WritePath:
    """The write path of one graph, which every change takes."""

    def __init__(self, parts: WriteContext, recovery: Recovery) -> None:
        """Work on the graph made of these parts."""
        self._tables = parts.tables
        self._manifest = parts.manifest
        self._destinations = parts.destinations
        self._publisher = parts.publisher
        self._intents = parts.intents
        self._live = parts.liveness.live
        self._clock = parts.clock
        self._ids = parts.ids
        self._recovery = recovery

    def commit(self, prepared: Prepared) -> Published:
        """Take a prepared write through all phases."""
        hit(Fp.STAGED)
        cancellation.check()
        place = self._destinations.of(prepared.base.target)
        operation_id = place.begin()
        keys = [item.table_key for item in prepared.tables]
        kind = str(prepared.commit.kind)
        with telemetry.operation(operation_id), telemetry.span("commit", kind=kind):
            with place.writing(keys), self._live.working(operation_id):
                ready = self._ready(prepared, place, operation_id)
                published = ready if isinstance(ready, Published) else self._carry_out(ready)
            if isinstance(ready, Armed):
                # Without our gates: theirs could stand before ours in the order.
                self._heal(ready.bystanders)
            return published

    def _ready(
        self, prepared: Prepared, place: Destination, operation_id: str
    ) -> Armed | Published:
        """Arm the write, unless it is done already or needs no arming."""
        ready: Armed | Published | None = None
        try:
            # Waiting for the gates may have taken long. From here on nothing ends early.
            cancellation.check()
            with storage_errors():
                ready = self._arm_or_publish(prepared, place, operation_id)
            return ready
        finally:
            if not isinstance(ready, Armed):
                place.end_unarmed(prepared.base)

    def _arm_or_publish(
        self, prepared: Prepared, place: Destination, operation_id: str
    ) -> Armed | Published:
        if not place.needs_intent(prepared.tables):
            self._settle_same_key(prepared.commit)
            # A change that moves no table needs no intent: one write does it all.
            return self._publisher.publish(prepared.request)
        if prepared.commit.idempotency_key is not None:
            done = find_replay(prepared.commit, place.newest())
            if done is not None:
                return done
        return self.arm(prepared, operation_id)

    def _carry_out(self, armed: Armed) -> Published:
        """Land and publish. After a crash here, recovery settles the write by its intent."""
        intent = armed.intent
        try:
            hit(Fp.ARMED)
            published = self.publish(self.land(armed))
            if published.commit.id != intent.commit.id:
                # Another write with the same key came first: take ours back.
                return self._undo(intent) or published
        except RecoveryRequired as error:
            raise self._unknown(intent) from error
        except GraphError:
            # Refused for a reason, so certainly not published.
            forward = self._undo(intent)
            if forward is None:
                raise
            return forward
        except Exception as error:
            raise self._unknown(intent) from error
        except BaseException:
            self._release(intent)
            raise
        self._forget(intent)
        return published

    def _settle_same_key(self, commit: CommitRecord) -> None:
        """Settle an earlier call with the same key that has stopped half-way."""
        if commit.idempotency_key is None:
            return
        for other in self._intents.pending():
            same = other.commit.idempotency_key == commit.idempotency_key
            if same and other.branch == commit.branch:
                self._make_way(other)

    # -- arm -------------------------------------------------------------------------------------

    def arm(self, prepared: Prepared, operation_id: str) -> Armed | Published:
        """Write the intent, alone among the writers of its tables.

        Returns the earlier commit when the write turns out to be done already.
        """
        place = self._destinations.of(prepared.base.target)
        intent = self._intent(prepared, operation_id)
        for _ in range(tuning.active.arm_attempts_max):
            began = self._clock.ticks_ns()
            # Looking after writing: of two writers that do both, at least one sees the other.
            try:
                place.put(intent)
                bystanders, rivals = self._others(intent)
                done = None if rivals else self._admit(intent.request, place)
                if not rivals and done is None:
                    lease = Lease(self._intents, self._clock, intent, began)
                    return Armed(prepared=prepared, lease=lease, bystanders=bystanders)
                place.withdraw(operation_id)
            except BaseException:
                self._withdraw(intent)
                raise
            if done is not None:
                return done
            for rival in rivals:
                self._make_way(rival)
        text = "other writers hold the same tables"
        tables = sorted(item.table_key for item in intent.tables)
        raise Busy(Code.BUSY, text, tables=tables)

    def _admit(self, request: CommitRequest, place: Destination) -> Published | None:
        """Check what the write depends on. Its tables are locked now, so the result stays true."""
        seen = place.newest()
        done = find_replay(request.commit, seen)
        if done is None:
            if request.commit.idempotency_key is not None:
                place.check_key(request.commit.idempotency_key)
            check(request.requires, seen)
        return done

    def _withdraw(self, intent: Intent) -> None:
        """Remove the intent of a write that moved nothing; if it stays, recovery drops it."""
        try:
            self._destinations.of(intent.request.target).withdraw(intent.operation_id)
        except StorageFailure:
            telemetry.count("write.intent_left")
            self._release(intent)

    def _others(self, intent: Intent) -> tuple[tuple[Intent, ...], tuple[Intent, ...]]:
        """The other intents: those that have nothing to do with this one, and its rivals."""
        bystanders: list[Intent] = []
        rivals: list[Intent] = []
        for other in self._intents.pending(apart_from=intent.operation_id):
            if not intent.rivals(other):
                bystanders.append(other)
            elif not (self._recovery.is_live(other) and self._recovery.is_visible(other)):
                # A live writer that has published holds nothing any more: it only has to forget.
                rivals.append(other)
        return tuple(bystanders), tuple(rivals)

    def _make_way(self, rival: Intent) -> None:
        """Settle the intent of a dead writer; give way to a live one."""
        if self._recovery.is_live(rival):
            if self._intents.get(rival.operation_id) is None:
                return  # it has just finished
            text = f"operation {rival.operation_id} is writing the same tables"
            if rival.ends_branch:
                text = f"branch '{rival.branch}' is being deleted or renamed"
            raise Conflict(
                Code.WRITER_ACTIVE,
                text,
                operation_id=rival.operation_id,
                conflicts=[{"table_key": item.table_key} for item in rival.tables],
            )
        outcome = self._recovery.settle(rival)
        if outcome.settled in (Settled.DEFERRED, Settled.STUCK):
            raise unsettled(outcome)

    def _heal(self, bystanders: Iterable[Intent]) -> None:
        """Settle what others left behind; our write does not depend on it."""
        for other in bystanders:
            try:
                self._recovery.settle_left(other)
            except (StorageFailure, GraphError) as failure:
                telemetry.count("write.heal_failed")
                telemetry.logger.warning(
                    "operation %s could not be settled: %s", other.operation_id, failure
                )

    def _intent(self, prepared: Prepared, operation_id: str) -> Intent:
        return Intent(
            operation_id=operation_id,
            request=prepared.request,
            rollback_commit_id=CommitId(self._ids.new()),
            owner=this_process(self._clock.now_us()),
            tables=tuple(_planned(item) for item in prepared.tables),
            confirms=prepared.confirms,
        )

    # -- land ------------------------------------------------------------------------------------

    def land(self, armed: Armed) -> Landed:
        """Move every table, each strictly from the version that the write saw."""
        versions: dict[str, int] = {}
        for item in sorted(armed.prepared.tables, key=lambda each: each.table_key):
            for staged in item.staged:
                armed.lease.keep()
                versions[item.table_key] = self._land_one(armed.lease, item, staged)
                hit(Fp.LANDED_ONE)
        hit(Fp.LANDED)
        if armed.intent.confirms:
            confirmed = armed.intent.confirm(versions)
            guarded(Fp.CONFIRM, lambda: armed.lease.store(confirmed))
            hit(Fp.CONFIRMED)
        return Landed(armed=armed, versions=versions)

    def _land_one(self, lease: Lease, item: TableWrite, staged: Staged) -> int:
        intent = lease.intent
        try:
            # A large table takes its time, and a small one is not worth a thread.
            is_long = staged.rows_after >= tuning.active.long_landing_rows
            with lease.kept() if is_long else nullcontext():
                return guarded(Fp.LAND, lambda: self._tables.land(staged, lease.check))
        except StorageFailure as failure:
            if failure.kind is FailureKind.INVALID:
                raise public(failure) from failure
            if not failure.effect_free:
                raise
            actual = self._head_or_none(staged)
            if actual is not None and actual > staged.expected:
                # What our own intent names is settled with it: others may be at it already.
                for found in self._recovery.settle_orphans(intent.branch, [item.table_key]):
                    if found.settled is Settled.STUCK:
                        # Trying again would not help, and guessing could lose acknowledged work.
                        text = f"{found.note}. `omnigraph recover` says more"
                        raise Corrupt(Code.CORRUPT, text, table_key=item.table_key) from failure
            raise version_mismatch(item.table_key, staged.expected, actual) from failure

    def _head_or_none(self, staged: Staged) -> int | None:
        try:
            return self._tables.head(staged.path, staged.branch)
        except StorageFailure as failure:
            if failure.kind is FailureKind.NOT_FOUND:
                return None
            raise

    # -- publish ---------------------------------------------------------------------------------

    def publish(self, landed: Landed) -> Published:
        """Make everything visible at once."""
        landed.armed.lease.keep()
        published = self._publisher.publish(landed.armed.intent.landed(landed.versions))
        hit(Fp.PUBLISHED)
        return published

    # -- when it goes wrong ----------------------------------------------------------------------

    def _undo(self, intent: Intent) -> Published | None:
        """Settle our own intent right away; None when the write is undone.

        A write that landed as a whole and lost nothing but the race for the head goes forward.
        """
        try:
            outcome = self._recovery.settle(intent, Authority.OWNER)
            if outcome.settled is Settled.ROLLED_BACK:
                return None
            if outcome.settled is Settled.ROLLED_FORWARD or self._is_published(intent):
                return self._publisher.publish(intent.landed())  # finds it published
            if outcome.settled is Settled.GONE:
                # Another process took us for dead, fenced our tables and took all of it back.
                return None
        except (StorageFailure, GraphError) as error:
            raise self._unknown(intent) from error
        raise self._unknown(intent)

    def _is_published(self, intent: Intent) -> bool:
        try:
            self._manifest.snapshot(intent.branch)
            return intent.commit.id in self._manifest.commits(intent.branch)
        except NotFound:
            return False

    def _unknown(self, intent: Intent) -> GraphError:
        if self._destinations.of(intent.request.target).is_lost():
            # The tables that it moved went with the branch: there is nothing left to find out.
            self._withdraw(intent)
            return branch_replaced(intent.branch)
        self._release(intent)
        text = (
            f"the outcome of operation {intent.operation_id} is not known yet; it is settled by "
            "the next write to the same tables or the next opening of the graph"
        )
        return RecoveryRequired(
            Code.OUTCOME_UNKNOWN,
            text,
            operation_id=intent.operation_id,
            commit_id=intent.commit.id,
            idempotency_key=intent.commit.idempotency_key,
        )

    def _release(self, intent: Intent) -> None:
        """Allow others to settle the intent although this process lives on. Best effort."""
        try:
            self._intents.release(intent.operation_id)
        except (StorageFailure, GraphError):
            telemetry.count("write.lease_kept")

    def _forget(self, intent: Intent) -> None:
        """Remove the intent; if that fails the write is durable all the same."""
        try:
            guarded(Fp.FORGET, lambda: self._intents.remove(intent.operation_id))
        except StorageFailure as failure:
            telemetry.count("write.intent_left")
            telemetry.logger.warning(
                "the intent of the published operation %s could not be removed: %s",
                intent.operation_id,
                failure,
            )
            self._release(intent)


def _planned(item: TableWrite) -> PlannedTable:
    first, last = item.staged[0], item.staged[-1]
    return PlannedTable(
        table_key=item.table_key,
        path=first.path,
        table_branch=first.branch,
        expected=first.expected,
        uuids=tuple(staged.uuid for staged in item.staged),
        row_count=last.rows_after,
    )
