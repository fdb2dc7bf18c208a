"""Changes of one type as rows of Spark: those between two states, and a stream of all commits.

The commits of a branch are gone through along their first parents. Each commit that touched the
table of the type is one partition. Rows have the columns that the type has when the frame or the
stream is made, also where an older commit had others.

An offset of a stream names the last commit that was read, and the branch by its incarnation, so
that a branch made again under the same name is not taken for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructField, StructType

from omnigraph.core.commits.records import CommitRecord
from omnigraph.core.locks.holds import Holder
from omnigraph.core.revisions import Revisions
from omnigraph.core.schema.alignment import TypeState, type_diff, type_state
from omnigraph.core.schema.arrow_types import table_schema
from omnigraph.dataplane.changes.table_changes import ChangeLimits, Operation, TableChanges
from omnigraph.dataplane.spark.carried_errors import carried_errors
from omnigraph.dataplane.spark.columns import carried, carry
from omnigraph.dataplane.spark.opened import Opened
from omnigraph.dataplane.worker_tables import require_seen
from omnigraph.errors import Code, Gone, InvalidInput
from omnigraph.lang.catalog.model import EntityType
from omnigraph.lang.values import Base
from omnigraph.store.root import Root
from omnigraph.store.tables import open_tables
from omnigraph.types import CommitId

CHANGES_FROM: Final = "changesFrom"
CHANGES_TO: Final = "changesTo"
CHANGES: Final = "changes"
_BEGINNING: Final = "beginning"
_NOW: Final = "now"
# Options that name one state of the rows, or rows of it.
_OF_STATES: Final = ("at", "commit", "tag", "time", "where")

_CHANGE_FIELDS: Final = pa.schema(
    [
        pa.field("_change_type", pa.string()),
        pa.field("_commit_id", pa.string()),
        pa.field("_commit_time", pa.timestamp("us", "UTC")),
    ]
)
_KINDS: Final = {
    (Operation.INSERT.value, 1): "insert",
    (Operation.UPDATE.value, 0): "update_preimage",
    (Operation.UPDATE.value, 1): "update_postimage",
    (Operation.DELETE.value, 0): "delete",
}


def reads_changes(options: Mapping[str, str]) -> bool:
    """Return whether options ask for changes instead of rows."""
    return any(options.get(name) is not None for name in (CHANGES, CHANGES_FROM, CHANGES_TO))


def changes_schema(opened: Opened) -> StructType:
    """The columns of the type, and those that say what changed, by which commit and when.

    Blobs are compared and not delivered.
    """
    schema = carried(pa.schema([*_delivered(opened), *_CHANGE_FIELDS]))
    return StructType([StructField(field.name, from_arrow_type(field.type)) for field in schema])


def _delivered(opened: Opened) -> list[pa.Field]:
    blobs = _blobs(opened.entity)
    schema = table_schema(opened.entity)
    if opened.columns is None:
        return [field for field in schema if field.name not in blobs]
    for name in opened.columns:
        if name in blobs:
            text = f"'{name}' is a blob; changes have no contents of blobs, read them from the type"
            raise InvalidInput(Code.INPUT_INVALID, text, column=name)
    return [schema.field(name) for name in opened.columns]


def _blobs(entity: EntityType) -> list[str]:
    return [item.name for item in entity.properties if item.type.base is Base.BLOB]


@dataclass(frozen=True)
class CommitPartition(InputPartition):
    """One commit that touched the table of the type; the empty id stands for no commit at all."""

    commit: str
    time_us: int
    older: TypeState | None = None  # None when the commit declared the type
    newer: TypeState | None = None


@dataclass(frozen=True, slots=True)
class CommitRows:
    """Reads what commits changed in one type. Travels to the tasks."""

    root: Root
    entity: EntityType
    columns: tuple[str, ...]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The changes of one commit, the row before an update before the row after it."""
        assert isinstance(partition, CommitPartition)
        if partition.newer is None:
            return
        require_seen(self.root)
        diff = type_diff(open_tables(self.root), partition.older, partition.newer, self.entity)
        names = [name for name in table_schema(self.entity).names if name != "id"]
        changes = TableChanges(
            diff, {name: name for name in names}, _blobs(self.entity), ChangeLimits()
        )
        for batch in changes.batches():
            yield carry(self._rows(batch, partition))

    def _rows(self, batch: pa.RecordBatch, partition: CommitPartition) -> pa.RecordBatch:
        operations = batch.column("operation").to_pylist()
        sides = np.array(
            [(each != Operation.INSERT, each != Operation.DELETE) for each in operations], bool
        )
        chosen = np.flatnonzero(sides.ravel())
        rows, side = chosen // 2, chosen % 2
        places = pa.array(rows + side * batch.num_rows)
        before, after = batch.column("before"), batch.column("after")
        arrays = []
        for name in self.columns:
            if name == "id":
                arrays.append(batch.column("id").take(pa.array(rows)))
            else:
                both = pa.concat_arrays([before.field(name), after.field(name)])
                arrays.append(both.take(places))
        kinds = [
            _KINDS[operations[r], s] for r, s in zip(rows.tolist(), side.tolist(), strict=True)
        ]
        count = len(rows)
        arrays += [
            pa.array(kinds, pa.string()),
            pa.array([partition.commit] * count, pa.string()),
            pa.array([partition.time_us] * count, pa.timestamp("us", "UTC")),
        ]
        return pa.RecordBatch.from_arrays(arrays, [*self.columns, *_CHANGE_FIELDS.names])


