"""The plan of a copy: which files of a graph make up what is to be copied.

A copy has branches with their whole history, or one state. What belongs to it is decided from what
is published: the versions of the manifest that are pinned first, the versions of tables that its
rows name, the forks that those were made from. Published files never change, so they may be copied
in any order while others write. What is beyond the pinned versions belongs to later or unfinished
writes and is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar
from urllib.parse import unquote

from omnigraph.core import tuning
from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.core.commits.lineage import merge_base
from omnigraph.core.commits.records import VERSION_KIND
from omnigraph.core.layout import (
    AUDIT,
    DELETED_BRANCHES,
    MANIFEST,
    MERGED_BRANCHES,
    ORIGINAL_ACTORS,
    ORIGINAL_COMMITS,
    ORIGINAL_NOTE,
    SCHEMAS,
)
from omnigraph.core.manifest.branch_info import BranchInfo
from omnigraph.core.manifest.formats import format_of
from omnigraph.core.repository import Repository
from omnigraph.core.schema.schema_state import AcceptedSchema
from omnigraph.core.storage_errors import damaged
from omnigraph.errors import Code, GraphError, InvalidInput
from omnigraph.runtime import telemetry
from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.forks.relocation import version_file_table
from omnigraph.store.io.objects import ObjectInfo
from omnigraph.store.maintenance.used_files import UsedFiles
from omnigraph.store.tables import Pin
from omnigraph.store.versions.files import version_of
from omnigraph.store.versions.gateway import tree_path
from omnigraph.types import MAIN, BranchName, CommitId

T = TypeVar("T")
_VERSION_FILE: Final = re.compile(r"_versions/\d{20}\.manifest")
_CONTENT: Final = re.compile(r"/(data|_deletions|_indices)/")
_PARTS: Final = ("_versions", "data", "_deletions", "_indices", "_transactions", "_refs")
_RECORDS: Final = "_refs/branches/"
_ROWS: Final = ("location", "table_version", "table_branch")


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyFile:
    """One file to copy. A version file of a fork names places, and says of which table."""

    path: str
    size: int
    table: str | None = None
    is_fixed: bool = True  # content that never changes under this name


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyPlan:
    """Everything that a copy gets, and what it will be."""

    files: tuple[CopyFile, ...]
    branches: tuple[BranchName, ...]
    head: CommitId
    schema: AcceptedSchema  # in force on main

    @property
    def bytes(self) -> int:
        """The number of bytes to copy."""
        return sum(file.size for file in self.files)


@dataclass(slots=True)
class _Kept:
    """The versions of one table or fork that a copy gets: up to one, or single ones."""

    newest: int = 0
    single: set[int] = field(default_factory=set)

    def has(self, version: int) -> bool:
        return version <= self.newest or version in self.single


class CopyPlanner:
    """Plans copies of one graph."""

    def __init__(self, repo: Repository) -> None:
        """Look at this graph."""
        self._repo = repo
        self._kept: dict[tuple[str, str | None], _Kept] = {}
        self._used: UsedFiles | None = None

    def plan(self, branch: BranchName | None = None, at: GraphVersion | None = None) -> CopyPlan:
        """The plan for all branches, for one with those it was made from, or for one state."""
        return self._undisturbed(lambda deleted: self._plan(branch, at, deleted))

    def _undisturbed(self, look: Callable[[list[ObjectInfo]], T]) -> T:
        """Look, given the deletions of branches; look again if there is one more meanwhile."""
        objects = self._repo.objects
        for _ in range(tuning.active.copy_looks_max):
            deleted = objects.list(DELETED_BRANCHES)
            try:
                return look(deleted)
            except (GraphError, StorageFailure):
                if objects.list(DELETED_BRANCHES) == deleted:
                    raise
                telemetry.count("copy.branch_gone")
        return look(objects.list(DELETED_BRANCHES))

    def _plan(
        self, branch: BranchName | None, at: GraphVersion | None, deleted: list[ObjectInfo]
    ) -> CopyPlan:
        self._kept = {}
        heads = self._heads(branch if at is None else at.branch)
        self._refuse_originals(heads)
        if at is None:
            for head in heads:
                self._keep_history(head.fork, head.manifest_version)
            if branch is None:
                self._keep_deleted()
        else:
            self._used = UsedFiles()
            others = [head for head in heads if head.branch != at.branch]
            for state in (at, *others, *self._merge_bases(at, others)):
                self._keep_state(state)
        self._keep_origins()
        files = [*self._files(), *self._small(deleted)]
        main = next((head for head in heads if head.branch == MAIN), heads[0])
        main = at if at is not None and at.branch == MAIN else main
        named = heads[0] if branch is not None else main
        return CopyPlan(
            files=tuple(files),
            branches=tuple(sorted(head.branch for head in heads)),
            head=(at or named).head,
            schema=self._repo.schema(main),
        )

    def oldest_states(
        self, branch: BranchName | None = None, at: GraphVersion | None = None
    ) -> list[GraphVersion]:
        """The oldest stored state of each branch that a plan would have; for `at` all of them."""
        return self._undisturbed(lambda _: self._oldest_states(branch, at))

    def _oldest_states(
        self, branch: BranchName | None, at: GraphVersion | None
    ) -> list[GraphVersion]:
        heads = self._heads(branch if at is None else at.branch)
        if at is not None:
            others = [head for head in heads if head.branch != at.branch]
            return [at, *others, *self._merge_bases(at, others)]
        oldest: dict[str | None, int] = {}
        for item in self._repo.tables.inventories.versions(MANIFEST):
            oldest[item.branch] = min(item.version, oldest.get(item.branch, item.version))
        return [
            replace(head, manifest_version=oldest.get(head.fork, head.manifest_version))
            for head in heads
        ]

    def needs(self, paths: Iterable[str]) -> bool:
        """True if one of the planned versions needs one of these files. Reads all of them."""
        # Notes of transactions go as soon as their version is there.
        asked = [path for path in paths if "/_transactions/" not in path]
        if not all(_CONTENT.search(path) for path in asked):
            return True
        if asked and not self._are_forks_there():
            return True  # with a branch that was deleted, or a merge base of two that were
        used = UsedFiles()
        for (path, fork), kept in self._kept.items() if asked else ():
            folder = tree_path(path, fork)
            for info in self._repo.objects.list(f"{folder}/_versions"):
                version = _version(info.path.removeprefix(f"{folder}/"))
                if version is not None and kept.has(version):
                    used.add(self._repo.tables.open(Pin(path, version, fork)))
        return any(used.needs(path) for path in asked)

    def _are_forks_there(self) -> bool:
        """True if every fork of the plan is there: the versions of a lost one name no files."""
        for path in {path for path, _ in self._kept}:
            planned = {fork for table, fork in self._kept if table == path} - {None}
            if not planned <= set(self._repo.tables.fork_names(path)):
                return False
        return True

    # -- states ------------------------------------------------------------------------------------

    def _heads(self, branch: BranchName | None) -> list[GraphVersion]:
        """The newest states of the chosen branches, the named one first, all of one moment."""
        manifest = self._repo.manifest
        if branch is None:
            names = [MAIN, *(name for name in manifest.names() if name != MAIN)]
        else:
            names = list(self._line(branch))
        found: list[GraphVersion] = []
        for _ in range(tuning.active.copy_looks_max):
            seen = [manifest.snapshot(name) for name in names]
            if found and _versions(seen) == _versions(found):
                break
            found = seen
        return found

    def _line(self, branch: BranchName) -> Iterator[BranchName]:
        """A branch, and those that it was made from, one after the other."""
        info: BranchInfo = self._repo.manifest.branch(branch)
        while True:
            yield info.name
            if info.parent is None:
                return
            info = self._repo.manifest.branch(info.parent)

    def _merge_bases(self, at: GraphVersion, others: Iterable[GraphVersion]) -> list[GraphVersion]:
        """The states by which the state could be merged with the branches that come along."""
        found = []
        for other in others:
            find = self._repo.ancestry(at.branch, other.branch).find
            base = merge_base(find, at.head, other.head)
            if base is not None:
                found.append(self._repo.snapshot_at(base, other.branch))
        return found

    def _refuse_originals(self, heads: Iterable[GraphVersion]) -> None:
        for head in heads:
            if self._repo.manifest.is_original(head):
                text = (
                    f"branch '{head.branch}' was written by the OmniGraph that is written in Rust: "
                    "copy the graph with other tools, or write to the branch once, which takes it "
                    "over, and copy it then"
                )
                raise InvalidInput(Code.INPUT_INVALID, text, branch=head.branch)

    # -- versions ----------------------------------------------------------------------------------

    def _of(self, path: str, fork: str | None) -> _Kept:
        return self._kept.setdefault((path, fork), _Kept())

    def _up_to(self, path: str, fork: str | None, version: int) -> None:
        kept = self._of(path, fork)
        kept.newest = max(kept.newest, version)

    def _keep_deleted(self) -> None:
        """Keep deleted branches whose files are there: merges may still be based on them."""
        for info in self._repo.manifest.deleted_branches():
            try:
                version = self._repo.tables.head(MANIFEST, info.fork)
                pin = Pin(MANIFEST, version, info.fork)
                # A branch that was never taken over was never merged.
                if not format_of(self._repo.tables.open(pin)).is_original:
                    self._keep_history(info.fork, version)
            except StorageFailure as failure:
                if failure.kind is not FailureKind.NOT_FOUND:
                    raise

    def _keep_history(self, fork: str | None, version: int) -> None:
        pin = Pin(MANIFEST, version, fork)
        self._up_to(MANIFEST, fork, version)
        rows = self._repo.tables.open(pin).read(_ROWS, filter=f"object_type = '{VERSION_KIND}'")
        for row in rows.to_pylist():
            self._up_to(row["location"], row["table_branch"], row["table_version"])

    def _keep_state(self, state: GraphVersion) -> None:
        pins = [Pin(MANIFEST, state.manifest_version, state.fork)]
        pins += [pin.store_pin for pin in state.tables.values()]
        for pin in pins:
            self._of(pin.path, pin.branch).single.add(pin.version)

    def _keep_origins(self) -> None:
        """Add what forks were made from: the files that they share lie there."""
        waiting = list(self._kept)
        while waiting:
            path, fork = waiting.pop()
            if fork is None:
                continue
            info = self._repo.tables.fork_info(path, fork)
            if info is None:
                raise damaged(f"{path}/{_RECORDS}", f"the record of fork {fork!r} is missing")
            origin = (path, info.parent_branch)
            if origin not in self._kept:
                waiting.append(origin)
            if self._used is None:
                self._up_to(*origin, info.parent_version)
            else:
                self._of(path, fork).single.add(info.parent_version)
                self._of(*origin).single.add(info.parent_version)

    # -- files -------------------------------------------------------------------------------------

    def _files(self) -> Iterator[CopyFile]:
        paths = {path for path, _ in self._kept}
        for path in sorted(paths):
            names = self._repo.tables.fork_names(path)
            kept = {fork for table, fork in self._kept if table == path}
            self._use_states(path)
            for info in self._repo.objects.list(path):
                fork, rest = _parts(info.path.removeprefix(f"{path}/"), names)
                if fork in kept and self._is_kept(path, fork, rest, info.path):
                    is_version = rest.startswith("_versions/")
                    yield CopyFile(
                        path=info.path,
                        size=info.size,
                        table=path if is_version and fork is not None else None,
                        is_fixed=not is_version and not rest.startswith(_RECORDS),
                    )

    def _use_states(self, path: str) -> None:
        """Find the files that the single versions of a table need."""
        if self._used is None:
            return
        for (table, fork), kept in self._kept.items():
            if table == path:
                for version in sorted(kept.single):
                    try:
                        self._used.add(self._repo.tables.open(Pin(path, version, fork)))
                    except StorageFailure as failure:
                        # The version that a fork was made from may be gone: the fork has its files.
                        if failure.kind is not FailureKind.NOT_FOUND:
                            raise

    def _is_kept(self, path: str, fork: str | None, rest: str, full: str) -> bool:
        if rest.startswith("_versions/"):
            version = _version(rest)
            return version is not None and self._kept[path, fork].has(version)
        if rest.startswith(_RECORDS):
            name = unquote(rest.removeprefix(_RECORDS).removesuffix(".json"))
            return fork is None and (path, name) in self._kept
        if rest.partition("/")[0] not in _PARTS:
            return False
        is_content = not rest.startswith("_transactions/")
        return self._used is None or not is_content or self._used.needs(full)

    def _small(self, deleted: Iterable[ObjectInfo]) -> Iterator[CopyFile]:
        """Schemas, the deletions of branches as they were before the heads, and the audit."""
        merged = self._repo.objects.list(MERGED_BRANCHES)
        for info in (*self._repo.objects.list(SCHEMAS), *deleted, *merged):
            yield CopyFile(path=info.path, size=info.size, is_fixed=False)
        yield from self._of_original()
        if not self._repo.tables.exists(AUDIT):
            return
        newest = self._repo.tables.head(AUDIT)
        for info in self._repo.objects.list(AUDIT):
            rest = info.path.removeprefix(f"{AUDIT}/")
            if not rest.startswith("_versions/"):
                yield CopyFile(path=info.path, size=info.size)
            elif (version := _version(rest)) is not None and version <= newest:
                yield CopyFile(path=info.path, size=info.size, is_fixed=False)

    def _of_original(self) -> Iterator[CopyFile]:
        """The lineage and the schema of a graph that was taken over; never written again."""
        for path in (ORIGINAL_COMMITS, ORIGINAL_ACTORS):
            for info in self._repo.objects.list(path):
                is_version = "/_versions/" in info.path
                yield CopyFile(
                    path=info.path,
                    size=info.size,
                    table=version_file_table(info.path),
                    is_fixed=not is_version,
                )
        if self._repo.objects.exists(ORIGINAL_NOTE):
            size = len(self._repo.objects.get(ORIGINAL_NOTE))
            yield CopyFile(path=ORIGINAL_NOTE, size=size, is_fixed=False)


def _versions(states: Iterable[GraphVersion]) -> list[tuple[str, int]]:
    return [(state.incarnation, state.manifest_version) for state in states]


def _version(rest: str) -> int | None:
    """The version of a version file; None for notes, drafts, and what never got its place."""
    return version_of(rest.rpartition("/")[2]) if _VERSION_FILE.fullmatch(rest) else None


def _parts(rest: str, forks: Iterable[str]) -> tuple[str | None, str]:
    """The fork that a file below a table belongs to, and the path of the file there.

    Names of forks may have slashes, so the folder of one may lie in that of another.
    """
    if not rest.startswith("tree/"):
        return None, rest
    below = rest.removeprefix("tree/")
    found = [
        name
        for name in forks
        if below.startswith(f"{name}/")
        and below.removeprefix(f"{name}/").partition("/")[0] in _PARTS
    ]
    if not found:
        return rest, ""  # of a fork that is not there
    name = max(found, key=len)
    return name, below.removeprefix(f"{name}/")
