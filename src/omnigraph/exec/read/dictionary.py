"""Dictionary-encoded text columns: compared and grouped by number, without the texts.

Worth it for columns of few different values: grouping 100,000 rows by one of 200 texts takes about
half the time (`python -m bench views`).
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from omnigraph.exec import tuning
from omnigraph.exec.view import GraphView, Handles
from omnigraph.lang.ir.expr import EntityRef

_KIND: Final = "codes"
_SAMPLE_ROWS: Final = 1024


class DictionaryColumn:
    """The number of each entity's value: 0 for none, else one more than its place in `values`."""

    __slots__ = ("numbers", "values")

    def __init__(self, numbers: Handles, values: pa.Array) -> None:
        """Hold the numbers by handle."""
        self.numbers = numbers
        self.values = values

    @property
    def nbytes(self) -> int:
        """The memory it takes."""
        return int(self.numbers.nbytes + self.values.nbytes)

    def domain(self) -> pa.Array:
        """Every value at the place of its number, null at the first."""
        return pa.concat_arrays([pa.nulls(1, self.values.type), self.values])


def dictionary_column(view: GraphView, entity: EntityRef, column: str) -> DictionaryColumn | None:
    """A column encoded, if its view keeps derived structures and it has few different values."""
    keep: Any = getattr(view, "derived", None)
    if keep is None or column == "id" or view.size(entity) < tuning.active.dictionary_rows_min:
        return None

    def build(_previous: object) -> DictionaryColumn | bool:
        return _encode(view.take(entity, column, None)) or False

    found = keep(entity, column, _KIND, build, _nbytes, None)
    return found if isinstance(found, DictionaryColumn) else None


def _encode(texts: pa.Array) -> DictionaryColumn | None:
    if not (pa.types.is_string(texts.type) or pa.types.is_large_string(texts.type)):
        return None
    some = texts.take(pa.array(np.linspace(0, len(texts) - 1, _SAMPLE_ROWS).astype(np.int64)))
    if len(some.unique()) > _SAMPLE_ROWS // tuning.active.dictionary_share * 4:
        return None
    encoded = texts.dictionary_encode()
    if len(encoded.dictionary) * tuning.active.dictionary_share > len(texts):
        return None
    places = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    numbers = (places + 1).astype(np.int32)
    numbers.flags.writeable = False
    return DictionaryColumn(numbers, encoded.dictionary)


def _nbytes(found: DictionaryColumn | bool) -> int:
    return found.nbytes if isinstance(found, DictionaryColumn) else 64