class CommitRange:
    """The commits of a branch on the line of first parents, and the pins of one type there."""

    def __init__(self, opened: Opened) -> None:
        """Go through the branch that options name."""
        self._opened = opened
        self._repo = opened.repo

    def partitions(self, after: str, until: str) -> list[InputPartition]:
        """The commits behind one commit, up to another one, that touched the table.

        Args:
            after: A commit; the empty text for before the first one.
            until: A commit.

        Raises:
            Gone: They are not in the history of the branch.
        """
        found: list[InputPartition] = []
        for commit in self._between(after, until):
            if commit.parent_id is None:
                continue  # it made the graph, which was empty
            older, newer = (self._state(each) for each in (commit.parent_id, commit.id))
            if newer is not None and (older is None or older.pin != newer.pin):
                found.append(CommitPartition(str(commit.id), commit.created_at, older, newer))
        return found

    def _between(self, after: str, until: str) -> list[CommitRecord]:
        """The commits, oldest first."""
        found: list[CommitRecord] = []
        if after == until:
            return found
        is_behind = False
        for commit in self._repo.commits(self._opened.snapshot.branch):
            if commit.id == after:
                if is_behind:
                    return found[::-1]
                break
            is_behind = is_behind or commit.id == until
            if is_behind:
                found.append(commit)
        if is_behind and not after:
            return found[::-1]
        raise self._gone(after if is_behind else until)

    def _state(self, commit: CommitId) -> TypeState | None:
        """The type as of a commit; None when the schema did not have it."""
        state = self._repo.snapshot_at(commit, self._opened.snapshot.branch)
        return type_state(state, self._repo.schema(state).catalog, self._opened.entity)

    def _gone(self, commit: str) -> Gone:
        branch = self._opened.snapshot.branch
        text = (
            f"commit {commit} is not in the history of '{branch}' (any more): read the present "
            "state with spark.read, and start a new stream with a new checkpoint and the option "
            "changes = now"
        )
        return Gone(Code.GONE, text, branch=str(branch), commit=commit)


class StreamHold:
    """Keeps what a stream has not read yet from clean-ups, where storage lets it."""

    def __init__(self, opened: Opened) -> None:
        """Start without a hold."""
        self._opened = opened
        self._entered = ExitStack()
        self._held: Holder | None = None

    def stand_at(self, commit: str) -> None:
        """Keep a commit, the empty text for the first one, and all later ones of the branch.

        Raises:
            Gone: It is not stored any more.
        """
        repo, branch = self._opened.repo, self._opened.snapshot.branch
        found = CommitId(commit) if commit else list(repo.commits(branch))[-1].id
        state = repo.manifest.place_of(branch, found)
        if state is None:
            return
        if self._held is None:
            holding = repo.holding(state, "feed", onward=True, insist=True)
            self._held = self._entered.enter_context(holding)
        else:
            self._held.move(state)

    def renew(self) -> None:
        """Renew the hold."""
        if self._held is not None:
            self._held.move()

    def release(self) -> None:
        """Release it."""
        self._held = None
        self._entered.close()


