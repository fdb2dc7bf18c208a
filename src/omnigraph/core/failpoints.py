"""The crash windows of a write, in the order in which it passes them."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import TypeVar

from omnigraph.runtime.failpoints import InjectedFault, call, catalogue
from omnigraph.store.failures import FailureKind, StorageFailure

T = TypeVar("T")


@catalogue
class Fp(StrEnum):
    """Each is a moment, or an action whose reply may be lost."""

    STAGED = "write.staged"  # files are there, nothing refers to them
    ARM = "write.arm"  # the intent is written
    ARMED = "write.armed"  # the intent is durable, nothing has moved
    LAND = "write.land"  # one table moves
    LANDED_ONE = "write.landed-one"
    LANDED = "write.landed"  # every table has moved
    CONFIRM = "write.confirm"  # the landed versions are noted
    CONFIRMED = "write.confirmed"
    PUBLISH = "write.publish"  # the change becomes visible
    PUBLISHED = "write.published"  # visible, the intent is still there
    FORGET = "write.forget"  # the intent is removed
    INIT_CLAIMED = "init.claimed"
    INIT_TABLES = "init.tables"
    INIT_SCHEMA = "init.schema"
    INIT_PUBLISH = "init.publish"  # the graph comes into being
    INIT_MANIFEST = "init.manifest"
    COPY_FINISH = "copy.finish"  # the copy of a graph becomes a graph
    MIGRATE = "migrate.step"  # a manifest comes to the next format
    FORK = "branch.fork"  # of the manifest or of a table
    BEGIN = "branch.begin"  # the intent of a branch that is created with a commit
    FIRST_COMMIT = "branch.first-commit"  # on the staging ref; publishing it makes the branch
    ANNOUNCE = "branch.announce"  # the intent of deleting or renaming a branch
    DROP = "branch.drop"
    RECOVER_RESTORE = "recover.restore"  # one table goes back
    RECOVER_RESTORED = "recover.restored"
    RECOVER_PUBLISHED = "recover.published"
    RECOVER_AUDIT = "recover.audit"  # the row is written
    RECOVER_AUDITED = "recover.audited"
    RECOVER_FORGET = "recover.forget"  # the intent is removed
    CLEANUP_DECIDED = "cleanup.decided"  # states are gone, what they consisted of is not
    CLEANUP_VERSIONS = "cleanup.versions"  # the versions of one table go
    CLEANUP_VERSIONS_GONE = "cleanup.versions-gone"
    CLEANUP_FILES = "cleanup.files"  # the files of one table go


def guarded(point: Fp, action: Callable[[], T]) -> T:
    """Perform a storage action; a fault injected here looks like a fault of the store."""
    try:
        return call(point, action)
    except InjectedFault as fault:
        kind = FailureKind.UNKNOWN if fault.applied else FailureKind.UNAVAILABLE
        raise StorageFailure(kind, verb=point.value, place="", text="injected") from fault
