"""Rows of one type from CSV: a header, then one row per line, every cell a text.

An empty cell without quotes is null. Numbers, `true` and `false`, dates and moments are written
as in JSON but without its quotes; lists and vectors are JSON, blobs are `base64:` and text. A row
is counted as one line even if quoted values in it have several, and so is the header. A line
without any value is skipped.
"""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Iterator
from functools import reduce
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from omnigraph.dataplane.decode.chunks import is_damage
from omnigraph.dataplane.decode.model import Decoded, DecodeSpec, DecodeStats
from omnigraph.dataplane.decode.tabular import RowDecoder
from omnigraph.dataplane.decode.tabular_texts import TEXTS
from omnigraph.errors import JsonValue
from omnigraph.lang.catalog.model import EntityType
from omnigraph.rules.violation import Rule, Violation, Violations

_HEAD_BYTES: Final = 64 << 10
_TEXT_CHARS_MAX: Final = 200
_BLOCK_BYTES: Final = 1 << 20
_LINE_ENDS_TRIED_MAX: Final = 8


def decode_csv(
    chunks: Iterator[bytes],
    entity: EntityType,
    spec: DecodeSpec,
    out: Violations,
    stats: DecodeStats,
    *,
    file: str,
    delimiter: str = ",",
) -> Iterator[Decoded]:
    """Decode a whole file, given as chunks of bytes."""
    rows = _Rows(chunks, delimiter, spec.line_bytes_max)

    def report(line: int, text: str, value: JsonValue = None) -> None:
        out.add(_violation(entity, file, line, text, value))

    names = rows.open()
    if names is not None:
        decoder = RowDecoder(names, entity, spec, out, file=file, spelling=TEXTS)
        decoder.report_columns()
        stats.lines = 1
        for batch, lines in rows.batches():
            stats.lines = rows.line - 1
            found = decoder.decode(batch, lines)
            if found is not None:
                stats.rows += len(found.lines)
                yield found
    for ragged in rows.ragged:
        words = f"expected {ragged.expected_columns} values, got {ragged.actual_columns}"
        text = ragged.text[:_TEXT_CHARS_MAX] if isinstance(ragged.text, str) else None
        report(ragged.number, words, text)
    if rows.broken is not None:
        report(rows.line, rows.broken)
    elif rows.source.quotes % 2:
        words = "a quoted value is not closed, or a quote inside of a value is not doubled"
        report(rows.line - 1, words)
    stats.lines = rows.line - 1


class _Rows:
    """The rows of a file as texts, with their line numbers."""

    def __init__(self, chunks: Iterator[bytes], delimiter: str, block_bytes: int) -> None:
        self.source = _Source(chunks)
        self.ragged: list[Any] = []  # rows with too many or too few values
        self.broken: str | None = None  # why the file cannot be read on
        self.line = 1  # of the next row
        self._delimiter = delimiter
        self._block_bytes = block_bytes
        self._reader: Any = None

    def open(self) -> list[str] | None:
        """Read the header; None if there is none."""
        try:
            self._reader = arrow_csv.open_csv(
                pa.PythonFile(self.source, mode="r"),
                # On one thread: only then are rows numbered.
                read_options=arrow_csv.ReadOptions(use_threads=False, block_size=self._block_bytes),
                parse_options=arrow_csv.ParseOptions(
                    delimiter=self._delimiter,
                    newlines_in_values=True,
                    ignore_empty_lines=False,  # or lines could not be counted
                    invalid_row_handler=self._skip,
                ),
                convert_options=arrow_csv.ConvertOptions(
                    check_utf8=False,  # is done later, row by row
                    default_column_type=pa.string(),
                    null_values=[""],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                ),
            )
            names: list[str] = self._reader.schema.names
        except pa.ArrowInvalid as error:
            return self._lone_header(error)
        except UnicodeDecodeError:
            self.broken = "the header is not UTF-8"
            return None
        if not any(names):
            self.broken = "there is no header"
            return None
        self.line = 2
        return names

    def _lone_header(self, error: pa.ArrowInvalid) -> list[str] | None:
        """The header of a file that has no rows, which Arrow does not read."""
        head = self.source.head.removeprefix(codecs.BOM_UTF8)
        if not head.strip():
            self.broken = "there is no header"
        elif b"\n" in head or b"\r" in head or len(head) >= _HEAD_BYTES:
            self.broken = _worded(error, self._block_bytes)
        else:
            try:
                text = io.StringIO(head.decode())
            except UnicodeDecodeError:
                self.broken = "the header is not UTF-8"
                return None
            self.line = 2
            return next(csv.reader(text, delimiter=self._delimiter))
        return None

    def batches(self) -> Iterator[tuple[pa.RecordBatch, npt.NDArray[np.int64]]]:
        """The rows, and the line of each."""
        while self._reader is not None:
            try:
                batch = self._reader.read_next_batch()
            except StopIteration:
                break
            except (pa.ArrowException, OSError) as error:
                if not is_damage(error):
                    raise
                self.broken = _worded(error, self._block_bytes)
                break
            lines = self._numbered(batch.num_rows)
            blank = _blank(batch)
            if blank is not None:
                batch, lines = batch.filter(pa.array(~blank)), lines[~blank]
            yield batch, lines
        if self.ragged:
            self.line = max(self.line, self.ragged[-1].number + 1)

    def _numbered(self, count: int) -> npt.NDArray[np.int64]:
        """The lines of the next rows, without those of ragged rows."""
        skipped = [row.number for row in self.ragged if row.number >= self.line]
        lines = np.arange(self.line, self.line + count + len(skipped), dtype=np.int64)
        lines = np.setdiff1d(lines, skipped, assume_unique=True)[:count]
        if count:
            self.line = int(lines[-1]) + 1
        return lines

    def _skip(self, row: Any) -> str:
        self.ragged.append(row)
        return "skip"


