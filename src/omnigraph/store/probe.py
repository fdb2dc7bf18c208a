"""Questions about the rows of some fragments that their metadata does not answer."""

from collections.abc import Collection
from typing import Final

import numpy as np

from omnigraph.store.table import CREATED_AT, ROW_ADDRESS, Table, quoted

__all__ = ["TableProbe"]

_FRAGMENT_BITS: Final = 32


class TableProbe:
    """Asks the rows of one table."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def has_values(self, column: str, fragments: Collection[int] | None = None) -> bool:
        """Tell whether a row, in some fragments or at all, is not null there."""
        found = self._table.scan(
            [], filter=f"{quoted(column)} is not null", row_id=True, fragments=fragments
        )
        return any(batch.num_rows for batch in found)

    def older(self, fragments: Collection[int], version: int) -> frozenset[int]:
        """Name the fragments that have a row which was created in this version or before."""
        found = self._table.scan(
            [], filter=f"{CREATED_AT} <= {version}", row_address=True, fragments=fragments
        )
        places = (np.asarray(batch.column(ROW_ADDRESS)) >> _FRAGMENT_BITS for batch in found)
        return frozenset(int(number) for each in places for number in np.unique(each))
