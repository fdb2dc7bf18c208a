"""Messages of Protocol Buffers as lists of entries: read, changed and written back.

Only what Lance keeps to itself is touched in this way: the fields of its schemas, and the places
that its version files name. An entry that is not understood is carried over as it is.
"""

from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

__all__ = ["BYTES", "VARINT", "Entry", "encoded", "entries"]

VARINT: Final = 0
BYTES: Final = 2
_FIXED: Final = {1: 8, 5: 4}
_LOW_BITS: Final = 0x7F
_MORE: Final = 0x80

# An entry of a message: its number, its wire type and its content.
Entry: TypeAlias = tuple[int, int, int | bytes]


def entries(message: bytes) -> Iterator[Entry]:
    """Yield the entries of a message, in order; ValueError if it is none."""
    at = 0
    while at < len(message):
        tag, at = _read_varint(message, at)
        number, kind = tag >> 3, tag & 7
        if kind == VARINT:
            value, at = _read_varint(message, at)
            yield number, kind, value
            continue
        if kind == BYTES:
            length, at = _read_varint(message, at)
        elif kind in _FIXED:
            length = _FIXED[kind]
        else:
            raise ValueError(f"a message has an entry of wire type {kind}")
        if at + length > len(message):
            raise ValueError("a message ends inside of an entry")
        yield number, kind, message[at : at + length]
        at += length


def encoded(message: Iterable[Entry]) -> bytes:
    """Return a message of these entries."""
    parts = []
    for number, kind, value in message:
        parts.append(_varint(number << 3 | kind))
        if isinstance(value, int):
            parts.append(_varint(value))
        else:
            parts += [_varint(len(value)), value] if kind == BYTES else [value]
    return b"".join(parts)


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(message):
            raise ValueError("a message ends inside of a number")
        byte = message[at]
        value |= (byte & _LOW_BITS) << shift
        at, shift = at + 1, shift + 7
        if not byte & _MORE:
            return value, at


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > _LOW_BITS:
        found.append(value & _LOW_BITS | _MORE)
        value >>= 7
    found.append(value)
    return bytes(found)
