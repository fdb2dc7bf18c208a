"""Lines of JSON into rows: fast where nothing is wrong, careful where something might be."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from omnigraph.dataplane.decode.careful import Careful
from omnigraph.dataplane.decode.fast import Reader
from omnigraph.dataplane.decode.lines import (
    BLOCK_BYTES,
    Lines,
    Places,
    TooLong,
    blocks,
    find_lines,
)
from omnigraph.dataplane.decode.model import Decoded, Shape, Tally, joined
from omnigraph.dataplane.decode.route import UNKNOWN, Router, Routes
from omnigraph.rules.violation import Violations

_UTF16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_BRACES: Final = (ord("{"), ord("}"))
# Lines that are not worth a second attempt to take them together, and into how many parts others
# are divided for one: what is wrong with a few lines should not slow down the many.
_FEW: Final = 256
_TOO_LONG: Final = UNKNOWN - 1
_PARTS: Final = 8


def decode_ndjson(
    chunks: Iterable[bytes | pa.Buffer],
    shape: Shape,
    out: Violations,
    tally: Tally,
    *,
    file: str,
    is_start: bool,
    block_bytes: int = BLOCK_BYTES,
) -> Iterator[Decoded]:
    """Decode the lines of one split.

    A line is an entity in its envelope. What breaks the rules of the format is reported with its
    line and is not among the rows; blank lines count as lines only.

    Args:
        chunks: The bytes of the split, from the beginning of a line to the end of one.
        shape: What there may be.
        out: Takes the violations.
        tally: Counts lines and rows.
        file: How violations call the file.
        is_start: Whether the split is the beginning of its file.
        block_bytes: About how many bytes are decoded at a time.
    """
    decoder = _Decoder(shape, Careful(shape, out, file))
    is_decoding = True
    for number, block in enumerate(blocks(chunks, shape.line_bytes_max, block_bytes)):
        if isinstance(block, TooLong):
            tally.lines += 1
            decoder.refuse_length(tally.lines)
            continue
        data = block
        if is_start and number == 0:
            if block.startswith(_UTF16):
                decoder.careful.report(1, "the file is UTF-16, and must be UTF-8")
                is_decoding = False
            data = block.removeprefix(codecs.BOM_UTF8)
        lines, count = find_lines(data, tally.lines + 1)
        tally.lines += count
        if is_decoding:
            for decoded in decoder.decode(lines):
                tally.rows += decoded.rows.num_rows
                yield decoded


class _Decoder:
    """Decodes blocks."""

    def __init__(self, shape: Shape, careful: Careful) -> None:
        self.careful = careful
        self._shape = shape
        self._router = Router(shape.catalog)
        self._readers: dict[int, Reader] = {}

    def refuse_length(self, number: int) -> None:
        bound = self._shape.line_bytes_max
        self.careful.report(number, f"the line is longer than {bound} bytes")

    def decode(self, lines: Lines) -> Iterator[Decoded]:
        if not len(lines):
            return
        self.careful.advance()
        routes = self._route(lines)
        for route in _distinct(routes):
            places = np.flatnonzero(routes == route)
            if route == _TOO_LONG:
                for number in lines.numbers[places].tolist():
                    self.refuse_length(number)
            elif route == UNKNOWN:
                yield from self._carefully(lines, places)
            else:
                yield from _by_type(self._read(route, lines, places))

    def _route(self, lines: Lines) -> Routes:
        view = np.frombuffer(lines.data, np.uint8)
        routes = self._router.by_beginning(lines)
        is_object = view[lines.ends - 1] == _BRACES[1]
        routes[~is_object] = UNKNOWN
        is_object &= view[lines.starts] == _BRACES[0]
        lengths = lines.ends - lines.starts
        if int(lengths.max()) > self._shape.line_bytes_max:
            routes[lengths > self._shape.line_bytes_max] = _TOO_LONG
        others = np.flatnonzero(is_object & (routes == UNKNOWN))
        if len(others):
            self._route_by_name(lines, others, routes)
        return routes

    def _route_by_name(self, lines: Lines, places: Places, routes: Routes) -> None:
        found = self._router.by_name(lines, places)
        if found is not None:
            routes[places] = found
        elif len(places) > _FEW:
            for part in np.array_split(places, min(_PARTS, len(places))):
                self._route_by_name(lines, part, routes)

    def _read(self, route: int, lines: Lines, places: Places) -> Iterator[Decoded]:
        reader = self._readers.get(route)
        if reader is None:
            reader = Reader(self._router.entities[route], self._shape)
            self._readers[route] = reader
        decoded = reader.read(lines, places)
        if decoded is not None:
            yield decoded
        elif len(places) > _FEW:
            for part in np.array_split(places, min(_PARTS, len(places))):
                yield from self._read(route, lines, part)
        else:
            yield from self._carefully(lines, places)

    def _carefully(self, lines: Lines, places: Places) -> Iterator[Decoded]:
        numbers = lines.numbers[places].tolist()
        return self.careful.decode(
            (number, lines.line(place))
            for number, place in zip(numbers, places.tolist(), strict=True)
        )


def _distinct(routes: Routes) -> list[int]:
    first = int(routes[0])
    # Most blocks have lines of one type only, and to see that is faster than to sort them.
    return np.unique(routes).tolist() if (routes != first).any() else [first]


def _by_type(parts: Iterable[Decoded]) -> Iterator[Decoded]:
    """Parts that follow each other, those of one type as one."""
    found: dict[tuple[str, str], list[Decoded]] = {}
    for part in parts:
        found.setdefault((part.entity.kind, part.entity.name), []).append(part)
    for items in found.values():
        yield joined(items)
