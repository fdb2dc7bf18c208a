"""Receipts: the results of the tasks of a load. Small, picklable, and all that is known of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from omnigraph.dataplane.load.deletions import StagedDeletions
from omnigraph.dataplane.load.exchange import Placed, split_label
from omnigraph.dataplane.load.fingerprint import NOTHING, Fingerprint
from omnigraph.dataplane.source.model import Pieces
from omnigraph.dataplane.staging import StagedPart
from omnigraph.embed.missing import MissingVectors
from omnigraph.rules.violation import Violations
from omnigraph.store.tables import FragmentReceipt

Fragments = Mapping[str, tuple[FragmentReceipt, ...]]  # by table key


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadReceipt:
    """The result of a task that reads splits.

    Attributes:
        split: The number of what was read; the order of numbers is the order of the input.
        pieces: The files that it is made of, or a piece of.
        bytes: How many bytes of the files were read.
        present: Per table key, how many rows were decoded.
        fragments: What was written.
        spilled: Rows that wait for a look at the committed ones, piece by piece.
        staged_parts: What the exchange has to know, and in which partition.
        partitions: Into how many partitions that was divided.
        violations: What breaks a rule, with the line within the split.
        missing: Vectors that were left null for want of a provider.
        fingerprint: Of the rows as the input gives them, if the plan asks for it.
    """

    split: int
    pieces: tuple[Pieces, ...]
    bytes: int
    present: Mapping[str, int]
    fragments: Fragments
    spilled: tuple[StagedPart, ...]
    staged_parts: tuple[Placed, ...]
    partitions: int
    violations: Violations
    missing: tuple[MissingVectors, ...] = ()
    fingerprint: Fingerprint = NOTHING

    @property
    def label(self) -> str:
        """The name that stands for the file in violations until all splits are counted."""
        return split_label(self.split)

    @property
    def rows(self) -> int:
        """The number of rows that were decoded."""
        return sum(self.present.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanReceipt:
    """The keys that reading committed rows gave to the exchange."""

    staged_parts: tuple[Placed, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchReceipt:
    """The rows of a merge that are known entities: per split, one table by table key."""

    staged_parts: tuple[tuple[int, StagedPart], ...]
    violations: Violations


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteReceipt:
    """The result of finishing the rows of one split of a merge.

    Attributes:
        fragments: What was written, new rows and new images of known ones.
        dead: The addresses of the old copies.
        staged_parts: What the exchange has to know of the final images.
        violations: What breaks a rule.
        missing: Vectors that were left null for want of a provider.
    """

    fragments: Fragments
    dead: tuple[StagedDeletions, ...] = ()
    staged_parts: tuple[Placed, ...] = ()
    violations: Violations
    missing: tuple[MissingVectors, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanReceipt:
    """The effect of replacing nodes on edges that stay.

    Attributes:
        violations: The edges that lose an end, unless they are to go.
        dead: The addresses of the edges that go; one that loses both ends may be named twice.
        staged_parts: The sources that they leave behind.
    """

    violations: Violations
    dead: tuple[StagedDeletions, ...]
    staged_parts: tuple[Placed, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeReceipt:
    """The result of judging partitions."""

    violations: Violations
