"""Snapshots, and the index of a manifest from which they are made.

The index folds manifest rows as they come; folding a row twice changes nothing, so a reader may
read whole fragments again after a compaction. A snapshot is a frozen view of one moment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import pyarrow as pa

from omnigraph.core.commit_log import CommitLog
from omnigraph.core.records import (
    COMMIT_COLUMNS,
    COMMIT_KIND,
    READ_COLUMNS,
    VERSION_KIND,
    Commit,
    HeadRecord,
    Record,
    TableRecord,
    TombstoneRecord,
    VersionRecord,
    decode,
)
from omnigraph.errors import Code, Corrupt, NotFound
from omnigraph.store.table import CREATED_AT, UPDATED_AT
from omnigraph.types import BranchName, CommitId


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePin:
    """The published version of one table."""

    table_key: str
    path: str
    version: int
    table_branch: str | None
    row_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The graph as of one commit of one branch. Nobody reads anything newer through it."""

    branch: BranchName
    incarnation: str  # tells a branch from an earlier one of the same name
    manifest_version: int
    head: CommitId
    schema_digest: str
    tables: Mapping[str, TablePin]  # by table key

    def pin(self, table_key: str) -> TablePin:
        """The pin of one table."""
        pin = self.tables.get(table_key)
        if pin is None:
            text = f"the graph has no table {table_key} at this commit"
            raise NotFound(Code.NOT_FOUND, text, table_key=table_key)
        return pin


class ManifestIndex:
    """What a manifest says. Folding is idempotent and its order does not matter.

    Of two states of one row the one that was written later counts. Not thread-safe, except for
    `commits`: its reader guards it.
    """

    __slots__ = ("_pins", "_written", "commits", "heads", "tables", "tombstones", "versions")

    def __init__(self) -> None:
        """Start with nothing."""
        self.tables: dict[str, TableRecord] = {}  # by location
        self.versions: dict[str, VersionRecord] = {}  # the latest, by location
        self.tombstones: dict[str, int] = {}  # by location
        self.heads: dict[BranchName, HeadRecord] = {}
        self.commits = CommitLog()
        self._written: dict[str, int] = {}  # when the row of a table or head was last written
        self._pins: Mapping[str, TablePin] | None = None

    def fold(self, rows: pa.Table) -> None:
        """Take in rows as they are read, with the versions that created and last wrote them."""
        if not rows.num_rows:
            return
        # One piece: picking rows out of many is slow.
        rows = rows.combine_chunks()
        places: dict[str, list[int]] = {}
        for row, kind in enumerate(rows.column("object_type").to_pylist()):
            places.setdefault(kind, []).append(row)
        commits = places.pop(COMMIT_KIND, [])
        if commits:
            picked = rows.select([*COMMIT_COLUMNS, CREATED_AT]).take(commits)
            self.commits.add(picked.select(COMMIT_COLUMNS), picked.column(CREATED_AT).to_pylist())
        self._pins = None
        latest = _latest_versions(rows, places.pop(VERSION_KIND, []))
        # History is long and the rest is short: of the versions only the latest are decoded.
        short = [*latest, *(row for group in places.values() for row in group)]
        picked = rows.take(pa.array(short, pa.int64()))
        written = picked.column(UPDATED_AT).to_pylist()
        for record, at in zip(decode(picked.select(READ_COLUMNS)), written, strict=True):
            self._fold_one(record, at)

    def _fold_one(self, record: Record, written: int) -> None:
        match record:
            case TableRecord():
                if self._is_news(f"table:{record.location}", written):
                    self.tables[record.location] = record
            case VersionRecord():
                known = self.versions.get(record.location)
                if known is None or record.version >= known.version:
                    self.versions[record.location] = record
            case TombstoneRecord():
                known_stone = self.tombstones.get(record.location, -1)
                self.tombstones[record.location] = max(known_stone, record.version)
            case HeadRecord():
                if self._is_news(f"head:{record.branch}", written):
                    self.heads[record.branch] = record
            case Commit():
                raise AssertionError("commits are kept apart")

    def _is_news(self, name: str, written: int) -> bool:
        if written < self._written.get(name, -1):
            return False
        self._written[name] = written
        return True

    def head(self, ancestry: Iterable[BranchName]) -> HeadRecord:
        """The head of the first branch of the ancestry that has one.

        A branch without a commit of its own stands where its parent stood when it was made.
        """
        for branch in ancestry:
            record = self.heads.get(branch)
            if record is not None:
                return record
        raise Corrupt(Code.CORRUPT, "the manifest has no head")

    def pins(self) -> Mapping[str, TablePin]:
        """The latest published version of every table that is not dropped."""
        if self._pins is None:
            self._pins = MappingProxyType(dict(self._live_pins()))
        return self._pins

    def _live_pins(self) -> Iterator[tuple[str, TablePin]]:
        for location, table in sorted(self.tables.items()):
            version = self.versions.get(location)
            if version is None or version.version <= self.tombstones.get(location, -1):
                continue
            yield (
                table.table_key,
                TablePin(
                    table_key=table.table_key,
                    path=location,
                    version=version.version,
                    table_branch=version.table_branch,
                    row_count=version.row_count,
                ),
            )

    def snapshot(
        self, ancestry: tuple[BranchName, ...], incarnation: str, manifest_version: int
    ) -> Snapshot:
        """The view of the first branch of `ancestry` at a manifest version."""
        head = self.head(ancestry)
        return Snapshot(
            branch=ancestry[0],
            incarnation=incarnation,
            manifest_version=manifest_version,
            head=head.commit,
            schema_digest=head.schema_digest,
            tables=self.pins(),
        )


def _latest_versions(rows: pa.Table, places: list[int]) -> list[int]:
    """Of rows of published versions, those with the greatest version of each table."""
    if not places:
        return []
    picked = rows.select(["location", "table_version"]).take(places)
    best: dict[str, tuple[int, int]] = {}
    columns = (picked.column(0).to_pylist(), picked.column(1).to_pylist())
    for place, location, version in zip(places, *columns, strict=True):
        # A damaged row is kept, so that decoding it says what is wrong.
        number = -1 if version is None else version
        if location not in best or number > best[location][0]:
            best[location] = (number, place)
    return [place for _, place in best.values()]
