"""Rows as lines of NDJSON, spelled column by column. The texts hold nothing that JSON escapes."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def lines_of(kind: str, name: str, table: pa.Table) -> pa.Array:
    """One line per row, with its line end."""
    parts: list[object] = []
    if kind == "node":
        parts.append(f'{{"type":"{name}","data":{{')
    else:
        ends = table["from"], table["to"]
        parts += [f'{{"edge":"{name}","from":"', ends[0], '","to":"', ends[1], '","data":{']
        table = table.drop_columns(["from", "to"])
    for number, (field, column) in enumerate(zip(table.schema, table.columns, strict=True)):
        comma = "," if number else ""
        quote = '"' if pa.types.is_string(field.type) or pa.types.is_date(field.type) else ""
        parts += [f'{comma}"{field.name}":{quote}', _spelled(column), quote]
    parts += ["}}\n", ""]
    spelled = pc.binary_join_element_wise(*parts)
    return spelled.combine_chunks() if isinstance(spelled, pa.ChunkedArray) else spelled


def write_lines(lines: pa.Array) -> memoryview:
    """The text of lines as one piece of memory."""
    assert lines.offset == 0
    ends = pa.Array.from_buffers(pa.int32(), len(lines) + 1, [None, lines.buffers()[1]])
    return memoryview(lines.buffers()[2])[: ends[len(lines)].as_py()]


def _spelled(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if not pa.types.is_fixed_size_list(column.type):
        return column.cast(pa.string())
    flat = column.combine_chunks()
    numbers = pc.list_flatten(flat).cast(pa.string())
    size = column.type.list_size
    offsets = pa.array(range(0, len(numbers) + 1, size), pa.int32())
    joined = pc.binary_join(pa.ListArray.from_arrays(offsets, numbers), ",")
    return pc.binary_join_element_wise("[", joined, "]", "")
