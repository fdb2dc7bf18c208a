"""The commits that a manifest holds, by id and by idempotency key, decoded when asked for.

Reading all of history when a graph is opened would make opening as slow as the history is long. So
old rows are read when a commit is first looked up, and of those only the ones looked up are
decoded.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.core import tuning
from omnigraph.core.commits.records import COMMIT_PREFIX, CommitRecord, decode
from omnigraph.types import CommitId

_PREFIX_CHARS = len(COMMIT_PREFIX)

# Rows of commits, and the manifest version that published each.
Source = Callable[[], tuple[pa.Table, list[int]]]


class CommitLog:
    """Append-only. Safe to read from many threads while one adds."""

    __slots__ = ("_chunks", "_decoded", "_keys", "_lock", "_pending", "_places", "_versions")

    def __init__(self) -> None:
        """Start with none."""
        self._lock = threading.RLock()
        self._decoded: dict[CommitId, CommitRecord] = {}
        # By plain text: making an id checks it, which for a long history takes time.
        self._versions: dict[str, int] = {}
        self._keys: dict[str, CommitId] = {}
        self._chunks: list[pa.Table] = []  # rows that are not decoded
        self._pending: list[Source] = []  # chunks that are not read or not indexed
        self._places: dict[str, tuple[int, int]] = {}  # id to chunk and row

    def add(self, rows: pa.Table, versions: list[int]) -> None:
        """Take in rows of commits, each with the manifest version that published it.

        Rows that are known already change nothing, so a reader may read fragments again.
        """
        if rows.num_rows:
            self.defer(lambda: (rows, versions))

    def keep(self, commit: CommitRecord, version: int) -> None:
        """Take in one commit that the manifest has since a version."""
        with self._lock:
            self._versions.setdefault(commit.id, version)
            self._keep(commit)

    def defer(self, source: Source) -> None:
        """Take in rows that are read when they are needed."""
        with self._lock:
            self._pending.append(source)
            if len(self._pending) > tuning.active.undecoded_chunks_max:
                self._index()

    def get(self, commit: CommitId | None) -> CommitRecord | None:
        """One commit, or None."""
        if commit is None:
            return None
        with self._lock:
            found = self._decoded.get(commit)
            if found is not None:
                return found
            self._index()
            place = self._places.get(commit)
            return self._decoded.get(commit) if place is None else self._decode(*place)

    def __getitem__(self, commit: CommitId) -> CommitRecord:
        """One commit that is known to be there."""
        found = self.get(commit)
        if found is None:
            raise KeyError(commit)
        return found

    def __contains__(self, commit: object) -> bool:
        """True if there is such a commit; None is never one."""
        if commit is None:
            return False
        with self._lock:
            self._index()
            return commit in self._versions

    def __len__(self) -> int:
        """The number of commits."""
        with self._lock:
            self._index()
            return len(self._versions)

    def __iter__(self) -> Iterator[CommitRecord]:
        """All of them, in no order; decodes everything."""
        with self._lock:
            self._index()
            for place in self._places.values():
                self._decode(*place)
            found = list(self._decoded.values())
        return iter(found)

    def manifest_version(self, commit: CommitId) -> int | None:
        """The manifest version that published a commit."""
        with self._lock:
            self._index()
            return self._versions.get(commit)

    def find_key(self, key: str) -> CommitRecord | None:
        """The first commit that carried an idempotency key, if any."""
        with self._lock:
            self._index()
            found = self._keys.get(key)
            if found is not None:
                return self._decoded[found]
            # The text of the key, wherever it is, picks candidates; decoding decides.
            pattern = json.dumps(key)
            for number, chunk in enumerate(self._chunks):
                mask = pc.match_substring(chunk.column("metadata"), pattern)
                for row in pc.indices_nonzero(mask).to_pylist():
                    self._decode(number, row)
            found = self._keys.get(key)
            return None if found is None else self._decoded[found]

    def _index(self) -> None:
        """Note where the pending rows are; small chunks are decoded at once."""
        while self._pending:
            rows, versions = self._pending[0]()
            # Only now: what could not be read is still to be read.
            del self._pending[0]
            names = [text[_PREFIX_CHARS:] for text in rows.column("object_id").to_pylist()]
            fresh = [row for row, name in enumerate(names) if name not in self._versions]
            for row in fresh:
                self._versions[names[row]] = versions[row]
            if len(fresh) <= tuning.active.decoded_rows_max:
                for commit in decode(rows.take(pa.array(fresh, pa.int64()))):
                    self._keep(commit)
                continue
            # Only what is new: a compaction brings everything a second time.
            chunk = rows if len(fresh) == rows.num_rows else rows.take(fresh)
            number = len(self._chunks)
            self._chunks.append(chunk)
            for place, row in enumerate(fresh):
                self._places[names[row]] = (number, place)

    def _decode(self, chunk: int, row: int) -> CommitRecord:
        (record,) = decode(self._chunks[chunk].slice(row, 1))
        return self._keep(record)

    def _keep(self, record: object) -> CommitRecord:
        if not isinstance(record, CommitRecord):
            raise TypeError("only rows of commits are kept here")
        self._decoded[record.id] = record
        key = record.idempotency_key
        if key is not None:
            earlier = self._keys.get(key)
            if earlier is None or self._versions[record.id] < self._versions[earlier]:
                self._keys[key] = record.id
        return record
