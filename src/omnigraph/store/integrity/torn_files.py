"""The difference between a file that a power cut left unfinished and one that is damaged.

A file that gets its name before its content is on disk may be empty, cut short or full of zeros
after a power cut. We never do that; other programs that use Lance, and older releases, do. Such a
file is *torn*: its writer never came to the point of acknowledging it. A file that is as long as it
should be and cannot be read is not torn but damaged, and may well have been acknowledged.
"""

import json
from enum import StrEnum
from typing import Any

from omnigraph.store.integrity.version_checksums import FOOTER, LENGTH, MAGIC

__all__ = ["Condition", "condition_of_manifest", "condition_of_record"]


class Condition(StrEnum):
    """The conditions of a file that its bytes show."""

    WHOLE = "whole"
    TORN = "torn"
    DAMAGED = "damaged"


def condition_of_manifest(data: bytes) -> Condition:
    """Judge a version file by its footer: it is written last and says how long the rest is."""
    if not data.rstrip(b"\0"):
        return Condition.TORN
    if len(data) < FOOTER.size + LENGTH.size:
        return Condition.TORN
    start, _, _, magic = FOOTER.unpack(data[-FOOTER.size :])
    fits = _fits(data, start)
    if magic == MAGIC:
        return Condition.WHOLE if fits else Condition.DAMAGED
    # With the rest of the footer in place, only the magic itself can have changed.
    return Condition.DAMAGED if fits else Condition.TORN


def _fits(data: bytes, start: int) -> bool:
    end = len(data) - FOOTER.size
    if start + LENGTH.size > end:
        return False
    (length,) = LENGTH.unpack_from(data, start)
    return bool(start + LENGTH.size + length == end)


def condition_of_record(data: bytes) -> Condition:
    """Judge the record of a fork: a JSON object, of which a cut leaves at most the beginning."""
    text = data.rstrip(b"\0").rstrip()
    if not text.endswith(b"}") or len(text) < len(data.rstrip()):
        return Condition.TORN
    try:
        plain: Any = json.loads(text)
    except ValueError:
        # It may be cut short just behind an inner brace.
        return Condition.TORN if text.count(b"{") > text.count(b"}") else Condition.DAMAGED
    return Condition.WHOLE if isinstance(plain, dict) else Condition.DAMAGED
