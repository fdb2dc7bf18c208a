"""Checksums of version files, kept in them.

A version file of Lance ends with a message and a footer of 16 bytes. Before a version gets its
name on local disk, its message gets one more field: the checksum of all the rest of the file.
Lance, like every reader of Protocol Buffers, passes over fields that it does not know, and leaves
it out of what it writes next. A version without one was written by another program and is accepted.
"""

import struct
import zlib
from pathlib import Path
from typing import Final

__all__ = [
    "add_checksum",
    "damage_in",
    "damage_of",
    "has_checksum",
    "joined_version",
    "split_version",
]

FOOTER: Final = struct.Struct("<QHH4s")  # where the message begins, the version, the magic
MAGIC: Final = b"LANC"
LENGTH: Final = struct.Struct("<I")
# The key of field 28519 with four bytes of content, as Protocol Buffers spell it.
_KEY: Final = bytes([0xBD, 0xF6, 0x0D])
_FIELD_BYTES: Final = len(_KEY) + LENGTH.size


def add_checksum(path: Path) -> int | None:
    """Add the checksum to a version file that is not visible yet.

    Returns:
        The new size of the file; None if it was left alone, for it is not laid out as expected.
    """
    data = path.read_bytes()
    parts = None if _checksum_of(data) is not None else split_version(data)
    if parts is None:
        return None
    content = joined_version(*parts, checked=True)
    path.write_bytes(content)
    return len(content)


def split_version(data: bytes) -> tuple[bytes, bytes, bytes] | None:
    """Take a version file apart: what precedes its message, the message, the footer.

    The message comes without a checksum. None if the file is not laid out as expected.
    """
    if len(data) < FOOTER.size + LENGTH.size:
        return None
    start, _, _, magic = FOOTER.unpack(data[-FOOTER.size :])
    end = len(data) - FOOTER.size
    message = start + LENGTH.size
    if magic != MAGIC or message > end:
        return None
    (length,) = LENGTH.unpack(data[start:message])
    if message + length != end:
        return None
    own = end if _checksum_of(data) is None else end - _FIELD_BYTES
    return data[:start], data[message:own], data[end:]


def joined_version(before: bytes, message: bytes, footer: bytes, *, checked: bool) -> bytes:
    """Put a version file together again, with a checksum or without."""
    if not checked:
        return before + LENGTH.pack(len(message)) + message + footer
    head = before + LENGTH.pack(len(message) + _FIELD_BYTES) + message + _KEY
    return head + LENGTH.pack(_sum(head, footer)) + footer


def damage_in(data: bytes) -> str | None:
    """Return what is wrong with the bytes of a version file; None if nothing is known."""
    expected = _checksum_of(data)
    end = len(data) - FOOTER.size
    if expected is None or expected == _sum(data[: end - LENGTH.size], data[end:]):
        return None
    return "its content does not have the checksum that it carries"


def has_checksum(data: bytes) -> bool:
    """Return whether a version file carries a checksum."""
    return _checksum_of(data) is not None


def damage_of(path: Path) -> str | None:
    """Return what is wrong with a version file; None if nothing is known, or it is not there."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    return damage_in(data)


def _checksum_of(data: bytes) -> int | None:
    """Return the checksum that a file carries."""
    end = len(data) - FOOTER.size
    if data[max(0, end - _FIELD_BYTES) : max(0, end - LENGTH.size)] != _KEY:
        return None
    return int(LENGTH.unpack(data[end - LENGTH.size : end])[0])


def _sum(head: bytes, tail: bytes) -> int:
    return zlib.crc32(tail, zlib.crc32(head))
