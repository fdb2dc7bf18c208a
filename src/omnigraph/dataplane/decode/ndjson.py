"""Lines of JSON into rows: by the Arrow path, and by the row-wise path where that gives up."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.dataplane import tuning
from omnigraph.dataplane.decode.arrow_json import parse
from omnigraph.dataplane.decode.arrow_path import ArrowDecoder
from omnigraph.dataplane.decode.lines import (
    BLOCK_BYTES,
    Lines,
    Places,
    TooLong,
    blocks,
    find_lines,
)
from omnigraph.dataplane.decode.model import TYPE_FIELDS, Decoded, DecodeSpec, DecodeStats, joined
from omnigraph.dataplane.decode.row_wise import RowWiseDecoder
from omnigraph.lang.catalog.model import Catalog, EntityType
from omnigraph.rules.violation import Violations

Routes: TypeAlias = npt.NDArray[np.int32]

UNKNOWN: Final = -1

_WORD_BYTES: Final = 8
_BEGINNING_BYTES_MAX: Final = 64
_NAMES: Final = pa.schema([(word, pa.string()) for word in TYPE_FIELDS.values()])
_UTF16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_BRACES: Final = (ord("{"), ord("}"))
_TOO_LONG: Final = UNKNOWN - 1
# Lines that the Arrow path refuses are divided into parts, which it tries again: one wrong line
# should not slow down the many around it.
_RETRY_PARTS: Final = 8


class Router:
    """Sends lines to types by their first bytes, or by reading no more than the name of the type.

    A route is the number of a type in `entities`.
    """

    def __init__(self, catalog: Catalog) -> None:
        """Prepare the beginnings of lines of each type."""
        self.entities: tuple[EntityType, ...] = (*catalog.nodes, *catalog.edges)
        beginnings = [
            (f'{{"{TYPE_FIELDS[entity.kind]}":{space}"{entity.name}"'.encode(), number)
            for number, entity in enumerate(self.entities)
            for space in ("", " ")
        ]
        self._beginnings = [item for item in beginnings if len(item[0]) <= _BEGINNING_BYTES_MAX]
        longest = max((len(item) for item, _ in self._beginnings), default=1)
        self._width = -(-longest // _WORD_BYTES) * _WORD_BYTES
        self._nodes = pa.array([item.name for item in catalog.nodes], pa.string())
        self._edges = pa.array([item.name for item in catalog.edges], pa.string())

    def by_beginning(self, lines: Lines) -> Routes:
        """The route of each line that begins as most do, with the name of its type."""
        routes = np.full(len(lines), UNKNOWN, np.int32)
        # The beginning of a line near the end of the block may reach beyond it.
        inside = int(np.searchsorted(lines.starts, len(lines.data) - self._width, side="right"))
        if inside:
            self._by_words(lines, routes[:inside])
        for place in range(inside, len(lines)):
            start = int(lines.starts[place])
            for beginning, number in self._beginnings:
                if lines.data.startswith(beginning, start):
                    routes[place] = number
                    break
        return routes

    def _by_words(self, lines: Lines, routes: Routes) -> None:
        count = len(lines.data) - self._width + 1
        windows = np.ndarray((count,), f"V{self._width}", lines.data, strides=(1,))
        heads = windows[lines.starts[: len(routes)]].view("<u8").reshape(len(routes), -1)
        left = np.arange(len(routes))
        used: list[tuple[bytes, int]] = []
        for item in self._beginnings:
            if not len(left):
                break
            beginning, number = item
            match = _begin_with(heads, beginning)
            if match.any():
                used.append(item)
                routes[left[match]] = number
                left, heads = left[~match], heads[~match]
        # The next block is likely to have the same types.
        self._beginnings = used + [item for item in self._beginnings if item not in used]

    def by_name(self, lines: Lines, places: Places) -> Routes | None:
        """The routes of lines that are objects, wherever they name their type; None if unclear.

        Every line begins and ends with a brace.
        """
        data = lines.gather(places)
        parsed = parse(data, _NAMES, is_strict=False)
        if parsed is None or parsed.num_rows != len(places):
            return None
        types, edges = (parsed.column(name).combine_chunks() for name in _NAMES.names)
        node = pc.index_in(types, value_set=self._nodes).fill_null(UNKNOWN)
        edge = pc.index_in(edges, value_set=self._edges).fill_null(UNKNOWN)
        found = node.to_numpy(zero_copy_only=False)
        found_edge = edge.to_numpy(zero_copy_only=False)
        is_edge = types.is_null().to_numpy(zero_copy_only=False) & (found_edge >= 0)
        is_node = edges.is_null().to_numpy(zero_copy_only=False) & (found >= 0)
        offset = len(self._nodes)
        routes: Routes = np.full(len(places), UNKNOWN, np.int32)
        routes[is_node] = found[is_node]
        routes[is_edge] = found_edge[is_edge] + offset
        return routes


def _begin_with(heads: npt.NDArray[np.uint64], beginning: bytes) -> npt.NDArray[np.bool_]:
    """True for the heads, given in words of 8 bytes, that begin with some bytes."""
    match = np.ones(len(heads), np.bool_)
    for number, start in enumerate(range(0, len(beginning), _WORD_BYTES)):
        part = beginning[start : start + _WORD_BYTES]
        word = np.uint64(int.from_bytes(part, "little"))
        mask = np.uint64(2 ** (8 * len(part)) - 1)
        match &= (heads[:, number] & mask) == word
    return match


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
