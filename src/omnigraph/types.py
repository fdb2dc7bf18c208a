"""Validated text values: names and identifiers that the layers pass around, and closed choices.

Each is a ``str`` that was checked when it was made, and is not checked again: it sorts, hashes and
serialises as text, while the type checker still refuses an unchecked string in its place.
"""

import re
from enum import StrEnum
from typing import Final, Literal, Self

from omnigraph.errors import Code, InvalidInput

__all__ = [
    "MAIN",
    "ULID",
    "AccessChoice",
    "Actor",
    "BranchName",
    "CommitId",
    "Engine",
    "EngineChoice",
    "IdempotencyKey",
    "InputFormat",
    "LoadMode",
    "Metric",
    "OutputFormat",
    "TagName",
]

AccessChoice = Literal["auto", "dense", "direct"]
"""The way in which a query reaches the data in this process; the answer is the same."""
LoadMode = Literal["append", "merge", "overwrite"]
"""What becomes of entities that the graph has: refused, changed in the named fields, replaced."""
Engine = Literal["inprocess", "spark"]
"""What bulk work runs on."""
EngineChoice = Literal["auto", "inprocess", "spark"]
"""What bulk work is asked to run on; `auto` chooses by the size of the data."""
InputFormat = Literal["ndjson", "csv", "tsv", "parquet", "arrow"]
"""The formats of data files that a load reads."""
OutputFormat = Literal["ndjson", "arrow", "parquet"]
"""The formats of data files that an export writes."""

# 48 bits of time and 80 of chance in Crockford's base 32, without I, L, O and U.
ULID: Final = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")

_SEGMENT: Final = re.compile(r"[A-Za-z0-9_-](?:[A-Za-z0-9._-]*[A-Za-z0-9_-])?")
# Lance keeps one file per branch, named by the URL-encoded branch, and writes it under a longer
# temporary name first. A slash takes five bytes there and file names end at 255: this fits.
_BRANCH_CHARS_MAX: Final = 120
_SLASHES_MAX: Final = 20
_ACTOR_CHARS_MAX: Final = 256
_KEY_CHARS_MAX: Final = 256
_MESSAGE_CHARS_MAX: Final = 4_096


def _text(value: object, what: str) -> str:
    """The value, if it is a text; callers without a type checker hand over anything."""
    if not isinstance(value, str):
        raise InvalidInput(Code.NAME_INVALID, f"{what} is a text, not {type(value).__name__}")
    return value


class Metric(StrEnum):
    """The distance between two vectors, as an index and `nearest` measure it."""

    COSINE = "cosine"
    L2 = "l2"
    DOT = "dot"


class BranchName(str):
    """The name of a branch: segments of letters, digits, ``.``, ``-`` and ``_`` between slashes.

    Only ASCII: two spellings of one accented letter would be two branches on one file system and
    one branch on another. Names that begin with two underscores belong to the system.
    """

    __slots__ = ()

    def __new__(cls, text: str) -> Self:
        """Trim and check the text."""
        name = _text(text, "a branch name").strip()
        if fault := _branch_fault(name):
            raise InvalidInput(Code.NAME_INVALID, f"branch name {text!r} {fault}", name=text)
        return super().__new__(cls, name)


def _branch_fault(name: str) -> str | None:
    if not name:
        return "is empty"
    if len(name) > _BRANCH_CHARS_MAX:
        return f"is longer than {_BRANCH_CHARS_MAX} characters"
    if name.count("/") > _SLASHES_MAX:
        return f"has more than {_SLASHES_MAX} slashes"
    if name.startswith("__"):
        return "begins with '__', which is reserved"
    if name.startswith("/") or name.endswith("/") or "//" in name:
        return "has an empty segment: slashes stand between segments"
    for segment in name.split("/"):
        if not _SEGMENT.fullmatch(segment):
            return (
                f"has the segment {segment!r}: use ASCII letters, digits, '.', '-', '_', "
                "and no '.' at either end"
            )
        # Both are refused by the storage engine, too late and with a puzzling message.
        if ".." in segment or segment.endswith(".lock"):
            return f"has the segment {segment!r}: '..' and '.lock' are reserved"
    return None


class TagName(str):
    """The name of a tag: what a branch may be called, and not spelled like the id of a commit."""

    __slots__ = ()

    def __new__(cls, text: str) -> Self:
        """Trim and check the text."""
        name = _text(text, "a tag name").strip()
        fault = "is spelled like the id of a commit" if ULID.fullmatch(name) else None
        if fault := fault or _branch_fault(name):
            raise InvalidInput(Code.NAME_INVALID, f"tag name {text!r} {fault}", name=text)
        return super().__new__(cls, name)


class CommitId(str):
    """The identifier of a commit: a ULID in its canonical upper-case spelling."""

    __slots__ = ()

    def __new__(cls, text: str) -> Self:
        """Check the text."""
        if not ULID.fullmatch(_text(text, "a commit id")):
            raise InvalidInput(Code.NAME_INVALID, f"{text!r} is not a commit id", name=text)
        return super().__new__(cls, text)


class Actor(str):
    """The actor of an operation. Free text on one line; never interpreted, only recorded."""

    __slots__ = ()

    def __new__(cls, text: str) -> Self:
        """Trim and check the text."""
        name = _text(text, "an actor").strip()
        if not name or len(name) > _ACTOR_CHARS_MAX or not name.isprintable():
            raise InvalidInput(
                Code.NAME_INVALID,
                f"an actor is 1 to {_ACTOR_CHARS_MAX} printable characters",
                name=text,
            )
        return super().__new__(cls, name)


class IdempotencyKey(str):
    """A caller's name of one operation. Taken as it is: two keys are equal or they are not."""

    __slots__ = ()

    def __new__(cls, text: str) -> Self:
        """Check the text."""
        key = _text(text, "an idempotency key")
        if not key or len(key) > _KEY_CHARS_MAX or not key.isprintable():
            message = f"an idempotency key is 1 to {_KEY_CHARS_MAX} printable characters"
            raise InvalidInput(Code.NAME_INVALID, message)
        return super().__new__(cls, key)


class CommitMessage(str):
    """The subject of a commit, as its author wrote it. Recorded, never interpreted."""

    __slots__ = ()

    def __new__(cls, text: str) -> Self:
        """Check the text."""
        message = _text(text, "a message")
        if len(message) > _MESSAGE_CHARS_MAX or not message.strip() or "\0" in message:
            said = f"a message is 1 to {_MESSAGE_CHARS_MAX:,} characters, not all of them blank"
            raise InvalidInput(Code.NAME_INVALID, said)
        return super().__new__(cls, message)


MAIN: Final = BranchName("main")
