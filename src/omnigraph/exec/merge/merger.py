"""Merging one branch into another, and taking a commit back: from the merge base to one commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from omnigraph.core.commits.keys import keyed
from omnigraph.core.commits.lineage import MERGE_SOURCE, MERGED_COMMITS, merge_bases
from omnigraph.core.commits.records import Record
from omnigraph.core.commits.requirements import SourceExists, require_head
from omnigraph.core.journal.intent import WriterKind
from omnigraph.core.manifest.refs import require_unprotected
from omnigraph.core.publish.publisher import Published
from omnigraph.core.repository import Repository
from omnigraph.core.retry import with_retries
from omnigraph.core.revisions import Revisions
from omnigraph.core.schema.arrow_types import table_schema
from omnigraph.core.storage_errors import storage_errors
from omnigraph.core.write import Prepared
from omnigraph.errors import Code, InvalidInput, JsonValue
from omnigraph.exec.merge.base_states import Origins
from omnigraph.exec.merge.conflicts import (
    MergeConflict,
    Resolve,
    refused,
    unsettled,
)
from omnigraph.exec.merge.fast_forward import stage as stage_files
from omnigraph.exec.merge.planner import MergePlan, MergePlanner
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
from omnigraph.exec.merge.schemas import TypeSides
from omnigraph.exec.merge.stage import stage_type
from omnigraph.exec.merge.tasks import MergeWork, Running
from omnigraph.exec.mutate.committed import MutationLimits
from omnigraph.exec.schema_change.records import schema_records
from omnigraph.runtime import cancellation, telemetry
from omnigraph.types import MAIN, BranchName, CommitId


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
        self._planner = MergePlanner(repo, self._limits)
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
            origins = Origins.of(self._repo, ancestry.find, listed, ours.branch, theirs.branch)
            states = self._planner.states(ours, theirs, listed, names, origins)
            is_forward = ours.head == base
            taken = self._planner.taken_over(states[0]) if is_forward else ()
            plan = self._planner.plan(
                states, request.resolve, work, by_row=request.by_row, taken=taken
            )
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
            states = self._planner.states(ours, before, [commit.id], names)
            plan = self._planner.plan(states, request.resolve, work, by_row=False)
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
            states = self._planner.states(ours, theirs, [ours.head], names)
            plan = self._planner.plan(states, unsettled, work, by_row=False)
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

    def _replayed(self, request: MergeRequest | RevertRequest | ResetRequest) -> Merged | None:
        """The result of an earlier call with the same key."""
        branch = request.into if isinstance(request, MergeRequest) else request.branch
        if request.key is None:
            return None
        self._repo.snapshot(branch)
        with storage_errors():
            known = self._repo.manifest.find_key(branch, request.key.key)
        return None if known is None else recorded(known, request)

    def _commit(
        self,
        plan: MergePlan,
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

    def _schema_records(self, plan: MergePlan) -> tuple[tuple[Record, ...], str | None]:
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


def _planned(plan: MergePlan, outcome: MergeOutcome, source: CommitId) -> Merged:
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
