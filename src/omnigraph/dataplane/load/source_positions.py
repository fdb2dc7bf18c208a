"""Positions in splits turned into files and lines, as violations name them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from omnigraph.core.layout import table_key
from omnigraph.dataplane.load.exchange import LINE, ids_channel, texts_of
from omnigraph.dataplane.load.receipt import ReadReceipt
from omnigraph.dataplane.source.model import SmallPieces
from omnigraph.dataplane.staging import Staging
from omnigraph.rules.violation import Rule, Violation


@dataclass(slots=True)
class _Pack:
    """The files that one task read, in columns.

    Attributes:
        names: The name of each.
        starts: What is added to the number of a line of it to get that in the pack.
        before: How many lines of the file come before.
    """

    names: list[str] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    before: list[int] = field(default_factory=list)

    def place(self, line: int) -> tuple[str, int | None]:
        """The file of a line, and its number there; None for the file as such."""
        at = bisect_right(self.starts, line) - 1
        within = line - self.starts[at]
        return self.names[at], within + self.before[at] if within else None


class SourcePositions:
    """The places of a load's files among the lines that its tasks read."""

    def __init__(self, receipts: Sequence[ReadReceipt]) -> None:
        """Count the lines; the receipts are in the order of the input."""
        self._packs: dict[str, _Pack] = {}
        after = 0
        for receipt in receipts:
            pack = self._packs[receipt.label] = _Pack()
            for piece in receipt.pieces:
                if isinstance(piece, SmallPieces):
                    pack.names += piece.names
                    pack.starts += piece.starts.tolist()
                    pack.before += [0] * len(piece.names)
                    after = int(piece.lines[-1])
                    continue
                pack.names.append(piece.name)
                pack.starts.append(piece.start)
                pack.before.append(after if piece.first_row is None else piece.first_row - 1)
                after = pack.before[-1] + piece.lines

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
