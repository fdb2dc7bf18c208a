"""Deleted branches: one small object per deletion, created once and kept.

A branch name may be used again after its branch was deleted. So that a late step of the deletion
never hits the new branch, each branch of a name has a generation and a fork of the manifest of its
own. Deleting the branch of one generation means to create its mark, which storage grants to one
caller only; from then on the name belongs to the next generation. The files of a deleted generation
are removed afterwards, by any process, at any time.

A generation in which a branch was begun and not made is marked, too: what its maker left, or still
makes there if it is only slow, then belongs to no branch.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from urllib.parse import quote, unquote

from omnigraph.core.layout import DELETED_BRANCHES
from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.io.objects import ObjectStore
from omnigraph.types import BranchName

_SUFFIX = ".json"


@dataclass(frozen=True, slots=True)
class DeletedBranches:
    """The deletions of one graph."""

    objects: ObjectStore

    def generation(self, name: BranchName) -> int:
        """The generation that a branch of this name has, or would have if it were made now."""
        found = self.objects.list(f"{DELETED_BRANCHES}/{_folder(name)}")
        return max((_generation(info.path) + 1 for info in found), default=0)

    def generations(self) -> dict[str, int]:
        """The same for every name that was ever deleted."""
        found: dict[str, int] = {}
        for info in self.objects.list(DELETED_BRANCHES):
            name = unquote(info.path.split("/")[-2])
            found[name] = max(found.get(name, 0), _generation(info.path) + 1)
        return found

    def is_deleted(self, name: BranchName, generation: int) -> bool:
        """True if the branch of this generation was deleted."""
        return self.objects.exists(_path(name, generation))

    def was_made(self, name: BranchName, generation: int) -> bool:
        """True if a branch of this generation existed and was deleted or renamed."""
        found = self._read(name, generation)
        return found is not None and "incarnation" in found

    def mark(self, name: BranchName, generation: int, incarnation: str, operation_id: str) -> None:
        """Delete a branch; EXISTS when another process has deleted it."""
        plain = {"branch": name, "incarnation": incarnation, "operation_id": operation_id}
        self._put(_path(name, generation), plain)

    def skip(self, name: BranchName, generation: int, operation_id: str) -> None:
        """End a generation without a branch; EXISTS when another process has ended it."""
        self._put(_path(name, generation), {"branch": name, "operation_id": operation_id})

    def marked_by(self, name: BranchName, generation: int) -> str | None:
        """The operation that ended a generation; None while it has not ended."""
        found = self._read(name, generation)
        return None if found is None else str(found["operation_id"])

    def _read(self, name: BranchName, generation: int) -> dict[str, str] | None:
        try:
            found: dict[str, str] = json.loads(self.objects.get(_path(name, generation)))
        except StorageFailure as failure:
            if failure.kind is FailureKind.NOT_FOUND:
                return None
            raise
        return found

    def _put(self, path: str, plain: dict[str, str]) -> None:
        self.objects.put_new(path, json.dumps(plain, sort_keys=True).encode())


def _folder(name: BranchName) -> str:
    return quote(name, safe="")


def _path(name: BranchName, generation: int) -> str:
    return f"{DELETED_BRANCHES}/{_folder(name)}/{generation:06}{_SUFFIX}"


def _generation(path: str) -> int:
    return int(path.rpartition("/")[2].removesuffix(_SUFFIX))
