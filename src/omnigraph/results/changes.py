"""Changes of entities: of a diff, of the change feed, of the history of one entity."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from omnigraph.dataplane.counts import ChangeCounts
from omnigraph.results.commits import Commit

OperationName = Literal["insert", "update", "delete"]

SIGNS: Final = {"insert": "+", "update": "~", "delete": "-"}
_COLORS: Final = {"insert": "\x1b[32m", "update": "\x1b[33m", "delete": "\x1b[31m"}
_PLAIN: Final = "\x1b[0m"
_SHOWN_CHARACTERS_MAX: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The change of one entity.

    Attributes:
        kind: `node` or `edge`.
        type: The type of the entity.
        id: Its id.
        operation: `insert`, `update` or `delete`.
        changed: The properties that an update changed, sorted; `from` and `to` are the ends of an
            edge.
        before: The values before; None for an insert. A blob is shown by its size.
        after: The values after; None for a delete.
    """

    kind: str
    type: str
    id: str
    operation: OperationName
    changed: tuple[str, ...]
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None

    def __str__(self) -> str:
        image = self.after or self.before or {}
        ends = f"  {image['from']!r} -> {image['to']!r}" if self.kind == "edge" else ""
        values = "".join(self._values())
        return f"{SIGNS[self.operation]} {self.type} {self.id!r}{ends}{values}"

    def _values(self) -> Iterator[str]:
        if self.before is not None and self.after is not None:
            for name in self.changed:
                yield f"  {name}: {_shown(self.before[name])} -> {_shown(self.after[name])}"
        elif self.after is not None:
            for name, value in self.after.items():
                if value is not None and (self.kind == "node" or name not in ("from", "to")):
                    yield f"  {name}: {_shown(value)}"


def _shown(value: Any) -> str:
    text = "null" if value is None else repr(value) if isinstance(value, str) else str(value)
    if len(text) > _SHOWN_CHARACTERS_MAX:
        return text[: _SHOWN_CHARACTERS_MAX - 1] + "…"
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeEvent:
    """One change, and the commit that made it."""

    commit: Commit
    change: Change


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePage:
    """Some events of a change feed.

    Attributes:
        events: The changes, oldest commit first, in the order of a diff within a commit.
        cursor: Where to go on; keep it once the events are dealt with.
        more: There is more to be read at once.
    """

    events: tuple[ChangeEvent, ...]
    cursor: str
    more: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BlameLine:
    """A commit that changed an entity, and how.

    Attributes:
        commit: The commit; a merge stands for what it brought along, see `merged_parent_id`.
        operation: `insert`, `update` or `delete`.
        changed: The properties that an update changed, sorted.
    """

    commit: Commit
    operation: OperationName
    changed: tuple[str, ...]


def changes_text(
    changes: Iterable[Change], counts: Mapping[str, ChangeCounts], *, color: bool = False
) -> str:
    """Changes as text: a line with the numbers of each type, then a line per entity."""
    lines: list[str] = []
    last = None
    for change in changes:
        key = f"{change.kind}:{change.type}"
        if key != last:
            lines.append(_header(key, counts[key]))
            last = key
        line = str(change)
        lines.append(f"{_COLORS[change.operation]}{line}{_PLAIN}" if color else line)
    return "".join(f"{line}\n" for line in lines)


def _header(key: str, counts: ChangeCounts) -> str:
    numbers = (("+", counts.inserted), ("~", counts.updated), ("-", counts.deleted))
    return f"{key}  " + " ".join(f"{sign}{number:,}" for sign, number in numbers if number)
