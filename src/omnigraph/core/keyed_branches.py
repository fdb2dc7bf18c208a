"""Making and deleting branches under an idempotency key.

Neither leaves a commit that could carry the key. So the call is noted first, as a ref on main that
says which branch of the name is meant. What a repeated call has to do then follows from what became
of that very branch: a branch of the same name that was made later is never taken for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.core.commits.keys import RESULT, CallKey
from omnigraph.core.commits.records import CommitRecord
from omnigraph.core.commits.requirements import branch_replaced
from omnigraph.core.journal.intent import WriterKind
from omnigraph.core.layout import MANIFEST, branch_fork
from omnigraph.core.manifest.refs import BRANCH, GENERATION, NAME, NAMES
from omnigraph.core.storage_errors import storage_errors
from omnigraph.errors import JsonValue, NotFound
from omnigraph.types import MAIN, BranchName, CommitId

if TYPE_CHECKING:
    from omnigraph.core.repository import Repository

_NOTES: Final = "keyed/branches"  # the ref that every note sets
_FORK, _VERSION = "fork", "version"


class KeyedBranches:
    """The branches of one graph, for calls that have an idempotency key."""

    __slots__ = ("_repo",)

    def __init__(self, repo: Repository) -> None:
        """Work on this graph."""
        self._repo = repo

    def create(
        self,
        name: BranchName,
        start: Callable[[], GraphVersion],
        key: CallKey,
        actor: str | None = None,
    ) -> Mapping[str, JsonValue]:
        """Make a branch once; what it was when it was made.

        Args:
            name: The branch.
            start: Finds the state that it starts from.
            key: The key of the call.
            actor: On whose behalf.
        """
        repo = self._repo
        repo.require_writable()
        with storage_errors(), repo.creation.alone():
            noted = repo.refs.done(key)
            if noted is None:
                noted = self._note_creation(name, start(), key, actor)
            if not self._is_made(name, noted.details):
                repo.branches.create(name, start=self._start(noted.details))
        found = noted.details[RESULT]
        assert isinstance(found, Mapping), "every note has it"
        return found

    def _note_creation(
        self, name: BranchName, start: GraphVersion, key: CallKey, actor: str | None
    ) -> CommitRecord:
        repo = self._repo
        repo.creation.check_free(name)
        made: dict[str, JsonValue] = {
            "name": str(name),
            "parent": str(start.branch),
            "head": str(start.head),
            "protected": repo.refs.is_protected(name),
        }
        details: dict[str, JsonValue] = {
            NAME: str(name),
            GENERATION: repo.manifest.generation_of(name),
            BRANCH: str(start.branch),
            _FORK: start.fork,
            _VERSION: start.manifest_version,
            RESULT: made,
        }
        return repo.refs.set(_NOTES, WriterKind.BRANCH_CREATE, details, actor=actor, key=key)

    def _is_made(self, name: BranchName, noted: Mapping[str, JsonValue]) -> bool:
        """True if the branch of a note was made, even if it has been deleted since."""
        manifest = self._repo.manifest
        refs = self._repo.snapshot(MAIN).refs
        last = manifest.generation_of(name)
        for generation in range(int(str(noted[GENERATION])), last + 1):
            fork = branch_fork(name, generation)
            found = self._repo.tables.fork_info(MANIFEST, fork)
            if found is not None:
                base = (found.parent_branch, found.parent_version)
                return base == (noted[_FORK], noted[_VERSION])
            if NAMES + fork in refs or manifest.was_deleted(name, generation):
                return True
            # An attempt that was cut off left files there: the next generation is the one.
        return False

    def _start(self, noted: Mapping[str, JsonValue]) -> GraphVersion:
        """The state that the branch of a note starts from."""
        source = BranchName(str(noted[BRANCH]))
        found = self._repo.manifest.at_version(source, int(str(noted[_VERSION])))
        if found.fork != noted[_FORK]:
            raise branch_replaced(source)
        return found

    def delete(
        self,
        name: BranchName,
        key: CallKey,
        *,
        if_head: CommitId | None = None,
        actor: str | None = None,
    ) -> None:
        """Delete a branch once: that of the first call, and none that was made since."""
        repo = self._repo
        repo.require_writable()
        with storage_errors(), repo.creation.alone():
            noted = repo.refs.done(key)
            if noted is None:
                fork = repo.manifest.branch(name).fork
                details: dict[str, JsonValue] = {NAME: str(name), _FORK: fork}
                noted = repo.refs.set(
                    _NOTES, WriterKind.BRANCH_DELETE, details, actor=actor, key=key
                )
            if self._still_exists(name, noted.details):
                repo.branches.delete(name, if_head=if_head)

    def _still_exists(self, name: BranchName, noted: Mapping[str, JsonValue]) -> bool:
        """True if the branch of a note still exists.

        Raises:
            NotFound: It has another name by now.
        """
        try:
            return self._repo.manifest.branch(name).fork == noted[_FORK]
        except NotFound:
            renamed = self._repo.snapshot(MAIN).refs.get(f"{NAMES}{noted[_FORK]}")
            if renamed is not None and renamed.details[NAME] != name:
                raise
            return False
