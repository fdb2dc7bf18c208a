"""Arrow's JSON reader, with the checks that it does not make itself."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.json as pj

_BYTES_MAX: Final = 2**31 - 2  # Arrow counts in 32 bits


def parse(data: bytes, schema: pa.Schema, *, is_strict: bool = True) -> pa.Table | None:
    """Read objects with these members; None if there is anything that Arrow does not take.

    Arrow refuses members that are there twice and values of another kind, counts objects instead
    of lines, and lets numbers through that are not finite.

    Args:
        data: Objects, one after the other.
        schema: Their members.
        is_strict: Refuse members that the schema does not have, or pass over them.
    """
    if len(data) > _BYTES_MAX or not is_utf8(data):
        return None
    strange = "error" if is_strict else "ignore"
    options = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior=strange)
    whole = pj.ReadOptions(use_threads=False, block_size=len(data) + 1)
    try:
        return pj.read_json(pa.BufferReader(data), read_options=whole, parse_options=options)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def is_utf8(data: bytes) -> bool:
    """True if bytes are UTF-8; nothing is copied to find out."""
    if data.isascii():
        return True
    offsets = pa.py_buffer(np.array([0, len(data)], np.int64))
    text = pa.Array.from_buffers(pa.large_string(), 1, [None, offsets, pa.py_buffer(data)])
    try:
        text.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True
