"""The shape of a table in storage: its fragments, and the segments of its indexes."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from omnigraph.store.blobs import marked
from omnigraph.store.io.storage_calls import StorageCall, storage_call
from omnigraph.store.model import KEY_FILTER, ORDERED_INDEX
from omnigraph.store.reading.row_addresses import FRAGMENT_BITS
from omnigraph.store.table import CREATED_AT, ROW_ADDRESS, Table, quoted

__all__ = ["FragmentInfo", "SegmentInfo", "Shape", "TableProbe", "read_shape"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FragmentInfo:
    """A fragment: rows that are alive, rows that are deleted, and the bytes of its files."""

    id: int
    rows: int
    deleted: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentInfo:
    """A piece of an index, which covers some fragments.

    Attributes:
        index: The name of the index.
        uuid: The name of the piece.
        fragments: What it covers; some may be gone.
        built_at: The version of the table that it was made from.
        moves: It names rows by identity, so it goes on covering rows that are written elsewhere
            unchanged. An ordered index names rows by place and loses them.
        stands_in: It is a filter in the place of an ordered index.
        damaged: Its files are not as they were written.
        columns: The columns of the index.
    """

    index: str
    uuid: str
    fragments: frozenset[int]
    built_at: int
    moves: bool
    stands_in: bool = False
    damaged: bool = False
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The fragments of a version, and the segments of its indexes.

    `has_blobs` says that rows have bytes which are not counted with their fragments.
    """

    fragments: tuple[FragmentInfo, ...]
    segments: tuple[SegmentInfo, ...] = ()
    has_blobs: bool = False

    def of(self, index: str) -> tuple[SegmentInfo, ...]:
        """The segments of one index."""
        return tuple(segment for segment in self.segments if segment.index == index)


def read_shape(table: Table) -> Shape:
    """Read the fragments and index segments of a version. Reads no row."""
    indexes = storage_call(StorageCall.TABLE_INDEX, table.pin.path, table.dataset.describe_indices)
    damaged = table.damaged_segments()
    return Shape(
        fragments=tuple(_fragment(found.metadata) for found in table.dataset.get_fragments()),
        segments=tuple(
            SegmentInfo(
                index=index.name,
                uuid=segment.uuid,
                fragments=frozenset(segment.fragment_ids),
                built_at=int(segment.dataset_version_at_last_update),
                moves=index.index_type not in {ORDERED_INDEX, KEY_FILTER},
                stands_in=index.index_type == KEY_FILTER,
                damaged=segment.uuid in damaged,
                columns=tuple(index.field_names),
            )
            for index in indexes
            for segment in index.segments
        ),
        has_blobs=bool(marked(table.schema)),
    )


def _fragment(metadata: Any) -> FragmentInfo:
    return FragmentInfo(
        id=int(metadata.id),
        rows=int(metadata.num_rows),
        deleted=int(metadata.num_deletions),
        bytes=sum(int(file.file_size_bytes or 0) for file in metadata.files),
    )


class TableProbe:
    """Reads the rows of one table."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def has_values(self, column: str, fragments: Collection[int] | None = None) -> bool:
        """Return whether a row, in some fragments or at all, is not null there."""
        found = self._table.scan(
            [], filter=f"{quoted(column)} is not null", row_id=True, fragments=fragments
        )
        return any(batch.num_rows for batch in found)

    def older(self, fragments: Collection[int], version: int) -> frozenset[int]:
        """Name the fragments that have a row which was created in this version or before."""
        found = self._table.scan(
            [], filter=f"{CREATED_AT} <= {version}", row_address=True, fragments=fragments
        )
        places = (np.asarray(batch.column(ROW_ADDRESS)) >> FRAGMENT_BITS for batch in found)
        return frozenset(int(number) for each in places for number in np.unique(each))
