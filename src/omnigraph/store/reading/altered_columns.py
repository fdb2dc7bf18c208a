"""Columns of a table after it was altered: what they come from, and the values of stored rows."""

from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["AlteredColumn", "fitted"]

# What Lance calls the types of values that it can make by itself.
_SQL_TYPES: Final = {
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.uint64(): "bigint unsigned",
    pa.float64(): "double",
    pa.string(): "string",
    pa.bool_(): "boolean",
}
_WIDENED: Final = {
    (pa.int32(), pa.int64()),
    (pa.uint32(), pa.uint64()),
    (pa.uint32(), pa.int64()),
    (pa.float32(), pa.float64()),
}


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
        """Tell whether stored rows get new values.

        They do also where the column takes over the name of another one: Lance refuses a name that
        stands for other files than before.
        """
        if self.field.name in schema.names and self.source != self.field.name:
            return True
        if self.source is None:
            return self.fill is not None
        return bool(schema.field(self.source).type != self.field.type)

    def expression(self, schema: pa.Schema) -> str | None:
        """Return its values as an expression that Lance evaluates; None when it cannot."""
        name = _SQL_TYPES.get(self.field.type)
        if name is None:
            return None
        if self.source is not None:
            return f"cast(`{self.source}` as {name})" if _widens(self, schema) else None
        value = None if self.fill is None else self.fill.as_py()
        if isinstance(value, str):
            return "'" + value.replace("'", "''") + "'"
        if isinstance(value, bool):
            return str(value).lower()
        return f"cast({value} as {name})" if isinstance(value, int) else None

    def values(self, rows: pa.RecordBatch) -> pa.Array:
        """Return the values that some rows have in it."""
        if self.source is not None:
            return fitted(rows.column(self.source), self.field.type)
        if self.fill is None:
            return pa.nulls(rows.num_rows, self.field.type)
        return pa.repeat(self.fill, rows.num_rows)


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


def _widens(column: AlteredColumn, schema: pa.Schema) -> bool:
    return (schema.field(column.source).type, column.field.type) in _WIDENED