class ChangesReader(DataSourceReader):
    """Reads the changes between two states, which are pinned when the frame is made."""

    def __init__(self, opened: Opened, columns: Sequence[str], options: Mapping[str, str]) -> None:
        """Read the commits from `changesFrom` on, without it, up to `changesTo`."""
        _refuse_states(options)
        if options.get(CHANGES) is not None:
            text = "the option changes is for spark.readStream; spark.read takes changesFrom"
            raise InvalidInput(Code.INPUT_INVALID, text)
        branch = opened.snapshot.branch
        start = options.get(CHANGES_FROM) or _BEGINNING
        revisions = Revisions(opened.repo)
        after = "" if start == _BEGINNING else str(revisions.resolve(start, branch).head)
        until = opened.snapshot.head
        if (end := options.get(CHANGES_TO)) is not None:
            until = revisions.resolve(end, branch).head
        self._pieces = CommitRange(opened).partitions(after, str(until))
        self._rows = CommitRows(opened.root, opened.entity, tuple(columns[: -len(_CHANGE_FIELDS)]))

    def partitions(self) -> Sequence[InputPartition]:
        """The commits; without any there is one empty piece."""
        return self._pieces or [CommitPartition("", 0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The changes of one commit."""
        with carried_errors():
            yield from self._rows.read(partition)


class ChangesStreamReader(DataSourceStreamReader):
    """Follows the commits of a branch. The offsets make each change come exactly once."""

    def __init__(self, options: Mapping[str, str], columns: Sequence[str]) -> None:
        """Follow the branch that the options name."""
        _refuse_states(options)
        self._options = dict(options)
        self._start = self._options.get(CHANGES) or ""
        if self._start not in (_BEGINNING, _NOW):
            text = (
                "a stream of changes starts at the 'beginning' or 'now': "
                f'.option("changes", "beginning"), not {self._start!r:.80}'
            )
            raise InvalidInput(Code.INPUT_INVALID, text, option=CHANGES)
        opened = Opened(self._options)
        self._rows = CommitRows(opened.root, opened.entity, tuple(columns[: -len(_CHANGE_FIELDS)]))

    def __getstate__(self) -> dict[str, Any]:
        """The state that travels to the tasks: without the open graph and what it holds."""
        return {
            name: value for name, value in self.__dict__.items() if name not in ("_opened", "_held")
        }

    @cached_property
    def _opened(self) -> Opened:
        return Opened(self._options)

    @cached_property
    def _held(self) -> StreamHold:
        return StreamHold(self._opened)

    def _offset(self, *, is_start: bool) -> dict[str, str]:
        repo = self._opened.repo
        now = repo.snapshot(self._opened.snapshot.branch)
        commit = "" if is_start and self._start == _BEGINNING else str(now.head)
        return {"branch": str(now.branch), "incarnation": now.incarnation, "commit": commit}

    def initialOffset(self) -> dict[str, str]:
        """Before the first commit, or at the newest one."""
        with carried_errors():
            start = self._offset(is_start=True)
            self._held.stand_at(start["commit"])
            return start

    def latestOffset(self, start: object = None, limit: object = None) -> dict[str, str]:
        """The newest commit; a micro-batch has all that there is."""
        del start, limit
        with carried_errors():
            self._held.renew()
            return self._offset(is_start=False)

    def partitions(self, start: dict[str, str], end: dict[str, str]) -> Sequence[InputPartition]:
        """The commits behind one offset, up to another one."""
        with carried_errors():
            if start["incarnation"] != end["incarnation"]:
                text = (
                    f"branch '{end['branch']}' was deleted and made again: start a new stream, "
                    "with a new checkpoint"
                )
                raise Gone(Code.GONE, text, branch=end["branch"])
            self._held.stand_at(start["commit"])
            return CommitRange(self._opened).partitions(start["commit"], end["commit"])

    def commit(self, end: dict[str, str]) -> None:
        """Nothing up to this offset is asked for again."""
        with carried_errors():
            self._held.stand_at(end["commit"])

    def stop(self) -> None:
        """Release what the stream has not read, for clean-ups."""
        if "_held" in self.__dict__:
            self._held.release()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The changes of one commit."""
        with carried_errors():
            yield from self._rows.read(partition)


def _refuse_states(options: Mapping[str, str]) -> None:
    for name in _OF_STATES:
        if options.get(name) is not None:
            text = f"the option {name} chooses rows of one state; changes are between two states"
            raise InvalidInput(Code.INPUT_INVALID, text, option=name)
