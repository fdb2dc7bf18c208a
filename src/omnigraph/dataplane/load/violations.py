"""The violations of a load: the first of them for the error; if wanted, all of them for a file.

There may be many if all of them are wanted. Then each task puts what it finds aside, sorted, piece
by piece; in the end the pieces are merged, and no more than one split's are in memory at a time.
"""

from __future__ import annotations

import heapq
import json
import os
import pickle
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import groupby
from typing import Final, TextIO

import pyarrow as pa

from omnigraph.dataplane.load.exchange import split_label
from omnigraph.dataplane.load.plan import LoadPlan
from omnigraph.dataplane.load.receipt import ReadReceipt
from omnigraph.dataplane.load.source_positions import SourcePositions, named
from omnigraph.dataplane.staging import StagedPart, Staging
from omnigraph.errors import Code, InvalidInput, Unavailable
from omnigraph.rules.violation import Violation, Violations

_PIECE_VIOLATIONS: Final = 1 << 14
_TABLE: Final = "violations"


class LoadViolations(Violations):
    """The violations of one task, or of all together. Picklable once it is `settled`."""

    def __init__(self, kept_max: int, staging: Staging | None, label: str | None = None) -> None:
        """Keep the first; put all aside if there is a staging area; name every place so."""
        super().__init__(kept_max)
        self._staging = staging
        self._label = label
        self._waiting: list[Violation] = []
        self._pieces: list[StagedPart] = []

    @property
    def described_max(self) -> int:
        """The number of rows that break a rule and are described."""
        return self.kept_max if self._staging is None else sys.maxsize

    def add_all(self, violations: Iterable[Violation], total: int) -> None:
        """Count some violations; those given are the first, or all of them."""
        told = list(violations)
        if self._label is not None:
            told = [replace(item, file=self._label) for item in told]
        super().add_all(told, total)
        if self._staging is not None:
            self._waiting += told
            if len(self._waiting) >= _PIECE_VIOLATIONS:
                self.settled()

    def merge(self, other: Violations) -> None:
        """Take over what another collector found, and what it has put aside."""
        if not isinstance(other, LoadViolations):
            super().merge(other)
            return
        other.settled()
        super().add_all(other.items, other.total)
        self._pieces += other._pieces

    def settled(self) -> LoadViolations:
        """Put aside what is still in memory."""
        if self._staging is not None and self._waiting:
            ordered = sorted(self._waiting, key=lambda item: item.rank)
            texts = pa.array([pickle.dumps(item) for item in ordered], pa.large_binary())
            self._pieces.append(self._staging.put({_TABLE: pa.table({_TABLE: texts})}))
            self._waiting = []
        return self

    def all(self) -> Iterator[Violation]:
        """Everything that was put aside, in order."""
        self.settled()
        runs = [self._read(piece) for piece in self._pieces]
        return heapq.merge(*runs, key=lambda item: item.rank)

    def _read(self, piece: StagedPart) -> Iterator[Violation]:
        assert self._staging is not None
        for batch in self._staging.get(piece)[_TABLE].to_batches():
            for value in batch.column(0):
                yield pickle.loads(value.as_py())


def collector(plan: LoadPlan, split: int | None = None) -> LoadViolations:
    """An empty collector for a task of a load; for a task that reads one split, with its name."""
    label = None if split is None else split_label(split)
    return LoadViolations(plan.violations_max, plan.staging if plan.tells_all else None, label)


def open_file(path: str) -> TextIO:
    """Begin a local file of violations.

    Raises:
        InvalidInput: It cannot be written.
    """
    try:
        return open(path, "w", encoding="utf-8")
    except OSError as error:
        text = f"violations cannot be written to {path}: {error.strerror}"
        raise InvalidInput(Code.INPUT_INVALID, text, path=path) from error


def write_all(
    path: str,
    found: LoadViolations,
    places: SourcePositions,
    receipts: Sequence[ReadReceipt],
    staging: Staging,
) -> None:
    """Write all violations to a local file, one JSON object per line, in the order of the input.

    Raises:
        InvalidInput: The file cannot be opened.
        Unavailable: The disk is full, or failed. No part of the file is left.
    """
    file = open_file(path)
    try:
        with file:
            for line in _lines(found, places, receipts, staging):
                file.write(line)
    except OSError as error:
        with suppress(OSError):
            os.unlink(path)
        text = (
            f"{found.total:,} violations were found, nothing was loaded; the list of them cannot "
            f"be written to {path}: {error.strerror}"
        )
        raise Unavailable(Code.UNAVAILABLE, text, place=path, violations=found.total) from error


def _lines(
    found: LoadViolations,
    places: SourcePositions,
    receipts: Sequence[ReadReceipt],
    staging: Staging,
) -> Iterator[str]:
    for label, group in groupby(found.all(), key=lambda item: item.file or ""):
        own = [receipt for receipt in receipts if receipt.label == label]
        for item in named(tuple(group), own, staging):
            text = json.dumps(places.shown(item).as_json(), ensure_ascii=False)
            yield f"{text}\n"
