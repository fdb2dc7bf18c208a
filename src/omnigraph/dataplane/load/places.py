"""From splits and lines within them to files and lines: what a violation says in the end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from omnigraph.core.layout import table_key
from omnigraph.dataplane.load.exchange import KEY, LINE, ids_channel
from omnigraph.dataplane.load.receipt import ReadReceipt
from omnigraph.dataplane.staging import Staging
from omnigraph.rules.violation import Rule, Violation, Violations


@dataclass(frozen=True, slots=True)
class _Piece:
    """A split: what it is a piece of, and how many lines of that come before it."""

    name: str
    before: int


class Places:
    """Where the splits of a load begin."""

    def __init__(self, receipts: Sequence[ReadReceipt]) -> None:
        """Count the lines; the receipts are in the order of the input."""
        self._pieces: dict[str, _Piece] = {}
        after = 0
        for receipt in receipts:
            before = after if receipt.first_row is None else receipt.first_row - 1
            self._pieces[receipt.label] = _Piece(receipt.name, before)
            after = before + receipt.lines

    def shown(self, violation: Violation) -> Violation:
        """A violation that names a split and a line of it, as it names a file and a line."""
        piece = self._pieces.get(violation.file or "")
        if piece is None:
            return replace(violation, file=None, line=None)
        line = None if violation.line is None else violation.line + piece.before
        return replace(violation, file=piece.name, line=line)


def relabelled(found: Violations, label: str) -> Violations:
    """Violations of one split, whose name sorts as the splits do."""
    out = Violations(found.kept_max)
    out.add_all([replace(item, file=label) for item in found.items], found.total)
    return out


def named_edges(found: Violations, receipts: Iterable[ReadReceipt], staging: Staging) -> Violations:
    """Give edges that lead nowhere the ids that the input gives them.

    Whoever judges an end sees no more of an edge than that end; its id is in another partition.
    """
    nameless: dict[str, dict[str, set[int]]] = {}
    for item in found.items:
        if item.rule is Rule.ENDPOINT and item.id is None and item.file and item.line:
            channel = ids_channel(table_key("edge", str(item.type_name)))
            nameless.setdefault(item.file, {}).setdefault(channel, set()).add(item.line)
    if not nameless:
        return found
    names: dict[tuple[str, int], str] = {}
    for receipt in receipts:
        label = receipt.label
        wanted = nameless.get(label, {})
        for _, parcel in receipt.parcels:
            channels = wanted.keys() & parcel.rows.keys()
            for channel, rows in staging.get(parcel, channels).items() if channels else ():
                names.update(_names(label, rows, wanted[channel]))
    return _renamed(found, names)


def _names(label: str, rows: pa.Table, lines: set[int]) -> Mapping[tuple[str, int], str]:
    known = rows.column(LINE).to_numpy()
    at = np.flatnonzero(np.isin(known, np.fromiter(lines, np.int64)))
    ids = rows.column(KEY).take(pa.array(at)).to_pylist()
    return {(label, int(known[row])): id_ for row, id_ in zip(at.tolist(), ids, strict=True)}


def _renamed(found: Violations, names: Mapping[tuple[str, int], str]) -> Violations:
    out = Violations(found.kept_max)
    items = [
        replace(item, id=names.get((item.file or "", item.line or 0), item.id))
        if item.rule is Rule.ENDPOINT and item.id is None
        else item
        for item in found.items
    ]
    out.add_all(items, found.total)
    return out
