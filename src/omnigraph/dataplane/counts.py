"""Numbers of entities that a load, a diff or a merge touched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from omnigraph.errors import JsonValue


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """The numbers of entities of one type that a load touched."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeCounts:
    """Numbers of changed entities."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0

    @classmethod
    def of(cls, numbers: JsonValue) -> ChangeCounts:
        """The counts that a commit has recorded: inserted, updated, deleted."""
        listed = numbers if isinstance(numbers, Sequence) else ()
        found = [each if isinstance(each, int) else 0 for each in listed]
        inserted, updated, deleted = found
        return cls(inserted=inserted, updated=updated, deleted=deleted)

    @property
    def total(self) -> int:
        """The number of all changed entities."""
        return self.inserted + self.updated + self.deleted

    def __add__(self, other: ChangeCounts) -> ChangeCounts:
        return ChangeCounts(
            inserted=self.inserted + other.inserted,
            updated=self.updated + other.updated,
            deleted=self.deleted + other.deleted,
        )
