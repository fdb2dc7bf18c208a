"""Lines of JSON into rows: by the Arrow path, and by the row-wise path where that gives up."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from omnigraph.dataplane import tuning
from omnigraph.dataplane.decode.arrow_path import ArrowDecoder
from omnigraph.dataplane.decode.lines import (
    BLOCK_BYTES,
    Lines,
    Places,
    TooLong,
    blocks,
    find_lines,
)
from omnigraph.dataplane.decode.model import Decoded, DecodeSpec, DecodeStats, joined
from omnigraph.dataplane.decode.route import UNKNOWN, Router, Routes
from omnigraph.dataplane.decode.row_wise import RowWiseDecoder
from omnigraph.rules.violation import Violations

_UTF16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_BRACES: Final = (ord("{"), ord("}"))
_TOO_LONG: Final = UNKNOWN - 1
# Lines that the Arrow path refuses are divided into parts, which it tries again: one wrong line
# should not slow down the many around it.
_RETRY_PARTS: Final = 8


def decode_ndjson(
    chunks: Iterable[bytes | pa.Buffer],
    spec: DecodeSpec,
    out: Violations,
    stats: DecodeStats,
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
        spec: What there may be.
        out: Takes the violations.
        stats: Counts lines and rows.
        file: How violations call the file.
        is_start: Whether the split is the beginning of its file.
        block_bytes: About how many bytes are decoded at a time.
    """
    decoder = _Decoder(spec, RowWiseDecoder(spec, out, file))
    is_decoding = True
    for number, block in enumerate(blocks(chunks, spec.line_bytes_max, block_bytes)):
        if isinstance(block, TooLong):
            stats.lines += 1
            decoder.refuse_length(stats.lines)
            continue
        data = block
        if is_start and number == 0:
            if block.startswith(_UTF16):
                decoder.row_wise.report(1, "the file is UTF-16, and must be UTF-8")
                is_decoding = False
            data = block.removeprefix(codecs.BOM_UTF8)
        lines, count = find_lines(data, stats.lines + 1)
        stats.lines += count
        if is_decoding:
            for decoded in decoder.decode(lines):
                stats.rows += decoded.rows.num_rows
                yield decoded


class _Decoder:
    """Decodes blocks."""

    def __init__(self, spec: DecodeSpec, row_wise: RowWiseDecoder) -> None:
        self.row_wise = row_wise
        self._spec = spec
        self._router = Router(spec.catalog)
        self._decoders: dict[int, ArrowDecoder] = {}

    def refuse_length(self, number: int) -> None:
        bound = self._spec.line_bytes_max
        self.row_wise.report(number, f"the line is longer than {bound} bytes")

    def decode(self, lines: Lines) -> Iterator[Decoded]:
        if not len(lines):
            return
        self.row_wise.advance()
        routes = self._route(lines)
        for route in _distinct(routes):
            places = np.flatnonzero(routes == route)
            if route == _TOO_LONG:
                for number in lines.numbers[places].tolist():
                    self.refuse_length(number)
            elif route == UNKNOWN:
                yield from self._row_by_row(lines, places)
            else:
                yield from _by_type(self._read(route, lines, places))

    def _route(self, lines: Lines) -> Routes:
        view = np.frombuffer(lines.data, np.uint8)
        routes = self._router.by_beginning(lines)
        is_object = view[lines.ends - 1] == _BRACES[1]
        routes[~is_object] = UNKNOWN
        is_object &= view[lines.starts] == _BRACES[0]
        lengths = lines.ends - lines.starts
        if int(lengths.max()) > self._spec.line_bytes_max:
            routes[lengths > self._spec.line_bytes_max] = _TOO_LONG
        others = np.flatnonzero(is_object & (routes == UNKNOWN))
        if len(others):
            self._route_by_name(lines, others, routes)
        return routes

    def _route_by_name(self, lines: Lines, places: Places, routes: Routes) -> None:
        found = self._router.by_name(lines, places)
        if found is not None:
            routes[places] = found
        elif len(places) > tuning.active.row_wise_lines_max:
            for part in np.array_split(places, min(_RETRY_PARTS, len(places))):
                self._route_by_name(lines, part, routes)

    def _read(self, route: int, lines: Lines, places: Places) -> Iterator[Decoded]:
        reader = self._decoders.get(route)
        if reader is None:
            reader = ArrowDecoder(self._router.entities[route], self._spec)
            self._decoders[route] = reader
        decoded = reader.read(lines, places)
        if decoded is not None:
            yield decoded
        elif len(places) > tuning.active.row_wise_lines_max:
            for part in np.array_split(places, min(_RETRY_PARTS, len(places))):
                yield from self._read(route, lines, part)
        else:
            yield from self._row_by_row(lines, places)

    def _row_by_row(self, lines: Lines, places: Places) -> Iterator[Decoded]:
        numbers = lines.numbers[places].tolist()
        return self.row_wise.decode(
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
