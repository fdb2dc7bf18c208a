"""Columns of a table after it was altered: what they come from, and the values of stored rows."""

from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["AlteredColumn", "fitted"]

# Numbers are packed into as few bits as they need. To look for a dictionary takes twice the time of
# all the rest; Lance leaves it out where a page is full, and so do we everywhere.
_NO_DICTIONARY: Final = {"lance-encoding:dict-divisor": str(1 << 20)}


@dataclass(frozen=True, slots=True)
class AlteredColumn:
    """A column of a table after it was altered.

    Attributes:
        field: Its name and its type from now on.
        source: The column that it goes on from; None for a new one.
        fill: The value that stored rows get in a new one; None leaves them without.
    """

    field: pa.Field
    source: str | None = None
    fill: pa.Scalar | None = None

    def is_written(self, schema: pa.Schema) -> bool:
        """Return whether stored rows get new values.

        They do also where the column takes over the name of another one: Lance refuses a name that
        stands for other files than before.
        """
        if self.field.name in schema.names and self.source != self.field.name:
            return True
        if self.source is None:
            return self.fill is not None
        return bool(schema.field(self.source).type != self.field.type)

    def in_files(self, kept: pa.Field) -> pa.Field:
        """Return the field with what the files of altered values say about its encoding."""
        is_number = pa.types.is_integer(kept.type) or pa.types.is_floating(kept.type)
        return kept.with_metadata(_NO_DICTIONARY) if is_number and self.source else kept

    def values(self, rows: pa.RecordBatch) -> pa.Array:
        """Return the values that some rows have in it."""
        if self.source is not None:
            return fitted(rows.column(self.source), self.field.type)
        return self.repeated(rows.num_rows)

    def repeated(self, count: int) -> pa.Array:
        """Return the values that so many rows have in a column that goes on from no other."""
        if self.fill is None:
            return pa.nulls(count, self.field.type)
        return pa.repeat(self.fill, count)


def fitted(values: pa.Array | pa.ChunkedArray, kind: pa.DataType) -> pa.Array | pa.ChunkedArray:
    """Values in another type; null where a narrower type does not have them."""
    if values.type == kind:
        return values
    try:
        return pc.cast(values, kind)
    except pa.ArrowInvalid:
        fitting = [_fitting(value, kind) for value in values]
        return pa.array(fitting, kind)


def _fitting(value: pa.Scalar, kind: pa.DataType) -> object:
    try:
        return value.cast(kind).as_py()
    except pa.ArrowInvalid:
        return None
