"""Decodes many small splits together, at the cost of one.

Texts of small files are put together and decoded as one. If anything in them breaks a rule, they
are decoded again, file by file, so that what is reported does not depend on the neighbours.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import groupby, islice
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from omnigraph.dataplane import tuning
from omnigraph.dataplane.decode.dispatch import decode, decode_text
from omnigraph.dataplane.decode.model import Decoded, DecodeSpec, DecodeStats, joined
from omnigraph.dataplane.source.model import Compression, FileSplit, Format, PackPiece, Split
from omnigraph.dataplane.source.paths import is_remote, read_whole
from omnigraph.rules.violation import Violation, Violations
from omnigraph.runtime import telemetry

Lines: TypeAlias = npt.NDArray[np.int64]

_REQUESTS_MAX: Final = 16  # requests to object storage
_NEWLINE: Final = b"\n"
_TEXTS: Final = frozenset({Format.NDJSON, Format.CSV, Format.TSV})


def decode_pack(
    parts: Sequence[Split],
    spec: DecodeSpec,
    out: Violations,
    stats: DecodeStats,
    pieces: list[PackPiece],
) -> Iterator[Decoded]:
    """Decode splits one after the other; lines are numbered through all of them.

    Args:
        parts: The splits.
        spec: What there may be.
        out: Takes the violations.
        stats: Counts bytes and rows.
        pieces: Is told where the lines of each split are, once it is read.

    Raises:
        NotFound: A file is not there any more.
        Conflict: A file has changed.
        Unavailable: Storage failed.
    """
    if len(parts) == 1:
        (part,) = parts
        yield from decode(part, spec, out, stats)
        pieces.append(PackPiece(name=part.name, first_row=part.first_row, lines=stats.lines))
        return
    yield from _gathered(_PackDecoder(spec, out, stats, pieces).decode(parts))


class _PackDecoder:
    """Splits while they are decoded."""

    def __init__(
        self, spec: DecodeSpec, out: Violations, stats: DecodeStats, pieces: list[PackPiece]
    ) -> None:
        self._spec = spec
        self._out = out
        self._tally = stats
        self._pieces = pieces

    def decode(self, parts: Sequence[Split]) -> Iterator[Decoded]:
        for run in _runs(parts):
            found = self._together(run) if len(run) > 1 else None
            if found is None:
                for item in run:
                    yield from self._alone(item.split)
            else:
                yield from found

    def _alone(self, part: Split) -> Iterator[Decoded]:
        start = self._pieces[-1].stop if self._pieces else 0
        stats = DecodeStats()
        for found in decode(part, self._spec, _Shifted(self._out, start), stats):
            yield replace(found, lines=found.lines + start)
        self._add(part, stats.lines, start)
        self._count(stats)

    def _together(self, run: Sequence[_Small]) -> list[Decoded] | None:
        """The rows of small files; None if they have to be decoded file by file."""
        texts = [item.text for item in run if item.text is not None]
        first = run[0].split
        if len(texts) < len(run) or not isinstance(first, FileSplit):
            return None
        head = texts[0].head
        chunk = b"".join([head, *(text.body for text in texts)])
        scratch, stats = Violations(1), DecodeStats()
        found = list(decode_text(iter([chunk]), first.input, self._spec, scratch, stats))
        heads = 1 if head else 0
        ends = np.cumsum([text.lines for text in texts], dtype=np.int64)
        if scratch or stats.lines != heads + int(ends[-1]):
            return None
        starts = np.empty(len(run), np.int64)
        for number, (item, text) in enumerate(zip(run, texts, strict=True)):
            starts[number] = self._pieces[-1].stop if self._pieces else 0
            self._add(item.split, heads + text.lines, int(starts[number]))
        stats.bytes = sum(text.size for text in texts)
        self._count(stats)
        # From the number of a line among all of them to that in its file, and in the pack.
        shifts = starts - np.concatenate([[0], ends[:-1]])
        return [replace(each, lines=_shifted(each.lines, ends, shifts, heads)) for each in found]

    def _add(self, part: Split, lines: int, start: int) -> None:
        piece = PackPiece(name=part.name, first_row=part.first_row, lines=lines, start=start)
        self._pieces.append(piece)

    def _count(self, stats: DecodeStats) -> None:
        self._tally.lines += stats.lines
        self._tally.bytes += stats.bytes
        self._tally.rows += stats.rows


def _shifted(lines: Lines, ends: Lines, shifts: Lines, heads: int) -> Lines:
    found: Lines = lines + shifts[np.searchsorted(ends, lines - heads)]
    return found


class _Shifted(Violations):
    """Hands violations on, their lines as lines of the pack."""

    def __init__(self, out: Violations, start: int) -> None:
        super().__init__(out.kept_max)
        self._out = out
        self._start = start

    @property
    def described_max(self) -> int:
        return self._out.described_max

    def add_all(self, violations: Iterable[Violation], total: int) -> None:
        moved = violations
        if self._start:
            moved = [replace(item, line=self._start + (item.line or 0)) for item in violations]
        self._out.add_all(moved, total)


# -- small files -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Text:
    """The text of a small file that can follow that of another one.

    Attributes:
        head: The line that says what the others have; empty for NDJSON.
        body: The other lines, each with its newline.
        lines: How many those are.
        size: How many bytes were read.
    """

    head: bytes
    body: bytes
    lines: int
    size: int


@dataclass(frozen=True, slots=True)
class _Small:
    """A split, with its text if that can be decoded together with others."""

    split: Split
    text: _Text | None = None

    def goes_with(self, other: _Small) -> bool:
        """True if the text of the other one can follow this one's."""
        one, two = self.split, other.split
        if self.text is None or other.text is None or self.text.head != other.text.head:
            return False
        return (
            isinstance(one, FileSplit)
            and isinstance(two, FileSplit)
            and (one.input.format, one.input.type) == (two.input.format, two.input.type)
        )


