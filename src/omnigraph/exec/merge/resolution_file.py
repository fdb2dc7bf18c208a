"""Files of resolutions: JSON lines, one for each conflict of a merge, with the choice made.

A dry run writes the template. A line has the conflict as the error of a merge shows it, the choices
that can settle it, and an empty `choice`. A merge takes a file only as long as it fits the
conflicts that it finds itself.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from omnigraph.errors import Code, InvalidInput, LimitExceeded, NotFound
from omnigraph.exec.merge.conflicts import (
    Choice,
    ConflictKey,
    MergeConflict,
    Resolve,
    Side,
    resolver,
)

# What settles conflicts: a side, a function, or a file of resolutions.
Resolution: TypeAlias = Side | Callable[[MergeConflict], Choice | None] | str | os.PathLike[str]

_FILE_SUFFIX: Final = ".jsonl"
_FILE_BYTES_MAX: Final = 256 << 20
_STATES: Final = ("base", "ours", "theirs")
_NAMES: Final = ("kind", "entity_kind", "type_name", "entity_id", "properties", *_STATES)


def file_of(given: object) -> Path | None:
    """The file of resolutions that a caller names; None if it is something else."""
    is_path = isinstance(given, os.PathLike)
    if is_path or (isinstance(given, str) and given.endswith(_FILE_SUFFIX)):
        return Path(given)  # type: ignore[arg-type]
    return None


def read_text(path: Path) -> str:
    """The text of a file of resolutions.

    Raises:
        InvalidInput: It is no text.
        LimitExceeded: It is too large.
        NotFound: There is no such file.
    """
    try:
        size = path.stat().st_size
        if size > _FILE_BYTES_MAX:
            text = f"{path} has {size:,} bytes, a file of resolutions at most {_FILE_BYTES_MAX:,}"
            raise LimitExceeded(
                Code.LIMIT_EXCEEDED, text, bound="resolution_file_bytes", limit=_FILE_BYTES_MAX
            )
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InvalidInput(Code.INPUT_INVALID, f"{path} is no text in UTF-8") from error
    except OSError as error:
        text = f"the file of resolutions {path} cannot be read: {error.strerror}"
        raise NotFound(Code.FILE_NOT_FOUND, text, path=str(path)) from error


def template(
    conflicts: Iterable[MergeConflict], settled: Iterable[tuple[MergeConflict, Choice]] = ()
) -> Iterator[str]:
    """Yield the lines of a file: conflicts with the choices made for them, then open ones."""
    for conflict, choice in settled:
        if isinstance(choice, Mapping):
            yield _line(conflict, "value", choice)
        else:
            yield _line(conflict, choice, None)
    for conflict in conflicts:
        yield _line(conflict, None, None)


def _line(conflict: MergeConflict, choice: str | None, value: Mapping[str, Any] | None) -> str:
    data = conflict.as_json() | {"choices": list(conflict.choices), "choice": choice}
    data["value"] = None if value is None else dict(value)
    return json.dumps(data, ensure_ascii=False, default=str) + "\n"


@dataclass(frozen=True, slots=True)
class ResolutionLine:
    """One line of a file.

    Attributes:
        line: Its number, from 1.
        key: The conflict.
        states: What the conflict was when the line was written, as one text.
        choice: What settles it; None while it is open.
    """

    line: int
    key: ConflictKey
    states: str
    choice: Choice | None


class ResolutionFile:
    """The resolutions of a file, by conflict."""

    def __init__(self, name: str, resolutions: Sequence[ResolutionLine]) -> None:
        """Take the lines of the file of this name.

        Raises:
            InvalidInput: Two lines are about one conflict.
        """
        self.name = name
        self._lines: dict[ConflictKey, ResolutionLine] = {}
        for item in resolutions:
            first = self._lines.setdefault(item.key, item)
            if first is not item:
                text = f"the conflict of line {first.line} has a second line"
                raise _refused(name, item.line, text)

    @classmethod
    def parse(cls, name: str, text: str) -> ResolutionFile:
        """Read lines of JSON; empty lines are skipped.

        Raises:
            InvalidInput: A line is none of such a file; the error tells which.
        """
        found = [
            _parsed(name, number, line)
            for number, line in enumerate(text.split("\n"), 1)
            if line.strip()
        ]
        return cls(name, found)

    def __call__(self, conflict: MergeConflict) -> Choice | None:
        """The choice for a conflict; None when there is no line or no choice for it.

        Raises:
            InvalidInput: The conflict is not what it was when the file was written.
        """
        found = self._lines.get(conflict.key)
        if found is None:
            return None
        if found.states != _states(conflict.as_json()):
            text = "the values have changed since this line was written; write the file again"
            raise _refused(self.name, found.line, f"{conflict.type} {conflict.id!r}: {text}")
        return found.choice

    def place(self, conflict: MergeConflict) -> str:
        """The line about a conflict, for errors."""
        found = self._lines.get(conflict.key)
        return self.name if found is None else f"{self.name}, line {found.line}"

    def not_among(self, keys: Iterable[ConflictKey]) -> list[ResolutionLine]:
        """The lines about other conflicts than these."""
        known = set(keys)
        return [item for key, item in self._lines.items() if key not in known]

    def check_complete(self, left: Sequence[MergeConflict]) -> None:
        """Refuse conflicts that are left because their lines have no choice.

        Raises:
            InvalidInput: There is one.
        """
        for conflict in left:
            found = self._lines.get(conflict.key)
            if found is not None and found.choice is None:
                choices = ", ".join(conflict.choices)
                text = f"{conflict.type} {conflict.id!r} has no choice; it is one of: {choices}"
                raise _refused(self.name, found.line, text)

    def surplus(self, resolution: ResolutionLine) -> InvalidInput:
        """The error about a line whose conflict does not exist."""
        kind, _, type_name, name, _ = resolution.key
        text = f"there is no {kind} of {type_name} {name!r} in this merge"
        return _refused(self.name, resolution.line, text)


def _parsed(name: str, number: int, line: str) -> ResolutionLine:
    try:
        data = json.loads(line)
    except ValueError as error:
        raise _refused(name, number, "this is not a line of JSON") from error
    if not isinstance(data, dict) or any(key not in data for key in _NAMES):
        raise _refused(name, number, f"a conflict has the fields {', '.join(_NAMES)}")
    if not isinstance(data["properties"], list) or not isinstance(data["entity_id"], str | None):
        raise _refused(name, number, "`properties` is a list of names, `entity_id` a text")
    key = (
        str(data["kind"]),
        str(data["entity_kind"]),
        str(data["type_name"]),
        data["entity_id"],
        tuple(map(str, data["properties"])),
    )
    return ResolutionLine(number, key, _states(data), _choice(name, number, data))


def _choice(name: str, number: int, data: Mapping[str, Any]) -> Choice | None:
    choice, value = data.get("choice"), data.get("value")
    if choice == "value":
        if isinstance(value, dict):
            return value
        raise _refused(name, number, "with the choice 'value', `value` is an object of properties")
    if value is not None:
        raise _refused(name, number, f"a value is given, but the choice is {choice!r:.80}")
    if choice is None or choice in _STATES:
        return choice
    text = f"the choice is 'ours', 'theirs', 'base' or 'value', not {choice!r:.80}"
    raise _refused(name, number, text)


def _states(data: Mapping[str, Any]) -> str:
    """The three states as a text that is the same for the same states."""
    return json.dumps([data[name] for name in _STATES], sort_keys=True)


def _refused(name: str, line: int, text: str) -> InvalidInput:
    return InvalidInput(Code.INPUT_INVALID, f"{name}, line {line}: {text}", file=name, line=line)


def as_resolve(given: Resolution | None) -> Resolve:
    """The resolution of conflicts; a file is read.

    Raises:
        InvalidInput: It is nothing of that kind, or a line of the file is wrong.
        NotFound: There is no such file.
    """
    if isinstance(given, ResolutionFile):
        return given
    path = file_of(given)
    return resolver(given) if path is None else ResolutionFile.parse(str(path), read_text(path))
