"""The Arrow form of types and properties.

Property columns are nullable on disk whatever the schema says: whether a value is required is a
rule, judged before a write, so making a property required or optional rewrites nothing.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from omnigraph.lang.catalog.model import EntityType, Property
from omnigraph.lang.fit import fit
from omnigraph.lang.ir.expr import Const
from omnigraph.lang.literal import Literal
from omnigraph.lang.values import Base, ValueType
from omnigraph.store.tables import blob_field

_SCALARS: dict[Base, pa.DataType] = {
    Base.STRING: pa.string(),
    Base.BOOL: pa.bool_(),
    Base.I32: pa.int32(),
    Base.I64: pa.int64(),
    Base.U32: pa.uint32(),
    Base.U64: pa.uint64(),
    Base.F32: pa.float32(),
    Base.F64: pa.float64(),
    Base.DATE: pa.date32(),
    Base.DATETIME: pa.timestamp("ms", tz="UTC"),
}


def arrow_type(kind: ValueType) -> pa.DataType:
    """The type of a property's values."""
    if kind.base is Base.VECTOR:
        return pa.list_(pa.float32(), kind.dim)
    if kind.base is Base.BLOB:
        return pa.large_binary()
    scalar = _SCALARS[kind.base]
    return pa.list_(scalar) if kind.is_list else scalar


def default_scalar(item: Property) -> pa.Scalar | None:
    """The default of a property, as the table stores it; None when it has none."""
    return None if item.default is None else _scalar(item.default, item.type)


def fill_scalar(item: Property) -> pa.Scalar | None:
    """The value of rows that were stored before a property was declared; None when it is null."""
    # An enum may have given up the value since.
    return None if item.fill is None else _scalar(item.fill, replace(item.type, enum=()))


def _scalar(value: Literal, kind: ValueType) -> pa.Scalar:
    fitted = fit(value, kind)
    assert isinstance(fitted, Const), "the compiler checked it"
    return pa.scalar(fitted.value, arrow_type(kind))


def table_schema(entity: EntityType) -> pa.Schema:
    """The columns of a type's table: the fixed ones, then properties by name."""
    fixed = ["id"] if entity.kind == "node" else ["id", "src", "dst"]
    columns = [pa.field(name, pa.string(), nullable=False) for name in fixed]
    return pa.schema([*columns, *(_column(item) for item in entity.properties)])


def _column(item: Property) -> pa.Field:
    if item.type.base is Base.BLOB:
        return blob_field(item.name)
    return pa.field(item.name, arrow_type(item.type))
