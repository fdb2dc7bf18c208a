"""The formats of manifests that this release reads: ours, and those of the original.

The original of OmniGraph, written in Rust, keeps a number under a key that our older formats used,
too. Since format 6 ours have a mark of their own. Older ones are distinguished by their columns:
those of versions and counts are unsigned in the original, and signed here.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from omnigraph.core.commits.records import (
    ARROW_SCHEMA,
    FORMAT_MARKED,
    FORMAT_OLDEST,
    FORMAT_VERSION,
    MARK,
    STAMP,
    STAMP_OURS,
)
from omnigraph.errors import Code, Corrupt
from omnigraph.store.tables import Table

ORIGINAL_OLDEST = 1
ORIGINAL_NEWEST = 4
_NUMBERS = tuple(field for field in ARROW_SCHEMA if pa.types.is_integer(field.type))
_MOVE = (
    "export it there, make a graph here with `omnigraph init` and load the export with "
    "`omnigraph load`"
)


@dataclass(frozen=True, slots=True)
class ManifestFormat:
    """The format of one version of a manifest: a number of ours or of the original."""

    number: int
    is_original: bool = False

    @property
    def is_current(self) -> bool:
        """True if there is nothing to bring forward."""
        return self == CURRENT


CURRENT = ManifestFormat(FORMAT_VERSION)


def format_of(table: Table) -> ManifestFormat:
    """The format of a manifest; refuse one that this release does not read."""
    schema = table.schema
    if "object_id" not in schema.names or "object_type" not in schema.names:
        text = f"the table at {table.pin.path} is not the manifest of a graph"
        raise Corrupt(Code.CORRUPT, text, path=table.pin.path)
    mark, stamp = _number(schema, MARK), _number(schema, STAMP)
    if mark is not None:
        return _ours(mark, stamp)
    number = ORIGINAL_OLDEST if stamp is None else stamp
    if _has_unsigned(schema):
        return _original(number)
    if number >= FORMAT_MARKED:
        raise _newer(number)
    if number < FORMAT_OLDEST:
        text = f"the graph has format {number}, older than the oldest readable {FORMAT_OLDEST}"
        raise Corrupt(Code.FORMAT_UNSUPPORTED, text, found=number, oldest=FORMAT_OLDEST)
    return ManifestFormat(number)


def _ours(mark: int, stamp: int | None) -> ManifestFormat:
    if stamp != STAMP_OURS + mark or mark < FORMAT_MARKED:
        text = f"the marks of the manifest contradict each other: {mark} and {stamp}"
        raise Corrupt(Code.CORRUPT, text)
    if mark > FORMAT_VERSION:
        raise _newer(mark)
    return ManifestFormat(mark)


def _original(number: int) -> ManifestFormat:
    if ORIGINAL_OLDEST <= number <= ORIGINAL_NEWEST:
        return ManifestFormat(number, is_original=True)
    text = (
        f"the graph was made by the OmniGraph that is written in Rust, in its format {number}. "
        f"Of these, formats {ORIGINAL_OLDEST} to {ORIGINAL_NEWEST} are read here: {_MOVE}"
    )
    raise Corrupt(
        Code.FORMAT_UNSUPPORTED, text, found=number, newest=ORIGINAL_NEWEST, written_by="rust"
    )


def unreadable_original(reason: str, **details: str) -> Corrupt:
    """The refusal of a graph of the original that this one cannot take over."""
    text = f"the graph was made by the OmniGraph that is written in Rust, and {reason}: {_MOVE}"
    return Corrupt(Code.FORMAT_UNSUPPORTED, text, written_by="rust", **details)


def _newer(number: int) -> Corrupt:
    text = f"the graph has format {number}, newer than {FORMAT_VERSION}: upgrade omnigraph first"
    return Corrupt(Code.FORMAT_UNSUPPORTED, text, found=number, newest=FORMAT_VERSION)


def _number(schema: pa.Schema, key: str) -> int | None:
    raw = (schema.metadata or {}).get(key.encode())
    if raw is None:
        return None
    text = raw.decode(errors="replace")
    try:
        return int(text)
    except ValueError as error:
        raise Corrupt(Code.CORRUPT, f"the format stamp {text!r} is not a number") from error


def _has_unsigned(schema: pa.Schema) -> bool:
    found = [schema.field(field.name) for field in _NUMBERS if field.name in schema.names]
    return any(pa.types.is_unsigned_integer(field.type) for field in found)
