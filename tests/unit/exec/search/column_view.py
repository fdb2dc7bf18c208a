"""A view of one type whose columns are lists."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from omnigraph.exec.view import Counts, Handles
from omnigraph.lang.ir.expr import EntityRef

DOC = EntityRef("node", "Doc", "doc")


class ColumnView:
    """Handles are places in the columns; the ids may sort otherwise."""

    def __init__(self, columns: Mapping[str, pa.Array], ids: list[str] | None = None) -> None:
        self.columns = columns
        count = len(next(iter(columns.values())))
        names = ids or [f"{place:06}" for place in range(count)]
        order = sorted(range(count), key=names.__getitem__)
        self._rank = np.empty(count, np.int64)
        self._rank[order] = np.arange(count)

    def size(self, entity: EntityRef) -> int:
        return len(self._rank)

    def take(self, entity: EntityRef, column: str, handles: Handles | None) -> pa.Array:
        values = self.columns[column]
        return values if handles is None else values.take(pa.array(handles))

    def rank(self, entity: EntityRef, handles: Handles) -> Counts:
        return np.asarray(self._rank[handles])
