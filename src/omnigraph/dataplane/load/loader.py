"""Loading: read, judge, one commit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.core.commits.keys import REQUEST, key_reused
from omnigraph.core.commits.records import CommitRecord
from omnigraph.core.commits.requirements import branch_replaced, schema_changed
from omnigraph.core.journal.intent import WriterKind
from omnigraph.core.journal.staging_areas import Ending, StagingArea
from omnigraph.core.repository import Repository
from omnigraph.core.retry import wait_seconds, with_retries
from omnigraph.core.storage_errors import storage_errors
from omnigraph.core.write import Prepared, TableWrite
from omnigraph.dataplane.counts import Counts
from omnigraph.dataplane.load.committed import LoadBase, StoredTable
from omnigraph.dataplane.load.fingerprint import total
from omnigraph.dataplane.load.plan import LoadPlan, StopSignal, Targets, key_of
from omnigraph.dataplane.load.reading import partitions_for, read_inputs
from omnigraph.dataplane.load.receipt import ReadReceipt
from omnigraph.dataplane.load.request import Loaded, LoadRequest
from omnigraph.dataplane.load.source_positions import SourcePositions, named
from omnigraph.dataplane.load.stages import Stages, Verdict
from omnigraph.dataplane.load.stream import STREAM, batch_key, recorded
from omnigraph.dataplane.load.violations import LoadViolations, open_file, write_all
from omnigraph.dataplane.progress import Monitor
from omnigraph.dataplane.run.runner import Runner
from omnigraph.dataplane.source.model import ReaderInput, StreamInput
from omnigraph.dataplane.source.sizing import Sizes
from omnigraph.dataplane.staging import LocalStaging, SharedStaging, Staging
from omnigraph.dataplane.worker_tables import WorkerTables
from omnigraph.embed.missing import DETAIL, MissingVectors, as_json, from_json, summed
from omnigraph.embed.source import Embeddings
from omnigraph.errors import Busy, Code, Conflict, Effect, GraphError, JsonValue
from omnigraph.runtime import telemetry
from omnigraph.store.tables import DeletionReceipt, Pin, Table

_MODE, _COUNTS, _ROWS, _BYTES = "mode", "counts", "rows", "bytes"
_CREATED: Final = "branch_created"


class Loader:
    """Loads data into one graph. Thread-safe."""

    def __init__(
        self,
        repo: Repository,
        embeddings: Embeddings | None = None,
        *,
        wait: Callable[[float], None] = wait_seconds,
    ) -> None:
        """Load into this graph; without embeddings, no vectors are computed."""
        self._repo = repo
        self._embeddings = embeddings or Embeddings(lambda: None)
        self._wait = wait
        self._areas: dict[str, StagingArea] = {}

    def load(
        self,
        request: LoadRequest,
        runner: Runner,
        monitor: Monitor,
        base: GraphVersion | None = None,
    ) -> Loaded:
        """Read the inputs, judge them, and publish them as one commit.

        Nothing is visible before the commit. When others come first, an append or a merge is judged
        again on what they left; an overwrite is not repeated, so that it does not replace what its
        caller has not seen.

        Args:
            request: The load.
            runner: Runs its tasks.
            monitor: Is told how far it is.
            base: The newest state of the branch, or of the one that it is created from, as the
                caller pinned it.

        Raises:
            Conflict: The idempotency key names another operation.
            ConstraintViolated: The data breaks rules; it lists them in the order of the input.
            Conflict: Other writers changed what the load was judged against, again and again.
            StopRequested: The call was cancelled.
        """
        if request.violations_file is not None:
            open_file(request.violations_file).close()
        name = request.branch
        if base is None:
            base = self._repo.base_of(name, create_from=request.create_from)
        if base.branch != name:
            try:
                with self._repo.creating_branch(name, start=base) as first:
                    return self._load(request, first, runner, monitor)
            except Conflict as conflict:
                once = any(isinstance(item, ReaderInput | StreamInput) for item in request.inputs)
                if conflict.code is not Code.BRANCH_EXISTS or once:
                    raise
                # Another writer was faster; the load goes to the branch as it is now.
                telemetry.count("load.again")
                monitor.resume()
                base = self._repo.snapshot(name)
        return self._load(request, base, runner, monitor)

    def _load(
        self, request: LoadRequest, base: GraphVersion, runner: Runner, monitor: Monitor
    ) -> Loaded:
        done = self._replayed(request, base)
        if done is not None:
            return done
        sizes = Sizes(request.inputs)
        plan = self.plan(request, base, monitor, is_remote=runner.is_remote, sizes=sizes)
        with telemetry.span("load", mode=request.mode):
            try:
                with self._repo.preparing(base):
                    receipts = read_inputs(request, plan, runner, monitor, sizes)
                request = self._named(request, receipts, base)
                # A batch of a stream is known only now that its rows were read.
                done = None if request.batch is None else self._replayed(request, base)
                if done is None:
                    done = self.finish(request, plan, receipts, runner, monitor, base)
            except BaseException as error:
                monitor.stop()
                self.end(plan, error)
                raise
        self.end(plan, done)
        return done

    def end(self, plan: LoadPlan, outcome: Loaded | BaseException) -> None:
        """Remove what the tasks of a load left: all of it unless it was committed. Never fails.

        Args:
            plan: The plan that the tasks had.
            outcome: What came of it.
        """
        area = self._areas.pop(plan.load_id, None)
        if area is None:
            return
        if isinstance(outcome, Loaded):
            # What an earlier call has done refers to nothing of this one.
            ending = Ending.FAILED if outcome.replayed else Ending.COMMITTED
        else:
            is_certain = isinstance(outcome, GraphError) and outcome.effect is Effect.NONE
            ending = Ending.FAILED if is_certain else Ending.UNCLEAR
        area.end(ending, is_alone=plan.worker_tables.is_driver)

    def abandon(self, plan: LoadPlan) -> None:
        """Remove what was written by a plan that another process made, unless it goes to commit."""
        with suppress(Busy), storage_errors():
            self._repo.areas.resume(plan.load_id).end(Ending.UNCLEAR)

    def plan(
        self,
        request: LoadRequest,
        base: GraphVersion,
        monitor: Monitor | None,
        *,
        is_remote: bool,
        sizes: Sizes | None = None,
    ) -> LoadPlan:
        """The plan that the tasks of a load are given. Its maker calls `end`, too.

        Args:
            request: The load.
            base: The newest state of its branch.
            monitor: Tells tasks of this process to stop.
            is_remote: Tasks run in other processes; everything that they need is made here.
            sizes: How much the inputs hold, if that was looked at already.
        """
        self._check_schema(request, base)
        repo, catalog = self._repo, request.catalog
        load_id = repo.ids.new()
        entities = (*catalog.nodes, *catalog.edges)
        keyed = {key_of(entity) for entity in entities if entity.key}

        staging = (SharedStaging if is_remote else LocalStaging)(repo.root, load_id)
        area = self._area(load_id, staging, monitor)

        def make(key: str) -> Pin:
            pin = repo.writable_table(base, key).pin
            if not is_remote:
                area.add_tables([pin])
            return pin

        targets = Targets(make)
        if is_remote:
            named = {key_of(e) for e in entities} if request.may_name_all else request.type_keys
            try:
                targets.make_all(sorted(named))
                with storage_errors():
                    area.add_tables(targets.made.values())
            except BaseException:
                self._areas.pop(load_id, None)
                area.end(Ending.FAILED)
                raise
        return LoadPlan(
            load_id=load_id,
            incarnation=base.incarnation,
            worker_tables=WorkerTables(
                repo.root,
                durable=repo.tables.durable,
                tables=None if is_remote else repo.tables,
            ),
            targets=targets,
            staging=staging,
            catalog=catalog,
            mode=request.mode,
            replace=request.replace,
            # Vectors are for known entities, even if there is none any more.
            fresh=frozenset(
                key for key in keyed if request.fill is None and not base.pin(key).row_count
            ),
            fill=request.fill,
            partitions=partitions_for(
                request,
                Sizes(request.inputs) if sizes is None else sizes,
                is_far=is_remote and not repo.root.is_local,
            ),
            driver_keys=request.driver_keys,
            violations_max=request.violations_max,
            tells_all=request.violations_file is not None,
            fingerprints=request.batch is not None,
            embeddings=self._embeddings,
            stop=StopSignal(None if monitor is None else partial(_is_stopped, monitor)),
        )

    def _area(self, load_id: str, staging: Staging, monitor: Monitor | None) -> StagingArea:
        """Make the staging area of a load; remove those that dead loads left."""
        areas, root = self._repo.areas, self._repo.root
        areas.sweep()
        is_elsewhere = isinstance(staging, LocalStaging) and not root.is_local
        folder = Path(staging.address) if is_elsewhere else None
        # Without a monitor it is planned here and finished elsewhere.
        with storage_errors():
            area = areas.begin(load_id, folder=folder, detached=monitor is None)
        if monitor is not None:
            self._areas[load_id] = area
            monitor.keep = area.keep
        return area

    def finish(
        self,
        request: LoadRequest,
        plan: LoadPlan,
        receipts: Sequence[ReadReceipt],
        runner: Runner,
        monitor: Monitor,
        base: GraphVersion | None = None,
    ) -> Loaded:
        """Judge what was read and publish it, starting over on newer bases if need be.

        Args:
            request: The load.
            plan: The plan that its tasks had.
            receipts: What reading gave.
            runner: Runs what is left to do.
            monitor: Is told how far it is.
            base: What to judge against first; None for the newest state.
        """
        if plan.load_id not in self._areas:
            with storage_errors():
                self._areas[plan.load_id] = self._repo.areas.resume(plan.load_id)
        ordered = sorted(receipts, key=lambda receipt: receipt.split)
        work = _Work(request, plan, ordered, runner, monitor)
        creates_branch = base is not None and base.creation is not None
        if creates_branch or request.mode == "overwrite":
            return self._attempt(work, base)
        return with_retries(
            lambda _, is_stale: self._attempt(work, None if is_stale else base),
            root=self._repo.root.uri,
            branch=request.branch,
            policy=self._repo.retry,
            name="load",
            wait=self._wait,
        )

    # -- one attempt -------------------------------------------------------------------------------

    def _attempt(self, work: _Work, given: GraphVersion | None) -> Loaded:
        request, plan, monitor = work.request, work.plan, work.monitor
        if request.authorise is not None:
            request.authorise(work.present)
        base = self._repo.snapshot(request.branch) if given is None else given
        if given is None:
            done = self._replayed(request, base)
            if done is not None:
                return done
            if base.incarnation != plan.incarnation:
                raise branch_replaced(base.branch)
            self._check_schema(request, base)
            _check_fresh(plan, base, work.present)
        replaced = work.present if request.mode == "overwrite" else frozenset()
        with self._repo.preparing(base):
            stages = Stages(plan, _stored(base, replaced), work.receipts, work.runner, work.monitor)
            verdict = stages.run(cascade=request.cascade)
            if verdict.violations:
                if given is not None and not given.creation and not replaced:
                    self._check_newest(given)
                _refuse(work, verdict.violations)
            dying = sorted({item.key for item in verdict.dead})
            tables = {key: self._writable(plan, base, key) for key in dying}
            self._areas[plan.load_id].add_tables(table.pin for table in tables.values())
            deleted = stages.delete(verdict, tables)
            monitor.stage("commit")
            monitor.check()
            writes, counts = self._stage(plan, base, verdict, deleted, replaced)
        return self._publish(work, base, writes, counts, summed(verdict.missing))

    def _stage(
        self,
        plan: LoadPlan,
        base: GraphVersion,
        verdict: Verdict,
        deleted: Mapping[str, Sequence[DeletionReceipt]],
        replaced: frozenset[str],
    ) -> tuple[tuple[TableWrite, ...], dict[str, Counts]]:
        """Compose one change per table; a table that does not change gets none."""
        writes: list[TableWrite] = []
        counts: dict[str, Counts] = {}
        tables = self._repo.tables
        for key in sorted({*verdict.fragments, *deleted, *replaced}):
            fragments = verdict.fragments.get(key, [])
            if key in replaced and not fragments and not base.pin(key).row_count:
                continue
            table = self._writable(plan, base, key)
            uuid = self._repo.ids.new()
            if key in replaced:
                staged = tables.stage_replacement(table, fragments, uuid=uuid)
            else:
                found = tables.stage_fragments(
                    table, fragments, deleted=deleted.get(key, ()), uuid=uuid, by=plan.by
                )
                if found is None:
                    continue
                staged = found
            writes.append(TableWrite(table_key=key, staged=(staged,)))
            counts[key] = Counts(
                inserted=staged.rows_inserted,
                updated=staged.rows_updated,
                deleted=staged.rows_deleted,
            )
        return tuple(writes), counts

    def _writable(self, plan: LoadPlan, base: GraphVersion, key: str) -> Table:
        """The table as the base has it; what was written must lie in its folder."""
        table = self._repo.writable_table(base, key)
        written = plan.targets.made.get(key)
        if written is not None and (written.path, written.branch) != (
            table.pin.path,
            table.pin.branch,
        ):
            text = f"{key} was forked by another writer meanwhile"
            raise Conflict(Code.CONFLICT, text, branch=base.branch, table_key=key)
        return table

    def _publish(
        self,
        work: _Work,
        base: GraphVersion,
        writes: tuple[TableWrite, ...],
        counts: Mapping[str, Counts],
        missing: tuple[MissingVectors, ...],
    ) -> Loaded:
        request = work.request
        rows = sum(receipt.rows for receipt in work.receipts)
        size = sum(receipt.bytes for receipt in work.receipts)
        details: dict[str, JsonValue] = {
            _MODE: request.mode,
            _COUNTS: {k: [c.inserted, c.updated, c.deleted] for k, c in counts.items()},
            _ROWS: rows,
            _BYTES: size,
        }
        if missing:
            details[DETAIL] = as_json(missing)
        if base.creation is not None:
            details[_CREATED] = True
        if request.idempotency_key is not None:
            details[REQUEST] = request.digest
        if request.batch is not None:
            details[STREAM] = recorded(request.batch)
        written = {item.table_key for item in writes}
        judged = sorted(work.judged - written)
        prepared = Prepared(
            base=base,
            commit=replace(
                self._repo.new_commit(base, WriterKind.LOAD),
                actor=request.actor,
                idempotency_key=request.idempotency_key,
                message=request.message,
                details=details,
            ),
            tables=writes,
            judged={key: base.pin(key).version for key in judged},
        )
        with storage_errors():
            self._areas[work.plan.load_id].decide()
        published = self._repo.commit(prepared)
        if published.replayed:
            return _recorded(published.commit, request)
        return Loaded(
            commit=published.commit,
            counts=counts,
            branch_created=base.creation is not None,
            rows=rows,
            bytes=size,
            missing=missing,
        )

    def _named(
        self, request: LoadRequest, receipts: Sequence[ReadReceipt], base: GraphVersion
    ) -> LoadRequest:
        """The request, with the key of its batch if it is one of a stream."""
        if request.batch is None:
            return request
        with storage_errors():
            key = batch_key(
                request.batch,
                total(receipt.fingerprint for receipt in receipts),
                find=lambda key: self._repo.manifest.find_key(base.branch, key),
                newest_first=lambda: self._repo.commits(base.branch),
            )
        return replace(request, idempotency_key=key)

    # -- conditions --------------------------------------------------------------------------------

    def _replayed(self, request: LoadRequest, base: GraphVersion) -> Loaded | None:
        """The result of an earlier call with the same key; loading on top of it would fail."""
        if request.idempotency_key is None:
            return None
        with storage_errors():
            if base.creation is not None:
                known = self._repo.creation.find_key(base.creation, request.idempotency_key)
            else:
                known = self._repo.manifest.find_key(base.branch, request.idempotency_key)
        return None if known is None else _recorded(known, request)

    def _check_newest(self, base: GraphVersion) -> None:
        """Refuse to blame the input for what others have changed since the base was pinned."""
        if self._repo.snapshot(base.branch).head != base.head:
            text = f"branch '{base.branch}' has changed while the input was read"
            raise Conflict(Code.HEAD_CONTENTION, text, branch=base.branch)

    def _check_schema(self, request: LoadRequest, base: GraphVersion) -> None:
        catalog = self._repo.schema(base).catalog
        if catalog is not request.catalog and catalog != request.catalog:
            raise schema_changed(base.branch)


@dataclass(frozen=True, slots=True)
class _Work:
    """A load that is read, and waits to be judged."""

    request: LoadRequest
    plan: LoadPlan
    receipts: Sequence[ReadReceipt]
    runner: Runner
    monitor: Monitor

    @property
    def present(self) -> frozenset[str]:
        """The types that the input has, those of empty tables included."""
        found = {key for receipt in self.receipts for key in receipt.present}
        return frozenset(found | self.request.type_keys)

    @property
    def judged(self) -> frozenset[str]:
        """The tables that must not change meanwhile, whether the load writes them or not."""
        catalog, present = self.plan.catalog, self.present
        found: set[str] = set()
        for edge in catalog.edges:
            ends = {f"node:{edge.source}", f"node:{edge.target}"}
            if key_of(edge) in present:
                found |= ends
            elif self.request.mode == "overwrite" and ends & present:
                # An edge that is added meanwhile could name a node that goes.
                found.add(key_of(edge))
        return frozenset(found)


def _is_stopped(monitor: Monitor) -> bool:
    monitor.keep()
    return monitor.is_stopped


def _refuse(work: _Work, found: LoadViolations) -> None:
    """Raise the violations, with their places in the input."""
    places, staging = SourcePositions(work.receipts), work.plan.staging
    path = work.request.violations_file
    if path is not None:
        write_all(path, found, places, work.receipts, staging)
    told = named(found.items, work.receipts, staging)
    found.raise_if_any([places.shown(item) for item in told])


def _stored(base: GraphVersion, replaced: frozenset[str]) -> LoadBase:
    tables = {
        key: StoredTable(pin=pin.store_pin, rows=pin.row_count) for key, pin in base.tables.items()
    }
    return LoadBase(tables=tables, replaced=replaced)


def _check_fresh(plan: LoadPlan, base: GraphVersion, present: frozenset[str]) -> None:
    """Refuse if types that had no entity, whose rows were written as new ones, have some now."""
    if plan.mode != "merge":
        return
    for key in sorted(plan.fresh & present):
        if base.pin(key).row_count:
            text = f"another writer has added the first entities of {key} meanwhile"
            raise Conflict(Code.CONFLICT, text, branch=base.branch, table_key=key)


def _recorded(commit: CommitRecord, request: LoadRequest) -> Loaded:
    """The outcome of an earlier call, read from its commit, if it was the same call."""
    if commit.details.get(REQUEST) != request.digest:
        raise key_reused(commit)
    found = commit.details.get(_COUNTS)
    counts: dict[str, Counts] = {}
    for key, each in found.items() if isinstance(found, Mapping) else ():
        inserted, updated, deleted = map(_number, each if isinstance(each, Sequence) else ())
        counts[key] = Counts(inserted=inserted, updated=updated, deleted=deleted)
    return Loaded(
        commit=commit,
        counts=counts,
        replayed=True,
        branch_created=commit.details.get(_CREATED) is True,
        rows=_number(commit.details.get(_ROWS)),
        bytes=_number(commit.details.get(_BYTES)),
        missing=from_json(commit.details.get(DETAIL)),
    )


def _number(value: JsonValue) -> int:
    return value if isinstance(value, int) else 0