class _Source:
    """Chunks of bytes as a file that Arrow reads from its beginning to its end.

    Arrow reads dozens of blocks ahead, so they should be small; but no row may be longer than a
    block. So a block is small unless it takes more until a row ends in it.
    """

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self.closed = False
        self.quotes = 0  # how many have been handed on
        self.head = b""  # the first bytes
        self._chunks = chunks
        self._held = b""
        self._start = 0  # of what has not been handed on

    def read(self, size: int) -> bytes:
        """The next bytes, as a rule far fewer than asked for; none at the end."""
        wanted = min(size, _BLOCK_BYTES)
        while True:
            is_end = not self._fill(wanted)
            block = self._held[self._start : self._start + wanted]
            if is_end or wanted >= size or self._ends_row(block):
                break
            wanted = min(size, 2 * wanted)
        self._start += len(block)
        self.quotes += block.count(b'"')
        if len(self.head) < _HEAD_BYTES:
            self.head += block[: _HEAD_BYTES - len(self.head)]
        return block

    def _fill(self, wanted: int) -> bool:
        """Hold so many bytes, if there are."""
        while len(self._held) - self._start < wanted:
            chunk = next(self._chunks, None)
            if chunk is None:
                return False
            rest = self._held[self._start :]
            self._held, self._start = (rest + chunk if rest else chunk), 0
        return True

    def _ends_row(self, block: bytes) -> bool:
        """True if a row ends in a block, as far as a quick look shows."""
        end = len(block)
        for _ in range(_LINE_ENDS_TRIED_MAX):
            end = block.rfind(b"\n", 0, end)
            if end < 0:
                return False
            if (self.quotes + block.count(b'"', 0, end)) % 2 == 0:
                return True
        return False

    def close(self) -> None:
        """Do nothing: the file is closed where it was opened."""
        self.closed = True


def _blank(batch: pa.RecordBatch) -> npt.NDArray[np.bool_] | None:
    """The rows that have no value at all; None if there are none."""
    if not batch.num_rows or not all(column.null_count for column in batch.columns):
        return None
    empty = reduce(pc.and_, (column.is_null() for column in batch.columns))
    found: npt.NDArray[np.bool_] = empty.to_numpy(zero_copy_only=False)
    return found if found.any() else None


def _worded(error: Exception, block_bytes: int) -> str:
    text = str(error)
    if "straddl" in text:
        return f"a row is longer than {block_bytes} bytes"
    return f"not CSV: {text}"


def _violation(entity: EntityType, file: str, line: int, text: str, value: JsonValue) -> Violation:
    return Violation(
        rule=Rule.SYNTAX,
        kind=entity.kind,
        type_name=entity.name,
        id=None,
        properties=(),
        value=value,
        message=text,
        file=file,
        line=line,
    )
