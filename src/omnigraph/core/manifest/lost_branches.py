"""Branches that were committed to and whose record is gone, or cut short.

A branch exists once its record does, and nothing is committed to it before. So one version without
a record is what a maker left that died, and more of them mean that the record was lost. A branch
that was deleted has a mark. Whatever needs a lost branch is kept, until its record is back.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from omnigraph.core.layout import MANIFEST
from omnigraph.core.manifest.deleted_branches import DeletedBranches
from omnigraph.core.manifest.formats import format_of
from omnigraph.errors import Code, Corrupt
from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.tables import Pin, Tables
from omnigraph.types import BranchName

if TYPE_CHECKING:
    # Only a branch that is missed is looked for there.
    from omnigraph.store.maintenance.inventory import StoredVersion

Named: TypeAlias = Callable[[str], tuple[tuple[BranchName, int], ...]]


@dataclass(frozen=True, slots=True)
class LostBranch:
    """A branch that was committed to and has no record.

    Attributes:
        name: Its name.
        fork: The fork of the manifest that it is.
        record: The path of its record.
    """

    name: BranchName
    fork: str
    record: str

    def error(self) -> Corrupt:
        """The error of all that would need it, or drop what it needs."""
        text = (
            f"the record of branch '{self.name}', {self.record!r}, is missing or cut short: "
            "restore it from a backup; to give the branch up for good, remove "
            f"'{MANIFEST}/tree/{self.fork}/_versions'"
        )
        return Corrupt(Code.CORRUPT, text, path=self.record, branch=self.name)


class LostBranches:
    """Finds the lost branches of one graph."""

    def __init__(self, tables: Tables, named: Named, deleted: DeletedBranches) -> None:
        """Look through these tables; `named` gives the name and generation of a fork."""
        self._tables = tables
        self._named = named
        self._deleted = deleted

    def all(self) -> tuple[LostBranch, ...]:
        """List all of them; the files of every branch are listed, and none is read."""
        return self._among(self._tables.inventories.versions_of_forks(MANIFEST))

    def require_not_lost(self, fork: str) -> None:
        """Refuse to take a fork for one that never was.

        Raises:
            Corrupt: It is a lost branch.
        """
        for lost in self._among(self._tables.inventories.versions_of_forks(MANIFEST, fork)):
            raise lost.error()

    def _among(self, stored: Iterable[StoredVersion]) -> tuple[LostBranch, ...]:
        # Files, then records, then marks: a branch that ends meanwhile loses them the other way.
        versions: defaultdict[str, list[int]] = defaultdict(list)
        for item in stored:
            versions[str(item.branch)].append(item.version)
        suspects = sorted(fork for fork, found in versions.items() if len(found) > 1)
        recorded = self._tables.fork_names(MANIFEST) if suspects else ()
        absent = [fork for fork in suspects if fork not in recorded]
        deleted = self._deleted.generations() if absent else {}
        return tuple(
            LostBranch(name, fork, self._tables.fork_record(MANIFEST, fork))
            for fork in absent
            for name, generation in self._named(fork)
            if generation >= deleted.get(name, 0) and self._is_ours(fork, max(versions[fork]))
        )

    def _is_ours(self, fork: str, version: int) -> bool:
        """Return whether we committed to a fork: the original leaves files of deleted branches."""
        try:
            found = self._tables.open(Pin(path=MANIFEST, version=version, branch=fork))
            return not format_of(found).is_original
        except StorageFailure as failure:
            return failure.kind is not FailureKind.NOT_FOUND
