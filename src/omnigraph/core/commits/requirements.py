"""Requirements of a write, each with its check and the conflict that it ends in.

A write is made for one version of the graph. Its requirements say what of that version must still
hold when it is admitted, when it is published, and when recovery decides whether it may be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from omnigraph.core.commits.commit_log import CommitLog
from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.core.commits.target import ExistingBranch, Target
from omnigraph.errors import Code, Conflict, InvalidInput, JsonValue, PreconditionFailed
from omnigraph.types import MAIN, BranchName, CommitId


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetState:
    """The newest state of a target: what a commit would follow, and which commits are there."""

    version: GraphVersion
    commits: CommitLog = field(default_factory=CommitLog)
    names: Callable[[], Iterable[BranchName]] = tuple  # of all branches
    has_branch: Callable[[BranchName, int], bool] = lambda _name, _generation: True  # of a branch


@dataclass(frozen=True, slots=True)
class BranchIs:
    """The branch was not deleted, nor made again."""

    branch: BranchName
    incarnation: str

    def check(self, seen: TargetState) -> None:
        """Raise unless it holds."""
        if seen.version.incarnation != self.incarnation:
            raise branch_replaced(self.branch)


@dataclass(frozen=True, slots=True)
class BranchAbsent:
    """The name is free, and on no path of a name that is taken."""

    branch: BranchName

    def check(self, seen: TargetState) -> None:
        """Raise unless it holds."""
        self.check_names(seen.names())

    def check_names(self, names: Iterable[BranchName]) -> None:
        """Raise unless it holds among these names."""
        name = self.branch
        if name == MAIN:
            raise InvalidInput(Code.NAME_INVALID, "the branch 'main' always exists", name=name)
        for other in names:
            if other == name:
                raise branch_exists(name)
            if other.startswith(f"{name}/") or name.startswith(f"{other}/"):
                text = f"'{name}' and the branch '{other}' are paths of each other"
                raise Conflict(Code.BRANCH_EXISTS, text, branch=name, other=other)


@dataclass(frozen=True, slots=True)
class HeadIs:
    """The branch stands where the caller demanded."""

    commit: CommitId

    def check(self, seen: TargetState) -> None:
        """Raise unless it holds."""
        require_head(seen.version, self.commit)


@dataclass(frozen=True, slots=True)
class SchemaIs:
    """The schema is the one that the write was judged under."""

    digest: str

    def check(self, seen: TargetState) -> None:
        """Raise unless it holds."""
        if seen.version.schema_digest != self.digest:
            raise schema_changed(seen.version.branch)


@dataclass(frozen=True, slots=True)
class TableAt:
    """A table that the write moves is at the version that the write was made for."""

    table_key: str
    version: int

    def check(self, seen: TargetState) -> None:
        """Raise unless it holds."""
        pin = seen.version.tables.get(self.table_key)
        actual = None if pin is None else pin.version
        if actual != self.version:
            raise version_mismatch(self.table_key, self.version, actual)


@dataclass(frozen=True, slots=True)
class JudgedTableAt(TableAt):
    """A table that the write was judged against, but does not change, has not moved."""


@dataclass(frozen=True, slots=True)
class RefIs:
    """A ref has not been set again since it was read."""

    ref: str
    commit: CommitId | None  # what set it last; None when nothing did

    def check(self, seen: TargetState) -> None:
        """Raise unless it holds."""
        found = seen.version.refs.get(self.ref)
        if (None if found is None else found.id) != self.commit:
            text = f"'{self.ref.partition('/')[2]}' was changed meanwhile"
            raise Conflict(Code.CONFLICT, text, ref=self.ref)


@dataclass(frozen=True, slots=True)
class SourceExists:
    """The branch that is merged was not deleted: its states may have gone with it."""

    branch: BranchName
    generation: int

    def check(self, seen: TargetState) -> None:
        """Raise unless it holds."""
        if not seen.has_branch(self.branch, self.generation):
            raise branch_replaced(self.branch)


Requirement: TypeAlias = (
    BranchIs | BranchAbsent | HeadIs | SchemaIs | TableAt | RefIs | SourceExists
)


def requirement_of(target: Target) -> Requirement:
    """The requirement that the target itself makes."""
    if isinstance(target, ExistingBranch):
        return BranchIs(target.branch, target.incarnation)
    return BranchAbsent(target.branch)


def check(requires: Iterable[Requirement], seen: TargetState) -> None:
    """Raise the conflict of the first requirement that does not hold."""
    for requirement in requires:
        requirement.check(seen)


# -- the conflicts ---------------------------------------------------------------------------------


def require_head(version: GraphVersion, commit: CommitId) -> None:
    """Refuse a version whose head is another commit."""
    if version.head != commit:
        raise head_moved(version, commit)


def head_moved(version: GraphVersion, commit: CommitId) -> PreconditionFailed:
    """The error of a write that demanded another head."""
    text = f"branch '{version.branch}' has moved on, to commit {version.head}"
    return PreconditionFailed(Code.PRECONDITION_FAILED, text, expected=commit, actual=version.head)


def branch_replaced(branch: BranchName) -> Conflict:
    """The conflict of a write with the end of its branch."""
    text = f"branch '{branch}' was deleted meanwhile, and perhaps made again"
    return Conflict(Code.BRANCH_REPLACED, text, branch=branch)


def branch_exists(name: BranchName) -> Conflict:
    """The conflict of two processes that make one branch."""
    return Conflict(Code.BRANCH_EXISTS, f"the branch '{name}' exists already", branch=name)


def schema_changed(branch: BranchName) -> Conflict:
    """The conflict of a write with a change of the schema."""
    text = f"the schema of branch '{branch}' has changed meanwhile"
    return Conflict(Code.SCHEMA_CHANGED, text, branch=branch)


def version_mismatch(table_key: str, expected: int, actual: int | None) -> Conflict:
    """The conflict of two writers over one table."""
    return Conflict(
        Code.EXPECTED_VERSION_MISMATCH,
        f"{table_key} is at version {actual}, the write was made for version {expected}",
        conflicts=[{"table_key": table_key, "expected": expected, "actual": actual}],
    )


# -- as part of an intent --------------------------------------------------------------------------


def to_json(requires: Iterable[Requirement]) -> dict[str, JsonValue]:
    """The form of requirements in an intent; the target and the moved tables are stored apart."""
    judged: dict[str, JsonValue] = {}
    plain: dict[str, JsonValue] = {"head": None, "schema_base": None, "judged": judged}
    for requirement in requires:
        match requirement:
            case HeadIs(commit):
                plain["head"] = commit
            case SchemaIs(digest):
                plain["schema_base"] = digest
            case JudgedTableAt(table_key, version):
                judged[table_key] = version
            case SourceExists(branch, generation):
                plain["merged"] = {"branch": branch, "generation": generation}
            case _:
                pass
    return plain


def from_json(
    plain: Mapping[str, Any], target: Target, moved: Iterable[TableAt]
) -> tuple[Requirement, ...]:
    """Read them back, with those of the target and of the tables that move."""
    head, schema, judged = plain["head"], plain["schema_base"], plain["judged"]
    merged = plain.get("merged")
    if not isinstance(schema, str) or not isinstance(judged, dict):
        raise TypeError("the requirements are damaged")
    return (
        requirement_of(target),
        *(() if head is None else (HeadIs(CommitId(head)),)),
        SchemaIs(schema),
        *moved,
        *(JudgedTableAt(str(key), int(version)) for key, version in judged.items()),
        *(() if merged is None else (_source(merged),)),
    )


def _source(plain: Mapping[str, Any]) -> SourceExists:
    return SourceExists(BranchName(plain["branch"]), int(plain["generation"]))
