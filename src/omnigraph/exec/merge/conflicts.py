"""Conflicts of a merge, and how they are settled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import Any, Final, Literal, TypeAlias

from omnigraph.errors import Code, Conflict, InvalidInput, JsonValue

Side = Literal["ours", "theirs"]
SIDES: Final = ("ours", "theirs")
Image: TypeAlias = Mapping[str, Any]
# The most conflicts that an error lists; all of them are counted.
LISTED_MAX: Final = 1_000


class ConflictKind(StrEnum):
    """The kinds of conflicts."""

    DIVERGENT_INSERT = "divergent_insert"
    DIVERGENT_UPDATE = "divergent_update"
    DELETE_VS_UPDATE = "delete_vs_update"
    ORPHAN_EDGE = "orphan_edge"
    UNIQUE_VIOLATION = "unique_violation"
    CARDINALITY_VIOLATION = "cardinality_violation"
    VALUE_CONSTRAINT_VIOLATION = "value_constraint_violation"


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeConflict:
    """One point at which two branches disagree.

    Attributes:
        kind: What it is, one of `ConflictKind`.
        entity_kind: `node` or `edge`.
        type: The type of the entity.
        id: Its id.
        properties: The properties that the conflict is about; empty when it is about the entity.
        message: The whole in words.
        base: The values at the merge base; None when the entity was not there.
        ours: The values on the branch that is merged into; None when the entity is not there.
        theirs: The values on the branch that is merged.
    """

    kind: ConflictKind
    entity_kind: str
    type: str
    id: str | None
    properties: tuple[str, ...]
    message: str
    base: Image | None = None
    ours: Image | None = None
    theirs: Image | None = None

    def as_json(self) -> dict[str, JsonValue]:
        """The conflict in plain values."""
        return {
            "kind": self.kind.value,
            "entity_kind": self.entity_kind,
            "type_name": self.type,
            "entity_id": self.id,
            "properties": list(self.properties),
            "message": self.message,
            "base": _plain(self.base),
            "ours": _plain(self.ours),
            "theirs": _plain(self.theirs),
        }


def _plain(value: object) -> JsonValue:
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, date):
        return value.isoformat()
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return str(value)


# Says which side a conflict is settled by; None leaves it as it is.
Resolve = Callable[[MergeConflict], Side | None]


def unsettled(_: MergeConflict) -> None:
    """Settle no conflict."""


def resolver(given: object) -> Resolve:
    """Returns the resolver that a caller asks for: a side, a function, or None for nothing.

    Raises:
        InvalidInput: It is neither.
    """
    if given is None:
        return unsettled
    if given in SIDES:
        side: Side = "ours" if given == "ours" else "theirs"
        return lambda _: side
    if callable(given):
        return _checked(given)
    text = f"conflicts are resolved by 'ours', 'theirs' or a function, not by {given!r:.80}"
    raise InvalidInput(Code.INPUT_INVALID, text)


def _checked(function: Callable[[MergeConflict], object]) -> Resolve:
    def resolve(conflict: MergeConflict) -> Side | None:
        answer = function(conflict)
        if answer is None or answer in SIDES:
            return answer
        text = f"resolve answers 'ours', 'theirs' or None, not {answer!r:.80}"
        raise InvalidInput(Code.INPUT_INVALID, text)

    return resolve


def refused(what: str, conflicts: tuple[MergeConflict, ...]) -> Conflict:
    """The error of an operation that has conflicts. Nothing has changed."""
    count = len(conflicts)
    number = "1 conflict" if count == 1 else f"{count:,} conflicts"
    first = conflicts[0].message
    text = (
        f"{what} gives {number}, the first: {first}; settle them with `resolve=`, or look at all "
        "of them with `dry_run=True`"
    )
    listed: list[JsonValue] = [item.as_json() for item in conflicts[:LISTED_MAX]]
    return Conflict(Code.MERGE_CONFLICT, text, conflicts=listed, total=count)
