"""The target of a commit: a branch that is there, or one that comes into being with the commit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from omnigraph.types import BranchName

_CREATED = "born:"  # stored in intents and in the names of forks


def created_by(operation_id: str) -> str:
    """The incarnation of a branch that an operation creates, known before the branch is there."""
    return f"{_CREATED}{operation_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingBranch:
    """A branch that is there; earlier ones of its name have another incarnation."""

    branch: BranchName
    incarnation: str

    @property
    def needs(self) -> tuple[BranchName, ...]:
        """The branches that cannot be deleted while a write to this one is under way."""
        return (self.branch,)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewBranch:
    """A branch that an operation creates with its first commit, from a version of another one."""

    branch: BranchName
    operation_id: str
    source: BranchName
    source_incarnation: str
    source_version: int  # of the manifest of that branch

    @property
    def incarnation(self) -> str:
        """The incarnation that the branch will have."""
        return created_by(self.operation_id)

    @property
    def needs(self) -> tuple[BranchName, ...]:
        """The branches that cannot be deleted while this one is being created."""
        return (self.branch, self.source)


Target: TypeAlias = ExistingBranch | NewBranch
