"""Assigns the lines of a block to types without reading them one at a time."""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.dataplane.decode.arrow_json import parse
from omnigraph.dataplane.decode.lines import Lines, Places
from omnigraph.dataplane.decode.model import TYPE_FIELDS
from omnigraph.lang.catalog.model import Catalog, EntityType

Routes: TypeAlias = npt.NDArray[np.int32]

UNKNOWN: Final = -1

_WORD_BYTES: Final = 8
_BEGINNING_BYTES_MAX: Final = 64
_NAMES: Final = pa.schema([(word, pa.string()) for word in TYPE_FIELDS.values()])


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
