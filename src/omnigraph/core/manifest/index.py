"""The index of a manifest: what its rows say, and the version of the graph that they make up.

The index folds rows as they come; folding a row twice changes nothing, so a reader may read whole
fragments again after a compaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.core.commits.commit_log import CommitLog
from omnigraph.core.commits.graph_version import GraphVersion, TablePin
from omnigraph.core.commits.records import (
    COMMIT_COLUMNS,
    COMMIT_KIND,
    READ_COLUMNS,
    VERSION,
    VERSION_KIND,
    CommitRecord,
    HeadRecord,
    Record,
    TableRecord,
    TombstoneRecord,
    VersionRecord,
    decode,
    ref_of,
)
from omnigraph.errors import Code, Corrupt
from omnigraph.store.table import CREATED_AT, UPDATED_AT
from omnigraph.types import BranchName

Places: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.signedinteger]]"

_FIRST = -1  # older than every version of the manifest
_DAMAGED = -1  # a version that is missing; decoding says so, unless there is a later one


class ManifestIndex:
    """The content of a manifest. Folding is idempotent and its order does not matter.

    Of two states of one row the one that was written later counts. Not thread-safe, except for
    `commits`: its reader guards it.
    """

    __slots__ = (
        "_pins",
        "_written",
        "commits",
        "heads",
        "refs",
        "tables",
        "tombstones",
        "versions",
    )

    def __init__(self) -> None:
        """Start with nothing."""
        self.tables: dict[str, TableRecord] = {}  # by location
        self.versions: dict[str, VersionRecord] = {}  # the latest, by location
        self.tombstones: dict[str, int] = {}  # by location
        self.heads: dict[BranchName, HeadRecord] = {}
        self.refs: Mapping[str, CommitRecord] = {}  # the commit that set each ref last
        self.commits = CommitLog()
        self._written: dict[str, int] = {}  # when the row of a table or head was last written
        self._pins: Mapping[str, TablePin] | None = None

    def start(self, rows: pa.Table) -> None:
        """Take in the present as it was read first."""
        # Only refs have several rows, of which later folds may bring the older ones.
        kinds, said = (rows.column(name).to_pylist() for name in ("object_type", VERSION))
        written = [
            at if kind == COMMIT_KIND and at is not None else _FIRST
            for kind, at in zip(kinds, said, strict=True)
        ]
        self._fold_present(rows, written)

    def fold(self, rows: pa.Table) -> None:
        """Take in rows as they are read, of older formats with the versions of the rows."""
        if not rows.num_rows:
            return
        # One piece: picking rows out of many is slow.
        rows = rows.combine_chunks()
        commits, present = sort_out(rows)
        if len(commits):
            picked = rows.take(commits)
            self.commits.add(picked.select(COMMIT_COLUMNS), written_at(picked, CREATED_AT))
        picked = rows.take(present)
        self._fold_present(picked, written_at(picked, UPDATED_AT))

    def add(self, records: Iterable[Record], version: int) -> None:
        """Take in the records that a version of the manifest added."""
        self._pins = None
        for record in records:
            if isinstance(record, CommitRecord):
                self.commits.keep(record, version)
                if ref_of(record) is None:
                    continue
            self._fold_one(record, version)

    def _fold_present(self, rows: pa.Table, written: Iterable[int]) -> None:
        self._pins = None
        for record, at in zip(decode(rows.select(READ_COLUMNS)), written, strict=True):
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
            case CommitRecord():
                ref = ref_of(record)
                if ref is None:
                    raise AssertionError("commits are kept apart")
                if self._is_news(f"ref:{ref}", written):
                    # A new mapping: versions that were handed out keep theirs.
                    self.refs = {**self.refs, ref: record}

    def _is_news(self, name: str, written: int) -> bool:
        if written < self._written.get(name, -1):
            return False
        self._written[name] = written
        return True

    def perhaps_holds(self, record: Record) -> bool:
        """True if there may be a row with the key of a record; False if there is certainly none."""
        match record:
            case TableRecord():
                return record.location in self.tables
            case VersionRecord():
                # Only the latest is known; whatever is later than that one is new.
                known = self.versions.get(record.location)
                return known is not None and record.version <= known.version
            case TombstoneRecord():
                return record.version <= self.tombstones.get(record.location, -1)
            case HeadRecord():
                return record.branch in self.heads
            case CommitRecord():
                return record.id in self.commits

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
        self,
        branch: BranchName,
        ancestry: tuple[BranchName, ...],
        incarnation: str,
        manifest_version: int,
        fork: str | None = None,
        generation: int = 0,
    ) -> GraphVersion:
        """The view of a branch at a manifest version; `ancestry` are the names of its heads."""
        head = self.head(ancestry)
        return GraphVersion(
            branch=branch,
            incarnation=incarnation,
            manifest_version=manifest_version,
            head=head.commit,
            schema_digest=head.schema_digest,
            tables=self.pins(),
            fork=fork,
            generation=generation,
            refs=self.refs,
        )


def written_at(rows: pa.Table, otherwise: str) -> list[int]:
    """The versions of the manifest that wrote rows: by their own word, or by a column of Lance's.

    The numbers of rows of published versions mean nothing; these say themselves which is the later.
    """
    said = rows.column(VERSION)
    if otherwise in rows.column_names:
        said = pc.coalesce(said, rows.column(otherwise).cast(pa.int64()))
    found: list[int] = said.fill_null(_FIRST).to_pylist()
    return found


def sort_out(rows: pa.Table) -> tuple[Places, Places]:
    """The places of the commits, and of the present state, among rows of a manifest.

    The present is everything else, without the published versions that a later one of the same
    table has superseded. Commits that set a ref have its name as location, and the last one of each
    belongs to the present. History is long, so there is no loop over the rows.
    """
    kinds, names = _coded(rows.column("object_type"))
    is_commit, is_version = (kinds == _code(names, kind) for kind in (COMMIT_KIND, VERSION_KIND))
    # Rows of an unknown kind are among them, so that decoding refuses them.
    others = np.flatnonzero(~(is_commit | is_version))
    is_located = rows.column("location").is_valid().to_numpy()
    versions = np.flatnonzero(is_version | (is_commit & is_located))
    if len(versions):
        locations = _coded(rows.column("location"))[0][versions]
        numbers = np.asarray(rows.column("table_version").fill_null(_DAMAGED))[versions]
        # By table, then by version; of equal ones the first comes last.
        order = np.lexsort((-versions, numbers, locations))
        ordered = locations[order]
        is_last = np.append(ordered[1:] != ordered[:-1], True)
        others = np.concatenate([versions[order[is_last]], others])
    return np.flatnonzero(is_commit), others


def _coded(column: pa.ChunkedArray) -> tuple[Places, list[str | None]]:
    """A column of texts as small numbers, and the text that each number stands for."""
    coded = column.combine_chunks().dictionary_encode(null_encoding="encode")
    return np.asarray(coded.indices), coded.dictionary.to_pylist()


def _code(names: list[str | None], text: str) -> int:
    return names.index(text) if text in names else -1
