"""The publisher: the one write that makes a change visible.

All rows of a change go into the manifest by one merge on `object_id`, as the version after the one
that the publisher read. So of two publishes of one branch from the same base only one succeeds: the
loser looks again, checks again, and tries again, a bounded number of times.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from omnigraph.core import tuning
from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.core.commits.records import CommitRecord, HeadRecord, Record
from omnigraph.core.commits.request import CommitRequest
from omnigraph.core.commits.requirements import TargetState, check
from omnigraph.core.layout import MANIFEST
from omnigraph.core.publish.destinations import Destination, Destinations
from omnigraph.errors import Code, Conflict, NotFound, RecoveryRequired
from omnigraph.runtime import telemetry
from omnigraph.store.failures import StorageFailure
from omnigraph.types import BranchName


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A visible change. `replayed` says that an earlier call had made it already."""

    commit: CommitRecord
    manifest_version: int
    replayed: bool = False


def find_replay(commit: CommitRecord, seen: TargetState) -> Published | None:
    """The commit of an earlier call with the same idempotency key."""
    if commit.idempotency_key is None:
        return None
    known = seen.commits.find_key(commit.idempotency_key)
    return None if known is None else replace(_published(known, seen), replayed=True)


def _published(known: CommitRecord, seen: TargetState) -> Published:
    version = seen.commits.manifest_version(known.id) or seen.version.manifest_version
    return Published(commit=known, manifest_version=version)


class Publisher:
    """Publishes the changes of one graph."""

    __slots__ = ("_destinations",)

    def __init__(self, destinations: Destinations) -> None:
        """Publish to these."""
        self._destinations = destinations

    def publish(self, request: CommitRequest) -> Published:
        """Make a change visible, or raise a typed conflict with nothing changed."""
        branch = request.commit.branch
        place = self._destinations.of(request.target)
        with telemetry.span("publish", branch=branch), place.publishing():
            for _ in range(tuning.active.publish_attempts_max):
                seen = _newest(place)
                if seen is None:
                    continue
                # Our own by a lost reply, or an earlier one by its key.
                known = seen.commits.get(request.commit.id)
                done = (
                    find_replay(request.commit, seen) if known is None else _published(known, seen)
                )
                if done is not None:
                    return done
                check(request.requires, seen)
                commit, records = _records(request, seen.version)
                version = self._write(commit, records, place, seen)
                if version is not None:
                    return Published(commit=commit, manifest_version=version)
                telemetry.count("publish.lost_race")
        text = f"branch '{branch}' is written to by too many at once"
        raise Conflict(
            Code.HEAD_CONTENTION, text, branch=branch, attempts=tuning.active.publish_attempts_max
        )

    def _write(
        self,
        commit: CommitRecord,
        records: tuple[Record, ...],
        place: Destination,
        seen: TargetState,
    ) -> int | None:
        """One try. None when another publish came first."""
        try:
            version = place.write(records, seen)
        except StorageFailure as failure:
            version = self._published_version(commit, failure)
        if version is not None:
            try:
                place.check_written(seen)
            except StorageFailure as failure:
                raise _unknown(commit) from failure
        return version

    def _published_version(self, commit: CommitRecord, failure: StorageFailure) -> int:
        """Look in the manifest whether a change is in it, after an unclear answer."""
        manifest = self._destinations.manifest
        try:
            snapshot = manifest.snapshot(commit.branch)
            if commit.id in manifest.commits(commit.branch):
                self.make_durable(commit.branch)
                return snapshot.manifest_version
        except (StorageFailure, NotFound):
            telemetry.count("publish.unclear")
        raise _unknown(commit) from failure

    def make_durable(self, branch: BranchName) -> None:
        """Sync a manifest that shows a commit whose own sync may have failed."""
        graph = self._destinations
        graph.tables.sync(MANIFEST, graph.manifest.branch(branch).fork)


def _newest(place: Destination) -> TargetState | None:
    """The newest state; None when others keep bringing the manifest to a newer format."""
    try:
        return place.newest()
    except Conflict as conflict:
        if conflict.code is not Code.HEAD_CONTENTION:
            raise
        telemetry.count("publish.lost_race")
        return None


def _unknown(commit: CommitRecord) -> RecoveryRequired:
    text = "the publish was sent and its outcome is not known"
    return RecoveryRequired(Code.OUTCOME_UNKNOWN, text, commit_id=commit.id, branch=commit.branch)


def _records(request: CommitRequest, base: GraphVersion) -> tuple[CommitRecord, tuple[Record, ...]]:
    """The commit that follows a version, and everything that publishing it writes."""
    if not request.moves_head:
        return request.commit, (*request.records, request.commit)
    commit = replace(request.commit, parent_id=base.head)
    digest = request.schema_digest or base.schema_digest
    head = HeadRecord(branch=base.head_name, commit=commit.id, schema_digest=digest)
    return commit, (*request.records, commit, head)
