"""Rows as Python dictionaries, in the form that lines of NDJSON have."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from omnigraph.dataplane.source.model import TypeRef
from omnigraph.errors import Code, InvalidInput

_ENDS: Final = {"from": "from", "src": "from", "to": "to", "dst": "to"}


def envelope_lines(rows: Sequence[Mapping[str, object]], name: str) -> Iterator[bytes]:
    """Dictionaries that are whole envelopes, one line each.

    Raises:
        InvalidInput: A value has no form in JSON.
    """
    for number, row in enumerate(rows, 1):
        yield _line(row, name, number)


def entity_lines(rows: Sequence[Mapping[str, object]], of: TypeRef, name: str) -> Iterator[bytes]:
    """Dictionaries from property to value, one line each.

    An edge has its ends under `from` or `src`, and `to` or `dst`.

    Raises:
        InvalidInput: A value has no form in JSON, or an end is given twice.
    """
    for number, row in enumerate(rows, 1):
        if of.kind == "node":
            yield _line({"type": of.name, "data": row}, name, number)
            continue
        envelope: dict[str, object] = {"edge": of.name}
        data = {}
        for key, value in row.items():
            end = _ENDS.get(key)
            if end is None:
                data[key] = value
            elif end in envelope:
                raise _invalid(name, number, f"{end!r} is given twice")
            else:
                envelope[end] = value
        yield _line({**envelope, "data": data}, name, number)


def _line(row: Mapping[str, object], name: str, number: int) -> bytes:
    try:
        text = json.dumps(row, ensure_ascii=False, separators=(",", ":"), default=_plain)
        return text.encode() + b"\n"
    except (TypeError, ValueError, RecursionError) as error:
        raise _invalid(name, number, str(error)) from None


def _plain(value: object) -> object:
    """The JSON form of a value that JSON has none for."""
    if isinstance(value, date):  # and datetime
        return value.isoformat()
    if isinstance(value, bytes | bytearray | memoryview):
        return "base64:" + base64.b64encode(value).decode()
    if isinstance(value, Decimal):
        exponent = value.as_tuple().exponent
        return int(value) if isinstance(exponent, int) and exponent >= 0 else float(value)
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    # Scalars and arrays of numpy, without a look at numpy.
    kind = getattr(getattr(value, "dtype", None), "kind", None)
    if kind is not None:
        # Its own texts would be numbers for moments that are finer than Python's.
        exact: Any = value.astype("datetime64[us]") if kind == "M" else value  # type: ignore[attr-defined]
        return exact.tolist()
    raise TypeError(f"a value of {type(value).__qualname__} cannot be loaded")


def _invalid(name: str, number: int, fault: str) -> InvalidInput:
    return InvalidInput(Code.INPUT_INVALID, f"{name}, row {number}: {fault}", file=name, row=number)
