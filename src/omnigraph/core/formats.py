"""The manifest formats that this release reads.

The original of OmniGraph, written in Rust, keeps its format under the same key and counts it by
itself. Its numbers say nothing here; that its columns of versions and counts are unsigned does.
"""

from __future__ import annotations

import pyarrow as pa

from omnigraph.core.records import ARROW_SCHEMA, FORMAT_OLDEST, FORMAT_VERSION, STAMP
from omnigraph.errors import Code, Corrupt
from omnigraph.store.tables import Table

_NUMBERS = tuple(field for field in ARROW_SCHEMA if pa.types.is_integer(field.type))


def check_format(table: Table) -> None:
    """Refuse a manifest of a format that this release does not read."""
    schema = table.schema
    if "object_id" not in schema.names or "object_type" not in schema.names:
        text = f"the table at {table.pin.path} is not the manifest of a graph"
        raise Corrupt(Code.CORRUPT, text, path=table.pin.path)
    stamp = _stamp(schema)
    if _is_of_the_original(schema):
        text = (
            f"the graph was made by the OmniGraph that is written in Rust (its format {stamp}), "
            "which this one does not read: export it there, make a graph here with "
            "`omnigraph init` and load the export with `omnigraph load`"
        )
        raise Corrupt(
            Code.FORMAT_UNSUPPORTED, text, found=stamp, newest=FORMAT_VERSION, written_by="rust"
        )
    if stamp > FORMAT_VERSION:
        text = f"the graph has format {stamp}, newer than {FORMAT_VERSION}: upgrade omnigraph first"
        raise Corrupt(Code.FORMAT_UNSUPPORTED, text, found=stamp, newest=FORMAT_VERSION)
    if stamp < FORMAT_OLDEST:
        text = f"the graph has format {stamp}, older than the oldest readable {FORMAT_OLDEST}"
        raise Corrupt(Code.FORMAT_UNSUPPORTED, text, found=stamp, oldest=FORMAT_OLDEST)


def _stamp(schema: pa.Schema) -> int:
    raw = (schema.metadata or {}).get(STAMP.encode())
    if raw is None:
        return 1
    text = raw.decode(errors="replace")
    try:
        return int(text)
    except ValueError as error:
        raise Corrupt(Code.CORRUPT, f"the format stamp {text!r} is not a number") from error


def _is_of_the_original(schema: pa.Schema) -> bool:
    found = [schema.field(field.name) for field in _NUMBERS if field.name in schema.names]
    return any(pa.types.is_unsigned_integer(field.type) for field in found)
