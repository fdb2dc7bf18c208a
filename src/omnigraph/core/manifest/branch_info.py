"""Branches as their forks of the manifest describe them."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.core.commits.target import created_by
from omnigraph.core.layout import (
    STAGING_REFS,
    branch_parts,
    staging_ref_parts,
)
from omnigraph.errors import InvalidInput
from omnigraph.runtime import telemetry
from omnigraph.store.tables import ForkInfo
from omnigraph.types import MAIN, BranchName


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchInfo:
    """A branch: what it was made from, and which one of its name it is."""

    name: BranchName
    parent: BranchName | None  # None for main
    parent_version: int
    incarnation: str
    fork: str | None = None  # of the manifest; None for main
    parent_fork: str | None = None  # the fork that it was made from; None for main
    generation: int = 0  # how many branches of this name were deleted before
    staging_ref: str | None = None  # where it got its first commit, if it was created with one


MAIN_INFO = BranchInfo(name=MAIN, parent=None, parent_version=0, incarnation="main")


def branch_info(name: BranchName, text: str, fork: ForkInfo) -> BranchInfo:
    """The branch of a name, from its fork of the manifest."""
    staged = staging_ref_parts(fork.parent_branch)
    if staged is not None:
        return _created_info(name, text, fork, *staged)
    parent = MAIN
    if fork.parent_branch is not None:
        parent = BranchName(branch_parts(fork.parent_branch)[0])
    return BranchInfo(
        name=name,
        parent=parent,
        parent_version=fork.parent_version,
        incarnation=fork.identifier,
        fork=text,
        parent_fork=fork.parent_branch,
        generation=branch_parts(text)[1],
    )


def _created_info(
    name: BranchName, text: str, fork: ForkInfo, operation_id: str, source: str
) -> BranchInfo:
    """A branch that was forked from its staging ref, which itself is no parent of a branch.

    The identifier has a step for each fork on the way; the last but one made the staging ref.
    """
    made_at, _, _ = fork.identifier.split("/")[-2].partition(":")
    return BranchInfo(
        name=name,
        parent=BranchName(source),
        parent_version=int(made_at),
        incarnation=created_by(operation_id),
        fork=text,
        generation=branch_parts(text)[1],
        staging_ref=fork.parent_branch,
    )


def branch_of_fork(text: str) -> tuple[tuple[BranchName, int], ...]:
    """The name and generation of the branch that a fork is; empty for forks of other tools."""
    if text.startswith(f"{STAGING_REFS}/"):
        return ()
    name, generation = branch_parts(text)
    try:
        return ((BranchName(name), generation),)
    except InvalidInput:
        telemetry.count("manifest.foreign_fork")
        return ()
