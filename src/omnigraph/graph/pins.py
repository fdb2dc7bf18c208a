"""The state of a graph that a call means, and the compiled queries of its schema."""

from __future__ import annotations

from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.core.revisions import Revision, Revisions
from omnigraph.errors import Code, InvalidInput
from omnigraph.graph.arguments import whole_number
from omnigraph.graph.context import GraphContext
from omnigraph.graph.plan_cache import PlanCache
from omnigraph.policy.authorization import Authorizer, Permission
from omnigraph.types import MAIN, BranchName


class Pins:
    """Pins states of one graph. Thread-safe."""

    def __init__(
        self, parts: GraphContext, authorizer: Authorizer, branch: BranchName = MAIN
    ) -> None:
        """Pin states of this graph; of a branch where none is named."""
        self._repo = parts.repo
        self._authorizer = authorizer
        self._resolve = Revisions(parts.repo).resolve
        self._plan_caches = parts.plan_caches
        self._names: dict[str | None, BranchName] = {str(MAIN): MAIN, None: branch}

    def pinned(
        self,
        branch: str | None,
        at: Revision | None,
        version: int | None = None,
        action: Permission = Permission.READ,
    ) -> GraphVersion:
        """The newest state of a branch, or that of a revision or a version of its manifest."""
        try:
            known = self._names[branch]
        except (KeyError, TypeError):
            known = BranchName(branch)  # type: ignore[arg-type]  # None is among the names
        if at is not None:
            if version is not None:
                message = "give either `at` or a version, not both"
                raise InvalidInput(Code.INPUT_INVALID, message)
            return self.revision(at, known, action)
        self._authorizer.ask(action, known)
        if version is not None:
            number = whole_number(version, "a version", 1)
            return self._repo.snapshot_at_version(known, number)
        pinned = self._repo.snapshot(known)
        self._names[branch] = known
        return pinned

    def revision(
        self, at: Revision, branch: BranchName, action: Permission = Permission.READ
    ) -> GraphVersion:
        """The state that a revision names; it may be one of another branch."""
        self._authorizer.ask(action, branch)
        found = self._resolve(at, branch)
        if found.branch != branch:
            self._authorizer.ask(action, found.branch)
        return found

    def plans(self, pinned: GraphVersion) -> PlanCache:
        """The languages, with the schema of a state."""
        known = self._plan_caches.get(pinned.schema_digest)
        if known is None:
            known = PlanCache(self._repo.schema(pinned))
            self._plan_caches[pinned.schema_digest] = known
        return known
