"""The endpoints of each edge, as handles of nodes."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from omnigraph.exec.dense.columns import StoredRows
from omnigraph.exec.dense.id_index import IdIndex
from omnigraph.exec.view import MISSING, Handles
from omnigraph.lang.catalog.identity import ENDS
from omnigraph.lang.ir.ops import Towards
from omnigraph.runtime.cancellation import checked

# Looking ids up starts with hashing all nodes, so it is done for many edges at once; bounded, so
# that the texts of all edges are never in memory together.
_SLAB_ROWS: Final = 1 << 22
_BATCH_ROWS: Final = 1 << 18


@dataclass(frozen=True, slots=True, eq=False)
class Endpoints:
    """The source and target of each edge. An end that is not there is -1 and must not occur."""

    sources: Handles
    targets: Handles
    dangling: bool

    def __post_init__(self) -> None:
        """Guard against changes by accident: the arrays are shared."""
        self.sources.flags.writeable = False
        self.targets.flags.writeable = False

    @property
    def nbytes(self) -> int:
        """The memory it takes."""
        return self.sources.nbytes + self.targets.nbytes

    def entries(self, towards: Towards) -> tuple[Handles, Handles, Handles]:
        """Source, target and edge of every entry of adjacency, unordered."""
        sources, targets = self.sources, self.targets
        edges = np.arange(len(sources), dtype=np.int32)
        if self.dangling:
            whole = (sources != MISSING) & (targets != MISSING)
            sources, targets, edges = sources[whole], targets[whole], edges[whole]
        if towards is Towards.OUT:
            return sources, targets, edges
        if towards is Towards.IN:
            return targets, sources, edges
        # At both of its ends, but a loop has only one.
        back = sources != targets
        return (
            np.concatenate([sources, targets[back]]),
            np.concatenate([targets, sources[back]]),
            np.concatenate([edges, edges[back]]),
        )


def stored_endpoints(
    table: StoredRows, order: Handles | None, source: IdIndex, target: IdIndex
) -> Endpoints:
    """Read the ends of all edges; `order` leads from handles to places in storage."""
    found: tuple[list[Handles], list[Handles]] = ([], [])
    with ThreadPoolExecutor(2) as pool:
        for slab in _slabs(table.scan(ENDS, batch_rows=_BATCH_ROWS)):
            parts = pool.map(IdIndex.find_array, (source, target), slab.columns)
            for place, part in zip(found, parts, strict=True):
                place.append(part)
    sources, targets = (_joined(parts, order) for parts in found)
    dangling = bool((sources == MISSING).any() or (targets == MISSING).any())
    return Endpoints(sources, targets, dangling)


def _slabs(reader: pa.RecordBatchReader) -> Iterator[pa.Table]:
    batches: list[pa.RecordBatch] = []
    rows = 0
    for batch in checked(reader):
        batches.append(batch)
        rows += batch.num_rows
        if rows >= _SLAB_ROWS:
            yield pa.Table.from_batches(batches)
            batches, rows = [], 0
    if batches:
        yield pa.Table.from_batches(batches)


def _joined(parts: list[Handles], order: Handles | None) -> Handles:
    whole = np.concatenate(parts) if parts else np.empty(0, np.int32)
    return whole if order is None else whole[order]
