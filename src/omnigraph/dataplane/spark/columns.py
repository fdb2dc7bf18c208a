"""Columns as Spark can carry them, and back: it has no unsigned numbers and no fixed lists."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructField, StructType

from omnigraph.core.schema.arrow_types import table_schema
from omnigraph.lang.catalog.model import EntityType

# Exactly what no signed number of Spark can hold.
_U64 = pa.decimal128(20, 0)


def spark_schema(entity: EntityType, columns: tuple[str, ...] | None = None) -> StructType:
    """The columns of a type as Spark declares them; everything may be null there."""
    schema = carried(table_schema(entity))
    names = schema.names if columns is None else list(columns)
    return StructType(
        [StructField(name, from_arrow_type(schema.field(name).type)) for name in names]
    )


def carried(schema: pa.Schema) -> pa.Schema:
    """A schema as it crosses to Spark."""
    return pa.schema([pa.field(field.name, _carried_type(field.type)) for field in schema])


def carry(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Rows of a table as they cross to Spark."""
    arrays = [_carry(column) for column in batch.columns]
    return pa.RecordBatch.from_arrays(arrays, schema=carried(batch.schema))


def _carried_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind):
        return pa.list_(_carried_type(kind.value_type))
    if pa.types.is_uint64(kind):
        return _U64
    if pa.types.is_uint32(kind):
        return pa.int64()
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", "UTC")
    return pa.binary() if pa.types.is_large_binary(kind) else kind


def _carry(column: pa.Array) -> pa.Array:
    wanted = _carried_type(column.type)
    return column if column.type == wanted else pc.cast(column, wanted)
