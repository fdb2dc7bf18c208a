"""The state of a graph that a call means, and the compiled queries of its schema."""

from __future__ import annotations

import re

from omnigraph.core.graph_version import GraphVersion
from omnigraph.core.repository import Repository
from omnigraph.errors import Code, InvalidInput, NotFound
from omnigraph.graph.arguments import instance, whole_number
from omnigraph.graph.languages import Language
from omnigraph.types import MAIN, ULID, BranchName, CommitId

_STEPS = re.compile(r"[0-9]{0,6}")


class Pins:
    """Pins states of one graph. Thread-safe."""

    def __init__(self, repo: Repository) -> None:
        """Pin states of this graph."""
        self._repo = repo
        self._languages: dict[str, Language] = {}
        self._names: dict[str, BranchName] = {str(MAIN): MAIN}

    def pinned(self, branch: str, at: str | None, version: int | None = None) -> GraphVersion:
        """The newest state of a branch, or that of a commit or a version of its manifest."""
        try:
            known = self._names[branch]
        except (KeyError, TypeError):
            known = BranchName(branch)
        if at is not None:
            if version is not None:
                message = "give either a commit or a version, not both"
                raise InvalidInput(Code.INPUT_INVALID, message)
            return self._repo.snapshot_at(CommitId(at), known)
        if version is not None:
            number = whole_number(version, "a version", 1)
            return self._repo.snapshot_at_version(known, number)
        pinned = self._repo.snapshot(known)
        self._names[branch] = known
        return pinned

    def revision(self, text: str) -> GraphVersion:
        """The newest state of a branch, or that of a commit; `~n` behind either goes n back.

        Raises:
            NotFound: There is neither a branch nor a commit of this name.
        """
        instance(text, str, "a state is a branch, a commit or a snapshot")
        name, tilde, steps = text.partition("~")
        if ULID.fullmatch(name) and not self._repo.has_branch(BranchName(name)):
            found = self._repo.snapshot_at(CommitId(name))
        else:
            found = self._repo.snapshot(BranchName(name))
        if not tilde:
            return found
        if not _STEPS.fullmatch(steps):
            message = f"{text!r}: behind '~' stands how many commits to go back"
            raise InvalidInput(Code.INPUT_INVALID, message, revision=text)
        commit = self._ancestor(found, int(steps or "1"), text)
        return self._repo.snapshot_at(commit, found.branch)

    def _ancestor(self, version: GraphVersion, steps: int, text: str) -> CommitId:
        commit = version.head
        for step in range(steps):
            parent = self._repo.commit_info(commit, version.branch).parent_id
            if parent is None:
                message = f"{text!r} goes back {steps} commits, and there are {step}"
                raise NotFound(Code.NOT_FOUND, message, revision=text)
            commit = parent
        return commit

    def language(self, pinned: GraphVersion) -> Language:
        """The languages, with the schema of a state."""
        known = self._languages.get(pinned.schema_digest)
        if known is None:
            known = Language(self._repo.schema(pinned))
            self._languages[pinned.schema_digest] = known
        return known
