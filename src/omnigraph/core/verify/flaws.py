"""Flaws: what a verification finds, one by one."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Aspect(StrEnum):
    """The parts of a graph that are verified."""

    MANIFEST = "manifest"
    LINEAGE = "lineage"
    SCHEMA = "schema"
    PIN = "pin"
    ROW_COUNT = "row_count"
    DRIFT = "drift"
    FORK = "fork"
    INTENT = "intent"
    FILE = "file"
    INDEX = "index"
    ROWS = "rows"
    KEY = "key"
    ENDPOINT = "endpoint"


@dataclass(frozen=True, slots=True, kw_only=True)
class Flaw:
    """Something that is not as it should be.

    Attributes:
        aspect: What was verified.
        place: The file, folder or branch that it is about.
        text: What is wrong, and what to do.
        is_harmless: Nothing is lost or wrong; somebody may still want to know.
    """

    aspect: Aspect
    place: str
    text: str
    is_harmless: bool = False
