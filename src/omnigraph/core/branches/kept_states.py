"""Deleted branches whose states are still needed, because merges compare with them.

A branch that was merged into two others is their merge base, also when it is deleted. So its files
stay as long as two branches have it in common. Each merge leaves a note by the branch that it
merged, and by those that this one was made from, so that deleting a branch that only one other has
merged takes one look.
"""

from __future__ import annotations

from urllib.parse import quote

from omnigraph.core.commits.lineage import Ancestry, first_parents, merge_bases_of_all, newest_first
from omnigraph.core.layout import MERGED_BRANCHES
from omnigraph.core.manifest.branch_info import BranchInfo
from omnigraph.core.manifest.manifest import Manifest
from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.io.objects import ObjectStore
from omnigraph.types import MAIN, BranchName, CommitId


class KeptStates:
    """The notes of merges, and what they mean for branches that are deleted."""

    __slots__ = ("_manifest", "_objects")

    def __init__(self, objects: ObjectStore, manifest: Manifest) -> None:
        """Keep the notes in this store."""
        self._objects = objects
        self._manifest = manifest

    def note_merge(self, source: BranchName, into: str | None) -> None:
        """Note that a branch is merged into another one, of which this is the fork of the manifest.

        The branches that it was made from are noted, too: commits of theirs are merged with it.
        """
        info = self._manifest.branch(source)
        while info.parent is not None:  # main is never deleted
            self._note(str(info.fork), into)
            info = self._manifest.branch(info.parent)

    def _note(self, source: str, into: str | None) -> None:
        place = f"{_folder(source)}/{_plain(into or MAIN)}.json"
        try:
            self._objects.put_new(place, b"{}")
        except StorageFailure as failure:
            if failure.kind is not FailureKind.EXISTS:
                raise

    def is_merge_base(self, info: BranchInfo) -> bool:
        """True if merging two other branches compares with a state of this one."""
        if len(self._objects.list(_folder(str(info.fork)))) < 2:
            return False
        own = self._own_commits(info)
        heads = self._heads(info)
        logs = [self._manifest.commits(name).get for name in heads]
        find = Ancestry(self._manifest.log_of(info).get, *logs).find
        first = min(own, default=None)
        having = []
        for head in heads.values():
            for node in newest_first(find, [head]):
                if first is None or node.id < first:
                    break
                if node.id in own:
                    having.append(head)
                    break
        return bool(own & merge_bases_of_all(find, having))

    def _own_commits(self, info: BranchInfo) -> set[CommitId]:
        log = self._manifest.log_of(info)
        found = set()
        for commit in first_parents(log.get, self._manifest.head_of(info)):
            if (log.manifest_version(commit.id) or 0) <= info.parent_version:
                break
            found.add(commit.id)
        return found

    def _heads(self, info: BranchInfo) -> dict[BranchName, CommitId]:
        heads = self._manifest.heads()
        return {head.branch: head.head for head in heads if head.fork != info.fork}


def _folder(fork: str) -> str:
    return f"{MERGED_BRANCHES}/{_plain(fork)}"


def _plain(fork: str) -> str:
    return quote(fork, safe="")
