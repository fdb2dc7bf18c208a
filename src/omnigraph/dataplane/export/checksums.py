"""Checksums of files, block by block, to verify what a task wrote."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

from omnigraph.store.io.streams import Output, open_input

BLOCK_BYTES: Final = 8 << 20


class Checksummed:
    """Hands bytes on to an output and keeps a CRC-32 of every block of them."""

    def __init__(self, output: Output) -> None:
        """Write to this output."""
        self._output = output
        self._done: list[int] = []
        self._crc = 0
        self._left = BLOCK_BYTES

    @property
    def closed(self) -> bool:
        """True if the output has ended."""
        return self._output.closed

    @property
    def checksums(self) -> tuple[int, ...]:
        """One per block; the last block may be shorter."""
        return (*self._done, self._crc) if self._left < BLOCK_BYTES else tuple(self._done)

    def write(self, data: Any, /) -> int:
        """Write bytes."""
        rest = memoryview(data).cast("B")
        written = self._output.write(rest)
        while len(rest):
            piece = rest[: self._left]
            self._crc = zlib.crc32(piece, self._crc)
            self._left -= len(piece)
            rest = rest[len(piece) :]
            if not self._left:
                self._done.append(self._crc)
                self._crc, self._left = 0, BLOCK_BYTES
        return written

    def flush(self) -> None:
        """Do nothing, as outputs do."""

    def close(self) -> None:
        """Do nothing, as outputs do."""

    def tell(self) -> int:
        """The number of bytes written."""
        return self._output.tell()


def differing_block(
    uri: str,
    storage_options: Mapping[str, str],
    size: int,
    checksums: tuple[int, ...],
    blocks: Iterable[int],
) -> int | None:
    """The first of some blocks of a file that does not have its checksum; None if all have.

    Raises:
        StorageFailure: The file cannot be read.
    """
    with open_input(uri, storage_options, size=size) as file:
        for number in blocks:
            file.seek(number * BLOCK_BYTES)
            if zlib.crc32(file.read(BLOCK_BYTES)) != checksums[number]:
                return number
    return None