def _runs(parts: Iterable[Split]) -> Iterator[list[_Small]]:
    """Neighbours that can be decoded together."""
    run: list[_Small] = []
    size = 0
    for item in _read(parts):
        if run and not (size < tuning.active.small_run_bytes and run[-1].goes_with(item)):
            yield run
            run, size = [], 0
        run.append(item)
        size += 0 if item.text is None else item.text.size
    if run:
        yield run


def _read(parts: Iterable[Split]) -> Iterator[_Small]:
    """Read small texts; those in object storage some at a time."""
    read = telemetry.carried(_small)
    with ThreadPoolExecutor(_REQUESTS_MAX, "omnigraph-small") as pool:
        for is_far, group in groupby(parts, _is_far):
            if is_far:
                while some := list(islice(group, 2 * _REQUESTS_MAX)):
                    yield from pool.map(read, some)
            else:
                yield from map(_small, group)


def _is_far(part: Split) -> bool:
    return _is_small(part) and isinstance(part, FileSplit) and is_remote(part.input.uri)


def _is_small(part: Split) -> bool:
    if not isinstance(part, FileSplit):
        return False
    item = part.input
    return (
        part.is_whole
        and item.format in _TEXTS
        and item.compression is Compression.NONE
        and item.size is not None
        and item.size <= tuning.active.small_file_bytes_max
    )


def _small(part: Split) -> _Small:
    if not isinstance(part, FileSplit) or not _is_small(part):
        return _Small(part)
    data = read_whole(part.input)
    if part.input.format is Format.NDJSON:
        return _Small(part, _lines_text(data))
    return _Small(part, _table_text(data))


def _lines_text(data: bytes) -> _Text:
    body = _ended(data.removeprefix(codecs.BOM_UTF8))
    return _Text(b"", body, body.count(_NEWLINE), len(data))


def _table_text(data: bytes) -> _Text | None:
    """The text of a CSV file; None if a line of it may be no row."""
    text = _ended(data.removeprefix(codecs.BOM_UTF8))
    if b'"' in text or text.count(b"\r") != text.count(b"\r\n"):
        return None
    end = text.find(_NEWLINE) + 1
    body = text[end:]
    return _Text(text[:end], body, body.count(_NEWLINE), len(data))


def _ended(data: bytes) -> bytes:
    return data if not data or data.endswith(_NEWLINE) else data + _NEWLINE


# -- fewer and larger tables -----------------------------------------------------------------------


def _gathered(found: Iterable[Decoded]) -> Iterator[Decoded]:
    """The same rows in fewer pieces, since every piece has a cost."""
    waiting: dict[tuple[str, str], list[Decoded]] = {}
    sizes: dict[tuple[str, str], tuple[int, int]] = {}
    for item in found:
        key = (item.entity.kind, item.entity.name)
        rows, size = sizes.get(key, (0, 0))
        waiting.setdefault(key, []).append(item)
        sizes[key] = rows, size = rows + len(item.lines), size + item.rows.nbytes
        if rows >= tuning.active.joined_rows or size >= tuning.active.joined_bytes:
            yield joined(waiting.pop(key))
            del sizes[key]
    for items in waiting.values():
        yield joined(items)
