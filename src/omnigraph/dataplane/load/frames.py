"""Reading rows that only Spark can read: each partition of a DataFrame is a split."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from omnigraph.core.storage_errors import storage_errors
from omnigraph.dataplane.decode.model import DecodeStats
from omnigraph.dataplane.decode.tabular import RowDecoder, decode_batches
from omnigraph.dataplane.load.entities import decode_spec
from omnigraph.dataplane.load.plan import LoadPlan
from omnigraph.dataplane.load.read_task import stage_rows
from omnigraph.dataplane.load.receipt import ReadReceipt
from omnigraph.dataplane.load.violations import collector
from omnigraph.dataplane.source.model import PackPiece, TypeRef
from omnigraph.lang.catalog.model import Catalog, EntityType

# More partitions than any DataFrame has: the splits of one follow those of another.
FRAME_SPLITS: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameTask:
    """Takes the rows of one partition. Picklable.

    Attributes:
        plan: The load.
        type: Whose rows they are.
        name: What messages call the DataFrame.
        columns: Its columns; partition 0 tells what is wrong with them, rows or no rows.
        first_split: The number of its first split.
    """

    plan: LoadPlan
    type: TypeRef
    name: str
    columns: tuple[str, ...]
    first_split: int = 0

    def __call__(self, partition: int, batches: Iterator[pa.RecordBatch]) -> ReadReceipt:
        """Stage the rows of a partition."""
        plan, stats = self.plan, DecodeStats()
        out = collector(plan, self.first_split + partition)
        entity, spec = entity_of(plan.catalog, self.type), decode_spec(plan)
        if partition == 0:
            RowDecoder(list(self.columns), entity, spec, out, file=self.name).report_columns()
        decoded = decode_batches(
            _counted(batches, stats), entity, spec, out, stats, file=self.name, is_start=False
        )
        first = 1 if partition == 0 else None

        def files() -> tuple[PackPiece, ...]:
            return (PackPiece(name=self.name, first_row=first, lines=stats.lines),)

        with storage_errors():
            return stage_rows(plan, self.first_split + partition, decoded, stats, files, out=out)


def entity_of(catalog: Catalog, ref: TypeRef) -> EntityType:
    """The type that a reference names."""
    return catalog.node_by_name[ref.name] if ref.kind == "node" else catalog.edge_by_name[ref.name]


def _counted(batches: Iterator[pa.RecordBatch], stats: DecodeStats) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        stats.bytes += batch.nbytes
        yield batch
