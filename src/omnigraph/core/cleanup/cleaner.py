"""The cleaner: carries out what retention and plans decide, one table after the other.

The manifest goes first. Once a state has lost its version there, it cannot be reached any more:
not a reader, not a branch that would be made from it. Only then, with branches, holds and intents
looked at once more, do the tables lose the versions that no state pins. Within a table the versions
go before the files: a fork that is made meanwhile either finds its version gone, or is seen when
the files that are still referred to are listed again. So a crash leaves files that nothing refers
to, which a later run takes.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from omnigraph.core import tuning
from omnigraph.core.branches.branches import StoredBranches
from omnigraph.core.branches.creation import BranchCreation
from omnigraph.core.cleanup.retention import Retained, RetentionPolicy, retain
from omnigraph.core.cleanup.survey import PinnedVersions, Survey
from omnigraph.core.cleanup.table_plan import (
    Ages,
    TableNeeds,
    TablePlan,
    missing_versions,
    plan_table,
    still_to_go,
)
from omnigraph.core.failpoints import Fp, guarded
from omnigraph.core.journal.audit import Audit, AuditRow, RecoveryKind
from omnigraph.core.layout import (
    AUDIT,
    CLEANUP_CLAIM,
    MANIFEST,
    STORE_CLOCK,
    table_folders,
)
from omnigraph.core.locks.claims import Claim, Claims
from omnigraph.core.locks.renewal import renewing
from omnigraph.core.storage_errors import missing_version, public
from omnigraph.errors import JsonValue, NotFound
from omnigraph.runtime import cancellation, telemetry
from omnigraph.runtime.clock import Clock
from omnigraph.runtime.failpoints import hit
from omnigraph.runtime.ids import Ids
from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.integrity.quarantine import SET_ASIDE
from omnigraph.store.io.objects import ObjectStore
from omnigraph.store.tables import Tables
from omnigraph.types import MAIN

WRITER = "cleanup"
_NEEDED = "a version that the newest state of a branch needs"
# What is wrong with one table; other failures are of the store.
_OF_THE_TABLE = frozenset({FailureKind.CORRUPT, FailureKind.INVALID, FailureKind.NOT_FOUND})


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupRequest:
    """A clean-up as it is asked for.

    Attributes:
        policy: Which commits stay.
        set_aside: Old files that were set aside go, too.
        dry_run: Nothing is removed; the result says what would be.
        actor: On whose behalf.
        superseded_us: How long ago a version must have been the newest.
        left_us: How old a file must be that no version refers to.
    """

    policy: RetentionPolicy
    set_aside: bool = False
    dry_run: bool = False
    actor: str | None = None
    superseded_us: int = tuning.active.superseded_age_us
    left_us: int = tuning.active.left_age_us


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanedPart:
    """A table, or another folder of the graph, and what was removed of it.

    Attributes:
        path: Its folder.
        versions: How many versions were removed.
        forks: How many forks of deleted branches were removed.
        files: How many files were removed, those of versions included.
        bytes: How large they were.
        error: Why nothing, or not everything, was removed; None if all is well.
    """

    path: str
    versions: int = 0
    forks: int = 0
    files: int = 0
    bytes: int = 0
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaned:
    """The outcome of a clean-up."""

    operation_id: str
    parts: tuple[CleanedPart, ...]
    states: int  # how many states of the graph stay


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaner:
    """Cleans one graph up."""

    survey: Survey
    tables: Tables
    objects: ObjectStore
    branches: StoredBranches
    creation: BranchCreation
    claims: Claims
    clock: Clock
    ids: Ids

    def clean(self, request: CleanupRequest, report: Callable[[str], None]) -> Cleaned:
        """Remove what no kept state needs, or report what would go.

        Args:
            request: What stays.
            report: Called with the folder that is looked at next.

        Raises:
            Busy: Another process cleans up.
        """
        with self.claims.holding(CLEANUP_CLAIM, wait_us=0) as claim:

            def keep() -> None:
                claim.check()
                self.creation.still_alone()

            # Looking at a long history takes longer than a claim lasts.
            with renewing(keep, "omnigraph-cleanup"):
                return self._clean(request, claim, report)

    def _clean(
        self, request: CleanupRequest, claim: Claim, report: Callable[[str], None]
    ) -> Cleaned:
        operation_id = self.ids.new()
        done: list[CleanedPart] = []
        report(MANIFEST)
        with self.creation.alone():
            retained = self._retained(request)
            forks = self._reclaim(request, retained)
            needs = TableNeeds(pins=_manifest_pins(retained))
            done.append(self._part(MANIFEST, needs, request, self.creation.still_alone))
        hit(Fp.CLEANUP_DECIDED)
        # Once more: what was made, held or begun while the manifest lost its versions.
        retained, pins = self._looked_again(request)
        for path in self._table_paths(pins):
            cancellation.check()
            report(path)
            done.append(self._table(path, pins, request, claim.check, forks.get(path, 0)))
        done.append(self._audit_table(request, claim.check))
        done.extend(self._loose(request))
        cleaned = Cleaned(
            operation_id=operation_id,
            parts=tuple(part for part in done if part.files or part.forks or part.error),
            states=len(retained.states),
        )
        if not request.dry_run and cleaned.parts:
            self._audit(cleaned, request)
        return cleaned

    def _retained(self, request: CleanupRequest) -> Retained:
        history = self.survey.history(request.policy, self.clock.now_us())
        return retain(history, request.policy)

    def _looked_again(self, request: CleanupRequest) -> tuple[Retained, PinnedVersions]:
        """Look once more, and start over when a branch is deleted while it is looked at."""
        for _ in range(tuning.active.cleanup_looks_max):
            try:
                retained = self._retained(request)
                return retained, self.survey.pins(retained)
            except NotFound:
                telemetry.count("cleanup.branch_gone")
            except StorageFailure as failure:
                if failure.kind is not FailureKind.NOT_FOUND:
                    raise
        retained = self._retained(request)
        return retained, self.survey.pins(retained)

    def _reclaim(self, request: CleanupRequest, retained: Retained) -> dict[str, int]:
        """Drop the forks of branches that are gone; how many, by table."""
        keeping = self.survey.pins(retained).forks()
        gone = self.branches.reclaim_tables(keeping, dry_run=request.dry_run)
        return dict(Counter(path for path, _ in gone))

    # -- tables ------------------------------------------------------------------------------------

    def _table_paths(self, pins: PinnedVersions) -> list[str]:
        """The tables of the graph, and folders of tables that no state has."""
        stored = (
            f"{folder}/{name}"
            for folder in table_folders()
            for name in self.objects.children(folder)
            if not name.startswith(".")
        )
        return sorted({*pins.by_path, *stored})

    def _table(
        self,
        path: str,
        pins: PinnedVersions,
        request: CleanupRequest,
        check: Callable[[], None],
        forks: int,
    ) -> CleanedPart:
        part = self._kept_or_dropped(path, pins, request, check)
        if part.error is not None:
            # Perhaps of a branch that was deleted since: then nothing needs it any more.
            _, pins = self._looked_again(request)
            part = self._kept_or_dropped(path, pins, request, check)
        return CleanedPart(
            path=path,
            versions=part.versions,
            forks=forks,
            files=part.files,
            bytes=part.bytes,
            error=part.error,
        )

    def _kept_or_dropped(
        self,
        path: str,
        pins: PinnedVersions,
        request: CleanupRequest,
        check: Callable[[], None],
    ) -> CleanedPart:
        if path in pins.by_path:
            return self._part(path, self.survey.needs(path, pins), request, check)
        return self._dropped(path, request, check)

    def _part(
        self,
        path: str,
        needs: TableNeeds,
        request: CleanupRequest,
        check: Callable[[], None],
    ) -> CleanedPart:
        """Clean one table up; a table that cannot be read does not stand in the way of others."""
        try:
            inventory = self.tables.inventories.take(path)
            for missing in missing_versions(inventory, needs):
                # Which files are only its own is not known until it is back.
                file = self.tables.version_file(missing)
                return CleanedPart(path=path, error=str(missing_version(file, _NEEDED)))
            plan = plan_table(inventory, needs, self._ages(request))
            if not request.dry_run:
                self._carry_out(plan, check)
        except StorageFailure as failure:
            if failure.kind not in _OF_THE_TABLE:
                raise
            return CleanedPart(path=path, error=str(public(failure)))
        return CleanedPart(
            path=path,
            versions=len(plan.versions),
            files=len(plan.versions) + len(plan.files),
            bytes=plan.bytes,
        )

    def _ages(self, request: CleanupRequest) -> Ages:
        return Ages(
            now_us=self.claims.liveness.store_clock.now_us(),
            superseded_us=request.superseded_us,
            left_us=request.left_us,
        )

    def _carry_out(self, plan: TablePlan, check: Callable[[], None]) -> None:
        """Remove the versions of a plan, then what nothing refers to that is left."""
        if plan.is_empty:
            return
        check()
        guarded(
            Fp.CLEANUP_VERSIONS,
            lambda: self.tables.remove_versions(plan.path, plan.versions),
        )
        hit(Fp.CLEANUP_VERSIONS_GONE)
        files = still_to_go(plan, self.tables.inventories.take(plan.path))
        check()
        guarded(Fp.CLEANUP_FILES, lambda: self.tables.inventories.remove(files))
        telemetry.count("cleanup.versions", len(plan.versions))
        telemetry.count("cleanup.files", len(files))

    def _dropped(
        self, path: str, request: CleanupRequest, check: Callable[[], None]
    ) -> CleanedPart:
        """Remove a table that no state has: its type was dropped, or it was never published."""
        ages = self._ages(request)
        files = self.tables.inventories.files(path)
        newest = max((info.modified_us for info in files), default=0)
        if newest > ages.now_us - ages.left_us or self.survey.is_moved(path):
            return CleanedPart(path=path)  # another process may be making it
        if files and not request.dry_run:
            check()
            self.tables.inventories.remove_table(path, files)
        return CleanedPart(path=path, files=len(files), bytes=sum(info.size for info in files))

    def _audit_table(self, request: CleanupRequest, check: Callable[[], None]) -> CleanedPart:
        """Keep only the newest version of the audit table."""
        if not self.tables.exists(AUDIT):
            return CleanedPart(path=AUDIT)
        head = self.tables.head(AUDIT)
        return self._part(AUDIT, TableNeeds(pins={None: {head}}), request, check)

    # -- the rest ----------------------------------------------------------------------------------

    def _loose(self, request: CleanupRequest) -> Iterator[CleanedPart]:
        """Remove small files that dead processes left beside the tables."""
        before = self.claims.liveness.store_clock.now_us() - request.left_us
        folders = (STORE_CLOCK, *((SET_ASIDE,) if request.set_aside else ()))
        for folder in folders:
            old = [
                info
                for info in self.tables.inventories.files(folder)
                if info.modified_us < before and not info.path.endswith("/.lock")
            ]
            if old and not request.dry_run:
                self.tables.inventories.remove(info.path for info in old)
            yield CleanedPart(path=folder, files=len(old), bytes=sum(info.size for info in old))

    def _audit(self, cleaned: Cleaned, request: CleanupRequest) -> None:
        outcomes: dict[str, JsonValue] = {
            part.path: {"versions": part.versions, "files": part.files, "bytes": part.bytes}
            for part in cleaned.parts
        }
        Audit(self.tables).record(
            AuditRow(
                operation_id=cleaned.operation_id,
                recovery_kind=RecoveryKind.CLEANED_UP,
                writer_kind=WRITER,
                graph_branch=MAIN,
                recovery_for_actor=request.actor,
                graph_commit_id=None,
                table_outcomes=json.dumps(outcomes, sort_keys=True),
                created_at=self.clock.now_us(),
            )
        )


def _manifest_pins(retained: Retained) -> dict[str | None, set[int]]:
    found: dict[str | None, set[int]] = {}
    for state in retained.states:
        found.setdefault(state.fork or None, set()).add(state.version)
    return found
