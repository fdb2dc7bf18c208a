"""Migration: a manifest of an older format is brought forward, step by step.

Each step looks at one version of the manifest of one branch, does its work and stamps last, as the
version that follows or not at all. So a process that dies leaves a graph of one format or the next,
doing a step again changes nothing, and of two who do the same step at once one is first: the other
one looks again and goes on from there. Main is brought forward when the graph is opened for
writing, every other branch by its first write. Reading never writes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import partial
from typing import Any

import pyarrow as pa

from omnigraph.core import tuning
from omnigraph.core.commits.records import (
    ARROW_SCHEMA,
    COMMIT_KIND,
    HEAD_PREFIX,
    KEY,
    STAMP,
    format_metadata,
)
from omnigraph.core.failpoints import Fp, guarded
from omnigraph.core.layout import MANIFEST, ORIGINAL_RUNS, branch_parts, table_key
from omnigraph.core.manifest.branch_info import BranchInfo
from omnigraph.core.manifest.formats import ManifestFormat, format_of, unreadable_original
from omnigraph.core.manifest.lost_head import lost_head
from omnigraph.core.manifest.manifest import Manifest
from omnigraph.core.manifest.original_formats import OriginalCommit, Originals
from omnigraph.core.schema.arrow_types import table_schema
from omnigraph.core.schema.schema_state import SchemaFiles
from omnigraph.errors import Code, Conflict
from omnigraph.lang.catalog.model import Catalog
from omnigraph.runtime import telemetry
from omnigraph.runtime.ids import Ids
from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.io.objects import ObjectStore
from omnigraph.store.table import ROW_ADDRESS
from omnigraph.store.tables import Pin, Table, Tables
from omnigraph.store.versions.gateway import annotated
from omnigraph.types import MAIN, BranchName


class Migration:
    """The steps from older formats, for one graph."""

    def __init__(
        self,
        tables: Tables,
        objects: ObjectStore,
        schemas: SchemaFiles,
        manifest: Manifest,
        originals: Originals,
        ids: Ids,
    ) -> None:
        """Work on this manifest."""
        self._tables = tables
        self._objects = objects
        self._schemas = schemas
        self._manifest = manifest
        self._originals = originals
        self._ids = ids

    def bring_forward(self, branch: BranchName) -> bool:
        """Bring the manifest of a branch to the present format; True if there was work to do.

        Raises:
            Conflict: HEAD_CONTENTION, when others were faster again and again.
            Corrupt: The newest version of the manifest is missing, or of a table.
        """
        if self._manifest.format(branch).is_current:
            return False
        lost_state = lost_head(self._tables, self._manifest.snapshot(branch))
        if lost_state is not None:
            raise lost_state.error()
        lost = 0
        while lost < tuning.active.migration_attempts_max:
            info = self._manifest.branch(branch)
            table = self._newest(info)
            found = format_of(table)
            if found.is_current:
                return True
            try:
                guarded(Fp.MIGRATE, partial(self._step, table, found, info))
            except StorageFailure as failure:
                if failure.kind is not FailureKind.CONFLICT:
                    raise
                lost += 1
                telemetry.count("migrate.lost_race")
        text = f"branch '{branch}' is brought to a newer format by several at once; try again"
        raise Conflict(
            Code.HEAD_CONTENTION, text, branch=branch, attempts=tuning.active.migration_attempts_max
        )

    def _newest(self, info: BranchInfo) -> Table:
        version = self._tables.head(MANIFEST, info.fork)
        return self._tables.open(Pin(MANIFEST, version, info.fork))

    def _step(self, table: Table, found: ManifestFormat, info: BranchInfo) -> None:
        telemetry.count("migrate.step")
        if not found.is_original:
            # Rows of all our formats are read alike; only the mark is missing.
            self._tables.stamp(table.pin, format_metadata())
            return
        match found.number:
            case 1:
                self._annotate(table)
            case 2:
                self._sweep_runs()
                self._stamp_original(table, 3)
            case 3:
                self._fill_in_lineage(table, info)
            case _:
                self._take_over(table, found, info)

    def _stamp_original(self, table: Table, number: int, *, primary_key: str | None = None) -> None:
        self._tables.stamp(table.pin, {STAMP: str(number)}, primary_key=primary_key)

    # -- 1 to 2: rows get a key -------------------------------------------------------------------

    def _annotate(self, table: Table) -> None:
        """Remove what rivals landed twice, or, if there is nothing left, declare the key."""
        key = table.primary_key
        if key not in ((), (KEY,)):
            raise unreadable_original(f"its manifest has the key {', '.join(key)}")
        doubles = _doubles(table)
        if doubles.num_rows:
            staged = self._tables.stage(table, deletes=doubles, uuid=self._ids.new())
            if staged is not None:
                self._tables.land(staged)
            return
        self._stamp_original(table, 2, primary_key=None if key else KEY)

    # -- 2 to 3: branches of runs go ---------------------------------------------------------------

    def _sweep_runs(self) -> None:
        """Drop the forks that runs of the original left, children first, and files without one."""
        forks = self._tables.forks(MANIFEST)
        runs = [name for name in forks if name.startswith(ORIGINAL_RUNS)]
        for name in sorted(runs, key=lambda name: -len(forks[name].identifier)):
            self._tables.drop_fork(MANIFEST, name)
        for folder in self._objects.children(f"{MANIFEST}/tree"):
            if folder.startswith(ORIGINAL_RUNS):
                for info in self._objects.list(f"{MANIFEST}/tree/{folder}"):
                    self._objects.delete(info.path)

    # -- 3 to 4: the lineage moves into the manifest -----------------------------------------------

    def _fill_in_lineage(self, table: Table, info: BranchInfo) -> None:
        """Copy the commits into the manifest, or stamp it if they are there."""
        is_there = table.read([KEY], filter=f"object_type = '{COMMIT_KIND}'").num_rows
        # Whatever cannot be read ends the migration here, before anything says it is done.
        commits = [] if is_there else self._originals.stored_lineage(table.pin)
        if not commits:
            self._stamp_original(table, 4)
            return
        rows = pa.Table.from_pylist(
            list(_original_rows(commits, _head_name(info))), schema=table.schema
        )
        pin = table.pin
        self._tables.merge_rows(pin, KEY, rows)

    # -- 4 to ours ---------------------------------------------------------------------------------

    def _take_over(self, table: Table, found: ManifestFormat, info: BranchInfo) -> None:
        """Write everything in our form, in one version with our mark."""
        schema = self._originals.keep_schema()
        rows = self._originals.rows(table, _head_name(info), found)
        self._check_tables(info, schema.catalog)
        if info.name == MAIN:
            self._schemas.write_copies(schema)
        ours = annotated(ARROW_SCHEMA, KEY, format_metadata())
        staged = self._tables.stage_overwrite(
            table, rows.cast(ours), uuid=self._ids.new(), schema=ours
        )
        self._tables.land(staged)

    def _check_tables(self, info: BranchInfo, catalog: Catalog) -> None:
        """Refuse tables whose columns are not those of the schema."""
        snapshot = self._manifest.snapshot(info.name)
        for entity in (*catalog.nodes, *catalog.edges):
            key = table_key(entity.kind, entity.name)
            pin = snapshot.tables.get(key)
            if pin is None:
                raise unreadable_original(f"there is no table of {key}", table_key=key)
            try:
                stored = self._tables.open(pin.store_pin).schema
            except StorageFailure as failure:
                if failure.kind is not FailureKind.NOT_FOUND:
                    raise
                raise self._manifest.missing_table(pin.store_pin, key) from failure
            wanted = {field.name: field.type for field in table_schema(entity)}
            if {field.name: field.type for field in stored} != wanted:
                reason = f"the columns of {key} are not those of its schema"
                raise unreadable_original(reason, table_key=key)


def _head_name(info: BranchInfo) -> BranchName:
    """The name under which the manifest has the head of a branch, whatever its present name."""
    return MAIN if info.fork is None else BranchName(branch_parts(info.fork)[0])


def _doubles(table: Table) -> pa.Table:
    """The addresses of rows that have a later one with the same key."""
    rows = table.read([KEY], row_address=True).to_pylist()
    last = {row[KEY]: row[ROW_ADDRESS] for row in rows}
    older = [row[ROW_ADDRESS] for row in rows if last[row[KEY]] != row[ROW_ADDRESS]]
    return pa.table({ROW_ADDRESS: pa.array(older, pa.uint64())})


def _original_rows(
    commits: Iterable[OriginalCommit], branch: BranchName
) -> Iterable[dict[str, Any]]:
    """The lineage as format 4 of the original has it."""
    known = sorted(commits, key=lambda each: each.age)
    for each in known:
        commit = each.commit
        plain = {
            "parent_commit_id": commit.parent_id,
            "merged_parent_commit_id": commit.merged_parent_id,
            "actor_id": commit.actor,
            "created_at": commit.created_at,
        }
        yield {
            KEY: str(commit.id),
            "object_type": COMMIT_KIND,
            "table_key": "",
            "table_version": each.version,
            "table_branch": None if commit.branch == MAIN else str(commit.branch),
            "metadata": _json(plain),
        }
    head = known[-1].commit
    yield {
        KEY: f"{HEAD_PREFIX}{branch}",
        "object_type": "graph_head",
        "table_key": "",
        "metadata": _json({"head_commit_id": head.id, "parent_commit_id": head.parent_id}),
    }


def _json(plain: dict[str, Any]) -> str:
    return json.dumps({key: value for key, value in plain.items() if value is not None})
