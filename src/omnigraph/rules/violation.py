"""Violations of rules, and the bounded list in which a writer collects them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from omnigraph.errors import Code, ConstraintViolated, JsonValue
from omnigraph.lang.catalog.model import EntityKind

KEPT_VIOLATIONS_MAX: Final = 1000

# The file and the line that a row of the input came from. Later rows come from later places.
Origin: TypeAlias = Callable[[int], tuple[str, int]]


class Rule(StrEnum):
    """The rules that data can break, in the order in which they are judged."""

    SYNTAX = "syntax"  # not one entity in the form of the input
    FIELD = "field"  # a field that is unknown, or given twice
    REQUIRED = "required"
    TYPE = "type"
    ENUM = "enum"
    RANGE = "range"
    CHECK = "check"
    VECTOR_LENGTH = "vector_length"
    FINITE = "finite"
    KEY = "key"
    UNIQUE = "unique"
    ENDPOINT = "endpoint"
    CARDINALITY = "cardinality"


_ORDER: Final = {rule: number for number, rule in enumerate(Rule)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One place where data breaks a rule.

    Attributes:
        rule: What is broken.
        kind: Whether a node type or an edge type declares the rule; None when that is unclear.
        type_name: The type that declares it; None when the data does not say.
        id: The entity; the source node for a broken cardinality; None while it has no id.
        properties: The properties that the rule is about, `src` and `dst` among them.
        value: What was found, as JSON can say it and not longer than a reader needs.
        message: The whole in words.
        file: Where the data came from, when it came from a file.
        line: The line in that file.
        holder: Of a value that is to be unique, the other entity that has it.
    """

    rule: Rule
    kind: EntityKind | None
    type_name: str | None
    id: str | None
    properties: tuple[str, ...]
    value: JsonValue
    message: str
    file: str | None = None
    line: int | None = None
    holder: str | None = None

    @property
    def rank(self) -> tuple[str, int, bool, str, str, int, tuple[str, ...], str]:
        """The sort key of violations: the place in the input, then the entity, then the rule."""
        return (
            self.file or "",
            self.line or 0,
            self.kind == "edge",
            self.type_name or "",
            self.id or "",
            _ORDER[self.rule],
            self.properties,
            self.message,
        )

    def as_json(self) -> dict[str, JsonValue]:
        """The violation in plain values."""
        return {
            "rule": self.rule.value,
            "kind": self.kind,
            "type": self.type_name,
            "id": self.id,
            "properties": list(self.properties),
            "value": self.value,
            "message": self.message,
            "file": self.file,
            "line": self.line,
        }


class Violations:
    """Counts every violation and keeps the first of them in the order of `Violation.rank`.

    What is kept does not depend on the order of arrival, so writers that split their work agree.
    A collector can be pickled and merged into another one.
    """

    def __init__(self, kept_max: int = KEPT_VIOLATIONS_MAX) -> None:
        self.kept_max: Final = kept_max
        self._total = 0
        self._kept: list[Violation] = []

    @property
    def described_max(self) -> int:
        """The number of violations that are described in full; others are counted."""
        return self.kept_max

    @property
    def total(self) -> int:
        """The number of violations, kept or not."""
        return self._total

    @property
    def items(self) -> tuple[Violation, ...]:
        """The kept ones, sorted."""
        self._shrink()
        return tuple(self._kept)

    def __bool__(self) -> bool:
        return self._total > 0

    def add(self, violation: Violation) -> None:
        """Count a violation, and keep it if it is among the first."""
        self.add_all((violation,), 1)

    def add_all(self, violations: Iterable[Violation], total: int) -> None:
        """Count `total` violations, of which those given are the first.

        A rule that finds more than `kept_max` describes that many and counts the others.
        """
        self._total += total
        self._kept.extend(violations)
        if len(self._kept) > 2 * self.kept_max:
            self._shrink()

    def merge(self, other: Violations) -> None:
        """Take over what another collector found."""
        self.add_all(other.items, other.total)

    def raise_if_any(self, shown: Sequence[Violation] | None = None) -> None:
        """Refuse the data if anything was found.

        Args:
            shown: What to show instead of the kept violations.

        Raises:
            ConstraintViolated: With the kept violations and their total number as details.
        """
        if not self:
            return
        items = self.items if shown is None else shown
        text = items[0].message if items else "the data breaks rules of the schema"
        if self._total > 1:
            text = f"{self._total} violations, the first: {text}"
        raise ConstraintViolated(
            Code.CONSTRAINT_VIOLATED,
            text,
            violations=[item.as_json() for item in items],
            total=self._total,
        )

    def _shrink(self) -> None:
        self._kept.sort(key=lambda item: item.rank)
        del self._kept[self.kept_max :]
