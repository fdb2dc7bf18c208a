"""Refs: tags, protected branches, and branches that were renamed; kept in the manifest of main.

A ref is set by a commit that is on no branch: publishing it moves no head. Its row names the ref as
its location, and of several commits that set one ref the last counts. Releases that know no refs
read such a row as a commit that is on no branch.

This module reads them; `core/update_refs.py` sets them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from omnigraph.core.commits.records import CommitRecord
from omnigraph.errors import Code, Conflict, Forbidden
from omnigraph.types import MAIN, BranchName, CommitId, TagName

# The names of refs, and the details of the commits that set them.
TAGS: Final = "tags/"
PROTECTION: Final = "protection/"
NAMES: Final = "names/"  # by fork of the manifest, the name that its branch was given later
COMMIT, BRANCH, PROTECTED = "commit", "branch", "protected"
NAME, GENERATION = "name", "generation"


@dataclass(frozen=True, slots=True, kw_only=True)
class TagRecord:
    """A named commit, and the actor that named it."""

    name: TagName
    commit: CommitId
    branch: BranchName  # where the commit was found when it was tagged
    actor: str | None
    created_at: int  # microseconds since the epoch
    message: str | None


def tags_of(refs: Mapping[str, CommitRecord]) -> dict[TagName, TagRecord]:
    """The tags among refs, by name in their order."""
    found = (_tag(ref, entry) for ref, entry in sorted(refs.items()) if ref.startswith(TAGS))
    return {tag.name: tag for tag in found if tag is not None}


def tag_of(refs: Mapping[str, CommitRecord], name: str) -> TagRecord | None:
    """One tag; None when there is none of this name."""
    entry = refs.get(TAGS + name)
    return None if entry is None else _tag(TAGS + name, entry)


def _tag(ref: str, entry: CommitRecord) -> TagRecord | None:
    commit = entry.details.get(COMMIT)
    if commit is None:
        return None  # deleted
    return TagRecord(
        name=TagName(ref.removeprefix(TAGS)),
        commit=CommitId(str(commit)),
        branch=BranchName(str(entry.details.get(BRANCH))),
        actor=entry.actor,
        created_at=entry.created_at,
        message=entry.message,
    )


def renamed_branches(refs: Mapping[str, CommitRecord]) -> dict[str, tuple[BranchName, int]]:
    """Branches that were renamed, by fork: the name, and which branch of that name each is."""
    return {
        ref.removeprefix(NAMES): (
            BranchName(str(entry.details[NAME])),
            int(str(entry.details[GENERATION])),
        )
        for ref, entry in refs.items()
        if ref.startswith(NAMES)
    }


def is_protected(refs: Mapping[str, CommitRecord], branch: BranchName) -> bool:
    """True if a branch may not be deleted or reset; main is protected unless it was unprotected."""
    entry = refs.get(PROTECTION + branch)
    return branch == MAIN if entry is None else bool(entry.details.get(PROTECTED))


def require_unprotected(refs: Mapping[str, CommitRecord], branch: BranchName, what: str) -> None:
    """Refuse to do something to a protected branch."""
    if is_protected(refs, branch):
        text = f"branch '{branch}' is protected and cannot be {what}: unprotect it first"
        raise Forbidden(Code.BRANCH_PROTECTED, text, branch=branch)


def require_no_tag(refs: Mapping[str, CommitRecord], name: BranchName) -> None:
    """Refuse a name for a branch that a tag has."""
    if tag_of(refs, name) is not None:
        text = f"there is a tag '{name}'; a branch needs a name of its own"
        raise Conflict(Code.TAG_EXISTS, text, tag=name)
