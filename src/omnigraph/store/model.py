"""The values that go in and out of the table gateway. Frozen, plain, picklable."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, TypeAlias

from omnigraph.types import Metric

__all__ = [
    "Btree",
    "DeletionReceipt",
    "ForkInfo",
    "FragmentReceipt",
    "Fts",
    "IndexInfo",
    "IndexKind",
    "IndexSpec",
    "Pin",
    "RewriteReceipt",
    "SegmentReceipt",
    "Staged",
    "StagedKind",
    "Vector",
    "WrittenBy",
]


@dataclass(frozen=True, slots=True)
class Pin:
    """One readable version of a table. ``branch`` is a fork of the table, None its trunk."""

    path: str
    version: int
    branch: str | None = None


@dataclass(frozen=True, slots=True)
class ForkInfo:
    """The origin of a fork. ``identifier`` differs between two forks of one name."""

    parent_branch: str | None
    parent_version: int
    identifier: str


class StagedKind(StrEnum):
    """The kinds of staged changes, by what they do to the rows of a table."""

    UPDATE = "update"
    OVERWRITE = "overwrite"
    INDEX = "index"
    REWRITE = "rewrite"
    ALTER = "alter"


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """A change that is written and invisible until it lands.

    Attributes:
        path: The table.
        branch: The fork, or None.
        expected: The version that it was made for; it lands as the next one or not at all.
        uuid: Its identity in the history of the table.
        kind: How it changes the table.
        rows_after: The rows of the table when it has landed.
        rows_inserted: How many rows are new.
        rows_updated: How many rows change.
        rows_deleted: How many rows go.
        files: The files it wrote, as absolute local paths; empty on object storage.
        base_uuid: The commit that made ``expected``. A later fork of its name has another one.
        transaction: What Lance commits. Opaque.
    """

    path: str
    branch: str | None
    expected: int
    uuid: str
    kind: StagedKind
    rows_after: int
    rows_inserted: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0
    files: tuple[str, ...] = ()
    base_uuid: str | None = None
    transaction: Any = field(repr=False)


@dataclass(frozen=True, slots=True)
class FragmentReceipt:
    """Rows that a worker wrote into a table's folder: text that travels, and what to sync.

    ``updates`` says that the rows replace committed ones, whose identities the text names.
    """

    fragment: str
    rows: int
    updates: bool = False
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WrittenBy:
    """The operation that writes data files: their names begin with its own.

    ``folder`` is where a file lies until it is whole, if the root is on local disk.
    """

    operation: str
    folder: str


@dataclass(frozen=True, slots=True)
class DeletionReceipt:
    """The rows that a worker marked as deleted: small, whatever their number.

    Attributes:
        deletions: The deletion files that it wrote: number of the fragment, both numbers in the
            name of the file and its kind, how many rows it names in all.
        removed: Fragments with no row left.
        held: Addresses, eight bytes each, of rows in fragments that the commit itself rewrites.
        files: What to sync.
    """

    deletions: tuple[tuple[int, int, int, str, int], ...] = ()
    removed: tuple[int, ...] = ()
    held: bytes = b""
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RewriteReceipt:
    """The fragments that a worker rewrote: texts that travel, and what to sync."""

    old: str
    new: str
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SegmentReceipt:
    """A piece of an index that a worker built: what Lance says of it, and what to sync."""

    index: str
    segment: Any = field(repr=False)
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Btree:
    """An ordered index on a scalar column."""


@dataclass(frozen=True, slots=True)
class Fts:
    """A word index on a text column. Positions are kept, so phrases can be searched."""


@dataclass(frozen=True, slots=True)
class Vector:
    """A nearest-neighbour index on a column of vectors. Exact when every partition is probed."""

    metric: Metric
    dim: int


@dataclass(frozen=True, slots=True)
class KeyFilter:
    """A filter that shows which parts of a scalar column may hold a value.

    It is built in a fiftieth of the time of an ordered index, and stands in for one until there is
    one: a few values are found by reading a few thousand rows.
    """


IndexKind: TypeAlias = Btree | Fts | Vector | KeyFilter

# The kinds as Lance names them.
ORDERED_INDEX: Final = "BTree"
KEY_FILTER: Final = "BloomFilter"


@dataclass(frozen=True, slots=True)
class IndexSpec:
    """An index to build: on which column, of which kind, under which name."""

    column: str
    kind: IndexKind
    name: str


@dataclass(frozen=True, slots=True)
class IndexInfo:
    """An index as a version of a table has it.

    ``fragments`` are the fragments it covers; rows elsewhere are found by scanning.
    """

    name: str
    type: str
    columns: tuple[str, ...]
    fragments: frozenset[int]
