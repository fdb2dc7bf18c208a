"""Reading the manifest of one branch: folded once, then only what is new."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

import pyarrow as pa

from omnigraph.core import tuning
from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.core.commits.records import (
    COMMIT_COLUMNS,
    COMMIT_KIND,
    OUTLINE_COLUMNS,
    READ_COLUMNS,
    Record,
)
from omnigraph.core.layout import (
    MANIFEST,
)
from omnigraph.core.manifest.branch_info import BranchInfo
from omnigraph.core.manifest.formats import ManifestFormat, format_of
from omnigraph.core.manifest.index import ManifestIndex, sort_out, written_at
from omnigraph.core.manifest.original_formats import Originals
from omnigraph.runtime import telemetry
from omnigraph.runtime.clock import Clock
from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.table import CREATED_AT, ROW_ID
from omnigraph.store.tables import Pin, Table, Tables
from omnigraph.store.tuning import active as store_tuning
from omnigraph.types import BranchName

_HISTORY = f"object_type = '{COMMIT_KIND}'"


class BranchReader:
    """The folded manifest of one incarnation of one branch."""

    def __init__(
        self,
        tables: Tables,
        originals: Originals,
        info: BranchInfo,
        ancestry: tuple[BranchName, ...],
        clock: Clock,
        remember: Callable[[GraphVersion], None],
    ) -> None:
        """Read a branch; `remember` is given each state that a newer one takes the place of."""
        self._remember = remember
        self._tables = tables
        self._originals = originals
        self._clock = clock
        self._seen_ns = 0  # when the newest version was looked for last
        self.info = info
        self._ancestry = ancestry
        self._lock = threading.Lock()
        self._fragments: frozenset[int] = frozenset()
        self.loaded = 0  # the version of the manifest that was read last
        self._snapshot: GraphVersion | None = None
        self.index = ManifestIndex()
        self.format: ManifestFormat | None = None
        # The version that this process published last, and the records that it added.
        self._published: tuple[int, tuple[Record, ...]] | None = None

    def refresh(self) -> GraphVersion:
        """Fold what is new since the last look."""
        # Outside the lock several readers look at once; the one that saw more folds more.
        last = self._snapshot
        ticks = self._clock.ticks_ns()
        # A clean-up leaves gaps behind versions that were superseded long ago: looking for the next
        # one would end there.
        is_fresh = ticks - self._seen_ns < store_tuning.trusted_head_ns
        known = last.manifest_version if last is not None and is_fresh else None
        version = self._tables.head(MANIFEST, self.info.fork, known=known)
        with self._lock:
            self._seen_ns = max(ticks, self._seen_ns)
            last = self._snapshot
            if last is not None and last.manifest_version >= version:
                return last
            newest = self._snapshot = self.load(version)
            if last is not None:
                self._remember(last)
            return newest

    def is_newest(self, snapshot: GraphVersion) -> bool:
        """True if a snapshot was the newest a moment ago and still is; nothing new is read."""
        ticks = self._clock.ticks_ns()
        if self._snapshot is not snapshot or ticks - self._seen_ns >= store_tuning.trusted_head_ns:
            return False
        following = snapshot.manifest_version + 1
        if self._tables.has_version(MANIFEST, following, self.info.fork):
            return False
        self._seen_ns = max(ticks, self._seen_ns)
        return True

    def published(self, version: int, records: tuple[Record, ...]) -> None:
        """Note the records that a version has beyond the one before it: they need not be read."""
        self._published = (version, records)

    def known(self) -> GraphVersion:
        """The version of the last look."""
        return self._snapshot or self.refresh()

    def is_at(self, version: int) -> bool:
        """True if a version was the newest one at the last look."""
        last = self._snapshot
        return last is not None and last.manifest_version == version

    def has_folded(self, version: int) -> bool:
        """True if everything is known that was published up to a version."""
        last = self._snapshot
        return last is not None and last.manifest_version >= version

    def _history(self, table: Table) -> tuple[pa.Table, list[int]]:
        """The commits of a version; of the newest one if a clean-up has taken its files."""
        try:
            return _history(table)
        except StorageFailure as failure:
            if failure.kind is not FailureKind.NOT_FOUND:
                raise
            head = self._tables.head(MANIFEST, self.info.fork)
            return _history(self._tables.open(Pin(MANIFEST, head, self.info.fork)))

    def load(self, version: int) -> GraphVersion:
        """Fold the fragments of a version that are not folded yet."""
        table = self._tables.open(Pin(path=MANIFEST, version=version, branch=self.info.fork))
        found = format_of(table)
        if found != self.format and self.format is not None:
            self.index, self._fragments = ManifestIndex(), frozenset()
        self.format = found
        if found.is_original:
            return self._load_original(table, found)
        fragments = frozenset(table.fragment_ids())
        fresh = fragments - self._fragments
        own = self._records_published(version)
        if own is not None:
            self.index.add(own, version)
        elif fresh:
            telemetry.count("manifest.fragments_read", len(fresh))
            if self._fragments or table.row_count <= tuning.active.whole_manifest_rows_max:
                dated = table.has_row_versions
                rows = table.scan_new_fragments(self._fragments, READ_COLUMNS, versions=dated)
                self.index.fold(rows)
            else:
                # History is most of it, and reading the newest state never needs it.
                self.index.commits.defer(partial(self._history, table))
                rows = _present(table)
                self.index.start(rows)
            telemetry.count("manifest.rows_read", rows.num_rows)
        self._fragments = fragments
        return self._seen(version)

    def _records_published(self, version: int) -> tuple[Record, ...] | None:
        """The records that a version adds; None unless this process published it."""
        own, self._published = self._published, None
        is_next = bool(self._fragments) and self.loaded == version - 1
        return own[1] if own is not None and own[0] == version and is_next else None

    def _load_original(self, table: Table, found: ManifestFormat) -> GraphVersion:
        """Read a manifest of the original, as a whole."""
        index = ManifestIndex()
        index.fold(self._originals.rows(table, self._ancestry[0], found))
        self.index = index
        return self._seen(table.pin.version)

    def _seen(self, version: int) -> GraphVersion:
        info = self.info
        self.loaded = version
        return self.index.snapshot(
            info.name, self._ancestry, info.incarnation, version, info.fork, info.generation
        )


def _present(table: Table) -> pa.Table:
    """The rows that make up the present, without commits and superseded versions.

    A filter would take longer than reading a few narrow columns of all rows does, and it could not
    find the latest versions.
    """
    outline = table.read(OUTLINE_COLUMNS, row_id=True).combine_chunks()
    telemetry.count("manifest.rows_outlined", outline.num_rows)
    _, present = sort_out(outline)
    return table.take(outline.column(ROW_ID).take(present), READ_COLUMNS)


def _history(table: Table) -> tuple[pa.Table, list[int]]:
    rows = table.read(COMMIT_COLUMNS, filter=_HISTORY, versions=table.has_row_versions)
    telemetry.count("manifest.history_read", rows.num_rows)
    return rows.select(COMMIT_COLUMNS), written_at(rows, CREATED_AT)
