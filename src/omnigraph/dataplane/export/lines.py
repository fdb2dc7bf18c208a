"""Rows of one type as NDJSON in the load format, a batch at a time."""

from __future__ import annotations

import json
from typing import Final

import numpy as np
import pyarrow as pa

from omnigraph.dataplane.export.cells import NULL, EncodedCells, cells, glued
from omnigraph.dataplane.export.small import SmallNumbers
from omnigraph.lang.catalog.model import EntityType
from omnigraph.lang.values import Base, ValueType

_TEXT: Final = ValueType(Base.STRING)


class LineEncoder:
    """Spells rows of one type. Threads may share it."""

    def __init__(self, entity: EntityType) -> None:
        """Spell rows of this type."""
        self._fields = _fields(entity)
        self._small = SmallNumbers()
        label = "type" if entity.kind == "node" else "edge"
        self._head = f'{{"{label}":{json.dumps(entity.name)},'

    def encode(self, rows: pa.RecordBatch) -> memoryview:
        """One line per row, each with its newline.

        Args:
            rows: `id`, `src` and `dst` for edges, and every property, as the table stores them.
        """
        if not rows.num_rows:
            return memoryview(b"")
        joined = glued(self._pieces(rows), NULL)
        _, starts, content = joined.buffers()
        kind = np.int64 if pa.types.is_large_string(joined.type) else np.int32
        # The texts lie one after another: together they are the output.
        return memoryview(content)[: int(np.frombuffer(starts, kind)[len(joined)])]

    def _pieces(self, rows: pa.RecordBatch) -> list[pa.Array | str]:
        """The parts of a line: columns, and texts that all lines share."""
        pieces: list[pa.Array | str] = []
        pending = self._head
        for label, name, kind in self._fields:
            column = rows.column(name)
            small = self._small.spelled(pending + label, column, kind)
            if small is not None:
                pieces.append(small)
                pending = ""
                continue
            spelled = cells(column, kind)
            # Only without nulls can all lines share what stands around the values.
            shown = EncodedCells(spelled.whole()) if spelled.text.null_count else spelled
            pieces += [pending + label + shown.before, shown.text]
            pending = shown.after
        return [*pieces, pending + "}}\n"]


def _fields(entity: EntityType) -> list[tuple[str, str, ValueType]]:
    """The values of a line in their order: what stands before each, its column and its type."""
    properties = [
        (f",{json.dumps(item.name)}:", item.name, item.type) for item in entity.properties
    ]
    if entity.kind == "node":
        return [('"data":{"id":', "id", _TEXT), *properties]
    ends = [('"from":', "src", _TEXT), (',"to":', "dst", _TEXT)]
    return [*ends, (',"data":{"id":', "id", _TEXT), *properties]
