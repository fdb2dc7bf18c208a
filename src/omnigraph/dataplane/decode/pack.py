"""Decodes many small splits together, at the cost of one.

Texts of small files are put together and decoded as one. If anything in them breaks a rule, they
are decoded again, file by file, so that what is reported does not depend on the neighbours.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, TypeAlias

import numpy as np

from omnigraph.dataplane import tuning
from omnigraph.dataplane.decode.dispatch import decode, decode_text
from omnigraph.dataplane.decode.model import Decoded, DecodeSpec, DecodeStats, joined
from omnigraph.dataplane.source.model import (
    FileSplit,
    Format,
    PackPiece,
    Pieces,
    Places,
    SmallFiles,
    SmallPieces,
    Split,
)
from omnigraph.dataplane.source.paths import is_remote, read_whole
from omnigraph.rules.violation import Violation, Violations
from omnigraph.runtime import telemetry

_REQUESTS_MAX: Final = 16  # requests to object storage
_NEWLINE: Final = b"\n"


def decode_pack(
    parts: Sequence[Split | SmallFiles],
    spec: DecodeSpec,
    out: Violations,
    stats: DecodeStats,
    pieces: list[Pieces],
) -> Iterator[Decoded]:
    """Decode splits one after the other; lines are numbered through all of them.

    Args:
        parts: The splits.
        spec: What there may be.
        out: Takes the violations.
        stats: Counts bytes and rows.
        pieces: Receives the places of the lines of each split, once it is read.

    Raises:
        NotFound: A file is not there any more.
        Conflict: A file has changed.
        Unavailable: Storage failed.
    """
    if len(parts) == 1 and not isinstance(part := parts[0], SmallFiles):
        yield from decode(part, spec, out, stats)
        pieces.append(PackPiece(name=part.name, first_row=part.first_row, lines=stats.lines))
        return
    yield from _gathered(_PackDecoder(spec, out, stats, pieces).decode(parts))


class _PackDecoder:
    """Splits while they are decoded."""

    def __init__(
        self, spec: DecodeSpec, out: Violations, stats: DecodeStats, pieces: list[Pieces]
    ) -> None:
        self._spec = spec
        self._out = out
        self._tally = stats
        self._pieces = pieces

    def decode(self, parts: Sequence[Split | SmallFiles]) -> Iterator[Decoded]:
        for part in parts:
            if isinstance(part, SmallFiles):
                yield from self._small(part)
            else:
                yield from self._alone(part)

    @property
    def _stop(self) -> int:
        return self._pieces[-1].stop if self._pieces else 0

    def _alone(self, part: Split) -> Iterator[Decoded]:
        start, stats = self._stop, DecodeStats()
        for found in decode(part, self._spec, _Shifted(self._out, start), stats):
            yield replace(found, lines=found.lines + start)
        lines, first = stats.lines, part.first_row
        self._pieces.append(PackPiece(name=part.name, first_row=first, lines=lines, start=start))
        self._count(stats)

    def _small(self, files: SmallFiles) -> Iterator[Decoded]:
        for run in _runs(files):
            found = self._together(files, run) if len(run.bodies) > 1 else None
            if found is not None:
                yield from found
                continue
            for at in range(run.start, run.stop):
                yield from self._alone(FileSplit(number=at, input=files.file(at), first_row=1))

    def _together(self, files: SmallFiles, run: _TextRun) -> list[Decoded] | None:
        """The rows of small files; None if they have to be decoded file by file."""
        chunk = b"".join([run.head, *run.bodies])
        scratch, stats = Violations(1), DecodeStats()
        found = list(decode_text(iter([chunk]), files.like, self._spec, scratch, stats))
        heads = 1 if run.head else 0
        lines = np.array([body.count(_NEWLINE) for body in run.bodies], np.int64)
        ends = np.cumsum(lines)
        if scratch or stats.lines != heads + int(ends[-1]):
            return None
        names = files.names[run.start : run.stop]
        piece = SmallPieces(names=names, lines=heads + lines, start=self._stop)
        self._pieces.append(piece)
        stats.bytes = sum(files.sizes[run.start : run.stop])
        self._count(stats)
        # From the number of a line among all of them to that in its file, and in the pack.
        shifts = piece.starts - (ends - lines)
        return [replace(each, lines=_shifted(each.lines, ends, shifts, heads)) for each in found]

    def _count(self, stats: DecodeStats) -> None:
        self._tally.lines += stats.lines
        self._tally.bytes += stats.bytes
        self._tally.rows += stats.rows


def _shifted(lines: Places, ends: Places, shifts: Places, heads: int) -> Places:
    found: Places = lines + shifts[np.searchsorted(ends, lines - heads)]
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


_Text: TypeAlias = tuple[bytes, bytes]  # the line that says what the others have, and the others


@dataclass(slots=True)
class _TextRun:
    """Small files that follow each other and can be decoded together.

    Attributes:
        start: The first of them.
        head: The line that says what the others have; empty for NDJSON.
        bodies: The other lines of each file, each line with its newline; none if the file has to
            be decoded by itself.
    """

    start: int
    head: bytes = b""
    bodies: list[bytes] = field(default_factory=list)

    @property
    def stop(self) -> int:
        """The file that follows."""
        return self.start + max(1, len(self.bodies))


def _runs(files: SmallFiles) -> Iterator[_TextRun]:
    run, size = _TextRun(0), 0
    for at, text in enumerate(_texts(files)):
        if text is None or size >= tuning.active.small_run_bytes or text[0] != run.head:
            if run.bodies:
                yield run
            if text is None:
                yield _TextRun(at)
                run, size = _TextRun(at + 1), 0
                continue
            run, size = _TextRun(at, text[0]), 0
        run.bodies.append(text[1])
        size += len(text[1])
    if run.bodies:
        yield run


def _texts(files: SmallFiles) -> Iterator[_Text | None]:
    """Read small files; those in object storage some at a time. None where a line may be no row."""
    text = _lines_text if files.like.format is Format.NDJSON else _table_text
    columns = files.names, files.uris, files.sizes, files.modified_ns
    if not is_remote(files.like.uri):
        yield from (text(read_whole(files.like, *each)) for each in zip(*columns, strict=True))
        return
    read = telemetry.carried(partial(read_whole, files.like))
    with ThreadPoolExecutor(_REQUESTS_MAX, "omnigraph-small") as pool:
        for start in range(0, len(files.uris), 2 * _REQUESTS_MAX):
            some = (column[start : start + 2 * _REQUESTS_MAX] for column in columns)
            yield from map(text, pool.map(read, *some))


def _lines_text(data: bytes) -> _Text:
    return b"", _ended(data.removeprefix(codecs.BOM_UTF8))


def _table_text(data: bytes) -> _Text | None:
    """The text of a CSV file; None if a line of it may be no row."""
    text = _ended(data.removeprefix(codecs.BOM_UTF8))
    if b'"' in text or text.count(b"\r") != text.count(b"\r\n"):
        return None
    end = text.find(_NEWLINE) + 1
    return text[:end], text[end:]


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
