"""Merging one branch into another, and taking a commit back: from the merge base to one commit."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.core.commits.keys import keyed
from omnigraph.core.commits.lineage import MERGE_SOURCE, MERGED_COMMITS, merge_bases
from omnigraph.core.commits.records import Record
from omnigraph.core.commits.requirements import SourceExists, require_head
from omnigraph.core.journal.intent import WriterKind
from omnigraph.core.layout import table_key
from omnigraph.core.manifest.refs import require_unprotected
from omnigraph.core.publish.publisher import Published
from omnigraph.core.repository import Repository
from omnigraph.core.retry import with_retries
from omnigraph.core.revisions import Revisions
from omnigraph.core.schema.alignment import type_state
from omnigraph.core.schema.arrow_types import table_schema
from omnigraph.core.storage_errors import storage_errors
from omnigraph.core.write import Prepared
from omnigraph.dataplane.changes.table_changes import ChangeLimits, Comparing, TableChanges
from omnigraph.dataplane.counts import ChangeCounts
from omnigraph.errors import Code, InvalidInput, JsonValue
from omnigraph.exec import tuning
from omnigraph.exec.changes.diff import table_changes
from omnigraph.exec.merge.base_states import root_of, state_of
from omnigraph.exec.merge.broken_rules import settle_broken_rules
from omnigraph.exec.merge.conflicts import (
    Choice,
    MergeConflict,
    Resolve,
    Resolving,
    refused,
    unsettled,
)
from omnigraph.exec.merge.criss_cross import agree, changed_since
from omnigraph.exec.merge.fast_forward import TakenOver, taken_over
from omnigraph.exec.merge.fast_forward import stage as stage_files
from omnigraph.exec.merge.images import MergedImages
from omnigraph.exec.merge.judge import judge_merged
from omnigraph.exec.merge.orphans import settle_orphans
from omnigraph.exec.merge.recorded import (
    FORMER_HEAD,
    RESET_TO,
    REVERTED,
    details_of,
    recorded,
)
from omnigraph.exec.merge.requests import (
    Merged,
    MergeOutcome,
    MergeRequest,
    ResetRequest,
    RevertRequest,
)
from omnigraph.exec.merge.resolution_file import ResolutionFile
from omnigraph.exec.merge.schemas import MergedSchema, TypeSides, merged_schema
from omnigraph.exec.merge.stage import stage_type
from omnigraph.exec.merge.table_merge import TableMerge
from omnigraph.exec.merge.tasks import MergeWork, Running
from omnigraph.exec.merge.type_merge import TypeMerge
from omnigraph.exec.mutate.committed import CommittedRows, MutationLimits
from omnigraph.exec.schema_change.records import schema_records
from omnigraph.lang.catalog.model import EdgeType
from omnigraph.lang.values import Base
from omnigraph.runtime import cancellation, telemetry
from omnigraph.store.reading.table_diff import TableDiff
from omnigraph.types import MAIN, BranchName, CommitId


@dataclass(frozen=True, slots=True, eq=False)
class _States:
    """The three states of a merge; with two merge bases also the one that these come from."""

    base: GraphVersion
    ours: GraphVersion
    theirs: GraphVersion
    schema: MergedSchema
    root: GraphVersion | None = None

    def is_copied(self, sides: TypeSides) -> bool:
        """True if our side gets all rows of a new type, and nothing of ours can conflict with them.

        An edge of theirs may lead to a node that we have deleted.
        """
        is_new = sides.ours is None and sides.base is None and sides.theirs is not None
        is_free = sides.entity.kind == "node" or self.ours.head == self.base.head
        has_blobs = any(item.type.base is Base.BLOB for item in sides.entity.properties)
        return is_new and is_free and not has_blobs

    def types(self) -> Iterator[TypeSides]:
        """Every type of the merged schema, as the three states have it."""
        schema = self.schema
        for entity in (*schema.catalog.nodes, *schema.catalog.edges):
            yield TypeSides(
                entity,
                type_state(self.base, schema.base, entity),
                type_state(self.ours, schema.ours, entity),
                type_state(self.theirs, schema.theirs, entity),
            )


@dataclass(frozen=True, slots=True, eq=False)
class _MergePlan:
    """The plan of a merge. Nothing is written yet."""

    states: _States
    types: Mapping[str, TypeMerge]
    images: Mapping[str, MergedImages | None]
    conflicts: tuple[MergeConflict, ...]
    settled: tuple[tuple[MergeConflict, Choice], ...]
    taken_over: tuple[TakenOver, ...] = ()
    copied: tuple[TypeSides, ...] = ()

    @property
    def is_nothing(self) -> bool:
        """True if neither entities nor the schema change."""
        return not self.counts and not self.states.schema.is_new

    @property
    def counts(self) -> dict[str, ChangeCounts]:
        """The changes by table key; types that do not change are left out."""
        found = {key: item.merge.counts(item.outcome) for key, item in self.types.items()}
        found |= {item.key: item.counts for item in self.taken_over}
        for sides in self.copied:
            count = self.states.theirs.pin(sides.their_key).row_count
            found[sides.key] = ChangeCounts(inserted=count)
        return {key: item for key, item in found.items() if item.total}


class Merger:
    """Merges branches of one graph. Thread-safe."""

    def __init__(
        self,
        repo: Repository,
        limits: MutationLimits | None = None,
        running: Running | None = None,
    ) -> None:
        """Work on this graph; large merges on a runner that `running` opens."""
        self._repo = repo
        self._limits = limits or MutationLimits()
        self._running = running

    def merge(self, request: MergeRequest) -> Merged:
        """Merge, or raise the conflicts; start over when others come first.

        Raises:
            Conflict: There are conflicts, and it is no dry run. Nothing has changed.
        """
        if request.source == request.into:
            text = f"branch '{request.source}' cannot be merged into itself"
            raise InvalidInput(Code.INPUT_INVALID, text, branch=request.source)
        if request.dry_run:
            return self._attempt(request)
        self._repo.require_writable()
        return with_retries(
            lambda _losses, _is_stale: self._attempt(request),
            root=self._repo.root.uri,
            branch=request.into,
            policy=self._repo.retry,
            name="merge",
            reads_schema=True,
        )

    def _attempt(self, request: MergeRequest) -> Merged:
        done = self._replayed(request)
        if done is not None:
            return done
        ours, theirs = (self._repo.snapshot(name) for name in (request.into, request.source))
        ancestry = self._repo.ancestry(request.into, request.source)
        bases = merge_bases(ancestry.find, ours.head, theirs.head)
        if not bases:
            text = f"branches '{request.source}' and '{request.into}' share no history"
            raise InvalidInput(Code.INPUT_INVALID, text)
        base = max(bases)  # the latest; of several, each is merged against
        if theirs.head in bases:
            return Merged(
                outcome=MergeOutcome.ALREADY_UP_TO_DATE,
                base=base,
                source=theirs.head,
                commit=None,
                counts={},
            )
        with (
            telemetry.span("merge", source=request.source, into=request.into),
            storage_errors(),
            self._work() as work,
        ):
            names = (str(request.into), str(request.source))
            listed = [base, *sorted(bases - {base})]
            root = None
            if len(listed) == 2:
                roots = merge_bases(ancestry.find, *listed)
                root = root_of(self._repo, roots, ours.branch, theirs.branch)
            states = self._states(ours, theirs, listed, names, root)
            is_forward = ours.head == base
            taken = self._taken_over(states[0]) if is_forward else ()
            plan = self._plan(states, request.resolve, work, by_row=request.by_row, taken=taken)
            outcome = MergeOutcome.FAST_FORWARD if is_forward else MergeOutcome.MERGED
            done = _planned(plan, outcome, theirs.head)
            if request.dry_run:
                return done
            if plan.conflicts:
                _check_complete(request.resolve, plan.conflicts)
                what = f"merging '{request.source}' into '{request.into}'"
                raise refused(what, plan.conflicts)
            self._repo.kept.note_merge(theirs.branch, ours.fork)
            published = self._commit(
                plan,
                request,
                kind=WriterKind.BRANCH_MERGE,
                merged_parent_id=theirs.head,
                source=SourceExists(theirs.branch, theirs.generation),
                details={
                    MERGE_SOURCE: str(request.source),
                    **details_of(done),
                    MERGED_COMMITS: ancestry.brought_along(ours.head, theirs.head),
                },
            )
        if published.replayed:
            return recorded(published.commit, request)
        return replace(done, commit=published.commit)

    def revert(self, request: RevertRequest) -> Merged:
        """Take back what a commit changed, as a new commit; conflicts are those of a merge.

        It is a merge of the state before the commit, with the commit itself as merge base.

        Raises:
            Conflict: Later commits have changed the same, and it is no dry run.
            InvalidInput: The commit is not in the history of the branch, or is its first one.
        """
        if request.dry_run:
            return self._attempt_revert(request)
        self._repo.require_writable()
        return with_retries(
            lambda _losses, _is_stale: self._attempt_revert(request),
            root=self._repo.root.uri,
            branch=request.branch,
            policy=self._repo.retry,
            name="revert",
            reads_schema=True,
        )

    def _attempt_revert(self, request: RevertRequest) -> Merged:
        done = self._replayed(request)
        if done is not None:
            return done
        ours = self._repo.snapshot(request.branch)
        named = Revisions(self._repo).resolve(request.commit, request.branch)
        commit = self._repo.commit_info(named.head, request.branch)
        history = self._repo.commits(request.branch)
        if commit.parent_id is None:
            text = f"commit {commit.id} made the graph: there is no state before it"
            raise InvalidInput(Code.INPUT_INVALID, text, commit=commit.id)
        if all(each.id != commit.id for each in history):
            text = f"commit {commit.id} is not in the history of branch '{request.branch}'"
            raise InvalidInput(Code.INPUT_INVALID, text, commit=commit.id)
        with (
            telemetry.span("revert", branch=request.branch),
            storage_errors(),
            self._work() as work,
        ):
            before = self._repo.snapshot_at(commit.parent_id, request.branch)
            names = (str(request.branch), f"the state before {commit.id}")
            states = self._states(ours, before, [commit.id], names)
            plan = self._plan(states, request.resolve, work, by_row=False)
            outcome = MergeOutcome.FAST_FORWARD if ours.head == commit.id else MergeOutcome.MERGED
            if plan.is_nothing and not plan.conflicts:
                outcome = MergeOutcome.ALREADY_UP_TO_DATE
            done = _planned(plan, outcome, commit.id)
            if request.dry_run:
                return done
            if plan.conflicts:
                _check_complete(request.resolve, plan.conflicts)
                raise refused(f"reverting {commit.id} on '{request.branch}'", plan.conflicts)
            if plan.is_nothing:
                return done
            details = {REVERTED: str(commit.id), **details_of(done)}
            published = self._commit(plan, request, kind=WriterKind.REVERT, details=details)
        if published.replayed:
            return recorded(published.commit, request)
        return replace(done, commit=published.commit)

    def reset(self, request: ResetRequest) -> Merged:
        """Give a branch the state of a commit back, as a new commit.

        It is a merge of that state with the head as merge base. It is never retried: what
        others commit meanwhile would be taken back unnoticed.

        Raises:
            Forbidden: The branch is protected.
            PreconditionFailed: The head is not the one that the caller demanded, or that was read.
        """
        self._repo.require_open()
        if not request.dry_run:
            self._repo.require_writable()
            self._repo.refresh()  # settling what is left of a dead writer would move the head later
            done = self._replayed(request)
            if done is not None:
                return done
        self._require_unprotected(request.branch)
        ours = self._repo.snapshot(request.branch)
        if request.if_head is not None:
            require_head(ours, request.if_head)
        with (
            telemetry.span("reset", branch=request.branch),
            storage_errors(),
            self._work() as work,
        ):
            theirs = Revisions(self._repo).resolve(request.to, request.branch)
            names = (str(request.branch), f"the state at {theirs.head}")
            states = self._states(ours, theirs, [ours.head], names)
            plan = self._plan(states, unsettled, work, by_row=False)
            done = _planned(plan, MergeOutcome.FAST_FORWARD, theirs.head)
            if plan.conflicts:
                raise refused(f"resetting '{request.branch}' to {theirs.head}", plan.conflicts)
            if request.dry_run or plan.is_nothing:
                return done
            # The branch may have been protected while this was prepared.
            self._require_unprotected(request.branch)
            details = {RESET_TO: str(theirs.head), FORMER_HEAD: str(ours.head)}
            published = self._commit(
                plan,
                request,
                kind=WriterKind.RESET,
                details={**details, **details_of(done)},
                head=ours.head,
            )
        if published.replayed:
            return recorded(published.commit, request)
        return replace(done, commit=published.commit)

    def _require_unprotected(self, branch: BranchName) -> None:
        require_unprotected(self._repo.snapshot(MAIN).refs, branch, "reset")

    def _work(self) -> MergeWork:
        return MergeWork(self._repo, self._running)

    def _plan(
        self,
        states: Sequence[_States],
        resolve: Resolve,
        work: MergeWork,
        *,
        by_row: bool,
        taken: tuple[TakenOver, ...] = (),
    ) -> _MergePlan:
        """Merge against each base, and judge the outcome."""
        file = resolve if isinstance(resolve, ResolutionFile) else None
        resolving = Resolving(resolve) if file is None else Resolving(file, file.place)
        copied = tuple(sides for sides in states[0].types() if states[0].is_copied(sides))
        without = {item.key for item in taken} | {sides.our_key for sides in copied}
        types = self._types(states, resolving, without, work, by_row=by_row)
        first = [each for item in types.values() for each in item.outcome.conflicts]
        while True:
            cancellation.check()
            orphans = settle_orphans(types, resolving)
            images = {key: self._images(item) for key, item in types.items()}
            broken = judge_merged(types, images)
            # Settling a conflict can break another rule, so that is judged again.
            if not settle_broken_rules(types, broken, resolving):
                break
        images |= {key: self._images(item) for key, item in types.items() if item.leave_unchanged()}
        found = (*first, *orphans, *(each.conflict for each in broken))
        conflicts = tuple(map(resolving.left, found))
        if file is not None:
            met = [*conflicts, *(each for each, _ in resolving.settled.values())]
            self._check_lines(file, states, met, work, by_row=by_row)
        settled = tuple(resolving.settled.values())
        return _MergePlan(states[0], types, images, conflicts, settled, taken, copied)

    def _check_lines(
        self,
        file: ResolutionFile,
        states: Sequence[_States],
        met: Sequence[MergeConflict],
        work: MergeWork,
        *,
        by_row: bool,
    ) -> None:
        """Refuse lines about conflicts that do not exist.

        One choice can settle several conflicts, so a line counts as well if its conflict exists
        as long as nothing is settled.
        """
        unused = file.not_among(item.key for item in met)
        if unused:
            plain = self._plan(states, unsettled, work, by_row=by_row)
            known = {item.key for item in plain.conflicts}
            for line in unused:
                if line.key not in known:
                    raise file.surplus(line)

    def _taken_over(self, states: _States) -> tuple[TakenOver, ...]:
        """The types of a fast-forward whose files are taken over."""
        found = (taken_over(self._repo, sides) for sides in states.types())
        return tuple(item for item in found if item is not None)

    def _replayed(self, request: MergeRequest | RevertRequest | ResetRequest) -> Merged | None:
        """The result of an earlier call with the same key."""
        branch = request.into if isinstance(request, MergeRequest) else request.branch
        if request.key is None:
            return None
        self._repo.snapshot(branch)
        with storage_errors():
            known = self._repo.manifest.find_key(branch, request.key.key)
        return None if known is None else recorded(known, request)

    def _states(
        self,
        ours: GraphVersion,
        theirs: GraphVersion,
        bases: Sequence[CommitId],
        names: tuple[str, str],
        root: GraphVersion | None = None,
    ) -> list[_States]:
        """The three states for each merge base, the latest first; all have one schema to come."""
        before = [state_of(self._repo, each, ours.branch, theirs.branch) for each in bases]
        schema = merged_schema(self._repo, before, root, ours, theirs, names)
        return [
            _States(each, ours, theirs, schema.against(self._repo.schema(each).catalog), root)
            for each in before
        ]

    def _types(
        self,
        bases: Sequence[_States],
        resolve: Resolving,
        without: Collection[str],
        work: MergeWork,
        *,
        by_row: bool,
    ) -> dict[str, TypeMerge]:
        """Merge every type that either side has changed since one of the merge bases."""
        found: dict[str, TypeMerge] = {}
        latest = bases[0]
        for sides in zip(*(states.types() for states in bases), strict=True):
            cancellation.check()
            first = sides[0]
            if first.our_key in without:
                continue
            if all(each.is_unchanged for each in sides) and not _leads_to(first, found):
                continue
            merges = [self._table_merge(each, work) for each in sides]
            if len(bases) == 1:
                outcome = merges[0].merged(resolve, by_row=by_row)
            else:
                changed = changed_since(self._repo, latest.root, sides)
                outcome = agree(merges, changed, resolve, by_row=by_row)
            committed = None
            if first.ours is not None:
                known = first.ours.entity
                committed = CommittedRows(self._repo, latest.ours, known, self._limits)
            item = found[first.key] = TypeMerge(merges[0], outcome, first, committed)
            if len(bases) > 1:
                item.touch_sources()
        return found

    def _table_merge(self, sides: TypeSides, work: MergeWork) -> TableMerge:
        entity, base = sides.entity, sides.base
        if sides.theirs is None:
            assert sides.ours is not None, "a side has it"
            changes = table_changes(self._repo.type_diff(None, sides.ours, entity), entity)
            own = changes.touched()
            return TableMerge(entity, own.nothing(), own)
        theirs = self._repo.type_diff(base, sides.theirs, entity)
        ours = None if sides.ours is None else self._repo.type_diff(base, sides.ours, entity)
        count = theirs.count + (0 if ours is None else ours.count)
        is_large = count > tuning.active.held_merge_rows_max
        limits = ChangeLimits(keys_max=tuning.active.merge_keys) if is_large else None
        if is_large:
            work.start(theirs.bytes + (0 if ours is None else ours.bytes))

        def compared(diff: TableDiff) -> tuple[TableChanges, Comparing]:
            changes = table_changes(diff, entity, limits)
            plain = changes.comparison.unequal
            return changes, work.comparing(changes.comparison) if is_large else plain

        changes, unequal = compared(theirs)
        found = changes.keys(unequal)
        own = found.nothing()
        if ours is not None:
            changes, unequal = compared(ours)
            # What only our side has touched is left alone, whether that changed it or not.
            if ours.count <= tuning.active.touched_rows_max:
                own = changes.touched().confirmed(found, unequal)
            else:
                own = changes.keys(unequal)
        return TableMerge(entity, found, own, work if is_large else None)

    def _images(self, item: TypeMerge) -> MergedImages | None:
        found = MergedImages.of(item.merge, item.outcome, table_schema(item.sides.entity))
        if found is not None and found.work is None:
            self._limits.check_rows(found.whole.num_rows, item.sides.key)
            self._limits.check_bytes(found.whole.nbytes, item.sides.key)
        return found

    def _commit(
        self,
        plan: _MergePlan,
        request: MergeRequest | RevertRequest | ResetRequest,
        *,
        kind: WriterKind,
        details: Mapping[str, JsonValue],
        merged_parent_id: CommitId | None = None,
        head: CommitId | None = None,
        source: SourceExists | None = None,
    ) -> Published:
        ours = plan.states.ours
        with self._repo.preparing(ours):
            writes = tuple(
                write
                for key, item in plan.types.items()
                if (write := stage_type(self._repo, ours, item, plan.images[key], self._limits))
                is not None
            )
            writes += tuple(stage_files(self._repo, ours, item) for item in plan.taken_over)
            records, digest = self._schema_records(plan)
        written = {item.table_key for item in writes}
        prepared = Prepared(
            base=ours,
            commit=keyed(
                replace(
                    self._repo.new_commit(ours, kind),
                    actor=request.actor,
                    message=request.message,
                    merged_parent_id=merged_parent_id,
                    details=details,
                ),
                request.key,
            ),
            tables=writes,
            head=head,
            source=source,
            # Changes of others meanwhile could conflict with what is merged here.
            judged={key: pin.version for key, pin in ours.tables.items() if key not in written},
            records=records,
            schema_digest=digest,
        )
        published = self._repo.commit(prepared)
        if digest is not None and ours.branch == MAIN:
            self._repo.schemas.keep_copies(digest)
        return published

    def _all_rows(self, sides: TypeSides) -> pa.RecordBatchReader:
        """The rows of a type that our side does not have, as they are read."""
        assert sides.theirs is not None, "only theirs has it"
        rows = self._repo.type_diff(None, sides.theirs, sides.entity).added.rows
        schema = table_schema(sides.entity)
        batches = (
            pa.RecordBatch.from_arrays(batch.columns, schema=schema)
            for batch in cancellation.checked(rows.scan(schema.names))
        )
        return pa.RecordBatchReader.from_batches(schema, batches)

    def _schema_records(self, plan: _MergePlan) -> tuple[tuple[Record, ...], str | None]:
        """The records that put the merged schema in force, if our branch has another one."""
        schema, ours = plan.states.schema, plan.states.ours
        if not schema.is_new:
            return (), None
        rows = {
            key: images.reader()
            for key, item in plan.types.items()
            if item.sides.ours is None and (images := plan.images[key]) is not None
        }
        rows |= {sides.key: self._all_rows(sides) for sides in plan.copied}
        found = schema_records(self._repo, ours, schema.ours, schema.catalog, rows)
        return tuple(found), self._repo.schemas.keep(schema.accepted)


def _leads_to(sides: TypeSides, nodes: Collection[str]) -> bool:
    """True for edges that only our side declares, to nodes that theirs may have deleted."""
    edge = sides.entity
    if not isinstance(edge, EdgeType) or sides.theirs is not None or sides.base is not None:
        return False
    return any(table_key("node", end) in nodes for end in (edge.source, edge.target))


def _planned(plan: _MergePlan, outcome: MergeOutcome, source: CommitId) -> Merged:
    return Merged(
        outcome=outcome,
        base=plan.states.base.head,
        source=source,
        commit=None,
        counts=plan.counts,
        conflicts=plan.conflicts,
        settled=plan.settled,
    )


def _check_complete(resolve: Resolve, left: Sequence[MergeConflict]) -> None:
    if isinstance(resolve, ResolutionFile):
        resolve.check_complete(left)
