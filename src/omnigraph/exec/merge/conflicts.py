"""Conflicts of a merge, and how they are settled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from enum import StrEnum
from typing import Any, Final, Literal, TypeAlias

from omnigraph.errors import Code, Conflict, InvalidInput, JsonValue

Side = Literal["ours", "theirs"]
SIDES: Final = ("ours", "theirs")
Image: TypeAlias = Mapping[str, Any]
# A side or the merge base, of which the state is taken, or values for properties.
Choice: TypeAlias = Literal["ours", "theirs", "base"] | Mapping[str, Any]
# The most conflicts that an error lists; all of them are counted.
LISTED_CONFLICTS_MAX: Final = 1_000


class ConflictKind(StrEnum):
    """The kinds of conflicts."""

    DIVERGENT_INSERT = "divergent_insert"
    DIVERGENT_UPDATE = "divergent_update"
    DELETE_VS_UPDATE = "delete_vs_update"
    ORPHAN_EDGE = "orphan_edge"
    UNIQUE_VIOLATION = "unique_violation"
    CARDINALITY_VIOLATION = "cardinality_violation"
    VALUE_CONSTRAINT_VIOLATION = "value_constraint_violation"


# The choices that can settle a conflict, where not all of them can.
_CHOICES: Final = {
    ConflictKind.ORPHAN_EDGE: SIDES,
    ConflictKind.CARDINALITY_VIOLATION: SIDES,
}
_ALL_CHOICES: Final = ("ours", "theirs", "base", "value")


ConflictKey: TypeAlias = tuple[str, str, str, str | None, tuple[str, ...]]


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

    Of a broken cardinality, `id` is the source, and `ours` and `theirs` name the edges that each
    side has inserted and deleted there.
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

    @property
    def choices(self) -> tuple[str, ...]:
        """The choices that can settle it: `ours`, `theirs`, `base`, a `value` of properties."""
        return _CHOICES.get(self.kind, _ALL_CHOICES)

    @property
    def key(self) -> ConflictKey:
        """The name of the conflict among those of one merge."""
        return self.kind.value, self.entity_kind, self.type, self.id, self.properties

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


# Says what a conflict is settled by; None leaves it as it is.
Resolve = Callable[[MergeConflict], Choice | None]


def unsettled(_: MergeConflict) -> None:
    """Settle no conflict."""


class Resolving:
    """The resolutions of one merge: asks about each conflict, and keeps the answers."""

    def __init__(
        self, resolve: Resolve, place: Callable[[MergeConflict], str] = lambda _: "resolve"
    ) -> None:
        """Ask `resolve`; `place` says where an answer stands, for errors."""
        self._resolve = resolve
        self.place = place
        self._by_entity: dict[tuple[str, str, str | None], Choice] = {}
        self._answered: set[tuple[ConflictKey, str]] = set()
        self.settled: dict[ConflictKey, tuple[MergeConflict, Choice]] = {}

    def __call__(self, conflict: MergeConflict) -> Choice | None:
        """Returns the choice that settles a conflict; None for one that nothing settles.

        A conflict that comes back as it was is left: the answer did not settle it. One may come
        back about something else, such as the other end of an edge.

        Raises:
            InvalidInput: The answer is none that can settle it.
        """
        if (conflict.key, conflict.message) in self._answered:
            return None
        choice = self._resolve(conflict)
        if choice is None:
            return None
        self._answered.add((conflict.key, conflict.message))
        name = "value" if isinstance(choice, Mapping) else choice
        if name not in conflict.choices:
            known = ", ".join(conflict.choices)
            raise self.refused(conflict, f"{name!r} does not settle it; choose one of: {known}")
        self.settled[conflict.key] = conflict, choice
        self._by_entity[conflict.entity_kind, conflict.type, conflict.id] = choice
        return choice

    def again(self, conflict: MergeConflict) -> Choice | None:
        """Returns the choice that settled another conflict about the same entity."""
        return self._by_entity.get((conflict.entity_kind, conflict.type, conflict.id))

    def left(self, conflict: MergeConflict) -> MergeConflict:
        """Returns a conflict that is left, with the choice that did not settle it, if any."""
        _, choice = self.settled.pop(conflict.key, (conflict, None))
        if choice is None:
            return conflict
        name = choice if isinstance(choice, str) else "value"
        return replace(conflict, message=f"{conflict.message}, with the choice '{name}', too")

    def refused(self, conflict: MergeConflict, reason: str) -> InvalidInput:
        """The error about an answer that does not fit its conflict."""
        text = f"{self.place(conflict)}: {conflict.type} {conflict.id!r}: {reason}"
        return InvalidInput(Code.INPUT_INVALID, text, type=conflict.type, id=conflict.id)


def resolver(given: object) -> Resolve:
    """Returns the resolver that a caller asks for: a side, a function, or None for nothing.

    Raises:
        InvalidInput: It is neither.
    """
    if given is None:
        return unsettled
    if isinstance(given, str) and given in SIDES:
        side: Side = "ours" if given == "ours" else "theirs"
        return lambda _: side
    if callable(given):
        return _checked(given)
    text = (
        "conflicts are resolved by 'ours', 'theirs', a function, or a file of resolutions "
        f"(.jsonl), not by {given!r:.80}"
    )
    raise InvalidInput(Code.INPUT_INVALID, text)


def _checked(function: Callable[[MergeConflict], object]) -> Resolve:
    def resolve(conflict: MergeConflict) -> Choice | None:
        answer = function(conflict)
        if answer is None or isinstance(answer, Mapping):
            return answer
        if answer == "ours" or answer == "theirs" or answer == "base":  # noqa: PLR1714
            return answer
        text = (
            "resolve answers 'ours', 'theirs', 'base', a dictionary of values or None, "
            f"not {answer!r:.80}"
        )
        raise InvalidInput(Code.INPUT_INVALID, text)

    return resolve


def refused(what: str, conflicts: tuple[MergeConflict, ...]) -> Conflict:
    """The error of an operation that has conflicts. Nothing has changed."""
    count = len(conflicts)
    number = "1 conflict" if count == 1 else f"{count:,} conflicts"
    first = conflicts[0].message
    text = (
        f"{what} gives {number}, the first: {first}; say how to resolve them, or look at all of "
        "them with a dry run"
    )
    listed: list[JsonValue] = [item.as_json() for item in conflicts[:LISTED_CONFLICTS_MAX]]
    return Conflict(Code.MERGE_CONFLICT, text, conflicts=listed, total=count)
