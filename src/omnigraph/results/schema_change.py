"""A change of the schema, done or only planned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from omnigraph.errors import JsonValue
from omnigraph.results.commits import Commit

if TYPE_CHECKING:
    # A client of a server has no plan, and does not wait for the compiler.
    from omnigraph.lang.catalog.migrate import MigrationPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaChange:
    """A change of the schema, done or only planned.

    Attributes:
        supported: Whether it can be applied at all; `steps` say what stands in the way.
        steps: What it consists of, each as plain values: `kind`, the type or property, `tier`
            (`safe`, `validated`, `destructive` or `refused`), `touches_data` and details.
        notes: What looks like a slip in the schema, though it can be applied.
        rows: How many rows the types have that steps are about, by type (`node:Person`).
        violations: Stored rows that break a rule which the schema adds; only a plan has any.
        violation_count: The number of all of them, listed or not.
        broken_queries: What the given queries would say to the new schema, by file: their errors.
        commit: The commit that it made; None for a plan, and when the schema was in force already.
        replayed: An earlier call with the same idempotency key had done it already; this is what
            it did.
        migration: The plan that the steps come from; None if a server made it, or an earlier call.
    """

    supported: bool
    steps: tuple[Mapping[str, JsonValue], ...]
    notes: tuple[str, ...] = ()
    rows: Mapping[str, int]
    violations: tuple[Mapping[str, JsonValue], ...] = ()
    violation_count: int = 0
    broken_queries: Mapping[str, tuple[str, ...]]
    commit: Commit | None = None
    replayed: bool = False
    migration: MigrationPlan | None = field(default=None, repr=False)

    @property
    def can_be_applied(self) -> bool:
        """True if nothing stands in the way: no refused step and no stored row."""
        return self.supported and not self.violation_count
