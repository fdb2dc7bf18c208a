"""Positions in splits turned into files and lines, as violations name them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from omnigraph.core.layout import table_key
from omnigraph.dataplane.load.exchange import LINE, ids_channel, texts_of
from omnigraph.dataplane.load.receipt import ReadReceipt
from omnigraph.dataplane.source.model import PackPiece
from omnigraph.dataplane.staging import Staging
from omnigraph.rules.violation import Rule, Violation


class _Pack:
    """The pieces that one task read, and how many lines of their files come before each."""

    def __init__(self, pieces: Sequence[PackPiece], before: Sequence[int]) -> None:
        self._pieces = pieces
        self._before = before
        self._starts = [piece.start for piece in pieces]

    def place(self, line: int) -> tuple[str, int | None]:
        """The file of a line, and its number there; None for the file as such."""
        at = bisect_right(self._starts, line) - 1
        within = line - self._starts[at]
        return self._pieces[at].name, within + self._before[at] if within else None


class SourcePositions:
    """The places of a load's files among the lines that its tasks read."""

    def __init__(self, receipts: Sequence[ReadReceipt]) -> None:
        """Count the lines; the receipts are in the order of the input."""
        self._packs: dict[str, _Pack] = {}
        after = 0
        for receipt in receipts:
            before: list[int] = []
            for piece in receipt.pieces:
                before.append(after if piece.first_row is None else piece.first_row - 1)
                after = before[-1] + piece.lines
            self._packs[receipt.label] = _Pack(receipt.pieces, before)

    def shown(self, violation: Violation) -> Violation:
        """A violation that names a split and a line of it, as it names a file and a line."""
        pack = self._packs.get(violation.file or "")
        if pack is None:
            return replace(violation, file=None, line=None)
        file, line = pack.place(violation.line or 0)
        return replace(violation, file=file, line=line)


def named(
    violations: Sequence[Violation], receipts: Iterable[ReadReceipt], staging: Staging
) -> list[Violation]:
    """Give edges that lead nowhere the ids that the input gives them; sorted.

    The task that judges an end sees only that end of an edge; its id is in another partition.
    """
    nameless: dict[str, dict[str, set[int]]] = {}
    for item in violations:
        if _is_nameless(item):
            channel = ids_channel(table_key("edge", str(item.type_name)))
            lines = nameless.setdefault(str(item.file), {}).setdefault(channel, set())
            lines.add(item.line or 0)
    names: dict[tuple[str, int], str] = {}
    for receipt in receipts if nameless else ():
        wanted = nameless.get(receipt.label, {})
        for _, staged_part in receipt.staged_parts:
            channels = wanted.keys() & staged_part.rows.keys()
            for channel, rows in staging.get(staged_part, channels).items() if channels else ():
                names.update(_names(receipt.label, rows, wanted[channel]))
    return sorted(_renamed(violations, names), key=lambda item: item.rank)


def _is_nameless(item: Violation) -> bool:
    return item.rule is Rule.ENDPOINT and item.id is None and bool(item.file)


def _names(label: str, rows: pa.Table, lines: set[int]) -> Mapping[tuple[str, int], str]:
    known = rows.column(LINE).to_numpy()
    at = np.flatnonzero(np.isin(known, np.fromiter(lines, np.int64)))
    ids = texts_of([rows.take(pa.array(at))]).to_pylist()
    return {(label, int(known[row])): id_ for row, id_ in zip(at.tolist(), ids, strict=True)}


def _renamed(
    violations: Sequence[Violation], names: Mapping[tuple[str, int], str]
) -> Iterator[Violation]:
    for item in violations:
        name = names.get((item.file or "", item.line or 0)) if _is_nameless(item) else None
        yield item if name is None else replace(item, id=name)
