"""The reports of maintenance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanedTable:
    """A table, or another folder of the graph, and what a clean-up removed of it.

    Attributes:
        path: Its folder below the graph; `__manifest` is the history itself.
        type: The type that it belongs to, such as `node:Person`; None for other folders, and for
            types that were dropped.
        versions: How many old versions went.
        forks: How many forks of deleted branches went.
        files: How many files went.
        bytes: How large they were.
        error: Why something stays that should have gone; None if all is well.
    """

    path: str
    type: str | None
    versions: int
    forks: int
    files: int
    bytes: int
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupResult:
    """The result of `cleanup`.

    Attributes:
        tables: What went of each table; those of which nothing went are left out.
        states: How many states of the graph can still be read.
        dry_run: Nothing was removed.
    """

    tables: tuple[CleanedTable, ...]
    states: int
    dry_run: bool

    @property
    def versions(self) -> int:
        """The number of old versions of tables that were removed."""
        return sum(table.versions for table in self.tables)

    @property
    def files(self) -> int:
        """The number of files that were removed."""
        return sum(table.files for table in self.tables)

    @property
    def bytes(self) -> int:
        """The number of bytes that became free."""
        return sum(table.bytes for table in self.tables)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyFinding:
    """Something that is not as it should be in a graph.

    Attributes:
        severity: `error`, or `warning` for what does no harm.
        aspect: What was looked at: `manifest`, `lineage`, `schema`, `pin`, `row_count`, `drift`,
            `fork`, `intent`, `file`, `index`, `rows`, `key` or `endpoint`.
        place: The file, folder or branch that it is about.
        text: What is wrong, and what to do.
    """

    severity: str
    aspect: str
    place: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyResult:
    """The result of `verify`.

    Attributes:
        depth: How much was looked at: `metadata`, `files` or `rows`.
        findings: What is not as it should be.
        branches: The number of branches that could be read.
        commits: The number of commits that were looked at, for each branch that has them.
        tables: The number of tables.
        files: The number of files that were read.
        bytes: The number of their bytes.
        rows: The number of rows that were read.
        engine: What it ran on: `inprocess` or `spark`.
        reason: Why.
        seconds: How long it took.
    """

    depth: str
    findings: tuple[VerifyFinding, ...]
    branches: int
    commits: int
    tables: int
    files: int
    bytes: int
    rows: int
    engine: str
    reason: str
    seconds: float

    @property
    def is_sound(self) -> bool:
        """True if there are no errors; warnings do no harm."""
        return not any(finding.severity == "error" for finding in self.findings)


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairedTable:
    """A table that was further than what is published.

    Attributes:
        branch: The branch.
        type: The type, such as `node:Person`.
        path: The folder of the table.
        published: The version that the graph shows.
        head: The newest version of the table.
        verdict: `maintenance`: another tool has rewritten fragments or built indexes, and the rows
            are the same. `suspicious`: rows, columns or settings were changed. `unverifiable`: it
            is not known what was done.
        action: `preview`, `healed`, `forced` or `refused`.
        explanation: What was found, and what to do.
    """

    branch: str
    type: str
    path: str
    published: int
    head: int
    verdict: str
    action: str
    explanation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairResult:
    """The result of `repair`.

    Attributes:
        tables: The tables that were further than what is published.
        commits: The ids of the commits that took them into use, by branch.
        dry_run: Nothing was changed.
        irreparable: What is missing or damaged: no repair brings it back, only a backup. Files are
            looked for and not read; `verify("files")` reads them.
    """

    tables: tuple[RepairedTable, ...]
    commits: Mapping[str, str]
    dry_run: bool
    irreparable: tuple[VerifyFinding, ...] = ()

    @property
    def is_settled(self) -> bool:
        """True if nothing is left to do."""
        is_done = all(table.action in ("healed", "forced") for table in self.tables)
        return is_done and not self.irreparable
