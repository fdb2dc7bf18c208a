"""The version of a graph: one commit of one branch, and the version of every table there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from omnigraph.core.commits.records import CommitRecord
from omnigraph.core.commits.target import ExistingBranch, NewBranch, Target
from omnigraph.core.layout import branch_parts
from omnigraph.errors import Code, NotFound
from omnigraph.store.model import Pin
from omnigraph.types import BranchName, CommitId


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePin:
    """The published version of one table."""

    table_key: str
    path: str
    version: int
    table_branch: str | None
    row_count: int

    @property
    def store_pin(self) -> Pin:
        """The same as the store names it, to open the table."""
        return Pin(path=self.path, version=self.version, branch=self.table_branch)


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphVersion:
    """The graph as of one commit of one branch. Nothing newer is read through it."""

    branch: BranchName
    incarnation: str  # an earlier branch of the same name has another one
    manifest_version: int
    head: CommitId
    schema_digest: str
    tables: Mapping[str, TablePin]  # by table key
    fork: str | None = None  # the fork of the manifest that the branch is; None for main
    generation: int = 0  # how many branches of this name were deleted or renamed before
    refs: Mapping[str, CommitRecord] = field(
        default_factory=dict
    )  # of main: what set each ref last
    creation: NewBranch | None = None  # set as long as the branch itself is only being created

    @property
    def target(self) -> Target:
        """The target of a commit on top of this version."""
        return self.creation or ExistingBranch(branch=self.branch, incarnation=self.incarnation)

    @property
    def head_name(self) -> BranchName:
        """The name under which the manifest has the head: the first one that the branch had."""
        return self.branch if self.fork is None else BranchName(branch_parts(self.fork)[0])

    def pin(self, table_key: str) -> TablePin:
        """The pin of one table."""
        pin = self.tables.get(table_key)
        if pin is None:
            text = f"the graph has no table {table_key} at this commit"
            raise NotFound(Code.NOT_FOUND, text, table_key=table_key)
        return pin
