"""Setting refs: tags are made and deleted, branches are protected.

Names of tags and branches are given under the claim on making branches, so no tag and branch get
one name, and no branch is deleted while one of its commits is being tagged.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.core.commits.keys import RESULT, CallKey, keyed
from omnigraph.core.commits.records import REF, CommitRecord
from omnigraph.core.commits.requirements import RefIs, branch_replaced
from omnigraph.core.journal.intent import WriterKind
from omnigraph.core.layout import MANIFEST
from omnigraph.core.manifest.refs import (
    BRANCH,
    COMMIT,
    GENERATION,
    NAME,
    NAMES,
    PROTECTED,
    PROTECTION,
    TAGS,
    TagRecord,
    is_protected,
    require_unprotected,
    tag_of,
    tags_of,
)
from omnigraph.core.storage_errors import storage_errors
from omnigraph.core.write import Prepared
from omnigraph.errors import (
    Code,
    Conflict,
    Gone,
    InvalidInput,
    JsonValue,
    NotFound,
    RecoveryRequired,
)
from omnigraph.lang.source import did_you_mean
from omnigraph.store.failures import StorageFailure
from omnigraph.types import MAIN, BranchName, CommitId, TagName

if TYPE_CHECKING:
    from omnigraph.core.repository import Repository

_FORMER = "former"  # of a tag that is deleted, the commit that set it


class Refs:
    """The refs of one graph."""

    __slots__ = ("_repo",)

    def __init__(self, repo: Repository) -> None:
        """Work on this graph."""
        self._repo = repo

    def tags(self) -> dict[TagName, TagRecord]:
        """All tags by name, in their order. A clean-up keeps what they name."""
        return tags_of(self._now().refs)

    def tag(self, name: TagName) -> TagRecord:
        """One tag.

        Raises:
            NotFound: There is none of this name; the message names what is spelled alike.
        """
        now = self._now()
        found = tag_of(now.refs, name)
        if found is None:
            near = did_you_mean(name, tags_of(now.refs))
            text = f"there is no tag '{name}'" + (f"; {near}" if near else "")
            raise NotFound(Code.NOT_FOUND, text, tag=name)
        return found

    def create_tag(
        self,
        name: TagName,
        version: GraphVersion,
        *,
        actor: str | None = None,
        message: str | None = None,
        force: bool = False,
        key: CallKey | None = None,
    ) -> TagRecord:
        """Give the commit of a version a name; `force` takes it from another commit."""
        repo = self._repo
        repo.require_writable()
        with storage_errors(), repo.creation.alone():
            if (earlier := self.tag_made(name, key)) is not None:
                return earlier
            now = self._now()
            known = tag_of(now.refs, name)
            if known is not None and not force and known.commit != version.head:
                text = f"the tag '{name}' exists already, at commit {known.commit}"
                raise Conflict(Code.TAG_EXISTS, text, tag=name, commit=known.commit)
            if known is not None and known.commit == version.head:
                return known  # an earlier call has done it
            if repo.manifest.exists(BranchName(name)):
                text = f"there is a branch '{name}'; a tag needs a name of its own"
                raise Conflict(Code.BRANCH_EXISTS, text, branch=name)
            details = {COMMIT: str(version.head), BRANCH: str(version.branch)}
            self._check_exists(version)
            ref = TAGS + name
            entry = self.set(
                ref, WriterKind.TAG, details, actor=actor, message=message, key=key, now=now
            )
            self._check_tagged(ref, version, entry)
            return _tag_set_by(entry, name)

    def tag_made(self, name: TagName, key: CallKey | None) -> TagRecord | None:
        """The tag that an earlier call with a key has made."""
        earlier = self.done(key)
        return None if earlier is None else _tag_set_by(earlier, name)

    def delete_tag(
        self, name: TagName, *, actor: str | None = None, key: CallKey | None = None
    ) -> TagRecord:
        """Delete a tag; return what it was. The commit stays."""
        self._repo.require_writable()
        with storage_errors(), self._repo.creation.alone():
            earlier = self.done(key)
            if earlier is not None:
                setter = self._repo.manifest.commits(MAIN)[CommitId(str(earlier.details[_FORMER]))]
                return _tag_set_by(setter, name)
            known, ref = self.tag(name), TAGS + name
            now = self._now()
            details: dict[str, JsonValue] = {COMMIT: None, _FORMER: str(now.refs[ref].id)}
            self.set(ref, WriterKind.TAG, details, actor=actor, key=key, now=now)
            return known

    def is_protected(self, branch: BranchName) -> bool:
        """True if a branch is protected."""
        return is_protected(self._now().refs, branch)

    def protect(
        self,
        branch: BranchName,
        *,
        protected: bool,
        actor: str | None = None,
        message: str | None = None,
        key: CallKey | None = None,
        result: JsonValue = None,
    ) -> None:
        """Protect a branch, or no longer; `result` is kept for calls that repeat this one."""
        self._repo.require_writable()
        with storage_errors(), self._repo.creation.alone():
            if self.done(key) is not None:
                return
            self._repo.manifest.branch(branch)
            now = self._now()
            if is_protected(now.refs, branch) != protected:
                details: dict[str, JsonValue] = {PROTECTED: protected}
                if key is not None:
                    details[RESULT] = result
                ref, kind = PROTECTION + branch, WriterKind.PROTECTION
                self.set(ref, kind, details, actor=actor, message=message, key=key, now=now)

    def rename_branch(
        self,
        name: BranchName,
        to: BranchName,
        *,
        actor: str | None = None,
        message: str | None = None,
        key: CallKey | None = None,
        result: JsonValue = None,
    ) -> None:
        """Give a branch without writers another name.

        Its fork stays what it is. That the fork has another name is one commit on main. `result` is
        kept for calls that repeat this one.
        """
        if name == MAIN:
            raise InvalidInput(Code.NAME_INVALID, "the branch 'main' cannot be renamed", name=name)
        repo = self._repo
        repo.require_writable()
        with storage_errors(), repo.creation.alone():
            if self.done(key) is not None:
                return
            info = repo.manifest.branch(name)
            require_unprotected(self._now().refs, name, "renamed")
            repo.creation.check_free(to)
            # From here on there are no commits: what was read of the branch stays true.
            with repo.branches.ending(info, WriterKind.BRANCH_RENAME) as announced:
                repo.creation.leave_renamed(to)
                announced.check()
                details: dict[str, JsonValue] = {
                    NAME: str(to),
                    GENERATION: repo.manifest.generation_of(to),
                }
                if key is not None:
                    details[RESULT] = result
                ref, kind = NAMES + str(info.fork), WriterKind.BRANCH_RENAME
                self.set(ref, kind, details, actor=actor, message=message, key=key)
                # Readers that have the old name look again. If this fails, the next operation that
                # needs the name does it.
                with suppress(StorageFailure):
                    repo.manifest.mark_deleted(info, announced.operation_id)
            repo.manifest.forget(name)

    def _now(self) -> GraphVersion:
        return self._repo.snapshot(MAIN)

    def _check_tagged(self, ref: str, version: GraphVersion, entry: CommitRecord) -> None:
        """Take a tag back whose branch was deleted before the tag was visible."""
        try:
            self._check_exists(version)
        except StorageFailure as failure:
            text = f"'{ref}' was set, and whether its commit is still there is not known"
            raise RecoveryRequired(Code.OUTCOME_UNKNOWN, text, ref=ref) from failure
        except (Conflict, Gone):
            self.set(ref, WriterKind.TAG, {COMMIT: None}, actor=entry.actor)
            raise

    def _check_exists(self, version: GraphVersion) -> None:
        if not self._repo.manifest.still_exists(version):
            raise branch_replaced(version.branch)
        if not self._repo.tables.has_version(MANIFEST, version.manifest_version, version.fork):
            text = f"the state of commit {version.head} was removed by a clean-up: tag another one"
            raise Gone(Code.GONE, text, commit=version.head)

    def done(self, key: CallKey | None) -> CommitRecord | None:
        """The commit by which an earlier call with a key has set a ref."""
        if key is None:
            return None
        self._now()
        return key.done(self._repo.manifest.commits(MAIN))

    def set(
        self,
        ref: str,
        kind: WriterKind,
        details: Mapping[str, JsonValue],
        *,
        actor: str | None = None,
        message: str | None = None,
        key: CallKey | None = None,
        now: GraphVersion | None = None,
    ) -> CommitRecord:
        """Set a ref by a commit that is on no branch. Only under the claim on branches."""
        now = now or self._now()
        known = now.refs.get(ref)
        self._repo.creation.still_alone()
        published = self._repo.commit(
            Prepared(
                base=now,
                commit=keyed(
                    replace(
                        self._repo.new_commit(now, kind),
                        actor=actor,
                        message=message,
                        details={REF: ref, **details},
                    ),
                    key,
                ),
                tables=(),
                ref=RefIs(ref, None if known is None else known.id),
            )
        )
        return published.commit


def _tag_set_by(entry: CommitRecord, name: TagName) -> TagRecord:
    """The tag that a commit has made."""
    made = tag_of({TAGS + name: entry}, name)
    assert made is not None, "it was a commit that made one"
    return made
