"""The primary key of a table, as Lance notes it with the schema."""

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

__all__ = ["annotated"]

_PRIMARY_KEY: Final = {"lance-schema:unenforced-primary-key": "true"}


def annotated(
    schema: pa.Schema, primary_key: str | None, metadata: Mapping[str, str] | None
) -> pa.Schema:
    """Return a schema with a primary key and with metadata, where they are given."""
    if metadata is not None:
        schema = schema.with_metadata(dict(metadata))
    if primary_key is None:
        return schema
    position = schema.get_field_index(primary_key)
    field = schema.field(position)
    noted = field.with_nullable(False).with_metadata({**(field.metadata or {}), **_PRIMARY_KEY})
    return schema.set(position, noted)
