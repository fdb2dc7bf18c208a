"""A strict JSON reader: keeps digits and repeated members, which `json` hides."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

DEPTH_MAX: Final = 64
MEMBERS_MAX: Final = 65_536

_SPACE: Final = b" \t\r\n"
_TOKEN: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)


class Number(str):
    """A number as it was written, so that no digit is lost."""

    __slots__ = ()


class Integer(Number):
    """A number without a fraction and without an exponent."""

    __slots__ = ()


class Real(Number):
    """Any other number."""

    __slots__ = ()


class Constant(str):
    """`NaN`, `Infinity` or `-Infinity`: widely written, but not JSON."""

    __slots__ = ()


class Repeating(dict[str, "Json"]):
    """An object that has members of the same name; the last one counts."""

    __slots__ = ("names",)

    def __init__(self, pairs: list[tuple[str, Json]]) -> None:
        """Take the members as they were written."""
        super().__init__(pairs)
        counts = Counter(name for name, _ in pairs)
        self.names = tuple(name for name, count in counts.items() if count > 1)


# Texts are exactly `str`.
Json: TypeAlias = "Mapping[str, Json] | Sequence[Json] | str | bool | None"


class MalformedJson(Exception):
    """A line is not JSON; the message says why."""


def read_line(line: bytes) -> Json:
    """Read the one value of a line that is not blank.

    Raises:
        MalformedJson: There is no such value, or it is too deep or too wide.
    """
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        byte = line[error.start]
        raise MalformedJson(f"not UTF-8: byte 0x{byte:02x} at byte {error.start + 1}") from None
    if _is_deep(line):
        raise MalformedJson(f"nested more than {DEPTH_MAX} levels deep")
    try:
        value: Json = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        if error.msg == "Extra data":
            rest = f"something follows it at character {error.pos + 1}"
            raise MalformedJson(f"a line is one value, but {rest}") from None
        raise MalformedJson(f"not JSON: {_plain(error.msg)} at character {error.pos + 1}") from None
    return value


def is_blank(line: bytes) -> bool:
    """True if there is nothing but white space."""
    return not line.strip(_SPACE)


def _is_deep(line: bytes) -> bool:
    """True if the value is nested too deeply; recursion limits would depend on the caller."""
    if line.count(b"[") + line.count(b"{") <= DEPTH_MAX:
        return False
    depth = 0
    for match in _TOKEN.finditer(line):
        token = match[0]
        if token in b"[{":
            depth += 1
            if depth > DEPTH_MAX:
                return True
        elif token in b"]}":
            depth -= 1
    return False


def _plain(message: str) -> str:
    return message[:1].lower() + message[1:].removesuffix(": ").removesuffix(" at")


def _members(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    if len(pairs) > MEMBERS_MAX:
        raise MalformedJson(f"an object with more than {MEMBERS_MAX} members")
    members = dict(pairs)
    return members if len(members) == len(pairs) else Repeating(pairs)


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_members, parse_float=Real, parse_int=Integer, parse_constant=Constant
)
